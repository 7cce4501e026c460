"""Judging `sampling`: from observations to the stage's result. Pure.

The candidate's sampler is compared with its own log-probabilities, not with the baseline's draws.
The baseline's, where there are any, show whether a fault is the change's or was there before.
"""

from __future__ import annotations

from iqaction.calls import Arm
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.report import Check, Coverage, StageResult, UnitFault
from iqaction.stages import _sampling_report as report
from iqaction.stages._base import Context
from iqaction.stages._checks import unproven, verdict_of
from iqaction.stages._sampling_alike import alike
from iqaction.stages._sampling_ask import SAMPLING, asked_prompts
from iqaction.stages._sampling_decision import METRICS, Decision, passes
from iqaction.stages._sampling_evidence import Reading, Set, read
from iqaction.verdict import Verdict

_SETTINGS = ("temperature", "top_k", "top_p", "min_p")


def settles(context: Context) -> bool:
    """True where fresh draws would change nothing: a PASS, or nothing that draws could mend."""
    reading = _reading(context)
    decision, first = Decision(reading), reading.first
    if reading.unsound or not first.is_there:
        return True
    if first.flagged:
        return False
    return bool(decision.lacking) or passes(first)


def _reading(context: Context) -> Reading:
    seen = Observed(context.plan, context.prompts, context.seen, context.engines)
    return read(seen, context.arm, context.spec)


def judge(context: Context) -> StageResult:
    """The stage's result; see the module's docstring for the rules."""
    mine = Decision(_reading(context))
    theirs = _baselines(context, context.baseline) if context.baseline is not None else None
    checks = [_lists(mine), *(report.check(context.spec, mine, m, theirs) for m in METRICS)]
    if theirs is not None:
        # Two engines that are wrong alike, or one wrong belief about both: not this change's doing.
        same = [False, *(_fail_alike(m, mine, theirs) for m in METRICS)]
        checks = [unproven(c, report.ALIKE) if s else c for c, s in zip(checks, same, strict=True)]
    if context.plan.is_capture:
        checks = report.capture(mine, checks)
    first = mine.reading.first
    units = asked_prompts(context.spec, context.plan)
    return StageResult(
        SAMPLING,
        verdict_of(checks) if first.is_there else Verdict.NOT_RUN,
        tuple(checks),
        _coverage(units, first),
        required=context.spec.required,
        faults=_faults(context, first),
        caveats=report.caveats(context, mine, theirs),
        meaning=report.meaning(mine, theirs, checks),
        next_steps=report.next_steps(mine, checks),
        tables=report.tables(context.spec, mine, theirs),
        look=context.look,
    )


def _fail_alike(metric: str, mine: Decision, theirs: Decision) -> bool:
    fail = mine.verdict(metric) is Verdict.FAIL and theirs.verdict(metric) is Verdict.FAIL
    return fail and alike(metric, mine.reading.first.sums, theirs.reading.first.sums)


def _lists(mine: Decision) -> Check:
    why = mine.reading.unsound
    if why or not mine.reading.first.is_there:
        reason = why or "no draw was answered"
        return Check("sampling.lists", report.LISTS, Verdict.UNPROVEN, reason)
    reason = "the same position has the same list at two temperatures: it is what the model says"
    return Check("sampling.lists", report.LISTS, Verdict.PASS, reason)


def _baselines(context: Context, baseline: Observed) -> Decision | None:
    """What the baseline's own draws say of its sampler, where it has draws at these settings."""
    spec = baseline.plan.stage(SAMPLING)
    if spec is None or not baseline.seen.get(SAMPLING) or not _same(spec, context.spec):
        return None
    found = Decision(read(baseline, Arm.BASELINE, spec))
    return found if found.reading.first.is_there and not found.reading.unsound else None


def _same(one: StageSpec, other: StageSpec) -> bool:
    return all(one.params.get(name) == other.params.get(name) for name in _SETTINGS)


def _coverage(units: tuple[str, ...], first: Set) -> Coverage:
    lost = {*first.failed, *first.missing, *first.short, *first.positions.excluded}
    missing = tuple(u for u in units if u in lost and u not in first.failed)
    return Coverage(len(units), len(units) - len(lost), tuple(first.failed), missing)


def _faults(context: Context, first: Set) -> tuple[UnitFault, ...]:
    named = [(u, "failed", why) for u, why in first.failed.items()]
    named += [(u, "missing", why) for u, why in first.missing.items()]
    named += [(u, "unusable", "the engine gave up sequences") for u in first.short]
    named += [(u, "unusable", report.LOST) for u in first.positions.excluded]
    buckets = {u: p.bucket for u, p in context.prompts.items()}
    return tuple(UnitFault(u, buckets.get(u, "default"), kind, why) for u, kind, why in named)
