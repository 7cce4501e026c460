"""Two runs' greedy texts beside each other."""

from __future__ import annotations

from dataclasses import replace

from world import World, judged, noisy, only, stage_of, without

from iqaction import judgement, stages
from iqaction.observed import Observed
from iqaction.prompts import Prompt
from iqaction.report import Versus

WORLD = World(units=8, length=10, end="omitted")
BASELINE = WORLD.capture(launches=3)
GOOD = WORLD.compare(BASELINE, noise=0.0)
HIT = WORLD.names[2:4]
BAD = WORLD.compare(BASELINE, only(HIT, noisy(3.0)), noise=0.0)


def versus(a: Observed, b: Observed) -> Versus:
    sides = [judgement.context(x, x.plan.stage("trajectory"), -1) for x in (a, b)]
    return stages.load("trajectory").versus(*sides)


def test_versus__where_they_part() -> None:
    """The damaged prompts part, each with both texts; the others are the same."""
    found = versus(GOOD, BAD)

    assert {d.unit for d in found.divergences} == set(HIT)
    assert found.compared == 8
    assert all(d.gap is not None for d in found.divergences)
    assert all(d.baseline_token != d.candidate_token for d in found.divergences)


def test_versus__both_ways_at_the_same_token() -> None:
    """B's text parts from A's where A's parts from B's, with the sides changed over."""
    there, back = versus(GOOD, BAD).divergences, versus(BAD, GOOD).divergences
    swapped = {(d.unit, d.position, d.candidate_token, d.baseline_token) for d in back}

    assert swapped == {(d.unit, d.position, d.baseline_token, d.candidate_token) for d in there}


def test_versus__agrees_with_the_judgement() -> None:
    """From the capture, the divergences are those of the judgement against it."""
    theirs = stage_of(judged(BAD), "trajectory").divergences
    ours = versus(BASELINE, BAD).divergences

    assert [(d.unit, d.position, d.gap) for d in ours] == [
        (d.unit, d.position, d.gap) for d in theirs
    ]


def test_versus__another_prompt_of_the_same_name() -> None:
    """Texts that answer another question are not compared."""
    other = {n: replace(p, messages=()) for n, p in BAD.prompts.items()}
    assert isinstance(other["p-000"], Prompt)

    assert versus(GOOD, replace(BAD, prompts=other)) == Versus(note="no prompt has a text in both")


def test_versus__what_one_never_answered() -> None:
    """A prompt without a text on one side is left out."""
    short = without(BAD, "trajectory", lambda t: t.unit == WORLD.names[0])

    assert versus(GOOD, short).compared == 7
