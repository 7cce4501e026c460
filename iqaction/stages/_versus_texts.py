"""Two runs' greedy texts beside each other: where B's part from A's. Pure; no verdict."""

from __future__ import annotations

from iqaction.calls import Arm, Generation
from iqaction.report import Divergence, Versus
from iqaction.rows import Rows
from iqaction.stages._base import Context
from iqaction.stages._divergence import TIE_NATS, by_weight, find
from iqaction.stages._paths import SCORE, TRAJECTORY, generation, own, scored, with_end


def versus(a: Context, b: Context) -> Versus:
    """The divergences over the prompts that both answered, the ones that matter first.

    The gap is A's: how much it preferred its own token. No floor is known between two runs, so
    that a tie is a gap of at most .25 nats.
    """
    found: list[Divergence] = []
    compared = 0
    for prompt in a.units:
        if b.prompts.get(prompt.id) != prompt:
            continue
        ours, theirs = _text(a, prompt.id), _text(b, prompt.id)
        if ours is None or theirs is None:
            continue
        compared += 1
        parting = find(prompt, ours, theirs, _rows(a, prompt.id, ours), TIE_NATS)
        if parting is not None:
            found.append(parting)
    return Versus(
        divergences=tuple(sorted(found, key=by_weight)),
        compared=compared,
        note="" if compared else "no prompt has a text in both",
    )


def _text(context: Context, unit: str) -> Generation | None:
    answer = generation(context.observed(TRAJECTORY), context.arm, unit)
    return answer if isinstance(answer, Generation) else None


def _rows(context: Context, unit: str, answer: Generation) -> Rows | None:
    """The rows along a run's own text, its end token's included where it was forced as well."""
    text = own(context.observed(TRAJECTORY), context.arm, unit)
    if isinstance(text, str):
        return answer.rows
    kept = context.observed(SCORE)
    launches = sorted({launch for arm, launch in context.engines if arm is Arm.REPEAT})
    again = [scored(kept, Arm.REPEAT, "reference", unit, n) for n in launches]
    return with_end(text, [scored(kept, context.arm, "self", unit), *again])
