"""Evidence to verdict: what caps it, what changes nothing, and that losing evidence never helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from fake_engine import FakeEngine, captured, compared
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from world import (
    ENGINE,
    FAILED,
    Damage,
    World,
    answering,
    asking_for,
    check_of,
    judged,
    noisy,
    only,
    stage_of,
    without,
)

from iqaction import judgement
from iqaction.calls import Arm, Call, Generation, Tag
from iqaction.circumstances import Circumstances
from iqaction.observed import Observed
from iqaction.plan import Margin, StageSpec
from iqaction.report import Change, Difference, Run
from iqaction.verdict import Verdict

WORLD = World(units=64, length=16)
TARGETS = WORLD.names[7:10]  # the prompts at which something is wrong


@cache
def baseline() -> Observed:
    return captured(WORLD, 3)


@cache
def healthy() -> Observed:
    return compared(WORLD, FakeEngine(WORLD), baseline())


def renamed(**changes: object) -> Observed:
    """The healthy evidence under another plan."""
    observed = healthy()
    return replace(observed, plan=replace(observed.plan, **changes))  # type: ignore[arg-type]


def unproven_for(observed: Observed, said: str) -> None:
    """Nothing but a problem of the evidence keeps it from PASS, and that is said."""
    report = judged(observed)
    assert {s.verdict for s in report.stages} == {Verdict.PASS}
    assert report.verdict is Verdict.UNPROVEN
    assert any(said in p for p in report.problems)
    assert said in report.headline
    assert any("capture the baseline again with these" in s for s in report.next_steps)


def test_judge__healthy() -> None:
    """Whole evidence of the same model PASSes, and says who answered and what changed."""
    report = judged(healthy())

    assert report.verdict is Verdict.PASS
    assert report.headline == "this change keeps the model's output"
    assert report.problems == ()
    assert [(e.arm, e.version) for e in report.engines] == [
        ("baseline", "1.0"),
        ("candidate", "2.0"),
    ]
    assert report.changes == (Change("version", "1.0", "2.0"),)
    assert report.plan_sha256 == healthy().plan.sha256
    assert report.baseline_root == "b" * 64
    assert report.tool_version == "1.2.3"
    assert any("streaming, tool calls" in c for c in report.caveats)


def test_judge__pure() -> None:
    """The same evidence gives the same report, however its observations are ordered."""
    turned = replace(
        healthy(),
        seen={k: dict(reversed(v.items())) for k, v in healthy().seen.items()},  # type: ignore[call-overload]
    )

    assert judged(healthy()) == judged(healthy())
    assert judged(turned) == judged(healthy())


# problems of the evidence


def test_problems__of_the_evidence() -> None:
    """A fault of the folder itself takes a PASS away."""
    unproven_for(replace(healthy(), problems=("a file was edited",)), "a file was edited")


def test_problems__of_the_baseline() -> None:
    """A fault of the baseline's folder does so too, and is told apart."""
    bad = replace(baseline(), problems=("a file was edited",))
    unproven_for(replace(healthy(), baseline=bad), "baseline: a file was edited")


def test_problems__another_baseline() -> None:
    """A baseline that is not the one that the plan names is none."""
    other = replace(baseline(), root="c" * 64)
    unproven_for(replace(healthy(), baseline=other), "not the one that the plan names")


def test_problems__another_prompt_file() -> None:
    """Another prompt file asks other questions."""
    unproven_for(
        renamed(prompts_sha256="1" * 64),
        "prompt file: 111111111111 now, 000000000000 in the baseline",
    )


def test_problems__other_parameters() -> None:
    """Both arms must have been asked alike."""
    observed = healthy()
    spec = observed.plan.stages[0]
    other = asking_for(observed, "trajectory", params={**spec.params, "top_logprobs": 10})
    unproven_for(other, "trajectory.top_logprobs: 10 now, 20 in the baseline")


@pytest.mark.parametrize(("load", "verdict"), [(2, "UNPROVEN"), (4, "PASS"), (8, "PASS")])
def test_problems__load(load: int, verdict: str) -> None:
    """A candidate asked with less in flight than the baseline never PASSes: faults under load
    would not show. With more it is a caveat."""
    observed = replace(
        healthy(),
        concurrency={(Arm.CANDIDATE, 0): (load, "plan")},
        baseline=replace(baseline(), concurrency={(Arm.BASELINE, 0): (4, "plan")}),
    )

    report = judged(observed)

    said = f"the candidate was asked {load} at a time, the baseline 4 at a time"
    less = f"concurrency: {load} now, 4 in the baseline: faults under load would not be seen"
    assert report.verdict.value == verdict
    assert (less in report.problems) is (load < 4)
    assert (said in report.caveats) is (load > 4)


def test_problems__relaunch_of_another_engine() -> None:
    """Relaunches of another engine would make its noise the floor: that never PASSes."""
    other = replace(ENGINE, details={"root": "org/m-awq"})
    mixed = replace(baseline(), engines={**baseline().engines, (Arm.REPEAT, 2): other})

    report = judged(replace(healthy(), baseline=mixed))

    assert report.verdict is Verdict.UNPROVEN
    assert any(
        "relaunch 2 is another engine than the reference: root" in p for p in report.problems
    )


def test_problems__prompts_missing_from_the_evidence() -> None:
    """Prompts of the plan that are not in the folder's prompt file are a problem."""
    few = {k: v for k, v in healthy().prompts.items() if k != "p-063"}
    report = judged(replace(healthy(), prompts=few))

    assert report.verdict is Verdict.UNPROVEN
    assert "the evidence's prompt file lacks 1 prompt of the plan" in report.problems


def test_problems__prompts_missing_from_the_baseline() -> None:
    """Prompts that the baseline was never asked are named."""
    ids = (*WORLD.names[:-7], *(f"new-{i}" for i in range(7)))

    (said,) = judgement.incompatible(replace(healthy().plan, prompt_ids=ids), baseline())

    assert said == "7 prompts are not in the baseline: new-0, new-1, new-2, new-3, new-4 ..."


def test_problems__no_baseline() -> None:
    """A comparison whose baseline is missing from the folder compares nothing."""
    report = judged(replace(healthy(), baseline=None))

    assert report.verdict is not Verdict.PASS
    assert "the baseline's evidence is missing from this folder" in report.problems


def test_problems__baseline_is_a_comparison() -> None:
    """A judged run is no reference."""
    other = replace(healthy(), root="b" * 64)
    found = judgement.incompatible(healthy().plan, other)

    assert found == ("the baseline is itself a comparison, not a captured reference",)


def test_problems__stage_without_a_baseline() -> None:
    """A stage that the baseline was captured without has nothing to compare with."""
    theirs = replace(baseline(), plan=replace(baseline().plan, stages=baseline().plan.stages[:1]))

    assert judgement.incompatible(healthy().plan, theirs) == (
        "stage score: asked now, absent in the baseline",
    )
    assert judged(replace(healthy(), baseline=theirs)).verdict is not Verdict.PASS


@pytest.mark.parametrize("damage", [noisy(0.0), noisy(3.0)])
def test_problems__give_no_pass(damage: Damage) -> None:
    """A problem takes a PASS away and never turns a FAIL into anything else."""
    observed = compared(WORLD, FakeEngine(WORLD, damage=damage), baseline())
    before = judged(observed).verdict

    after = judged(replace(observed, problems=("edited",))).verdict

    assert after is (Verdict.UNPROVEN if before is Verdict.PASS else before)


# stages that are not required


def around(**more: object) -> Observed:
    """The healthy evidence, measured in a workflow run."""
    run = Run("org/repo", "pull_request", "c" * 40, started_at="2026-11-30T12:00:00Z")
    circumstances = Circumstances(run, {"gpu 0": "RTX 3090"}, **more)  # type: ignore[arg-type]
    return replace(healthy(), circumstances=circumstances)


def test_circumstances__are_shown() -> None:
    """The run and the machine are the report's, and change no verdict."""
    report = judged(around())

    assert report.verdict is report.gate is Verdict.PASS
    assert report.run.head_sha == "c" * 40
    assert report.machine == {"gpu 0": "RTX 3090"}
    assert report.settings_sha256 == healthy().plan.settings_sha256()


def test_circumstances__a_pull_request_does_not_move_its_own_bar() -> None:
    """What it changes of its judge caps the verdict, is named, and there is a way through."""
    difference = Difference("plan", "plan.yml", "-kl: .02\n+kl: .9")

    report = judged(around(differences=(difference,)))

    assert report.verdict is report.gate is Verdict.UNPROVEN
    assert report.differences == (difference,)
    assert report.headline.endswith("the pull request changes what it is judged by")
    assert any("`field: plan`" in s for s in report.next_steps)


def test_circumstances__an_endpoint_that_did_not_start() -> None:
    """Nothing was observed because nothing was there to ask: NOT RUN says why."""
    whole = around(problem="the endpoint did not start: exit 1\nlog")
    report = judged(replace(whole, seen={}, engines={}))

    assert report.verdict is Verdict.NOT_RUN
    assert report.headline == ("nothing could be observed: the endpoint did not start: exit 1")
    assert any("start it by hand" in s for s in report.next_steps)


@pytest.mark.parametrize("damage", [noisy(0.0), noisy(3.0)])
def test_required__changes_nothing(damage: Damage) -> None:
    """A stage that is not required is judged and shown, and never changes the whole."""
    observed = compared(WORLD, FakeEngine(WORLD, damage=damage), baseline())
    optional = asking_for(observed, "score", required=False)
    report = judged(optional)

    assert report.verdict is stage_of(report, "trajectory").verdict
    assert stage_of(report, "score").verdict is stage_of(judged(observed), "score").verdict
    assert not stage_of(report, "score").required
    neither = asking_for(optional, "trajectory", required=False)
    assert judged(neither).verdict is Verdict.UNPROVEN


def test_required__not_asked() -> None:
    """A stage that is not required and was not asked leaves a PASS alone."""
    observed = asking_for(healthy(), "score", required=False)
    report = judged(replace(observed, seen={**observed.seen, "score": {}}))

    assert stage_of(report, "score").verdict is Verdict.NOT_RUN
    assert report.verdict is Verdict.PASS


def test_required__needs_no_second_look() -> None:
    """A stage that is not required extends no run."""
    world = World(units=8, length=4)
    observed = compared(world, FakeEngine(world), captured(world, 3), looks=(4, 8))
    seen = {k: {t: o for t, o in v.items() if t.unit in world.names[:4]}
            for k, v in observed.seen.items()}  # fmt: skip
    first = replace(observed, seen=seen)

    assert judgement.undecided(first, 0)
    optional = asking_for(asking_for(first, "score", required=False), "trajectory", required=False)
    assert not judgement.undecided(optional, 0)


# looks


@pytest.fixture(scope="module")
def extended() -> Observed:
    """A run whose first look of 50 prompts lacked prompts, and that was extended to 80."""
    world = World(units=80, length=4)
    return compared(world, FakeEngine(world), captured(world, 3), looks=(50, 80))


def test_looks__extended_to_a_pass(extended: Observed) -> None:
    """The second look decides where the first lacked prompts only."""
    report = judged(extended)

    assert report.verdict is Verdict.PASS
    assert {s.look for s in report.stages} == {1}
    assert {s.coverage.required for s in report.stages} == {80}
    estimate = check_of(report, "reference.kl").estimate
    assert estimate is not None
    assert estimate.level == pytest.approx(1 - 2 * 0.0147)


def test_looks__not_extended(extended: Observed) -> None:
    """Without the second look's observations the first look stands."""
    first = set(extended.plan.prompt_ids[:50])
    seen = {k: {t: o for t, o in v.items() if t.unit in first} for k, v in extended.seen.items()}
    report = judged(replace(extended, seen=seen))

    assert report.verdict is Verdict.UNPROVEN
    assert {s.look for s in report.stages} == {0}
    assert any("more prompts are needed" in s for s in report.next_steps)


def test_looks__half_of_the_second(extended: Observed) -> None:
    """A second look that was not observed whole is not judged as if it were."""
    lost = set(extended.plan.prompt_ids[70:])
    seen = {k: {t: o for t, o in v.items() if t.unit not in lost} for k, v in extended.seen.items()}
    report = judged(replace(extended, seen=seen))

    assert report.verdict is Verdict.UNPROVEN
    assert stage_of(report, "score").look == 1
    assert len(stage_of(report, "score").coverage.missing) == 10


def test_looks__decided_at_the_first() -> None:
    """Where the first look decides, what lies beyond it is not looked at, observed or not."""
    world = World(units=80, length=4)
    theirs = captured(world, 3)
    bad_later = FakeEngine(world, damage=only(world.names[70:], noisy(9.0)))
    observed = compared(world, bad_later, theirs, looks=(70, 80))
    whole = compared(world, bad_later, theirs)
    both = replace(whole, plan=replace(whole.plan, looks=(70, 80)))

    assert not any(t.unit in world.names[70:] for t in observed.seen["score"])
    assert judged(whole).verdict is Verdict.FAIL
    for one in (observed, both):
        report = judged(one)
        assert report.verdict is Verdict.PASS
        assert {s.look for s in report.stages} == {0}


# what is said


def test_next_steps__capture() -> None:
    """A capture says how to go on: relaunches up to five, then a candidate."""
    few, many = judged(baseline()), judged(captured(World(units=3, length=4), 5))

    assert any("--launch 4" in s for s in few.next_steps)
    assert any("iqaction run --baseline" in s for s in many.next_steps)


def test_next_steps__nothing_observed() -> None:
    """Nothing observed: see that the endpoint answers."""
    report = judged(compared(WORLD, FakeEngine(WORLD, fails=lambda call: FAILED), baseline()))

    assert report.verdict is Verdict.NOT_RUN
    assert report.headline == "nothing could be observed"
    assert any("see that the endpoint answers" in s for s in report.next_steps)


def test_changes__details() -> None:
    """Whatever the engines tell of themselves and differs is a change."""
    candidate = replace(ENGINE, dialect="sglang", version="2", model="n", details={"kv": "fp8"})
    theirs = replace(baseline(), engines={(Arm.BASELINE, 0): replace(ENGINE, details={"tp": "2"})})
    observed = replace(healthy(), engines={(Arm.CANDIDATE, 0): candidate}, baseline=theirs)

    assert judged(observed).changes == (
        Change("engine", "vllm", "sglang"),
        Change("version", "1.0", "2"),
        Change("model", "m", "n"),
        Change("kv", "", "fp8"),
        Change("tp", "2", ""),
    )


def test_changes__how_it_was_started() -> None:
    """Image and command of both starts, where both are known, behind what the engines tell."""
    begun = Circumstances(machine={"image e": "v1", "cpu": "x"})
    now = Circumstances(machine={"image e": "v2", "cpu": "y"})
    theirs = replace(baseline(), circumstances=begun)
    observed = replace(healthy(), circumstances=now, baseline=theirs)
    same = replace(healthy(), circumstances=now, baseline=baseline())

    assert judged(observed).changes[-1] == Change("image e", "v1", "v2")
    assert all(c.what != "image e" for c in judged(same).changes)


def test_changes__engine_not_known() -> None:
    """Without both names there is no change to tell."""
    nameless = replace(baseline(), engines={(Arm.REPEAT, n): ENGINE for n in (1, 2, 3)})

    assert judged(replace(healthy(), engines={})).changes == ()
    assert judged(replace(healthy(), baseline=nameless)).changes == ()
    assert judged(baseline()).changes == ()


def test_caveats__limitations() -> None:
    """What an engine cannot do is said once."""
    limited = {(Arm.CANDIDATE, n): replace(ENGINE, limitations=("no ids",)) for n in (0, 1)}

    assert judged(replace(healthy(), engines=limited)).caveats.count("no ids") == 1


@pytest.mark.parametrize(("again", "told"), [(0, False), (1, False), (40, True)])
def test_caveats__sent_again(again: int, told: bool) -> None:
    """Questions that were lost on the way and answered later are told where they are not few."""
    observed = healthy()
    score = dict(observed.seen["score"])
    for tag in list(score)[:again]:
        score[tag] = replace(score[tag], attempts=3)
    total = sum(map(len, observed.seen.values()))
    report = judged(replace(observed, seen={**observed.seen, "score": score}))

    said = [c for c in report.caveats if "sent more than once" in c]
    assert report.verdict is Verdict.PASS
    assert [c.split(" questions")[0] for c in said] == [f"{again} of {total}"] * told


def test_describe() -> None:
    """One line on who answers, with what it does not tell left out."""
    assert judgement.describe(ENGINE) == "vllm 1.0, model m"
    assert judgement.describe(replace(ENGINE, version="", model="")) == "vllm, model unnamed"


# prompts that the baseline could not be judged on


def test_left_out__leaves_the_plan() -> None:
    """A prompt at which the baseline's engine failed is left out of the plan, and named; over
    the others a candidate PASSes."""
    theirs = answering(baseline(), "score", {Tag(Arm.REPEAT, "reference", "p-007", 3): FAILED})
    theirs = answering(theirs, "trajectory", {Tag(Arm.BASELINE, "trajectory", "p-008"): FAILED})

    found = judgement.left_out(healthy().plan.stages, theirs)

    assert set(found) == {"p-007", "p-008"}
    ids = tuple(i for i in WORLD.names if i not in found)
    plan = replace(healthy().plan, prompt_ids=ids, looks=(len(ids),))
    report = judged(replace(healthy(), plan=plan, baseline=theirs))
    assert report.verdict is Verdict.PASS
    assert stage_of(report, "score").coverage.required == 62
    (said,) = [c for c in report.caveats if "left out" in c]
    assert "2 prompts are left out" in said
    assert "p-007 (baseline: relaunch 3: HTTP 500" in said


def test_left_out__chosen_by_the_plan() -> None:
    """Prompts that a shorter plan does not want are not said to be left out."""
    ids = WORLD.names[:60]
    plan = replace(healthy().plan, prompt_ids=ids, looks=(60,))

    assert not any("left out" in c for c in judged(replace(healthy(), plan=plan)).caveats)


def test_left_out__required_stages_only() -> None:
    """What a stage that is not required lacks takes no prompt from the others."""
    theirs = answering(baseline(), "score", {Tag(Arm.REPEAT, "reference", "p-007", 3): FAILED})
    optional = asking_for(healthy(), "score", required=False)

    assert judgement.left_out(optional.plan.stages, theirs) == {}
    foreign = StageSpec("score")
    without_score = replace(theirs, plan=replace(theirs.plan, stages=theirs.plan.stages[:1]))
    assert judgement.left_out((foreign,), without_score) == {}


# losing evidence


def _second_script(tag: Tag, answer: object) -> object:
    if isinstance(answer, Generation) and tag.unit in WORLD.names[:9]:
        return replace(answer, text="другой текст " + answer.text)
    return answer


def _other_template(tag: Tag, answer: object) -> object:
    if isinstance(answer, Generation) and tag.unit == TARGETS[0]:
        return replace(answer, prompt_ids=(1, 2, 3, 4, 5))
    return answer


def _flat(unit: str, logits: np.ndarray) -> np.ndarray:
    return logits * 0.2


def _twice_differs(observed: Observed) -> Observed:
    tag = Tag(Arm.BASELINE, "self", "p-000", 0, 2)
    answer = baseline().seen["score"][tag].answer
    rows = replace(answer.rows, logprob=answer.rows.logprob - np.float32(1))  # type: ignore[union-attr]
    changed = {tag: replace(answer, rows=rows)}  # type: ignore[type-var]
    return replace(observed, baseline=answering(baseline(), "score", changed))


def _broken_reference(observed: Observed) -> Observed:
    def decoded_otherwise(tag: Tag, answer: object) -> object:
        if tag.unit in WORLD.names[:5] and isinstance(answer, Generation) and answer.rows:
            rows = replace(answer.rows, logprob=answer.rows.logprob - np.float32(2))
            return replace(answer, rows=rows)
        return answer

    return replace(observed, baseline=answering(baseline(), "trajectory", decoded_otherwise))


def _failing(call: Call) -> object:
    return FAILED if call.tag.leg == "reference" and call.tag.unit in TARGETS else None


def engine(**changes: object) -> Observed:
    return compared(WORLD, FakeEngine(WORLD, **changes), baseline())  # type: ignore[arg-type]


CASES: dict[str, Callable[[], Observed]] = {
    "healthy": healthy,
    "damaged": lambda: engine(damage=noisy(0.5)),
    "at the margin": lambda: engine(damage=noisy(0.19)),
    "three broken": lambda: engine(damage=only(TARGETS, noisy(0.8))),
    "two severely broken": lambda: engine(damage=only(TARGETS[:2], noisy(6.0))),
    "decode faults": lambda: engine(decoding=only(TARGETS, _flat)),
    "forcing faults": lambda: engine(forcing=only(TARGETS, noisy(2.0))),
    "failing prompts": lambda: engine(fails=_failing),
    "another template": lambda: answering(healthy(), "trajectory", _other_template),
    "a raised guard": lambda: answering(healthy(), "trajectory", _second_script),
    "no ids": lambda: engine(told_ids=False, tokenizes=False, counts=False),
    "texts only": lambda: engine(text_only=True),
    "a reference scored twice and not alike": lambda: _twice_differs(healthy()),
    "a reference that disagrees with itself": lambda: _broken_reference(healthy()),
    "problems": lambda: replace(healthy(), problems=("edited",)),
    "few launches": lambda: compared(WORLD, FakeEngine(WORLD), captured(WORLD, 2)),
}


@cache
def case(name: str) -> tuple[Observed, Verdict]:
    observed = CASES[name]()
    return observed, judged(observed).verdict


def test_cases() -> None:
    """Of the cases below only the healthy one PASSes."""
    verdicts = {name: case(name)[1] for name in CASES}

    assert [n for n, v in verdicts.items() if v is Verdict.PASS] == ["healthy"]
    assert {"damaged", "two severely broken"} <= {
        n for n, v in verdicts.items() if v is Verdict.FAIL
    }


Choice = Callable[[Tag], bool]


def spoil(observed: Observed, chosen: Choice, *, fail: bool) -> Observed:
    """Evidence with the chosen observations of both arms lost, or their answers failed."""

    def one(evidence: Observed) -> Observed:
        for stage in evidence.seen:
            if fail:
                evidence = answering(
                    evidence, stage, lambda tag, answer: FAILED if chosen(tag) else answer
                )
            else:
                evidence = without(evidence, stage, chosen)
        return evidence

    found = one(observed)
    assert found.baseline is not None
    return replace(found, baseline=one(found.baseline))


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Observations by what they have in common, as losses have: an arm, a leg, some prompts."""
    arms = draw(st.sets(st.sampled_from(Arm), min_size=1))
    legs = draw(
        st.sets(st.sampled_from(["trajectory", "template", "reference", "self"]), min_size=1)
    )
    units = draw(
        st.one_of(
            st.just(frozenset(TARGETS)),
            st.just(frozenset(WORLD.names)),
            st.frozensets(st.sampled_from(WORLD.names), min_size=1, max_size=8),
            st.frozensets(st.sampled_from(TARGETS), min_size=1),
        )
    )
    launches = draw(st.sets(st.integers(0, 3), min_size=1))
    attempts = draw(st.sets(st.sampled_from([0, 1, 2]), min_size=1))
    return lambda tag: (
        tag.arm in arms
        and tag.leg in legs
        and tag.unit in units
        and tag.launch in launches
        and tag.attempt in attempts
    )


def everything(tag: Tag) -> bool:
    return True


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(CASES)), choices(), st.booleans())
@example("healthy", everything, False)
@example("healthy", everything, True)
@example("damaged", everything, False)
def test_judge__losing_evidence_never_helps(name: str, chosen: Choice, fail: bool) -> None:
    """Whatever is lost or fails, in either arm: no error, and never a PASS that was none."""
    observed, before = case(name)

    after = judged(spoil(observed, chosen, fail=fail)).verdict

    assert before is Verdict.PASS or after is not Verdict.PASS


AT_FAULT = [
    "three broken",
    "two severely broken",
    "decode faults",
    "forcing faults",
    "failing prompts",
    "another template",
]
THEIRS = (Arm.BASELINE, Arm.REPEAT)


@pytest.mark.parametrize(("name", "fail"), [*product(AT_FAULT, (False, True))])
@pytest.mark.parametrize("arms", [(Arm.CANDIDATE,), THEIRS, (Arm.CANDIDATE, *THEIRS)], ids=str)
def test_judge__losing_what_is_wrong(name: str, fail: bool, arms: tuple[Arm, ...]) -> None:
    """Losing just the prompts at which something is wrong makes nothing right."""
    observed, _ = case(name)

    report = judged(spoil(observed, lambda t: t.unit in TARGETS and t.arm in arms, fail=fail))

    assert report.verdict is not Verdict.PASS


def every_tag() -> Iterator[Tag]:
    theirs = baseline().seen
    for stage in ("trajectory", "score"):
        yield from healthy().seen[stage]
        yield from theirs[stage]


KINDS = sorted({(t.arm, t.leg, t.launch, t.attempt) for t in every_tag()}, key=str)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("fail", [False, True])
def test_judge__every_observation_counts(kind: tuple[object, ...], fail: bool) -> None:
    """A PASS rests on every single observation: with any one lost or failed it is none."""
    unit = "p-001"

    def chosen(tag: Tag) -> bool:
        return (tag.arm, tag.leg, tag.launch, tag.attempt) == kind and tag.unit == unit

    report = judged(spoil(healthy(), chosen, fail=fail))

    assert report.verdict is Verdict.UNPROVEN


def test_judge__margins_of_the_plan() -> None:
    """A margin that is not met FAILs or stays open; one that is met PASSes."""
    observed, _ = case("damaged")

    wide = (Margin("kl", 5.0), Margin("decisive", 1.0), Margin("nll", 5.0))
    loose = judged(asking_for(observed, "score", margins=wide))
    tight = judged(asking_for(observed, "score", margins=(Margin("agreement", 0.001),)))

    assert check_of(loose, "reference.kl").verdict is Verdict.PASS
    assert check_of(tight, "reference.agreement").verdict is Verdict.FAIL
    assert not check_of(tight, "reference.kl").judged
