"""What a capture's relaunches say of the noise of `score`, and which margins that can decide. Pure.

The same figures that a comparison takes for its floor, before there is anything to compare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.stages._forced import Leg, Pairing, leg
from iqaction.stages._levels import FEWEST_LAUNCHES, alpha, fewest_to_pass, is_floorless
from iqaction.stages._paths import SCORE
from iqaction.stages._required import references
from iqaction.stages._score_metrics import TITLES, UNITS, per_prompt
from iqaction.stats.floors import smallest_margin


@dataclass(frozen=True)
class Floor:
    """One metric's floor.

    Attributes
    ----------
    mean
        Over prompts and relaunches; None where nothing was observed.
    tau
        SD of the relaunches' means; None for fewer than two.
    smallest
        The margin at which one more launch would PASS nine times in ten; None where that is not
        known. In the metric's unit, as the others.
    margin
        The plan's own, None where it gives none.
    """

    metric: str
    title: str
    unit: str
    mean: float | None
    tau: float | None
    smallest: float | None
    margin: float | None

    @property
    def decides(self) -> bool | None:
        """Whether this floor can support the plan's margin; None where that is not known."""
        if self.smallest is None or self.margin is None:
            return None
        return self.smallest <= self.margin


@dataclass(frozen=True)
class Floors:
    """The floor of `score`: over ``prompts`` of the plan's first look, in ``launches`` relaunches.

    ``why_not`` says why no margin can be decided with it whatever the figures are, "" where one
    can.
    """

    prompts: int
    launches: int
    metrics: tuple[Floor, ...]
    why_not: str = ""


def of_capture(observed: Observed) -> Floors | None:
    """The floor of a capture; None where its plan has no `score`, or takes a live reference."""
    spec = observed.plan.stage(SCORE)
    if spec is None or spec.params.get("reference"):
        return None
    found, _ = references(observed, observed.plan.prompt_ids[: observed.plan.looks[0]])
    legs = [
        leg(Pairing(r.unit, r.reference.rows, r.relaunches[i]) for r in found)
        for i in range(len(observed.launches))
    ]
    why_not = _why_not(observed, spec, len(found))
    metrics = tuple(_floor(observed, spec, legs, m, known=not why_not) for m in TITLES)
    return Floors(len(found), len(legs), metrics, why_not)


def _why_not(observed: Observed, spec: StageSpec, prompts: int) -> str:
    fewest = fewest_to_pass(observed.plan)
    if prompts < fewest:
        return f"fewer than {fewest} prompts cannot PASS ({prompts} can be compared with)"
    if is_floorless(spec):
        return "floor: single: the noise between launches is not counted"
    if observed.not_restarted:
        return "the server was not restarted between launches: what a restart changes is not known"
    if len(observed.launches) < FEWEST_LAUNCHES:
        known = counted(len(observed.launches), "relaunch")
        return f"{known} of at least {FEWEST_LAUNCHES}"
    return ""


def _floor(
    observed: Observed, spec: StageSpec, legs: list[Leg], metric: str, *, known: bool
) -> Floor:
    each = np.array([per_prompt(one, metric) for one in legs])  # (L, n)
    mean, tau = _mean(each), _tau(each)
    smallest = None
    if known and tau is not None:
        smallest = smallest_margin(
            _sd(each), each.shape[1], tau, each.shape[0], alpha=alpha(observed.plan)
        )
    margin = spec.margin(metric)
    return Floor(
        metric,
        TITLES[metric],
        UNITS[metric],
        mean,
        tau,
        smallest,
        margin.limit if margin else None,
    )


def _mean(each: NDArray[np.float64]) -> float | None:
    return _finite(float(each.mean())) if each.size else None


def _tau(each: NDArray[np.float64]) -> float | None:
    """The SD of launch means; the last bits of equal ones are no difference."""
    if each.shape[0] < 2 or not each.size:
        return None
    return _finite(round(float(each.mean(axis=1).std(ddof=1)), 12))


def _sd(each: NDArray[np.float64]) -> float:
    """SD over prompts of a new launch's difference from the floor, as (L, n) launches tell it.

    A launch's own part of a prompt's value has the variance that is left within prompts; the
    floor's mean over L launches adds 1/L of it.
    """
    launches = each.shape[0]
    rest = each - each.mean(axis=0)
    rest -= rest.mean(axis=1, keepdims=True)
    variance = float(np.square(rest).sum()) / ((launches - 1) * max(each.shape[1] - 1, 1))
    return math.sqrt(variance * (1 + 1 / launches))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
