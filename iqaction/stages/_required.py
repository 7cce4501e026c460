"""Which prompts must be judged, and on which of them the baseline itself cannot be. Pure.

Required are the prompts that every launch of the baseline could be judged on. Those that it
could not are known when the baseline is captured, and are left out of every plan that compares
with it. Where a prompt of the plan turns out to lack its baseline all the same, evidence was
lost: that is a gap, and a gap never PASSes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iqaction.calls import Arm
from iqaction.observed import Observed
from iqaction.rows import Rows
from iqaction.stages import _self_leg
from iqaction.stages._forced import Reference, forced_along, reference_of
from iqaction.stages._lost import NEVER


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
