"""The write-ahead log: one JSON object a line, on the disk before anything depends on it.

Knows lines, not what they say. A process may be killed at any moment: then the last line may be
torn (no newline at its end), which is a lost answer and no damage. Any other broken line is
damage, and is named.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from iqaction.errors import EvidenceError
from iqaction.evidence.tree import MAX_EVIDENCE, Tree, explain

NAME = "journal.jsonl"
MAX_LINE = 128 * 1024**2
_TAIL = 1024**2


@dataclass(frozen=True)
class Line:
    """One line as stored, newline included unless ``torn``; ``number`` counts from 1."""

    number: int
    offset: int
    data: bytes
    torn: bool


def lines(file: BinaryIO, place: str, limit: int = MAX_EVIDENCE) -> Iterator[Line]:
    """The lines of an open file, one at a time.

    Raises
    ------
    EvidenceError
        For a line above 128 MiB, or more than ``limit`` bytes in all (an unpacked file may be
        far larger than the packed one).
    """
    offset = number = 0
    while data := file.readline(MAX_LINE + 1):
        number += 1
        if len(data) > MAX_LINE or offset + len(data) > limit:
            raise EvidenceError(
                f"{place}:{number}: too large",
                expected=f"lines of at most {MAX_LINE} bytes, {limit} in all",
            )
        yield Line(number, offset, data, torn=not data.endswith(b"\n"))
        offset += len(data)


class Journal:
    """Appends lines, from many threads; made by the one process that holds the folder's lock.

    Opening drops a torn last line, so that nothing is ever appended to it. A write that fails is
    taken back, so that the lines before it stay whole.
    """

    def __init__(self, tree: Tree, *, limit: int = MAX_EVIDENCE) -> None:
        self._tree = tree
        self._limit = limit
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._synced = 0
        self._failed = False
        try:
            self._fd = self._open()
        except OSError as exc:
            raise explain(exc, f"cannot open {NAME} in {tree.root}") from exc

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        folder = os.open(self._tree.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fd = os.open(NAME, flags, 0o666, dir_fd=folder)
            os.fsync(folder)
        finally:
            os.close(folder)
        try:
            self._end = _whole_length(fd)
            os.ftruncate(fd, self._end)
            os.fsync(fd)
        except OSError:
            os.close(fd)
            raise
        return fd

    def append(self, line: bytes) -> None:
        """Put one line (newline included) on the disk; durable when this returns.

        Raises
        ------
        EvidenceError
            ``line`` may then be lost; every line before it is kept.
        """
        self.extend((line,))

    def extend(self, lines: Iterable[bytes]) -> None:
        """Put many lines on the disk; all of them durable when this returns.

        Raises
        ------
        EvidenceError
            Any of ``lines`` may then be lost; every line before them is kept.
        """
        try:
            end = 0
            for line in lines:
                _check(line)
                with self._writing:
                    end = self._write(line)
            self._sync(end)
        except OSError as exc:
            raise explain(exc, f"cannot write {NAME} in {self._tree.root}") from exc

    def _write(self, line: bytes) -> int:
        if self._fd < 0 or self._failed:
            raise EvidenceError(f"{NAME} is closed", expected="an open evidence folder")
        start, done = self._end, 0
        if start + len(line) > self._limit:
            raise EvidenceError(
                f"{NAME} would exceed {self._limit} bytes",
                next_step="use fewer prompts or fewer log-probabilities, in another folder",
            )
        try:
            while done < len(line):
                done += os.pwrite(self._fd, line[done:], start + done)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)  # else the next open drops the torn line
            raise
        self._end = start + done
        return self._end

    def _sync(self, end: int) -> None:
        """One fsync serves all threads whose lines were written before it began."""
        with self._syncing:
            if self._synced >= end:
                return
            reached = self._end
            try:
                os.fsync(self._fd)
            except OSError:
                self._failed = True  # a later fsync would succeed without having written
                raise
            if os.fstat(self._fd).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, "removed", NAME)
            self._synced = reached

    def close(self) -> None:
        with self._writing, self._syncing:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


def _check(line: bytes) -> None:
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    if len(line) > MAX_LINE:
        raise EvidenceError(f"an answer of {len(line)} bytes", expected=f"at most {MAX_LINE}")


def _whole_length(fd: int) -> int:
    """Length up to and with the last newline."""
    end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - _TAIL)
        at = os.pread(fd, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
