"""The files of one folder that may be hostile: bounded reads, no link followed, atomic writes.

Knows no file by name and no format. Every name is relative, made of plain parts, and opened part
by part without following links, so that nothing in a folder can point out of it. Every
``OSError`` leaves as an :class:`EvidenceError` that says what to do.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from iqaction.errors import EvidenceError
from iqaction.evidence import canon

MAX_EVIDENCE = 1024**3  # bytes of one file of observations
MAX_JSON = 64 * 1024**2  # bytes of any other file
MAX_FILES = 20_000
STAGED = ".staged-"  # begins the name of a file that is not yet what it will be
_MAX_DEPTH = 3
_PART = re.compile(r"[A-Za-z0-9._-]{1,240}")
_CHUNK = 1024**2
_NEXT = {
    errno.ENOSPC: "free some space and run the same command again: what was kept stays kept",
    errno.EDQUOT: "free some of your quota and run the same command again: what was kept is kept",
    errno.EFBIG: "raise the file size limit and run the same command again",
    errno.EROFS: "choose a folder on a disk that can be written",
    errno.EACCES: "choose another folder, or give yourself the rights to this one",
    errno.EPERM: "choose another folder, or give yourself the rights to this one",
    errno.ENOENT: "check that nothing removes the folder while it is in use",
    errno.ENOTDIR: "check the path: a part of it is a file or a link",
    errno.ELOOP: "replace the link by the file itself: links in evidence are never followed",
}


def explain(exc: OSError, what: str) -> EvidenceError:
    """The error of the operating system as one that a person can act on."""
    said = os.strerror(exc.errno) if exc.errno else str(exc)
    return EvidenceError(
        f"{what}: {said}",
        expected="a folder on a local disk that can be read and written, with space left",
        next_step=_NEXT.get(exc.errno or 0, "check the disk and run the same command again"),
    )


@dataclass(frozen=True)
class Entry:
    """One thing in the folder. ``plain`` is False for links, devices, sockets and pipes."""

    name: str
    size: int
    plain: bool


@dataclass(frozen=True)
class Tree:
    """The folder ``root``; a link *to* it is the user's own business and is followed.

    Attributes
    ----------
    inside
        A subfolder that is the tree's real root; itself no link.
    """

    root: Path
    inside: str = ""

    def sub(self, folder: str) -> Tree:
        return Tree(self.root, f"{self.inside}/{folder}" if self.inside else folder)

    def place(self, name: str) -> str:
        """What to call a file in a message: its path below the root."""
        return canon.shown(f"{self.inside}/{name}" if self.inside else name, 200)

    def _parts(self, name: str) -> list[str]:
        parts = [*self.inside.split("/"), *name.split("/")] if self.inside else name.split("/")
        if any(p in (".", "..") or not _PART.fullmatch(p) for p in parts):
            raise EvidenceError(
                f"{canon.shown(name)}: not the name of an evidence file",
                expected="letters, digits, '.', '_' and '-', in folders of the evidence",
            )
        return parts

    @contextlib.contextmanager
    def _folder(self, parts: list[str], *, create: bool = False) -> Iterator[int]:
        """A descriptor of the folder that ``parts`` lead to."""
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                        os.fsync(fd)
                deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                os.close(fd)
                fd = deeper
            yield fd
        finally:
            os.close(fd)

    def _open(self, name: str, limit: int) -> tuple[int, int]:
        """Descriptor and size of a plain file; pipes do not block and are refused."""
        *folders, last = self._parts(name)
        with self._folder(folders) as fd:
            opened = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
        info = os.fstat(opened)
        if not stat.S_ISREG(info.st_mode) or info.st_size > limit:
            os.close(opened)
            raise EvidenceError(
                f"{self.place(name)}: not a plain file of at most {limit} bytes",
                expected="files as the tool wrote them",
            )
        return opened, info.st_size

    def stream(self, name: str, limit: int) -> BinaryIO:
        """The file opened for reading.

        Raises
        ------
        EvidenceError
            Absent, a link, no plain file, or larger than ``limit`` bytes.
        """
        try:
            return os.fdopen(self._open(name, limit)[0], "rb")
        except OSError as exc:
            raise explain(exc, f"cannot read {self.place(name)}") from exc

    def read(self, name: str, limit: int = MAX_JSON) -> bytes:
        """The file's bytes; raises as :meth:`stream`."""
        try:
            with self.stream(name, limit) as file:
                data = file.read(limit + 1)
        except OSError as exc:
            raise explain(exc, f"cannot read {self.place(name)}") from exc
        if len(data) > limit:  # it grew since it was measured
            raise EvidenceError(f"{self.place(name)}: larger than {limit} bytes")
        return data

    def has(self, name: str) -> bool:
        """True where anything, be it a link, has that name."""
        *folders, last = self._parts(name)
        try:
            with self._folder(folders) as fd:
                os.stat(last, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise explain(exc, f"cannot look for {self.place(name)}") from exc
        return True

    def digest(self, name: str, limit: int = MAX_EVIDENCE) -> tuple[str, int]:
        """sha256 (hexadecimal) and size of a file's bytes."""
        with self.stream(name, limit) as file:
            return digest(file)

    def entries(self) -> Iterator[Entry]:
        """Everything below the root, folders left out, sorted by name; names may be anything.

        A folder deeper than any of ours is one entry that is not plain.
        """
        top = self.inside.split("/") if self.inside else []
        found: list[Entry] = []
        try:
            with self._folder(top) as fd:
                _walk(fd, "", 1, found)
        except OSError as exc:
            raise explain(exc, f"cannot list {self.root}") from exc
        yield from sorted(found, key=lambda e: e.name)

    def write(self, name: str, data: bytes) -> None:
        """Put ``data`` under ``name``: whole and durable, or not at all."""
        with self.staging(name) as file:
            file.write(data)
        self.settle(name)

    @contextlib.contextmanager
    def staging(self, name: str) -> Iterator[BinaryIO]:
        """A file to write that :meth:`settle` will put under ``name``; durable on leaving."""
        *folders, last = self._parts(name)
        try:
            with self._folder(folders, create=True) as fd:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(STAGED + last, dir_fd=fd)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                opened = os.open(STAGED + last, flags, 0o666, dir_fd=fd)
            with os.fdopen(opened, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            with contextlib.suppress(OSError, EvidenceError):
                self._unlink(self.staged(name))
            raise explain(exc, f"cannot write {self.place(name)} in {self.root}") from exc

    def settle(self, name: str, *, durable: bool = True) -> None:
        """Give what was staged (a file, or a whole folder) its name, replacing a file there.

        ``durable`` False leaves it to :meth:`sync` to put the new names on the disk.
        """
        *folders, last = self._parts(name)
        try:
            with self._folder(folders) as fd:
                os.rename(STAGED + last, last, src_dir_fd=fd, dst_dir_fd=fd)
                if durable:
                    os.fsync(fd)
        except OSError as exc:
            raise explain(exc, f"cannot write {self.place(name)} in {self.root}") from exc

    def sync(self, names: Iterable[str]) -> None:
        """Put the names of these files on the disk, each folder once."""
        try:
            for folder in sorted({name.rpartition("/")[0] for name in names}):
                with self._folder(self._parts(f"{folder}/x" if folder else "x")[:-1]) as fd:
                    os.fsync(fd)
        except OSError as exc:
            raise explain(exc, f"cannot write in {self.root}") from exc

    def staged(self, name: str) -> str:
        """The name that a file has between :meth:`staging` and :meth:`settle`."""
        *folders, last = name.split("/")
        return "/".join([*folders, STAGED + last])

    def remove(self, name: str) -> None:
        """Remove a file, durably; nothing happens where there is none."""
        try:
            self._unlink(name)
        except FileNotFoundError:
            return
        except OSError as exc:
            raise explain(exc, f"cannot remove {self.place(name)} in {self.root}") from exc

    def _unlink(self, name: str) -> None:
        *folders, last = self._parts(name)
        with self._folder(folders) as fd:
            os.unlink(last, dir_fd=fd)
            os.fsync(fd)

    def sweep(self) -> None:
        """Remove what an interrupted write left behind. Only for who holds the lock."""
        for entry in self.entries():
            if any(p.startswith(STAGED) for p in entry.name.split("/")) and entry.plain:
                self.remove(entry.name)


def digest(file: BinaryIO) -> tuple[str, int]:
    """sha256 (hexadecimal) and length of what is left of an open file, read to its end."""
    seen, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        seen.update(chunk)
        size += len(chunk)
    return seen.hexdigest(), size


def _walk(fd: int, prefix: str, depth: int, found: list[Entry]) -> None:
    with os.scandir(fd) as listing:
        inner = list(listing)
    for item in inner:
        if len(found) >= MAX_FILES:
            raise EvidenceError(f"more than {MAX_FILES} files", expected="an evidence folder")
        name = prefix + item.name
        if item.is_dir(follow_symlinks=False) and depth < _MAX_DEPTH:
            deeper = os.open(item.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            try:
                _walk(deeper, name + "/", depth + 1, found)
            finally:
                os.close(deeper)
        else:
            info = item.stat(follow_symlinks=False)
            found.append(Entry(name, info.st_size, stat.S_ISREG(info.st_mode)))
