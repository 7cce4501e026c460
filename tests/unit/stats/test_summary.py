from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction.stats.summary import percentiles, rms

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def plain_percentile(values: list[float], level: float) -> float:
    """As llama.cpp's perplexity tool takes it: linear between order statistics."""
    ordered = sorted(values)
    place = level / 100 * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return (1 - (place - low)) * ordered[low] + (place - low) * ordered[high]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(numbers, st.floats(0, 100))
def test_percentiles__second_implementation(values, level):
    """They are llama.cpp's percentiles."""
    (got,) = percentiles(values, (level,))

    assert got == pytest.approx(plain_percentile(values, level), rel=1e-9, abs=1e-6)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(numbers)
def test_percentiles__monotonic(values):
    """They rise with the level, from the smallest value to the largest."""
    got = percentiles(values, (0, 50, 95, 99, 99.9, 100))

    assert got == tuple(sorted(got))
    assert (got[0], got[-1]) == (min(values), max(values))


def test_percentiles__known_answer():
    """Of 0 to 1000 the default levels are 500, 950, 990, 999 and 1000."""
    assert percentiles(np.arange(1001)) == pytest.approx((500, 950, 990, 999, 1000))


@pytest.mark.parametrize("values", [[], [math.nan], [math.nan, math.inf, -math.inf]])
def test_percentiles__nothing_measured(values):
    """Nothing finite gives NaN at every level."""
    got = percentiles(values, (50, 100))

    assert len(got) == 2
    assert all(math.isnan(x) for x in got)
    assert math.isnan(rms(values))


def test_percentiles__unmeasured_values():
    """Values that are not finite are left out, not ranked."""
    assert percentiles([3.0, math.nan, 1.0, math.inf, 2.0], (0, 50, 100)) == (1.0, 2.0, 3.0)
    assert rms([3.0, math.nan, -4.0, math.inf]) == pytest.approx(math.sqrt(12.5))


def test_percentiles__one_value():
    """One value is every percentile."""
    assert percentiles([7.0]) == (7.0,) * 5
    assert rms([-7.0]) == 7.0


@pytest.mark.parametrize("level", [-1, 100.1, math.nan])
def test_percentiles__impossible_level(level):
    """A level outside 0 to 100 is refused."""
    with pytest.raises(ValueError, match="within 0 to 100"):
        percentiles([1.0], (50, level))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(numbers)
def test_rms__second_implementation(values):
    """It is the root of the mean of the squares."""
    expected = math.sqrt(math.fsum(x * x for x in values) / len(values))

    assert rms(values) == pytest.approx(expected, rel=1e-9, abs=1e-150)
