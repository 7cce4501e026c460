from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iqaction.stats.looks import boundaries, equal_looks, looks_at, looks_until, spent

SIX = (5.36656, 3.71034, 2.96974, 2.53868, 2.25219, 2.04479)
properties = settings(deadline=None, max_examples=20, derandomize=True)

schedules = st.lists(st.integers(1, 400), min_size=1, max_size=6, unique=True).map(
    lambda counts: tuple(count / 400 for count in sorted(counts))
)


def evenly(count: int) -> tuple[float, ...]:
    """So many equally spaced looks."""
    return tuple(k / count for k in range(1, count + 1))


def first_crossings(fractions: tuple[float, ...], z: tuple[float, ...], paths: int) -> list[float]:
    """The share of simulated Brownian paths that has crossed by each look."""
    rng = np.random.default_rng(20)
    value, crossed, out = np.zeros(paths), np.zeros(paths, bool), []
    for before, now, limit in zip((0.0, *fractions), fractions, z, strict=False):
        value += rng.normal(0, math.sqrt(now - before), paths)
        crossed |= value >= limit * math.sqrt(now)
        out.append(float(crossed.mean()))
    return out


def test_spent__known_answers():
    """It is 2 - 2 Phi(2.2414 / sqrt t): nothing at the start, all of it at the end."""
    for fraction in (0.2, 0.5, 0.9):
        theirs = 2 * stats.norm.sf(2.2414027276 / math.sqrt(fraction))

        assert spent(fraction) == pytest.approx(theirs, rel=1e-8)
    assert spent(1.0) == 0.025
    assert spent(1.5) == 0.025
    assert spent(0.999999) == pytest.approx(0.025, abs=1e-6)
    assert spent(1 / 6) == pytest.approx(4.01e-8, rel=1e-2)


@pytest.mark.parametrize("fraction", [0.0, -1.0, math.nan])
def test_spent__nothing(fraction):
    """No pairs, or no number of them, spend nothing."""
    assert spent(fraction) == 0.0


def test_boundaries__six_equal_looks():
    """The pre-registered figures come out."""
    assert boundaries(evenly(6)) == pytest.approx(SIX, abs=1e-5)


@pytest.mark.parametrize(
    "published",
    [
        (1.95996,),
        (2.9626, 1.9686),
        (3.7103, 2.5114, 1.9930),
        (4.3326, 2.9631, 2.3590, 2.0141),
        (4.8769, 3.3570, 2.6803, 2.2898, 2.0310),
    ],
)
def test_boundaries__published(published):
    """One to five equal looks have the boundaries that are tabulated for this function."""
    assert boundaries(evenly(len(published))) == pytest.approx(published, abs=1e-4)


@pytest.mark.parametrize(
    "fractions", [evenly(6), (0.3, 0.55, 0.56, 1.0), (0.45,), (0.2, 0.9), (0.5, 0.7, 0.75)]
)
def test_boundaries__simulated(fractions):
    """Of 400,000 simulated paths as many cross by each look as may: the level is kept, unequal
    and unfinished looks included."""
    paths = 400_000
    got = first_crossings(fractions, boundaries(fractions), paths)

    for fraction, share in zip(fractions, got, strict=True):
        level = spent(fraction)

        assert share == pytest.approx(level, abs=4 * math.sqrt(level / paths) + 1e-6)


@pytest.mark.parametrize("fractions", [evenly(3), (0.4, 0.45, 1.0), (0.3, 0.6, 0.62, 0.9)])
def test_boundaries__multivariate_normal(fractions):
    """SciPy's multivariate normal gives the same chance of crossing nothing up to each look."""
    z, times = np.array(boundaries(fractions)), np.array(fractions)
    together = np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times))
    for k in range(2, len(fractions) + 1):
        normal = stats.multivariate_normal(np.zeros(k), together[:k, :k], seed=3)

        assert 1 - normal.cdf(z[:k]) == pytest.approx(spent(fractions[k - 1]), abs=2e-5)


@properties
@given(schedules)
def test_boundaries__earlier_looks_do_not_depend_on_later(fractions):
    """What was decided stays decided, wherever the run is cut afterwards."""
    whole = boundaries(fractions)

    for k in range(len(fractions)):
        assert boundaries(fractions[:k]) == pytest.approx(whole[:k], abs=1e-9)


@properties
@given(schedules)
def test_boundaries__never_below_one_look(fractions):
    """No look is easier than if it had been the only one."""
    for fraction, z in zip(fractions, boundaries(fractions), strict=True):
        level = spent(fraction)

        assert level == 0 or z >= stats.norm.isf(level) - 1e-6


def test_boundaries__decide_nothing():
    """A look that may spend next to nothing, or that comes right after another, is infinite, and
    what it left goes to the next."""
    early = boundaries((0.01, 0.5, 1.0))
    close = boundaries((0.5, 0.50001, 1.0))

    assert early[0] == math.inf
    assert early[1:] == pytest.approx(boundaries((0.5, 1.0)), abs=1e-9)
    assert close[1] == math.inf
    assert (close[0], close[2]) == pytest.approx(boundaries((0.5, 1.0)), abs=1e-9)
    assert boundaries(()) == ()


def test_boundaries__close_looks():
    """Looks one pair of 2,000 apart are resolved: as much crosses as may."""
    fractions = (0.5, 0.5005, 1.0)
    first, second, last = boundaries(fractions)

    assert first == pytest.approx(boundaries((0.5,))[0])
    assert math.isfinite(second)
    assert last == pytest.approx(boundaries((0.5, 1.0))[1], abs=2e-3)


@pytest.mark.parametrize(
    "fractions",
    [(0.0, 1.0), (-0.5,), (0.5, 0.5), (0.6, 0.4), (0.5, 1.1), (math.nan,), (0.5, math.nan)],
)
def test_boundaries__impossible_looks(fractions):
    """Looks that do not increase, or lie beyond the plan, are refused."""
    with pytest.raises(ValueError, match="look"):
        boundaries(fractions)


@pytest.mark.parametrize("alpha", [0.0, 0.5, -1.0, math.nan])
def test_boundaries__impossible_level(alpha):
    """A level that is not between 0 and one half is refused."""
    with pytest.raises(ValueError, match="alpha"):
        boundaries((1.0,), alpha)


def test_boundaries__level():
    """Another level is kept as well: one look is the normal quantile."""
    assert boundaries((1.0,), 0.1) == pytest.approx((stats.norm.isf(0.1),))
    assert boundaries((0.5, 1.0), 0.1)[1] > stats.norm.isf(0.1)


def test_equal_looks():
    """Six looks at 1,319 pairs, at whole pairs, with the level spent to the end."""
    looks = equal_looks(1319)

    assert [look.n for look in looks] == [220, 440, 660, 880, 1100, 1319]
    assert {look.of for look in looks} == {1319}
    assert [look.z for look in looks] == pytest.approx(SIX, abs=3e-3)
    assert looks[-1].alpha == 0.025


def test_equal_looks__few_pairs():
    """Fewer pairs than looks have a look each; none have none."""
    assert [look.n for look in equal_looks(4)] == [1, 2, 3, 4]
    assert [look.n for look in equal_looks(1)] == [1]
    assert equal_looks(0) == ()
    assert [look.n for look in equal_looks(100, 1)] == [100]


@pytest.mark.parametrize(("of", "count"), [(-1, 6), (10, 0), (10, -2)])
def test_equal_looks__impossible(of, count):
    """No looks, or fewer than no pairs, are refused."""
    with pytest.raises(ValueError, match="looks at"):
        equal_looks(of, count)


@pytest.mark.parametrize("counts", [[5, 11], [0], [0, 5], [5, 5], [7, 5], [-1, 5]])
def test_looks_at__impossible(counts):
    """Counts that do not increase from 1 to the plan's are refused."""
    with pytest.raises(ValueError, match="look"):
        looks_at(counts, 10)


def test_looks_until():
    """A budget that ends between two looks adds one there; the rest is not spent."""
    planned = equal_looks(1319)
    cut = looks_until(planned, 1000)

    assert cut[:4] == planned[:4]
    assert [look.n for look in cut] == [220, 440, 660, 880, 1000]
    assert cut[-1].alpha == spent(1000 / 1319)
    assert cut[-1].z > planned[-1].z


def test_looks_until__no_new_look():
    """A budget that ends on a look adds none, nor does one that lasts or allows nothing."""
    planned = equal_looks(1319)

    assert looks_until(planned, 660) == planned[:3]
    assert looks_until(planned, 1319) == planned
    assert looks_until(planned, 5000) == planned
    assert looks_until(planned, 0) == ()
    assert looks_until((), 7) == ()


def test_looks_until__one_pair():
    """A cut after a single pair can decide nothing."""
    (look,) = looks_until(equal_looks(1319), 1)

    assert (look.n, look.z) == (1, math.inf)
