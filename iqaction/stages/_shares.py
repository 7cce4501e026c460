"""Shares of prompts with an exact bound: what the checks on counts have in common. Pure."""

from __future__ import annotations

from typing import NamedTuple

from iqaction.counts import counted
from iqaction.report import Estimate
from iqaction.stages._levels import FEWEST_TO_PASS, MOST_UNITS, WORST_SHARE
from iqaction.stats.proportions import clopper_pearson_lower, clopper_pearson_upper

BEYOND = "the estimate is beyond the margin: more prompts will not make this PASS"
OVER_BUDGET = f"cannot be decided within {MOST_UNITS} prompts"


class Bound(NamedTuple):
    """One side of an exact interval; the other is open."""

    value: float
    is_upper: bool
    confidence: float

    @property
    def interval(self) -> tuple[float | None, float | None]:
        return (None, self.value) if self.is_upper else (self.value, None)


def at_most(hits: int, n: int, confidence: float) -> Bound:
    """The upper bound, which a PASS rests on."""
    return Bound(clopper_pearson_upper(hits, n, confidence), True, confidence)


def at_least(hits: int, n: int, confidence: float) -> Bound:
    """The lower bound, which a FAIL rests on."""
    return Bound(clopper_pearson_lower(hits, n, confidence), False, confidence)


def estimate(metric: str, hits: int, n: int, bound: Bound) -> Estimate:
    """``hits`` of ``n`` with the one-sided bound that the verdict rests on; no value for n = 0."""
    return Estimate(
        metric,
        hits / n if n else None,
        bound.interval,
        bound.confidence,
        "Clopper-Pearson, one-sided",
        n,
        "share",
    )


def power(hits: int, n: int, confidence: float) -> tuple[str, bool]:
    """What would bring the upper bound within the allowed share; and whether prompts are all."""
    if n and hits / n >= WORST_SHARE:
        return BEYOND, False
    for total in range(max(n + 1, FEWEST_TO_PASS), MOST_UNITS + 1):
        expected = round(hits * total / n) if n else 0
        if clopper_pearson_upper(expected, total, confidence) <= WORST_SHARE:
            return f"about {counted(total - n, 'more prompt')} would decide it at this rate", True
    return OVER_BUDGET, False


def names(units: tuple[str, ...] | list[str], most: int = 8) -> str:
    """Some prompt ids, and how many more there are."""
    shown = ", ".join(units[:most])
    return shown if len(units) <= most else f"{shown} and {len(units) - most} more"
