"""The judge is not the pull request's: its files are read from where the pull request starts.

On ``pull_request`` and ``merge_group`` the plan, the prompts, the acceptances and a committed
baseline are those of the merge-base, and whatever the pull request changes about them is told.
Knows which file is used and why; how the merge-base is read it is given. I/O: reads the workspace
and writes copies into a folder of its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from iqaction import acceptance, inputs
from iqaction.action import _compare, _head, _lfs
from iqaction.action.collecting import FOREIGN, Base, Collecting, ReadFolder, not_compared, usable
from iqaction.document import Listing, parse
from iqaction.errors import ConfigError, GithubError
from iqaction.inputs import Request
from iqaction.report import Acceptance, Difference

ACCEPT = ".inferquality/accept.yml"
INLINE = "the-stages-input.yml"  # what the input's text is called as a file
_PLAN_BYTES = 4 * 1024 * 1024
_PROMPT_BYTES = 64 * 1024 * 1024
_ACCEPT_BYTES = 1024 * 1024
_LFS_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class Wanted:
    """What the workflow names. A ``baseline`` that is no path ("auto", a URL) is not ours."""

    plan: str = ""
    inline_stages: str = ""
    baseline: str = ""
    accept: str = ACCEPT


@dataclass(frozen=True)
class Protected:
    """What is used.

    Attributes
    ----------
    plan
        None: the plan that ships with the package.
    baseline
        None: no folder of that name is here or was there.
    differences
        What the pull request changes, or that this could not be found out.
    notes
        For the log: nothing that a verdict depends on.
    """

    plan: Path | None = None
    baseline: Path | None = None
    acceptances: tuple[Acceptance, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


def collect(
    request: Wanted,
    base: Base,
    workspace: Path,
    into: Path,
    changed: frozenset[str] | None = None,
) -> Protected:
    """The files of the merge-base, written below ``into`` under the paths they have there.

    Parameters
    ----------
    workspace
        The root of the repository that is checked out.
    changed
        Every path that the pull request adds, changes, removes or renames (the old name too);
        None where that is not known. What differs on another path is not its doing: the base
        branch has moved on, or a step of the job wrote it.

    Raises
    ------
    ConfigError
        A path that leads out of the workspace, a file that is nowhere, a mistake in a file of
        the merge-base.
    """
    work = Collecting(base, workspace, into, changed)
    accepted = _acceptances(work, request.accept)
    plan, asked = _plan(work, request)
    named = request.baseline or asked.baseline
    return Protected(
        plan,
        _baseline(work, named, base.folder),
        accepted,
        tuple(work.differences),
        tuple(work.notes),
    )


def as_it_is(request: Wanted, workspace: Path, into: Path) -> Protected:
    """The workspace's own files, for events that judge no pull request.

    Raises
    ------
    ConfigError
        As :func:`collect`.
    """

    def read(relative: str) -> bytes | None:
        found = _head.read(workspace, relative, _PROMPT_BYTES)
        return None if found == _head.ABSENT else usable(relative, found)

    # The workspace is its own base: nothing can differ. Links are refused as for a pull request,
    # so that a plan which works here works there.
    work = Collecting(Base(read, lambda _: None), workspace, into, frozenset())
    accepted = _acceptances(work, request.accept)
    plan, asked = _plan(work, request)
    return Protected(
        plan, _baseline(work, request.baseline or asked.baseline, lambda _: None), accepted
    )


# --- plan and prompts -----------------------------------------------------------------------


def _plan(work: Collecting, request: Wanted) -> tuple[Path | None, Request]:
    if request.plan and request.inline_stages.strip():
        raise ConfigError(
            "both `plan` and `stages` are given", expected="one of them: a file, or its text"
        )
    if request.inline_stages.strip():
        text = as_plan(request.inline_stages)
        asked = inputs.read_request(text, "the input `stages`")
        _questions(work, asked, "")
        return work.written(INLINE, text.encode()), asked
    if not request.plan:
        return None, Request(())
    path = _head.place(request.plan, work.workspace, "plan")
    if path is None:
        outside = Path(request.plan)
        asked = inputs.read_request(
            _text(_outside(outside, _PLAN_BYTES), str(outside)), outside.name
        )
        _questions_outside(work, asked, outside)
        return outside, asked
    data = work.file("plan", path, _PLAN_BYTES)
    asked = inputs.read_request(_text(data, path), path)
    _questions(work, asked, posixpath.dirname(path))
    return work.written(path, data), asked


def as_plan(text: str) -> str:
    """The input may be a whole plan, or only its list of stages."""
    return "stages:\n" + text if isinstance(parse(text, "the input `stages`"), Listing) else text


def _questions(work: Collecting, asked: Request, folder: str) -> None:
    """Copies prompts and the stages' own data to where a plan in ``folder`` looks for them."""
    for key, name in inputs.files(asked):
        if posixpath.isabs(name):
            if _head.place(name, work.workspace, key) is not None:
                raise ConfigError(
                    f"{key}: {name[:120]!r} is an absolute path into the workspace",
                    expected="a path relative to the plan",
                )
            continue
        parts = PurePosixPath(name).parts
        if ".." in parts[len([p for p in parts if p == ".."]) :]:
            raise ConfigError(
                f"{key}: {name[:120]!r} goes down and up again", expected="a plain path"
            )
        path = _head.place(posixpath.join(folder, name), work.workspace, key)
        assert path is not None  # it is relative
        work.written(path, work.file("prompts", path, _PROMPT_BYTES))


def _questions_outside(work: Collecting, asked: Request, plan: Path) -> None:
    """A plan outside the workspace may not take its questions from within, unprotected."""
    for key, name in inputs.files(asked):
        if _head.place(str(plan.parent / name), work.workspace, key):
            raise ConfigError(
                f"{key}: the plan {plan} is outside the workspace and its questions are inside",
                expected="both in the repository, or both outside",
            )


def _outside(path: Path, limit: int) -> bytes:
    found = _head.read(path.parent, path.name, limit)
    return usable(str(path), found)


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8 ({exc.reason})", expected="UTF-8") from exc


# --- baseline and acceptances ---------------------------------------------------------------


def _baseline(work: Collecting, name: str, base_folder: ReadFolder) -> Path | None:
    if name in ("", "auto") or "://" in name:
        return None
    path = _head.place(name, work.workspace, "baseline")
    if path is None:
        return Path(name)
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


def _acceptances(work: Collecting, name: str) -> tuple[Acceptance, ...]:
    """Those of the merge-base alone. Where they cannot be read, nothing is accepted."""
    if not name:
        return ()
    path = _head.place(name, work.workspace, "accept")
    if path is None:
        outside = Path(name)
        return acceptance.read(_text(_outside(outside, _ACCEPT_BYTES), name), name)
    try:
        data = work.base.read(path)
        now = work.base.tip(path) if data is not None and work.base.tip else data
        if any(text is not None and _lfs.is_pointer(text) for text in (data, now)):
            raise GithubError("git-lfs keeps it, commit it as a plain file")
    except GithubError as exc:
        work.notes.append(f"{path}: cannot be read ({exc.happened}); nothing is accepted")
        return ()
    if _head.read(work.workspace, path, _ACCEPT_BYTES).data != data and work.theirs(path):
        work.notes.append(
            f"{path}: a pull request cannot accept for itself; the base branch's holds"
        )
    if data is None:
        return ()
    accepted = _accepting(data, path)
    if now == data:
        return accepted
    # A maintainer who takes a word back takes it back for the pull requests that are open, too.
    standing = () if now is None else _accepting(now, path)
    gone = sum(entry not in standing for entry in accepted)
    if gone:
        work.notes.append(f"{path}: {gone} entries no longer stand on the base branch")
    return tuple(entry for entry in accepted if entry in standing)


def _accepting(data: bytes, path: str) -> tuple[Acceptance, ...]:
    if len(data) > _ACCEPT_BYTES:
        raise ConfigError(f"{path}: larger than {_ACCEPT_BYTES} bytes", expected="fewer entries")
    return acceptance.read(_text(data, path), path)
