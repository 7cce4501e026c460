"""An item that is right or wrong, whole: what was asked and what each side made of it. Pure.

Judges nothing: how an answer reads is the grader's word, as it was when the stage was judged.
"""

from __future__ import annotations

from iqaction.calls import Arm, Call, Chat, Failure, Generation
from iqaction.stages._base import Context
from iqaction.stages._paired_items import AGAIN, Questions, graded
from iqaction.stages._paths import Kept, best
from iqaction.stages._unit import Side, Unit


def unit_of(context: Context, asked: Questions, name: str, about: str, right: str) -> Unit | None:
    """The item ``name`` on every side that the evidence is of; None where it is not ``asked``."""
    if name not in asked.units:
        return None
    stage, ours = asked.leg, context.observed(asked.leg)
    sides: list[tuple[str, Kept, Arm, int]] = []
    if context.baseline is None:
        sides += [
            ("baseline", ours, Arm.BASELINE, 0),
            ("relaunch 1 of the baseline", ours, Arm.REPEAT, 1),
        ]
    else:
        theirs = context.baseline.seen.get(stage, {})
        sides += [
            ("baseline", theirs, Arm.BASELINE, 0),
            ("relaunch 1 of the baseline", theirs, Arm.REPEAT, 1),
            ("candidate", ours, Arm.CANDIDATE, 0),
        ]
    found = []
    for whose, kept, arm, launch in sides:
        tag = asked.tag(name, arm, launch)
        answer = best(kept, tag, (0, AGAIN))
        if answer is None and arm is Arm.REPEAT:
            continue
        text = answer if isinstance(answer, (Generation, Failure)) else None
        found.append(Side(whose, text, graded(asked, kept, name, arm, launch)))
    call: Call = asked.call(name, asked.tag(name, Arm.BASELINE))
    assert isinstance(call, Chat)
    return Unit(name, stage, about, call.messages, right, tuple(found), call.template_kwargs)
