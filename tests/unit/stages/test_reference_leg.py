"""The reference leg, observed by a run and judged: known answers, floors, gaps, what is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from fake_engine import FakeEngine, captured, compared
from world import (
    FAILED,
    Damage,
    World,
    answering,
    asking_for,
    check_of,
    healthy,
    judged,
    noisy,
    only,
    stage_of,
    with_launches,
    without,
)

from iqaction.calls import Arm, Scored, Tag
from iqaction.observed import Observed
from iqaction.report import Report
from iqaction.stages._paths import cut
from iqaction.verdict import Verdict

ONLY = {"legs": ("reference",)}


def against(baseline: Observed, world: World, damage: Damage = healthy, **params: object) -> Report:
    return judged(compared(world, FakeEngine(world, damage=damage), baseline, **params))


def metrics(report: Report) -> dict[str, str]:
    return {c.metric: c.verdict.value for c in stage_of(report, "score").checks if c.judged}


def test_judge__a_against_a(world: World, baseline: Observed) -> None:
    """The same model again PASSes everything, with a KL next to 0 and every prompt judged."""
    report = against(baseline, world)

    assert report.verdict is Verdict.PASS
    assert set(metrics(report).values()) == {"PASS"}
    kl = check_of(report, "reference.kl")
    assert kl.candidate is not None
    assert kl.candidate < 1e-3
    assert kl.estimate is not None
    assert kl.estimate.value == pytest.approx(0, abs=1e-4)
    stage = stage_of(report, "score")
    assert (stage.coverage.required, stage.coverage.observed) == (64, 64)
    assert stage.faults == ()
    assert stage.meaning == ()


def test_judge__identical(world: World) -> None:
    """An identical engine has a KL of exactly 0 and agrees everywhere."""
    quiet = captured(world, 3, lambda n: FakeEngine(world, noise=0.0, version="1.0"))
    report = judged(compared(world, FakeEngine(world, noise=0.0), quiet))

    for metric in ("kl", "decisive", "tv", "agreement"):
        assert check_of(report, f"reference.{metric}").candidate == 0.0
    assert report.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("sd", "verdict"), [(0.05, "PASS"), (0.15, "PASS"), (0.5, "FAIL"), (2.0, "FAIL")]
)
def test_judge__damage_everywhere(
    world: World, baseline: Observed, sd: float, verdict: str
) -> None:
    """Damage to every prompt is judged by its size."""
    report = against(baseline, world, noisy(sd))

    assert stage_of(report, "score").verdict.value == verdict
    if verdict == "FAIL":
        assert check_of(report, "reference.kl").verdict is Verdict.FAIL
        assert "the weights, their quantization" in " ".join(stage_of(report, "score").meaning)
        assert any("undo the quantization" in s for s in report.next_steps)


def test_judge__ordered_by_damage(world: World, baseline: Observed) -> None:
    """More damage gives more KL."""
    found = [
        check_of(against(baseline, world, noisy(sd)), "reference.kl").candidate
        for sd in (0.0, 0.1, 0.3, 0.9)
    ]

    assert found == sorted(found, key=lambda x: x or 0.0)
    assert len(set(found)) == 4


BROKEN = ("p-003", "p-017", "p-042")


def test_judge__three_broken_of_64(world: World, baseline: Observed) -> None:
    """Three broken prompts of 64 never PASS, and each is named with its figures."""
    report = against(baseline, world, only(BROKEN, noisy(0.8)))

    assert report.verdict is not Verdict.PASS
    check = check_of(report, "reference.broken")
    assert check.verdict is Verdict.UNPROVEN
    assert all(unit in check.reason for unit in BROKEN)
    assert "3 of 64 prompts broken (3 again when asked once more)" in check.reason
    faults = [f for f in stage_of(report, "score").faults if f.kind == "broken"]
    assert tuple(f.unit for f in faults) == BROKEN
    assert all("again when asked once more" in f.detail for f in faults)


def test_judge__two_severely_broken(world: World, baseline: Observed) -> None:
    """Two reproduced prompts whose fault is severe FAIL, though the mean hides them."""
    report = against(baseline, world, only(BROKEN[:2], noisy(6.0)))

    assert check_of(report, "reference.kl").verdict is not Verdict.FAIL
    assert check_of(report, "reference.broken").verdict is Verdict.FAIL
    assert "a few are broken" in " ".join(stage_of(report, "score").meaning)


def test_meaning__every_prompt_is_broken() -> None:
    """Too few prompts to judge the means, and all of them broken: no word of a few."""
    few = World(units=20, length=16)
    report = against(captured(few, 3), few, noisy(6.0))
    said = " ".join(stage_of(report, "score").meaning)

    assert check_of(report, "reference.broken").verdict is Verdict.FAIL
    assert "a few are broken" not in said
    assert "next-token distribution is another one" in said


def test_judge__five_reproduced(world: World, baseline: Observed) -> None:
    """Five reproduced prompts against none in the floor FAIL."""
    units = world.names[10:15]
    check = check_of(against(baseline, world, only(units, noisy(0.8))), "reference.broken")

    assert check.verdict is Verdict.FAIL
    assert "against the floor's 0" in check.reason


def test_judge__not_reproduced(world: World, baseline: Observed, well: Observed) -> None:
    """Prompts that are well when asked once more count against a PASS, and for no FAIL."""
    observed = well
    bad = FakeEngine(world, damage=noisy(6.0))
    hit = world.names[:6]
    broken = {
        Tag(Arm.CANDIDATE, "reference", u): bad(
            next(
                c
                for c in _forces(world, baseline)
                if c.tag.unit == u  # type: ignore[attr-defined]
            )
        ).answer
        for u in hit
    }
    first = answering(observed, "score", broken)
    kept = dict(first.seen["score"])
    for unit in hit:
        tag = Tag(Arm.CANDIDATE, "reference", unit)
        again = replace(tag, attempt=2)
        kept[again] = replace(observed.seen["score"][tag], tag=again)

    report = judged(replace(first, seen={**first.seen, "score": kept}))

    check = check_of(report, "reference.broken")
    assert check.verdict is Verdict.UNPROVEN
    assert "6 of 64 prompts broken (0 again when asked once more)" in check.reason
    assert "not again when asked once more" in stage_of(report, "score").faults[0].detail


def _forces(world: World, baseline: Observed) -> list[object]:
    engine = FakeEngine(world)
    compared(world, engine, baseline, **ONLY)
    return [c for c in engine.calls if c.tag.leg == "reference"]


@pytest.mark.parametrize("units", [58, 59])
def test_judge__fewest_prompts(units: int) -> None:
    """Fewer than 59 prompts never PASS, however well they score."""
    world = World(units=units, length=16)
    report = judged(compared(world, FakeEngine(world), captured(world, 3)))

    assert (report.verdict is Verdict.PASS) is (units == 59)
    if units == 58:
        assert "fewer than 59" in check_of(report, "reference.kl").reason


@pytest.mark.parametrize(
    ("launches", "floor", "verdict"),
    [(0, "launches", "UNPROVEN"), (2, "launches", "UNPROVEN"), (3, "launches", "PASS"),
     (0, "single", "PASS")],
)  # fmt: skip
@pytest.mark.parametrize("damage", [healthy, noisy(2.0)])
def test_judge__launches(
    world: World,
    baseline: Observed,
    launches: int,
    floor: str,
    verdict: str,
    damage: Damage,
) -> None:
    """Fewer than three relaunches prove nothing, unless the plan goes without and says so."""
    few = with_launches(baseline, launches)
    stage = stage_of(against(few, world, damage, floor=floor, **ONLY), "score")

    wanted = verdict if damage is healthy or verdict == "UNPROVEN" else "FAIL"
    assert stage.verdict.value == wanted
    said = " ".join(stage.caveats)
    assert ("floor: single" in said) is (floor == "single")
    if wanted == "UNPROVEN":
        assert all(f"launched again {launches} time" in c.reason for c in stage.checks if c.judged)


def test_judge__small_floor_is_said(world: World, baseline: Observed) -> None:
    """Three relaunches suffice and are called few; five are not."""
    three = stage_of(against(with_launches(baseline, 3), world, **ONLY), "score").caveats
    five = stage_of(against(baseline, world, **ONLY), "score").caveats

    assert any("a small floor: 3 relaunches" in c for c in three)
    assert not any("a small floor" in c for c in five)
    assert any("SD between the baseline's launches: kl " in c for c in five)


def test_judge__noisy_floor(world: World) -> None:
    """A candidate that differs as much as the baseline's launches do is no worse; a floor that
    noisy supports less."""
    noise = 0.3
    baseline = captured(world, 5, lambda n: FakeEngine(world, noise=noise, seed=n, version="1.0"))
    candidate = FakeEngine(world, noise=noise, seed=77)

    check = check_of(judged(compared(world, candidate, baseline, **ONLY)), "reference.kl")

    assert check.candidate is not None
    assert check.candidate > 0.02
    assert check.verdict is not Verdict.FAIL
    assert check.estimate is not None
    assert check.estimate.value is not None
    assert abs(check.estimate.value) < 0.02


def lose(tag: Tag) -> Callable[[Tag], bool]:
    return lambda t: t == tag


LOST_OF_BASELINE = [
    ("trajectory", Tag(Arm.BASELINE, "trajectory", "p-005")),
    ("score", Tag(Arm.BASELINE, "self", "p-005")),
    ("score", Tag(Arm.REPEAT, "reference", "p-005", 2)),
]


@pytest.mark.parametrize(("stage", "tag"), LOST_OF_BASELINE)
@pytest.mark.parametrize("how", ["lost", "failed"])
def test_judge__floor_gap(
    baseline: Observed, well: Observed, stage: str, tag: Tag, how: str
) -> None:
    """A prompt that lacks its baseline is a gap: it is named, and nothing PASSes."""
    observed = well
    if how == "lost":
        broken = without(baseline, stage, lose(tag))
    else:
        broken = answering(baseline, stage, {tag: FAILED})
    report = judged(replace(observed, baseline=broken))

    score = stage_of(report, "score")
    assert score.verdict is Verdict.UNPROVEN
    assert score.coverage.left_out == ("p-005",)
    assert (score.coverage.required, score.coverage.observed) == (64, 63)
    assert any("p-005" in c and "baseline" in c for c in score.caveats)
    assert not score.more_would_help


@pytest.mark.parametrize("how", ["lost", "failed", "unusable", "short", "other"])
def test_judge__candidate_prompt_lost(well_along: Observed, how: str) -> None:
    """A prompt that the candidate did not answer, failed at, or answered uselessly never PASSes."""
    observed = well_along
    tag = Tag(Arm.CANDIDATE, "reference", "p-005")
    answer = observed.seen["score"][tag].answer
    assert isinstance(answer, Scored)
    rows = answer.rows
    changes: dict[str, object] = {
        "failed": FAILED,
        "unusable": Scored(replace(rows, logprob=rows.logprob * np.nan), "x"),
        "short": Scored(cut(rows, 0, 15), "x"),
        "other": Scored(replace(rows, chosen=rows.chosen + 1), "x"),
    }
    if how == "lost":
        spoiled = without(observed, "score", lose(tag))
    else:
        spoiled = answering(observed, "score", {tag: changes[how]})

    score = stage_of(judged(spoiled), "score")

    assert score.verdict is Verdict.UNPROVEN
    (fault,) = score.faults
    wanted = {"lost": "missing", "failed": "failed"}.get(how, "unusable")
    assert (fault.unit, fault.kind) == ("p-005", wanted)
    assert score.coverage.observed == 63
    assert ("p-005" in score.coverage.failed) is (how == "failed")
    assert ("p-005" in score.coverage.missing) is (how != "failed")


def test_judge__every_prompt_failed(world: World, baseline: Observed) -> None:
    """An engine that forces nothing was not observed: NOT RUN, and no error."""
    engine = FakeEngine(world, fails=lambda call: FAILED if call.tag.leg != "trajectory" else None)

    report = judged(compared(world, engine, baseline))

    assert stage_of(report, "score").verdict is Verdict.NOT_RUN
    assert report.verdict is Verdict.UNPROVEN  # the texts are healthy


def test_judge__only_decisive_is_judged(well_along: Observed) -> None:
    """NaN in a row is no agreement, even where the only margin is on disagreements."""
    observed = well_along
    decisive = tuple(m for m in observed.plan.stages[1].margins if m.metric == "decisive")
    observed = asking_for(observed, "score", margins=decisive)
    assert judged(observed).verdict is Verdict.PASS

    def spoil(tag: Tag, answer: object) -> object:
        if tag.unit != "p-009" or not isinstance(answer, Scored):
            return answer
        values = answer.rows.top_logprob.copy()
        values[3, 5] = np.nan
        return replace(answer, rows=replace(answer.rows, top_logprob=values))

    assert judged(answering(observed, "score", spoil)).verdict is Verdict.UNPROVEN


def test_judge__no_margins(well_along: Observed) -> None:
    """Without margins the figures are shown, and broken prompts are still judged."""
    observed = well_along

    report = judged(asking_for(observed, "score", margins=()))

    assert metrics(report) == {"reference.broken": "PASS"}
    assert check_of(report, "reference.kl").candidate is not None
    assert stage_of(report, "score").series[0].limit is None


def test_judge__floored_is_said(world: World, baseline: Observed) -> None:
    """Positions where the candidate leaves nothing outside its list are marked."""
    sharp = FakeEngine(world, damage=lambda unit, logits: logits * 30)

    caveats = stage_of(judged(compared(world, sharp, baseline, **ONLY)), "score").caveats

    assert any("left no mass outside its list" in c for c in caveats)


def test_judge__end_token(stopping: World, stopped: Observed) -> None:
    """A candidate that would not stop where the reference does is seen at the end token, which
    the chat answer does not list."""

    def goes_on(unit: str, logits: np.ndarray) -> np.ndarray:
        changed = logits.copy()
        changed[-1, stopping.eos] = -12.0
        return changed

    well = judged(compared(stopping, FakeEngine(stopping), stopped, **ONLY))
    bad = judged(compared(stopping, FakeEngine(stopping, forcing=goes_on), stopped, **ONLY))

    assert stage_of(well, "score").verdict is Verdict.PASS
    assert not any("end token" in c for c in stage_of(well, "score").caveats)
    assert stage_of(bad, "score").verdict is Verdict.FAIL


def test_judge__end_token_not_known() -> None:
    """Where the end token is not known, that nobody looks at the stop is said."""
    world = World(units=60, length=16, end="unknown")

    stage = stage_of(judged(compared(world, FakeEngine(world), captured(world, 3))), "score")

    assert stage.verdict is Verdict.PASS
    assert any("end token of 60 texts is not known" in c for c in stage.caveats)


@pytest.mark.parametrize("cap", [1, 5])
def test_judge__shorter_lists(world: World, baseline: Observed, cap: int) -> None:
    """A candidate that lists fewer tokens than the reference shows less of the same difference:
    it never PASSes, and the report says what is short."""
    report = judged(compared(world, FakeEngine(world, cap=cap), baseline))

    assert report.verdict is not Verdict.PASS
    assert check_of(report, "reference.kl").verdict is Verdict.UNPROVEN
    fault = stage_of(report, "score").faults[0]
    assert f"lists of {cap} tokens, the reference's hold 20" in fault.detail
