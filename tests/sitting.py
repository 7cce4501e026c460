"""Random sittings of an exam whose truth is known, judged by the stage itself many times over.

    sitting = Sitting(Exam(1319), lost=0.03, gained=0.01)
    judged = [sitting.judge(rng) for rng in generators(0, 200)]

A baseline solves a share of the problems; each that it solves is lost, and each that it does not
is gained, with the chances that make those shares of all problems. ``dying`` of the solved ones
get no answer, and a time budget ends before a share of the plan where ``cut`` says so. Without
one the candidate is asked as the stage asks it: no further than the first look that decides.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np
from answered import GSM8K, Exam, answers
from world import ENGINE, ROOT

from iqaction.calls import Arm, Observation, Tag, digest
from iqaction.graders import numbers
from iqaction.observed import Observed
from iqaction.report import Check, StageResult
from iqaction.stages import _paired_items
from iqaction.stages._gsm8k_judge import questions
from iqaction.stats.looks import equal_looks

MEMO = functools.lru_cache(maxsize=None)(digest), functools.lru_cache(maxsize=None)(numbers.read)


def generators(seed: int, n: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng([seed, i]) for i in range(n))


@dataclass
class Sitting:
    """See the module's docstring. ``solved`` is the baseline's share, ``deaths`` a letter."""

    exam: Exam
    lost: float = 0.0
    gained: float = 0.0
    solved: float = 0.85
    dying: float = 0.0
    deaths: str = "T"
    cut: tuple[float, float] | None = None
    _made: dict[tuple[Arm, str, str], tuple[Observation, ...]] = field(default_factory=dict)

    def letters(self, rng: np.random.Generator) -> tuple[str, str]:
        n = self.exam.problems
        right = rng.random(n) < self.solved
        chance = np.where(right, self.lost / self.solved, self.gained / (1 - self.solved))
        after = right ^ (rng.random(n) < chance)
        solved = np.flatnonzero(right)
        dead = np.isin(np.arange(n), rng.permutation(solved)[: round(self.dying * len(solved))])
        candidate = "".join(
            self.deaths if d else "WR"[int(r)] for r, d in zip(after, dead, strict=True)
        )
        if self.cut is not None:
            candidate = candidate[: int(n * rng.uniform(*self.cut))] + "B"
        return "".join("WR"[int(r)] for r in right), candidate

    def judge(self, rng: np.random.Generator) -> StageResult:
        """One sitting of both, judged. What is asked and read again and again is remembered."""
        base, candidate = self.letters(rng)
        exam = self.exam
        theirs = self._sat(Arm.BASELINE, base)
        baseline = Observed(
            exam.plan(), {}, {GSM8K: theirs}, {(Arm.BASELINE, 0): ENGINE}, root=ROOT,
            data={GSM8K: exam.data},
        )  # fmt: skip
        seen = {GSM8K: self._sat(Arm.CANDIDATE, candidate)}
        observed = Observed(
            exam.plan(ROOT), {}, seen, {(Arm.CANDIDATE, 0): ENGINE}, baseline=baseline,
            data={GSM8K: exam.data},
        )  # fmt: skip
        with (
            mock.patch.object(_paired_items, "digest", MEMO[0]),
            mock.patch.object(numbers, "read", MEMO[1]),
        ):
            return exam.judge(observed if self.cut else self._asked(observed, baseline))

    def _asked(self, observed: Observed, baseline: Observed) -> Observed:
        """What of it would have been asked."""
        exam, kept = self.exam, observed.seen[GSM8K]
        found = _paired_items.covered(questions(exam.context(observed)), baseline, GSM8K, kept)
        margin = exam.spec.number("margin")
        for look in equal_looks(exam.problems, _paired_items.LOOKS):
            if _paired_items.settles(found.first(look.n), margin):
                asked = set(exam.units[: look.n])
                seen = {tag: o for tag, o in kept.items() if tag.unit in asked}
                return replace(observed, seen={GSM8K: seen})
        return observed

    def _sat(self, arm: Arm, letters: str) -> dict[Tag, Observation]:
        kept = {}
        for unit, letter in zip(self.exam.units, letters, strict=False):
            key = (arm, unit, letter)
            if key not in self._made:
                tags = (Tag(arm, GSM8K, unit, 0, attempt) for attempt in (0, 1))
                self._made[key] = tuple(
                    Observation(tag, self.exam.sha256(tag), answer)
                    for tag, answer in zip(tags, answers(letter, int(unit[6:])), strict=False)
                )
            kept |= {o.tag: o for o in self._made[key]}
        return kept


def accuracy(result: StageResult) -> Check:
    return result.checks[0]


def decided_at(result: StageResult) -> int:
    """How many problems the look covers that the verdict on accuracy rests on."""
    estimate = accuracy(result).estimate
    return estimate.n_units if estimate is not None else 0
