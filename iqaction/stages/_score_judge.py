"""The result of `score`: its legs put together, and what a capture says of the reference. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from iqaction.calls import Arm, Generation, Scored
from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.report import Check, Coverage, StageResult
from iqaction.stages import _live, _reference_leg, _repeatable, _self_leg, _template
from iqaction.stages._base import Context
from iqaction.stages._checks import lacks_only_prompts, unproven, verdict_of
from iqaction.stages._levels import is_floorless
from iqaction.stages._paths import NO_TEXT, SCORE, TRAJECTORY, Kept, generation, scored
from iqaction.stages._reference_leg import LegResult
from iqaction.stages._required import evidence_lost, references
from iqaction.stages._self_leg import SelfLeg
from iqaction.stages._shares import names
from iqaction.verdict import Verdict

_DECODE_MODE = frozenset({"grammar", "stepwise"})


def judge(context: Context) -> StageResult:
    """The stage's result for the context's look."""
    baseline = context.baseline
    if baseline is None:
        return _capture(context)
    legs = context.spec.names("legs")
    first: LegResult | None = None
    own: SelfLeg | None = None
    if context.spec.text("reference"):
        first = _live.judge(context, baseline)
    elif "reference" in legs:
        first = _reference_leg.judge(context, baseline)
    if "self" in legs:
        own = _self_leg.judge(context, baseline)
    checks = (*(first.checks if first else ()), *((own.check,) if own else ()))
    if doubt := _doubt(context, baseline):
        checks = tuple(unproven(c, doubt) for c in checks)
    template, _ = _template.check(context, baseline, list(context.units))
    if template.verdict is not Verdict.PASS:
        # Forced rows bypass the template: they PASS although the model is asked something else.
        checks = tuple(
            unproven(c, template.reason) if c.verdict is Verdict.PASS else c for c in checks
        )
    found = [x for x in (first, own) if x is not None]
    observed = any(x.coverage.observed for x in found)
    return StageResult(
        SCORE,
        verdict_of(checks) if observed else Verdict.NOT_RUN,
        checks,
        found[0].coverage if found else Coverage(0, 0),
        required=context.spec.required,
        faults=tuple(f for x in found for f in x.faults),
        caveats=(
            *(c for x in found for c in x.caveats),
            *_caveats(context, baseline, legs),
        ),
        meaning=_meaning(first, own),
        next_steps=(*_restart(context, baseline), *_next_steps(first, own)),
        tables=first.tables if first else (),
        series=first.series if first else (),
        look=context.look,
        more_would_help=observed and lacks_only_prompts(checks),
        movers=first.movers if first else (),
    )


def _doubt(context: Context, baseline: Observed) -> str:
    """Why nothing can be concluded from this baseline at all, or ""."""
    broken = _self_leg.reference_is_broken(_self_leg.of_baseline(baseline, context.units))
    return broken or _repeatable.differs(baseline) or _repeatable.unchecked(baseline)


def _capture(context: Context) -> StageResult:
    """What the reference says of itself: a faulty one is refused before anything rests on it."""
    seen = Observed(context.plan, context.prompts, context.seen, context.engines)
    units = context.units
    ready, gaps = _comparable(context, seen)
    own = _self_leg.of_baseline(seen, units)
    fault = _self_leg.reference_is_broken(own) or _repeatable.differs(seen)
    launches = {t.launch for t in context.observed(SCORE) if t.arm is Arm.REPEAT}
    if fault:
        verdict, reason = Verdict.FAIL, f"this reference is refused: {fault}"
    else:
        verdict = Verdict.UNPROVEN
        reason = (
            f"{len(ready)} of {len(units)} prompts can be compared with; {len(own)} checked "
            f"against their own decoding; {counted(len(launches), 'relaunch')} observed"
        )
    live = bool(context.spec.text("reference"))
    lost = {} if live else {u: why for u, why in gaps.items() if evidence_lost(seen, u)}
    left_out = {u: why for u, why in gaps.items() if u not in lost}
    caveats = [
        *_unit_caveat(left_out, "will be left out of comparisons"),
        *_unit_caveat(lost if ready else {}, "without evidence: no comparison will PASS"),
    ]
    if unchecked := _repeatable.unchecked(seen):
        caveats.append(unchecked)
    return StageResult(
        SCORE,
        verdict if ready else Verdict.NOT_RUN,
        (Check("score.capture", "reference scores", verdict, reason),),
        Coverage(len(units), len(ready), missing=tuple(lost), left_out=tuple(left_out)),
        required=context.spec.required,
        caveats=tuple(caveats),
        look=context.look,
    )


def _unit_caveat(units: Mapping[str, str], what: str) -> tuple[str, ...]:
    if not units:
        return ()
    reasons = names(sorted(set(units.values())), 2)
    return (f"{counted(len(units), 'prompt')} {what}: {names(tuple(units))} ({reasons})",)


def _comparable(context: Context, seen: Observed) -> tuple[tuple[str, ...], dict[str, str]]:
    """The prompts that a candidate can be compared on, and the others with the reason."""
    units = [u.id for u in context.units]
    if not context.spec.text("reference"):
        found, gaps = references(seen, units)
        return tuple(r.unit for r in found), gaps
    kept = context.observed(TRAJECTORY)
    texts = {u: generation(kept, Arm.BASELINE, u) for u in units}  # all that a live one takes
    gaps = {u: NO_TEXT for u, t in texts.items() if not isinstance(t, Generation)}
    return tuple(u for u in units if u not in gaps), gaps


def _caveats(context: Context, baseline: Observed, legs: tuple[str, ...]) -> tuple[str, ...]:
    caveats = []
    if "self" not in legs:
        caveats.append("decoding under load not covered: the plan leaves the self leg out")
    if "reference" not in legs and not context.spec.text("reference"):
        caveats.append("the reference leg is left out: changed weights are not covered")
    methods = Counter(
        o.answer.method
        for o in context.observed(SCORE).values()
        if isinstance(o.answer, Scored) and o.tag.arm is Arm.CANDIDATE
    )
    if set(methods) & _DECODE_MODE:
        caveats.append(
            "this engine forces in decode mode: its prefill kernels are not covered by forcing"
        )
    if _same_to_the_bit(context, baseline):
        caveats.append(
            "every forced value is identical to the last bit although the engines call "
            "themselves different: check that the new engine really answered"
        )
    return tuple(caveats)


def _same_to_the_bit(context: Context, baseline: Observed) -> bool:
    """True where different versions gave identical numbers everywhere."""
    ours = context.engines.get((Arm.CANDIDATE, 0))
    theirs = baseline.engines.get((Arm.BASELINE, 0))
    if ours is None or theirs is None:
        return False
    if (ours.dialect, ours.version) == (theirs.dialect, theirs.version):
        return False
    kept, before = context.observed(SCORE), baseline.seen.get(SCORE, {})
    pairs = [
        (now, _forced_before(before, baseline.launches, unit))
        for unit in (p.id for p in context.units)
        if isinstance(now := scored(kept, Arm.CANDIDATE, "reference", unit), Scored)
    ]
    compared = [(a.rows.logprob, b.rows.logprob) for a, b in pairs if b is not None]
    return bool(compared) and all(np.array_equal(a, b, equal_nan=True) for a, b in compared)


def _forced_before(kept: Kept, launches: tuple[int, ...], unit: str) -> Scored | None:
    """The same tokens forced through the baseline: by itself, else by its first relaunch."""
    found = (
        scored(kept, Arm.BASELINE, "self", unit),
        *(scored(kept, Arm.REPEAT, "reference", unit, n) for n in launches[:1]),
    )
    return next((x for x in found if isinstance(x, Scored)), None)


def _verdict_of(leg: LegResult | None) -> Verdict | None:
    return None if leg is None else verdict_of(leg.checks)


def _meaning(first: LegResult | None, own: SelfLeg | None) -> tuple[str, ...]:
    said = list(first.meaning) if first else []
    if own is not None and own.meaning:
        if _verdict_of(first) is Verdict.PASS and not own.in_scoring:
            said.append(
                "Forced scoring agrees with the baseline and decoding does not: the fault is in "
                "the decode path."
            )
        said.append(own.meaning)
    return tuple(said)


def _restart(context: Context, baseline: Observed) -> tuple[str, ...]:
    """What to do about launches that none of the checks can PASS against."""
    if not baseline.not_restarted or is_floorless(context.spec):
        return ()
    return (
        "capture the baseline with `--relaunch-command`, or set `floor: single` at `score` in the "
        "plan: against launches without a restart it cannot PASS",
    )


def _next_steps(first: LegResult | None, own: SelfLeg | None) -> tuple[str, ...]:
    steps = []
    if own is not None and own.meaning and own.in_scoring:
        steps.append(
            "run once without chunked prefill, prefix caching, speculative decoding and LoRA: each "
            "is known to spoil the log-probabilities of prompts"
        )
    elif own is not None and own.meaning and _verdict_of(first) is not Verdict.FAIL:
        steps.append(
            "run once without the KV-cache, speculative-decoding or CUDA-graph setting that "
            "changed, and at concurrency 1, to see which of them it is"
        )
    if _verdict_of(first) is Verdict.FAIL:
        steps.append(
            "undo the quantization, kernel or version change alone and run again; if it is "
            "wanted, accept it by capturing a new baseline"
        )
    return tuple(steps)
