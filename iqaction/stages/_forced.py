"""Which forced rows stand against which reference rows, prompt by prompt. Judges nothing.

Three comparisons share one shape, a :class:`Pairing`: the stored reference against an arm that
was forced along it, a live reference against an arm's own text, and an arm's forced rows against
its own decoded rows (the self leg, in `_self_leg`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Arm, Failure, Generation, Scored
from iqaction.observed import Observed
from iqaction.rows import Match, Rows
from iqaction.stages._base import Context
from iqaction.stages._paths import (
    SCORE,
    TRAJECTORY,
    continuation,
    cut,
    generation,
    prompt_ids,
    scored,
    with_end,
)
from iqaction.stats.divergence import Compared, Lists, compare

_UNITS_AT_ONCE = 128  # bounds memory: arrays of this many prompts are laid side by side


class Pairing(NamedTuple):
    """One prompt's two sets of rows over the same tokens."""

    unit: str
    reference: Rows
    other: Rows


class Leg(NamedTuple):
    """One arm compared with the reference.

    Attributes
    ----------
    units
        The prompts, in the plan's order.
    starts : (len(units),)
        Index of each prompt's first position in ``compared``.
    compared
        Per-position figures of all prompts, one after another.
    """

    units: tuple[str, ...]
    starts: NDArray[np.int64]
    compared: Compared

    def lengths(self) -> NDArray[np.int64]:
        return np.diff(np.append(self.starts, len(self.compared.usable)))

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean over each prompt's positions, (len(units),)."""
        if not self.units:
            return np.empty(0)
        return np.add.reduceat(values, self.starts) / self.lengths()


def leg(pairings: Iterator[Pairing]) -> Leg:
    """Compare all pairings; every row of every pairing must be usable on both sides."""
    units: list[str] = []
    lengths: list[int] = []
    parts: list[Compared] = []
    batch: list[Pairing] = []

    def flush() -> None:
        if batch:
            parts.append(
                compare(_lists([p.reference for p in batch]), _lists([p.other for p in batch]))
            )
            batch.clear()

    for pairing in pairings:
        units.append(pairing.unit)
        lengths.append(len(pairing.reference))
        batch.append(pairing)
        if len(batch) >= _UNITS_AT_ONCE:
            flush()
    flush()
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64) if units else _NONE
    if not parts:
        empty = Lists(_NONE, np.empty(0), _NONE.reshape(0, 0), np.empty((0, 0)), _NONE.astype(bool))
        parts = [compare(empty, empty)]
    joined = Compared(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return Leg(tuple(units), starts, joined)


_NONE: NDArray[np.int64] = np.empty(0, np.int64)


def _lists(rows: list[Rows]) -> Lists:
    k = max(r.k for r in rows)
    n = sum(len(r) for r in rows)
    top = np.full((n, k), -1, rows[0].top.dtype)
    values = np.full((n, k), -np.inf, np.float32)
    at = 0
    for r in rows:
        top[at : at + len(r), : r.k] = r.top
        values[at : at + len(r), : r.k] = r.top_logprob
        at += len(r)
    return Lists(
        np.concatenate([r.chosen for r in rows]),
        np.concatenate([r.logprob for r in rows]),
        top,
        values,
        np.concatenate([r.usable for r in rows]),
    )


def all_usable(rows: Rows) -> bool:
    """True where every row holds log-probabilities and a list."""
    return len(rows) > 0 and rows.k > 0 and bool(rows.usable.all() and (rows.top[:, 0] >= 0).all())


@dataclass(frozen=True)
class Reference:
    """What can be forced of one prompt of the baseline: ids in, and the rows to compare with."""

    unit: str
    prompt_ids: tuple[int, ...]
    continuation: tuple[int, ...]
    rows: Rows


def reference_of(baseline: Observed, unit: str) -> Reference | str:
    """The stored reference of one prompt, or why there is none, in plain words."""
    kept = baseline.seen.get(TRAJECTORY, {})
    answer = generation(kept, Arm.BASELINE, unit)
    if not isinstance(answer, Generation):
        return "the baseline has no text for it"
    ids = prompt_ids(kept, Arm.BASELINE, unit).ids
    if ids is None:
        return "the baseline's prompt token ids are not known"
    path = continuation(answer)
    if path is None or answer.rows is None:
        return f"the baseline's tokens cannot be forced ({_why_no_path(answer)})"
    scores = baseline.seen.get(SCORE, {})
    rows = with_end(
        answer,
        [
            scored(scores, Arm.BASELINE, "self", unit),
            *(scored(scores, Arm.REPEAT, "reference", unit, n) for n in baseline.launches),
        ],
    )
    assert rows is not None  # the answer has rows
    if not all_usable(rows):
        return "the baseline's own log-probabilities are not usable"
    return Reference(unit, ids, path, rows)


def _why_no_path(answer: Generation) -> str:
    if answer.rows is None or not len(answer.rows):
        return "no log-probabilities"
    if answer.rows.match is not Match.ID:
        return "no token ids"
    return "fewer rows than generated tokens"


def forced_along(
    kept: Observed | Context, arm: Arm, reference: Reference, launch: int = 0, attempt: int = 0
) -> Rows | str | None:
    """Rows of ``arm`` along the reference's path; why not, in words; None: never answered."""
    answer = scored(kept.seen.get(SCORE, {}), arm, "reference", reference.unit, launch, attempt)
    if answer is None:
        return None
    if isinstance(answer, Failure):
        return answer.message
    return fit(answer, reference.rows)


def fit(answer: Scored, rows: Rows) -> Rows | str:
    """Forced rows cut to the reference's length, checked to be of the same tokens and usable."""
    if len(answer.rows) < len(rows):
        return f"{len(answer.rows)} forced rows for {len(rows)} tokens"
    forced = cut(answer.rows, 0, len(rows))
    if forced.match is not rows.match or not np.array_equal(forced.chosen, rows.chosen):
        return "the forced rows are of other tokens than the reference's"
    if not all_usable(forced):
        faults = ", ".join(sorted(answer.rows.faults)) or "a row without a list"
        return f"unusable rows ({faults})"
    return forced


Required = tuple[tuple[Reference, ...], dict[str, str]]


def required(context: Context, baseline: Observed) -> Required:
    """The prompts that every launch of the baseline could judge, and the others with the reason."""
    found: list[Reference] = []
    left_out: dict[str, str] = {}
    for prompt in context.units:
        reference = reference_of(baseline, prompt.id)
        if isinstance(reference, str):
            left_out[prompt.id] = reference
            continue
        bad = next(
            (
                (launch, rows)
                for launch in baseline.launches
                if not isinstance(
                    rows := forced_along(baseline, Arm.REPEAT, reference, launch), Rows
                )
            ),
            None,
        )
        if bad is not None:
            left_out[prompt.id] = f"relaunch {bad[0]}: {bad[1] or 'never answered'}"
        else:
            found.append(reference)
    return tuple(found), left_out


def against(
    references: tuple[Reference, ...], rows_of: Callable[[Reference], Rows | str | None]
) -> Iterator[Pairing]:
    """Pairings of those references for which the other arm has usable rows."""
    for reference in references:
        rows = rows_of(reference)
        if isinstance(rows, Rows):
            yield Pairing(reference.unit, reference.rows, rows)
