"""A baseline's fault excuses a candidate's only where it is the same one."""

from __future__ import annotations

import pytest

from iqaction.stages._sampling_alike import alike
from iqaction.stats.sampling import Ranks, Score, Sums, Support

SCORE = Score(1000, 0.0, 1.0, 1.0, 0.01, 1000.0)
RANKS = Ranks(1000, (500, 500), (500.0, 500.0), 0.0, 1, 1.0, 0.0, 0.02)
SUPPORT = Support(1000, 0, 0.01, 0, 0.01, 1.0, 0.003)


def fitted(ratio: float | None, z: float = 9.0) -> Sums:
    return Sums(Score(1000, z, 0.0, ratio, 0.01, 1000.0), RANKS, SUPPORT)


def placed(*observed: int) -> Sums:
    off = sum(abs(o - 100) for o in observed) / 2 / 300
    ranks = Ranks(300, observed, (100.0, 100.0, 100.0), 9.0, 2, 0.0, off, off)
    return Sums(SCORE, ranks, SUPPORT)


def cut(outside: int, last: int = 0) -> Sums:
    return Sums(SCORE, RANKS, Support(1000, outside, 0.01, last, 5.0, 0.0, 0.1))


@pytest.mark.parametrize(
    ("metric", "one", "other", "same"),
    [
        ("score", fitted(1.5), fitted(1.4), True),
        ("score", fitted(1.5), fitted(1.05), False),
        ("score", fitted(1.5), fitted(0.7), False),
        ("score", fitted(1.5), fitted(None), False),
        ("score", fitted(None), fitted(1.5), False),
        ("score", fitted(None, 9.0), fitted(None, 8.0), True),
        ("score", fitted(None, 9.0), fitted(None, -9.0), False),
        ("ranks", placed(160, 80, 60), placed(150, 80, 70), True),
        ("ranks", placed(160, 80, 60), placed(40, 120, 140), False),
        ("ranks", placed(160, 80, 60), placed(104, 98, 98), False),
        ("ranks", placed(160, 80, 60), placed(100, 100, 100), False),
        ("support", cut(80), cut(60), True),
        ("support", cut(80), cut(20), False),
        ("support", cut(0, 80), cut(0, 70), True),
        ("support", cut(0, 80), cut(60), False),
    ],
)
def test_alike(metric, one, other, same):
    """The same direction, and sizes within a factor of two."""
    assert alike(metric, one, other) is same
