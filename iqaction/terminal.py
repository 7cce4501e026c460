"""Text for a terminal or a log: escaping, widths, wrapping. Knows no plan, report or stream.

What models, servers and evidence files say is foreign. A control character in it can repaint
the screen, a bidirectional mark can reorder a line, and ``::set-output`` or ``##[error]`` is a
command to a CI runner's log: all of these are shown as escapes, never obeyed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # invisible, or not a character
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)  # the runner trims blanks before `::`
_MARKS = 4  # combining marks kept on one character; a pile of them paints over other lines


def escape(text: str) -> str:
    r"""Foreign text, safe to print over several lines.

    Newlines stay and tabs become four blanks; every other control, format, surrogate and
    unassigned character is written as ``\x1b`` or ``\u202e``. A line that a CI runner would read
    as a command no longer is one.
    """
    text = text.replace("\r\n", "\n").expandtabs(4)
    if not text.isascii() or not text.replace("\n", "").isprintable():
        text = "".join(_visible(text))
    return _COMMAND.sub(r"\1\\x3a", text).replace("##[", "##\\x5b")


def inline(text: str) -> str:
    r"""Foreign text, safe to print within one line: a newline becomes ``\n``."""
    return escape(text.replace("\n", "\\n").replace("\t", "\\t"))


def _visible(text: str) -> Iterable[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if character != "\n" and (category in _HIDDEN or marks > _MARKS):
            yield _code(character)
        else:
            yield character


def _code(character: str) -> str:
    number = ord(character)
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def width(text: str) -> int:
    """Columns that escaped text takes: 2 for wide East Asian characters, 0 for marks."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fit(text: str, columns: int) -> str:
    """``text`` cut to at most ``columns``, the cut shown as ``…``. Nothing fits in 0 columns."""
    if width(text) <= columns:
        return text
    return _head(text, columns - 1) + "…" if columns > 0 else ""


def fit_end(text: str, columns: int) -> str:
    """The end of ``text``, cut in front: what stands just before a divergence matters most."""
    if width(text) <= columns:
        return text
    return "…" + _head(text[::-1], columns - 1)[::-1] if columns > 0 else ""


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """``text`` cut or filled with blanks to exactly ``columns``; ``right`` sets it flush right."""
    text = fit(text, columns)
    blanks = " " * (columns - width(text))
    return blanks + text if right else text + blanks


def _head(text: str, columns: int) -> str:
    used = 0
    for i, character in enumerate(text):
        used += _columns(character)
        if used > columns:
            return text[:i]
    return text


def wrap(text: str, columns: int) -> list[str]:
    """Escaped text as lines of at most ``columns``, broken at blanks where there are any.

    Every character is kept, blanks at a break included: what a model wrote is shown whole.
    """
    columns = max(columns, 2)
    lines = []
    for line in text.split("\n"):
        rest = line
        while width(rest) > columns:
            head = _head(rest, columns)
            blank = head.rfind(" ")
            if blank > columns // 2:
                head = head[: blank + 1]
            lines.append(head)
            rest = rest[len(head) :]
        lines.append(rest)
    return lines


def paragraph(text: str, columns: int, indent: str = "") -> str:
    """Prose as one block: continuation lines start with ``indent``.

    Escaped once more, for a break may put a runner's command at the start of a line.
    """
    lines = [line.strip() for line in wrap(text, columns - len(indent))]
    return escape(f"\n{indent}".join(lines))


def table(rows: Sequence[Sequence[str]], right: Sequence[bool], columns: int) -> list[str]:
    """Escaped cells as aligned lines; ``right`` names the columns set flush right.

    Where the whole is wider than ``columns``, the first column gives way (to 16 at least).
    """
    if not rows:
        return []
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    over = sum(widths) + 2 * (len(widths) - 1) - columns
    if over > 0:
        widths[0] = min(widths[0], max(16, widths[0] - over))
    return [
        "  ".join(pad(c, w, right=r) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in rows
    ]
