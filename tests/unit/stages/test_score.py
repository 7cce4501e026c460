"""The stage `score` as a whole: what a plan may ask, what a capture says, what caps both legs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_engine import FakeEngine, captured, compared
from world import (
    FAILED,
    World,
    answering,
    check_of,
    judged,
    noisy,
    stage_of,
    without,
)

from iqaction import stages
from iqaction.calls import Arm, Capability, Generation, Observation, Scored, Tag
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec, Value
from iqaction.stages._paths import cut
from iqaction.verdict import Verdict

STAGE = stages.load("score")


def planned(**changes: Value) -> tuple[StageSpec, Plan]:
    plan = World(units=4).plan()
    spec = replace(plan.stages[1], params={**plan.stages[1].params, **changes})
    return spec, replace(plan, stages=(plan.stages[0], spec))


def test_load__names() -> None:
    """Stages are found by file name; files that start with an underscore are none."""
    assert stages.names() == ["gsm8k", "niah", "sampling", "score", "trajectory"]
    with pytest.raises(
        LookupError, match="no stage '_live'; there are: gsm8k, niah, sampling, score, trajectory"
    ):
        stages.load("_live")


def test_check__possible() -> None:
    """The usual plan is possible."""
    assert STAGE.check(*planned()) == ""


@pytest.mark.parametrize("k", [0, 1])
def test_check__no_lists(k: int) -> None:
    """Without lists of two tokens there is nothing to compare, and a list of one shows no
    disagreement at all."""
    spec, plan = planned()
    trajectory = replace(plan.stages[0], params={**plan.stages[0].params, "top_logprobs": k})

    said = STAGE.check(spec, replace(plan, stages=(trajectory, spec)))

    assert f"top_logprobs {k}" in said


def test_check__without_trajectory() -> None:
    """`score` forces what `trajectory` observed, before it."""
    spec, plan = planned()

    assert "add `- trajectory`" in STAGE.check(spec, replace(plan, stages=(spec,)))
    turned = replace(plan, stages=plan.stages[::-1])
    assert "must come before" in STAGE.check(spec, turned)


def test_check__no_legs() -> None:
    """A plan without any leg is impossible."""
    assert "`legs` is empty" in STAGE.check(*planned(legs=()))


@pytest.mark.parametrize(
    ("params", "forces"),
    [
        ({}, {Arm.CANDIDATE, Arm.BASELINE, Arm.REPEAT}),
        ({"legs": ("reference",)}, {Arm.CANDIDATE, Arm.BASELINE, Arm.REPEAT}),
        ({"reference": "http://x"}, {Arm.CANDIDATE, Arm.BASELINE, Arm.REFERENCE}),
        ({"reference": "http://x", "legs": ("reference",)}, {Arm.BASELINE, Arm.REFERENCE}),
    ],
)
def test_needs(params: dict[str, Value], forces: set[Arm]) -> None:
    """Who must be able to force: whoever has tokens forced through it."""
    spec, _ = planned(**params)

    assert {a for a in Arm if Capability.FORCE in STAGE.needs(spec, a)} == forces


def test_capture__healthy(baseline: Observed) -> None:
    """A capture proves nothing by itself; it says what it can be used for."""
    report = judged(baseline)

    assert report.verdict is Verdict.UNPROVEN
    check = check_of(report, "score.capture")
    assert check.reason == (
        "64 of 64 prompts can be compared with; 64 checked against their own decoding; "
        "5 relaunches observed"
    )
    assert stage_of(report, "score").caveats == ()
    assert "captured with 5 relaunches" in report.headline


def lifted(unit: str, logits: np.ndarray) -> np.ndarray:
    return logits * 0.3


def test_capture__broken_reference_is_refused(world: World) -> None:
    """A reference whose decoding and scoring disagree is refused, before anything rests on it."""
    report = judged(captured(world, 0, lambda n: FakeEngine(world, decoding=lifted, version="1.0")))

    assert report.verdict is Verdict.FAIL
    assert "this reference is refused" in check_of(report, "score.capture").reason
    assert report.headline == "this reference disagrees with itself and is refused"


TWICE = Tag(Arm.BASELINE, "self", "p-001", 0, 2)


def scored_otherwise(baseline: Observed, nats: float) -> Observed:
    """The baseline, one prompt's second scoring of which says something else at one token."""
    answer = baseline.seen["score"][TWICE].answer
    assert isinstance(answer, Scored)
    logprob = answer.rows.logprob.copy()
    logprob[4] -= nats
    changed = replace(answer, rows=replace(answer.rows, logprob=logprob))
    return answering(baseline, "score", {TWICE: changed})


def test_twice__differs(world: World, baseline: Observed) -> None:
    """A reference that scores a prompt twice and not alike is refused, and nothing that rests on
    it is concluded."""
    bad = scored_otherwise(baseline, 0.4)
    report = judged(bad)

    assert report.verdict is Verdict.FAIL
    assert "scored p-001 twice and the two differ by 0.4" in check_of(
        report, "score.capture"
    ).reason  # fmt: skip
    for damage in (noisy(0.0), noisy(3.0)):
        observed = compared(world, FakeEngine(world, damage=damage), baseline)
        stage = stage_of(judged(replace(observed, baseline=bad)), "score")
        assert stage.verdict is Verdict.UNPROVEN
        assert all("does not repeat itself" in c.reason for c in stage.checks if c.judged)
        assert not any(c.power for c in stage.checks if c.judged)


def test_twice__alike(baseline: Observed, well: Observed) -> None:
    """Within a quarter of a nat two scorings are alike."""
    assert judged(scored_otherwise(baseline, 0.2)).verdict is Verdict.UNPROVEN
    observed = well
    report = judged(replace(observed, baseline=scored_otherwise(baseline, 0.2)))
    assert report.verdict is Verdict.PASS


def unusable(tag: Tag, answer: object) -> object:
    if tag != TWICE or not isinstance(answer, Scored):
        return answer
    return replace(answer, rows=replace(answer.rows, logprob=answer.rows.logprob * np.nan))


def shortened(tag: Tag, answer: object) -> object:
    if tag != TWICE or not isinstance(answer, Scored):
        return answer
    return replace(answer, rows=cut(answer.rows, 0, 5))


@pytest.mark.parametrize("how", ["lost", "failed", "unusable", "short"])
def test_twice__not_done(baseline: Observed, well: Observed, how: str) -> None:
    """A second scoring that is lost or useless is not a scoring that agreed."""
    if how == "lost":
        bad = without(baseline, "score", lambda t: t == TWICE)
    elif how == "failed":
        bad = answering(baseline, "score", {TWICE: FAILED})
    else:
        bad = answering(baseline, "score", unusable if how == "unusable" else shortened)
    observed = well

    stage = stage_of(judged(replace(observed, baseline=bad)), "score")

    assert stage.verdict is Verdict.UNPROVEN
    assert all("was not scored twice" in c.reason for c in stage.checks if c.judged)
    assert judged(bad).verdict is Verdict.UNPROVEN
    assert any("p-001" in c for c in stage_of(judged(bad), "score").caveats)


def test_capture__gaps_are_named(baseline: Observed) -> None:
    """What a capture could not judge is listed with the reason: comparisons leave it out."""
    bad = answering(
        baseline,
        "score",
        {
            Tag(Arm.REPEAT, "reference", "p-007", 3): FAILED,
            Tag(Arm.BASELINE, "self", "p-009"): FAILED,
        },
    )
    stage = stage_of(judged(bad), "score")

    assert stage.coverage.left_out == ("p-007", "p-009")
    (said,) = stage.caveats
    assert "2 prompts will be left out of comparisons: p-007, p-009" in said
    assert "relaunch 3: HTTP 500" in said
    assert set(STAGE.left_out(bad.plan.stages[1], bad)) == {"p-007", "p-009"}


@pytest.mark.parametrize(
    ("stage", "tag"),
    [
        ("trajectory", Tag(Arm.BASELINE, "trajectory", "p-007")),
        ("score", Tag(Arm.BASELINE, "self", "p-007")),
        ("score", Tag(Arm.REPEAT, "reference", "p-007", 2)),
    ],
)
def test_left_out__not_what_was_lost(baseline: Observed, stage: str, tag: Tag) -> None:
    """An answer that is gone is no limit of the baseline: deleting it takes no prompt away."""
    bad = without(baseline, stage, lambda t: t == tag)

    assert STAGE.left_out(bad.plan.stages[1], bad) == {}
    assert stages.load("trajectory").left_out(bad.plan.stages[0], bad) == {}
    found = stage_of(judged(bad), "score")
    assert (found.coverage.missing, found.coverage.left_out) == (("p-007",), ())
    (said,) = found.caveats
    assert said.startswith("1 prompt without evidence: no comparison will PASS: p-007")


def test_left_out__not_what_was_edited(baseline: Observed) -> None:
    """A text of other tokens than were forced is edited evidence, not a limit of the baseline."""
    tag = Tag(Arm.BASELINE, "trajectory", "p-007")
    answer = baseline.seen["trajectory"][tag].answer
    assert isinstance(answer, Generation)
    assert answer.rows is not None
    rows = replace(answer.rows, chosen=answer.rows.top[:, 1])
    bad = answering(baseline, "trajectory", {tag: replace(answer, rows=rows)})

    assert STAGE.left_out(bad.plan.stages[1], bad) == {}
    assert stage_of(judged(bad), "score").coverage.missing == ("p-007",)


def test_capture__nothing(world: World) -> None:
    """A capture without any text was not run."""
    report = judged(captured(world, 0, lambda n: FakeEngine(world, fails=lambda call: FAILED)))

    assert report.verdict is Verdict.NOT_RUN


def test_capture__live(world: World) -> None:
    """For a live reference texts are all that a baseline needs."""
    baseline = captured(world, 1, reference="http://x", legs=("reference",))
    stage = stage_of(judged(baseline), "score")

    assert stage.verdict is Verdict.UNPROVEN
    assert stage.coverage.observed == 64
    assert STAGE.left_out(baseline.plan.stages[1], baseline) == {}
    lost = answering(baseline, "trajectory", {Tag(Arm.BASELINE, "trajectory", "p-001"): FAILED})
    assert stage_of(judged(lost), "score").coverage.left_out == ("p-001",)


@pytest.mark.parametrize("method", ["prompt_logprobs", "grammar", "stepwise"])
def test_caveat__decode_mode(world: World, baseline: Observed, method: str) -> None:
    """An engine that forces in decode mode leaves its prefill uncovered, and that is said."""
    stage = stage_of(judged(compared(world, FakeEngine(world, method=method), baseline)), "score")

    said = any("prefill kernels are not covered" in c for c in stage.caveats)
    assert said is (method != "prompt_logprobs")


@pytest.mark.parametrize(
    ("version", "noise", "said"), [("2.0", 0.0, True), ("1.0", 0.0, False), ("2.0", 0.01, False)]
)
def test_caveat__same_to_the_last_bit(world: World, version: str, noise: float, said: bool) -> None:
    """Another version that gives the very same numbers may be the old engine answering."""
    quiet = captured(world, 3, lambda n: FakeEngine(world, noise=0.0, version="1.0"))
    report = judged(compared(world, FakeEngine(world, noise=noise, version=version), quiet))

    stage = stage_of(report, "score")
    assert stage.verdict is Verdict.PASS
    assert any("identical to the last bit" in c for c in stage.caveats) is said


def test_caveat__same_to_the_last_bit_unlike_decoding(world: World) -> None:
    """Forced values are held against forced ones: that decoding differs hides nothing."""

    def decoded(unit: str, logits: np.ndarray) -> np.ndarray:
        return logits + 1e-3 * np.arange(logits.shape[1])

    def make(n: int) -> FakeEngine:
        return FakeEngine(world, noise=0.0, version="1.0", decoding=decoded)

    for legs in (("reference", "self"), ("reference",)):
        quiet = captured(world, 3, make, legs=legs)
        candidate = FakeEngine(world, noise=0.0, decoding=decoded)
        stage = stage_of(judged(compared(world, candidate, quiet, legs=legs)), "score")
        assert any("identical to the last bit" in c for c in stage.caveats)


def test_caveat__engine_not_known(baseline: Observed, well: Observed) -> None:
    """Without a name of either engine nothing is said of their sameness."""
    observed = well

    for one in (
        replace(observed, engines={}),
        replace(observed, baseline=replace(baseline, engines={
            k: v for k, v in baseline.engines.items() if k[0] is not Arm.BASELINE})),
    ):  # fmt: skip
        stage = stage_of(judged(one), "score")
        assert not any("identical" in c for c in stage.caveats)


def test_judge__no_leg_hides_the_other(world: World, baseline: Observed) -> None:
    """A reference leg that could not be observed does not hide a self leg that FAILs."""

    engine = FakeEngine(
        world,
        decoding=lifted,
        fails=lambda c: FAILED if c.tag.leg == "reference" else None,
    )
    stage = stage_of(judged(compared(world, engine, baseline)), "score")

    assert stage.coverage.observed == 0
    assert stage.verdict is Verdict.FAIL


def test_judge__no_judged_check(world: World) -> None:
    """A plan without legs judges nothing, and more prompts would not help that."""
    baseline = captured(world, 3)
    observed = compared(world, FakeEngine(world), baseline, legs=())
    stage = stage_of(judged(observed), "score")

    assert stage.verdict is Verdict.NOT_RUN
    assert not stage.more_would_help


def test_judge__second_attempt_stands(well: Observed) -> None:
    """A scoring that failed and came when asked once more is as good as any."""
    observed = well
    first = Tag(Arm.CANDIDATE, "reference", "p-001")
    again = replace(first, attempt=1)
    kept = dict(answering(observed, "score", {first: FAILED}).seen["score"])
    kept[again] = Observation(again, "", observed.seen["score"][first].answer)

    report = judged(replace(observed, seen={**observed.seen, "score": kept}))

    assert report.verdict is Verdict.PASS
