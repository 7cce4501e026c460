"""The judged figures of a leg of `score`: per prompt, against the floor, against the margins.

Pure. A metric PASSes by non-inferiority (its upper bound, launch noise included, is within the
margin over at least 59 prompts) and FAILs by a Holm-adjusted test of the opposite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqaction.counts import counted
from iqaction.plan import Plan, StageSpec
from iqaction.report import Check, Estimate
from iqaction.stages._forced import Leg
from iqaction.stages._levels import FEWEST_LAUNCHES, FEWEST_TO_FAIL, MOST_UNITS, alpha
from iqaction.stages._shares import BEYOND, OVER_BUDGET
from iqaction.stats.noninferiority import Judged, holm, judge_means, launch_sd, prompts_needed
from iqaction.verdict import Verdict

RESAMPLES = 9_999

TITLES = {
    "kl": "KL (>=)",
    "decisive": "decisive disagreement",
    "nll": "NLL of the reference's tokens",
    "tv": "total variation (>=)",
    "agreement": "tokens that differ (1 - agreement)",
}
UNITS = {
    "kl": "nats",
    "decisive": "share",
    "nll": "nats",
    "tv": "share",
    "agreement": "share",
}


def per_prompt(leg: Leg, metric: str) -> NDArray[np.float64]:
    """One value a prompt, larger is worse, (len(leg.units),).

    ``nll`` is the other arm's own mean NLL: the reference's part is the same in every arm and
    falls out of the difference.
    """
    c = leg.compared
    columns = {
        "kl": c.kl,
        "decisive": c.decisive.astype(np.float64),
        "nll": c.nll_cand,
        "tv": c.tv,
        "agreement": (~c.agree).astype(np.float64),
    }
    return leg.mean(columns[metric])


@dataclass(frozen=True)
class Measured:
    """Both arms' figures over the same prompts, ready to be judged.

    Attributes
    ----------
    metrics
        Names, in the order of the columns.
    candidate, floor : (n, m)
        Per prompt; the floor is the mean over the baseline's launches.
    launch_means : (L, m)
        Each launch's mean over prompts; None where the plan takes a floor without relaunches.
    required
        How many prompts should have been judged; n is lower where some have no answer.
    """

    metrics: tuple[str, ...]
    candidate: NDArray[np.float64]
    floor: NDArray[np.float64]
    launch_means: NDArray[np.float64] | None
    required: int
    prefix: str  # "reference" or "live"
    title: str  # "reference leg"
    why_not: str = ""  # a reason that keeps every metric from PASS and FAIL


class Asked(NamedTuple):
    """What a leg wants measured.

    ``relaunches`` is how often the baseline was launched again, ``repeats`` for how many of these
    the server was not restarted; ``single`` True where the plan goes without them.
    """

    metrics: tuple[str, ...]
    required: int
    prefix: str
    title: str
    relaunches: int
    single: bool
    repeats: int = 0


def measure(candidate: Leg, launches: tuple[Leg, ...], asked: Asked) -> Measured:
    """Both arms' figures; ``launches`` are the baseline's legs over the candidate's prompts.

    Without any launch the floor is the reference against itself, which differs in nothing.
    """
    now = np.stack([per_prompt(candidate, m) for m in asked.metrics], axis=1)
    means = None
    if launches:
        each = np.array([[per_prompt(f, m) for m in asked.metrics] for f in launches])
        floor = each.mean(axis=0).T
        if len(launches) > 1 and candidate.units and not asked.single:
            means = each.mean(axis=2)
    else:
        floor = np.zeros_like(now)
        floor[:, asked.metrics.index("nll")] = candidate.mean(candidate.compared.nll_ref)
    return Measured(
        asked.metrics,
        now,
        floor,
        means,
        asked.required,
        asked.prefix,
        asked.title,
        "" if asked.single else _too_few(asked.relaunches) or _same_process(asked),
    )


def _too_few(relaunches: int) -> str:
    if relaunches >= FEWEST_LAUNCHES:
        return ""
    return (
        f"the baseline was launched again {counted(relaunches, 'time')} and at least "
        f"{FEWEST_LAUNCHES} relaunches are needed to know the noise between launches (`floor: "
        "single` in the plan goes without)"
    )


def _same_process(asked: Asked) -> str:
    if not asked.repeats:
        return ""
    return (
        f"the server was not restarted between launches ({asked.repeats} of {asked.relaunches} "
        "relaunches are repeats on one launch), so the noise between launches is not known "
        "(`floor: single` in the plan goes without)"
    )


def check_metrics(plan: Plan, spec: StageSpec, measured: Measured) -> list[Check]:
    """One check per metric: judged where the plan gives a margin, shown where it gives none."""
    judged = [m for m in measured.metrics if spec.margin(m) is not None]
    shown = [m for m in measured.metrics if spec.margin(m) is None]
    checks = _judge(plan, spec, measured, judged) if judged else []
    absent = [m.metric for m in spec.margins if m.metric not in measured.metrics]
    return [
        *checks,
        *(_not_computed(measured, m) for m in absent),
        *(_shown(measured, m) for m in shown),
    ]


def _not_computed(measured: Measured, metric: str) -> Check:
    return Check(
        f"{measured.prefix}.{metric}",
        f"{measured.title}: {TITLES[metric]}",
        Verdict.UNPROVEN,
        "cannot be computed from texts alone, and the plan gives a margin for it",
    )


def _column(measured: Measured, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    at = measured.metrics.index(metric)
    return measured.candidate[:, at], measured.floor[:, at]


def _judge(plan: Plan, spec: StageSpec, measured: Measured, metrics: list[str]) -> list[Check]:
    at = [measured.metrics.index(m) for m in metrics]
    delta = measured.candidate[:, at] - measured.floor[:, at]
    limits = [m.limit for name in metrics if (m := spec.margin(name)) is not None]
    launches = None if measured.launch_means is None else measured.launch_means[:, at]
    level = alpha(plan)
    results = judge_means(
        delta,
        limits,
        launch_means=launches,
        alpha=level,
        resamples=RESAMPLES,
        rng=np.random.default_rng(spec.seed),
    )
    adjusted = holm([r.p_worse for r in results])
    return [
        _check(spec, measured, name, result, p, level)
        for name, result, p in zip(metrics, results, adjusted, strict=True)
    ]


def _check(
    spec: StageSpec, measured: Measured, metric: str, result: Judged, p: float, level: float
) -> Check:
    margin = spec.margin(metric)
    assert margin is not None  # the caller asks for judged metrics only
    candidate, floor = _column(measured, metric)
    verdict, reason, power, more = _decide(
        measured, margin.limit, margin.min_units, result, p, level
    )
    interval = (_finite(result.lower), _finite(result.upper))
    return Check(
        f"{measured.prefix}.{metric}",
        f"{measured.title}: {TITLES[metric]}",
        verdict,
        reason,
        Estimate(
            f"{measured.prefix}.{metric}",
            _finite(result.mean),
            None if interval == (None, None) else interval,
            1 - 2 * level,
            "bootstrap-t and t, launch noise included",
            result.n,
            UNITS[metric],
            spec.seed,
        ),
        margin.limit,
        baseline=_mean(floor),
        candidate=_mean(candidate),
        power=power,
        more_would_help=more,
    )


def _decide(
    measured: Measured, limit: float, min_units: int, result: Judged, p: float, level: float
) -> tuple[Verdict, str, str, bool]:
    n, lost = result.n, measured.required - result.n
    worse = f"worse by {_said(result.mean)} over {n} prompts"
    if measured.why_not:
        said = f"{measured.why_not}; {worse}" if n else measured.why_not
        return Verdict.UNPROVEN, said, "", False
    if n >= FEWEST_TO_FAIL and p < level:
        return Verdict.FAIL, f"{worse}, margin {limit:g}: beyond it (p = {p:.2g})", "", False
    if lost:
        return Verdict.UNPROVEN, f"{lost} of {measured.required} prompts have no answer", "", False
    if n < min_units:
        said = f"fewer than {min_units} prompts cannot PASS ({n} judged)"
        return (
            Verdict.UNPROVEN,
            said,
            f"at least {counted(min_units - n, 'more prompt is', 'more prompts are')} needed",
            True,
        )
    if result.upper <= limit:
        bound = f"at most {result.upper:.4g} with {1 - level:.2%} confidence"
        return Verdict.PASS, f"{worse}: {bound}, margin {limit:g}", "", False
    if not math.isfinite(result.upper):
        return Verdict.UNPROVEN, f"no bound can be computed over {n} prompts", "", False
    return (
        Verdict.UNPROVEN,
        f"{worse}, up to {result.upper:.4g}: the margin {limit:g} is neither kept nor broken",
        *_power(result, limit),
    )


def _power(result: Judged, limit: float) -> tuple[str, bool]:
    """How many more prompts would decide it (80 % power), and whether prompts are all it takes."""
    if result.mean >= limit:
        return BEYOND, False
    sd = result.se * math.sqrt(result.n)
    needed = prompts_needed(sd, limit, result.mean)
    if result.launches and max(result.t_upper, result.bootstrap_upper) <= limit:
        return (
            f"the baseline's launches differ by {result.tau:.3g}: more relaunches of the baseline "
            "would decide it, more prompts would not"
        ), False
    if not math.isfinite(needed) or needed > MOST_UNITS:
        return OVER_BUDGET, False
    more = max(int(needed) - result.n, 1)
    return f"about {counted(more, 'more prompt')} would decide it (80 % power)", True


def _shown(measured: Measured, metric: str) -> Check:
    candidate, floor = _column(measured, metric)
    before, now = _mean(floor), _mean(candidate)
    delta = None if before is None or now is None else now - before
    return Check(
        f"{measured.prefix}.{metric}",
        f"{measured.title}: {TITLES[metric]}",
        Verdict.UNPROVEN,
        "shown, not judged: the plan gives no margin",
        Estimate(
            f"{measured.prefix}.{metric}",
            delta,
            None,
            0.95,
            "mean over prompts",
            len(candidate),
            UNITS[metric],
        ),
        baseline=before,
        candidate=now,
        judged=False,
    )


def floor_note(measured: Measured) -> str:
    """What this floor can support: a launch SD, as a share of the margin, bounds an A/A PASS."""
    if measured.launch_means is None or len(measured.launch_means) < 2:
        return ""
    sds = launch_sd(measured.launch_means)
    return ", ".join(
        f"{name} {_said(sd, 2)}"
        for name, sd in zip(measured.metrics, sds, strict=True)
        if math.isfinite(sd)
    )


def _said(value: float, digits: int = 4) -> str:
    """For a sentence. The mean of equal numbers can be off by a last bit, which is no difference
    and is another one on another machine: 0 is said."""
    return f"{round(value, 12) + 0.0:.{digits}g}"


def _mean(values: NDArray[np.float64]) -> float | None:
    return _finite(float(values.mean())) if values.size else None


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
