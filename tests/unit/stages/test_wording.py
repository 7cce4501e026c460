"""Figures as they are read."""

from __future__ import annotations

from iqaction.stages._wording import points, share_of


def test_figures() -> None:
    """Shares and differences as they are read."""
    assert share_of(0, 0) == "nothing"
    assert share_of(9, 10) == "90.0 % (59.6 to 98.2)"
    assert (points(0.02), points(0.0131), points(0.00001)) == (
        "2 points",
        "1.31 points",
        "0 points",
    )
