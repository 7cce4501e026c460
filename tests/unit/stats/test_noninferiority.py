from __future__ import annotations

import math
import statistics
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iqaction.stats.noninferiority import (
    Judged,
    holm,
    judge_means,
    launch_sd,
    prompts_needed,
)

MARGIN = 0.02
properties = settings(deadline=None, max_examples=50, derandomize=True)


def judge(
    column: list[float] | np.ndarray,
    margin: float = MARGIN,
    launches: list[float] | None = None,
    *,
    alpha: float = 0.025,
    resamples: int = 999,
    seed: int = 0,
) -> Judged:
    """One metric judged."""
    means = None if launches is None else np.array(launches, np.float64)[:, None]
    delta = np.array(column, np.float64)[:, None]
    rng = np.random.default_rng(seed)
    (judged,) = judge_means(
        delta, [margin], launch_means=means, alpha=alpha, resamples=resamples, rng=rng
    )
    return judged


def plain_t_star(column: list[float], margin: float, resamples: int, seed: int) -> list[float]:
    """The studentised resamples once more, draw by draw, sorted."""
    n, d = len(column), statistics.fmean(column)
    out = []
    for drawn in np.random.default_rng(seed).integers(0, n, (resamples, n)).tolist():
        values = [column[i] for i in drawn]
        away = statistics.fmean(values) - d
        se = max(statistics.stdev(values) / math.sqrt(n), margin / 100)
        out.append(away / se if se else math.copysign(math.inf, away) if away else 0.0)
    return sorted(out)


def plain(
    column: list[float],
    margin: float,
    launches: list[float] | None,
    *,
    alpha: float,
    resamples: int,
    seed: int,
) -> Judged:
    """The rule once more, in loops over SciPy's t distribution."""
    n, d = len(column), statistics.fmean(column)
    se = max(statistics.stdev(column) / math.sqrt(n), margin / 100)
    t_star = plain_t_star(column, margin, resamples, seed)
    count = 0 if launches is None else len(launches)
    tau = statistics.stdev(launches) if launches else 0.0
    reach = tau * math.sqrt(1 + 1 / count) if count else 0.0

    def noise(level: float) -> float:
        return reach * stats.t.ppf(1 - level, count - 1) if count else 0.0

    t = stats.t.ppf(1 - alpha, n - 1) * se
    rank = math.floor(alpha * (resamples + 1) + 1e-9)
    boot_upper, boot_lower = d - t_star[rank - 1] * se, d - t_star[-rank] * se
    upper = d + math.hypot(max(d + t, boot_upper) - d, noise(alpha))
    lower = d - math.hypot(d - min(d - t, boot_lower), noise(alpha))
    gap = d - margin
    p = (1 + sum(x * se >= gap for x in t_star)) / (resamples + 1)
    if count and gap > 0:
        p = 1.0
        for j in range(1, resamples + 1):  # the smallest level whose lower bound is beyond
            level = j / (resamples + 1)
            away = math.hypot(max(t_star[-j] * se, 0.0), max(noise(level), 0.0))
            if away < gap:
                p = level
                break
    return Judged(d, se, n, tau, count, upper, lower, p, d + t, boot_upper)


units = st.lists(st.floats(-0.05, 0.2), min_size=2, max_size=25)
spread = st.lists(st.floats(-0.01, 0.01), min_size=2, max_size=6)


def test_judge_means__known_answer():
    """64 prompts, one of which differs by 1/256: the bound is below .001, far within .005."""
    got = judge([1 / 256] + [0.0] * 63, 0.005, resamples=9999)

    assert 0 < got.upper < 0.001
    assert got.p_worse > 0.5


@properties
@given(units, st.none() | spread, st.sampled_from([0.001, 0.005, 0.05]), st.integers(0, 99))
def test_judge_means__second_implementation(column, launches, margin, seed):
    """Shared resamples in one matrix product give what loops give."""
    options = {"alpha": 0.025, "resamples": 199, "seed": seed}
    # Values that differ by rounding alone have an SD of rounding, different in each way of summing.
    column = [round(x, 4) for x in column]
    got = judge(column, margin, launches, **options)
    expected = plain(column, margin, launches, **options)

    for name, a, b in zip(Judged._fields, got, expected, strict=True):
        if name == "p_worse":
            assert abs(a - b) <= 2 / 200, name  # a resample that lies on the margin exactly
        else:
            assert a == pytest.approx(b, rel=1e-6, abs=1e-9), name


def test_judge_means__student():
    """The t bound is SciPy's, and the larger of the two bounds is taken."""
    column = np.random.default_rng(1).normal(0.01, 0.03, 40)
    got = judge(column)
    theirs = stats.ttest_1samp(column, 0).confidence_interval(0.95)

    assert got.t_upper == pytest.approx(theirs.high)
    assert got.upper == max(got.t_upper, got.bootstrap_upper)
    assert got.lower <= theirs.low


def test_judge_means__normal_theory():
    """With many normal units both bounds are 1.96 standard errors away, and p is the normal
    tail."""
    rng = np.random.default_rng(5)
    column = rng.normal(0, 1, 2000)
    column = 0.02 + 0.1 * (column - column.mean()) / column.std(ddof=1)
    se = 0.1 / math.sqrt(2000)
    got = judge(column, 0.0165, resamples=9999)

    assert got.se == pytest.approx(se)
    assert got.upper == pytest.approx(0.02 + 1.96 * se, abs=0.1 * se)
    assert got.lower == pytest.approx(0.02 - 1.96 * se, abs=0.1 * se)
    assert got.p_worse == pytest.approx(stats.norm.sf(0.0035 / se), abs=0.012)


def test_judge_means__skew():
    """With a long right tail the bootstrap-t bound is the larger one."""
    column = MARGIN * np.exp(np.random.default_rng(2).normal(0, 1, 40))
    got = judge(column, resamples=1999)

    assert got.upper == got.bootstrap_upper > got.t_upper


@pytest.mark.parametrize("differing", [1, 2, 3])
def test_judge_means__few_prompts_differ(differing):
    """One to three differing prompts of 64 leave the bound finite, and a healthy engine PASSes."""
    got = judge([0.001] * differing + [0.0] * (64 - differing), resamples=9999)

    assert got.upper < MARGIN / 4


def test_judge_means__rare_damage_is_not_hidden():
    """One prompt of 64 far beyond the margin is no proof of being within it."""
    assert judge([0.4] + [0.0] * 63, resamples=9999).upper > MARGIN


def test_judge_means__launch_noise():
    """The bound widens by Student's quantile over launches, in quadrature."""
    column = np.random.default_rng(3).normal(0, 0.02, 64)
    launches = [0.001, -0.002, 0.0015, 0.0, 0.0005]
    quiet, noisy = judge(column), judge(column, launches=launches)
    tau = statistics.stdev(launches)
    reach = stats.t.ppf(0.975, 4) * tau * math.sqrt(1 + 1 / 5)

    assert (quiet.tau, quiet.launches) == (0.0, 0)
    assert (noisy.tau, noisy.launches) == (pytest.approx(tau), 5)
    assert noisy.upper == pytest.approx(quiet.mean + math.hypot(quiet.upper - quiet.mean, reach))
    assert noisy.lower == pytest.approx(quiet.mean - math.hypot(quiet.mean - quiet.lower, reach))
    assert noisy.t_upper == quiet.t_upper


def test_judge_means__silent_launches():
    """Launches that do not differ change nothing."""
    column = np.random.default_rng(4).normal(0.025, 0.02, 64)
    quiet, silent = judge(column), judge(column, launches=[0.001] * 3)

    assert silent.upper == pytest.approx(quiet.upper)
    assert silent.p_worse == quiet.p_worse


@properties
@given(units, spread, st.integers(0, 9))
def test_judge_means__launch_noise_only_weakens(column, launches, seed):
    """Launch noise never makes a PASS or a FAIL out of none."""
    quiet, noisy = judge(column, seed=seed), judge(column, launches=launches, seed=seed)

    assert noisy.upper >= quiet.upper - 1e-12
    assert noisy.lower <= quiet.lower + 1e-12
    assert noisy.p_worse >= quiet.p_worse


@properties
@given(units, st.none() | spread, st.floats(0.0001, 0.1), st.floats(0.0001, 0.1))
def test_judge_means__monotonic_in_the_margin(column, launches, one, other):
    """A wider margin never gives a smaller p."""
    low, high = sorted((one, other))
    # So much spread that the smallest standard error, which hangs on the margin, does not matter.
    column = [x + 0.5 * (i % 2) for i, x in enumerate(column)]
    near, far = (judge(column, margin, launches, resamples=199) for margin in (low, high))

    assert near.p_worse <= far.p_worse


@pytest.mark.parametrize("launches", [None, [0.0, 0.001, 0.002]])
def test_judge_means__p_and_lower_bound_agree(launches):
    """A lower bound beyond the margin is a p of at most alpha."""
    rng = np.random.default_rng(6)
    beyond = 0
    for seed in range(60):
        got = judge(rng.normal(0.03, 0.03, 30), launches=launches, seed=seed)
        if got.lower > MARGIN:
            beyond += 1

            assert got.p_worse <= 0.025

    assert beyond


def test_judge_means__columns_are_independent():
    """A metric's result is the same alone and among others, an unsound one included."""
    rng = np.random.default_rng(7)
    delta = rng.gamma(1, MARGIN, (30, 3))
    delta[4, 1] = np.nan
    launches = rng.normal(0, 0.001, (5, 3))
    margins = [MARGIN, 0.005, 0.05]
    group = judge_means(
        delta, margins, launch_means=launches, resamples=199, rng=np.random.default_rng(0)
    )
    for i in (0, 2):
        alone = judge(delta[:, i], margins[i], launches[:, i].tolist(), resamples=199)

        assert group[i] == pytest.approx(alone)
    assert math.isnan(group[1].upper)


def test_judge_means__resamples_in_parts():
    """Where the resamples are worked on in several parts, the result is the loops' too."""
    column = np.random.default_rng(8).gamma(1, MARGIN, 1500)
    got = judge(column, resamples=199)
    t_star = plain_t_star(column.tolist(), MARGIN, 199, 0)

    assert got.bootstrap_upper == pytest.approx(got.mean - t_star[4] * got.se)


def test_judge_means__memory():
    """Working memory does not grow with units times resamples."""
    delta = np.random.default_rng(0).gamma(1, MARGIN, (4000, 3))
    tracemalloc.start()
    judge_means(delta, [MARGIN] * 3, launch_means=None, resamples=999, rng=np.random.default_rng(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 16_000_000


def test_judge_means__reproducible():
    """The same generator state gives the same bits; another gives another bound."""
    column = np.random.default_rng(9).gamma(1, MARGIN, 50)

    assert judge(column, seed=1) == judge(column, seed=1)
    assert judge(column, seed=1).bootstrap_upper != judge(column, seed=2).bootstrap_upper


@pytest.mark.parametrize("column", [[], [0.001]])
def test_judge_means__too_few_units(column):
    """No unit and one unit bound nothing."""
    got = judge(column)

    assert got.n == len(column)
    assert all(math.isnan(x) for x in (got.se, got.upper, got.lower, got.p_worse, got.t_upper))
    assert math.isnan(got.mean) == (not column)


def test_judge_means__two_units():
    """Two units are bounded, if widely."""
    got = judge([0.0, 0.001])

    assert 0.001 < got.upper < math.inf


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_judge_means__not_a_number(value):
    """A value that is no number, or too large to square, leaves no bound and no p."""
    got = judge([0.0] * 40 + [value, -value])

    assert not got.upper <= MARGIN
    assert not got.p_worse < 0.025
    assert got.n == 42
    assert math.isnan(got.mean) == (not math.isfinite(value))


@pytest.mark.parametrize("margin", [MARGIN, 0.0])
@pytest.mark.parametrize("value", [0.0, 0.25])
def test_judge_means__all_equal(margin, value):
    """Units that are all equal have the smallest standard error that is believed."""
    got = judge([value] * 64, margin)

    assert got.mean == value
    assert got.se == margin / 100
    assert value <= got.upper <= value + 2.1 * margin / 100
    assert (got.p_worse < 0.025) == (value > margin)


def test_judge_means__no_smallest_error():
    """At a margin of 0, resamples without any spread are as far off as floats go: no PASS."""
    got = judge([1.0] + [0.0] * 7, 0.0)

    assert got.upper > 1e3


@pytest.mark.parametrize("launches", [[], [0.001], [0.001, math.nan], [0.001, math.inf]])
def test_judge_means__launches_without_an_sd(launches):
    """Too few launches, or broken ones, leave no bound: it would be too narrow."""
    means = np.array(launches, np.float64).reshape(-1, 1)
    (got,) = judge_means(
        np.zeros((64, 1)), [MARGIN], launch_means=means, rng=np.random.default_rng(0)
    )

    assert math.isnan(got.tau)
    assert math.isnan(got.upper)
    assert math.isnan(got.p_worse)
    assert got.launches == len(launches)


def test_judge_means__no_metrics():
    """No columns give no results."""
    got = judge_means(np.zeros((5, 0)), [], launch_means=None, rng=np.random.default_rng(0))

    assert got == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delta": np.zeros(5)}, "`delta`"),
        ({"margins": [0.1, 0.2]}, "`delta`"),
        ({"launch_means": np.zeros((3, 2))}, "`launch_means`"),
        ({"launch_means": np.zeros(3)}, "`launch_means`"),
        ({"margins": [-0.1]}, "margins"),
        ({"margins": [math.nan]}, "margins"),
        ({"margins": [math.inf]}, "margins"),
        ({"alpha": 0.0}, "`alpha`"),
        ({"alpha": 0.5}, "`alpha`"),
        ({"alpha": math.nan}, "`alpha`"),
        ({"resamples": 38}, "resamples"),
    ],
)
def test_judge_means__arguments(change, words):
    """Arguments that do not fit together are refused before anything is drawn."""
    good = {
        "delta": np.zeros((5, 1)),
        "margins": [0.1],
        "launch_means": None,
        "alpha": 0.025,
        "resamples": 39,
    }
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state

    with pytest.raises(ValueError, match=words):
        judge_means(**{**good, **change}, rng=rng)
    assert rng.bit_generator.state == before


def rates(damage, n: int, trials: int = 400) -> tuple[float, float]:
    """How often the rule, and a percentile bootstrap, PASS a mean that lies at the margin."""
    rng = np.random.default_rng(n)
    ours = naive = 0
    for _ in range(trials // 20):
        delta = damage(rng, (n, 20))
        judged = judge_means(delta, [MARGIN] * 20, launch_means=None, resamples=999, rng=rng)
        ours += sum(j.upper <= MARGIN for j in judged)
        drawn = rng.integers(0, n, (999, n))
        naive += sum(np.quantile(column[drawn].mean(axis=1), 0.975) <= MARGIN for column in delta.T)
    return ours / trials, naive / trials


@pytest.mark.parametrize(("n", "expected"), [(8, 0.055), (16, 0.050), (32, 0.049), (64, 0.038)])
def test_judge_means__false_pass_diffuse(n, expected):
    """With every prompt a little worse, the bound alone PASSes the margin about 5 times in 100,
    where a percentile bootstrap does so up to 13 times."""
    ours, naive = rates(lambda rng, shape: MARGIN * rng.gamma(1, 1, shape), n)

    assert ours == pytest.approx(expected, abs=0.03)
    assert ours < naive


@pytest.mark.parametrize(("n", "expected"), [(8, 0.67), (16, 0.46), (32, 0.20), (64, 0.05)])
def test_judge_means__false_pass_rare(n, expected):
    """With one prompt in twenty carrying it all, only the guard on n protects small samples."""
    ours, _ = rates(
        lambda rng, shape: np.where(rng.random(shape) < 0.05, 20 * MARGIN, 0.0), n, trials=200
    )

    assert ours == pytest.approx(expected, abs=0.08)


def test_judge_means__false_fail_at_the_margin():
    """A mean at the margin FAILs hardly more often than alpha says, launch noise included."""
    rng = np.random.default_rng(0)
    failed = 0
    for _ in range(300):
        floor = rng.normal(0, 0.1 * MARGIN, 5)
        delta = MARGIN * rng.gamma(1, 1, 32) + rng.normal(0, 0.1 * MARGIN) - floor.mean()
        failed += judge(delta, launches=floor.tolist(), resamples=399).p_worse < 0.025

    assert failed / 300 <= 0.04


def test_judge_means__power_at_twice_the_margin():
    """Twice the margin FAILs at least nine times in ten with 64 prompts."""
    rng = np.random.default_rng(0)
    failed = 0
    for _ in range(100):
        column = 2 * MARGIN * np.exp(rng.normal(-0.32, 0.8, 64))
        failed += judge(column, resamples=399).p_worse < 0.025

    assert failed >= 90


def test_holm__known_answer():
    """The textbook's four: the smallest times four, then three, never falling."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def plain_holm(p: list[float]) -> list[float]:
    """From the definition: the smallest level at which the step-down rule still rejects."""
    m = len(p)
    out = []
    for i, own in enumerate(p):
        earlier = [
            min(1.0, (m - sum(x < q or (x == q and k < j) for k, x in enumerate(p))) * q)
            for j, q in enumerate(p)
            if q < own or (q == own and j <= i)
        ]
        out.append(max(earlier))
    return out


@properties
@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.3, 0.9, 1.0]), max_size=7))
def test_holm__second_implementation(p):
    """It is the step-down rule, and never below the unadjusted p."""
    got = holm(p)

    assert got == pytest.approx(plain_holm(p))
    assert all(a >= b for a, b in zip(got, p, strict=True))


def test_holm__not_computed():
    """NaN stays NaN and makes the others no smaller than a p of 1 would."""
    nan, *others = holm([math.nan, 0.01, 0.02])

    assert math.isnan(nan)
    assert others == list(holm([1.0, 0.01, 0.02])[1:]) == pytest.approx([0.03, 0.04])
    assert holm([]) == ()
    assert all(math.isnan(x) for x in holm([math.nan, math.nan]))


def test_launch_sd():
    """It is the sample SD of each column; fewer than two launches have none."""
    rng = np.random.default_rng(0)
    means = rng.normal(0, 1, (5, 3))

    assert launch_sd(means) == pytest.approx([statistics.stdev(c) for c in means.T.tolist()])
    assert np.isnan(launch_sd(means[:1])).tolist() == [True] * 3
    assert np.isnan(launch_sd(means[:0])).tolist() == [True] * 3


def test_prompts_needed__known_answer():
    """An SD of .04 and .008 to go take ((1.96 + .84) x 5)^2, rounded up."""
    assert prompts_needed(0.04, 0.02, 0.012) == 197
    assert prompts_needed(0.0, 0.02, 0.012) == 0


def test_prompts_needed__power():
    """That many normal units PASS about four times in five."""
    n = int(prompts_needed(0.04, 0.02, 0.005))
    rng = np.random.default_rng(0)
    means = rng.normal(0.005, 0.04 / math.sqrt(n), 4000)

    assert np.mean(means + 1.96 * 0.04 / math.sqrt(n) <= 0.02) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("sd", "margin", "mean"),
    [
        (0.04, 0.02, 0.02),
        (0.04, 0.02, 0.03),
        (math.nan, 0.02, 0.0),
        (math.inf, 0.02, 0.0),
        (0.04, math.nan, 0.0),
        (0.04, math.inf, 0.0),
        (0.04, 0.02, math.nan),
        (0.04, 0.02, -math.inf),
    ],
)
def test_prompts_needed__never(sd, margin, mean):
    """An estimate at or beyond the margin, or no number, is never decided by more prompts."""
    assert prompts_needed(sd, margin, mean) == math.inf
