"""What a file or folder of the pull request changes, in few enough lines to be read. Pure."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterable, Mapping

from iqaction import terminal

MAX_LINES = 60
MAX_CHARACTERS = 8000
# Comparing lines takes their product in time; what is longer is told by size and sha256.
_MAX_BYTES = 256 * 1024
_MAX_COMPARED = 1000


def change(before: bytes, after: bytes) -> str:
    """A unified diff where both are short text, else their sizes and hashes."""
    old, new = _lines(before), _lines(after)
    if old is None or new is None:
        return f"before: {_sized(before)}\nnow:    {_sized(after)}"
    found = difflib.unified_diff(old, new, "at the merge-base", "in this pull request", lineterm="")
    return bounded(found)


def folder(
    base: Mapping[str, bytes], head: Mapping[str, int | str], sha256: Callable[[str], str]
) -> str:
    """One line for each file that differs; "" where none does.

    ``head`` holds sizes, or what is there in place of a plain file; ``sha256`` hashes one of its
    files, and is asked only where the size does not tell.
    """
    found = []
    for name in sorted({*base, *head}):
        size, shown = head.get(name), terminal.inline(name)  # a name may hold line breaks
        if name not in base:
            found.append(f"+ {shown} ({_size(size)})")
        elif size is None:
            found.append(f"- {shown} ({len(base[name])} bytes)")
        elif size != len(base[name]):
            found.append(f"! {shown} ({len(base[name])} bytes, now {_size(size)})")
        elif sha256(name) != hashlib.sha256(base[name]).hexdigest():
            found.append(f"! {shown} ({size} bytes, other content)")
    return bounded(found)


def bounded(lines: Iterable[str]) -> str:
    """The lines as one text of a size that fits every surface; it says how much was cut."""
    every = list(lines)
    kept: list[str] = []
    room = MAX_CHARACTERS - 100
    for line in every[: MAX_LINES - 1]:
        if len(line) > room:
            kept.append(line[:room] + "…")
            break
        kept.append(line)
        room -= len(line) + 1
    cut = len(every) - len(kept)
    if cut or (kept and kept[-1] != every[len(kept) - 1]):
        kept.append(f"… cut: {len(every)} lines in all")
    return "\n".join(kept)


def _lines(data: bytes) -> list[str] | None:
    """The lines of a short text; None for anything else."""
    if len(data) > _MAX_BYTES or b"\x00" in data or data.count(b"\n") > _MAX_COMPARED:
        return None
    try:
        return data.decode("utf-8").split("\n") if data else []
    except UnicodeDecodeError:
        return None


def _sized(data: bytes) -> str:
    return f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"


def _size(size: int | str | None) -> str:
    return f"{size} bytes" if isinstance(size, int) else size or "nothing"
