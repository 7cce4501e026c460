"""Which way a figure went, in words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.report import Estimate
from iqaction.surfaces import _direction

ANY = st.none() | st.floats()


def of(low: float | None, high: float | None, unit: str = "nats") -> str:
    return _direction.of(Estimate("kl", 0.1, (low, high), 0.95, "m", 64, unit))


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.1, 0.2, "worse"),
        (-0.2, -0.1, "better"),
        (-0.1, 0.2, "same within noise"),
        (0.0, 0.2, "same within noise"),
        (-0.2, 0.0, "same within noise"),
        (0.0, 0.0, "same within noise"),
        (0.1, None, "worse"),
        (None, -0.1, "better"),
        (None, 0.2, "not known"),
        (-0.1, None, "not known"),
        (None, None, "not known"),
        (math.nan, 0.2, "not known"),
        (-0.1, math.inf, "not known"),
        (0.2, 0.1, "not known"),
    ],
)
def test_of__by_the_whole_interval(low: float | None, high: float | None, word: str) -> None:
    """Only an interval that lies wholly on one side of 0 has a direction."""
    assert of(low, high) == word


def test_of__nothing_to_tell() -> None:
    """No estimate, no interval, and an arm's own temperature tell no direction."""
    bare = Estimate("kl", 0.5, None, 0.95, "m", 64)

    assert {_direction.of(None), _direction.of(bare), of(0.5, 0.7, "temperature")} == {"not known"}


@given(ANY, ANY)
def test_of__mirrored(low: float | None, high: float | None) -> None:
    """What is worse is better the other way round, for every pair of ends."""
    there = {"worse": "better", "better": "worse"}
    ends = (None if x is None else -x for x in (high, low))

    assert of(*ends) == there.get(of(low, high), of(low, high))


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e300))
def test_of__never_worse_where_no_change_is_possible(low: float, width: float) -> None:
    """An interval that holds 0 is neither worse nor better."""
    high = min(low + width, 1e308)

    assert (of(low, high) == "same within noise") is (low <= 0 <= high)


def test_after__a_word_only_where_it_is_known() -> None:
    """A bound without a direction stays as it is."""
    worse = Estimate("kl", 0.1, (0.05, 0.2), 0.95, "m", 64)
    bound = Estimate("kl", 0.1, (None, 0.2), 0.95, "m", 64)

    assert _direction.after("0.1", worse) == "0.1, worse"
    assert _direction.after("up to 0.2", bound) == "up to 0.2"
