"""The self leg: an engine against itself, decoding against scoring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_engine import FakeEngine, captured, compared
from world import (
    FAILED,
    Damage,
    World,
    answering,
    check_of,
    healthy,
    judged,
    noisy,
    only,
    stage_of,
    without,
)

from iqaction.calls import Arm, Failure, FailureKind, Generation, Scored, Tag
from iqaction.observed import Observed
from iqaction.rows import Match
from iqaction.stages import _self_leg
from iqaction.stages._paths import cut
from iqaction.verdict import Verdict


def lifted(token: int, nats: float, start: int = 0) -> Damage:
    """One token's logit raised from a position on: decoding writes it where it wins."""

    def damage(unit: str, logits: np.ndarray) -> np.ndarray:
        changed = logits.copy()
        changed[start:, token] += nats
        return changed

    return damage


def sharper(factor: float, start: int = 0) -> Damage:
    """More certain than it is, from a position on; the text stays the same."""

    def damage(unit: str, logits: np.ndarray) -> np.ndarray:
        changed = logits.copy()
        changed[start:] *= factor
        return changed

    return damage


def test_judge__healthy(well: Observed) -> None:
    """Decoding that says what scoring says has no fault."""
    check = check_of(judged(well), "self.faults")

    assert check.verdict is Verdict.PASS
    assert check.reason.startswith("0 of 64 prompts with a decode fault")


@pytest.mark.parametrize(
    ("start", "said"), [(0, "first token"), (9, "KV cache"), (2, "decode path")]
)
def test_judge__decode_fault(world: World, baseline: Observed, start: int, said: str) -> None:
    """A fault that only decoding shows FAILs, names the prompts, and says where to look."""
    engine = FakeEngine(world, decoding=only(world.names[:12], sharper(0.4, start)))
    report = judged(compared(world, engine, baseline))

    score = stage_of(report, "score")
    check = check_of(report, "self.faults")
    assert check_of(report, "reference.kl").verdict is Verdict.PASS
    assert check_of(report, "reference.broken").verdict is Verdict.PASS
    assert check.verdict is Verdict.FAIL
    assert "against the floor's 0" in check.reason
    faults = [f for f in score.faults if f.kind == "decode fault"]
    assert {f.unit for f in faults} <= set(world.names[:12])
    assert len(faults) >= 8
    assert all(int(f.detail.split("first at ")[1].split(":")[0]) >= start for f in faults)
    assert any("the fault is in the decode path" in m for m in score.meaning)
    assert said in score.meaning[-1]
    assert any("at concurrency 1" in s for s in report.next_steps)


def test_judge__three_faulty_prompts(world: World, baseline: Observed) -> None:
    """Three prompts with a reproduced decode fault of 64 never PASS, and are named."""
    engine = FakeEngine(world, decoding=only(world.names[5:8], sharper(0.2)))
    report = judged(compared(world, engine, baseline))

    assert report.verdict is not Verdict.PASS
    assert check_of(report, "self.faults").verdict is Verdict.UNPROVEN
    assert all(u in check_of(report, "self.faults").reason for u in world.names[5:8])


def test_judge__one_fault_is_within_the_bound() -> None:
    """One prompt of 93 with a fault is within the bound, and no diagnosis is made of it."""
    world = World(units=93, length=16)
    engine = FakeEngine(world, decoding=only(world.names[:1], sharper(0.2)))
    report = judged(compared(world, engine, captured(world, 3)))

    score = stage_of(report, "score")
    assert check_of(report, "self.faults").verdict is Verdict.PASS
    assert [f.kind for f in score.faults] == ["decode fault"]
    assert score.meaning == ()


def test_judge__forcing_fault(world: World, baseline: Observed) -> None:
    """A fault that only forced scoring shows does not PASS either, and decoding is not blamed."""
    report = judged(compared(world, FakeEngine(world, forcing=noisy(0.7)), baseline))

    score = stage_of(report, "score")
    assert report.verdict is Verdict.FAIL
    assert "the fault is in forced scoring" in score.meaning[-1]
    assert not any("the fault is in the decode path" in m for m in score.meaning)
    assert any("log-probabilities of prompts" in s for s in report.next_steps)


def test_judge__token_that_is_not_its_own_argmax(world: World, well: Observed) -> None:
    """A text whose tokens lie below their own rows' favourite is at fault, even where decoding
    and scoring agree on the numbers."""
    observed = well

    def second_choice(tag: Tag, answer: object) -> object:
        if tag.unit not in world.names[:10]:
            return answer
        return _swapped(world, answer)

    changed = answering(observed, "trajectory", second_choice)
    forced = answering(changed, "score", lambda t, a: second_choice(t, a) if t.leg == "self" else a)
    kept = dict(forced.seen["score"])
    for unit in world.names[:10]:
        first = Tag(Arm.CANDIDATE, "self", unit)
        kept[replace(first, attempt=2)] = kept[first]
    report = judged(replace(forced, seen={**forced.seen, "score": kept}))

    assert check_of(report, "self.faults").verdict is Verdict.FAIL


def _swapped(world: World, answer: object) -> object:
    """The same answer with its fourth token replaced by the ninth most likely one."""
    assert isinstance(answer, (Generation, Scored))
    rows = answer.rows
    assert rows is not None
    chosen, logprob = rows.chosen.copy(), rows.logprob.copy()
    chosen[3], logprob[3] = rows.top[3, 8], rows.top_logprob[3, 8]
    return replace(answer, rows=replace(rows, chosen=chosen, logprob=logprob))


@pytest.mark.parametrize(
    ("change", "below", "fault"),
    [(0.5, 0.0, False), (0.51, 0.0, True), (0.0, 0.25, False), (0.0, 0.26, True)],
)
def test_faults__edges(change: float, below: float, fault: bool) -> None:
    """More than .5 nats of change, or more than .25 below the own argmax."""
    one = _self_leg.Compared("p", np.array([0.0, change]), np.array([0.0, below]))

    assert one.faults(_self_leg.FAULT_NATS).tolist() == ([1] if fault else [])


def test_limit_of() -> None:
    """Half a nat, or twice the largest change of the baseline's own leg."""

    def one(change: float) -> _self_leg.Compared:
        return _self_leg.Compared("p", np.array([change]), np.zeros(1))

    assert _self_leg.limit_of([]) == 0.5
    assert _self_leg.limit_of([one(0.1), one(0.25)]) == 0.5
    assert _self_leg.limit_of([one(0.1), one(0.3)]) == pytest.approx(0.6)


def test_judge__raised_limit_is_said(world: World) -> None:
    """A baseline whose own legs differ allows its candidates more, and the report says so."""

    def make(launch: int) -> FakeEngine:
        odd = only(world.names[:1], sharper(0.7)) if not launch else healthy
        return FakeEngine(world, version="1.0", decoding=odd)

    noisy_one = captured(world, 3, make)
    report = judged(compared(world, FakeEngine(world), noisy_one))

    assert any("count as decode faults" in c for c in stage_of(report, "score").caveats)


def test_judge__baseline_without_self_leg(world: World) -> None:
    """A baseline that was captured without its own self leg has no noise to compare with."""
    baseline = captured(world, 3, legs=("reference",))
    report = judged(compared(world, FakeEngine(world), baseline))

    check = check_of(report, "self.faults")
    assert check.verdict is Verdict.UNPROVEN
    assert check.reason.startswith("the baseline was captured without a self leg")
    assert check_of(report, "reference.kl").verdict is Verdict.PASS
    assert not [f for f in stage_of(report, "score").faults if f.kind == "missing"]


def test_judge__left_out_by_the_plan(well_along: Observed) -> None:
    """A plan may leave the leg out: it PASSes, and says what is then not covered."""
    report = judged(well_along)

    assert report.verdict is Verdict.PASS
    assert any("decoding under load not covered" in c for c in stage_of(report, "score").caveats)


def test_judge__alone(world: World, baseline: Observed) -> None:
    """The leg may stand alone; that changed weights are then not covered is said."""
    engine = FakeEngine(world, damage=noisy(2.0))
    stage = stage_of(judged(compared(world, engine, baseline, legs=("self",))), "score")

    assert [c.metric for c in stage.checks] == ["self.faults"]
    assert stage.verdict is Verdict.PASS
    assert stage.coverage.observed == 64
    assert any("changed weights are not covered" in c for c in stage.caveats)


def test_judge__broken_reference(world: World) -> None:
    """Where the reference itself disagrees with itself, nothing is concluded of the candidate."""

    def make(n: int) -> FakeEngine:
        return FakeEngine(world, version="1.0", decoding=sharper(0.4) if not n else sharper(1.0))

    baseline = captured(world, 3, make)
    for legs in (("reference", "self"), ("reference",)):
        for damage in (noisy(0.0), noisy(3.0)):
            engine = FakeEngine(world, damage=damage, decoding=sharper(0.4))
            stage = stage_of(judged(compared(world, engine, baseline, legs=legs)), "score")
            assert stage.verdict is Verdict.UNPROVEN
            assert all(
                "the reference itself is faulty" in c.reason for c in stage.checks if c.judged
            )
            assert not stage.more_would_help


@pytest.mark.parametrize(("stage", "leg"), [("trajectory", "trajectory"), ("score", "self")])
@pytest.mark.parametrize("how", ["lost", "failed"])
@pytest.mark.parametrize("arm", [Arm.CANDIDATE, Arm.BASELINE])
def test_judge__lost(
    world: World, baseline: Observed, stage: str, leg: str, how: str, arm: Arm
) -> None:
    """A text or its scoring that is lost, in either arm, prevents a PASS."""
    observed = compared(world, FakeEngine(world), baseline, legs=("self",))
    tag = Tag(arm, leg, "p-030")

    def spoil(one: Observed) -> Observed:
        if how == "lost":
            return without(one, stage, lambda t: t == tag)
        return answering(one, stage, {tag: FAILED})

    if arm is Arm.BASELINE:
        report = judged(replace(observed, baseline=spoil(baseline)))
    else:
        report = judged(spoil(observed))

    check = check_of(report, "self.faults")
    assert check.verdict is Verdict.UNPROVEN
    assert any(f.unit == "p-030" for f in stage_of(report, "score").faults)


def test_judge__failed_scoring_is_broken(world: World, baseline: Observed) -> None:
    """Own tokens that the candidate cannot score count as broken, and are named as failed."""
    wrong = Tag(Arm.CANDIDATE, "self", "p-001")
    engine = FakeEngine(
        world, fails=lambda c: FAILED if replace(c.tag, attempt=0) == wrong else None
    )
    report = judged(compared(world, engine, baseline))

    (fault,) = stage_of(report, "score").faults
    assert (fault.unit, fault.kind) == ("p-001", "failed")
    assert "1 failed on the candidate: p-001" in check_of(report, "self.faults").reason


def test_judge__text_only_candidate(world: World, baseline: Observed) -> None:
    """A candidate without log-probabilities has no self leg: every prompt says why."""
    report = judged(compared(world, FakeEngine(world, text_only=True), baseline))

    assert check_of(report, "self.faults").verdict is Verdict.UNPROVEN
    assert report.verdict is not Verdict.PASS
    faults = [f for f in stage_of(report, "score").faults if "cannot be forced" in f.detail]
    assert len(faults) == 64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: replace(a, rows=cut(a.rows, 0, 9)), "9 forced rows for 16 tokens"),
        (lambda a: replace(a, rows=replace(a.rows, chosen=a.rows.chosen + 1)), "other tokens"),
        (lambda a: replace(a, rows=replace(a.rows, usable=~a.rows.usable)), "unusable rows"),
        (lambda a: replace(a, rows=replace(a.rows, match=Match.TEXT)), "other tokens"),
        (lambda a: Failure(FailureKind.STATUS, "boom"), "boom"),
    ],
)
def test_compare__refused(baseline: Observed, change: object, said: str) -> None:
    """Forced rows that are short, foreign, unusable or failed are not compared."""
    tag = Tag(Arm.BASELINE, "self", "p-000")
    answer = baseline.seen["score"][tag].answer
    if "other" in said and getattr(change(answer).rows, "match", None) is Match.TEXT:  # type: ignore[operator]
        text = Tag(Arm.BASELINE, "trajectory", "p-000")
        generation = baseline.seen["trajectory"][text].answer
        baseline = answering(
            baseline,
            "trajectory",
            {text: replace(generation, rows=replace(generation.rows, match=Match.TEXT))},  # type: ignore[type-var]
        )
        assert isinstance(_self_leg.compare(baseline.seen, Arm.BASELINE, "p-000"), str)
        return
    seen = answering(baseline, "score", {tag: change(answer)}).seen  # type: ignore[operator]

    found = _self_leg.compare(seen, Arm.BASELINE, "p-000")

    assert isinstance(found, str)
    assert said in found
