"""What a change of engine and settings consists of, in plain words: one phrase a change.

Knows command lines and images as text. Prose in the sense of ``_escape``; no markup, no verdict.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from iqaction.report import Change, Report
from iqaction.surfaces._escape import head

NAME = 120  # characters of a name or value that are ever shown
SAME = "engine and settings are the same as the baseline's, as far as they are known"
_LINE = 4000  # characters of a command line that are looked at
_MOST_WORDS = 400
_FLAG = re.compile(r"--?[A-Za-z]")


def quoted(text: str) -> str:
    """A name as prose that asks for code; a backtick in it cannot close it."""
    return f"`{head(text, NAME).replace('`', chr(0x2CB))}`"


def said(changes: Iterable[Change]) -> list[str]:
    """What differs between the arms, as "image `v0.24.0` → `v0.27.1`"; of command lines only the
    words that differ."""
    return [_one(change) for change in changes]


def same(report: Report) -> str:
    """That nothing differs, where both arms told who they are and no line was changed."""
    arms = {e.arm for e in report.engines}
    told = "candidate" in arms and bool(arms & {"baseline", "reference"})
    known = told and bool(report.baseline_root)
    return "" if report.changes or report.changed_lines or not known else SAME


def _one(change: Change) -> str:
    what = head(change.what, NAME)
    if _is_command(change.before) and _is_command(change.after):
        words = _words(change.before[:_LINE], change.after[:_LINE])
        if words:
            return f"{what}: {', '.join(words)}"
    before, after = head(change.before, NAME), head(change.after, NAME)
    if before and after:
        return f"{what} {quoted(before)} → {quoted(after)}"
    if after:
        return f"{what} {quoted(after)} added"
    return f"{what} {quoted(before)} removed" if before else f"{what} changed"


def _is_command(text: str) -> bool:
    """True for a line of several words of which one is a flag."""
    words = text[:_LINE].split()
    return len(words) > 1 and any(_FLAG.match(w) for w in words)


def _parts(line: str) -> list[str]:
    """A flag with the values that follow it is one part: "--max-num-seqs 8"."""
    parts: list[str] = []
    for word in line.split()[:_MOST_WORDS]:
        if parts and _FLAG.match(parts[-1]) and not _FLAG.match(word) and "=" not in parts[-1]:
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


def _key(part: str) -> str:
    """The flag's name, whether its value follows a blank or an equals sign."""
    return re.split(r"[ =]", part, maxsplit=1)[0] if _FLAG.match(part) else ""


def _words(before: str, after: str) -> list[str]:
    """The parts that were removed, added, or given another value, in the order of the lines."""
    a, b = _parts(before), _parts(after)
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    removed, added = [], []
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind != "equal":
            removed += a[i:j]
            added += b[k:m]
    removed, added = _unmoved(removed, added)
    out = []
    for part in removed:
        now = next((x for x in added if _key(x) and _key(x) == _key(part)), None)
        if now is None:
            out.append(f"{quoted(part)} removed")
        else:
            added.remove(now)
            out.append(f"{quoted(part)} → {quoted(now)}")
    return out + [f"{quoted(part)} added" for part in added]


def _unmoved(removed: list[str], added: list[str]) -> tuple[list[str], list[str]]:
    """Flags that only stand elsewhere are no change; other words may be one."""
    moved = [x for x in removed if _key(x) and x in added]
    gone, come = list(removed), list(added)
    for part in moved:
        if part in come:
            gone.remove(part)
            come.remove(part)
    return gone, come
