"""What lies in the checked-out workspace, read as a stranger's. I/O, reading only.

The workspace is the pull request's: a plan there may be a symbolic link to a file of the runner,
a named pipe, or endless. Knows paths and bytes; not what they mean, and not what they should be.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from iqaction.errors import ConfigError

MAX_FILES = 10_000  # of a folder
_MAX_DEPTH = 16
_MAX_STEPS = 400  # of a path, with those of the links on its way
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SHOWN = 120


@dataclass(frozen=True)
class Found:
    """A file of the workspace. Without ``data`` it is absent, or ``note`` says what is there
    in its place."""

    data: bytes | None = None
    note: str = ""


ABSENT = Found()


def place(path: str, workspace: Path, key: str) -> str | None:
    """The path as the repository names it, as "ci/plan.yml"; None for one outside the workspace.

    A relative path starts at the workspace. ``key`` names the input in errors.

    Raises
    ------
    ConfigError
        A relative path that leads out, the workspace itself, git's own folder, control
        characters.
    """
    if _CONTROL.search(path):
        raise ConfigError(f"{key}: control characters in the path", expected="a path")
    if posixpath.isabs(path):
        root, target = workspace.resolve(), _resolved(Path(path), key)
        if root != target and root not in target.parents:
            return None
        relative = target.relative_to(root).as_posix()
    else:
        relative = posixpath.normpath(path)
    parts = relative.split("/")
    if parts[0] == ".." or relative == "." or ".git" in relative.lower().split("/"):
        raise ConfigError(
            f"{key}: {path[:_SHOWN]!r} "
            + (
                "leads out of the workspace" if parts[0] == ".." else "is no file of the repository"
            ),
            expected="a path within the repository, or an absolute path outside the workspace",
        )
    return relative


def repositories(workspace: Path, relative: str) -> tuple[Path, ...]:
    """The folders above a path of the workspace that are a repository's root, nearest first.

    One behind a symbolic link is none of them: a link may be the pull request's.
    """
    found = []
    for parent in PurePosixPath(relative).parents:
        folder = workspace / parent
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            is_linked = folder.resolve() != workspace.resolve() / parent
            if not is_linked and os.path.lexists(folder / ".git"):
                found.append(folder)
    return tuple(found)


def on_the_way(root: Path, relative: str) -> tuple[str, ...]:
    """All paths within ``root`` that a change can lead another file through: the path itself,
    each symbolic link on its way, and where it ends."""
    start = root.resolve()
    found = [posixpath.normpath(relative)]
    left, at = posixpath.join(str(start), relative).split("/"), "/"
    for _ in range(_MAX_STEPS):
        if not left:
            break
        at = posixpath.normpath(posixpath.join(at, left.pop(0)))
        try:
            target = os.readlink(at)
        except (OSError, ValueError):
            continue
        found.append(posixpath.relpath(at, start))
        at, left = posixpath.dirname(at), [*target.split("/"), *left]
        if target.startswith("/"):
            at = "/"
    found.append(posixpath.relpath(at, start))
    return tuple(dict.fromkeys(p for p in found if p.split("/")[0] not in ("..", ".")))


def read(workspace: Path, relative: str, limit: int) -> Found:
    """A plain file of the workspace, whole, at most ``limit`` bytes. No link is followed.

    Raises
    ------
    ConfigError
        A symbolic link that leads out of the workspace, a device, a pipe.
    """
    if _is_linked(workspace, relative):
        return Found(note="a symbolic link")
    path = workspace / relative
    try:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            return Found(note="a folder")
        if not stat.S_ISREG(mode):
            raise ConfigError(f"{relative}: a device or a pipe", expected="a plain file")
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            data = stream.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as exc:
        return Found(note=f"unreadable ({exc.strerror})")
    return Found(note=f"larger than {limit} bytes") if len(data) > limit else Found(data)


def listed(workspace: Path, relative: str) -> Mapping[str, int | str] | None:
    """The files of a folder by their path in it: the size, or what is there instead of a plain
    file. None where there is no such folder.

    Raises
    ------
    ConfigError
        A symbolic link that leads out of the workspace, or a folder that is too large.
    """
    if _is_linked(workspace, relative):
        return {"": "a symbolic link"}
    if not (workspace / relative).is_dir():
        return None
    found: dict[str, int | str] = {}
    left = [(workspace / relative, "", 0)]
    while left:
        folder, prefix, depth = left.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False) and depth < _MAX_DEPTH:
                    left.append((folder / entry.name, name + "/", depth + 1))
                else:
                    found[name] = _described(entry)
                if len(found) + len(left) > MAX_FILES:
                    raise ConfigError(
                        f"{relative}: more than {MAX_FILES} files", expected="a baseline's folder"
                    )
    return found


def sha256(workspace: Path, relative: str) -> str:
    """Of a plain file's bytes; "" where it cannot be read."""
    digest = hashlib.sha256()
    with contextlib.suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(workspace / relative, flags), "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()
    return ""


def _described(entry: os.DirEntry[str]) -> int | str:
    if entry.is_symlink():
        return "a symbolic link"
    if entry.is_file(follow_symlinks=False):
        return entry.stat(follow_symlinks=False).st_size
    return "no plain file"


def _is_linked(workspace: Path, relative: str) -> bool:
    """True where a link stands somewhere on the way; one that leads out is refused.

    One that stays inside is not followed either: it may name a file that a step of the job wrote,
    a secret in it, and what differs is shown.
    """
    root = workspace.resolve()
    target = _resolved(workspace / relative, relative)
    if target == root / relative:
        return False
    if root not in target.parents:
        raise ConfigError(
            f"{relative[:_SHOWN]!r} is a symbolic link that leads out of the workspace",
            expected="a plain file, or an absolute path outside the workspace",
        )
    return True


def _resolved(path: Path, key: str) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as exc:  # RuntimeError: a loop, before Python 3.13
        raise ConfigError(
            f"{key}: cannot follow the path {str(path)[:_SHOWN]!r}: {type(exc).__name__}",
            expected="a plain file",
        ) from exc
