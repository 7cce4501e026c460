"""What `score` asks: forced rows of the reference's and of the candidate's own tokens."""

from __future__ import annotations

from dataclasses import replace

from iqaction.calls import Arm, Force, Tag
from iqaction.observed import Observed
from iqaction.stages import _reference_leg, _self_leg
from iqaction.stages._base import Asking, Context, Round
from iqaction.stages._forcing import attempt, forced, once_more
from iqaction.stages._paths import FRESH, TRAJECTORY, Own, own
from iqaction.stages._repeatable import twice_scored
from iqaction.stages._required import references


def capture(context: Context) -> Asking:
    """The reference's own self leg (launch 0), or its tokens through a relaunch (1..L)."""
    kept = context.observed(TRAJECTORY)
    texts = {p.id: own(kept, Arm.BASELINE, p.id) for p in context.units}
    found = {u: t for u, t in texts.items() if isinstance(t, Own)}
    if context.launch:
        if not context.spec.text("reference"):  # live: a relaunch is compared by its own texts
            tag = Tag(Arm.REPEAT, "reference", "", context.launch)
            calls = [_force(tag, u, text) for u, text in found.items()]
            yield from forced(calls, f"score: reference tokens, relaunch {context.launch}")
        return
    twice = twice_scored(kept, [p.id for p in context.units])
    calls = [
        _force(Tag(Arm.BASELINE, "self", ""), unit, text)
        for unit, text in found.items()
        # Without a self leg: the few that are scored twice, and those whose end token has no
        # row of its own, for which forcing is the only way to it.
        if "self" in context.spec.names("legs") or unit in twice or len(text.path) > len(text.rows)
    ]
    yield from forced(calls, "score: the reference's own tokens")
    again = tuple(attempt(c, FRESH) for c in calls if c.tag.unit in twice)
    if again:
        yield Round(again, 1, "score: scored a second time")


def candidate(context: Context, baseline: Observed) -> Asking:
    """Both legs, each followed by its hits asked once more."""
    legs = context.spec.names("legs")
    if "reference" in legs and not context.spec.text("reference"):
        found, _ = references(baseline, [p.id for p in context.units])
        tag = Tag(Arm.CANDIDATE, "reference", "")
        theirs = ((r.unit, own(baseline.seen[TRAJECTORY], Arm.BASELINE, r.unit)) for r in found)
        calls = [_force(tag, unit, text) for unit, text in theirs if isinstance(text, Own)]
        yield from forced(calls, "score: reference leg")
        hits = _reference_leg.hits(context, baseline)
        yield from once_more(calls, hits, "score: broken prompts, asked once more")
    if "self" in legs:
        kept = context.observed(TRAJECTORY)
        texts = ((p.id, own(kept, Arm.CANDIDATE, p.id)) for p in context.units)
        tag = Tag(Arm.CANDIDATE, "self", "")
        calls = [_force(tag, unit, text) for unit, text in texts if isinstance(text, Own)]
        yield from forced(calls, "score: self leg")
        hits = _self_leg.judge(context, baseline).hits
        yield from once_more(calls, hits, "score: decode faults, asked once more")


def _force(tag: Tag, unit: str, text: Own) -> Force:
    return Force(replace(tag, unit=unit), text.prompt_ids, text.path, text.answer.top_logprobs)
