"""How far off is too far, and how many draws it takes to tell."""

from __future__ import annotations

import math

import pytest

from iqaction.stages._sampling_limits import times_more, within
from iqaction.stats.sampling import Ranks, Score, Sums, Support


def sums(
    *, ratio: float | None = 1.0, information: float = 16_000, distance: float | None = 0.005,
    upper: float | None = 0.01, outside: int = 0, n: int = 10_000,
) -> Sums:  # fmt: skip
    error = None if ratio is None else 1 / math.sqrt(information)
    return Sums(
        Score(n, 0.0, 1.0, ratio, error, information),
        Ranks(n, (n,), (float(n),), 0.0, 0, 1.0, distance, upper),
        Support(n, outside, 0.1, 0, 0.1, 1.0, 0.0),
    )


@pytest.mark.parametrize(
    ("metric", "named", "broken", "is_within"),
    [
        ("score", {}, 0, True),
        ("score", {"ratio": 1.02}, 0, True),
        ("score", {"ratio": 1.03}, 0, False),  # 5 % off is not ruled out
        ("score", {"ratio": 0.97}, 0, False),
        ("score", {"information": 3000}, 0, False),
        ("score", {"ratio": None}, 0, False),
        ("score", {"ratio": math.nan}, 0, False),
        ("ranks", {}, 0, True),
        ("ranks", {"upper": 0.021}, 0, False),
        ("ranks", {"upper": math.nan}, 0, False),
        ("ranks", {"upper": None}, 0, False),
        ("support", {}, 0, True),
        ("support", {}, 90, False),
        ("support", {"outside": 90}, 0, False),
        ("support", {"n": 298}, 0, False),
        ("support", {"n": 299}, 0, True),
        ("support", {"n": 0}, 0, False),
    ],
)
def test_within(metric, named, broken, is_within):
    """Each bound against its limit; draws of which nothing is known count as outside."""
    assert within(metric, sums(**named), broken) is is_within


@pytest.mark.parametrize(
    ("metric", "named", "least", "most"),
    [
        ("score", {"information": 3000}, 3, 5),
        ("score", {"ratio": 1.02, "information": 3000}, 3, 5),
        ("score", {"ratio": 1.3}, None, None),
        ("score", {"ratio": None}, None, None),
        ("score", {"information": 10}, None, None),
        ("ranks", {"distance": 0.02, "upper": 0.04}, 6, 9),
        ("ranks", {"distance": 0.3, "upper": 0.31}, None, None),
        ("ranks", {"distance": None}, None, None),
        ("support", {"n": 100}, 3, 3),
        ("support", {"n": 100, "outside": 5}, None, None),
        ("support", {"n": 0}, None, None),
    ],
)
def test_times_more(metric, named, least, most):
    """A factor on the draws, or None where more of them would not help."""
    times = times_more(metric, sums(**named), 0)

    assert times is None if least is None else least <= times <= most
