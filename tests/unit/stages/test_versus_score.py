"""Two runs of `score` beside each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from world import World, answering, asking_for, noisy, with_launches, without

from iqaction import judgement, stages
from iqaction.calls import Arm
from iqaction.observed import Observed
from iqaction.report import Contrast, Versus
from iqaction.stages import _versus_score

WORLD = World(units=24, length=12)
BASELINE = WORLD.capture(launches=5)
GOOD = WORLD.compare(BASELINE)
BAD = WORLD.compare(BASELINE, noisy(0.5))


def versus(a: Observed, b: Observed) -> Versus:
    sides = [judgement.context(x, x.plan.stage("score"), -1) for x in (a, b)]
    return stages.load("score").versus(*sides)


def kl(found: Versus) -> Contrast:
    return next(c for c in found.contrasts if c.metric == "reference.kl")


def width(contrast: Contrast) -> float:
    low, high = contrast.estimate.interval
    return high - low


def test_versus__two_candidates() -> None:
    """The difference of the means with an interval, every metric paired over all prompts."""
    found = versus(GOOD, BAD)

    assert len(found.contrasts) == 5
    assert {c.estimate.n_units for c in found.contrasts} == {24}
    assert kl(found).estimate.value == pytest.approx(kl(found).b - kl(found).a)
    assert kl(found).estimate.interval[0] > 0
    assert found.note == ""
    assert len(found.movers) == 20


def test_versus__mirrored() -> None:
    """The other way round the same difference has the other sign."""
    there, back = kl(versus(GOOD, BAD)), kl(versus(BAD, GOOD))

    assert back.estimate.value == pytest.approx(-there.estimate.value)
    assert back.estimate.interval[1] < 0


def test_versus__a_run_and_itself() -> None:
    """No difference, no prompt that moved, and only the noise between launches as width."""
    found = versus(BAD, BAD)
    low, high = kl(found).estimate.interval

    assert kl(found).estimate.value == 0.0
    assert low < 0 < high
    assert found.movers == ()


def test_versus__agrees_with_the_judgement() -> None:
    """Against the baseline's own capture the difference is the one that the judgement states."""
    check = next(
        c for s in judgement.judge(BAD, "1").stages for c in s.checks if c.metric == "reference.kl"
    )
    found = kl(versus(BASELINE, BAD)).estimate

    assert found.value == pytest.approx(check.estimate.value)
    assert found.interval == pytest.approx(check.estimate.interval, rel=0.05)


def test_scaled__the_variance_of_two_launches() -> None:
    """Two candidates carry twice a launch's variance; against five launches it is 1 + 1/5."""
    noise = np.array([[0.1], [0.2], [0.4], [0.5], [0.3]])
    tau = noise.std(ddof=1)

    def counted(a: int, b: int) -> float:
        scaled = _versus_score._scaled(noise, a, b)
        return scaled.std(ddof=1) ** 2 * (1 + 1 / 5)

    assert counted(1, 1) == pytest.approx(2 * tau**2)
    assert counted(5, 1) == pytest.approx(tau**2 * (1 + 1 / 5))
    assert counted(1, 5) == pytest.approx(tau**2 * (1 + 1 / 5))
    assert _versus_score._scaled(None, 1, 1) is None


def test_versus__without_relaunches() -> None:
    """Noise that is not known is not in the interval, and that is said."""
    short = with_launches(BASELINE, 1)
    found = versus(replace(GOOD, baseline=short), replace(BAD, baseline=short))

    assert "noise between launches is not known" in found.note
    assert width(kl(found)) < width(kl(versus(GOOD, BAD)))


def test_versus__a_capture_without_any_launch() -> None:
    """The reference beside itself differs in nothing, and its NLL is its own."""
    alone = with_launches(BASELINE, 0)
    found = versus(alone, replace(BAD, baseline=alone))

    assert kl(found).a == 0.0
    assert kl(found).b > 0.0


def test_versus__another_reference() -> None:
    """Other texts to be forced along are no pairs."""
    other = World(units=24, length=12, seed=1)
    foreign = other.compare(other.capture(launches=3))

    assert versus(GOOD, foreign).contrasts == ()
    assert "not paired" in versus(GOOD, foreign).note


def test_versus__same_tokens_of_another_reference() -> None:
    """The same texts with other log-probabilities are another reference: another floor."""
    nudged = answering(
        BASELINE,
        "trajectory",
        lambda tag, answer: replace(
            answer, rows=replace(answer.rows, logprob=answer.rows.logprob - np.float32(0.01))
        ),
    )

    assert versus(GOOD, replace(BAD, baseline=nudged)).contrasts == ()


def test_versus__prompts_that_one_lacks() -> None:
    """Only prompts that both answered are compared."""
    lost = set(WORLD.names[:10])
    short = without(BAD, "score", lambda t: t.unit in lost and t.arm is Arm.CANDIDATE)

    assert kl(versus(GOOD, short)).estimate.n_units == 14


def test_versus__one_prompt_is_no_pair() -> None:
    """With fewer than two prompts nothing is paired."""
    short = without(BAD, "score", lambda t: t.unit != WORLD.names[0])

    assert versus(GOOD, short) == Versus(note=_versus_score._NO_PAIRS)


def test_versus__live() -> None:
    """Texts of each run's own are not paired, and that is said."""
    spec = GOOD.plan.stage("score")
    live = asking_for(GOOD, "score", params={**spec.params, "reference": "http://x"})

    assert versus(live, BAD) == Versus(note=_versus_score._LIVE)
