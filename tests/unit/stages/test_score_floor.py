"""The floor of a capture: the comparison's own figures, and the margins that they can decide."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_engine import FakeEngine, compared
from world import World, asking_for, check_of, judged, with_launches

from iqaction.calls import Arm
from iqaction.observed import Observed
from iqaction.stages._score_floor import Floors, of_capture
from iqaction.verdict import Verdict


def repeated(observed: Observed) -> Observed:
    """The capture as if the server had not been restarted for any relaunch."""
    engines = {
        (arm, n): replace(e, not_restarted=arm is Arm.REPEAT)
        for (arm, n), e in observed.engines.items()
    }
    return replace(observed, engines=engines)


def floors(observed: Observed) -> Floors:
    found = of_capture(observed)
    assert found is not None
    return found


def test_of_capture__the_comparison_has_the_same(world: World, baseline: Observed) -> None:
    """Its means are the baseline's column of a comparison, and its margins are the plan's."""
    report = judged(compared(world, FakeEngine(world), baseline))
    found = floors(baseline)

    assert (found.prompts, found.launches, found.why_not) == (64, 5, "")
    for one in found.metrics:
        assert one.mean == pytest.approx(check_of(report, f"reference.{one.metric}").baseline)
        assert one.tau is not None
        assert one.smallest is not None
        assert one.smallest >= one.tau
    assert (found.metrics[0].smallest or 0) > (found.metrics[0].tau or 0) > 0
    assert [f.margin for f in found.metrics] == [0.02, 0.005, 0.05, None, None]
    assert [f.decides for f in found.metrics] == [True, True, True, None, None]


def test_of_capture__noise_decides(world: World) -> None:
    """A floor whose launches differ by as much as the margin cannot support it."""
    found = floors(world.capture(launches=3, noise=1.5))
    kl = found.metrics[0]

    assert kl.smallest is not None
    assert kl.smallest > 0.02
    assert kl.decides is False


def test_of_capture__spread_between_prompts(world: World) -> None:
    """The spread between prompts is a launch's own: scaling it scales the margin."""
    calm = floors(world.capture(launches=5, noise=0.01)).metrics[2]
    noisy = floors(world.capture(launches=5, noise=0.1)).metrics[2]

    assert calm.smallest is not None
    assert noisy.smallest is not None
    assert noisy.smallest == pytest.approx(10 * calm.smallest, rel=0.5)


@pytest.mark.parametrize(("launches", "said"), [(0, "0 relaunches of at least 3"), (2, "2 rel")])
def test_of_capture__too_few(baseline: Observed, launches: int, said: str) -> None:
    """With fewer than three relaunches nothing is claimed."""
    found = floors(with_launches(baseline, launches))

    assert found.why_not.startswith(said)
    assert {f.smallest for f in found.metrics} == {None}
    assert (found.metrics[0].tau is None) is (launches < 2)


def test_of_capture__few_prompts() -> None:
    """Prompts that cannot PASS support no margin."""
    assert floors(World(units=8, length=4).capture(launches=3)).why_not.startswith("fewer than 59")


def test_of_capture__single(baseline: Observed) -> None:
    """A plan that goes without relaunches counts no noise."""
    spec = baseline.plan.stages[1]
    asked = asking_for(baseline, "score", params={**spec.params, "floor": "single"})

    assert floors(asked).why_not.startswith("floor: single")


def test_of_capture__none(baseline: Observed) -> None:
    """Without `score`, or with a live reference, there is no such floor."""
    spec = baseline.plan.stages[1]
    live = asking_for(baseline, "score", params={**spec.params, "reference": "http://h/v1"})
    plan = replace(baseline.plan, stages=baseline.plan.stages[:1])

    assert of_capture(live) is None
    assert of_capture(replace(baseline, plan=plan)) is None


def test_not_restarted__never_passes(world: World, baseline: Observed) -> None:
    """Repeats on one launch are no floor: `score` is UNPROVEN and says why, and so does `show`."""
    kept = repeated(baseline)
    report = judged(compared(world, FakeEngine(world), kept))
    score = report.stages[1]

    assert report.verdict is Verdict.UNPROVEN
    assert {c.verdict for c in score.checks if c.metric.startswith("reference.") and c.judged} == {
        Verdict.UNPROVEN
    }
    assert "not restarted between launches (5 of 5" in check_of(report, "reference.kl").reason
    assert any("was not restarted between launches" in c for c in report.caveats)
    assert floors(kept).why_not.startswith("the server was not restarted")


def test_not_restarted__one_of_them(world: World, baseline: Observed) -> None:
    """One such relaunch among others is enough."""
    engines = dict(baseline.engines)
    engines[Arm.REPEAT, 2] = replace(engines[Arm.REPEAT, 2], not_restarted=True)
    kept = replace(baseline, engines=engines)

    assert kept.not_restarted == (2,)
    assert judged(compared(world, FakeEngine(world), kept)).verdict is Verdict.UNPROVEN


def test_not_restarted__single(world: World, baseline: Observed) -> None:
    """A plan with `floor: single` goes without, PASSes, and carries it as a caveat."""
    report = judged(compared(world, FakeEngine(world), repeated(baseline), floor="single"))

    assert report.verdict is Verdict.PASS
    assert any("was not restarted between launches" in c for c in report.caveats)
    assert any(c.startswith("floor: single") for c in report.stages[1].caveats)


def test_not_restarted__is_no_other_engine(world: World, baseline: Observed) -> None:
    """How a launch was made tells no engine from another."""
    report = judged(repeated(baseline))

    assert report.problems == ()
