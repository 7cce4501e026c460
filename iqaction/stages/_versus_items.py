"""Two runs' graded answers beside each other: what A has right and B has not. Pure; no verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iqaction.calls import Arm, Observation, Tag, digest
from iqaction.report import Contrast, Estimate, Versus
from iqaction.stages import _movers
from iqaction.stages._paired_items import Item, Questions, graded
from iqaction.stats.paired import PLAIN_Z, tango
from iqaction.stats.proportions import mcnemar_exact


@dataclass(frozen=True)
class Asked:
    """One run's questions and what it answered."""

    questions: Questions
    kept: Mapping[Tag, Observation]
    arm: Arm


@dataclass(frozen=True)
class Line:
    """The figure's machine name and title, and what the items are called."""

    metric: str
    title: str
    bucket: str


def versus(a: Asked, b: Asked, line: Line, answer: Callable[[str], str]) -> Versus:
    """The share right in both, over the questions that both were asked alike and answered.

    ``answer`` is the right one of a question.
    """
    theirs = set(b.questions.units)
    shared = [u for u in a.questions.units if u in theirs and _same(a.questions, b.questions, u)]
    items = [
        Item(u, graded(a.questions, a.kept, u, a.arm), graded(b.questions, b.kept, u, b.arm))
        for u in shared
    ]
    paired = [i for i in items if i.is_paired]
    if not paired:
        return Versus(note="no question was answered alike in both: not paired")
    n = len(paired)
    before = sum(bool(i.baseline.right) for i in paired)
    now = sum(bool(i.candidate.right) for i in paired)
    lost = sum(bool(i.baseline.right) and not i.candidate.right for i in paired)
    gained = sum(bool(i.candidate.right) and not i.baseline.right for i in paired)
    bounds = tango(lost, gained, n, PLAIN_Z)
    estimate = Estimate(
        line.metric,
        (lost - gained) / n,
        None if bounds is None else (bounds.low, bounds.high),
        0.95,
        "Tango's score interval",
        n,
        "share",
    )
    note = f"{lost} lost, {gained} gained of {n}, McNemar p {mcnemar_exact(lost, gained):.2g}"
    if n < len(shared):
        note += f"; {len(shared) - n} without an answer on a side are left out"
    contrast = Contrast(line.metric, line.title, "share", before / n, now / n, estimate, note)
    return Versus((contrast,), _movers.of_flips(paired, line.bucket, answer), compared=n)


def _same(a: Questions, b: Questions, unit: str) -> bool:
    """True where both runs were asked it in the same words, under the same settings."""
    tag = Tag(Arm.CANDIDATE, a.leg, unit)
    return digest(a.call(unit, tag)) == digest(b.call(unit, tag))
