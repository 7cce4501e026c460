"""What a plan's items can decide: said before anything is asked, and beside what was found."""

from __future__ import annotations

import pytest

from iqaction.stages._paired_items import Flips
from iqaction.stages._paired_reach import out_of_reach, reach_table


@pytest.mark.parametrize(
    ("planned", "margin", "said"),
    [
        (1319, 0.02, ""),
        (205, 0.02, ""),
        (204, 0.02, "204 questions, and it takes at least 205"),
        (1, 0.02, "1 questions, and it takes at least 205"),
        (380, 0.099, "it takes at least 381"),
        (381, 0.099, ""),
        (0, 0.02, "at least 205"),
        (5000, 0.1, "no baseline solves the 10 margins"),
    ],
)
def test_out_of_reach(planned: int, margin: float, said: str) -> None:
    """The fewest items that could PASS are named; a margin that nothing can lose, too."""
    found = out_of_reach(planned, margin, "questions")

    assert (said in found) if said else found == ""


def test_reach_table() -> None:
    """What a plan can decide is told at the floor's rate first, and at usual ones."""
    table = reach_table(1319, 0.02, Flips(40, 1319))

    assert table is not None
    assert [row[0] for row in table.rows] == ["3.0 % (A/A floor)", "1.0 %", "3.0 %", "6.0 %"]
    assert table.rows[1][2] == "417"
    assert reach_table(0, 0.02, Flips(0, 0)) is None
    tiny = reach_table(1, 0.02, Flips(1, 1))
    assert tiny is not None
    assert tiny.rows[0][3] == "none"
