"""The reference leg of `score`: the stored reference, forced through the candidate. Pure.

The reference's own tokens follow the baseline's prompt ids through the candidate, position by
position, and the candidate's log-probabilities are held against the reference's. What the
baseline's relaunches differ among themselves is the floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from iqaction.calls import Arm, Failure
from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.report import Check, Coverage, Mover, Series, Table, UnitFault
from iqaction.rows import Rows
from iqaction.stages import _broken, _movers, _score_tables
from iqaction.stages._base import Context
from iqaction.stages._checks import unproven
from iqaction.stages._forced import Leg, Pairing, Reference, forced_along, leg
from iqaction.stages._levels import ENOUGH_LAUNCHES, is_floorless
from iqaction.stages._lost import NEVER, Lost
from iqaction.stages._paths import FRESH, SCORE, scored
from iqaction.stages._required import references
from iqaction.stages._score_metrics import (
    TITLES,
    Asked,
    Measured,
    check_metrics,
    floor_note,
    measure,
)
from iqaction.stages._shares import names
from iqaction.verdict import Verdict

BROKEN = _broken.What("reference.broken", "reference leg: broken prompts", "broken")
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
    movers: tuple[Mover, ...] = ()


class _Seen(NamedTuple):
    """What was observed along the reference's tokens."""

    references: tuple[Reference, ...]
    candidate: Leg
    floors: tuple[Leg, ...]  # one a relaunch, over the candidate's prompts
    lost: Lost


def _look(context: Context, baseline: Observed) -> _Seen:
    found, gaps = references(baseline, [p.id for p in context.units])
    rows = {r.unit: forced_along(context, Arm.CANDIDATE, r.reference) for r in found}
    candidate = leg(
        Pairing(r.unit, r.reference.rows, now)
        for r in found
        if isinstance(now := rows[r.unit], Rows)
    )
    judged = set(candidate.units)
    shared = tuple(r for r in found if r.unit in judged)
    floors = tuple(
        leg(Pairing(r.unit, r.reference.rows, r.relaunches[i]) for r in shared)
        for i in range(len(baseline.launches))
    )
    lost = _lost(context, rows, gaps)
    return _Seen(tuple(r.reference for r in shared), candidate, floors, lost)


def _lost(context: Context, rows: Mapping[str, Rows | str | None], gaps: Mapping[str, str]) -> Lost:
    failed: dict[str, str] = {}
    missing: dict[str, str] = {}
    kept = context.observed(SCORE)
    for unit, found in rows.items():
        if isinstance(found, Rows):
            continue
        answer = scored(kept, Arm.CANDIDATE, "reference", unit)
        (failed if isinstance(answer, Failure) else missing)[unit] = found or NEVER
    return Lost(failed, missing, gaps)


def _hits(context: Context, seen: _Seen) -> _broken.Hits:
    def again(units: tuple[str, ...]) -> Leg:
        return leg(
            Pairing(r.unit, r.rows, now)
            for r in seen.references
            if r.unit in units
            and isinstance(now := forced_along(context, Arm.CANDIDATE, r, attempt=FRESH), Rows)
        )

    return _broken.find(seen.candidate, seen.floors, again)


def hits(context: Context, baseline: Observed) -> tuple[str, ...]:
    """The prompts that are broken when first asked: they are to be asked once more."""
    return tuple(_hits(context, _look(context, baseline)).hits)


def judge(context: Context, baseline: Observed) -> LegResult:
    """The leg's checks over the context's look."""
    seen = _look(context, baseline)
    candidate, floors, required = seen.candidate, seen.floors, len(context.units)
    single = is_floorless(context.spec)
    repeats = len(baseline.not_restarted)
    asked = Asked(METRICS, required, "reference", "reference leg", len(floors), single, repeats)
    measured = measure(candidate, floors, asked)
    found = _hits(context, seen)
    broken = _broken.check(context.plan, found, seen.lost, required, BROKEN)
    if measured.why_not:
        broken = unproven(broken, measured.why_not)
    checks = (*check_metrics(context.plan, context.spec, measured), broken)
    kl, margin = METRICS.index("kl"), context.spec.margin("kl")
    bucket_of = {p.id: p.bucket for p in context.units}
    return LegResult(
        checks,
        seen.lost.coverage(len(candidate.units)),
        (*found.faults(context.prompts, "broken"), *seen.lost.faults(context.prompts)),
        _caveats(measured, seen, single),
        _meaning(checks),
        _score_tables.tables(candidate, floors, bucket_of),
        _score_tables.series(
            candidate,
            measured.floor[:, kl],
            measured.candidate[:, kl],
            margin.limit if margin else None,
        ),
        _movers.of_figures(
            candidate,
            "kl",
            (measured.floor[:, kl], measured.candidate[:, kl]),
            context.prompts,
            lambda unit: _pairing(context, seen, unit),
        ),
    )


def _pairing(context: Context, seen: _Seen, unit: str) -> Pairing | None:
    reference = next((r for r in seen.references if r.unit == unit), None)
    rows = forced_along(context, Arm.CANDIDATE, reference) if reference else None
    return Pairing(unit, reference.rows, rows) if reference and isinstance(rows, Rows) else None


def _caveats(measured: Measured, seen: _Seen, single: bool) -> tuple[str, ...]:
    caveats = []
    if single:
        caveats.append("floor: single: the noise between launches is not known and not counted")
    elif seen.floors and len(seen.floors) < ENOUGH_LAUNCHES:
        caveats.append(
            f"a small floor: {counted(len(seen.floors), 'relaunch')} of the baseline "
            f"({ENOUGH_LAUNCHES} are better)"
        )
    note = floor_note(measured)
    if note:
        caveats.append(f"SD between the baseline's launches: {note}")
    floored = int(seen.candidate.compared.floored.sum())
    if floored:
        caveats.append(
            f"{counted(floored, 'position')} where the candidate left no mass outside its list: KL "
            "there is computed with that mass at the tolerance"
        )
    open_ends = sum(r.open_end for r in seen.references)
    if open_ends:
        caveats.append(
            f"the end token of {counted(open_ends, 'text')} is not known: whether the candidate "
            "would stop there is not judged"
        )
    if seen.lost.gaps:
        caveats.append(gaps_said(seen.lost))
    if seen.candidate.units:
        caveats.append(
            "KL and TV are lower bounds from the listed tokens: a change of order beyond the "
            "list is not seen"
        )
    return tuple(caveats)


def gaps_said(lost: Lost) -> str:
    """The prompts that the baseline's evidence lacks, in one sentence."""
    reasons = sorted(set(lost.gaps.values()))
    return (
        f"{len(lost.gaps)} prompts cannot be judged because the baseline itself could not be: "
        f"{names(tuple(lost.gaps))} ({names(reasons, 2)})"
    )


_FEW = 0.5  # share of prompts up to which broken ones are the exception


def _meaning(checks: tuple[Check, ...]) -> tuple[str, ...]:
    failing = [c for c in checks if c.judged and c.verdict is Verdict.FAIL]
    if not failing:
        return ()
    share = failing[0].candidate or 0.0
    if [c.metric for c in failing] == [BROKEN.metric] and share <= _FEW:
        return ("Most prompts score as before and a few are broken: look at what they share.",)
    return (
        "Given the same tokens, the candidate's next-token distribution is another one: the "
        "weights, their quantization or the attention kernels changed the model.",
    )
