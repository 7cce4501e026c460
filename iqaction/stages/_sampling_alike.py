"""Do two samplers fail one test in the same way? Pure.

A fault that was there before is not this change's doing, but only where it is the same fault: the
same test, in the same direction, of about the same size.
"""

from __future__ import annotations

import math

import numpy as np

from iqaction.stats.sampling import Ranks, Score, Sums, Support

_FACTOR = 2.0  # between the two sizes, at most
_ALIGNED = 0.7  # cosine between what is drawn too often and too rarely, by place


def alike(metric: str, one: Sums, other: Sums) -> bool:
    """Whether the excess of ``one`` over what was due is about that of ``other``."""
    if metric == "score":
        return _scores(one.score, other.score)
    if metric == "ranks":
        return _ranks(one.ranks, other.ranks)
    return _support(one.support, other.support)


def _near(one: float, other: float) -> bool:
    return one * other > 0 and 1 / _FACTOR <= one / other <= _FACTOR


def _scores(one: Score, other: Score) -> bool:
    if one.ratio is not None and other.ratio is not None:
        return _near(math.log(one.ratio), math.log(other.ratio))
    if one.ratio is not None or other.ratio is not None or not one.n or not other.n:
        return False
    # Both fit no temperature: what is left is how far the mean of log p is off.
    means = [s.z * math.sqrt(s.information) / s.n for s in (one, other)]
    return _near(means[0], means[1])


def _ranks(one: Ranks, other: Ranks) -> bool:
    if not one.distance or not other.distance or not _near(one.distance, other.distance):
        return False
    a, b = (np.subtract(r.observed, r.expected) for r in (one, other))
    return float(a @ b) >= _ALIGNED * float(np.linalg.norm(a) * np.linalg.norm(b))


def _support(one: Support, other: Support) -> bool:
    """By what is larger in ``one``: draws outside, or of the last token, behind which they hide."""
    pairs = [
        ((one.outside - one.explained) / one.n, (other.outside - other.explained) / other.n),
        ((one.last - one.last_explained) / one.n, (other.last - other.last_explained) / other.n),
    ] if one.n and other.n else []  # fmt: skip
    return bool(pairs) and _near(*max(pairs))
