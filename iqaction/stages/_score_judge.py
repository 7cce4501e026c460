"""The result of `score`: its legs put together, and what a capture says of the reference. Pure."""

from __future__ import annotations

from collections import Counter

import numpy as np

from iqaction.calls import Arm, Generation, Scored
from iqaction.observed import Observed
from iqaction.report import Check, Coverage, StageResult
from iqaction.stages import _live, _reference_leg, _self_leg
from iqaction.stages._base import Context
from iqaction.stages._forced import reference_of
from iqaction.stages._paths import FRESH, SCORE, TRAJECTORY, continuation, generation, scored
from iqaction.stages._reference_leg import LegResult
from iqaction.stages._self_leg import SelfLeg
from iqaction.stages._shares import names
from iqaction.verdict import Verdict, combine

_REPEAT_NATS = 0.25  # two scorings of one prompt, one at a time, agree within this
_DECODE_MODE = frozenset({"grammar", "stepwise"})


def judge(context: Context) -> StageResult:
    """The stage's result for the context's look."""
    baseline = context.baseline
    if baseline is None:
        return _capture(context)
    legs = context.spec.names("legs")
    live = bool(context.spec.text("reference"))
    first: LegResult | None = None
    own: SelfLeg | None = None
    if live:
        first = _live.judge(context, baseline)
    elif "reference" in legs:
        first = _reference_leg.judge(context, baseline)
    if "self" in legs:
        own = _self_leg.judge(context, baseline)
    checks = (*(first.checks if first else ()), *((own.check,) if own else ()))
    if baseline_fault := twice_differs(baseline, context):
        checks = tuple(_capped(c, baseline_fault) for c in checks)
    coverage = first.coverage if first else _self_coverage(own)
    judged = [c for c in checks if c.judged]
    verdict = Verdict.NOT_RUN if coverage.observed == 0 else combine(c.verdict for c in judged)
    open_ = [c for c in judged if c.verdict is Verdict.UNPROVEN]
    return StageResult(
        SCORE,
        verdict,
        checks,
        coverage,
        required=context.spec.required,
        faults=(*(first.faults if first else ()), *(own.faults if own else ())),
        caveats=(*(first.caveats if first else ()), *_caveats(context, baseline, legs)),
        meaning=_meaning(first, own),
        next_steps=_next_steps(first, own),
        tables=first.tables if first else (),
        series=first.series if first else (),
        look=context.look,
        more_would_help=verdict is Verdict.UNPROVEN and all(c.more_would_help for c in open_),
    )


def _capped(check: Check, reason: str) -> Check:
    if not check.judged or check.verdict is Verdict.UNPROVEN:
        return check
    return Check(
        check.metric,
        check.title,
        Verdict.UNPROVEN,
        f"{reason}; {check.reason}",
        check.estimate,
        check.limit,
        check.baseline,
        check.candidate,
    )


def _self_coverage(own: SelfLeg | None) -> Coverage:
    if own is None or own.check.estimate is None:
        return Coverage(0, 0)
    lost = [f for f in own.faults if f.kind in {"failed", "missing"}]
    n = own.check.estimate.n_units
    return Coverage(
        n,
        n - len(lost),
        tuple(f.unit for f in lost if f.kind == "failed"),
        tuple(f.unit for f in lost if f.kind == "missing"),
    )


def _capture(context: Context) -> StageResult:
    """What the reference says of itself: a faulty one is refused before anything rests on it."""
    seen = Observed(context.plan, context.prompts, context.seen, context.engines)
    units = context.units
    kept = context.observed(SCORE)
    unforced = [
        u.id for u in units if not isinstance(scored(kept, Arm.BASELINE, "self", u.id), Scored)
    ]
    ready = [u.id for u in units if not isinstance(reference_of(seen, u.id), str)]
    left_out = tuple(u.id for u in units if u.id not in set(ready))
    own = _self_leg.of_baseline(seen, units)
    fault = _self_leg.reference_is_broken(own) or twice_differs(seen, context)
    launches = sorted({t.launch for t in kept if t.arm is Arm.REPEAT})
    if fault:
        verdict, reason = Verdict.FAIL, f"this reference is refused: {fault}"
    else:
        verdict = Verdict.UNPROVEN
        reason = (
            f"{len(ready)} of {len(units)} prompts can be forced; {len(own)} checked against "
            f"their own decoding; {len(launches)} relaunches observed"
        )
    caveats = []
    if left_out:
        caveats.append(f"{len(left_out)} prompts cannot be forced: {names(left_out)}")
    if "self" in context.spec.names("legs") and unforced:
        caveats.append(f"{len(unforced)} prompts have no self leg: {names(unforced)}")
    return StageResult(
        SCORE,
        verdict if ready else Verdict.NOT_RUN,
        (Check("score.capture", "reference scores", verdict, reason),),
        Coverage(len(units), len(ready), left_out=left_out),
        required=context.spec.required,
        caveats=tuple(caveats),
        look=context.look,
    )


def twice_differs(baseline: Observed, context: Context) -> str:
    """Why the baseline's scoring cannot be trusted, or "": one prompt scored twice must agree."""
    kept = baseline.seen.get(SCORE, {})
    for tag, observation in kept.items():
        if (tag.arm, tag.leg, tag.attempt) != (Arm.BASELINE, "self", FRESH):
            continue
        first = scored(kept, Arm.BASELINE, "self", tag.unit)
        again = observation.answer
        if not isinstance(first, Scored) or not isinstance(again, Scored):
            continue
        n = min(len(first.rows), len(again.rows))
        ok = first.rows.usable[:n] & again.rows.usable[:n]
        change = np.abs(first.rows.logprob[:n] - again.rows.logprob[:n])[ok]
        if change.size and float(change.max()) > _REPEAT_NATS:
            at = int(np.flatnonzero(ok)[change.argmax()])
            return (
                f"the reference scored {tag.unit} twice and the two differ by "
                f"{change.max():.2f} nats at token {at}: its scoring does not repeat itself"
            )
    return ""


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
    compared = 0
    for tag, observation in context.observed(SCORE).items():
        if (tag.arm, tag.leg, tag.attempt) != (Arm.CANDIDATE, "reference", 0):
            continue
        answer = observation.answer
        before = generation(baseline.seen.get(TRAJECTORY, {}), Arm.BASELINE, tag.unit)
        if not isinstance(answer, Scored) or not isinstance(before, Generation):
            continue
        if before.rows is None or continuation(before) is None:
            continue
        n = min(len(before.rows), len(answer.rows))
        if not np.array_equal(before.rows.logprob[:n], answer.rows.logprob[:n], equal_nan=True):
            return False
        compared += 1
    return compared > 0


def _verdict_of(leg: LegResult | SelfLeg | None) -> Verdict | None:
    if leg is None:
        return None
    if isinstance(leg, SelfLeg):
        return leg.check.verdict
    return combine(c.verdict for c in leg.checks if c.judged)


def _meaning(first: LegResult | None, own: SelfLeg | None) -> tuple[str, ...]:
    said = list(first.meaning) if first else []
    if own is not None and own.hits:
        if _verdict_of(first) is Verdict.PASS:
            said.append(
                "Forced scoring agrees with the baseline and decoding does not: the fault is in "
                "the decode path."
            )
        said.append(own.meaning)
    return tuple(said)


def _next_steps(first: LegResult | None, own: SelfLeg | None) -> tuple[str, ...]:
    steps = []
    if own is not None and own.hits and _verdict_of(first) is not Verdict.FAIL:
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
