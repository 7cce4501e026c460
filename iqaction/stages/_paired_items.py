"""Items that are right or wrong, baseline and candidate side by side, in the plan's order. Pure.

What `gsm8k` and `niah` share: how an observation becomes right, wrong or lacking, which items a
verdict may cover, and which look decides. Knows no question, no grader's rules and no wording.

What a look covers is a gap-free run of the plan's order from its first item. It ends early for
two reasons only: a time budget, which leaves its mark and makes a look of its own; and a run that
broke off, which leaves none and gets no look that was not planned.

Where more was asked than the deciding look covers, what lies beyond it counts too: a pass is one
only if the last look that was reached finds it as well. Without it, an engine that broke after
the deciding look would have passed.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from iqaction.calls import (
    Arm,
    Call,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Tag,
    digest,
)
from iqaction.observed import Observed
from iqaction.report import Coverage, UnitFault
from iqaction.stages._levels import FEWEST_TO_FAIL
from iqaction.stages._lost import NEVER
from iqaction.stats.looks import Look, equal_looks, looks_until
from iqaction.stats.paired import Decision, Finding, Pair, decide_in_order, tally
from iqaction.stats.paired import decide as decide_at

LOOKS = 6
LOSS_P = 0.002  # McNemar's exact p, two-sided, without which nothing FAILs
AGAIN = 1  # attempt number of what failed and was asked once more
MOST_FAULTS = 50  # that are named
_SHOWN = 60  # characters of a model's text in a cell


class Kind(str, enum.Enum):
    """What came of one item on one side."""

    RIGHT = "right"
    WRONG = "wrong"
    CUT_OFF = "cut off before an answer"
    EMPTY = "empty"
    UNREADABLE = "no answer in the text"
    FAULT = "parser fault"  # only reasoning came back: not a wrong answer
    FAILED = "failed"  # the engine, twice
    LOST = "lost on the way"
    MISSING = "missing"
    UNSENT = "not sent"  # the time budget was spent


_ANSWERS = frozenset({Kind.RIGHT, Kind.WRONG, Kind.CUT_OFF, Kind.EMPTY, Kind.UNREADABLE})
_BROKEN = frozenset({Kind.FAULT, Kind.FAILED})


@dataclass(frozen=True)
class Read:
    """What a grader makes of a text. ``shown`` is the answer in it, None where there is none."""

    right: bool
    shown: str | None
    rule: str = ""


@dataclass(frozen=True)
class Graded:
    """One side of one item.

    Attributes
    ----------
    shown, rule, end
        The answer that was read, the rule that found it, and the text's last line.
    why
        Why there is no answer.
    ended
        True where the text ended by itself, and not at the token limit or in a loop.
    prompt_ids, prompt_tokens
        How the question reached the model, where the engine tells.
    """

    kind: Kind
    shown: str = ""
    rule: str = ""
    end: str = ""
    why: str = ""
    ended: bool = True
    prompt_ids: tuple[int, ...] | None = None
    prompt_tokens: int | None = None
    flags: tuple[str, ...] = ()

    @property
    def right(self) -> bool | None:
        """None where there is no answer that could be right or wrong."""
        return self.kind is Kind.RIGHT if self.kind in _ANSWERS else None

    @property
    def completed(self) -> bool | None:
        """Whether a whole text came; None where only the way or the evidence failed."""
        if self.kind in _BROKEN:
            return False
        return self.ended if self.kind in _ANSWERS else None


@dataclass(frozen=True)
class Item:
    """One item on both sides."""

    unit: str
    baseline: Graded
    candidate: Graded

    @property
    def is_missing(self) -> bool:
        """True where evidence lacks: no answer, no failure and no mark."""
        return Kind.MISSING in (self.baseline.kind, self.candidate.kind)

    @property
    def is_paired(self) -> bool:
        """True where both sides have an answer, right or wrong."""
        return self.baseline.right is not None and self.candidate.right is not None


@dataclass(frozen=True)
class Questions:
    """What a stage asks, and how an answer is read.

    Attributes
    ----------
    units
        In the plan's order.
    call
        The call for a unit under a tag: only an observation of exactly that call counts, so that
        answers to another wording, limit or data file are missing and never compared.
    read
        Given the unit, the text after any reasoning, and whether it was cut off.
    """

    units: tuple[str, ...]
    call: Callable[[str, Tag], Call]
    read: Callable[[str, str, bool], Read]
    leg: str

    def tag(self, unit: str, arm: Arm, launch: int = 0) -> Tag:
        return Tag(arm, self.leg, unit, launch)


def permuted(units: Iterable[str], seed: int) -> tuple[str, ...]:
    """The units in an order that looks random and that only the seed and their names decide: the
    first n of it are the same whatever else is in the file, today and in ten years."""
    return tuple(sorted(units, key=lambda u: hashlib.sha256(f"{seed}:{u}".encode()).digest()))


def graded(
    questions: Questions, kept: Mapping[Tag, Observation], unit: str, arm: Arm, launch: int = 0
) -> Graded:
    """What one side made of one item: its first answer, else that to the second request."""
    tag = questions.tag(unit, arm, launch)
    failures: list[Failure] = []
    foreign = False
    for one in (tag, replace(tag, attempt=AGAIN)):
        observation = kept.get(one)
        if observation is None:
            continue
        if observation.call_sha256 != digest(questions.call(unit, one)):
            foreign = True
        elif isinstance(observation.answer, Generation):
            return _answer(questions, unit, observation.answer)
        elif isinstance(observation.answer, Failure):
            unsent = observation.answer.kind is FailureKind.BUDGET
            if unsent and one is tag:
                return Graded(Kind.UNSENT, why=observation.answer.message)
            # A second request that was not sent says nothing.
            failures += () if unsent else (observation.answer,)
    if not failures:
        return Graded(Kind.MISSING, why="an answer to another question" if foreign else NEVER)
    twice = len(failures) > 1 and not any(f.is_no_answer for f in failures)
    return Graded(Kind.FAILED if twice else Kind.LOST, why=failures[-1].message)


def _answer(questions: Questions, unit: str, answer: Generation) -> Graded:
    cut = answer.finish_reason == "length"
    text = answer.text.strip()
    seen = Graded(
        Kind.EMPTY,
        end=last_line(text),
        ended=answer.finish_reason not in ("length", "repetition"),
        prompt_ids=answer.prompt_ids,
        prompt_tokens=answer.prompt_tokens,
        flags=answer.flags,
    )
    if not text:
        if cut:
            return replace(seen, kind=Kind.CUT_OFF)
        if answer.reasoning.strip():
            why = "only reasoning came back, and no answer: a reasoning parser fault"
            return replace(seen, kind=Kind.FAULT, why=why)
        return seen
    read = questions.read(unit, answer.text, cut)
    if read.shown is None:
        return replace(seen, kind=Kind.CUT_OFF if cut else Kind.UNREADABLE)
    kind = Kind.RIGHT if read.right else Kind.WRONG
    return replace(seen, kind=kind, shown=read.shown[:_SHOWN], rule=read.rule)


def last_line(text: str) -> str:
    """The end of the last line that says something, short enough for a cell."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[-_SHOWN:] if lines else ""


@dataclass(frozen=True)
class Covered:
    """The items that a verdict may be about.

    Attributes
    ----------
    items
        From the plan's first one on.
    planned
        How many the plan has.
    cut
        The time budget ended it there, on either side.
    whole
        The whole plan was asked at once: what lacks at its end was lost, and not left unasked
        because a look had decided.
    """

    items: tuple[Item, ...]
    planned: int
    cut: bool = False
    whole: bool = False

    @property
    def lacks(self) -> bool:
        """True where evidence is lost, in the middle or at the end."""
        is_short = self.whole and not self.cut and len(self.items) < self.planned
        return is_short or any(item.is_missing for item in self.items)

    @property
    def looks(self) -> tuple[Look, ...]:
        """The looks planned, and one where the time budget ended."""
        planned = equal_looks(self.planned, LOOKS)
        return looks_until(planned, len(self.items)) if self.cut else planned

    def first(self, n: int) -> Covered:
        return replace(self, items=self.items[:n])


def covered(
    questions: Questions,
    baseline: Observed,
    stage: str,
    candidate: Mapping[Tag, Observation],
    *,
    whole: bool = False,
) -> Covered:
    """Both sides, item by item, up to the first that a time budget kept from being sent.

    What was never answered at the end, without such a mark, is left away: no look covers it, and
    none is made where it begins. In the middle it stays, and nothing that covers it PASSes.
    """
    theirs = baseline.seen.get(stage, {})
    found = cover(
        Item(
            unit,
            graded(questions, theirs, unit, Arm.BASELINE),
            graded(questions, candidate, unit, Arm.CANDIDATE),
        )
        for unit in questions.units
    )
    return replace(found, whole=whole)


def cover(items: Iterable[Item]) -> Covered:
    """See :func:`covered`; ``items`` are all of the plan, in its order."""
    every = tuple(items)
    for at, item in enumerate(every):
        if Kind.UNSENT in (item.baseline.kind, item.candidate.kind):
            return Covered(every[:at], len(every), cut=True)
    n = len(every)
    while n and every[n - 1].is_missing:
        n -= 1
    return Covered(every[:n], len(every))


def decide(found: Covered, margin: float, side: Callable[[Graded], bool | None]) -> Decision | None:
    """The look that decides, else the last that was reached; ``side`` is ``right`` or
    ``completed``.

    A pass is told at the last look that was reached, which has to find it too: usually that is
    the one that decides, since asking ends there. Lost evidence takes a pass away.

    A loss beyond the margin ends the test only where the exact test is sure that there is a loss
    at all: in a short plan the margin is little beside what flips by chance, and the bound alone
    fails one unchanged candidate in a hundred. Where it is not sure, later looks may still find
    the loss, and none finds a pass.
    """
    pairs = [Pair(side(item.baseline), side(item.candidate)) for item in found.items]
    decision = decide_in_order(pairs, found.looks, margin)
    if decision is None or decision.finding not in (Finding.WITHIN, Finding.BEYOND):
        return decision
    if decision.finding is Finding.WITHIN:
        return _to_the_end(found, pairs, decision)
    for look in (x for x in found.looks if decision.look.n <= x.n <= len(pairs)):
        last = decide_at(tally(pairs[: look.n]), look, margin)
        if _is_loss(last):
            return last
    return replace(last, finding=Finding.UNDECIDED)


def _to_the_end(found: Covered, pairs: Sequence[Pair], first: Decision) -> Decision:
    """What a pass becomes by all that was asked: the bounds of all looks together keep the level
    wherever asking ends, so that what the last one finds stands, a loss too."""
    look = max((x for x in found.looks if x.n <= len(pairs)), key=lambda x: x.n)
    last = decide_at(tally(pairs[: look.n]), look, first.margin)
    if last.finding is Finding.BEYOND and not _is_loss(last):
        return replace(last, finding=Finding.UNDECIDED)
    if last.finding is not Finding.WITHIN:
        return last
    # What came after that look has none of its own: it may take the pass away, and give none.
    rest = decide_at(tally(pairs), replace(look, n=len(pairs)), first.margin)
    if found.lacks or rest.finding is not Finding.WITHIN:
        return replace(last, finding=Finding.UNDECIDED)
    return last


def _is_loss(decision: Decision) -> bool:
    return (
        decision.finding is Finding.BEYOND
        and decision.look.n >= FEWEST_TO_FAIL
        and decision.mcnemar_p <= LOSS_P
    )


def right(side: Graded) -> bool | None:
    """For :func:`decide`: was the answer right?"""
    return side.right


def completed(side: Graded) -> bool | None:
    """For :func:`decide`: did a whole text come?"""
    return side.completed


@dataclass(frozen=True)
class Flips:
    """How many items changed between right and wrong, of those that both sides answered."""

    flipped: int
    n: int

    @property
    def rate(self) -> float | None:
        return self.flipped / self.n if self.n else None


def flips(items: Iterable[Item]) -> Flips:
    """Of a candidate against its baseline."""
    both = [i for i in items if i.is_paired]
    return Flips(sum(i.baseline.right is not i.candidate.right for i in both), len(both))


def floor(questions: Questions, baseline: Observed, stage: str) -> Flips:
    """Of the baseline's first relaunch against the baseline: what changes where nothing did."""
    kept = baseline.seen.get(stage, {})
    return flips(
        Item(
            unit,
            graded(questions, kept, unit, Arm.BASELINE),
            graded(questions, kept, unit, Arm.REPEAT, 1),
        )
        for unit in questions.units
        if questions.tag(unit, Arm.REPEAT, 1) in kept
    )


_ENDS = frozenset({Finding.WITHIN, Finding.BEYOND, Finding.GAINED})


def is_decided(decision: Decision | None) -> bool:
    """True where nothing that comes later can change what was found."""
    return decision is not None and decision.finding in _ENDS


def coverage(found: Covered, *, decided: bool) -> Coverage:
    """Of the items that have answers where they decided, else of the whole plan."""
    n = len(found.items)
    lacking = [i for i in found.items if not i.is_paired]
    missing = tuple(i.unit for i in lacking if i.is_missing)
    failed = tuple(i.unit for i in lacking if not i.is_missing)
    return Coverage(n if decided else found.planned, n - len(lacking), failed, missing)


def faults(items: Sequence[Item], bucket: str) -> tuple[UnitFault, ...]:
    """Each item that one side did not answer, named; at most 50."""
    named = []
    for item in items:
        side = next((s for s in (item.candidate, item.baseline) if s.right is None), None)
        if side is None:
            continue
        kind = {Kind.MISSING: "missing", Kind.FAULT: "unusable"}.get(side.kind, "failed")
        whose = "" if side is item.candidate else "baseline: "
        named.append(UnitFault(item.unit, bucket, kind, f"{whose}{side.why}"))
    return tuple(named[:MOST_FAULTS])


def settles(found: Covered, margin: float) -> bool:
    """True where both checks are decided, or one of them against the candidate: asking on would
    not change the verdict."""
    both = decide(found, margin, right), decide(found, margin, completed)
    if any(d is not None and d.finding is Finding.BEYOND for d in both):
        return True
    return all(is_decided(d) for d in both)
