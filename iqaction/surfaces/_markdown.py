"""What Markdown of ours is built from: sentences, lists, tables, folds, blocks. Knows no report.

Every cell, sentence and text passes through ``_escape``; the only raw HTML is the ``<details>``
written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import NOTHING, excerpt, fence, prose

WHOLE = "`report.html` of the evidence"


def join(*blocks: str) -> str:
    """The blocks that say something, a blank line between them."""
    return "\n\n".join(b for b in blocks if b)


def table(columns: Sequence[str], aligns: str, rows: Iterable[Sequence[str]]) -> str:
    """A GitHub table of escaped cells. ``aligns`` holds l or r per column."""
    rule = ["---:" if a == "r" else "---" for a in aligns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def bold(text: str) -> str:
    """Escaped text in bold; four asterisks around nothing would be a rule across the page."""
    return f"**{text or NOTHING}**"


def details(summary: str, *blocks: str) -> str:
    """A folded part; "" where there is nothing to fold."""
    inside = join(*blocks)
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>" if inside else ""


def block(text: str, limits: Limits, *, info: str = "text") -> str:
    """A text of several lines in a fence, the middle left out where it is long.

    Where there is room for nothing, where it is to be found.
    """
    text = text.strip("\n")
    if not text.strip():
        return ""
    if limits.block <= 0:
        return f"{len(text):,} characters more: {WHOLE}."
    return fence(excerpt(text, limits.block), info)


def sentence(text: str, limits: Limits, *, most: int | None = None, cell: bool = False) -> str:
    """Prose of at most ``most`` characters, and of no more than the limits allow."""
    limit = limits.prose if most is None else min(most, limits.prose)
    return prose(text, limit, cell=cell)


def some(sentences: Sequence[str], limits: Limits) -> list[str]:
    """The first sentences, and how many more there are."""
    shown = [sentence(s, limits) for s in sentences[: limits.names]]
    more = len(sentences) - len(shown)
    return [*shown, f"And {more:,} more: {WHOLE}."] if more > 0 else shown


def shortened(cut: str) -> str:
    """What was left out to fit, and where the whole is."""
    return f"*Shortened to fit ({cut}). The whole is in {WHOLE}.*" if cut else ""


def closers(text: str) -> str:
    """What closes the fence and the folds that a cut left open, and says that it was cut."""
    out = []
    open_fence = ""
    for row in text.split("\n"):
        ticks = row[: len(row) - len(row.lstrip("`"))]
        if open_fence:
            if len(ticks) >= len(open_fence) and row.strip("`") == "":
                open_fence = ""
        elif len(ticks) >= 3:
            open_fence = ticks
    if open_fence:
        out.append(open_fence)
    folds = text.count("<details>") - text.count("</details>")
    out += ["", *["</details>"] * folds, "", shortened("cut off at its end")]
    return "\n".join(out)
