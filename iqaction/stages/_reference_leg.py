"""The reference leg of `score`: the stored reference, forced through the candidate. Pure.

The reference's own tokens follow the baseline's prompt ids through the candidate, position by
position, and the candidate's log-probabilities are held against the reference's. What the
baseline's relaunches differ among themselves is the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iqaction.calls import Arm, Failure
from iqaction.observed import Observed
from iqaction.report import Check, Coverage, Series, Table, UnitFault
from iqaction.rows import Rows
from iqaction.stages import _broken, _score_tables
from iqaction.stages._base import Context
from iqaction.stages._forced import Leg, Reference, against, forced_along, leg, required
from iqaction.stages._paths import FRESH, SCORE, scored
from iqaction.stages._score_metrics import (
    FEWEST_LAUNCHES,
    TITLES,
    Measured,
    check_metrics,
    floor_note,
    per_prompt,
)
from iqaction.stages._shares import names

METRICS = tuple(TITLES)


@dataclass(frozen=True)
class LegResult:
    """What a leg says: its checks, what could be judged, and what to show."""

    checks: tuple[Check, ...]
    coverage: Coverage
    faults: tuple[UnitFault, ...] = ()
    caveats: tuple[str, ...] = ()
    meaning: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    series: tuple[Series, ...] = ()
    hits: tuple[str, ...] = ()


def judge(context: Context, baseline: Observed) -> LegResult:
    """The leg's checks over the context's look."""
    references, left_out = required(context, baseline)
    rows = {r.unit: forced_along(context, Arm.CANDIDATE, r) for r in references}
    candidate = leg(against(references, lambda r: rows[r.unit]))
    judged = set(candidate.units)
    shared = tuple(r for r in references if r.unit in judged)
    floors = tuple(
        leg(against(shared, lambda r, n=n: forced_along(baseline, Arm.REPEAT, r, n)))  # type: ignore[misc]
        for n in baseline.launches
    )
    single = context.spec.params.get("floor") == "single"
    measured = _measure(candidate, floors, len(references), single)
    failed, missing = _lost(context, references, rows)
    hits = _hits(context, references, candidate, floors, failed, missing)
    checks = (
        *check_metrics(context.plan, context.spec, measured),
        _broken.check(
            context.plan, hits, "reference.broken", "reference leg: broken prompts", "broken"
        ),
    )
    kl = (per_prompt(candidate, "kl"), measured.floor[:, METRICS.index("kl")])
    margin = context.spec.margin("kl")
    bucket_of = {p.id: p.bucket for p in context.units}
    return LegResult(
        checks,
        Coverage(
            len(references), len(candidate.units), tuple(failed), tuple(missing), tuple(left_out)
        ),
        _faults(bucket_of, candidate, kl[0] - kl[1], hits, {**failed, **missing}, set(failed)),
        _caveats(measured, floors, candidate, left_out, single),
        _meaning(checks),
        _score_tables.tables(candidate, floors, bucket_of),
        _score_tables.series(candidate, kl[1], kl[0], margin.limit if margin else None),
        hits.hits,
    )


def _measure(candidate: Leg, floors: tuple[Leg, ...], n: int, single: bool) -> Measured:
    per_launch = np.array([[per_prompt(f, m) for m in METRICS] for f in floors])  # (L, m, units)
    now = np.stack([per_prompt(candidate, m) for m in METRICS], axis=1)
    if floors:
        floor, means = per_launch.mean(axis=0).T, per_launch.mean(axis=2)
    else:
        floor, means = _reference_itself(candidate), None
    why_not = ""
    if len(floors) < FEWEST_LAUNCHES and not single:
        why_not = (
            f"the baseline was launched again {len(floors)} times and at least "
            f"{FEWEST_LAUNCHES} relaunches are needed to know the noise between launches "
            "(`floor: single` in the plan goes without)"
        )
    return Measured(
        METRICS,
        now,
        floor,
        None if single or len(floors) < 2 else means,
        n,
        "reference",
        "reference leg",
        why_not,
    )


def _reference_itself(candidate: Leg) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The floor without relaunches: the reference against itself, which differs in nothing."""
    floor = np.zeros((len(candidate.units), len(METRICS)))
    floor[:, METRICS.index("nll")] = candidate.mean(candidate.compared.nll_ref)
    return floor


def _lost(
    context: Context, references: tuple[Reference, ...], rows: dict[str, Rows | str | None]
) -> tuple[dict[str, str], dict[str, str]]:
    """Prompts that failed on the candidate, and those without a usable answer, with the reason."""
    failed: dict[str, str] = {}
    missing: dict[str, str] = {}
    kept = context.observed(SCORE)
    for reference in references:
        found = rows[reference.unit]
        if isinstance(found, Rows):
            continue
        answer = scored(kept, Arm.CANDIDATE, "reference", reference.unit)
        (failed if isinstance(answer, Failure) else missing)[reference.unit] = (
            found or "never answered"
        )
    return failed, missing


def _hits(
    context: Context,
    references: tuple[Reference, ...],
    candidate: Leg,
    floors: tuple[Leg, ...],
    failed: dict[str, str],
    missing: dict[str, str],
) -> _broken.Hits:
    kl = per_prompt(candidate, "kl")
    noise = [per_prompt(f, "kl") for f in floors]
    floor = np.mean(noise, axis=0) if noise else np.zeros_like(kl)
    hit = _broken.broken(kl - floor, _decisive(candidate), candidate.lengths())
    units = [u for u, h in zip(candidate.units, hit, strict=True) if h]
    base = dict(zip(candidate.units, floor, strict=True))
    by_unit = {r.unit: r for r in references}
    again = leg(
        against(
            tuple(by_unit[u] for u in units),
            lambda r: forced_along(context, Arm.CANDIDATE, r, attempt=FRESH),
        )
    )
    over = per_prompt(again, "kl") - np.array([base[u] for u in again.units])
    twice = _broken.broken(over, _decisive(again), again.lengths())
    reproduced = [u for u, h in zip(again.units, twice, strict=True) if h]
    severe = [
        u
        for u, kl_over, h in zip(again.units, over, twice, strict=True)
        if h and kl_over > _broken.SEVERE_KL_NATS
    ]
    floor_hits = max(
        (
            int(_broken.broken(x - floor, _decisive(f), f.lengths()).sum())
            for x, f in zip(noise, floors, strict=True)
        ),
        default=0,
    )
    return _broken.Hits(
        len(references),
        tuple(units),
        tuple(reproduced),
        tuple(severe),
        tuple(failed),
        tuple(missing),
        floor_hits,
    )


def _decisive(one: Leg) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Decisive disagreements a prompt, (units,)."""
    if not one.units:
        return np.empty(0)
    return np.add.reduceat(one.compared.decisive.astype(np.float64), one.starts)


def _faults(
    bucket_of: dict[str, str],
    candidate: Leg,
    over: np.ndarray[tuple[int], np.dtype[np.float64]],
    hits: _broken.Hits,
    lost: dict[str, str],
    failed: set[str],
) -> tuple[UnitFault, ...]:
    figures = dict(zip(candidate.units, zip(over, _decisive(candidate), strict=True), strict=True))
    found = []
    for unit in hits.hits:
        kl, decisive = figures[unit]
        again = "again when asked once more" if unit in hits.reproduced else "not when asked again"
        detail = f"KL {kl:.3g} beyond the floor, {decisive:.0f} decisive disagreements; {again}"
        found.append(UnitFault(unit, bucket_of[unit], "broken", detail))
    for unit, why in lost.items():
        kind = "failed" if unit in failed else "missing"
        found.append(UnitFault(unit, bucket_of[unit], kind, why))
    return tuple(found)


def _caveats(
    measured: Measured,
    floors: tuple[Leg, ...],
    candidate: Leg,
    left_out: dict[str, str],
    single: bool,
) -> tuple[str, ...]:
    caveats = []
    if single:
        caveats.append("floor: single: the noise between launches is not known and not counted")
    elif floors and len(floors) < 5:
        caveats.append(f"a small floor: {len(floors)} relaunches of the baseline (5 are better)")
    note = floor_note(measured)
    if note:
        caveats.append(f"SD between the baseline's launches: {note}")
    floored = int(candidate.compared.floored.sum())
    if floored:
        caveats.append(
            f"{floored} positions where the candidate left no mass outside its list: KL there is "
            "computed with that mass at the tolerance"
        )
    if left_out:
        reasons = sorted(set(left_out.values()))
        caveats.append(
            f"{len(left_out)} prompts are not judged because the baseline itself could not be: "
            f"{names(tuple(left_out))} ({names(reasons, 2)})"
        )
    if candidate.units:
        caveats.append(
            "KL and TV are lower bounds from the listed tokens: a change of order beyond the "
            "list is not seen"
        )
    return tuple(caveats)


def _meaning(checks: tuple[Check, ...]) -> tuple[str, ...]:
    failing = [c for c in checks if c.judged and c.verdict.value == "FAIL"]
    if not failing:
        return ()
    if any(c.metric == "reference.broken" for c in failing) and len(failing) == 1:
        return ("Most prompts score as before and a few are broken: look at what they share.",)
    return (
        "Given the same tokens, the candidate's next-token distribution is another one: the "
        "weights, their quantization or the attention kernels changed the model.",
    )
