"""What a reader of `niah` is shown: figures by length and depth, the answers that changed, and
what their pattern means. Judges nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from iqaction.report import Table
from iqaction.stages._niah_items import Item
from iqaction.stages._paired_items import Graded, Kind
from iqaction.stages._paired_items import Item as Both
from iqaction.stats.proportions import wilson

_T = TypeVar("_T")
_MOST_CHANGED = 20
_FEW = 3  # lost answers from which on a pattern is spoken of
_UNANSWERABLE = (Kind.FAILED, Kind.FAULT)
DOES_NOT_FIT = "does not fit"


@dataclass(frozen=True)
class Row:
    """One question on both sides. ``too_long`` says of the baseline, then of the candidate, why
    the question does not fit into its context; "" where it does."""

    item: Item
    both: Both
    too_long: tuple[str, str] = ("", "")

    @property
    def left_out(self) -> str:
        """Why the baseline itself cannot be judged on it; "" where it can."""
        if self.too_long[0]:
            return self.too_long[0]
        before = self.both.baseline
        return before.why if before.kind in _UNANSWERABLE else ""

    @property
    def is_judged(self) -> bool:
        return not self.left_out and not self.too_long[1]

    @property
    def is_lost(self) -> bool:
        """No answer is as good as a wrong one: it is the worst that it can be."""
        return self.both.baseline.right is True and self.both.candidate.right is not True

    @property
    def is_gained(self) -> bool:
        return self.both.baseline.right is False and self.both.candidate.right is True


def compared(rows: Sequence[Row]) -> tuple[Table, ...]:
    """By length and depth; and the answers that changed, where any did."""
    cells = []
    for (length, depth), found in by(rows, lambda r: (r.item.length, r.item.depth)).items():
        before = [r.both.baseline for r in found if not r.left_out]
        now = [r.both.candidate for r in found if r.is_judged]
        cells.append(
            (
                float(length),
                f"{depth:g}",
                *_right(now, all(any(r.too_long) for r in found)),
                _right(before, all(r.too_long[0] for r in found))[0],
                _mean_tokens(now),
                _mean_tokens(before),
            )
        )
    heads = ("length", "depth", "right", "95 % CI", "baseline", "prompt tokens", "baseline's")
    table = Table("Codes found, by length and depth", heads, tuple(cells))
    changed = _changed(rows)
    return (table, changed) if changed.rows else (table,)


def captured(answers: Sequence[tuple[Item, Graded, str]]) -> tuple[Table, ...]:
    """Of a reference alone: item, answer, and why it does not fit."""
    cells = []
    for (length, depth), found in by(answers, lambda a: (a[0].length, a[0].depth)).items():
        sides = [side for _, side, too_long in found if not too_long]
        right, interval = _right(sides, not sides)
        cells.append((float(length), f"{depth:g}", right, interval, _mean_tokens(sides)))
    heads = ("length", "depth", "right", "95 % CI", "prompt tokens")
    return (Table("Codes found, by length and depth", heads, tuple(cells)),)


def by(
    rows: Iterable[_T], key: Callable[[_T], tuple[float, ...]]
) -> dict[tuple[float, ...], list[_T]]:
    """The rows of each key, in the keys' order."""
    found: dict[tuple[float, ...], list[_T]] = {}
    for row in sorted(rows, key=key):
        found.setdefault(key(row), []).append(row)
    return found


def _right(sides: Sequence[Graded], too_long: bool) -> tuple[str, str]:
    """ "4 of 5" and its Wilson interval."""
    if too_long:
        return DOES_NOT_FIT, ""
    right, n = sum(s.right is True for s in sides), len(sides)
    lacking = sum(s.right is None for s in sides)
    said = f"{right} of {n}" + (f" ({lacking} without an answer)" if lacking else "")
    if not n:
        return said, ""
    low, high = wilson(right, n, 0.95)
    return said, f"{low:.0%} to {high:.0%}"


def _mean_tokens(sides: Iterable[Graded]) -> float | None:
    counts = [s.prompt_tokens for s in sides if s.prompt_tokens is not None]
    return float(round(sum(counts) / len(counts))) if counts else None


def _changed(rows: Sequence[Row]) -> Table:
    lost = [r for r in rows if r.is_judged and r.is_lost]
    gained = [r for r in rows if r.is_judged and r.is_gained]
    shown = tuple(
        (
            r.item.unit,
            "lost" if r.is_lost else "gained",
            _said(r.both.baseline),
            _said(r.both.candidate),
        )
        for r in (*lost, *gained)
    )
    heads = ("length-depth-trial", "", "baseline answered", "candidate answered")
    title = f"Answers that changed: {len(lost)} lost, {len(gained)} gained"
    return Table(title, heads, shown[:_MOST_CHANGED])


def _said(side: Graded) -> str:
    return side.shown or (f"{side.kind.value}: {side.end}" if side.end else side.kind.value)


def meaning(judged: Sequence[Row]) -> tuple[str, ...]:
    """What the pattern of lost answers says, where there are enough for a pattern."""
    lost = [r for r in judged if r.is_lost]
    if len(lost) < _FEW:
        return ()
    sizes, depths = {r.item.length for r in lost}, {r.item.depth for r in lost}
    every = {r.item.length for r in judged}
    said = []
    if len(every) > 1 and len(sizes) == 1:
        (size,) = sizes
        where = "long context" if size == max(every) else "that length alone"
        said.append(f"All {len(lost)} lost answers are at {size} tokens: {where} is damaged.")
    elif len(every) > 1 and min(every) not in sizes:
        said.append(
            f"All {len(lost)} lost answers are at {min(sizes)} tokens or more: long context is "
            "damaged."
        )
    elif len(every) > 1:
        said.append("Answers are lost at the shortest length too: it is not long context alone.")
    if len({r.item.depth for r in judged}) > 1 and len(depths) == 1:
        said.append(f"All lost codes stand at depth {depths.pop():g} of their texts.")
    return tuple(said)


def next_steps(judged: Sequence[Row]) -> tuple[str, ...]:
    """What to try, where answers were lost or the reference has none."""
    lost = [r for r in judged if r.is_lost]
    steps = []
    if len(lost) >= _FEW:
        shortest = min(r.item.length for r in judged)
        steps.append(_SHORT if any(r.item.length == shortest for r in lost) else _LONG)
    return (*steps, *cut_off([r.both.baseline for r in judged]))


_LONG = "run once without what this change does to the KV cache, attention or RoPE scaling"
_SHORT = (
    "see what `score` says of the same change: short texts lose codes too, so that its weights or "
    "kernels are as likely as its long context"
)
_CUT = (
    "{} of the baseline's answers are cut off before a code: raise `max_tokens`, or switch "
    "thinking off in `chat_template_kwargs`, and capture again"
)


def cut_off(sides: Sequence[Graded]) -> tuple[str, ...]:
    """The step to take where a reference's answers are cut off."""
    cut = sum(s.kind is Kind.CUT_OFF for s in sides)
    return (_CUT.format(cut),) if cut >= _FEW else ()
