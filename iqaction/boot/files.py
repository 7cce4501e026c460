"""Small private files: readable by us alone, and whole or not there. Knows no content."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Replace a file's content in one step, with mode 0600. A link in its place is replaced."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def read_private(path: Path, most: int) -> bytes | None:
    """The content of a regular file of our own of at most ``most`` bytes; else None.

    Raises
    ------
    OSError
        When the file is gone, or cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    with open(descriptor, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        data = stream.read(most + 1)
    return data if len(data) <= most else None


def append_private(path: Path) -> int:
    """A descriptor that appends to a log of mode 0600, made where there is none."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)
