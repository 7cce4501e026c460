"""What `score` asks: forced rows of the reference's and of the candidate's own tokens.

Forcing runs one request at a time: prompt log-probabilities of several long prompts at once have
killed engines, and load is what the *decoded* side of the self leg is there to show.
"""

from __future__ import annotations

from collections.abc import Iterable

from iqaction.calls import Arm, Failure, FailureKind, Force, Generation, Tag
from iqaction.observed import Observed
from iqaction.stages import _reference_leg, _self_leg
from iqaction.stages._base import Asking, Context, Round
from iqaction.stages._forced import reference_of
from iqaction.stages._paths import FRESH, TRAJECTORY, continuation, generation, prompt_ids

TWICE = 3  # reference prompts that are scored twice, to see that scoring repeats itself


def capture(context: Context) -> Asking:
    """The reference's own self leg (launch 0), or its tokens through a relaunch (1..L)."""
    if context.launch:
        if not context.spec.text("reference"):  # live: a relaunch is compared by its own texts
            yield from _relaunch(context)
        return
    whole = "self" in context.spec.names("legs")
    calls, ends = [], []
    for prompt in context.units:
        call = _own(context, Arm.BASELINE, prompt.id)
        if call is None:
            continue
        calls.append(call)
        answer = generation(context.observed(TRAJECTORY), Arm.BASELINE, prompt.id)
        assert isinstance(answer, Generation)  # `_own` found its tokens
        if answer.rows is not None and len(call.continuation_ids) > len(answer.rows):
            ends.append(call)  # the only way to the row of an end token that chat left out
    if not whole:
        calls = list({c.tag: c for c in [*calls[:TWICE], *ends]}.values())
    yield from _forced(calls, "score: the reference's own tokens")
    again = [_retry(c, FRESH) for c in calls[:TWICE]]
    if again:
        yield Round(tuple(again), 1, "score: scored a second time")


def _relaunch(context: Context) -> Asking:
    """Launch 0's tokens through this relaunch."""
    kept = context.observed(TRAJECTORY)
    calls = []
    for prompt in context.units:
        answer = generation(kept, Arm.BASELINE, prompt.id)
        ids = prompt_ids(kept, Arm.BASELINE, prompt.id).ids
        path = continuation(answer) if isinstance(answer, Generation) else None
        if ids is None or path is None:
            continue
        assert isinstance(answer, Generation)
        tag = Tag(Arm.REPEAT, "reference", prompt.id, context.launch)
        calls.append(Force(tag, ids, path, answer.top_logprobs))
    yield from _forced(calls, f"score: reference tokens, relaunch {context.launch}")


def candidate(context: Context, baseline: Observed) -> Asking:
    """Both legs, each followed by its hits asked once more."""
    legs = context.spec.names("legs")
    if "reference" in legs and not context.spec.text("reference"):
        calls = []
        for prompt in context.units:
            call = _along(baseline, prompt.id)
            if call is not None:
                calls.append(call)
        yield from _forced(calls, "score: reference leg")
        hits = _reference_leg.judge(context, baseline).hits
        yield from _once_more(calls, hits, "score: broken prompts, asked once more")
    if "self" in legs:
        own = [_own(context, Arm.CANDIDATE, p.id) for p in context.units]
        calls = [c for c in own if c is not None]
        yield from _forced(calls, "score: self leg")
        hits = _self_leg.judge(context, baseline).hits
        yield from _once_more(calls, hits, "score: decode faults, asked once more")


def _along(baseline: Observed, unit: str) -> Force | None:
    reference = reference_of(baseline, unit)
    if isinstance(reference, str):
        return None
    answer = generation(baseline.seen[TRAJECTORY], Arm.BASELINE, unit)
    assert isinstance(answer, Generation)  # it has a reference
    tag = Tag(Arm.CANDIDATE, "reference", unit)
    return Force(tag, reference.prompt_ids, reference.continuation, answer.top_logprobs)


def _own(context: Context, arm: Arm, unit: str) -> Force | None:
    kept = context.observed(TRAJECTORY)
    answer = generation(kept, arm, unit, context.launch)
    ids = prompt_ids(kept, arm, unit, context.launch).ids
    if not isinstance(answer, Generation) or ids is None:
        return None
    path = continuation(answer)
    if path is None:
        return None
    return Force(Tag(arm, "self", unit, context.launch), ids, path, answer.top_logprobs)


def _forced(calls: Iterable[Force], label: str) -> Asking:
    """One at a time; what the engine failed on is asked once more at the end."""
    calls = tuple(calls)
    if not calls:
        return
    observations = yield Round(calls, 1, label)
    failed = [
        _retry(call, 1)
        for call, seen in zip(calls, observations, strict=True)
        if isinstance(seen.answer, Failure) and seen.answer.kind is not FailureKind.UNSUPPORTED
    ]
    if failed:
        yield Round(tuple(failed), 1, f"{label}, failed once")


def _once_more(calls: Iterable[Force], hits: tuple[str, ...], label: str) -> Asking:
    again = tuple(_retry(c, FRESH) for c in calls if c.tag.unit in set(hits))
    if again:
        yield Round(again, 1, label)


def _retry(call: Force, attempt: int) -> Force:
    tag = Tag(call.tag.arm, call.tag.leg, call.tag.unit, call.tag.launch, attempt)
    return Force(tag, call.prompt_ids, call.continuation_ids, call.top_logprobs)
