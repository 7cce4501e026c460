"""Figures of `score` for display: by position, by input bucket, tails, plots. Judges nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from iqaction.report import Series, Table
from iqaction.stages._forced import Leg
from iqaction.stats.divergence import POSITION_BUCKETS, buckets
from iqaction.stats.summary import percentiles, rms

_COLUMNS = ("KL (>=)", "decisive", "differ", "TV (>=)", "NLL")
_MOST_POINTS = 512
_Value = TypeVar("_Value", np.float64, np.bool_)
_Codes = Callable[[Leg], NDArray[np.intp]]
"""For each position of a leg the number of the group that it belongs to."""


def tables(leg: Leg, floors: tuple[Leg, ...], bucket_of: Mapping[str, str]) -> tuple[Table, ...]:
    """By position bucket, by input bucket, and the tails, candidate beside floor."""
    if not leg.units:
        return ()
    inputs = tuple(sorted({bucket_of.get(u, "default") for u in leg.units}))

    def by_input(one: Leg) -> NDArray[np.intp]:
        per_unit = [inputs.index(bucket_of.get(u, "default")) for u in one.units]
        return np.repeat(np.array(per_unit, np.intp), one.lengths())

    return (
        _by(leg, floors, ("by position", "position", POSITION_BUCKETS), _position_codes),
        _by(leg, floors, ("by input", "bucket", inputs), by_input),
        _tails(leg, floors),
    )


def series(
    leg: Leg, floor: NDArray[np.float64], candidate: NDArray[np.float64], limit: float | None
) -> tuple[Series, ...]:
    """Plots: each prompt's KL beyond the floor, and the mean KL at each position.

    Parameters
    ----------
    floor, candidate : (len(leg.units),)
        Mean KL of each prompt in nats.
    """
    if not leg.units:
        return ()
    delta = candidate - floor
    # Rounded, so that equal prompts keep their order whatever the last bits of their means.
    order = np.argsort(-np.round(delta, 12), kind="stable")[:_MOST_POINTS]
    position = _positions(leg)
    at = np.minimum(position, _MOST_POINTS - 1)
    counts = np.bincount(at)
    means = np.bincount(at, weights=leg.compared.kl) / np.maximum(counts, 1)
    return (
        Series(
            "KL beyond the floor by prompt, largest first",
            "prompt",
            "nats",
            tuple(float(i) for i in range(len(order))),
            tuple(float(delta[i]) for i in order),
            tuple(leg.units[i] for i in order),
            limit,
        ),
        Series(
            "mean KL by position",
            "token",
            "nats",
            tuple(float(i) for i in range(len(means))),
            tuple(float(m) if n else None for m, n in zip(means, counts, strict=True)),
        ),
    )


def _positions(leg: Leg) -> NDArray[np.int64]:
    """Index of each position within its prompt."""
    n = len(leg.compared.usable)
    return np.arange(n) - np.repeat(leg.starts, leg.lengths())


def _position_codes(leg: Leg) -> NDArray[np.intp]:
    """Index into ``POSITION_BUCKETS`` of each position."""
    codes: NDArray[np.intp] = buckets(int(leg.lengths().max(initial=0)))[_positions(leg)]
    return codes


def _by(
    leg: Leg, floors: tuple[Leg, ...], names: tuple[str, str, tuple[str, ...]], codes: _Codes
) -> Table:
    """A row for each group that the candidate has a position in; ``names`` are the table's, its
    first column's and the groups'. The floor's groups are the candidate's."""
    title, head, groups = names
    counts, now = _figures([leg], len(groups), codes)
    _, before = _figures(list(floors), len(groups), codes)
    rows = tuple(
        (group, float(counts[g]), *_interleave(now[:, g].tolist(), before[:, g].tolist()))
        for g, group in enumerate(groups)
        if counts[g]
    )
    columns = [head, "positions"]
    for column in _COLUMNS:
        columns += [column, f"{column}, floor"]
    return Table(title, tuple(columns), rows)


def _interleave(now: list[float], before: list[float]) -> tuple[float | None, ...]:
    return tuple(_finite(x) for pair in zip(now, before, strict=True) for x in pair)


def _figures(
    legs: list[Leg], groups: int, codes: _Codes
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Positions of each group, and means in the order of ``_COLUMNS``, (columns, groups); NaN
    where there is no position."""
    counts, sums = np.zeros(groups, np.int64), np.zeros((len(_COLUMNS), groups))
    for leg in legs:
        code, c = codes(leg), leg.compared
        counts += np.bincount(code, minlength=groups)
        for i, column in enumerate((c.kl, c.decisive, ~c.agree, c.tv, c.nll_cand)):
            sums[i] += np.bincount(code, weights=column, minlength=groups)
    return counts, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _tails(leg: Leg, floors: tuple[Leg, ...]) -> Table:
    labels = (
        "token KL, median",
        "token KL, 95 %",
        "token KL, 99 %",
        "token KL, 99.9 %",
        "token KL, largest",
        "same top token",
        "RMS change of the token's probability",
        "perplexity",
        "reference mass covered by shared tokens",
    )
    rows = tuple(zip(labels, _tail([leg]), _tail(list(floors)), strict=True))
    return Table("tails", ("figure", "candidate", "floor"), rows)


def _tail(legs: list[Leg]) -> tuple[float | None, ...]:
    """Over all positions of all legs, one column at a time: a leg may have a million."""
    if not sum(len(leg.compared.usable) for leg in legs):
        return (None,) * 9
    values = percentiles(_joined([x.compared.kl for x in legs]), (50, 95, 99, 99.9, 100))
    nll = float(_joined([x.compared.nll_cand for x in legs]).mean())
    return (
        *(_finite(v) for v in values),
        _mean(_joined([x.compared.agree for x in legs])),
        _finite(rms(_joined([x.compared.delta_p for x in legs]))),
        _finite(math.exp(min(nll, 700.0))),
        _mean(_joined([x.compared.covered for x in legs])),
    )


def _joined(columns: list[NDArray[_Value]]) -> NDArray[_Value]:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float | None:
    return _finite(float(values.mean()))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
