"""Paired items as tables: the answers that flipped, and what came of all. Decides nothing. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from iqaction.report import Table
from iqaction.stages._paired_items import Graded, Item, Kind

_MOST_FLIPS = 50  # rows of the table


def flip_table(items: Sequence[Item], answer: Callable[[str], str]) -> Table | None:
    """What changed between right and wrong, with both answers; what was lost comes first.
    ``answer`` is the right one."""
    flipped = [i for i in items if {i.baseline.right, i.candidate.right} == {True, False}]
    if not flipped:
        return None
    flipped.sort(key=lambda i: (not i.baseline.right, i.unit))
    rows = tuple(
        (
            "lost" if i.baseline.right else "gained",
            i.unit,
            answer(i.unit),
            _said(i.baseline),
            _said(i.candidate),
            i.baseline.end,
            i.candidate.end,
        )
        for i in flipped[:_MOST_FLIPS]
    )
    shown = f", {_MOST_FLIPS} of {len(flipped)}" if len(flipped) > _MOST_FLIPS else ""
    head = ("", "item", "right", "baseline", "candidate", "baseline's end", "candidate's end")
    return Table(f"answers that flipped{shown}", head, rows)


def _said(side: Graded) -> str:
    return side.shown or side.kind.value


def kinds_table(items: Sequence[Item]) -> Table:
    """What came of the items, and by which rule answers were read, by side."""
    sides = [i.baseline for i in items], [i.candidate for i in items]
    kinds = [Counter(s.kind.value for s in side) for side in sides]
    rules = [Counter(f"read by: {s.rule}" for s in side if s.rule) for side in sides]
    order = [k.value for k in Kind if any(c[k.value] for c in kinds)]
    order += sorted({*rules[0], *rules[1]})
    both = [a + b for a, b in zip(kinds, rules, strict=True)]
    rows = tuple((name, float(both[0][name]), float(both[1][name])) for name in order)
    return Table("what came of the items", ("", "baseline", "candidate"), rows)
