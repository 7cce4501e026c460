"""Which forced rows stand against which reference rows, prompt by prompt. Judges nothing.

Three comparisons share one shape, a :class:`Pairing`: the stored reference against an arm that
was forced along it, a live reference against an arm's own text, and an arm's forced rows against
its own decoded rows (the self leg, in `_self_leg`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Arm, Failure, Scored
from iqaction.observed import Observed
from iqaction.rows import PAD, Rows
from iqaction.stages._base import Context
from iqaction.stages._paths import SCORE, TRAJECTORY, cut, own, scored, with_end
from iqaction.stats.divergence import Compared, Lists, compare

_ROWS_AT_ONCE = 3_000  # of several prompts laid side by side: they stay in the cache
_Number = TypeVar("_Number", np.signedinteger, np.float32)
_ROUNDING = 1e-4  # nats above 0 that rounding explains


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

    def total(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum over each prompt's positions, (len(units),)."""
        return np.add.reduceat(values, self.starts) if self.units else np.empty(0)

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean over each prompt's positions, (len(units),)."""
        return self.total(values) / self.lengths() if self.units else np.empty(0)


def leg(pairings: Iterator[Pairing]) -> Leg:
    """Compare all pairings; every row of every pairing must be usable on both sides."""
    units: list[str] = []
    lengths: list[int] = []
    parts: list[Compared] = []
    batch: list[Pairing] = []
    waiting = 0

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
        waiting += lengths[-1]
        if waiting >= _ROWS_AT_ONCE:
            flush()
            waiting = 0
    flush()
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64) if units else _NONE
    if not parts:
        empty = Lists(_NONE, np.empty(0), _NONE.reshape(0, 0), np.empty((0, 0)), _NONE.astype(bool))
        parts = [compare(empty, empty)]
    columns = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()  # column by column, so that a leg is never there twice
    return Leg(
        tuple(units), starts, Compared(*(np.concatenate(columns.pop(0)) for _ in columns[:]))
    )


_NONE: NDArray[np.int64] = np.empty(0, np.int64)


def _lists(rows: list[Rows]) -> Lists:
    k = max(r.k for r in rows)
    return Lists(
        np.concatenate([r.chosen for r in rows]),
        np.concatenate([r.logprob for r in rows]),
        np.concatenate([_as_wide(r.top, k, PAD) for r in rows]),
        np.concatenate([_as_wide(r.top_logprob, k, -np.inf) for r in rows]),
        np.concatenate([r.usable for r in rows]),
    )


def _as_wide(lists: NDArray[_Number], k: int, empty: float) -> NDArray[_Number]:
    """The lists with empty slots up to k."""
    room = k - lists.shape[1]
    return np.pad(lists, ((0, 0), (0, room)), constant_values=empty) if room else lists


def all_usable(rows: Rows) -> bool:
    """True where every row is a measurement: numbers that are log-probabilities, and a list.

    The numbers are looked at themselves, not only the rows' own word: a NaN compares with
    nothing, so that it would count as no disagreement.
    """
    if not len(rows) or not rows.k or not rows.usable.all():
        return False
    listed = rows.top >= 0
    values = rows.top_logprob if listed.all() else rows.top_logprob[listed]
    return bool(listed[:, 0].all()) and _measured(rows.logprob) and _measured(values)


def _measured(values: NDArray[np.float32]) -> bool:
    """True where all are finite and not above 0; NaN survives both extremes and fails."""
    return bool(values.max() <= _ROUNDING and values.min() > -np.inf)


@dataclass(frozen=True)
class Reference:
    """The baseline's rows of one prompt, along its whole path, to compare forced rows with.

    ``open_end`` is True where the text stopped and its end token is not known.
    """

    unit: str
    rows: Rows
    open_end: bool = False


def reference_of(baseline: Observed, unit: str) -> Reference | str:
    """The stored reference of one prompt, or why there is none, in plain words."""
    found = own(baseline.seen.get(TRAJECTORY, {}), Arm.BASELINE, unit)
    if isinstance(found, str):
        return found
    scores = baseline.seen.get(SCORE, {})
    rows = with_end(
        found,
        [
            scored(scores, Arm.BASELINE, "self", unit),
            *(scored(scores, Arm.REPEAT, "reference", unit, n) for n in baseline.launches),
        ],
    )
    if len(rows) < len(found.path):
        return "the row of its end token is missing"
    if not all_usable(rows):
        return "its log-probabilities are not usable"
    if (rows.top[:, 1:2] < 0).all():
        return "it lists one token at a position, which shows no disagreement"
    told = found.answer.completion_tokens
    return Reference(unit, rows, told is not None and told > len(found.path))


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
    told, wanted = (forced.top >= 0).sum(axis=1), (rows.top >= 0).sum(axis=1)
    if (told + 1 < wanted).any():
        # A shorter list shows less of the same difference: KL over 5 tokens is a fifth smaller
        # than over 20, and over the forced token alone nothing disagrees.
        return f"lists of {told.min()} tokens, the reference's hold {wanted.max()}"
    return forced
