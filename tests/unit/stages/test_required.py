"""Which prompts must be judged, and which gaps are the engine's limits and which lost evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from world import FAILED, World, answering, without

from iqaction.calls import Arm, Scored, Tag
from iqaction.observed import Observed
from iqaction.rows import Match
from iqaction.stages._paths import cut
from iqaction.stages._required import evidence_lost, references

WORLD = World(units=3, length=4)
UNIT = "p-001"
TEXT = Tag(Arm.BASELINE, "trajectory", UNIT)
SELF = Tag(Arm.BASELINE, "self", UNIT)
RELAUNCH = Tag(Arm.REPEAT, "reference", UNIT, 2)


def spoiled(tag: Tag, change: object) -> Observed:
    """A capture with one answer changed, or lost where ``change`` is None."""
    baseline = WORLD.capture(launches=2)
    stage = "trajectory" if tag.leg == "trajectory" else "score"
    if change is None:
        return without(baseline, stage, lambda t: t == tag)
    answer = baseline.seen[stage][tag].answer
    return answering(baseline, stage, {tag: change(answer)})  # type: ignore[operator]


def unusable(answer: Scored) -> Scored:
    return replace(answer, rows=replace(answer.rows, usable=~answer.rows.usable))


def short(answer: Scored) -> Scored:
    return replace(answer, rows=cut(answer.rows, 0, 2))


def foreign(answer: Scored) -> Scored:
    return replace(answer, rows=replace(answer.rows, chosen=answer.rows.chosen + 1))


def nameless(answer: Scored) -> Scored:
    return replace(answer, rows=replace(answer.rows, match=Match.TEXT))


def test_references__whole() -> None:
    """Every prompt with all that it takes, its relaunches in their order."""
    found, gaps = references(WORLD.capture(launches=2), WORLD.names)

    assert [r.unit for r in found] == list(WORLD.names)
    assert gaps == {}
    assert [len(r.relaunches) for r in found] == [2, 2, 2]
    assert not any(evidence_lost(WORLD.capture(launches=2), u) for u in WORLD.names)


@pytest.mark.parametrize(
    ("tag", "change", "said", "lost"),
    [
        (TEXT, None, "there is no text for it", True),
        (TEXT, lambda a: FAILED, "there is no text for it", False),
        (TEXT, lambda a: replace(a, rows_complete=False), "fewer rows", False),
        (SELF, None, "its own tokens forced: never answered", True),
        (SELF, lambda a: FAILED, "its own tokens forced: HTTP 500", False),
        (SELF, unusable, "its own tokens forced: unusable rows", False),
        (SELF, foreign, "its own tokens forced: the forced rows are of other", True),
        (RELAUNCH, None, "relaunch 2: never answered", True),
        (RELAUNCH, lambda a: FAILED, "relaunch 2: HTTP 500", False),
        (RELAUNCH, unusable, "relaunch 2: unusable rows", False),
        (RELAUNCH, short, "relaunch 2: 2 forced rows for 4 tokens", False),
        (RELAUNCH, foreign, "relaunch 2: the forced rows are of other", True),
        (RELAUNCH, nameless, "relaunch 2: the forced rows are of other", False),
    ],
)
def test_references__gap(tag: Tag, change: object, said: str, lost: bool) -> None:
    """A gap says what is missing. What the engine could not do is its limit; what was never
    asked, or is of other tokens, is evidence that was lost."""
    baseline = spoiled(tag, change)

    found, gaps = references(baseline, WORLD.names)

    assert [r.unit for r in found] == ["p-000", "p-002"]
    assert list(gaps) == [UNIT]
    assert gaps[UNIT].startswith("baseline: ")
    assert said in gaps[UNIT]
    assert evidence_lost(baseline, UNIT) is lost


def test_references__without_self_leg() -> None:
    """A baseline whose plan asked for no self leg lacks none."""
    baseline = WORLD.capture(launches=2, legs=("reference",))
    bare = without(baseline, "score", lambda t: t.leg == "self")

    assert references(bare, WORLD.names)[1] == {}
    assert not evidence_lost(bare, UNIT)
