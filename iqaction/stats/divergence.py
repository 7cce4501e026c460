"""How far two arms' next-token distributions lie apart, position by position.

Knows log-probability lists that are cut to their top k. Knows no model, prompt, margin or verdict.

Each engine tells only its k most likely tokens, so no distance between the full distributions can
be computed. What is computed is the distance between two *coarsened* ones: the tokens that both
arms tell, and OTHER, all the rest as one outcome. By the log-sum inequality (the data-processing
inequality of Kullback and Leibler, 1951) that is a lower bound of the full value. It says nothing
of what happens beyond rank k: a permuted tail is invisible.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Keys = NDArray[np.signedinteger]  # of tokens; the two sides may be of different widths

POSITION_BUCKETS = ("0-15", "16-63", "64-255", "256+")
_EDGES = (16, 64, 256)
_ROUNDING = 1e-6  # a sum of float32 probabilities kept to 6 decimals is no better than this
_ELEMENTS = 32768  # of one working array: .25 MB each, so that a chunk stays in the cache
_NOTHING = -1e5  # nats of an empty slot: its probability is 0, and 0 times it is 0, not NaN
_NO_REF, _NO_CAND = -1, -2  # empty slots of the two sides; differ, so that they never match


class Lists(NamedTuple):
    """One arm's rows: ``n`` positions with at most ``k`` listed tokens each.

    Attributes
    ----------
    chosen : int (n,)
        Key of the chosen (or forced) token, 0 or above.
    logprob : float (n,)
        Its log-probability in nats; NaN where there is none.
    top : int (n, k)
        Keys of the listed tokens, distinct within a row, in any order; negative where a slot is
        empty.
    top_logprob : float (n, k)
        Their log-probabilities in nats; ``-inf`` where a slot is empty.
    usable : bool (n,)
        False where the row's numbers are no measurement.
    """

    chosen: Keys
    logprob: Floats
    top: Keys
    top_logprob: Floats
    usable: NDArray[np.bool_]


class Compared(NamedTuple):
    """What two arms' rows say of each other; every field has shape ``(n,)``.

    Attributes
    ----------
    usable
        Both rows usable, both lists non-empty, and the chosen keys equal. Where False, booleans
        are False and numbers NaN (``nll_ref`` and ``nll_cand`` need no list, see there).
    kl
        KL(ref || cand) in nats, at least 0 and finite: a lower bound of the full value.
    tv
        Total variation on the same support, 0 to 1.
    agree
        Both arms have the same most likely token (over the list and the chosen token).
    decisive
        They do not, and the reference prefers its own by more than ``decisive_nats``.
    nll_ref, nll_cand
        Nats of the chosen token. Also given where a list is empty; NaN where either row is
        unusable or the chosen keys differ.
    delta_p
        Probability of the chosen token, candidate - reference.
    covered
        The reference's probability mass in tokens that both arms tell.
    floored
        Nothing was left for OTHER on the candidate only, where KL is infinite: ``tolerance`` was
        put there.
    disjoint
        The lists share no token. This is a disagreement: ``agree`` is False and ``kl`` not 0.
    """

    usable: NDArray[np.bool_]
    kl: NDArray[np.float64]
    tv: NDArray[np.float64]
    agree: NDArray[np.bool_]
    decisive: NDArray[np.bool_]
    nll_ref: NDArray[np.float64]
    nll_cand: NDArray[np.float64]
    delta_p: NDArray[np.float64]
    covered: NDArray[np.float64]
    floored: NDArray[np.bool_]
    disjoint: NDArray[np.bool_]


class _Side(NamedTuple):
    """Some rows of one arm, transposed to (k, rows): sums over k then run along memory."""

    chosen: Keys  # (rows,)
    logprob: NDArray[np.float64]  # (rows,)
    readable: NDArray[np.bool_]  # (rows,): every number is a log-probability
    top: Keys  # (k, rows)
    listed: NDArray[np.bool_]  # (k, rows)
    value: NDArray[np.float64]  # (k, rows), _NOTHING where not listed


class _Distance(NamedTuple):
    kl: NDArray[np.float64]
    tv: NDArray[np.float64]
    covered: NDArray[np.float64]
    floored: NDArray[np.bool_]
    disjoint: NDArray[np.bool_]


def compare(
    ref: Lists, cand: Lists, *, tolerance: float = 1e-4, decisive_nats: float = 0.5
) -> Compared:
    """Compare a candidate's rows with the reference's rows of the same forced tokens.

    Both lists of a row are cut to the same number of most likely tokens, the smaller of the two
    arms' (tokens tied at the cut stay), and the chosen token is added. KL and TV are taken over
    the tokens that both tell and OTHER, each side's remaining mass. A decisive disagreement looks
    the candidate's favourite up in the whole list of the reference; one that is unlisted there
    counts as the smallest listed value, so a list of one token can never show one.

    Where the lists share no token (the chosen one counts as listed where it is on either list, or
    as likely as a listed token), KL over OTHER alone would read 0. Such a row is valued as if the
    reference had no mass at all on the candidate's list, of mass m: KL = -log(1 - m), TV = m,
    with 1 - m at least ``tolerance``. That is a penalty and no bound.

    Parameters
    ----------
    ref, cand
        The same ``n`` positions; the two ``k`` may differ, and may be 0. Float32 is computed as
        float64.
    tolerance
        A probability: what rounding may hide. Positive log-probabilities up to it are accepted;
        a row with a larger one, or with NaN, is not usable. Also the floor of ``floored``.
    decisive_nats
        Nats, above 0.

    Returns
    -------
    Compared
        Identical arms give ``kl`` and ``tv`` of exactly 0. No positions give empty arrays.

    Raises
    ------
    ValueError
        Where shapes do not fit together or an option is not finite and above 0.

    Notes
    -----
    KL is summed as ``p log(p/q) - p + q``, whose terms are each at least 0 and whose additions
    cancel over a whole distribution: rounding cannot make it negative, and dropping a term only
    lowers it. Memory beyond the result is a few MB for any ``n``.
    """
    # Input validation
    n = _length(ref, "ref")
    if _length(cand, "cand") != n:
        raise ValueError(f"`ref` has {n} positions, `cand` {cand.chosen.shape[0]}")
    for name, option in (("tolerance", tolerance), ("decisive_nats", decisive_nats)):
        if not (math.isfinite(option) and option > 0):
            raise ValueError(f"`{name}` is {option}, not a number above 0")

    out = _blank(n)
    step = max(1, _ELEMENTS // max(1, ref.top.shape[1], cand.top.shape[1]))
    for start in range(0, n, step):
        part = slice(start, start + step)
        sides = _side(ref, part, tolerance), _side(cand, part, tolerance)
        _fill(out, start, sides, tolerance, decisive_nats)
    return out


def buckets(n: int) -> NDArray[np.int64]:
    """The index into :data:`POSITION_BUCKETS` of positions 0 to ``n - 1``."""
    return np.searchsorted(_EDGES, np.arange(n), side="right").astype(np.int64)


def _length(lists: Lists, name: str) -> int:
    shape = lists.top.shape
    if len(shape) != 2 or lists.top_logprob.shape != shape:
        raise ValueError(f"`{name}`: lists of shape {shape} and {lists.top_logprob.shape}")
    for field in ("chosen", "logprob", "usable"):
        if getattr(lists, field).shape != (shape[0],):
            raise ValueError(
                f"`{name}`: {field} is {getattr(lists, field).shape}, not {(shape[0],)}"
            )
    return int(shape[0])


def _blank(n: int) -> Compared:
    def no() -> NDArray[np.bool_]:
        return np.zeros(n, np.bool_)

    def nan() -> NDArray[np.float64]:
        return np.full(n, np.nan)

    return Compared(no(), nan(), nan(), no(), no(), nan(), nan(), nan(), nan(), no(), no())


def _side(lists: Lists, part: slice, tolerance: float) -> _Side:
    top = np.ascontiguousarray(lists.top[part].T)
    value = np.ascontiguousarray(lists.top_logprob[part].T, dtype=np.float64)
    logprob = lists.logprob[part].astype(np.float64)
    # `initial` serves k = 0. NaN survives a maximum and fails the comparison, as it must.
    worst = value.max(axis=0, initial=-np.inf)
    readable = (worst <= tolerance) & (logprob <= tolerance) & (logprob > -np.inf)
    listed = (top >= 0) & (value > -np.inf)
    if not listed.all():
        value = np.where(listed, value, _NOTHING)
    return _Side(lists.chosen[part], logprob, lists.usable[part] & readable, top, listed, value)


def _only(side: _Side, some: NDArray[np.bool_]) -> _Side:
    chosen, logprob, readable, top, listed, value = side
    return _Side(
        chosen[some],
        logprob[some],
        readable[some],
        top[:, some],
        listed[:, some],
        value[:, some],
    )


def _fill(
    out: Compared, start: int, sides: tuple[_Side, _Side], tolerance: float, nats: float
) -> None:
    """Write the results of the rows from ``start`` on."""
    ref, cand = sides
    forced = ref.readable & cand.readable & (ref.chosen == cand.chosen)
    some = forced & ref.listed.any(axis=0) & cand.listed.any(axis=0)
    out.usable[start : start + some.size] = some
    rows = start + np.flatnonzero(forced)
    out.nll_ref[rows] = 0.0 - np.minimum(ref.logprob[forced], 0.0)
    out.nll_cand[rows] = 0.0 - np.minimum(cand.logprob[forced], 0.0)
    if not some.any():
        return
    if not some.all():
        ref, cand = _only(ref, some), _only(cand, some)
    rows = start + np.flatnonzero(some)
    distance = _distance(ref, cand, tolerance)
    out.kl[rows], out.tv[rows], out.covered[rows] = distance[:3]
    out.floored[rows], out.disjoint[rows] = distance[3:]
    favourite, height = _favourite(ref)
    rival, _ = _favourite(cand)
    same = favourite == rival
    out.agree[rows] = same & ~distance.disjoint
    out.decisive[rows] = ~same & (height - _value_of(rival, ref) > nats)
    out.delta_p[rows] = np.exp(cand.logprob) - np.exp(ref.logprob)


def _favourite(side: _Side) -> tuple[Keys, NDArray[np.float64]]:
    """The most likely token over list and chosen token, and its nats.

    Engines do not order their lists alike, so a tie goes to the chosen token (which both arms
    share), else to the smallest key: never to whichever stands first.
    """
    height = side.value.max(axis=0)
    first = np.where(side.value == height, side.top, np.iinfo(side.top.dtype).max).min(axis=0)
    return np.where(side.logprob >= height, side.chosen, first), np.maximum(height, side.logprob)


def _value_of(token: Keys, side: _Side) -> NDArray[np.float64]:
    """Nats of ``token`` on this side; the smallest listed value where it is not told."""
    told = np.where(side.top == token, side.value, -np.inf).max(axis=0)
    smallest = np.where(side.listed, side.value, np.inf).min(axis=0)
    told = np.where(told > -np.inf, told, smallest)
    return np.where(token == side.chosen, side.logprob, told)


def _cut(ref: _Side, cand: _Side) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which slots stay where both lists keep as many tokens as the shorter one has."""
    if ref.listed.shape == cand.listed.shape and ref.listed.all() and cand.listed.all():
        return ref.listed, cand.listed
    shorter = np.minimum(ref.listed.sum(axis=0), cand.listed.sum(axis=0))
    kept = []
    for side in (ref, cand):
        keep = side.listed.copy()
        long = np.flatnonzero(keep.sum(axis=0) > shorter)
        if long.size:
            value = side.value[:, long]
            last = keep.shape[0] - shorter[long]  # of an ascending sort, empty slots first
            limit = np.take_along_axis(np.sort(value, axis=0), last[None, :], axis=0)
            keep[:, long] &= value >= limit
        kept.append(keep)
    return kept[0], kept[1]


def _distance(ref: _Side, cand: _Side, tolerance: float) -> _Distance:
    keep_ref, keep_cand = _cut(ref, cand)
    # The chosen token is known on both sides whatever the lists say: it is matched apart.
    mine = np.where(keep_ref & (ref.top != ref.chosen), ref.top, _NO_REF)
    theirs = np.where(keep_cand & (cand.top != ref.chosen), cand.top, _NO_CAND)
    slot = _slots(mine, theirs)
    shared = slot > 0
    other = _taken(cand.value, slot)
    # Products with the mask, not np.where: at random masks it mispredicts every branch.
    p, q = np.exp(ref.value), np.exp(other)
    p *= shared
    q *= shared
    p0, q0 = np.exp(ref.logprob), np.exp(cand.logprob)
    covered, told = p0 + p.sum(axis=0), q0 + q.sum(axis=0)
    apart = np.subtract(ref.value, other, out=other)
    apart *= p
    kl = p0 * (ref.logprob - cand.logprob) + apart.sum(axis=0) - covered + told

    rest_ref, rest_cand = np.maximum(1 - covered, 0), np.maximum(1 - told, 0)
    rest_kl, floored = _rest(rest_ref, rest_cand, tolerance)
    kl = np.maximum(kl + rest_kl, 0)
    moved = np.abs(np.subtract(p, q, out=p), out=p).sum(axis=0)
    tv = (np.abs(p0 - q0) + moved + np.abs(rest_ref - rest_cand)) / 2

    disjoint = np.logical_not(shared.any(axis=0))
    if disjoint.any():
        disjoint = disjoint & ~(_among(ref, keep_ref) | _among(cand, keep_cand))
        mass = np.where(keep_cand, np.exp(cand.value), 0).sum(axis=0)
        penalty = -np.log(np.maximum(1 - mass, tolerance))
        kl = np.where(disjoint, np.maximum(kl, penalty), kl)
        tv = np.where(disjoint, np.maximum(tv, mass), tv)
        floored |= disjoint & (1 - mass < tolerance)
    return _Distance(kl, np.minimum(tv, 1), np.minimum(covered, 1), floored, disjoint)


def _taken(values: NDArray[np.float64], slot: NDArray[np.unsignedinteger]) -> NDArray[np.float64]:
    """``values[slot - 1]`` in each column; anything where the slot is 0."""
    at = slot.astype(np.intp)
    at -= 1
    at *= slot.shape[1]
    at += np.arange(slot.shape[1])
    return values.take(at, mode="wrap")


def _slots(mine: Keys, theirs: Keys) -> NDArray[np.unsignedinteger]:
    """For each of ``mine`` the row of ``theirs`` with the same key, counted from 1; 0 for none.

    Small integers, so that the k comparisons of each slot touch little memory.
    """
    kind = np.uint8 if theirs.shape[0] < 256 else np.uint32
    slot = np.zeros(mine.shape, kind)
    for number, key in enumerate(theirs, start=1):
        np.maximum(slot, (mine == key) * kind(number), out=slot)
    return slot


def _among(side: _Side, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where the chosen token is on the list, or as likely as a token on it."""
    named = (keep & (side.top == side.chosen)).any(axis=0)
    likely = side.logprob >= np.where(keep, side.value, np.inf).min(axis=0)
    among: NDArray[np.bool_] = named | likely
    return among


def _rest(
    ref: NDArray[np.float64], cand: NDArray[np.float64], tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """OTHER's share of KL, and where the candidate's OTHER had to be floored.

    A candidate's OTHER within rounding of 0 is infinitely far from a real one, and no distance at
    all from one that is itself within ``tolerance``: there the term is dropped.
    """
    none = cand <= _ROUNDING
    floored = none & (ref > tolerance)
    safe = np.where(none, tolerance, cand)
    term = ref * np.log(np.maximum(ref, np.finfo(np.float64).tiny) / safe) - ref + cand
    return np.where(none & ~floored, 0.0, term), floored
