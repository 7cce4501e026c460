"""The judge is not the pull request's: its files are read from where the pull request starts.

On ``pull_request`` and ``merge_group`` the plan, the prompts, the acceptances and a committed
baseline are those of the merge-base, and whatever the pull request changes about them is told.
Knows which file is used and why; how the merge-base is read it is given. I/O: reads the workspace
and writes copies into a folder of its own.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from iqaction import acceptance, inputs
from iqaction.action import _compare, _head, _lfs
from iqaction.document import Listing, parse
from iqaction.errors import ConfigError, GithubError
from iqaction.inputs import Request
from iqaction.report import Acceptance, Difference

ACCEPT = ".inferquality/accept.yml"
INLINE = "the-stages-input.yml"  # what the input's text is called as a file
BUILT_IN = ("", "default", "demo")  # prompts
_PLAN_BYTES = 4 * 1024 * 1024
_PROMPT_BYTES = 64 * 1024 * 1024
_ACCEPT_BYTES = 1024 * 1024
_LFS_BYTES = 512 * 1024 * 1024
_FOREIGN = (
    "cannot be compared: the merge-base has none at this path, and whether the folder that it is "
    "in is the pull request's repository cannot be told (commit it, or check out with "
    "actions/checkout)"
)

Read = Callable[[str], "bytes | None"]
ReadFolder = Callable[[str], "Mapping[str, bytes] | None"]


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


@dataclass(frozen=True)
class Base:
    """How the merge-base is read: None for what is not there, GithubError where that cannot be
    told.

    Attributes
    ----------
    tip
        Reads the base branch as it is now; None where that is the same commit.
    is_ours
        False where the workspace's files may be another repository's than the merge-base's.
    """

    read: Read
    folder: ReadFolder
    tip: Read | None = None
    is_ours: bool = True


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
    work = _Collecting(base, workspace, into, changed)
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
        return None if found == _head.ABSENT else _usable(relative, found)

    # The workspace is its own base: nothing can differ. Links are refused as for a pull request,
    # so that a plan which works here works there.
    work = _Collecting(Base(read, lambda _: None), workspace, into, frozenset())
    accepted = _acceptances(work, request.accept)
    plan, asked = _plan(work, request)
    return Protected(
        plan, _baseline(work, request.baseline or asked.baseline, lambda _: None), accepted
    )


@dataclass
class _Collecting:
    """One collection under way."""

    base: Base
    workspace: Path
    into: Path
    changed: frozenset[str] | None
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def theirs(self, path: str) -> bool:
        """False where the pull request is known to leave a file or folder alone.

        A path above counts: there a submodule or a link may have taken a folder's place.
        """
        if self.changed is None:
            return True
        return any(f"{p}/".startswith(f"{path}/") or path.startswith(f"{p}/") for p in self.changed)

    def differ(self, what: str, path: str, detail: str) -> None:
        self.differences.append(Difference(what, path, detail))

    def differs(self, what: str, path: str, detail: str) -> None:
        """Tells a difference as the pull request's, or as a note where it is not its doing."""
        if self.theirs(path):
            self.differ(what, path, detail)
        else:
            self.notes.append(
                f"{path}: the workspace's differs from the merge-base's, which is used (the pull "
                "request does not change it: the base branch moved on, or a step wrote it)"
            )

    def file(self, what: str, path: str, limit: int) -> bytes:
        """The bytes of a file that are used: the merge-base's wherever it has one."""
        head = _head.read(self.workspace, path, limit)
        try:
            base = self.base.read(path)
            if base is not None and _lfs.is_pointer(base):
                base = _lfs.content(base, head.data, path)
        except GithubError as exc:
            self.differ(what, path, _not_compared(exc))
            return _usable(path, head)
        if base is None:
            data = _usable(path, head)
            if not self.base.is_ours:
                self.differ(what, path, _FOREIGN)
            elif self.theirs(path):
                said = "the pull request brings its own: there is none at the merge-base"
                self.differ(what, path, f"{said}\n{_compare.change(b'', data)}")
            return data
        if len(base) > limit:
            raise ConfigError(f"{path} at the merge-base: larger than {limit} bytes")
        if head.data is None:
            said = f"is {head.note} now" if head.note else "is deleted"
            self.differs(what, path, f"{said}; the merge-base's is used")
        elif head.data != base:
            self.differs(what, path, _compare.change(base, head.data))
        return base

    def written(self, path: str, data: bytes) -> Path:
        target = self.into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return target


# --- plan and prompts -----------------------------------------------------------------------


def _plan(work: _Collecting, request: Wanted) -> tuple[Path | None, Request]:
    if request.plan and request.inline_stages.strip():
        raise ConfigError(
            "both `plan` and `stages` are given", expected="one of them: a file, or its text"
        )
    if request.inline_stages.strip():
        text = as_plan(request.inline_stages)
        asked = inputs.read_request(text, "the input `stages`")
        _prompts(work, asked.prompts, "")
        return work.written(INLINE, text.encode()), asked
    if not request.plan:
        return None, Request(())
    path = _head.place(request.plan, work.workspace, "plan")
    if path is None:
        outside = Path(request.plan)
        asked = inputs.read_request(
            _text(_outside(outside, _PLAN_BYTES), str(outside)), outside.name
        )
        _prompts_outside(work, asked.prompts, outside)
        return outside, asked
    data = work.file("plan", path, _PLAN_BYTES)
    asked = inputs.read_request(_text(data, path), path)
    _prompts(work, asked.prompts, posixpath.dirname(path))
    return work.written(path, data), asked


def as_plan(text: str) -> str:
    """The input may be a whole plan, or only its list of stages."""
    return "stages:\n" + text if isinstance(parse(text, "the input `stages`"), Listing) else text


def _prompts(work: _Collecting, name: str, folder: str) -> None:
    """Copies the prompt file to where a plan in ``folder`` looks for it."""
    if name in BUILT_IN:
        return
    key = "trajectory.prompts"
    if posixpath.isabs(name):
        if _head.place(name, work.workspace, key) is not None:
            raise ConfigError(
                f"{key}: {name[:120]!r} is an absolute path into the workspace",
                expected="a path relative to the plan",
            )
        return
    parts = PurePosixPath(name).parts
    if ".." in parts[len([p for p in parts if p == ".."]) :]:
        raise ConfigError(f"{key}: {name[:120]!r} goes down and up again", expected="a plain path")
    path = _head.place(posixpath.join(folder, name), work.workspace, key)
    assert path is not None  # it is relative
    work.written(path, work.file("prompts", path, _PROMPT_BYTES))


def _prompts_outside(work: _Collecting, name: str, plan: Path) -> None:
    """A plan outside the workspace may not take its prompts from within, unprotected."""
    key = "trajectory.prompts"
    if name not in BUILT_IN and _head.place(str(plan.parent / name), work.workspace, key):
        raise ConfigError(
            f"{key}: the plan {plan} is outside the workspace and its prompts are inside",
            expected="both in the repository, or both outside",
        )


def _outside(path: Path, limit: int) -> bytes:
    found = _head.read(path.parent, path.name, limit)
    return _usable(str(path), found)


def _usable(path: str, found: _head.Found) -> bytes:
    if found.data is None:
        raise ConfigError(
            f"{path}: {f'it is {found.note}' if found.note else 'no such file'}",
            expected="a plain file of the repository",
        )
    return found.data


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8 ({exc.reason})", expected="UTF-8") from exc


# --- baseline and acceptances ---------------------------------------------------------------


def _baseline(work: _Collecting, name: str, base_folder: ReadFolder) -> Path | None:
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
        work.differ("baseline", path, _not_compared(exc))
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
    work: _Collecting, path: str, base: Mapping[str, bytes], head: Mapping[str, int | str]
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
            lacking.append(_not_compared(exc))
            if data is None:
                del found[name]
            else:
                found[name] = data
    if lacking:
        work.differ("baseline", path, _compare.bounded(lacking))
    return found


def _uncommitted(work: _Collecting, path: str, head: Mapping[str, int | str] | None) -> Path | None:
    """A folder that the merge-base lacks: made by a step of the job, or the pull request's."""
    if head is None:
        return None
    if "" in head:
        raise ConfigError(f"baseline: {path} is {head['']}", expected="a folder")
    if not work.base.is_ours:
        work.differ("baseline", path, _FOREIGN)
    elif work.theirs(path):
        brings = "may bring its own" if work.changed is None else "brings its own"
        said = f"the pull request {brings}: there is none at the merge-base"
        work.differ("baseline", path, f"{said}\n{_compare.folder({}, head, lambda _: '')}")
    return work.workspace / path


def _acceptances(work: _Collecting, name: str) -> tuple[Acceptance, ...]:
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


def _not_compared(exc: GithubError) -> str:
    return f"could not be compared with the merge-base's: {exc.happened}"
