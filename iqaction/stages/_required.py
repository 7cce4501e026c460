"""Which prompts must be judged, and on which of them the baseline itself cannot be. Pure.

Required are the prompts that every launch of the baseline could be judged on. Those that it
could not are known when the baseline is captured, and are left out of every plan that compares
with it. Where a prompt of the plan turns out to lack its baseline all the same, evidence was
lost: that is a gap, and a gap never PASSes.
"""

from __future__ import annotations

from collections.abc import Iterable

from iqaction.calls import Arm
from iqaction.observed import Observed
from iqaction.rows import Rows
from iqaction.stages import _self_leg
from iqaction.stages._forced import Reference, forced_along, reference_of
from iqaction.stages._lost import NEVER


def references(
    baseline: Observed, units: Iterable[str]
) -> tuple[tuple[Reference, ...], dict[str, str]]:
    """What can be forced of these prompts, and the gaps: the others, with the reason."""
    found: list[Reference] = []
    gaps: dict[str, str] = {}
    for unit in units:
        reference = reference_of(baseline, unit)
        why = reference if isinstance(reference, str) else _not_in_every_launch(baseline, reference)
        if isinstance(reference, str) or why:
            gaps[unit] = f"baseline: {why}"
        else:
            found.append(reference)
    return tuple(found), gaps


def _not_in_every_launch(baseline: Observed, reference: Reference) -> str:
    for launch in baseline.launches:
        rows = forced_along(baseline, Arm.REPEAT, reference, launch)
        if not isinstance(rows, Rows):
            return f"relaunch {launch}: {rows or NEVER}"
    if _self_leg.was_captured(baseline):
        own = _self_leg.compare(baseline.seen, Arm.BASELINE, reference.unit)
        if not isinstance(own, _self_leg.Compared):
            return f"its own tokens forced: {own or NEVER}"
    return ""
