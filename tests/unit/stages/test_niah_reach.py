"""What a number of questions can decide is told before and after, in whole counts."""

from __future__ import annotations

import pytest

from iqaction.stages._niah_reach import decides, least_questions, one_look, out_of_reach, power
from iqaction.stats.paired import Counts, Finding, decide


@pytest.mark.parametrize(("margin", "n"), [(0.02, 189), (0.05, 73), (0.08, 45), (0.09, 39)])
def test_least_questions(margin: float, n: int) -> None:
    """So many and no fewer exclude a loss of the margin where nothing changes."""
    assert least_questions(margin) == n
    assert decide(Counts(kept=n), one_look(n), margin).finding is Finding.WITHIN
    assert decide(Counts(kept=n - 1), one_look(n - 1), margin).finding is Finding.UNDECIDED


@pytest.mark.parametrize("margin", [0.02, 0.05, 0.08])
def test_out_of_reach(margin: float) -> None:
    """Said of one question fewer than enough, with how many it takes; not of enough."""
    n = least_questions(margin)

    assert out_of_reach(n, margin) == ""
    assert f"it takes {n}" in out_of_reach(n - 1, margin)
    assert out_of_reach(0, margin).startswith("cannot PASS: 0 questions are too few")


def test_out_of_reach__wide() -> None:
    """A margin near 10 points asks for a baseline without a fault, proven by many questions."""
    assert "it takes" in out_of_reach(200, 0.099)


@pytest.mark.parametrize(("n", "margin"), [(45, 0.08), (150, 0.05), (400, 0.02), (45, 0.03)])
def test_decides(n: int, margin: float) -> None:
    """The counts that are named are those at which the verdict turns."""
    said = decides(n, margin)

    def finding(lost: int) -> Finding:
        return decide(Counts(kept=n - lost, lost=lost), one_look(n), margin).finding

    turns = next(k for k in range(n + 1) if finding(k) is Finding.BEYOND)
    assert f"{turns} lost and none gained show one" in said
    kept = [k for k in range(n + 1) if finding(k) is Finding.WITHIN]
    if not kept:
        assert "cannot exclude" in said
    elif kept == [0]:
        assert "where no answer is lost" in said
    else:
        assert f"where at most {kept[-1]} are lost" in said


def test_decides__few() -> None:
    """Where nothing can be shown, that is said."""
    assert "none can show one" in decides(1, 0.08)
    assert decides(0, 0.08) == "no question could be compared: nothing can be decided"


def test_power() -> None:
    """More questions help where the loss seen is below the margin, and never beyond it."""
    assert power(1, 0, 45, 0.08).startswith("about ")
    assert power(0, 0, 30, 0.08).startswith("about 15 more questions")
    assert "will not make this PASS" in power(5, 0, 45, 0.08)
    assert power(0, 0, 0, 0.08).startswith("about 45 more")
    assert "a few more" in power(2, 2, 400, 0.08)
