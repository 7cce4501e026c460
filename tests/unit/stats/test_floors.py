"""The smallest margin that a floor supports, against the judge's own rule and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from iqaction.stats.floors import smallest_margin
from iqaction.stats.noninferiority import judge_means


def by_search(sd: float, n: int, tau: float, launches: int, power: float = 0.9) -> float:
    """A second implementation: the margin is searched for, quantiles from scipy.stats."""
    se, reach = sd / math.sqrt(n), tau * math.sqrt(1 + 1 / launches)

    def passes(margin: float) -> float:
        """Probability that a new launch's mean leaves its bound within the margin."""
        a = stats.t.ppf(0.975, n - 1) * max(se, margin / 100)
        b = stats.t.ppf(0.975, launches - 1) * reach
        return float(
            stats.t.cdf((margin - math.sqrt(a * a + b * b)) / max(reach, se), launches - 1)
        )

    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) < power else (low, middle)
    return high


@pytest.mark.parametrize("launches", [2, 3, 5, 20])
@pytest.mark.parametrize("n", [2, 59, 96, 500])
@pytest.mark.parametrize(("sd", "tau"), [(0.01, 0), (0, 0.002), (0.01, 0.002), (1e-6, 0.5), (3, 1)])
def test_smallest_margin__second_implementation(
    launches: int, n: int, sd: float, tau: float
) -> None:
    """The closed form is the margin that a search finds."""
    found = smallest_margin(sd, n, tau, launches)

    assert found == pytest.approx(by_search(sd, n, tau, launches), rel=1e-9)


@pytest.mark.parametrize("launches", [3, 5])
@pytest.mark.parametrize("sd", [0.0, 0.05])
def test_smallest_margin__through_the_judge(launches: int, sd: float) -> None:
    """Of engines that did not change, nine in ten PASS at it, judged by the real rule."""
    rng = np.random.default_rng(5)
    n, passed, runs = 64, 0, 400
    for _ in range(runs):
        means = rng.normal(0, 0.02, launches + 1)
        each = means[:, None] + rng.normal(0, sd, (launches + 1, n))
        floor, new = each[:-1], each[-1]
        tau = float(floor.mean(axis=1).std(ddof=1))
        spread = float((new - floor.mean(axis=0)).std(ddof=1))
        margin = smallest_margin(spread, n, tau, launches)
        assert margin is not None
        (judged,) = judge_means(
            (new - floor.mean(axis=0))[:, None],
            [margin],
            launch_means=floor.mean(axis=1)[:, None],
            resamples=199,
            rng=rng,
        )
        passed += judged.upper <= margin

    # .9 with a standard error of .015; the resampled bound costs a little, and no more.
    assert 0.84 <= passed / runs <= 0.95


@pytest.mark.parametrize(("launches", "tau", "supports"), [(5, 0.1, True), (3, 0.25, False)])
def test_smallest_margin__known(launches: int, tau: float, supports: bool) -> None:
    """Launches that differ by a tenth of the margin are fine with five of them; by a quarter of it
    they are not with three."""
    found = smallest_margin(0.0, 96, tau, launches)

    assert found is not None
    assert (found <= 1) is supports


def test_smallest_margin__nothing_differs() -> None:
    """An engine that repeats itself to the bit supports any margin."""
    assert smallest_margin(0.0, 64, 0.0, 5) == 0


def test_smallest_margin__more_is_better() -> None:
    """More relaunches, more prompts, less noise: never a larger margin."""
    by_launches = [smallest_margin(0.01, 64, 0.002, n) or 0 for n in (2, 3, 5, 10)]
    by_prompts = [smallest_margin(0.1, n, 0.0, 5) or 0 for n in (16, 64, 256)]

    assert by_launches == sorted(by_launches, reverse=True)
    assert by_prompts == sorted(by_prompts, reverse=True)


@pytest.mark.parametrize(
    ("sd", "n", "tau", "launches"),
    [
        *((0.1, 1, 0.1, 5), (0.1, 64, 0.1, 1), (0.1, 0, 0.1, 0)),
        *((math.nan, 64, 0.1, 5), (0.1, 64, math.nan, 5), (math.inf, 64, 0.1, 5), (-1, 64, 0.1, 5)),
    ],
)
def test_smallest_margin__not_known(sd: float, n: int, tau: float, launches: int) -> None:
    """Without two units, two launches and real spreads nothing is said."""
    assert smallest_margin(sd, n, tau, launches) is None
