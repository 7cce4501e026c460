"""The baseline that is committed: at a path that is named, or where it is looked for.

Of a pull request it is the merge-base's, as all of the judge. Knows folders and packed files, and
not what is in them. I/O: reads the workspace and writes copies into a folder of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iqaction.action import _compare, _head, _lfs
from iqaction.action.collecting import FOREIGN, Collecting, ReadFolder, not_compared
from iqaction.errors import ConfigError, GithubError
from iqaction.evidence.bundle import SUFFIXES

PLACES = (".inferquality/baseline", ".inferquality/baseline.tar.gz")
_LFS_BYTES = 512 * 1024 * 1024
_BUNDLE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Committed:
    """What was found in :data:`PLACES`, and what was not, in plain words."""

    path: Path | None = None
    searched: tuple[str, ...] = ()


def at_the_base(work: Collecting, base_folder: ReadFolder) -> Committed:
    """The one that the merge-base has. What only the pull request has is not taken: it would
    judge itself."""
    said = []
    for place in PLACES:
        try:
            folder = None if place.endswith(SUFFIXES) else base_folder(place)
            there = folder or (place.endswith(SUFFIXES) and work.base.read(place) is not None)
        except GithubError as exc:
            said.append(f"committed: {place} of the merge-base cannot be read: {exc.happened}")
            continue
        if there:
            found = named(work, place, _already(folder))
            return Committed(found, (*said, f"committed: {place} of the merge-base is taken"))
        brings = _is_here(work.workspace, place) and work.theirs(place)
        more = "; the pull request brings one, which is not taken" if brings else ""
        said.append(f"committed: the merge-base has no {place}{more}")
    return Committed(None, tuple(said))


def in_the_checkout(work: Collecting) -> Committed:
    """The one of the checkout, for events that judge no pull request."""
    for place in PLACES:
        found = named(work, place, lambda _: None)
        if found is not None:
            return Committed(found, (f"committed: {place} is taken",))
    return Committed(None, tuple(f"committed: there is no {place}" for place in PLACES))


def _already(folder: Mapping[str, bytes] | None) -> ReadFolder:
    return lambda path: folder


def _is_here(workspace: Path, place: str) -> bool:
    return (workspace / place).exists()


def named(work: Collecting, name: str, base_folder: ReadFolder) -> Path | None:
    """The baseline at a path that somebody named; None where nothing is there.

    Raises
    ------
    ConfigError
        It leads out of the workspace, or is neither a folder nor a file.
    """
    if "://" in name:
        return None
    path = _head.place(name, work.workspace, "baseline")
    if path is None:
        return Path(name)
    if path.lower().endswith(SUFFIXES):
        return _bundle(work, path)
    head = _head.listed(work.workspace, path)
    here = work.workspace / path
    try:
        base = base_folder(path)
    except GithubError as exc:
        work.differ("baseline", path, not_compared(exc))
        return here if head is not None and "" not in head else None
    base = base and _without_pointers(work, path, base, head or {})
    if not base:
        return _uncommitted(work, path, head)
    if head is None or "" in head:
        said = f"is {head['']} now" if head else "is deleted"
        work.differs("baseline", path, f"{said}; the merge-base's is used")
    else:
        found = _compare.folder(
            base, head, lambda file: _head.sha256(work.workspace, f"{path}/{file}")
        )
        if found:
            work.differs("baseline", path, found)
    for file, data in base.items():
        if file.startswith("/") or {"..", ""} & set(file.split("/")) or "\x00" in file:
            raise ConfigError(f"{path}: the file {file[:120]!r} leads out of the folder")
        work.written(f"{path}/{file}", data)
    return work.into / path


def _without_pointers(
    work: Collecting, path: str, base: Mapping[str, bytes], head: Mapping[str, int | str]
) -> Mapping[str, bytes]:
    """The folder with what git-lfs keeps elsewhere: the workspace's, where it is the same."""
    found = dict(base)
    lacking = []
    for name in [n for n, data in base.items() if _lfs.is_pointer(data)]:
        size = head.get(name)
        data = _head.read(work.workspace, f"{path}/{name}", _LFS_BYTES).data if size else None
        try:
            found[name] = _lfs.content(base[name], data, f"{path}/{name}")
        except GithubError as exc:
            lacking.append(not_compared(exc))
            if data is None:
                del found[name]
            else:
                found[name] = data
    if lacking:
        work.differ("baseline", path, _compare.bounded(lacking))
    return found


def _uncommitted(work: Collecting, path: str, head: Mapping[str, int | str] | None) -> Path | None:
    """A folder that the merge-base lacks: made by a step of the job, or the pull request's."""
    if head is None:
        return None
    if "" in head:
        raise ConfigError(f"baseline: {path} is {head['']}", expected="a folder")
    if not work.base.is_ours:
        work.differ("baseline", path, FOREIGN)
    elif work.theirs(path):
        brings = "may bring its own" if work.changed is None else "brings its own"
        said = f"the pull request {brings}: there is none at the merge-base"
        work.differ("baseline", path, f"{said}\n{_compare.folder({}, head, lambda _: '')}")
    return work.workspace / path


def _bundle(work: Collecting, path: str) -> Path | None:
    """A packed one; None where there is none."""
    head = _head.read(work.workspace, path, _BUNDLE_BYTES)
    if head == _head.ABSENT:
        try:
            if work.base.read(path) is None:
                return None
        except GithubError as exc:
            work.differ("baseline", path, not_compared(exc))
            return None
    return work.written(path, work.file("baseline", path, _BUNDLE_BYTES))
