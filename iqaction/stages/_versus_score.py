"""Two runs of `score` beside each other: B's figures less A's, prompt by prompt. Pure.

Both are held against one stored reference, so that its own part falls out of the difference. This
is no verdict: there is no margin here, and no level that is kept over several figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Arm
from iqaction.observed import Observed
from iqaction.report import Contrast, Estimate, Versus
from iqaction.rows import Rows
from iqaction.stages import _movers
from iqaction.stages._base import Context
from iqaction.stages._forced import Leg, Pairing, forced_along, leg
from iqaction.stages._levels import is_floorless
from iqaction.stages._required import Required, references
from iqaction.stages._score_metrics import RESAMPLES, TITLES, UNITS, per_prompt
from iqaction.stats.noninferiority import judge_means

_METRICS = tuple(TITLES)
_LEVEL = 0.95
_LIVE = "the live direction compares texts of each run's own: not paired"
_NO_PAIRS = "fewer than two prompts were forced along the same reference in both: not paired"
_NO_NOISE = "the noise between launches is not known and not in the intervals"


@dataclass(frozen=True)
class _Run:
    """One run's rows along the reference, by launch: one of a candidate, its relaunches' of a
    capture, or the reference's own where it was never launched again."""

    context: Context
    found: dict[str, Required]

    def rows(self, unit: str) -> tuple[Rows, ...]:
        one = self.found[unit]
        if self.context.baseline is None:
            return one.relaunches or (one.reference.rows,)
        rows = forced_along(self.context, Arm.CANDIDATE, one.reference)
        return (rows,) if isinstance(rows, Rows) else ()


def versus(a: Context, b: Context) -> Versus:
    """The metrics of the reference leg, and the prompts that moved most."""
    if a.spec.text("reference") or b.spec.text("reference"):
        return Versus(note=_LIVE)
    one, other = _run(a), _run(b)
    rows = {
        unit: pair
        for unit, mine in one.found.items()
        if (theirs := other.found.get(unit)) is not None
        and _same(mine.reference.rows, theirs.reference.rows)
        and all(pair := (one.rows(unit), other.rows(unit)))
    }
    if len(rows) < 2:
        return Versus(note=_NO_PAIRS)
    legs = [_legs(one, [(u, pair[i]) for u, pair in rows.items()]) for i in range(2)]
    figures = [_figures(each) for each in legs]
    noise = _noise(b, one.found, list(rows))
    scaled = _scaled(noise, len(legs[0]), len(legs[1]))
    kl = _METRICS.index("kl")

    def pairing(unit: str) -> Pairing:
        return Pairing(unit, rows[unit][0][0], rows[unit][1][0])

    return Versus(
        _contrasts(figures[0], figures[1], scaled, b.spec.seed),
        _movers.of_figures(
            legs[1][0],
            "kl",
            (figures[0][:, kl], figures[1][:, kl]),
            b.prompts,
            pairing,
            both_ways=True,
        ),
        note="" if scaled is not None else _NO_NOISE,
    )


def _run(context: Context) -> _Run:
    reference = context.baseline or _as_observed(context)
    found, _ = references(reference, [p.id for p in context.units])
    return _Run(context, {r.unit: r for r in found})


def _as_observed(context: Context) -> Observed:
    return Observed(context.plan, context.prompts, context.seen, context.engines)


def _same(a: Rows, b: Rows) -> bool:
    """True where two runs were held against the very same reference."""
    return (
        a.match is b.match
        and np.array_equal(a.chosen, b.chosen)
        and np.array_equal(a.logprob, b.logprob)
        and np.array_equal(a.top, b.top)
        and np.array_equal(a.top_logprob, b.top_logprob)
    )


def _legs(run: _Run, rows: list[tuple[str, tuple[Rows, ...]]]) -> list[Leg]:
    """A leg for each launch, over the same prompts."""
    launches = len(rows[0][1])
    return [
        leg(Pairing(u, run.found[u].reference.rows, each[i]) for u, each in rows)
        for i in range(launches)
    ]


def _figures(legs: list[Leg]) -> NDArray[np.float64]:
    """Per prompt and metric, the mean over launches: (n, m)."""
    each = [np.stack([per_prompt(one, m) for m in _METRICS], axis=1) for one in legs]
    means: NDArray[np.float64] = np.mean(each, axis=0)
    return means


def _noise(
    context: Context, found: dict[str, Required], units: list[str]
) -> NDArray[np.float64] | None:
    """Each relaunch's mean over the prompts, (L, m); None where there are fewer than two."""
    relaunched = [(u, found[u].relaunches) for u in units]
    if len(relaunched[0][1]) < 2 or is_floorless(context.spec):
        return None
    legs = [
        leg(Pairing(u, found[u].reference.rows, each[i]) for u, each in relaunched)
        for i in range(len(relaunched[0][1]))
    ]
    return np.array([_figures([one]).mean(axis=0) for one in legs])


def _scaled(noise: NDArray[np.float64] | None, a: int, b: int) -> NDArray[np.float64] | None:
    """The launches' means, spread so that what `judge_means` makes of them is the variance of
    this difference.

    It adds ``tau^2 (1 + 1/L)``: one launch against the mean of L. Here a mean over ``a`` launches
    is held against one over ``b``, which is ``tau^2 (1/a + 1/b)``; for two candidates 2 tau^2.
    """
    if noise is None:
        return None
    centre = noise.mean(axis=0)
    factor = math.sqrt((1 / a + 1 / b) / (1 + 1 / len(noise)))
    scaled: NDArray[np.float64] = centre + (noise - centre) * factor
    return scaled


def _contrasts(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    noise: NDArray[np.float64] | None,
    seed: int,
) -> tuple[Contrast, ...]:
    judged = judge_means(
        b - a,
        [0.0] * len(_METRICS),  # no margin: there is nothing to be within
        launch_means=noise,
        alpha=(1 - _LEVEL) / 2,
        resamples=RESAMPLES,
        rng=np.random.default_rng(seed),
    )
    found = []
    for i, (metric, one) in enumerate(zip(_METRICS, judged, strict=True)):
        sure = math.isfinite(one.lower) and math.isfinite(one.upper)
        estimate = Estimate(
            f"reference.{metric}",
            float(one.mean),
            (float(one.lower), float(one.upper)) if sure else None,
            _LEVEL,
            "bootstrap-t and t over paired prompts",
            one.n,
            UNITS[metric],
            seed,
        )
        found.append(
            Contrast(
                f"reference.{metric}",
                f"reference leg: {TITLES[metric]}",
                UNITS[metric],
                float(a[:, i].mean()),
                float(b[:, i].mean()),
                estimate,
            )
        )
    return tuple(found)
