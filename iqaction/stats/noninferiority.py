"""Is a mean over prompts proven to be within a margin, or proven to be beyond it?

Knows per-prompt differences and margins. Knows no metric, prompt or verdict.

The differences are skewed: most prompts do not change, a few change much. There a t interval is
too short, a percentile bootstrap shorter still, and where only one to three prompts differ a
plain bootstrap-t is infinite. So the bound is the larger of Student's and the bootstrap-t's (Efron
and Tibshirani 1993, ch. 12), and the standard error is never taken below a hundredth of the
margin, in the resamples as in the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_SE_SHARE = 0.01  # of the margin: the smallest standard error that is believed
_ELEMENTS = 262_144  # of one chunk of resamples: 2 MB an array, whatever n is


class Judged(NamedTuple):
    """One metric's mean difference (candidate - floor, larger is worse) and its bounds.

    Bounds and ``p_worse`` are NaN where they cannot be computed: fewer than two units, a value
    that is not finite, or relaunches that give no SD. NaN never is within a margin.

    Attributes
    ----------
    mean, n
        Over units.
    se
        max(s / sqrt(n), margin / 100).
    tau
        SD of the launches' means; 0 where launch noise is left out.
    launches
        How many launches ``tau`` is from; 0 where launch noise is left out.
    upper, lower
        One-sided bounds of the mean at ``1 - alpha`` each, launch noise included.
    p_worse
        One-sided p of "the mean is beyond the margin", launch noise included, not adjusted.
    t_upper, bootstrap_upper
        The two upper bounds without launch noise; the larger one went into ``upper``.
    """

    mean: float
    se: float
    n: int
    tau: float
    launches: int
    upper: float
    lower: float
    p_worse: float
    t_upper: float
    bootstrap_upper: float


# An SD that overflows makes its column unsound; only a margin of 0 allows a division by 0.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def judge_means(
    delta: NDArray[np.float64],
    margins: Sequence[float],
    *,
    launch_means: NDArray[np.float64] | None,
    alpha: float = 0.025,
    resamples: int = 9999,
    rng: np.random.Generator,
) -> tuple[Judged, ...]:
    """Bound the mean of each column of ``delta``, and test it against its margin.

    With d the mean, t* the studentised means of the resamples and U0 the larger of
    ``d + t(1-alpha, n-1) se`` and ``d - q(alpha; t*) se``, the bound is
    ``U = d + sqrt((U0 - d)^2 + t(1-alpha, L-1)^2 tau^2 (1 + 1/L))``. The lower bound is its
    mirror image. ``p_worse`` inverts the bootstrap-t's lower bound: it is the smallest level
    ``j / (B + 1)`` at which ``d - sqrt(a^2 + b^2) > margin``, with ``a = q(1 - level; t*) se``
    and ``b = t(1 - level, L-1) tau sqrt(1 + 1/L)``. Without launch noise that is
    ``(1 + #{t* >= (d - margin) / se}) / (B + 1)``; launch noise can only raise it.

    Parameters
    ----------
    delta : (n, m)
        Candidate - floor, one row a unit, one column a metric.
    margins
        m limits, in the metric's unit, 0 or above.
    launch_means : (L, m), or None
        The metric's mean in each relaunch. None leaves launch noise out; fewer than two
        launches make every bound NaN.
    alpha
        One-sided level of each bound.
    resamples
        B; all metrics share them. At least ``1 / alpha - 1``.
    rng
        The same state gives the same result (on the same BLAS; else to the last few bits).

    Returns
    -------
    tuple of Judged
        One a column. 0/0 in a resample counts as ``t* = 0``.

    Raises
    ------
    ValueError
        Where shapes do not fit together or an option is out of its range.
    """
    _validate(delta, margins, launch_means, alpha, resamples)
    n, m = delta.shape
    launches = 0 if launch_means is None else int(launch_means.shape[0])
    tau = np.zeros(m) if launch_means is None else launch_sd(launch_means)
    sound = np.isfinite(delta).all(axis=0) & np.isfinite(tau) & (n > 1)
    if not sound.any():
        return tuple(_unsound(delta[:, i], float(tau[i]), launches) for i in range(m))
    # The resamples are shared, so an unsound column is computed as zeros and thrown away.
    values, limits = np.where(sound, delta, 0.0), np.asarray(margins, np.float64)
    mean = values.mean(axis=0)
    se = np.maximum(values.std(axis=0, ddof=1) / math.sqrt(n), _SE_SHARE * limits)
    spread = _studentised(values - mean, _SE_SHARE * limits, resamples, rng) * se[:, None]
    # Of B + 1 equally likely ranks the first `tail` are the lower tail: an order statistic, so
    # that the level is exact.
    tail = int(alpha * (resamples + 1) + 1e-9)
    student = _t_quantile(n - 1, np.asarray(1 - alpha)) * se
    t_upper, boot_upper = mean + student, mean - spread[:, tail - 1]
    boot_lower = mean - spread[:, resamples - tail]
    reach = tau * math.sqrt(1 + 1 / max(launches, 1))
    noise = reach * _t_quantile(launches - 1, np.asarray(1 - alpha)) if launches else reach
    upper = mean + np.hypot(np.maximum(t_upper, boot_upper) - mean, noise)
    lower = mean - np.hypot(mean - np.minimum(mean - student, boot_lower), noise)
    p_worse = _p_worse(mean - limits, spread, reach, launches)
    columns = (mean, se, upper, lower, p_worse, t_upper, boot_upper)
    rows = np.column_stack(columns).tolist()
    return tuple(
        Judged(row[0], row[1], n, float(tau[i]), launches, *row[2:])
        if sound[i] and math.isfinite(row[1])
        else _unsound(delta[:, i], float(tau[i]), launches)
        for i, row in enumerate(rows)
    )


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment (1979): reject what is below alpha, family-wise.

    NaN stays NaN and counts as a p of 1, so it makes the others no smaller.
    """
    order = sorted(range(len(p)), key=lambda i: 1.0 if math.isnan(p[i]) else p[i])
    adjusted, highest = [math.nan] * len(p), 0.0
    for rank, i in enumerate(order):
        if not math.isnan(p[i]):
            highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
            adjusted[i] = highest
    return tuple(adjusted)


def launch_sd(launch_means: NDArray[np.float64]) -> NDArray[np.float64]:
    """The SD over launches (ddof 1) of each column of an (L, m) array; NaN for L < 2."""
    if launch_means.shape[0] < 2:
        return np.full(launch_means.shape[1], np.nan)
    with np.errstate(invalid="ignore"):  # an infinite mean has no SD: NaN says so
        sd: NDArray[np.float64] = launch_means.std(axis=0, ddof=1)
    return sd


def prompts_needed(
    sd: float, margin: float, mean: float, *, power: float = 0.8, alpha: float = 0.025
) -> float:
    """How many units would prove ``mean`` within ``margin``, with that power.

    ``ceil(((z(1-alpha) + z(power)) sd / (margin - mean))^2)``; infinite where the estimate is
    at or beyond the margin, or anything is not a number.
    """
    if not (math.isfinite(sd) and mean < margin < math.inf and mean > -math.inf):
        return math.inf
    z = NormalDist().inv_cdf
    return float(math.ceil(((z(1 - alpha) + z(power)) * sd / (margin - mean)) ** 2))


def _validate(
    delta: NDArray[np.float64],
    margins: Sequence[float],
    launch_means: NDArray[np.float64] | None,
    alpha: float,
    resamples: int,
) -> None:
    if delta.ndim != 2 or delta.shape[1] != len(margins):
        raise ValueError(f"`delta` has shape {delta.shape} for {len(margins)} margins")
    if launch_means is not None and launch_means.shape[1:] != delta.shape[1:]:
        raise ValueError(f"`launch_means` has shape {launch_means.shape}, `delta` {delta.shape}")
    if not all(math.isfinite(m) and m >= 0 for m in margins):
        raise ValueError(f"margins {tuple(margins)} are not all numbers from 0")
    if not 0 < alpha < 0.5:
        raise ValueError(f"`alpha` is {alpha}, not between 0 and 0.5")
    if resamples < 1 / alpha - 1:
        raise ValueError(f"{resamples} resamples cannot give a bound at level {alpha}")


def _unsound(column: NDArray[np.float64], tau: float, launches: int) -> Judged:
    n = int(column.size)
    mean = float(column.mean()) if n and np.isfinite(column).all() else math.nan
    nan = math.nan
    return Judged(mean, nan, n, tau, launches, nan, nan, nan, nan, nan)


def _studentised(
    centred: NDArray[np.float64],
    least_se: NDArray[np.float64],
    resamples: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """t* of each column in each resample, sorted along the second axis: (m, B).

    All columns share the resamples: how often each unit was drawn is one matrix, and its product
    with the values and their squares gives every mean and SD at once.
    """
    n, m = centred.shape
    powers = np.vstack([centred.T, np.square(centred.T)]) / n
    t_star = np.empty((m, resamples))
    step = max(1, _ELEMENTS // n)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = rng.integers(0, n, (rows, n))
        drawn += n * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        moments = powers @ times.astype(np.float64).T
        mean, se = moments[:m], moments[m:]
        se -= np.square(mean)
        np.sqrt(np.maximum(se, 0, out=se) / (n - 1), out=se)
        np.maximum(se, least_se[:, None], out=se)
        np.divide(mean, se, out=t_star[:, start : start + rows])
    if not least_se.all():
        t_star[np.isnan(t_star)] = 0  # 0/0
    t_star.sort(axis=1)
    return t_star


def _p_worse(
    gap: NDArray[np.float64],
    spread: NDArray[np.float64],
    reach: NDArray[np.float64],
    launches: int,
) -> NDArray[np.float64]:
    """The p of "beyond the margin" where the mean lies ``gap`` beyond it.

    ``spread`` is t* se, (m, B), sorted ascending.
    """
    total = spread.shape[1] + 1
    count = (spread >= gap[:, None]).sum(axis=1)
    if launches:
        levels = np.arange(1, total) / total
        noise = np.maximum(_t_quantile(launches - 1, 1 - levels), 0)
        half = np.hypot(np.maximum(spread[:, ::-1], 0), reach[:, None] * noise)
        # Not beyond the margin at all: there is nothing that noise could take away.
        count = np.where(gap > 0, (half >= gap[:, None]).sum(axis=1), count)
    p: NDArray[np.float64] = (1 + count) / total
    return p


def _t_quantile(df: int, level: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import stdtrit  # noqa: PLC0415 - 0.4 s to import

    quantile: NDArray[np.float64] = stdtrit(df, level)
    return quantile
