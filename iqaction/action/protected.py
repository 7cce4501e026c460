"""The judge is not the pull request's: its files are read from where the pull request starts.

On ``pull_request`` and ``merge_group`` the plan, the prompts, the acceptances and a committed
baseline are those of the merge-base, and whatever the pull request changes about them is told.
Knows which file is used and why; how the merge-base is read it is given. I/O: reads the workspace
and writes copies into a folder of its own.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from iqaction import acceptance, anchor, inputs, sources
from iqaction.action import _head, _lfs, committed
from iqaction.action.collecting import Base, Collecting, usable
from iqaction.action.committed import Committed
from iqaction.counts import counted
from iqaction.document import Listing, parse
from iqaction.errors import ConfigError, GithubError
from iqaction.inputs import Request
from iqaction.report import Acceptance, Difference

ACCEPT = ".inferquality/accept.yml"
INLINE = "the-stages-input.yml"  # what the input's text is called as a file
_PLAN_BYTES = 4 * 1024 * 1024
_PROMPT_BYTES = 64 * 1024 * 1024
_ACCEPT_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Wanted:
    """What the workflow names. A ``baseline`` that is "" or "auto" is the plan's, or is looked
    for where one is committed."""

    plan: str = ""
    inline_stages: str = ""
    baseline: str = ""
    accept: str = ACCEPT
    search: bool = True  # whether a baseline that nobody names is wanted


@dataclass(frozen=True)
class Protected:
    """What is used.

    Attributes
    ----------
    plan
        None: the plan that ships with the package.
    baseline
        A folder or a packed file; None: none of that name is here or was there.
    named
        The baseline's path as the workflow or the plan names it; "" where it is looked for.
    searched
        Where one that is not named was looked for.
    is_anchored
        True where the plan takes the pinned baseline only.
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
    named: str = ""
    searched: tuple[str, ...] = ()
    is_anchored: bool = False


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
    pinned = _pinned(work, request, plan, asked)
    named = baseline_named(request.baseline, asked.baseline, pinned)
    if named or not request.search:
        found = Committed(committed.named(work, named, base.folder) if named else None)
    else:
        found = committed.at_the_base(work, base.folder)
    return Protected(
        plan,
        found.path,
        accepted,
        tuple(work.differences),
        tuple(work.notes),
        named,
        found.searched,
        bool(asked.anchor),
    )


def _pinned(work: Collecting, request: Wanted, plan: Path | None, asked: Request) -> str:
    """Where the plan's anchor keeps the pinned baseline, "" where there is no anchor, or where
    that baseline is an artifact.

    Raises
    ------
    ConfigError
        The anchor cannot be read.
    """
    if not asked.anchor:
        return ""
    held = sources.anchor_file(asked, plan)
    if held.bundle == anchor.ARTIFACT:
        return ""
    folder = Path()
    if request.plan:
        inside = _head.place(request.plan, work.workspace, "plan")
        folder = Path(inside or request.plan).parent
    return posixpath.normpath(str(folder / posixpath.dirname(asked.anchor) / held.bundle))


def baseline_named(*names: str) -> str:
    """The first of them that names a baseline; "" where it is to be looked for."""
    return next((name for name in names if name.lower() not in ("", "auto")), "")


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
    pinned = _pinned(work, request, plan, asked)
    named = baseline_named(request.baseline, asked.baseline, pinned)
    if named or not request.search:
        found = Committed(committed.named(work, named, lambda _: None) if named else None)
    else:
        found = committed.in_the_checkout(work)
    return Protected(
        plan,
        found.path,
        accepted,
        named=named,
        searched=found.searched,
        is_anchored=bool(asked.anchor),
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


# --- acceptances ----------------------------------------------------------------------------


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
        said = counted(gone, "entry no longer stands", "entries no longer stand")
        work.notes.append(f"{path}: {said} on the base branch")
    return tuple(entry for entry in accepted if entry in standing)


def _accepting(data: bytes, path: str) -> tuple[Acceptance, ...]:
    if len(data) > _ACCEPT_BYTES:
        raise ConfigError(f"{path}: larger than {_ACCEPT_BYTES} bytes", expected="fewer entries")
    return acceptance.read(_text(data, path), path)
