"""Paired items in words: the reasons, the power notes, the tables."""

from __future__ import annotations

import pytest

from iqaction.report import Check
from iqaction.stages._paired_items import (
    Covered,
    Flips,
    Graded,
    Item,
    Kind,
    completed,
    cover,
    decide,
    right,
)
from iqaction.stages._paired_report import (
    Words,
    accuracy,
    caveats,
    completion,
)
from iqaction.verdict import Verdict

WORDS = Words("quiz", "Quiz", "questions")
R, W = Graded(Kind.RIGHT, prompt_tokens=9), Graded(Kind.WRONG, prompt_tokens=9)
LOST = Graded(Kind.LOST, why="timeout")
MISSING = Graded(Kind.MISSING)


def covered(*runs: tuple[Graded, Graded, int], planned: int = 0, cut: bool = False) -> Covered:
    pairs = [(a, b) for a, b, n in runs for _ in range(n)]
    items = tuple(Item(f"u{i:04}", a, b) for i, (a, b) in enumerate(pairs))
    return Covered(items, planned or len(items), cut) if planned or cut else cover(items)


def told(found: Covered, margin: float = 0.02) -> Check:
    return accuracy(found, decide(found, margin, right), margin, WORDS)


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        (covered((R, R, 400)), Verdict.PASS, "at most 1.04 points worse, and 2 points are allowed"),
        (covered((R, W, 60), (R, R, 340)), Verdict.FAIL, "points worse, and 2 points are allowed"),
        (covered((W, R, 60), (R, R, 340)), Verdict.UNPROVEN, "is it the same model"),
        (covered((W, W, 390), (R, R, 10)), Verdict.UNPROVEN, "too few solved to lose"),
        (covered((R, R, 100)), Verdict.UNPROVEN, "between 4.02 points better and 4.02 points"),
        (covered((R, R, 17), (R, W, 7)), Verdict.UNPROVEN, "too few changed to tell it from"),
        (covered((R, LOST, 20), (R, R, 380)), Verdict.UNPROVEN, "20 without an answer count at"),
        (covered((R, MISSING, 1), (R, R, 399)), Verdict.UNPROVEN, "1 of 400 answers are missing"),
        (covered((R, R, 9), planned=400), Verdict.UNPROVEN, "9 of 400 questions have answers"),
        (covered(), Verdict.UNPROVEN, "no questions to judge"),
    ],
)
def test_accuracy(found: Covered, verdict: Verdict, said: str) -> None:
    """Each finding has its verdict and its words."""
    one = told(found)

    assert one.verdict is verdict
    assert said in one.reason
    assert (one.metric, one.title) == ("quiz.accuracy", "Quiz: right answers")
    assert not one.more_would_help


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (covered((R, R, 150), planned=400), "more of the plan's items would decide it"),
        (covered((R, R, 100)), "it takes about 206 items to decide it (80 %); the plan has 100"),
        (covered((R, W, 3), (R, R, 97)), "more items will not make this PASS"),
        (covered((R, LOST, 20), (R, R, 380)), "answers are lacking"),
        (covered((R, R, 400)), ""),
    ],
)
def test_power(found: Covered, said: str) -> None:
    """What would decide an open check, and what would not."""
    assert told(found).power.find(said) >= 0
    assert bool(told(found).power) is bool(said)


def test_too_few_solved() -> None:
    """A baseline that is whole and right throughout is not told to change its token limit."""
    found = covered((R, R, 200))
    one = completion(found, decide(found, 0.099, completed), 0.099, WORDS)

    assert one.verdict is Verdict.UNPROVEN
    assert "200 questions are too few to prove it" in one.reason
    assert "max_tokens" not in one.reason
    assert "too few to prove it" in told(found, 0.099).reason
    cut = Graded(Kind.WRONG, ended=False)
    mostly = covered((R, R, 300), (cut, cut, 100))
    assert "raise `max_tokens`" in (
        completion(mostly, decide(mostly, 0.09, completed), 0.09, WORDS).reason
    )


def test_completion() -> None:
    """Texts that are cut off or fail are told apart."""
    cut = Graded(Kind.WRONG, ended=False)
    found = covered((R, cut, 30), (R, Graded(Kind.FAILED), 10), (R, R, 360))
    one = completion(found, decide(found, 0.02, completed), 0.02, WORDS)

    assert one.verdict is Verdict.FAIL
    assert "was cut off at 30 and gave no answer to 10" in one.reason
    assert completion(covered(), None, 0.02, WORDS).verdict is Verdict.UNPROVEN


def test_caveats() -> None:
    """Failures of either side, odd answers and a subset are said."""
    odd = Graded(Kind.RIGHT, flags=("odd",))
    found = covered((R, odd, 5), (LOST, R, 2), (R, LOST, 3), planned=99, cut=True)
    said = " | ".join(caveats(found, Flips(0, 50), WORDS))

    assert "the first 10 of 99 questions" in said
    assert "candidate: 3 of 10 questions failed" in said
    assert "baseline: 2 of 10 questions failed" in said
    assert "5 of 10 answers: odd" in said
