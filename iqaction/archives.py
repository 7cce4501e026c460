"""Unpacking what a stranger packed: plain files with plain names, within bounds, or nothing. I/O.

Knows the rules that hold for every kind of archive, and no kind: who reads one hands over names
and bytes. Writes only below a new folder, and removes that folder where a rule is broken.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iqaction.errors import EvidenceError

CHUNK = 1 << 16
_NAME_BYTES, _DEPTH = 200, 12
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{d}{i}" for d in ("com", "lpt") for i in range(1, 10)))
)

Refused = Callable[[str], EvidenceError]
"""The error that says why this archive is not unpacked, in words of its kind."""


@dataclass(frozen=True)
class Bounds:
    """Of an archive: packed bytes, unpacked bytes of all, and files."""

    packed: int = 256 << 20
    unpacked: int = 1 << 30
    files: int = 5_000


BOUNDS = Bounds()


@dataclass(frozen=True)
class Written:
    """sha256 (hexadecimal) and size in bytes of a file that was unpacked."""

    sha256: str
    size: int


class Names:
    """The names of one archive, each taken once."""

    def __init__(self, bounds: Bounds, refused: Refused) -> None:
        self._bounds, self._refused = bounds, refused
        self._seen: set[str] = set()

    def take(self, name: str) -> str:
        """``name``, where a file may be written under it.

        Raises
        ------
        EvidenceError
            It leads elsewhere, cannot be stored everywhere, is there twice or is one too many.
        """
        self.check(name)
        # The same file under another spelling would be written twice on some file systems.
        spelled = unicodedata.normalize("NFC", name).casefold()
        if spelled in self._seen:
            raise self._refused("it holds a file twice")
        self._seen.add(spelled)
        if len(self._seen) > self._bounds.files:
            raise self._refused(f"it holds more than {self._bounds.files:,} files")
        return name

    def check(self, name: str) -> None:
        """Raise as :meth:`take` for a name that leads elsewhere; folders are only checked."""
        parts = name.split("/")
        fine = (
            len(parts) <= _DEPTH
            and name.isprintable()
            and not set(name) & set('\\:*?"<>|')
            and all(_fits(p) for p in parts)
        )
        if not fine:
            raise self._refused(
                "it holds a name that leads elsewhere, or that not every system can store"
            )


def _fits(part: str) -> bool:
    stem = part.partition(".")[0].rstrip().lower()
    plain = part not in ("", ".", "..") and not part.endswith((".", " "))
    return plain and stem not in _RESERVED and len(part.encode()) <= _NAME_BYTES


class Unpacking:
    """A new folder that is being filled; what is written is counted as it comes."""

    def __init__(self, folder: Path, bounds: Bounds, refused: Refused) -> None:
        self._folder, self._bounds, self._refused = folder, bounds, refused
        self._left = bounds.unpacked

    def write(self, name: str, chunks: Iterator[bytes]) -> Written:
        """Write one file; ``name`` was taken from :class:`Names`.

        Raises
        ------
        EvidenceError
            More bytes came than the archive may hold.
        """
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        seen, size = hashlib.sha256(), 0
        with os.fdopen(os.open(path, new, 0o600), "wb") as out:
            for piece in chunks:
                size += len(piece)
                if size > self._left:
                    raise self._refused(f"it unpacks to more than {self._bounds.unpacked:,} bytes")
                seen.update(piece)
                out.write(piece)
        self._left -= size
        return Written(seen.hexdigest(), size)


@contextmanager
def unpacking(folder: Path, bounds: Bounds, refused: Refused) -> Iterator[Unpacking]:
    """The new folder ``folder``, to be filled. On any error nothing of it is left behind.

    Raises
    ------
    EvidenceError
        It is there already, or cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as exc:
        raise EvidenceError(
            f"{folder}: cannot be made: {exc.strerror}", expected="a new folder to unpack into"
        ) from exc
    try:
        yield Unpacking(folder, bounds, refused)
    except BaseException as exc:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(exc, (OSError, ValueError)):  # a full disk; a name no file can have
            raise refused(f"it cannot be written: {type(exc).__name__}") from exc
        raise
