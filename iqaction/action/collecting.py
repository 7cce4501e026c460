"""One file of the judge: the merge-base's, and what is told where the workspace's is another.

Knows a path and two readings of it; not what the file is for. I/O: reads the workspace, writes
copies into a folder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from iqaction.action import _compare, _head, _lfs
from iqaction.errors import ConfigError, GithubError
from iqaction.report import Difference

FOREIGN = (
    "cannot be compared: the merge-base has none at this path, and whether the folder that it is "
    "in is the pull request's repository cannot be told (commit it, or check out with "
    "actions/checkout)"
)

Read = Callable[[str], "bytes | None"]
ReadFolder = Callable[[str], "Mapping[str, bytes] | None"]


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


@dataclass
class Collecting:
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
            self.differ(what, path, not_compared(exc))
            return usable(path, head)
        if base is None:
            data = usable(path, head)
            if not self.base.is_ours:
                self.differ(what, path, FOREIGN)
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


def usable(path: str, found: _head.Found) -> bytes:
    """The bytes of a file. Raises ConfigError for a link, a device or a huge one."""
    if found.data is None:
        raise ConfigError(
            f"{path}: {f'it is {found.note}' if found.note else 'no such file'}",
            expected="a plain file of the repository",
        )
    return found.data


def not_compared(exc: GithubError) -> str:
    """Why a file could not be compared, for a difference."""
    return f"could not be compared with the merge-base's: {exc.happened}"
