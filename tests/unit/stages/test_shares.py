"""Shares of prompts with an exact bound, and what would decide an open one."""

from __future__ import annotations

import re

import pytest
from scipy.stats import binomtest

from iqaction.stages import _shares
from iqaction.stats.proportions import clopper_pearson_upper


@pytest.mark.parametrize(("hits", "n"), [(0, 59), (3, 64), (64, 64), (1, 1)])
def test_estimate__second_implementation(hits: int, n: int) -> None:
    """The bound is one side of scipy's exact interval at twice the error, the other side open."""
    wanted = binomtest(hits, n).proportion_ci(0.90, "exact")
    high = _shares.estimate("x.y", hits, n, _shares.at_most(hits, n, 0.95))
    low = _shares.estimate("x.y", hits, n, _shares.at_least(hits, n, 0.95))

    assert high.value == low.value == hits / n
    assert high.interval == (None, pytest.approx(wanted.high, abs=1e-9))
    assert low.interval == (pytest.approx(wanted.low, abs=1e-9), None)
    assert (high.n_units, high.level, high.unit) == (n, 0.95, "share")


def test_estimate__nothing() -> None:
    """Nothing observed has no value, and a bound that says so."""
    found = _shares.estimate("x.y", 0, 0, _shares.at_most(0, 0, 0.95))

    assert found.value is None
    assert found.interval == (None, 1.0)


@pytest.mark.parametrize(("hits", "n"), [(1, 64), (2, 96), (0, 40), (0, 0), (3, 128)])
def test_power__the_number_decides(hits: int, n: int) -> None:
    """With so many more prompts at this rate the bound is within 5 %; with one fewer it is not."""
    said, more = _shares.power(hits, n, 0.95)
    found = re.match(r"about (\d+) more prompts? would decide it", said)

    assert more
    assert found is not None
    total = n + int(found[1])
    assert total <= 512
    rate = hits / n if n else 0.0
    assert clopper_pearson_upper(round(rate * total), total, 0.95) <= 0.05
    if total > max(n + 1, 59):
        before = total - 1
        assert clopper_pearson_upper(round(rate * before), before, 0.95) > 0.05


@pytest.mark.parametrize(("hits", "n"), [(5, 100), (4, 64), (1, 1)])
def test_power__beyond(hits: int, n: int) -> None:
    """At or beyond the allowed share, more prompts are not what is lacking."""
    assert _shares.power(hits, n, 0.95) == (_shares.BEYOND, False)


def test_power__over_budget() -> None:
    """A rate just below the allowed share is not decided within 512 prompts."""
    assert _shares.power(4, 96, 0.95) == (_shares.OVER_BUDGET, False)


def test_names() -> None:
    """Few prompts are all named, many with how many more there are."""
    many = [f"p{i}" for i in range(10)]

    assert _shares.names(()) == ""
    assert _shares.names(("a", "b")) == "a, b"
    assert _shares.names(many[:8]) == ", ".join(many[:8])
    assert _shares.names(many) == ", ".join(many[:8]) + " and 2 more"
    assert _shares.names(many, 2) == "p0, p1 and 8 more"
