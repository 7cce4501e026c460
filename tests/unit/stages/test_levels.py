"""The error rates that all stages share."""

from __future__ import annotations

from math import sqrt

import pytest
from scipy.stats import multivariate_normal, norm
from world import World

from iqaction.stages import _levels
from iqaction.stats.proportions import clopper_pearson_upper

WORLD = World(units=4)


def test_alpha__one_look() -> None:
    """A plan with one look spends its whole level on it."""
    assert _levels.alpha(WORLD.plan()) == 0.025
    assert _levels.alpha(WORLD.plan(), 0.05) == 0.05


def test_alpha__two_looks() -> None:
    """With an extension planned, both looks are judged at .0147."""
    plan = WORLD.plan(looks=(2, 4))

    assert _levels.alpha(plan) == pytest.approx(0.0147, abs=1e-12)
    assert _levels.alpha(plan, 0.05) == pytest.approx(0.0294, abs=1e-12)


def test_alpha__two_looks_spend_one_level() -> None:
    """Two looks at n and 2n, each at .0147, together err at .025 (Pocock 1977)."""
    z = norm.isf(_levels.alpha(WORLD.plan(looks=(2, 4))))
    both_below = multivariate_normal(cov=[[1, sqrt(0.5)], [sqrt(0.5), 1]]).cdf([z, z])

    assert 1 - both_below == pytest.approx(0.025, abs=2e-4)


def test_fewest_to_pass() -> None:
    """59 is the smallest sample whose 95 % upper bound of no hit is within 5 %."""
    n = _levels.FEWEST_TO_PASS

    assert clopper_pearson_upper(0, n, 0.95) <= _levels.WORST_SHARE
    assert clopper_pearson_upper(0, n - 1, 0.95) > _levels.WORST_SHARE


def test_is_floorless() -> None:
    """Only `floor: single` goes without the noise between launches."""
    specs = [WORLD.plan(floor=floor).stage("score") for floor in ("single", "launches")]

    assert [spec is not None and _levels.is_floorless(spec) for spec in specs] == [True, False]
