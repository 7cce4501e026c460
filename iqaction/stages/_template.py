"""Do prompts reach the model as before? Judges the template, not what the model makes of it. Pure.

Forced requests carry token ids and bypass the chat template, so the prompt ids of the arms' own
chat requests must be the same.
"""

from __future__ import annotations

from typing import NamedTuple

from iqaction.calls import Arm, Capability, Failure, FailureKind, Tag
from iqaction.observed import Engines, Observed
from iqaction.prompts import Prompt
from iqaction.report import Check, UnitFault
from iqaction.stages._base import Context
from iqaction.stages._paths import (
    TRAJECTORY,
    Kept,
    PromptIds,
    best,
    first_difference,
    prompt_ids,
)
from iqaction.verdict import Verdict


def check(
    context: Context, baseline: Observed, prompts: list[Prompt]
) -> tuple[Check, list[UnitFault]]:
    """The verdict over the look's prompts, ``prompts`` of which both arms answered; and every
    prompt that differs.

    Asked of every prompt: one that cannot be compared may be the one that differs.
    """
    before = _Told(baseline.seen.get(TRAJECTORY, {}), Arm.BASELINE, baseline.engines)
    now = _Told(context.observed(TRAJECTORY), Arm.CANDIDATE, context.engines)
    differing, same, n = [], 0, len(context.units)
    for prompt in prompts:
        said = _difference(before, now, prompt.id)
        same += said == ""
        if said:
            differing.append(UnitFault(prompt.id, prompt.bucket, "template", said))
    if differing:
        verdict = Verdict.UNPROVEN
        reason = (
            f"{len(differing)} of {n} prompts reach the model as other tokens than in "
            f"the baseline ({differing[0].unit}: {differing[0].detail}): another chat template, "
            "system prompt or tokenizer, so that the outputs answer other questions"
        )
    elif same < n or not n:
        verdict = Verdict.UNPROVEN
        reason = (
            f"{n - same} of {n} prompts: their token ids or counts are not known of both arms, "
            "so that a changed chat template would not be seen"
        )
    else:
        verdict, reason = Verdict.PASS, f"all {n} prompts reach the model as before"
    return Check("trajectory.template", "chat template", verdict, reason), differing


class _Told(NamedTuple):
    """Where an arm tells how a prompt reached its model."""

    kept: Kept
    arm: Arm
    engines: Engines

    def ids(self, unit: str) -> PromptIds:
        return prompt_ids(self.kept, self.arm, unit)

    def lost(self, unit: str) -> bool:
        """True where ids were to be had and are not there: what they would say is unknown."""
        engine = self.engines.get((self.arm, 0))
        if self.ids(unit).ids is not None or engine is None:
            return False
        answer = best(self.kept, Tag(self.arm, "template", unit))
        if isinstance(answer, Failure) and answer.kind is FailureKind.UNSUPPORTED:
            return False
        return Capability.TOKENIZE in engine.capabilities


def _difference(before: _Told, now: _Told, unit: str) -> str | None:
    """What differs in plain words; "" where nothing; None where it cannot be told."""
    a, b = before.ids(unit), now.ids(unit)
    counted = a.count is not None and b.count is not None
    if counted and a.count != b.count:
        return f"{a.count} prompt tokens before, {b.count} now"
    if a.ids is not None and b.ids is not None:
        at = first_difference(a.ids, b.ids)
        if at is not None:
            return f"prompt token {at} differs ({len(a.ids)} ids before, {len(b.ids)} now)"
        return ""
    if before.lost(unit) or now.lost(unit):
        return None
    return "" if counted else None
