"""The one place where text of unknown origin becomes Markdown, HTML or a plain line.

Prompt ids, reasons, engine names and above all model text may hold anything: mentions, links,
HTML, backticks, control characters, bidirectional overrides, runner commands. After this module
none of it pings, links, ends a fence or a cell, or hides. It knows no report and no layout.

Three kinds of text exist:

- *model text* is shown only as code (``code``, ``fence``, ``html``);
- *prose* is a sentence of ours that may quote things; `` `x` `` in it asks for a code span, and
  a word that GitHub would link or mention becomes one unasked (an escaped ``\\@user`` still
  pings, a code span does not);
- a *line* is for places without markup: titles, outputs.
"""

from __future__ import annotations

import html as _stdlib_html
import json
import re
import unicodedata
from collections.abc import Mapping

from iqaction.json_value import JSON

NOTHING = "(nothing)"
_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "\\r"}
_MARKS = 6  # combining marks in a row; more is no writing system, but paints over other lines

# Code points that print as nothing and that `str.isprintable` lets through.
_INVISIBLE = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE0F),  # not FE0F: it makes emoji of signs
        *range(0xE0100, 0xE01F0),
    )
)

# cmark reads no code span whose delimiter is longer than 80 and keeps a fence's length in one
# byte; so long runs are told, not shown, and no delimiter of ours is ever longer than 9.
_MAX_TICKS = 8
_TICKS = re.compile(r"`+")
_LONG_TICKS = re.compile(rf"`{{{_MAX_TICKS + 1},}}")

# The runner trims blanks before `::cmd::` and finds `##[cmd]` anywhere in a line of a log.
_RUNNER_START = re.compile(r"^(\s*):(?=:)", re.MULTILINE)


class _Pictures(dict[int, str]):
    """What stands for each code point, filled as they are met: `str.translate` reads it in C."""

    def __init__(self, kept: str) -> None:
        self.kept = kept + "\u3000"  # the wide space of Chinese and Japanese: blank by right
        self.marks: set[str] = set()
        super().__init__()

    def __missing__(self, point: int) -> str:
        char = chr(point)
        if unicodedata.category(char)[0] == "M":
            self.marks.add(char)
        if char not in self.kept and char in _SIGNS:
            shown = _SIGNS[char]
        elif char in self.kept or (char.isprintable() and point not in _INVISIBLE):
            shown = char
        else:
            shown = _escape(point)
        self[point] = shown
        return shown


_PLAIN = re.compile(r"[ -~…]*\Z")  # nothing to look up: most texts, and ones that we cut
_PICTURES = {keep: _Pictures(keep) for keep in ("", "\n", "\n\t")}


def visible(text: str, *, keep: str = "") -> str:
    """``text`` with everything that does not print shown as an escape, runner commands broken.

    Newline and tab become signs unless ``keep`` names them: "", a newline, or newline and tab.
    """
    if not _PLAIN.match(text):
        pictures = _PICTURES[keep]
        shown = text.translate(pictures)
        text = shown if pictures.marks.isdisjoint(shown) else _few_marks(shown)
    if "##[" in text:
        text = text.replace("##[", "#\\x23[")
    return _RUNNER_START.sub(r"\1\\x3a", text) if "::" in text else text


def _few_marks(text: str) -> str:
    """At most ``_MARKS`` combining marks in a row, the others as escapes."""
    out = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char)[0] == "M" else 0
        out.append(char if marks <= _MARKS else _escape(ord(char)))
    return "".join(out)


def _escape(point: int) -> str:
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def head(text: str, limit: int) -> str:
    """At most the first ``limit`` characters; an ellipsis says that more follow."""
    return text if len(text) <= limit else text[:limit] + "…"


def tail(text: str, limit: int) -> str:
    """At most the last ``limit`` characters; an ellipsis says that more precede."""
    return text if len(text) <= limit else "…" + text[len(text) - limit :]


def excerpt(text: str, limit: int) -> str:
    """The beginning and the end of ``text``, in whole lines where there are any, about ``limit``
    characters in all; a line between them says how much is left out."""
    if len(text) <= limit:
        return text
    start, end = text[: limit // 2], text[len(text) - limit // 2 :]
    start = start.rpartition("\n")[0] or start
    end = end.partition("\n")[2] or end
    left_out = len(text) - len(start) - len(end)
    return f"{start}\n… {left_out:,} characters left out …\n{end}"


# --- Markdown -------------------------------------------------------------------------------


def code(text: str, *, cell: bool = False) -> str:
    """An inline code span around ``text``; ``cell`` where it stands in a table."""
    shown = visible(text)
    if not shown:
        return NOTHING
    if not shown.strip(" "):
        shown = "␣" * len(shown)
    shown = _tell_long_ticks(shown)
    fence = "`" * (_longest_ticks(shown) + 1)
    edge = shown[0] + shown[-1]
    pad = " " if "`" in edge or edge == "  " else ""
    if cell:
        shown = shown.replace("|", "\\|")  # tables are cut into cells before code is read
    return f"{fence}{pad}{shown}{pad}{fence}"


def fence(text: str, info: str = "text") -> str:
    """A fenced block around ``text`` that nothing in it can close. Newlines and tabs stay."""
    shown = _tell_long_ticks(visible(text, keep="\n\t"))
    ticks = "`" * max(3, _longest_ticks(shown) + 1)
    return f"{ticks}{info}\n{shown}\n{ticks}"


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)


def _tell_long_ticks(text: str) -> str:
    return _LONG_TICKS.sub(lambda run: f"\\x60*{len(run[0])}", text)


_QUOTED = re.compile(r"`([^`]+)`")
_OPENERS, _CLOSERS = "([\"'", ")]\"'.,;:!?"

# What GitHub turns into a link, a mention, an emoji or a formula, wherever it stands in a word.
_RISKY = re.compile(
    r"[@`\\$]|\#\d|://|www\.|\bGH-\d|\b[0-9a-f]{7,}\b|:[\w+-]+:|\b(?:CVE|GHSA)-",
    re.IGNORECASE,
)
_SPECIAL = re.compile(r"[*\[~|#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"([-+=](?=[\s=+-]|$)|\d+(?=[.)](?:\s|$)))")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def prose(text: str, limit: int = 2000, *, cell: bool = False) -> str:
    """A sentence as inline Markdown on one line."""
    text = " ".join(head(text, limit).split())
    if not _RISKY.search(text) and visible(text) == text:
        line = _plain(text)  # nothing to set apart: no need to look at each word
    else:
        line = " ".join(
            "".join(code(part, cell=cell) if is_code else _plain(part) for is_code, part in word)
            for word in _words(text)
        )
    start = _BLOCK_START.match(line)
    if start is None:
        return line
    at = 0 if start[1] in "-+=" else start.end()
    return f"{line[:at]}\\{line[at:]}"


def figure(text: str) -> str:
    """A number that we formatted: "<0.0001" needs its sign escaped, and nothing else."""
    return text.translate(_ENTITIES)


def _plain(text: str) -> str:
    return _SPECIAL.sub(lambda found: "\\" + found[0], figure(_signs(text)))


def _signs(text: str) -> str:
    return text.replace(">=", "≥").replace("<=", "≤")


Part = tuple[bool, str]  # (is code, text)


def _words(text: str) -> list[list[Part]]:
    """The words of a sentence; within a word no two code parts touch (their ticks would join)."""
    words: list[list[Part]] = [[]]
    at = 0
    for quoted in _QUOTED.finditer(text):
        _take(words, text[at : quoted.start()])
        words[-1].append((True, " ".join(quoted[1].split())))
        at = quoted.end()
    _take(words, text[at:])
    return [_joined(w) for w in words if w]


def _take(words: list[list[Part]], text: str) -> None:
    """Add plain text, cut at blanks, to the words so far."""
    for i, piece in enumerate(re.split(r"\s+", text)):
        if i:
            words.append([])
        if piece:
            words[-1] += _risk(piece)


def _risk(word: str) -> list[Part]:
    shown = visible(word)
    if not _RISKY.search(shown):
        return [(False, shown)]
    core = shown.lstrip(_OPENERS)
    before = shown[: len(shown) - len(core)]
    core = core.rstrip(_CLOSERS)
    parts = ((False, before), (True, core), (False, shown[len(before) + len(core) :]))
    return [p for p in parts if p[1]] if core else [(True, shown)]


def _joined(word: list[Part]) -> list[Part]:
    out: list[Part] = []
    for is_code, text in word:
        if out and is_code and out[-1][0]:
            out[-1] = (True, out[-1][1] + text)
        else:
            out.append((is_code, text))
    return out


def hidden_json(body: Mapping[str, JSON]) -> str:
    """Canonical ASCII JSON that can stand in an HTML comment: it holds no ``<``, ``>``, ``--``."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    for char in "<>&@":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.replace("--", "-\\u002d")


# --- HTML -----------------------------------------------------------------------------------


def html(text: str, *, keep: str = "") -> str:
    """``text`` for an HTML text node or a double-quoted attribute, unprintables shown."""
    return _stdlib_html.escape(visible(text, keep=keep), quote=True)


def prose_html(text: str, limit: int = 4000) -> str:
    """A sentence as HTML: everything escaped, `` `x` `` as a code element."""
    out = []
    at = 0
    text = " ".join(head(text, limit).split())
    for quoted in _QUOTED.finditer(text):
        out.append(html(_signs(text[at : quoted.start()])))
        out.append(f"<code>{html(quoted[1])}</code>")
        at = quoted.end()
    out.append(html(_signs(text[at:])))
    return "".join(out)


# --- plain lines ----------------------------------------------------------------------------

_HEX = re.compile(r"[0-9a-f]{7,64}\Z")
_NOT_FOR_SHELLS = re.compile(r"""[`$"'\\;&|<>{}]""")


def line(text: str, limit: int) -> str:
    """One printable line for a place without markup. It mentions nobody."""
    return head(visible(" ".join(head(text, limit).split())).replace("@", "[at]"), limit)


def output(text: str, limit: int = 1000) -> str:
    """A line that stays harmless where a workflow pastes it into a shell script unquoted."""
    return _NOT_FOR_SHELLS.sub("_", line(text.replace("`", ""), limit))


def hex_or_nothing(text: str) -> str:
    """``text`` where it is 7 to 64 hexadecimal digits, else "": hashes are shown as they are."""
    return text if _HEX.match(text) else ""
