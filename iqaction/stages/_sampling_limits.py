"""How far a sampler may be off and still PASS, and how many draws it takes to tell. Pure.

The interval of the fitted temperature alone lets through what it should not: with the default
number of draws, 95 % of it lie within .90 to 1.10 of a temperature that is 5 % off half of the
time. So 5 % off must be ruled out besides, at a level at which that never happens.
"""

from __future__ import annotations

import math

from iqaction.stats.proportions import clopper_pearson_upper
from iqaction.stats.sampling import Sums

WORST_RATIO = 0.10  # of the fitted temperature, at 95 %
SHOWN_RATIO = 0.05  # of the temperature: so much must be ruled out
WORST_DISTANCE = 0.02  # total variation over the places of the list, upper bound at 95 %
WORST_OUTSIDE = 0.01  # of draws outside what was kept, upper bound at 95 %
Z95 = 1.959964
Z_RULED_OUT = 3.540084  # one-sided 2e-4
_ERRORS = 4.4  # of the largest set of places: 1.645, and what chance adds to it 19 times of 20
_MOST = 100  # times the draws of a plan: beyond that no number is given


def within(metric: str, sums: Sums, broken: int) -> bool:
    """Whether the bound of one of "score", "ranks" and "support" is within its limit.

    ``broken`` draws, of which nothing is known, count as outside. A NaN is never within.
    """
    if metric == "score":
        wide, sure = sums.score.interval(Z95), sums.score.interval(Z_RULED_OUT)
        return _around_one(wide, WORST_RATIO) and _around_one(sure, SHOWN_RATIO)
    if metric == "ranks":
        upper = sums.ranks.upper
        return upper is not None and upper <= WORST_DISTANCE
    return worst_outside(sums, broken) <= WORST_OUTSIDE


def worst_outside(sums: Sums, broken: int) -> float:
    n = sums.support.n + broken
    return clopper_pearson_upper(sums.support.outside + broken, n, 0.95) if n else 1.0


def _around_one(interval: tuple[float, float] | None, most: float) -> bool:
    return interval is not None and 1 - most <= interval[0] and interval[1] <= 1 + most


def times_more(metric: str, sums: Sums, broken: int) -> float | None:
    """By which factor the draws would have to grow for a sampler without fault to PASS 19 times
    of 20; None where what was seen is itself beyond the limit, or nothing was seen."""
    if metric == "score":
        wide = sums.score.interval(Z95)
        if wide is None or wide[0] > 1 + SHOWN_RATIO or wide[1] < 1 - SHOWN_RATIO:
            return None
        # Both ends: the estimate itself is off by up to 1.96 errors.
        needed = ((Z_RULED_OUT + Z95) / SHOWN_RATIO) ** 2
        return _bounded(needed / sums.score.information)
    if metric == "ranks":
        distance, upper = sums.ranks.distance, sums.ranks.upper
        if distance is None or upper is None:
            return None
        error = (upper - distance) / 1.644854
        if distance - 3 * error > WORST_DISTANCE:
            return None
        return _bounded((_ERRORS * error / WORST_DISTANCE) ** 2)
    n, seen = sums.support.n + broken, sums.support.outside + broken
    if not n:
        return None
    for times in range(2, _MOST):
        if clopper_pearson_upper(seen * times, n * times, 0.95) <= WORST_OUTSIDE:
            return float(times)
    return None


def _bounded(times: float) -> float | None:
    return max(times, 1.25) if math.isfinite(times) and times < _MOST else None
