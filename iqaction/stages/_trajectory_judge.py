"""Judging `trajectory`: where two greedy texts part, and whether the parting matters.

Pure: observations in, a StageResult out. The rules are those of the project's statistics: a
first divergence is a *tie* where the reference itself was nearly undecided, a *shift* up to one
nat, and *real* beyond that; only real ones count against the candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from iqaction.calls import Arm, Failure, Generation, Scored, Tag
from iqaction.observed import Observed
from iqaction.prompts import Prompt
from iqaction.report import Check, Coverage, Divergence, StageResult, UnitFault
from iqaction.rows import Rows
from iqaction.stages import _guard, _template
from iqaction.stages._base import Context
from iqaction.stages._checks import lacks_only_prompts, verdict_of
from iqaction.stages._divergence import REAL_NATS, TIE_NATS, by_weight, find, top_two_change
from iqaction.stages._levels import WORST_SHARE, alpha
from iqaction.stages._lost import NEVER, Lost
from iqaction.stages._paths import (
    FRESH,
    NO_TEXT,
    SCORE,
    TRAJECTORY,
    best,
    generation,
    own,
    scored,
    with_end,
)
from iqaction.stages._shares import at_least, at_most, estimate, names
from iqaction.stages._shares import power as share_power
from iqaction.stats.proportions import (
    mcnemar_exact,
)
from iqaction.verdict import Verdict

_GUARD_P = 0.01  # and only twice: the second time on fresh texts


@dataclass(frozen=True)
class _Pair:
    """One prompt answered by both arms."""

    prompt: Prompt
    baseline: Generation
    candidate: Generation


def judge(context: Context) -> StageResult:
    """The stage's result for the context's look; see the module's docstring for the rules."""
    if context.baseline is None:
        return _capture(context)
    pairs, lost = _pairs(context, context.baseline)
    rows = {p.prompt.id: _reference_rows(context.baseline, p.prompt.id, p.baseline) for p in pairs}
    floor = _floor_change(context.baseline, rows)
    tie_limit = TIE_NATS if floor is None else min(REAL_NATS, max(TIE_NATS, 1.5 * floor))
    divergences = _divergences(pairs, rows, tie_limit)
    template, differing = _template.check(context, context.baseline, [p.prompt for p in pairs])
    fresh, _ = _pairs(context, context.baseline, fresh=True)
    checks = (
        _divergence_check(context, lost, divergences),
        template,
        _guard_check(pairs, fresh),
    )
    return StageResult(
        TRAJECTORY,
        verdict_of(checks) if pairs else Verdict.NOT_RUN,
        checks,
        lost.coverage(len(pairs)),
        required=context.spec.required,
        divergences=tuple(divergences),
        faults=(*lost.faults(context.prompts), *differing),
        caveats=_caveats(pairs, floor, tie_limit),
        look=context.look,
        more_would_help=bool(pairs) and lacks_only_prompts(checks),
    )


def guard_is_raised(context: Context) -> bool:
    """True where a degeneration sign differs from the baseline's at p < .01 (first texts)."""
    if context.baseline is None:
        return False
    pairs, _ = _pairs(context, context.baseline)
    return any(p < _GUARD_P for _, p, _ in _guard_counts(pairs))


def _capture(context: Context) -> StageResult:
    kept = context.observed(TRAJECTORY)
    answers = {u.id: generation(kept, Arm.BASELINE, u.id) for u in context.units}
    good = [u for u, a in answers.items() if isinstance(a, Generation)]
    failed = tuple(u for u, a in answers.items() if isinstance(a, Failure))
    missing = tuple(u for u, a in answers.items() if a is None)
    looping = [u for u in good if _guard.loops(_text(answers[u]))]
    reason = f"{len(good)} reference texts kept; there is no baseline to compare them with"
    check = Check("trajectory.capture", "reference texts", Verdict.UNPROVEN, reason, judged=True)
    caveats = []
    if looping:
        caveats.append(
            f"{len(looping)} of {len(good)} reference texts end in a loop: {names(looping)}"
        )
    return StageResult(
        TRAJECTORY,
        Verdict.UNPROVEN if good else Verdict.NOT_RUN,
        (check,),
        Coverage(len(answers), len(good), failed, missing),
        required=context.spec.required,
        faults=tuple(
            UnitFault(u, context.prompts[u].bucket, "failed", a.message)
            for u, a in answers.items()
            if isinstance(a, Failure)
        ),
        caveats=tuple(caveats),
        look=context.look,
    )


def _text(answer: Generation | Failure | None) -> str:
    return answer.reasoning + answer.text if isinstance(answer, Generation) else ""


def without_text(baseline: Observed, units: Iterable[str]) -> dict[str, str]:
    """The prompts that the baseline has no text for, with the reason; an empty text is none."""
    kept = baseline.seen.get(TRAJECTORY, {})
    texts = {u: generation(kept, Arm.BASELINE, u) for u in units}
    return {u: f"baseline: {NO_TEXT}" for u, text in texts.items() if not _text(text)}


def _pairs(
    context: Context, baseline: Observed, *, fresh: bool = False
) -> tuple[list[_Pair], Lost]:
    kept, theirs = context.observed(TRAJECTORY), baseline.seen.get(TRAJECTORY, {})
    pairs: list[_Pair] = []
    failed: dict[str, str] = {}
    missing: dict[str, str] = {}
    gaps = without_text(baseline, (p.id for p in context.units))
    for prompt in context.units:
        before = generation(theirs, Arm.BASELINE, prompt.id)
        if prompt.id in gaps or not isinstance(before, Generation):
            continue
        if fresh:
            now = best(kept, Tag(Arm.CANDIDATE, TRAJECTORY, prompt.id), (FRESH,))
        else:
            now = generation(kept, Arm.CANDIDATE, prompt.id)
        if isinstance(now, Generation):
            pairs.append(_Pair(prompt, before, now))
        elif isinstance(now, Failure):
            failed[prompt.id] = now.message
        else:
            missing[prompt.id] = NEVER
    return pairs, Lost(failed, missing, gaps)


def _reference_rows(baseline: Observed, unit: str, answer: Generation) -> Rows | None:
    """The reference's rows along its own path, the end token's row included where one is known."""
    text = own(baseline.seen.get(TRAJECTORY, {}), Arm.BASELINE, unit)
    if isinstance(text, str):
        return answer.rows
    kept = baseline.seen.get(SCORE, {})
    return with_end(
        text,
        [
            scored(kept, Arm.BASELINE, "self", unit),
            *(scored(kept, Arm.REPEAT, "reference", unit, n) for n in baseline.launches),
        ],
    )


def _divergences(
    pairs: list[_Pair], rows: dict[str, Rows | None], tie_limit: float
) -> list[Divergence]:
    found = (find(p.prompt, p.baseline, p.candidate, rows[p.prompt.id], tie_limit) for p in pairs)
    return sorted((d for d in found if d is not None), key=by_weight)


def _floor_change(baseline: Observed, rows: dict[str, Rows | None]) -> float | None:
    kept = baseline.seen.get(SCORE, {})
    changes = []
    for unit, first in rows.items():
        if first is None:
            continue
        again = [scored(kept, Arm.REPEAT, "reference", unit, n) for n in baseline.launches]
        change = top_two_change(first, [s for s in again if isinstance(s, Scored)])
        if change is not None:
            changes.append(change)
    return max(changes, default=None)


def _divergence_check(context: Context, lost: Lost, divergences: list[Divergence]) -> Check:
    n, kinds = len(context.units), Counter(d.kind for d in divergences)
    real, open_ = kinds["real"], kinds["unknown"] + len(lost.failed)
    confidence = 1 - alpha(context.plan, 0.05)
    high = at_most(real + open_, n, confidence)
    low = at_least(real, n, 1 - alpha(context.plan))
    said = _real_said(real, n, kinds["unknown"], len(lost.failed))
    within = f"at most {high.value:.1%} with {confidence:.1%} confidence"
    power, more = "", False
    if low.value > WORST_SHARE:
        verdict = Verdict.FAIL
        reason = f"{said}: at least {low.value:.1%}, and {WORST_SHARE:.0%} are allowed"
    elif lost.unknown:
        verdict = Verdict.UNPROVEN
        reason = f"{len(lost.unknown)} of {n} prompts cannot be compared; {said}"
    elif n and high.value <= WORST_SHARE:
        verdict, reason = Verdict.PASS, f"{said}: {within}"
    else:
        verdict, reason = Verdict.UNPROVEN, f"{said}: {within}, and {WORST_SHARE:.0%} are allowed"
        if open_:
            power = "answers are missing or cannot be weighed: more prompts will not decide it"
        else:
            power, more = share_power(real, n, confidence)
    bound = low if verdict is Verdict.FAIL else high
    share = estimate("trajectory.real", real, n, bound)
    return Check(
        "trajectory.real",
        "greedy texts: real divergences",
        verdict,
        reason,
        share,
        WORST_SHARE,
        baseline=0.0 if n else None,
        candidate=share.value,
        power=power,
        more_would_help=more,
    )


def _real_said(real: int, n: int, unknown: int, failed: int) -> str:
    said = f"{real} of {n} texts really diverge"
    if unknown:
        said += f", {unknown} differ in a way that cannot be weighed"
    if failed:
        said += f", {failed} have no answer (counted as diverging)"
    return said


def _guard_counts(pairs: list[_Pair]) -> list[tuple[str, float, str]]:
    """By sign of degeneration: name, McNemar's exact p where the candidate is worse, figures."""
    counts: dict[str, list[int]] = {
        "ends in a loop": [0, 0],
        "cut off at the token limit": [0, 0],
        "less than half as long": [0, 0],
        "uses another script": [0, 0],
    }
    for pair in pairs:
        a, b = _text(pair.baseline), _text(pair.candidate)
        before, now = _guard.scripts(a), _guard.scripts(b)
        signs = [
            (_guard.loops(b), _guard.loops(a)),
            (pair.candidate.finish_reason == "length", pair.baseline.finish_reason == "length"),
            (_guard.much_shorter(b, a), _guard.much_shorter(a, b)),
            # One script for another is the candidate's sign alone: as both arms' it would vanish.
            (bool(now - before), bool(before - now) and now <= before),
        ]
        for count, (candidate, baseline) in zip(counts.values(), signs, strict=True):
            count[0] += candidate and not baseline
            count[1] += baseline and not candidate
    return [
        (name, mcnemar_exact(only, other) if only > other else 1.0, f"{only} more, {other} fewer")
        for name, (only, other) in counts.items()
    ]


def _guard_check(pairs: list[_Pair], fresh: list[_Pair]) -> Check:
    first = {name: (p, said) for name, p, said in _guard_counts(pairs)}
    second = {name: p for name, p, _ in _guard_counts(fresh)}
    raised = [n for n, (p, _) in first.items() if p < _GUARD_P]
    twice = [n for n in raised if len(fresh) == len(pairs) and second[n] < _GUARD_P]
    title = "greedy texts: degeneration guard"
    if not pairs:
        return Check("trajectory.guard", title, Verdict.UNPROVEN, "no pair of texts to compare")
    if twice:
        said = "; ".join(f"{n}: {first[n][1]} than the baseline" for n in twice)
        reason = f"{said}, in {len(pairs)} prompts, and again on fresh requests"
        return Check("trajectory.guard", title, Verdict.FAIL, reason)
    if raised:
        said = "; ".join(f"{n}: {first[n][1]} than the baseline" for n in raised)
        again = "not again on fresh requests" if fresh else "not asked a second time"
        return Check("trajectory.guard", title, Verdict.UNPROVEN, f"{said}; {again}")
    reason = f"no more loops, cut-offs, short texts or other scripts in {len(pairs)} prompts"
    return Check("trajectory.guard", title, Verdict.PASS, reason)


def _caveats(pairs: list[_Pair], floor: float | None, tie_limit: float) -> tuple[str, ...]:
    caveats = []
    if floor is None:
        caveats.append(f"no A/A floor for ties: gaps up to {tie_limit} nats count as ties")
    if any(p.candidate.rows is None for p in pairs):
        caveats.append(
            "the candidate gives no log-probabilities: texts are compared as text, and neither "
            "the weight of a divergence nor the self leg can be computed"
        )
    flags = Counter(f for p in pairs for f in p.candidate.flags)
    caveats += [f"{n} of {len(pairs)} answers: {flag}" for flag, n in flags.most_common(5)]
    return tuple(caveats)
