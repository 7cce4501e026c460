"""Numbers of things in words."""

from __future__ import annotations

import pytest

from iqaction.counts import counted


@pytest.mark.parametrize(
    ("n", "one", "many", "said"),
    [
        (0, "step", "", "0 steps"),
        (1, "step", "", "1 step"),
        (1200, "step", "", "1,200 steps"),
        (1, "try", "tries", "1 try"),
        (2, "try", "tries", "2 tries"),
        (1, "relaunch", "", "1 relaunch"),
        (5, "relaunch", "", "5 relaunches"),
    ],
)
def test_counted(n: int, one: str, many: str, said: str) -> None:
    """One is one; none and more are many."""
    assert counted(n, one, many) == said
