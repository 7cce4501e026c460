"""Two evidence folders beside each other: what is paired, and what the questions differ in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from world import ENGINE, MARGINS, ROOT, World, noisy, with_launches

from iqaction import comparing, stages
from iqaction.calls import Arm
from iqaction.circumstances import Circumstances
from iqaction.comparing import Comparison, Line, Stage
from iqaction.observed import Observed
from iqaction.plan import Margin, Plan, StageSpec
from iqaction.report import Change
from iqaction.verdict import Verdict

WORLD = World(units=24, length=6)
REFERENCE = WORLD.capture(launches=3)
GOOD = WORLD.compare(REFERENCE)
BAD = WORLD.compare(REFERENCE, noisy(0.5))


def compare(a: Observed, b: Observed) -> Comparison:
    return comparing.compare(comparing.party("a", a, "1"), comparing.party("b", b, "1"))


def stage(comparison: Comparison, name: str) -> Stage:
    return next(s for s in comparison.stages if s.stage == name)


def line(comparison: Comparison, metric: str) -> Line:
    return next(x for s in comparison.stages for x in s.lines if x.contrast.metric == metric)


def planned(observed: Observed, **changes: object) -> Observed:
    return replace(observed, plan=replace(observed.plan, **changes))


def with_stage(observed: Observed, name: str, **changes: object) -> Observed:
    specs = tuple(replace(s, **changes) if s.stage == name else s for s in observed.plan.stages)
    return planned(observed, stages=specs)


# --- the question


def test_asked__the_same() -> None:
    """Two candidates of one baseline and one plan, and a capture and what was compared with it."""
    assert compare(GOOD, BAD).asked == ()
    assert compare(REFERENCE, BAD).asked == ()
    assert compare(BAD, REFERENCE).asked == ()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (planned(BAD, baseline_root="e" * 64), "the baseline: bbbbbbbbbbbb in A, eeeeeeeeeeee"),
        (planned(BAD, prompts_sha256="e" * 64), "the prompt file: sha256 000000000000 in A, eeee"),
        (
            planned(BAD, prompt_ids=BAD.plan.prompt_ids[:9], looks=(9,)),
            "the prompts: 24 in A, 9 in B, 9 of them in both",
        ),
        (planned(BAD, stages=BAD.plan.stages[:1]), "score: only in A"),
        (planned(BAD, looks=(8, 16)), "looks: 24 prompts in A, 8, 16 in B"),
        (
            with_stage(BAD, "score", margins=(Margin("kl", 0.5), *MARGINS[1:])),
            "score: the margin of kl is 0.02 in A and 0.5 in B",
        ),
        (with_stage(BAD, "score", seed=9), "score: the seed is 0 in A and 9 in B"),
        (with_stage(BAD, "score", required=False), "score: required in A alone"),
        (
            with_stage(BAD, "score", params={**BAD.plan.stages[1].params, "floor": "single"}),
            "score: floor is 'launches' in A and 'single' in B",
        ),
    ],
)
def test_asked__what_differs_by_name(other: Observed, said: str) -> None:
    """Each difference of the questions alone is named, with both values."""
    asked = compare(GOOD, other).asked

    assert [x for x in asked if said in x]


def test_asked__a_margin_that_one_lacks() -> None:
    """A metric that is judged in one of them only is told as such."""
    other = with_stage(BAD, "score", margins=(Margin("kl", 0.02),))

    assert compare(GOOD, other).asked == (
        "score: the margin of decisive is 0.005 in A and none in B",
        "score: the margin of nll is 0.05 in A and none in B",
    )


def test_asked__unsealed() -> None:
    """A capture that is not sealed is nobody's baseline."""
    assert "none (not sealed)" in compare(replace(REFERENCE, root=""), BAD).asked[0]


# --- the engines


def test_changes__engine_and_start() -> None:
    """Who answered, and how it was started, where both are known."""
    began = Circumstances(machine={"image e": "v1"})
    now = Circumstances(machine={"image e": "v2"})
    a = replace(GOOD, circumstances=began)
    b = replace(
        BAD,
        circumstances=now,
        engines={(Arm.CANDIDATE, 0): replace(ENGINE, version="3.0")},
    )

    assert compare(a, b).changes == (Change("version", "2.0", "3.0"), Change("image e", "v1", "v2"))
    assert compare(replace(a, engines={}), b).changes == (Change("image e", "v1", "v2"),)
    assert compare(REFERENCE, GOOD).changes == (Change("version", "1.0", "2.0"),)


# --- the answers


def test_stages__two_candidates() -> None:
    """Each folder keeps its own verdict; the figures are paired, those of counts are not."""
    found = compare(GOOD, BAD)
    kl, real = line(found, "reference.kl"), line(found, "trajectory.real")

    assert stage(found, "score").b is Verdict.FAIL
    assert (kl.a, kl.b) == (Verdict.UNPROVEN, Verdict.FAIL)
    assert kl.contrast.estimate is not None
    assert kl.contrast.estimate.interval is not None
    assert real.contrast.estimate is None
    assert real.contrast.note == "not paired: no interval"
    assert stage(found, "trajectory").divergences
    assert stage(found, "score").movers


def test_stages__a_baseline_and_what_was_compared_with_it() -> None:
    """Then the judgement of B is the difference; a capture has no verdict."""
    found = compare(REFERENCE, BAD)
    checks = {c.metric: c for s in found.b.report.stages for c in s.checks}
    kl = line(found, "reference.kl")

    assert kl.contrast.estimate == checks["reference.kl"].estimate
    assert (kl.a, kl.b) == (None, checks["reference.kl"].verdict)
    assert {s.a for s in found.stages} == {None}
    # What is shown and not judged has its interval from the pairs.
    assert line(found, "reference.tv").contrast.estimate.interval is not None


def test_stages__the_other_way_round() -> None:
    """From a candidate back to its baseline the figures are paired as well."""
    there, back = compare(REFERENCE, BAD), compare(BAD, REFERENCE)
    metric = "reference.kl"

    assert line(back, metric).contrast.estimate.value == pytest.approx(
        -line(there, metric).contrast.estimate.value
    )


def test_stages__another_baseline() -> None:
    """Nothing is paired, and that is said; both values stand beside each other."""
    other = World(units=24, length=6, seed=3)
    foreign = other.compare(replace(other.capture(launches=3), root="e" * 64))
    found = compare(GOOD, planned(foreign, baseline_root="e" * 64))
    kl = line(found, "reference.kl").contrast

    assert kl.estimate is None
    assert kl.note == "not paired: no interval"
    assert None not in (kl.a, kl.b)
    assert "not paired" in stage(found, "score").note


def test_stages__two_captures() -> None:
    """Captures of the same prompts have texts to be compared, and no verdicts."""
    again = replace(WORLD.capture(launches=3, noise=0.02), root="e" * 64)
    found = compare(REFERENCE, again)

    assert stage(found, "trajectory").compared == 24
    assert {x.a for s in found.stages for x in s.lines} <= {None}


def test_stages__a_refused_capture() -> None:
    """A reference that disagrees with itself keeps its FAIL."""
    faulty = WORLD.capture(launches=3, noise=3.0)

    assert stage(compare(faulty, BAD), "score").a is Verdict.FAIL


def test_stages__only_in_one() -> None:
    """A stage that one of them lacks is named, and not compared."""
    found = compare(planned(GOOD, stages=GOOD.plan.stages[:1]), BAD)

    assert stage(found, "score").a is None
    assert stage(found, "score").lines == ()
    assert "only one of them" in stage(found, "score").note


def test_stages__nothing_observed() -> None:
    """Folders in which nobody answered are compared without a figure, and without a fault."""
    empty = replace(GOOD, seen={}, engines={})
    found = compare(empty, empty)

    assert {x.contrast.estimate for s in found.stages for x in s.lines} == {None}
    assert {s.compared for s in found.stages} == {0}


def test_stages__a_stage_that_pairs_nothing() -> None:
    """A stage without a comparison of its own shows the figures of both."""
    spec = StageSpec("sampling", {p.name: p.default for p in stages.load("sampling").params})
    plan = Plan((spec,), "0" * 64, GOOD.plan.prompt_ids, (24,), ROOT)
    sampled = replace(GOOD, plan=plan, seen={}, baseline=with_launches(REFERENCE, 0))
    found = compare(sampled, sampled)

    assert all(x.contrast.estimate is None for s in found.stages for x in s.lines)
