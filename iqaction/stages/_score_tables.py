"""Figures of `score` for display: by position, by input bucket, tails, plots. Judges nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from iqaction.report import Series, Table
from iqaction.stages._forced import Leg
from iqaction.stats.divergence import POSITION_BUCKETS, buckets
from iqaction.stats.summary import percentiles, rms

_COLUMNS = ("KL (>=)", "decisive", "differ", "TV (>=)", "NLL")
_MOST_POINTS = 512
_Label = Callable[[Leg], NDArray[np.str_]]


def tables(leg: Leg, floors: tuple[Leg, ...], bucket_of: Mapping[str, str]) -> tuple[Table, ...]:
    """By position bucket, by input bucket, and the tails, candidate beside floor."""
    if not leg.units:
        return ()
    return (
        _by(leg, floors, "by position", "position", _position_labels),
        _by(leg, floors, "by input", "bucket", lambda x: _bucket_labels(x, bucket_of)),
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
    order = np.argsort(-delta, kind="stable")[:_MOST_POINTS]
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


def _position_labels(leg: Leg) -> NDArray[np.str_]:
    length = int(leg.lengths().max(initial=0))
    names = np.array(POSITION_BUCKETS)[buckets(length)]
    labels: NDArray[np.str_] = names[_positions(leg)]
    return labels


def _bucket_labels(leg: Leg, bucket_of: Mapping[str, str]) -> NDArray[np.str_]:
    per_unit = np.array([bucket_of.get(u, "default") for u in leg.units])
    labels: NDArray[np.str_] = np.repeat(per_unit, leg.lengths())
    return labels


def _by(leg: Leg, floors: tuple[Leg, ...], title: str, head: str, label: _Label) -> Table:
    labels = label(leg)
    floor_labels = [label(f) for f in floors]
    rows = []
    present = set(labels.tolist())
    ordered = [n for n in POSITION_BUCKETS if n in present]
    for name in (*ordered, *sorted(present - set(ordered))):
        now = _figures([leg], [labels == name])
        before = _figures(list(floors), [x == name for x in floor_labels])
        rows.append((name, float((labels == name).sum()), *_interleave(now, before)))
    columns = [head, "positions"]
    for column in _COLUMNS:
        columns += [column, f"{column}, floor"]
    return Table(title, tuple(columns), tuple(rows))


def _interleave(
    now: tuple[float | None, ...], before: tuple[float | None, ...]
) -> tuple[float | None, ...]:
    return tuple(x for pair in zip(now, before, strict=True) for x in pair)


def _figures(legs: list[Leg], masks: list[NDArray[np.bool_]]) -> tuple[float | None, ...]:
    """Means over positions in the order of ``_COLUMNS``; None where there is no position."""
    n = sum(int(m.sum()) for m in masks)
    if n == 0:
        return (None,) * len(_COLUMNS)
    sums = np.zeros(len(_COLUMNS))
    for leg, mask in zip(legs, masks, strict=True):
        c = leg.compared
        sums += [
            c.kl[mask].sum(),
            c.decisive[mask].sum(),
            (~c.agree[mask]).sum(),
            c.tv[mask].sum(),
            c.nll_cand[mask].sum(),
        ]
    return tuple(_finite(x) for x in sums / n)


def _tails(leg: Leg, floors: tuple[Leg, ...]) -> Table:
    c = leg.compared
    now = _tail(c.kl, c.agree.astype(np.float64), c.delta_p, c.nll_cand)
    before = _tail(
        _joined([f.compared.kl for f in floors]),
        _joined([f.compared.agree.astype(np.float64) for f in floors]),
        _joined([f.compared.delta_p for f in floors]),
        _joined([f.compared.nll_cand for f in floors]),
    )
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
    covered = (_mean(c.covered), _mean(_joined([f.compared.covered for f in floors])))
    return Table(
        "tails",
        ("figure", "candidate", "floor"),
        tuple(zip(labels, (*now, covered[0]), (*before, covered[1]), strict=True)),
    )


def _tail(
    kl: NDArray[np.float64],
    agree: NDArray[np.float64],
    delta_p: NDArray[np.float64],
    nll: NDArray[np.float64],
) -> tuple[float | None, ...]:
    if not kl.size:
        return (None,) * 8
    values = percentiles(kl, (50, 95, 99, 99.9, 100))
    return (
        *(_finite(float(v)) for v in values),
        _mean(agree),
        _finite(float(rms(delta_p))),
        _finite(math.exp(min(float(nll.mean()), 700.0))),
    )


def _joined(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate(columns) if columns else np.empty(0)


def _mean(values: NDArray[np.float64]) -> float | None:
    return _finite(float(values.mean())) if values.size else None


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
