"""Fitting a text into the limit of the place it goes to. Knows sizes, no report and no markup.

A text is rendered anew at each step with less in it and measured again: a text that is cut
afterwards loses its end, which is where the evidence root stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

COMMENT_UNITS = 65_536  # GitHub refuses a longer comment (422)
CHECK_BYTES = 65_535  # of a check run's summary, and of its text
SUMMARY_BYTES = 1024 * 1024  # of a step summary; over it, all of it is lost
PAGE_BYTES = 8 * 1024 * 1024  # ours: a page that a phone still opens


@dataclass(frozen=True)
class Limits:
    """How much of everything is shown.

    Attributes
    ----------
    divergences, ties
        Rows about where texts part, and how many of them may be ties.
    text
        Characters of model text in one place.
    prose
        Characters of one sentence.
    names
        Prompts named, and sentences of one kind, before "and N more".
    checks
        Checks listed.
    tables, rows
        Tables of a stage shown, and rows in each.
    block
        Characters of a diff or of a log's end in one place.
    movers
        Prompts that changed most.
    """

    divergences: int
    ties: int
    text: int
    prose: int
    names: int
    checks: int
    tables: int
    rows: int
    block: int
    movers: int = 5


def steps(start: Limits) -> Iterator[tuple[Limits, str]]:
    """Ever smaller limits, and what was cut to get there ("" for nothing)."""
    yield start, ""
    cut: list[str] = []
    now = start
    smaller: tuple[tuple[str, dict[str, int]], ...] = (
        ("fewer divergences", {"divergences": 200, "ties": 40}),
        ("fewer divergences", {"divergences": 40, "ties": 5, "movers": 10}),
        ("fewer divergences", {"divergences": 10, "ties": 0, "movers": 5}),
        ("short tables", {"rows": 12}),
        ("shorter diffs and logs", {"block": 2000}),
        ("no tables", {"tables": 0}),
        ("shorter texts", {"text": 40, "prose": 400}),
        ("fewer names and checks", {"names": 5, "checks": 30}),
        ("shorter diffs and logs", {"block": 600}),
        ("fewer divergences", {"divergences": 3, "movers": 3}),
        ("shorter texts", {"text": 24, "prose": 160}),
        ("fewer names and checks", {"names": 2, "checks": 12}),
        ("no divergences", {"divergences": 0, "movers": 0}),
        ("no diffs and logs", {"block": 0}),
        ("shorter texts", {"prose": 60}),
    )
    for what, bounds in smaller:
        then = replace(now, **{k: min(v, getattr(now, k)) for k, v in bounds.items()})
        if then == now:
            continue
        now = then
        if what not in cut:
            cut.append(what)
        yield now, ", ".join(cut)


def fit(
    render: Callable[[Limits, str], str],
    start: Limits,
    size: Callable[[str], int],
    budget: int,
    closers: Callable[[str], str],
) -> str:
    """The fullest text of ``render(limits, what was cut)`` whose ``size`` is within ``budget``.

    Where even the smallest is too long (thousands of stages), it is cut after a line and
    ``closers(text)`` is added, which closes what the cut left open.
    """
    every = list(steps(start))
    text = render(*every[0])
    if size(text) <= budget:
        return text
    low, high = 1, len(every) - 1  # sizes fall from step to step: halve instead of trying all
    while low < high:
        middle = (low + high) // 2
        if size(render(*every[middle])) <= budget:
            high = middle
        else:
            low = middle + 1
    text = render(*every[low])
    return text if size(text) <= budget else _cut(text, size, budget, closers)


def _cut(text: str, size: Callable[[str], int], budget: int, closers: Callable[[str], str]) -> str:
    """The longest run of whole first lines that fits together with its closers."""
    lines = text.split("\n")
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        kept = "\n".join(lines[:middle]) + "\n"
        if size(kept + closers(kept)) <= budget:
            low = middle
        else:
            high = middle - 1
    kept = "".join(f"{line}\n" for line in lines[:low])
    return kept + closers(kept)


def utf16_units(text: str) -> int:
    """Length as a database counts that takes an emoji for two: never below the characters."""
    return len(text.encode("utf-16-le")) // 2


def utf8_bytes(text: str) -> int:
    return len(text.encode())
