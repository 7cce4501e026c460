"""The self leg of `score`: does decoding under load say what scoring alone says? Pure.

The candidate's own greedy tokens are forced through itself, one request at a time, and compared
with the log-probabilities that it gave while decoding them at the traffic's concurrency. It
compares an engine with itself, so it is judged on extremes: *decode faults*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Arm, Failure, Generation, Scored
from iqaction.observed import Observed, Seen
from iqaction.prompts import Prompt
from iqaction.report import Check, Coverage, UnitFault
from iqaction.rows import Match, Rows
from iqaction.stages import _broken
from iqaction.stages._base import Context
from iqaction.stages._checks import unproven
from iqaction.stages._forced import all_usable
from iqaction.stages._lost import NEVER, Lost
from iqaction.stages._paths import (
    FRESH,
    SCORE,
    TRAJECTORY,
    continuation,
    cut,
    generation,
    scored,
)
from iqaction.stages._shares import names
from iqaction.verdict import Verdict

FAULT_NATS = 0.5
BELOW_ARGMAX_NATS = 0.25
_BROKEN_REFERENCE = 0.05  # share of the reference's own prompts with faults that refuses it
_IN_SCORING = (
    "The candidate decodes these prompts as the baseline does and scores them otherwise: the "
    "fault is in forced scoring (prefill kernels, prompt log-probabilities), not in decoding."
)
FAULTS = _broken.What("self.faults", "self leg: decode faults", "with a decode fault")


@dataclass(frozen=True)
class Compared:
    """One prompt's own decoded rows beside its forced rows.

    Attributes
    ----------
    change : float64 (n,)
        |log-probability forced - decoded| of the chosen token, in nats.
    below : float64 (n,)
        How far the chosen token lies below the argmax, in nats: the larger of what decoding
        listed and of what forcing listed beyond the change that noise explains.
    """

    unit: str
    change: NDArray[np.float64]
    below: NDArray[np.float64]

    def faults(self, limit: float) -> NDArray[np.int64]:
        """Positions that are decode faults when ``limit`` nats of change are allowed."""
        return np.flatnonzero((self.change > limit) | (self.below > BELOW_ARGMAX_NATS))


def compare(seen: Seen, arm: Arm, unit: str, attempt: int = 0) -> Compared | str | None:
    """The comparison of one prompt; why there is none, in words; None: never answered."""
    answer = generation(seen.get(TRAJECTORY, {}), arm, unit)
    if answer is None:
        return None
    if isinstance(answer, Failure):
        return answer.message
    if continuation(answer) is None or answer.rows is None:
        return "its tokens cannot be forced: rows or ids are missing"
    forced = scored(seen.get(SCORE, {}), arm, "self", unit, attempt=attempt)
    if forced is None:
        return None
    if isinstance(forced, Failure):
        return forced.message
    return _compare(unit, answer, answer.rows, forced)


def _compare(unit: str, answer: Generation, rows: Rows, forced: Scored) -> Compared | str:
    if len(forced.rows) < len(rows):
        return f"{len(forced.rows)} forced rows for {len(rows)} tokens"
    again = cut(forced.rows, 0, len(rows))
    if rows.match is not Match.ID or not np.array_equal(again.chosen, rows.chosen):
        return "the forced rows are of other tokens than were generated"
    if not all_usable(rows) or not all_usable(again):
        return "unusable rows"
    change = np.abs(rows.logprob.astype(np.float64) - again.logprob)
    # Forced rows may prefer another token by as much as noise moved this one; only what lies
    # beyond that, twice over, is a fault of the decoded choice.
    forced_below = _below(again) - 2 * np.maximum(change, BELOW_ARGMAX_NATS)
    return Compared(unit, change, np.maximum(_below(rows), forced_below))


def _below(rows: Rows) -> NDArray[np.float64]:
    """How far each chosen token lies below its row's argmax, in nats; 0 where it is the argmax."""
    best = rows.top_logprob.max(axis=1).astype(np.float64)
    below: NDArray[np.float64] = np.maximum(best - rows.logprob, 0.0)
    return below


def limit_of(baseline: list[Compared]) -> float:
    """Nats of change beyond which a position is a fault: .5, or twice the floor's largest."""
    largest = max((float(c.change.max(initial=0.0)) for c in baseline), default=0.0)
    return max(FAULT_NATS, 2 * largest)


def reference_is_broken(baseline: list[Compared]) -> str:
    """Why the reference itself cannot be trusted, or "": its decoding and scoring disagree."""
    bad = [c.unit for c in baseline if c.faults(FAULT_NATS).size]
    if len(bad) > max(1.0, _BROKEN_REFERENCE * len(baseline)):
        return (
            f"{len(bad)} of {len(baseline)} of the reference's own texts score otherwise than "
            f"they were decoded ({names(tuple(bad))}): the reference itself is faulty"
        )
    return ""


def was_captured(baseline: Observed) -> bool:
    """True where the baseline's plan asked for a self leg of its own."""
    spec = baseline.plan.stage(SCORE)
    return spec is not None and "self" in spec.names("legs")


def of_baseline(baseline: Observed, units: tuple[Prompt, ...]) -> list[Compared]:
    """The reference's own self leg, as far as it was observed."""
    found = (compare(baseline.seen, Arm.BASELINE, u.id) for u in units)
    return [c for c in found if isinstance(c, Compared)]


@dataclass(frozen=True)
class SelfLeg:
    """The leg's check, its faults by prompt, and sentences about what they mean.

    ``in_scoring`` is True where most faulty prompts are decoded as the baseline decodes them: then
    it is forced scoring that went wrong.
    """

    check: Check
    coverage: Coverage
    faults: tuple[UnitFault, ...]
    meaning: str
    hits: tuple[str, ...]
    caveats: tuple[str, ...] = ()
    in_scoring: bool = False


def judge(context: Context, baseline: Observed) -> SelfLeg:
    """Bound the share of prompts with a decode fault."""
    before = {p.id: compare(baseline.seen, Arm.BASELINE, p.id) for p in context.units}
    theirs = [c for c in before.values() if isinstance(c, Compared)]
    limit = limit_of(theirs)
    ours, lost = _collect(context, before)
    found = {c.unit: c.faults(limit) for c in ours if c.faults(limit).size}
    tries = (compare(context.seen, Arm.CANDIDATE, u, attempt=FRESH) for u in found)
    again = [c for c in tries if isinstance(c, Compared)]
    hits = _broken.Hits(
        {c.unit: _detail(c, found[c.unit]) for c in ours if c.unit in found},
        tuple(c.unit for c in again if c.faults(limit).size),
        floor_hits=sum(1 for c in theirs if c.faults(limit).size),
        asked=tuple(c.unit for c in again),
    )
    check = _broken.check(context.plan, hits, lost, len(context.units), FAULTS)
    coverage = lost.coverage(len(ours))
    if not was_captured(baseline):
        lost = replace(lost, gaps={})  # one sentence says it for all prompts
        check = unproven(
            check, "the baseline was captured without a self leg: its noise is not known"
        )
    in_scoring = 2 * sum(_decoded_as_before(context, baseline, u) for u in found) > len(found)
    meaning = _IN_SCORING if in_scoring else _meaning(ours, found)
    return SelfLeg(
        check,
        coverage,
        (*hits.faults(context.prompts, "decode fault"), *lost.faults(context.prompts)),
        "" if check.verdict is Verdict.PASS else meaning,
        tuple(found),
        _caveats(limit),
        in_scoring,
    )


def _decoded_as_before(context: Context, baseline: Observed, unit: str) -> bool:
    """True where the candidate wrote the baseline's tokens with the baseline's values."""
    now = generation(context.observed(TRAJECTORY), Arm.CANDIDATE, unit)
    before = generation(baseline.seen.get(TRAJECTORY, {}), Arm.BASELINE, unit)
    rows = [a.rows for a in (now, before) if isinstance(a, Generation) and a.rows is not None]
    if len(rows) < 2 or not np.array_equal(rows[0].chosen, rows[1].chosen):
        return False
    return bool(np.all(np.abs(rows[0].logprob - rows[1].logprob) <= BELOW_ARGMAX_NATS))


def _caveats(limit: float) -> tuple[str, ...]:
    if limit <= FAULT_NATS:
        return ()
    return (
        f"the baseline's own decoding and scoring differ by up to {limit / 2:.2f} nats: only "
        f"differences beyond {limit:.2f} nats count as decode faults",
    )


def _collect(
    context: Context, before: Mapping[str, Compared | str | None]
) -> tuple[list[Compared], Lost]:
    ours: list[Compared] = []
    failed: dict[str, str] = {}
    missing: dict[str, str] = {}
    gaps: dict[str, str] = {}
    kept = context.observed(SCORE)
    for unit, theirs in before.items():
        if not isinstance(theirs, Compared):
            gaps[unit] = f"baseline: {theirs or NEVER}"
            continue
        one = compare(context.seen, Arm.CANDIDATE, unit)
        if isinstance(one, Compared):
            ours.append(one)
        elif isinstance(scored(kept, Arm.CANDIDATE, "self", unit), Failure):
            failed[unit] = str(one)
        else:
            missing[unit] = one or NEVER
    return ours, Lost(failed, missing, gaps)


def _detail(compared: Compared, positions: NDArray[np.int64]) -> str:
    first = int(positions[0])
    return (
        f"{positions.size} of {compared.change.size} tokens, first at {first}: decoding and "
        f"scoring differ by {compared.change[first]:.2f} nats, {compared.below[first]:.2f} below "
        "the argmax"
    )


def _meaning(ours: list[Compared], found: dict[str, NDArray[np.int64]]) -> str:
    """Where faults sit says what they are."""
    if not found:
        return ""
    lengths = {c.unit: c.change.size for c in ours}
    early = sum(1 for u, at in found.items() if at[0] == 0)
    late = sum(1 for u, at in found.items() if at[0] >= max(8, lengths[u] // 4))
    if early > len(found) / 2:
        return "Decode faults begin at the first token: look at the template or the prompt."
    if late > len(found) / 2:
        return (
            "Decode faults come later in the texts: look at the KV cache (its quantization, its "
            "reuse) or the decode kernels."
        )
    return (
        "Decoding under load disagrees with scoring one request at a time: look at the decode "
        "path (KV cache, speculative decoding, CUDA graphs, batching)."
    )
