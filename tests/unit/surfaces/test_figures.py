"""Unit tests of number formatting."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from report_factory import check

from iqaction.report import Estimate, Table
from iqaction.surfaces import _figures


def estimate(value: float | None, low: float | None, high: float | None, unit: str) -> Estimate:
    return Estimate("m", value, (low, high), 0.95, "t", 64, unit)


@pytest.mark.parametrize(
    ("number", "unit", "shown"),
    [
        (0.0021, "nats", "0.0021"),
        (123.456, "nats", "123.5"),
        (0.0004, "share", "0.04 %"),
        (0.176, "share", "17.6 %"),
        (1.0, "share", "100.0 %"),
        (6.0, "prompts", "6"),
        (6.5, "tokens", "6.5"),
        (12345.0, "count", "12,345"),
        (8.12, "perplexity", "8.120"),
        (0.00001, "nats", "<0.0001"),
        (-0.00001, "nats", ">-0.0001"),
        (-0.0, "nats", "0.0000"),
        (0.0, "share", "0.00 %"),
        (1e300, "nats", "1.000e+300"),
        (None, "nats", "–"),
        (math.nan, "nats", "–"),
        (math.inf, "perplexity", "–"),
    ],
)
def test_value__by_unit(number: float | None, unit: str, shown: str) -> None:
    """Each unit has its decimals; what is no number is a dash and what is not zero reads so."""
    assert _figures.value(number, unit) == shown


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "shown"),
    [
        (0.0021, 0.0012, 0.003, "nats", "0.0021 (0.0012 to 0.0030)"),
        (0.004, -0.006, 0.014, "share", "0.40 (-0.60 to 1.40) points"),
        (0.09375, None, 0.176, "share", "up to 17.6 %"),
        (0.09375, 0.04, None, "share", "at least 4.00 %"),
        (0.02, None, 0.03, "nats", "0.0200, up to 0.0300"),
        (0.02, 0.01, None, "nats", "0.0200, at least 0.0100"),
        (None, None, 0.03, "nats", "up to 0.0300"),
        (0.02, None, None, "nats", "0.0200"),
        (0.02, None, None, "share", "2.00 %"),
        (None, None, None, "nats", "–"),
        (math.nan, math.nan, math.inf, "nats", "–"),
        (None, 0.01, 0.03, "nats", "– (0.0100 to 0.0300)"),
    ],
)
def test_worse_by__forms(
    value: float | None, low: float | None, high: float | None, unit: str, shown: str
) -> None:
    """Two bounds, one bound or none: each reads as what it is."""
    assert _figures.worse_by(estimate(value, low, high, unit), 0.95) == shown


def test_worse_by__another_level() -> None:
    """A level that the head does not name stands in the cell."""
    shown = _figures.worse_by(replace(estimate(0.01, 0.0, 0.02, "nats"), level=0.9706), 0.95)

    assert shown == "0.0100 (0.0000 to 0.0200) at 97.06 % CI"


def test_levels__one_or_none() -> None:
    """The head names a level only where all intervals have it."""
    a, b = estimate(0, 0, 0, "nats"), replace(estimate(0, 0, 0, "nats"), level=0.9)
    point = replace(b, interval=None)

    assert _figures.levels([a, a, point]) == 0.95
    assert _figures.levels([a, b]) is None
    assert _figures.levels([]) is None
    assert _figures.worse_by_head(None) == "worse by (CI)"
    assert _figures.worse_by_head(0.95) == "worse by (95 % CI)"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("PASS|m|t|.0 -> .09375 share|.09375 [-, .17]|<= .05|6 of 64 prompts", "6 of 64"),
        ("PASS|m|t|.0 -> .09375 share|.09375 [-, .17]|<= .05|some prompts", "9.38 %"),
        ("PASS|m|t|.0 -> .1 share|.1 [-, .17]|<= .05|6 of 64 prompts", "10.0 %"),
        ("PASS|m|t|0 -> 6 prompts|6|<= 5|x", "6 of 64"),
        ("PASS|m|t|.1 -> .25 nats|.15|<= 5|x", "0.2500"),
        ("PASS|m|t|.1 -> .25|||x", "0.2500"),
        ("PASS|m|t|.1 -> 3|||x", "3"),
        ("PASS|m|t||||x", "–"),
    ],
)
def test_arm__counts_where_the_check_speaks_of_counts(line: str, shown: str) -> None:
    """A share is shown as a count where the check's own words do so and it is one."""
    found = check(line)

    assert _figures.arm(found.candidate, found) == shown


def test_margin__without_zeros() -> None:
    """A limit is shown as a person would write it."""
    share = estimate(0, 0, 0, "share")

    assert [_figures.margin(x, None) for x in (0.02, 2.0, None, math.nan)] == ["0.02", "2", "", ""]
    assert [_figures.margin(x, share) for x in (0.005, 0.05)] == ["0.5 %", "5 %"]


def test_column__one_format() -> None:
    """The numbers of a column have the same decimals."""
    assert _figures.column([1.0, 2, None, "x"]) == ["1", "2", "–", "x"]
    assert _figures.column([0.0, 0.5, math.nan]) == ["0.0000", "0.5000", "–"]
    assert _figures.column([1000.25, 0.5]) == ["1,000.2", "0.5"]
    assert _figures.column([None]) == ["–"]


def test_grid__ragged_rows() -> None:
    """Rows shorter or longer than the head are filled and cut."""
    table = Table("t", ("a", "b"), (("x",), ("y", 1.0, 2.0), ("z", 2.0)))

    assert _figures.grid(table, 2) == ([("x", "–"), ("y", "1")], "lr")
    assert _figures.grid(replace(table, rows=()), 2) == ([], "ll")
    assert _figures.number(math.inf) == "–"
