"""Did a question reach both models as the same tokens? What `gsm8k` and `niah` share. Pure.

Knows the two sides of items and what their engines told of the prompts. Judges no answer: a prompt
behind another template, or one that a server cut short without a word, is another question than
the baseline's, whatever was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iqaction.report import Check
from iqaction.stages._paired_items import Graded, Item
from iqaction.stages._paths import first_difference
from iqaction.verdict import Verdict


@dataclass(frozen=True)
class Same:
    """The check's name and title, and how many ``tokens`` may differ, in one place: long texts
    bear a BOS more, or the day's date in a template."""

    metric: str
    title: str
    tokens: int = 0


def same_prompts(items: Sequence[Item], same: Same) -> Check:
    """The verdict over the questions that both arms answered. A difference never PASSes."""
    both = [i for i in items if i.is_paired]
    told = [(i.unit, difference(i.baseline, i.candidate, same)) for i in both]
    differing = [(unit, said) for unit, said in told if said]
    unknown = sum(said is None for _, said in told)
    if differing:
        reason = (
            f"{len(differing)} of {len(both):,} questions reach the model as other tokens than in "
            f"the baseline ({differing[0][0]}: {differing[0][1]}): another chat template, system "
            "prompt or tokenizer, or a server that cuts prompts, so that the answers are to other "
            "questions"
        )
    elif unknown or not both:
        reason = (
            f"{unknown:,} of {len(both):,} questions: prompt tokens are not known of both arms, so "
            "that a cut prompt or another chat template would not be seen"
        )
    else:
        reason = f"all {len(both):,} questions reach the model as before"
        counts = [_counts(i.baseline, i.candidate) for i in both]
        changed = sum(before != now for before, now in counts)
        if changed:
            reason += f", {changed} of them with up to {same.tokens} tokens more or less"
        return Check(same.metric, same.title, Verdict.PASS, reason)
    return Check(same.metric, same.title, Verdict.UNPROVEN, reason)


def difference(before: Graded, now: Graded, same: Same) -> str | None:
    """What differs by more than it may; "" where nothing does; None where it cannot be told."""
    a, b = _counts(before, now)
    if a is None or b is None:
        return None
    if abs(a - b) > same.tokens:
        return f"{a} prompt tokens before, {b} now"
    theirs, ours = before.prompt_ids, now.prompt_ids
    if theirs is None or ours is None or theirs == ours:
        return ""
    at, longer = first_difference(theirs, ours) or 0, max(len(theirs), len(ours))
    alike = first_difference(theirs[:at:-1], ours[:at:-1])  # tokens at the end; None: all the rest
    if longer - at - (longer - at - 1 if alike is None else alike) <= 2 * same.tokens:
        return ""
    return f"prompt token {at} differs" + (", and others after it" if same.tokens else "")


def _counts(before: Graded, now: Graded) -> tuple[int | None, int | None]:
    """How many tokens the question is on either side: of the ids where both tell them."""
    if before.prompt_ids is not None and now.prompt_ids is not None:
        return len(before.prompt_ids), len(now.prompt_ids)
    return _count(before), _count(now)


def _count(side: Graded) -> int | None:
    ids = side.prompt_ids
    return len(ids) if side.prompt_tokens is None and ids is not None else side.prompt_tokens
