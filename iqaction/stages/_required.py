"""Which prompts must be judged, and on which of them the baseline itself cannot be. Pure.

Required are the prompts that every launch of the baseline could be judged on. Those that it
could not are known when the baseline is captured, and are left out of every plan that compares
with it. That is for prompts with an answer that cannot be judged; where there is no answer, or
one to another question, evidence was lost: the prompt stays in the plan as a gap, and a gap
never PASSes. Otherwise deleting answers would turn a FAIL into a PASS.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Arm, Scored
from iqaction.observed import Observed
from iqaction.rows import Match, Rows
from iqaction.stages import _self_leg
from iqaction.stages._forced import Reference, forced_along, reference_of
from iqaction.stages._lost import NEVER
from iqaction.stages._paths import SCORE, TRAJECTORY, Own, generation, own, scored


@dataclass(frozen=True)
class Required:
    """A prompt's reference, and its rows in each relaunch of the baseline, in their order."""

    reference: Reference
    relaunches: tuple[Rows, ...]

    @property
    def unit(self) -> str:
        return self.reference.unit


def references(
    baseline: Observed, units: Iterable[str]
) -> tuple[tuple[Required, ...], dict[str, str]]:
    """What every launch of the baseline could judge; and the gaps, with the reason."""
    found: list[Required] = []
    gaps: dict[str, str] = {}
    for unit in units:
        one = _required(baseline, unit)
        if isinstance(one, str):
            gaps[unit] = f"baseline: {one}"
        else:
            found.append(one)
    return tuple(found), gaps


def _required(baseline: Observed, unit: str) -> Required | str:
    reference = reference_of(baseline, unit)
    if isinstance(reference, str):
        return reference
    relaunches = []
    for launch in baseline.launches:
        rows = forced_along(baseline, Arm.REPEAT, reference, launch)
        if not isinstance(rows, Rows):
            return f"relaunch {launch}: {rows or NEVER}"
        relaunches.append(rows)
    if _self_leg.was_captured(baseline):
        own = _self_leg.compare(baseline.seen, Arm.BASELINE, unit)
        if not isinstance(own, _self_leg.Compared):
            return f"its own tokens forced: {own or NEVER}"
    return Required(reference, tuple(relaunches))


def evidence_lost(baseline: Observed, unit: str) -> bool:
    """True where a prompt's gap is no limit of the baseline's engine: it was never asked in some
    launch, or what was forced there is not what the baseline wrote."""
    kept, scores = baseline.seen.get(TRAJECTORY, {}), baseline.seen.get(SCORE, {})
    if generation(kept, Arm.BASELINE, unit) is None:
        return True
    text = own(kept, Arm.BASELINE, unit)
    if not isinstance(text, Own):
        return False
    answers = [scored(scores, Arm.REPEAT, "reference", unit, n) for n in baseline.launches]
    if _self_leg.was_captured(baseline):
        answers.append(scored(scores, Arm.BASELINE, "self", unit))
    path = np.array(text.path)
    return any(a is None or (isinstance(a, Scored) and _foreign(a.rows, path)) for a in answers)


def _foreign(rows: Rows, path: NDArray[np.int64]) -> bool:
    return rows.match is Match.ID and not np.array_equal(rows.chosen, path[: len(rows)])
