from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iqaction.stats.proportions import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    exceeds_p,
    mcnemar_exact,
    wilson,
)


@st.composite
def counts(draw: st.DrawFn, most: int = 200) -> tuple[int, int]:
    n = draw(st.integers(1, most))
    return draw(st.integers(0, n)), n


def test_clopper_pearson__known_answers():
    """0 of 59 and 1 of 93 bound a rate by 5 %, one prompt fewer does not; 8 of 64 and 10 of 96
    prove it beyond 5 %, one hit fewer does not."""
    assert clopper_pearson_upper(0, 59, 0.95) <= 0.05 < clopper_pearson_upper(0, 58, 0.95)
    assert clopper_pearson_upper(1, 93, 0.95) <= 0.05 < clopper_pearson_upper(1, 92, 0.95)
    assert clopper_pearson_lower(8, 64, 0.975) > 0.05 >= clopper_pearson_lower(7, 64, 0.975)
    assert clopper_pearson_lower(10, 96, 0.975) > 0.05 >= clopper_pearson_lower(9, 96, 0.975)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(counts(), st.sampled_from([0.9, 0.95, 0.975, 0.99]))
def test_clopper_pearson__scipy(count, confidence):
    """SciPy's exact one-sided intervals are the same."""
    k, n = count
    less = stats.binomtest(k, n, alternative="less").proportion_ci(confidence, "exact")
    more = stats.binomtest(k, n, alternative="greater").proportion_ci(confidence, "exact")

    assert clopper_pearson_upper(k, n, confidence) == pytest.approx(less.high, abs=1e-9)
    assert clopper_pearson_lower(k, n, confidence) == pytest.approx(more.low, abs=1e-9)


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.05, 0.3, 0.5, 0.97])
def test_clopper_pearson__covers(rate):
    """Summed over all outcomes, the bounds hold at least as often as they say."""
    n = 60
    weight = [math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
    below = sum(w for k, w in enumerate(weight) if clopper_pearson_upper(k, n, 0.95) >= rate)
    above = sum(w for k, w in enumerate(weight) if clopper_pearson_lower(k, n, 0.95) <= rate)

    assert min(below, above) >= 0.95


@settings(deadline=None, max_examples=100, derandomize=True)
@given(counts())
def test_clopper_pearson__monotonic(count):
    """A further hit never lowers the bound, a further miss never raises it."""
    k, n = count
    upper = clopper_pearson_upper(k, n, 0.95)

    assert clopper_pearson_lower(k, n, 0.95) <= k / n <= upper
    assert clopper_pearson_upper(k + 1, n + 1, 0.95) >= upper
    assert clopper_pearson_upper(k, n + 1, 0.95) <= upper


def test_clopper_pearson__degenerate():
    """Nothing tried says nothing; all or none bound one side only."""
    assert clopper_pearson_upper(0, 0, 0.95) == 1.0
    assert clopper_pearson_lower(0, 0, 0.95) == 0.0
    assert clopper_pearson_upper(7, 7, 0.95) == 1.0
    assert clopper_pearson_lower(0, 7, 0.95) == 0.0
    assert clopper_pearson_upper(0, 1, 0.95) == pytest.approx(0.95)
    assert clopper_pearson_lower(1, 1, 0.95) == pytest.approx(0.05)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(counts(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson__scipy(count, level):
    """SciPy's Wilson interval is the same."""
    k, n = count
    theirs = stats.binomtest(k, n).proportion_ci(level, "wilson")

    assert wilson(k, n, level) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_wilson__degenerate():
    """No trials give 0 to 1; none and all give an end that is exact."""
    assert wilson(0, 0, 0.95) == (0.0, 1.0)
    assert wilson(0, 9, 0.95).low == 0.0
    assert wilson(9, 9, 0.95).high == 1.0
    assert wilson(0, 9, 0.95).high == pytest.approx(1 - wilson(9, 9, 0.95).low)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_exact__scipy(b, c):
    """It is the two-sided sign test, whichever way round."""
    theirs = stats.binomtest(b, b + c).pvalue if b + c else 1.0

    assert mcnemar_exact(b, c) == pytest.approx(theirs, rel=1e-9)
    assert mcnemar_exact(b, c) == mcnemar_exact(c, b)


def test_mcnemar_exact__known_answers():
    """Six flips one way and none the other are below .05, five are not; 40 each way are 1."""
    assert mcnemar_exact(6, 0) == 2 / 64
    assert mcnemar_exact(5, 0) == 2 / 32
    assert mcnemar_exact(40, 40) == 1.0
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(2500, 0) == 0.0  # below the smallest float, no overflow


@settings(deadline=None, max_examples=100, derandomize=True)
@given(counts(80), counts(80))
def test_exceeds_p__scipy(here, floor):
    """It is Fisher's exact test, one-sided."""
    (k, n), (x, m) = here, floor
    theirs = stats.fisher_exact([[k, n - k], [x, m - x]], alternative="greater").pvalue

    assert exceeds_p(k, n, x, m) == pytest.approx(theirs, rel=1e-7)


def test_exceeds_p__known_answers():
    """5 of 64 against none in 64 are below .05, 4 are not."""
    assert exceeds_p(5, 64, 0, 64) == pytest.approx(0.02882, abs=1e-5)
    assert exceeds_p(4, 64, 0, 64) == pytest.approx(0.05956, abs=1e-5)


def test_exceeds_p__degenerate():
    """No hits, or nothing to compare with, is no evidence."""
    assert exceeds_p(0, 64, 0, 64) == 1.0
    assert exceeds_p(0, 64, 9, 64) == 1.0
    assert exceeds_p(9, 64, 0, 0) == 1.0
    assert exceeds_p(0, 0, 0, 0) == 1.0
    assert exceeds_p(0, 0, 3, 9) == 1.0


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, -1)])
def test_counts__impossible(k, n):
    """A count outside 0 to n is refused everywhere."""
    for work in (
        lambda: clopper_pearson_upper(k, n, 0.95),
        lambda: clopper_pearson_lower(k, n, 0.95),
        lambda: wilson(k, n, 0.95),
        lambda: exceeds_p(k, n, 0, 5),
        lambda: exceeds_p(0, 5, k, n),
    ):
        with pytest.raises(ValueError, match="no count"):
            work()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0, math.nan])
def test_counts__impossible_level(level):
    """A level that is not between 0 and 1 is refused, a percentage too."""
    for work in (clopper_pearson_upper, clopper_pearson_lower, wilson):
        with pytest.raises(ValueError, match="between 0 and 1"):
            work(1, 5, level)


def test_mcnemar_exact__negative():
    """A negative count is refused."""
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(3, -1)
