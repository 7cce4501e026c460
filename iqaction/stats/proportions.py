"""Exact bounds and tests for counts: how many of n. Knows no prompt, margin or verdict."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """Two-sided, both ends included."""

    low: float
    high: float


def clopper_pearson_upper(k: int, n: int, confidence: float) -> float:
    """The one-sided upper bound of a rate seen ``k`` times in ``n`` (Clopper and Pearson, 1934).

    The rate at which ``k`` or fewer hits have probability ``1 - confidence``: it covers the true
    rate at least that often, whatever the rate. No trials at all give 1.

    Raises
    ------
    ValueError
        Unless ``0 <= k <= n`` and ``0 < confidence < 1``.
    """
    _check(k, n, confidence)
    if k == n:
        return 1.0
    from scipy.special import betaincinv  # noqa: PLC0415 - 0.4 s to import

    return float(betaincinv(k + 1, n - k, confidence))


def clopper_pearson_lower(k: int, n: int, confidence: float) -> float:
    """The one-sided lower bound of a rate seen ``k`` times in ``n``; no trials at all give 0.

    The mirror of :func:`clopper_pearson_upper`, which see.
    """
    return 1.0 - clopper_pearson_upper(n - k, n, confidence)


def wilson(k: int, n: int, level: float) -> Interval:
    """Wilson's score interval (1927), two-sided at ``level``, for display.

    No trials at all give 0 to 1.

    Raises
    ------
    ValueError
        Unless ``0 <= k <= n`` and ``0 < level < 1``.
    """
    _check(k, n, level)
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + level) / 2)
    rate, weight = k / n, z * z / n
    middle = (rate + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(rate * (1 - rate) / n + weight / (4 * n))
    # The ends at k = 0 and k = n are 0 and 1 exactly, which rounding would miss.
    low = 0.0 if k == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if k == n else min(1.0, middle + half))


def mcnemar_exact(b: int, c: int) -> float:
    """The two-sided exact p of a paired change: ``b`` units only one way, ``c`` only the other.

    Twice the smaller binomial tail at one half, at most 1. Nothing changed gives 1.

    Raises
    ------
    ValueError
        Where a count is negative.
    """
    if min(b, c) < 0:
        raise ValueError(f"negative count: b = {b}, c = {c}")
    n = b + c
    ways = term = 1
    for i in range(min(b, c)):
        term = term * (n - i) // (i + 1)
        ways += term
    return min(1.0, float(Fraction(2 * ways, 2**n)))


def exceeds_p(hits: int, n: int, floor_hits: int, floor_n: int) -> float:
    """The one-sided exact p of "hits are more frequent here than on the floor".

    Fisher's exact test: given all hits of both arms, how often chance alone would put at least
    ``hits`` of them here (a hypergeometric tail). 5 of 64 against 0 of 64 give .029, 4 give .060.
    No trials or no hits give 1.

    Raises
    ------
    ValueError
        Unless ``0 <= hits <= n`` and ``0 <= floor_hits <= floor_n``.
    """
    _check(hits, n)
    _check(floor_hits, floor_n)
    total = hits + floor_hits
    ways = sum(
        math.comb(n, i) * math.comb(floor_n, total - i)
        for i in range(max(hits, total - floor_n), min(n, total) + 1)
    )
    return float(Fraction(ways, math.comb(n + floor_n, total)))


def _check(k: int, n: int, confidence: float = 0.5) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no count")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
