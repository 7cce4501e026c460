"""Days as files name them."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction import days

CENTURY = st.dates(datetime.date(2000, 1, 1), datetime.date(2099, 12, 31))


@given(CENTURY)
def test_since_1970__every_day(day: datetime.date) -> None:
    """Every day of the century is one, and counted as the calendar counts."""
    assert days.parse(day.isoformat()) == (day.year, day.month, day.day)
    assert days.since_1970(day.isoformat()) == (day - datetime.date(1970, 1, 1)).days


@pytest.mark.parametrize(
    "text",
    [
        *("", "today", "2026-02-31", "2026-13-01", "2026-00-10", "2026-01-00", "1999-12-31"),
        *("2027-02-29", "20261201", "2026-12-1", "2026-12-01\n", "2026-12-01T00:00:00Z"),
        "٢٠٢٦-١١-٠١",
    ],
)
def test_parse__no_day(text: str) -> None:
    """What is no day of this century is none."""
    assert days.parse(text) is None
    assert days.since_1970(text) is None
