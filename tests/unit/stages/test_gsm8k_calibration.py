"""How often `gsm8k` errs where the truth is known: bounded here, at length in the benchmark.

A plan of 300 problems with a margin of 5 points stands for the whole split: as many margins fit
its noise. Counts are judged against the share that is claimed, with room for chance of 1 in 1,000.
"""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from answered import Exam
from scipy import stats
from sitting import Sitting, accuracy, decided_at, generators

from iqaction.verdict import Verdict

MARGIN = 0.05
SHORT = Exam(300, {"margin": MARGIN})
WHOLE = Exam(1319)
FEW, MANY = 60, 2000


def passed(sitting: Sitting, trials: int) -> int:
    """How many sittings PASS on right answers."""
    found = [accuracy(sitting.judge(rng)).verdict for rng in generators(1, trials)]
    return found.count(Verdict.PASS)


def at_most(trials: int, share: float) -> int:
    return int(stats.binom.ppf(0.999, trials, share))


@pytest.mark.parametrize("cut", [None, (0.1, 1.0)], ids=["whole", "cut"])
def test_false_pass(cut: tuple[float, float] | None) -> None:
    """A candidate that is worse by exactly the margin PASSes at most 2.7 % of the time, at six
    looks, and wherever a time budget ends it."""
    sitting = Sitting(SHORT, 0.015 + MARGIN, 0.015, cut=cut)

    assert passed(sitting, FEW) <= at_most(FEW, 0.027)


def test_dying() -> None:
    """One whose requests die on as much of what the baseline solves as the margin never PASSes."""
    for deaths in "TFP":
        results = [
            Sitting(SHORT, dying=0.08, deaths=deaths).judge(rng) for rng in generators(2, FEW // 6)
        ]

        assert Verdict.PASS not in [r.verdict for r in results]


def test_unchanged() -> None:
    """The baseline, started again, PASSes, and sooner than at the plan's end."""
    results = [Sitting(SHORT, 0.005, 0.005).judge(rng) for rng in generators(3, FEW // 3)]
    seen = Counter(r.verdict for r in results)

    assert seen[Verdict.FAIL] == 0
    assert seen[Verdict.PASS] >= 0.9 * len(results)
    assert statistics.median(decided_at(r) for r in results) <= 200


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("cut", [None, (0.1, 1.0)], ids=["whole", "cut"])
def test_false_pass__whole_split(cut: tuple[float, float] | None) -> None:
    """The same with the whole test split and two points, often."""
    sitting = Sitting(WHOLE, 0.03, 0.01, cut=cut)

    assert passed(sitting, MANY) <= at_most(MANY, 0.027)


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_unchanged__whole_split() -> None:
    """With 3 % of flips an unchanged candidate PASSes 95 % of the time, half of them by 880."""
    results = [Sitting(WHOLE, 0.015, 0.015).judge(rng) for rng in generators(3, 300)]
    seen = Counter(r.verdict for r in results)

    assert seen[Verdict.FAIL] == 0
    assert seen[Verdict.PASS] >= 0.93 * len(results)
    assert statistics.median(decided_at(r) for r in results) <= 880


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("deaths", ["T", "F", "P"])
def test_dying__whole_split(deaths: str) -> None:
    """Requests that die on 3 % of what the baseline solves never PASS, however they die."""
    sitting = Sitting(WHOLE, 0.005, 0.005, dying=0.03, deaths=deaths)
    found = [sitting.judge(rng).verdict for rng in generators(4, 100)]

    assert Verdict.PASS not in found
