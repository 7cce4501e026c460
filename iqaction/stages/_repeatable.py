"""Does the reference's scoring repeat itself? Some of its prompts are scored twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from iqaction.calls import Arm, Scored, Tag
from iqaction.observed import Observed
from iqaction.rows import Rows
from iqaction.stages._paths import FRESH, SCORE, TRAJECTORY, Kept, Own, best, own, scored
from iqaction.stages._shares import names

TWICE = 3  # prompts
_AGREE_NATS = 0.25  # two scorings of one prompt, one at a time, agree within this


def twice_scored(kept: Kept, units: Iterable[str]) -> tuple[str, ...]:
    """The prompts that a capture scores twice: the first of those that can be forced."""
    able = (u for u in units if isinstance(own(kept, Arm.BASELINE, u), Own))
    return tuple(islice(able, TWICE))


def differs(baseline: Observed) -> str:
    """Why the baseline's scoring cannot be trusted, or "": two scorings of a prompt differ."""
    for unit in _expected(baseline):
        first, again = _both(baseline, unit)
        if first is None or again is None:
            continue
        change = np.abs(first.logprob.astype(np.float64) - again.logprob)
        worst = int(change.argmax())
        if not change[worst] <= _AGREE_NATS:
            return (
                f"the reference scored {unit} twice and the two differ by "
                f"{change[worst]:.2f} nats at token {worst}: its scoring does not repeat itself"
            )
    return ""


def unchecked(baseline: Observed) -> str:
    """Prompts that should have been scored twice and were not, in one sentence, or ""."""
    lacking = [u for u in _expected(baseline) if None in _both(baseline, u)]
    if not lacking:
        return ""
    return f"the baseline was not scored twice where it should have been: {names(lacking)}"


def _expected(baseline: Observed) -> tuple[str, ...]:
    return twice_scored(baseline.seen.get(TRAJECTORY, {}), baseline.plan.prompt_ids)


def _both(baseline: Observed, unit: str) -> tuple[Rows | None, Rows | None]:
    """Both scorings of one prompt, each None where it is missing or is no measurement."""
    kept = baseline.seen.get(SCORE, {})
    first = scored(kept, Arm.BASELINE, "self", unit)
    again = best(kept, Tag(Arm.BASELINE, "self", unit), (FRESH,))
    pair = [x.rows if isinstance(x, Scored) and _sound(x.rows) else None for x in (first, again)]
    if pair[0] is not None and pair[1] is not None and len(pair[0]) != len(pair[1]):
        return None, None
    return pair[0], pair[1]


def _sound(rows: Rows) -> bool:
    return len(rows) > 0 and bool(np.isfinite(rows.logprob).all())
