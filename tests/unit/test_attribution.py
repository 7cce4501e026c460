"""Answers of nobody in particular, or under no known load, never PASS."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from fake_engine import FakeEngine, captured, compared
from world import ENGINE, World, judged, without

from iqaction import stages
from iqaction.attribution import load_unknown, unattributed
from iqaction.calls import Arm
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.verdict import Verdict

WORLD = World(units=64, length=8)
OURS, THEIRS = (Arm.CANDIDATE, 0), (Arm.BASELINE, 0)
KEPT = (4, "engine")


@cache
def healthy() -> Observed:
    """A comparison that PASSes, with the load of both kept."""
    baseline = replace(captured(WORLD, 3), concurrency={THEIRS: KEPT})
    return replace(compared(WORLD, FakeEngine(WORLD), baseline), concurrency={OURS: KEPT})


def with_baseline(**changes: object) -> Observed:
    assert healthy().baseline is not None
    return replace(healthy(), baseline=replace(healthy().baseline, **changes))  # type: ignore


def never_passes(observed: Observed, said: str) -> None:
    report = judged(observed)

    assert judged(healthy()).verdict is Verdict.PASS
    assert report.verdict is Verdict.UNPROVEN
    assert said in report.problems


def test_unattributed__nobody() -> None:
    """Where all are known nothing is said."""
    assert unattributed(healthy()) == ()
    assert healthy().baseline is not None
    assert unattributed(healthy().baseline) == ()


def test_unattributed__the_candidate() -> None:
    """Losing who answered as the candidate takes the PASS."""
    said = "which engine answered as the candidate is not in the evidence"
    never_passes(replace(healthy(), engines={}), said)


def test_unattributed__a_relaunch_of_another_engine() -> None:
    """A relaunch of another engine caps the verdict, and losing who the first one was does not
    take the cap away."""
    assert healthy().baseline is not None
    engines = dict(healthy().baseline.engines)
    engines[Arm.REPEAT, 1] = replace(ENGINE, version="9")
    capped = with_baseline(engines=engines)
    del engines[THEIRS]

    assert judged(capped).verdict is Verdict.UNPROVEN
    never_passes(
        with_baseline(engines=engines),
        "baseline: which engine answered as the baseline is not in the evidence",
    )


def test_unattributed__the_live_reference() -> None:
    """It is one server, however many launches' texts it forces."""
    baseline = captured(WORLD, 1, reference="http://reference")
    server = FakeEngine(WORLD, seed=5)
    observed = compared(WORLD, FakeEngine(WORLD), baseline, server)
    lost = {k: v for k, v in observed.engines.items() if k[0] is not Arm.REFERENCE}

    assert {t.launch for t in observed.seen["score"] if t.arm is Arm.REFERENCE} == {0, 1}
    assert unattributed(observed) == ()
    assert unattributed(replace(observed, engines=lost)) == (
        "which engine answered as the reference is not in the evidence",
    )


@pytest.mark.parametrize("whose", ["candidate", "baseline"])
def test_load__lost(whose: str) -> None:
    """A candidate that was asked with less in flight does not PASS by losing how many it was."""
    said = f"how many requests the {whose} had in flight is not in the evidence"
    less = replace(healthy(), concurrency={OURS: (1, "engine")})
    assert less.baseline is not None
    lost = (
        replace(less, concurrency={})
        if whose == "candidate"
        else replace(less, baseline=replace(less.baseline, concurrency={}))
    )

    assert judged(less).verdict is Verdict.UNPROVEN
    never_passes(lost, said)


def test_load__not_kept_of_either() -> None:
    """Nothing is compared where nothing is known of either, as in evidence made by hand."""
    neither = replace(with_baseline(concurrency={}), concurrency={})

    assert judged(neither).verdict is Verdict.PASS


def test_load__of_who_was_not_asked_as_traffic() -> None:
    """No number is missing where nothing was asked, or one prompt only."""
    assert healthy().baseline is not None
    bare = replace(healthy(), concurrency={})
    nothing = replace(bare, seen={})
    one = without(bare, "trajectory", lambda t: t.unit != "p-000")

    assert load_unknown(bare, healthy().baseline) != ()
    for asked in (nothing, one):
        assert load_unknown(asked, healthy().baseline) == ()


def test_as_traffic() -> None:
    """Texts and draws are asked as traffic is, whatever the number; problems and needles unless
    the plan has one; and what is forced goes one at a time."""
    found = {
        (name, planned): stages.load(name).as_traffic(
            StageSpec(name, {} if name in ("score", "sampling") else {"concurrency": planned})
        )
        for name in stages.names()
        for planned in ("auto", 4)
    }

    assert {key for key, is_traffic in found.items() if not is_traffic} == {
        *(("score", "auto"), ("score", 4), ("gsm8k", 4), ("niah", 4)),
    }
