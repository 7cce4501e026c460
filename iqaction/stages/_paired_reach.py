"""What a number of paired items can decide, whatever is answered. Pure.

Knows how many there are, the margin, and how many flip by themselves. Knows no answer.
"""

from __future__ import annotations

import math
from itertools import count

from iqaction.report import Table
from iqaction.stages._paired_items import LOOKS, Flips
from iqaction.stages._wording import percent, points
from iqaction.stats.looks import Look, equal_looks
from iqaction.stats.paired import (
    PLAIN_Z,
    SOLVED_MARGINS,
    Reach,
    reach,
    tango,
    too_few_solved,
)

_TYPICAL = (0.01, 0.03, 0.06)  # shares that flip between two launches of one engine


def out_of_reach(planned: int, margin: float, many: str) -> str:
    """Why that many items cannot PASS whatever is answered; "" where they can."""
    if SOLVED_MARGINS * margin >= 1:
        return (
            f"cannot PASS: with a margin of {points(margin)} no baseline solves the "
            f"{SOLVED_MARGINS} margins that there must be to lose"
        )
    if can_pass(planned, margin):
        return ""
    return (
        f"cannot PASS: {planned:,} {many}, and it takes at least "
        f"{fewest_to_pass(margin):,} to exclude a loss of {points(margin)}, even where no answer "
        "flips"
    )


def can_pass(n: int, margin: float, looks: int = LOOKS) -> bool:
    """True where n items that all are and stay right exclude a loss of the margin at last, and
    are provably enough to lose."""
    if n < 1 or too_few_solved(n, n, margin):
        return False
    bound = tango(0, 0, n, equal_looks(n, looks)[-1].z)
    return bound is not None and bound.high <= margin


def fewest_to_pass(margin: float, looks: int = LOOKS) -> int:
    """With how many items a PASS is within reach; ``margin`` below .1, which no number reaches."""
    least = max(1, math.floor(PLAIN_Z**2 * (1 - margin) / margin))  # at a single look
    return next(n for n in count(least) if can_pass(n, margin, looks))


def reach_table(planned: int, margin: float, floor: Flips) -> Table | None:
    """What the plan's items can decide, at the flip rate of the A/A floor and at usual ones."""
    if not planned:
        return None
    last = equal_looks(planned, LOOKS)[-1]
    rows = []
    if floor.rate is not None:
        rows.append(_reach_row(f"{percent(floor.rate)} (A/A floor)", floor.rate, last, margin))
    rows += [_reach_row(percent(rate), rate, last, margin) for rate in _TYPICAL]
    return Table(
        f"what {planned:,} items can decide",
        (
            "answers that flip by chance",
            "unchanged: proven within the margin",
            "items to prove it in 80 %",
            "loss that fails in 80 %",
        ),
        tuple(rows),
    )


def _reach_row(name: str, rate: float, last: Look, margin: float) -> tuple[str, str, str, str]:
    can: Reach = reach(last.n, min(rate, 0.99), margin, z=last.z)
    fails = "none" if can.drop_that_fails is None else points(can.drop_that_fails)
    return name, percent(can.passes), f"{can.pairs_to_pass:,}", fails
