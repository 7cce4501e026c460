"""Judged figures: margins, floors, launch noise, and what an open one lacks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from world import MARGINS, World, noisy, rows

from iqaction.counts import counted
from iqaction.plan import Margin, Plan, StageSpec
from iqaction.report import Check
from iqaction.stages._forced import Leg, Pairing, leg
from iqaction.stages._score_metrics import (
    TITLES,
    Asked,
    Measured,
    check_metrics,
    floor_note,
    measure,
    per_prompt,
)
from iqaction.stages._shares import BEYOND, OVER_BUDGET
from iqaction.verdict import Verdict

ONE = World(units=4).plan()
TWO = World(units=4).plan(looks=(2, 4))
SPEC = StageSpec("score", margins=MARGINS)
KL = StageSpec("score", margins=(Margin("kl", 0.02),))


def deltas(*values: float, n: int = 0, launches: object = None, **changes: object) -> Measured:
    """One metric, ``kl``: the candidate's values beyond a floor of 0."""
    column = np.array(values if not n else [*values, *[0.0] * (n - len(values))])[:, None]
    means = None if launches is None else np.array(launches, float)[:, None]
    found = Measured(("kl",), column, np.zeros_like(column), means, len(column), "x", "leg")
    return replace(found, **changes)  # type: ignore[arg-type]


def spread(mean: float, sd: float, n: int = 64) -> np.ndarray:
    """Normal quantiles with exactly this mean and SD."""
    z = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return mean + sd * (z - z.mean()) / z.std(ddof=1)


def kl(measured: Measured, spec: StageSpec = KL, plan: Plan = ONE) -> Check:
    (check,) = check_metrics(plan, spec, measured)
    return check


def test_check__one_small_difference() -> None:
    """64 prompts, one delta of 1/256, the rest 0: the upper bound is below .001, and it PASSes."""
    check = kl(deltas(1 / 256, n=64))

    assert check.verdict is Verdict.PASS
    assert check.estimate is not None
    assert check.estimate.interval is not None
    assert check.estimate.interval[1] is not None
    assert check.estimate.interval[1] < 0.001
    assert check.estimate.value == pytest.approx(1 / 256 / 64)
    assert (check.estimate.n_units, check.limit) == (64, 0.02)


@pytest.mark.parametrize(("n", "verdict"), [(58, "UNPROVEN"), (59, "PASS")])
def test_check__fewest_to_pass(n: int, verdict: str) -> None:
    """Identical prompts have no spread at all, and fewer than 59 of them cannot PASS."""
    check = kl(deltas(n=n))

    assert check.verdict.value == verdict
    if n < 59:
        assert "fewer than 59 prompts cannot PASS (58 judged)" in check.reason
        assert check.power == "at least 1 more prompt is needed"
        assert check.more_would_help


@pytest.mark.parametrize(("n", "verdict"), [(15, "UNPROVEN"), (16, "FAIL")])
def test_check__fewest_to_fail(n: int, verdict: str) -> None:
    """Fewer than 16 prompts FAIL nothing, however bad they are."""
    values = spread(1.0, 0.1, n)

    assert kl(deltas(*values)).verdict.value == verdict


def test_check__none() -> None:
    """No prompt at all proves nothing and raises nothing."""
    for launches in (None, [0.0, 0.0, 0.0]):
        check = kl(deltas(launches=launches, required=64))
        assert check.verdict is Verdict.UNPROVEN
        assert check.estimate is not None
        assert check.estimate.value is None
        assert check.estimate.interval is None
        assert check.baseline is None
        assert check.candidate is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_check__not_a_number(bad: float) -> None:
    """A figure that is no number never PASSes and never FAILs."""
    check = kl(deltas(bad, n=64))

    assert check.verdict is Verdict.UNPROVEN
    assert "no bound can be computed" in check.reason
    assert not check.more_would_help


def test_check__lost_prompts() -> None:
    """One prompt without an answer prevents a PASS, and not a FAIL."""
    healthy, bad = deltas(n=64, required=65), deltas(*np.full(64, 1.0), required=65)

    assert kl(healthy).verdict is Verdict.UNPROVEN
    assert "1 of 65 prompts have no answer" in kl(healthy).reason
    assert not kl(healthy).more_would_help
    assert kl(bad).verdict is Verdict.FAIL


def test_check__too_few_launches() -> None:
    """Without a known launch noise nothing is concluded, for or against."""
    for values in (np.zeros(64), np.full(64, 1.0)):
        check = kl(deltas(*values, why_not="launched again 2 times"))
        assert check.verdict is Verdict.UNPROVEN
        assert check.reason.startswith("launched again 2 times")
        assert not check.more_would_help


def test_check__holm() -> None:
    """A metric FAILs by its p over all judged metrics of the leg: beside others it takes more."""
    values = spread(0.02 + 2.2 * 0.01 / 8, 0.01)  # p about .016: more than .025 / 3
    beside = replace(
        deltas(*values),
        metrics=("kl", "decisive", "nll"),
        candidate=np.column_stack([values, np.zeros(64), np.zeros(64)]),
        floor=np.zeros((64, 3)),
    )

    assert kl(deltas(*values)).verdict is Verdict.FAIL
    assert check_metrics(ONE, SPEC, beside)[0].verdict is Verdict.UNPROVEN


def test_check__one_sided_level() -> None:
    """The upper bound is at least the t bound at 97.5 %, or at 98.53 % where two looks are
    planned."""
    values = spread(0.004, 0.02, 200)
    mean, se = values.mean(), values.std(ddof=1) / math.sqrt(200)

    for plan, alpha in ((ONE, 0.025), (TWO, 0.0147)):
        estimate = kl(deltas(*values), plan=plan).estimate
        assert estimate is not None
        assert estimate.interval is not None
        assert estimate.level == pytest.approx(1 - 2 * alpha)
        upper = estimate.interval[1]
        assert upper is not None
        assert upper >= mean + stats.t.ppf(1 - alpha, 199) * se - 1e-12
        assert upper == pytest.approx(mean + stats.t.ppf(1 - alpha, 199) * se, rel=0.05)


def test_check__launch_noise() -> None:
    """Launch noise widens the bound as the formula says, and can take a PASS away."""
    quiet = kl(deltas(n=64))
    noise = [0.0, 0.004, 0.002]
    check = kl(deltas(n=64, launches=noise))

    assert quiet.verdict is Verdict.PASS
    assert quiet.estimate is not None
    assert quiet.estimate.interval is not None
    assert check.estimate is not None
    assert check.estimate.interval is not None
    u0, upper = quiet.estimate.interval[1], check.estimate.interval[1]
    assert u0 is not None
    tau = float(np.std(noise, ddof=1))
    wanted = math.hypot(u0, stats.t.ppf(0.975, 2) * tau * math.sqrt(1 + 1 / 3))
    assert upper == pytest.approx(wanted, rel=1e-6)
    much = kl(deltas(n=64, launches=[0.0, 0.04, 0.02]))
    assert much.verdict is Verdict.UNPROVEN
    assert "more relaunches of the baseline would decide it" in much.power
    assert not much.more_would_help


def test_check__launch_noise_mirrored() -> None:
    """Launch noise can take a FAIL away as well."""
    worse = spread(0.03, 0.005)

    assert kl(deltas(*worse)).verdict is Verdict.FAIL
    assert kl(deltas(*worse, launches=[0.0, 0.02, 0.01])).verdict is Verdict.UNPROVEN


def test_check__power_note() -> None:
    """An open metric says how many more prompts would decide it: ((z + z) s / gap)^2 in all."""
    values = spread(0.012, 0.05)
    check = kl(deltas(*values))

    assert check.verdict is Verdict.UNPROVEN
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    needed = math.ceil((z * values.std(ddof=1) / (0.02 - values.mean())) ** 2)
    assert check.power == f"about {needed - 64} more prompts would decide it (80 % power)"
    assert check.more_would_help


def test_check__power_beyond() -> None:
    """An estimate beyond the margin is not helped by more prompts."""
    check = kl(deltas(*spread(0.021, 0.05)))

    assert check.verdict is Verdict.UNPROVEN
    assert (check.power, check.more_would_help) == (BEYOND, False)


def test_check__power_over_budget() -> None:
    """A question that takes more than 512 prompts is said to be undecidable."""
    check = kl(deltas(*spread(0.0, 0.3)))

    assert check.verdict is Verdict.UNPROVEN
    assert (check.power, check.more_would_help) == (OVER_BUDGET, False)


def test_check__same_seed_same_bound() -> None:
    """The same evidence gives the same bound, to the last bit."""
    values = np.random.default_rng(8).exponential(0.01, 64)

    assert kl(deltas(*values)) == kl(deltas(*values))


def test_check_metrics__margins_decide_what_is_judged() -> None:
    """A metric without a margin is shown and carries no verdict."""
    found = check_metrics(ONE, StageSpec("score"), deltas(n=64))

    assert [(c.metric, c.judged, c.verdict) for c in found] == [("x.kl", False, Verdict.UNPROVEN)]
    assert "the plan gives no margin" in found[0].reason
    assert found[0].estimate is not None
    assert found[0].estimate.value == 0.0


def test_check_metrics__shown_without_prompts() -> None:
    """A metric that is only shown has no value where there is no prompt."""
    (found,) = check_metrics(ONE, StageSpec("score"), deltas())

    assert found.estimate is not None
    assert found.estimate.value is None


def test_check_metrics__margin_for_what_cannot_be_computed() -> None:
    """A margin for a metric that cannot be computed is an open check, never a missing one."""
    spec = StageSpec("score", margins=(Margin("kl", 0.02), Margin("tv", 0.1)))

    found = {c.metric: c for c in check_metrics(ONE, spec, deltas(n=64))}

    assert found["x.kl"].verdict is Verdict.PASS
    assert found["x.tv"].verdict is Verdict.UNPROVEN
    assert found["x.tv"].judged


def test_check_metrics__own_min_units() -> None:
    """A plan may ask for more prompts than 59 before anything PASSes."""
    spec = StageSpec("score", margins=(Margin("kl", 0.02, 100),))

    assert kl(deltas(n=99), spec).verdict is Verdict.UNPROVEN
    assert kl(deltas(n=100), spec).verdict is Verdict.PASS


WORLD = World(units=5, length=6)


def along(sd: float = 0.0, seed: int = 0) -> Leg:
    damage = noisy(sd, seed)
    return leg(
        Pairing(
            u,
            rows(WORLD.logits(u), WORLD.path(u), 20),
            rows(damage(u, WORLD.logits(u)), WORLD.path(u), 20),
        )
        for u in WORLD.names
    )


def asked(relaunches: int = 3, *, single: bool = False, required: int = 5) -> Asked:
    return Asked(tuple(TITLES), required, "x", "leg", relaunches, single)


def test_per_prompt__columns() -> None:
    """Each metric is a prompt's mean over its positions, larger is worse."""
    one = along(1.0)
    c = one.compared

    for metric, values in {
        "kl": c.kl,
        "decisive": c.decisive,
        "nll": c.nll_cand,
        "tv": c.tv,
        "agreement": ~c.agree,
    }.items():
        wanted = np.asarray(values, float).reshape(5, 6).mean(axis=1)
        np.testing.assert_allclose(per_prompt(one, metric), wanted)


def test_measure__floor_is_the_mean_of_launches() -> None:
    """The floor is a prompt's mean over launches; the noise is between the launches' means."""
    launches = (along(0.1, 1), along(0.1, 2), along(0.1, 3))
    found = measure(along(0.5), launches, asked())
    each = np.array([[per_prompt(f, m) for m in TITLES] for f in launches])

    np.testing.assert_allclose(found.floor, each.mean(axis=0).T)
    assert found.launch_means is not None
    np.testing.assert_allclose(found.launch_means, each.mean(axis=2))
    assert found.why_not == ""


def test_measure__without_launches() -> None:
    """Without relaunches the floor is the reference against itself: only its own NLL."""
    found = measure(along(0.5), (), asked(0, single=True))

    nll = tuple(TITLES).index("nll")
    np.testing.assert_allclose(found.floor[:, nll], along().mean(along().compared.nll_cand))
    assert not np.delete(found.floor, nll, axis=1).any()
    assert found.launch_means is None
    assert found.why_not == ""


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_measure__fewest_launches(n: int) -> None:
    """Fewer than three relaunches are too few to know the noise between launches."""
    found = measure(along(0.5), tuple(along(0.1, i) for i in range(n)), asked(n))

    assert bool(found.why_not) is (n < 3)
    if n < 3:
        assert f"launched again {counted(n, 'time')}" in found.why_not
        assert "floor: single" in found.why_not


def test_measure__single_ignores_launch_noise() -> None:
    """`floor: single` goes without launch noise even where relaunches are there."""
    launches = tuple(along(0.1, i) for i in range(5))

    assert measure(along(0.5), launches, asked(5, single=True)).launch_means is None


def test_measure__no_prompts() -> None:
    """Launches without any shared prompt give empty figures and no warning."""
    none = leg(iter([]))
    found = measure(none, (none, none, none), asked())

    assert found.candidate.shape == found.floor.shape == (0, 5)
    checks = check_metrics(ONE, SPEC, found)
    assert {c.verdict for c in checks} == {Verdict.UNPROVEN}


@pytest.mark.parametrize("bits", [1e-18, -1e-18, 0.0])
def test_check__last_bits_are_not_said(bits: float) -> None:
    """Equal numbers whose means differ in a last bit differ by 0, and the sentence says so."""
    check = kl(deltas(*[bits] * 64, launches=[bits, 0.0, -bits]))

    assert check.reason.startswith("worse by 0 over 64 prompts: at most ")
    assert floor_note(deltas(n=4, launches=[bits, 0.0, -bits])) == "kl 0"


def test_floor_note() -> None:
    """The SD between launches is printed where there are two or more."""
    assert floor_note(deltas(n=4)) == ""
    assert floor_note(deltas(n=4, launches=[1.0])) == ""
    assert floor_note(deltas(n=4, launches=[0.1, 0.3])) == "kl 0.14"
    assert floor_note(deltas(n=4, launches=[0.1, math.nan])) == ""
