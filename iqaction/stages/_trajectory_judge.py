"""Judging `trajectory`: where two greedy texts part, and whether the parting matters.

Pure: observations in, a StageResult out. The rules are those of the project's statistics: a
first divergence is a *tie* where the reference itself was nearly undecided, a *shift* up to one
nat, and *real* beyond that; only real ones count against the candidate.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from iqaction.calls import Arm, Failure, Generation, Scored, Tag
from iqaction.observed import Observed
from iqaction.prompts import Prompt
from iqaction.report import Check, Coverage, Divergence, StageResult, UnitFault
from iqaction.rows import Rows
from iqaction.stages import _guard
from iqaction.stages._base import Context
from iqaction.stages._divergence import REAL_NATS, TIE_NATS, by_weight, find, top_two_change
from iqaction.stages._levels import WORST_SHARE, alpha
from iqaction.stages._paths import (
    FRESH,
    SCORE,
    TRAJECTORY,
    PromptIds,
    best,
    first_difference,
    generation,
    prompt_ids,
    scored,
    with_end,
)
from iqaction.stages._shares import estimate, names
from iqaction.stages._shares import power as share_power
from iqaction.stats.proportions import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    mcnemar_exact,
)
from iqaction.verdict import Verdict, combine

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
    pairs, faults, coverage = _pairs(context, context.baseline)
    rows = {p.prompt.id: _reference_rows(context.baseline, p.prompt.id, p.baseline) for p in pairs}
    floor = _floor_change(context.baseline, rows)
    tie_limit = TIE_NATS if floor is None else min(REAL_NATS, max(TIE_NATS, 1.5 * floor))
    divergences = _divergences(context.baseline, pairs, rows, tie_limit)
    template, differing = _template_check(context, context.baseline, pairs)
    fresh, _, _ = _pairs(context, context.baseline, attempts=(FRESH,))
    checks = [
        _divergence_check(context, coverage, divergences),
        template,
        _guard_check(context, pairs, fresh),
    ]
    if coverage.observed == 0:
        verdict = Verdict.NOT_RUN
    else:
        verdict = combine(c.verdict for c in checks if c.judged)
    more = verdict is Verdict.UNPROVEN and all(
        c.more_would_help for c in checks if c.judged and c.verdict is Verdict.UNPROVEN
    )
    return StageResult(
        TRAJECTORY,
        verdict,
        tuple(checks),
        coverage,
        required=context.spec.required,
        divergences=tuple(divergences),
        faults=(*faults, *differing),
        caveats=_caveats(context, pairs, floor, tie_limit),
        look=context.look,
        more_would_help=more,
    )


def guard_is_raised(context: Context) -> bool:
    """True where a degeneration sign differs from the baseline's at p < .01 (first texts)."""
    if context.baseline is None:
        return False
    pairs, _, _ = _pairs(context, context.baseline)
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


def _pairs(
    context: Context, baseline: Observed, attempts: tuple[int, ...] = (0, 1)
) -> tuple[list[_Pair], list[UnitFault], Coverage]:
    kept, theirs = context.observed(TRAJECTORY), baseline.seen.get(TRAJECTORY, {})
    pairs, faults = [], []
    failed, missing, left_out = [], [], []
    required = 0
    for prompt in context.units:
        before = generation(theirs, Arm.BASELINE, prompt.id)
        if not isinstance(before, Generation) or not _text(before):
            left_out.append(prompt.id)
            continue
        required += 1
        now = best(kept, Tag(Arm.CANDIDATE, TRAJECTORY, prompt.id), attempts)
        if isinstance(now, Generation):
            pairs.append(_Pair(prompt, before, now))
        elif isinstance(now, Failure):
            failed.append(prompt.id)
            faults.append(UnitFault(prompt.id, prompt.bucket, "failed", now.message))
        else:
            missing.append(prompt.id)
            faults.append(UnitFault(prompt.id, prompt.bucket, "missing", "never answered"))
    coverage = Coverage(required, len(pairs), tuple(failed), tuple(missing), tuple(left_out))
    return pairs, faults, coverage


def _reference_rows(baseline: Observed, unit: str, answer: Generation) -> Rows | None:
    """The reference's rows along its own path, the end token's row included where one is known."""
    kept = baseline.seen.get(SCORE, {})
    return with_end(
        answer,
        [
            scored(kept, Arm.BASELINE, "self", unit),
            *(scored(kept, Arm.REPEAT, "reference", unit, n) for n in baseline.launches),
        ],
    )


def _divergences(
    baseline: Observed, pairs: list[_Pair], rows: dict[str, Rows | None], tie_limit: float
) -> list[Divergence]:
    found = (find(p.prompt, p.baseline, p.candidate, rows[p.prompt.id], tie_limit) for p in pairs)
    return sorted((d for d in found if d is not None), key=by_weight)


def _floor_change(baseline: Observed, rows: dict[str, Rows | None]) -> float | None:
    kept = baseline.seen.get(SCORE, {})
    changes = []
    for unit, own in rows.items():
        if own is None:
            continue
        again = [scored(kept, Arm.REPEAT, "reference", unit, n) for n in baseline.launches]
        change = top_two_change(own, [s for s in again if isinstance(s, Scored)])
        if change is not None:
            changes.append(change)
    return max(changes, default=None)


def _divergence_check(context: Context, coverage: Coverage, divergences: list[Divergence]) -> Check:
    n, kinds = coverage.required, Counter(d.kind for d in divergences)
    real, unknown = kinds["real"], kinds["unknown"]
    lost = len(coverage.failed)
    confidence = 1 - alpha(context.plan, 0.05)
    upper = clopper_pearson_upper(real + unknown + lost, n, confidence)
    lower = clopper_pearson_lower(real, n, 1 - alpha(context.plan))
    said = f"{real} of {n} texts really diverge"
    if unknown:
        said += f", {unknown} differ in a way that cannot be weighed"
    if lost:
        said += f", {lost} have no answer (counted as diverging)"
    bound = f"at most {upper:.1%} with {confidence:.1%} confidence"
    power, more = "", False
    if coverage.missing:
        verdict = Verdict.UNPROVEN
        reason = f"{len(coverage.missing)} of {n} prompts were never answered; {said}"
    elif n and upper <= WORST_SHARE:
        verdict, reason = Verdict.PASS, f"{said}: {bound}"
    elif lower > WORST_SHARE:
        verdict = Verdict.FAIL
        reason = f"{said}: at least {lower:.1%}, and {WORST_SHARE:.0%} are allowed"
    else:
        verdict, reason = Verdict.UNPROVEN, f"{said}: {bound}, and {WORST_SHARE:.0%} are allowed"
        if unknown or lost:
            power = "answers are missing or cannot be weighed: more prompts will not decide it"
        else:
            power, more = share_power(real, n, confidence)
    share = estimate("trajectory.real", real, n)
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


def _template_check(
    context: Context, baseline: Observed, pairs: list[_Pair]
) -> tuple[Check, list[UnitFault]]:
    """Forced requests bypass the chat template, so the ids of our own chats must be the same."""
    kept, theirs = context.observed(TRAJECTORY), baseline.seen.get(TRAJECTORY, {})
    differing, untold = [], []
    for pair in pairs:
        unit = pair.prompt.id
        a, b = prompt_ids(theirs, Arm.BASELINE, unit), prompt_ids(kept, Arm.CANDIDATE, unit)
        said = _template_difference(a, b)
        if said is None:
            untold.append(unit)
        elif said:
            differing.append(UnitFault(unit, pair.prompt.bucket, "template", said))
    if differing:
        verdict = Verdict.UNPROVEN
        reason = (
            f"{len(differing)} of {len(pairs)} prompts reach the model as other tokens than in "
            f"the baseline ({differing[0].unit}: {differing[0].detail}): another chat template, "
            "system prompt or tokenizer, so that the outputs answer other questions"
        )
    elif untold or not pairs:
        verdict = Verdict.UNPROVEN
        reason = (
            f"{len(untold)} of {len(pairs)} prompts: neither prompt token ids nor counts of both "
            "arms are known, so that a changed chat template would not be seen"
        )
    else:
        verdict, reason = Verdict.PASS, f"all {len(pairs)} prompts reach the model as before"
    return Check("trajectory.template", "chat template", verdict, reason), differing


def _template_difference(a: PromptIds, b: PromptIds) -> str | None:
    """What differs in plain words; "" where nothing; None where nothing could be compared."""
    compared = False
    if a.count is not None and b.count is not None:
        compared = True
        if a.count != b.count:
            return f"{a.count} prompt tokens before, {b.count} now"
    if a.ids is not None and b.ids is not None:
        compared = True
        at = first_difference(a.ids, b.ids)
        if at is not None:
            return f"prompt token {at} differs ({len(a.ids)} ids before, {len(b.ids)} now)"
    return "" if compared else None


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
        signs = [
            (_guard.loops(b), _guard.loops(a)),
            (pair.candidate.finish_reason == "length", pair.baseline.finish_reason == "length"),
            (_guard.much_shorter(b, a), _guard.much_shorter(a, b)),
            (
                bool(_guard.scripts(b) - _guard.scripts(a)),
                bool(_guard.scripts(a) - _guard.scripts(b)),
            ),
        ]
        for count, (candidate, baseline) in zip(counts.values(), signs, strict=True):
            count[0] += candidate and not baseline
            count[1] += baseline and not candidate
    return [
        (name, mcnemar_exact(only, other) if only > other else 1.0, f"{only} more, {other} fewer")
        for name, (only, other) in counts.items()
    ]


def _guard_check(context: Context, pairs: list[_Pair], fresh: list[_Pair]) -> Check:
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


def _caveats(
    context: Context, pairs: list[_Pair], floor: float | None, tie_limit: float
) -> tuple[str, ...]:
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
