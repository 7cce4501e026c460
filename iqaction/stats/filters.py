"""Which tokens a sampler may draw, as far as a list of the most likely ones tells.

Knows arrays of raw log-probabilities and a sampler's settings; no engine, no token, no verdict.

Every filter keeps the most likely tokens, so what is kept is always the head of the list and one
number says it. The final distribution depends on that number alone: whatever the order, it is
``p ** (1 / temperature)`` over what was kept. What lies beyond the list is known by its total
only, so each step carries bounds of the tail's weight, and a position where the tail, a tie or
the last digit of a float could move the cut is not decided.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.intp]

TEMPERATURE, TOP_K, TOP_P, MIN_P = "temperature", "top_k", "top_p", "min_p"
JOINT = "top_k+top_p"  # both over one distribution: what is outside the top k counts for top_p
FILTERS = (TEMPERATURE, TOP_K, TOP_P, MIN_P, JOINT)
MOST_TAIL = 1e-3  # of what is listed: more may lie beyond the list and still be drawn
NEAR = 1e-4  # of a sum, or in nats: engines add up in other orders and widths
VOCABULARY = 2**18  # where it is not known: none in use is much larger


@dataclass(frozen=True)
class Sampler:
    """What was asked for, and how the engine goes about it.

    Attributes
    ----------
    top_k, top_p, min_p
        0, 1 and 0 are off.
    order
        The filters in the order applied, of :data:`FILTERS`; empty: not known.
    vocabulary
        How many tokens there are; :data:`VOCABULARY` where that is not known.
    """

    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    order: tuple[str, ...] = ()
    vocabulary: int = VOCABULARY

    @property
    def active(self) -> tuple[str, ...]:
        """The settings that do something, without regard to their order."""
        on = (self.temperature != 1, self.top_k > 0, self.top_p < 1, self.min_p > 0)
        return tuple(itertools.compress((TEMPERATURE, TOP_K, TOP_P, MIN_P), on))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Active settings that a known order has no step for: the engine ignores them."""
        steps = {name for step in self.order for name in step.split("+")}
        return tuple(name for name in self.active if self.order and name not in steps)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Steps of the order that are not modelled."""
        return tuple(step for step in self.order if step not in FILTERS)


@dataclass(frozen=True)
class Kept:
    """What may be drawn at each of ``n`` positions.

    Attributes
    ----------
    count : int (n,)
        How many of the list's first tokens.
    decided : bool (n,)
        False where the list does not tell it.
    tail : float64 (n,)
        At most how much unlisted weight may be drawn as well, as a share of the kept listed
        weight; 0 where a filter cut the tail off.
    """

    count: Ints
    decided: Bools
    tail: Floats


def kept(logprobs: ArrayLike, sampler: Sampler) -> Kept:
    """What the sampler may draw, given each position's list.

    Where the order of the filters is not known, a position is decided only if every order that an
    engine may have keeps the same tokens.

    Parameters
    ----------
    logprobs : (n, k)
        Raw log-probabilities in nats, descending; ``-inf`` where fewer are listed.
    """
    listed = np.asarray(logprobs, np.float64)
    if sampler.order:
        return _in_order(listed, sampler, sampler.order)
    found = [_in_order(listed, sampler, order) for order in _orders(sampler.active)]
    first, decided = found[0], np.logical_and.reduce([f.decided for f in found])
    for other in found[1:]:
        decided &= other.count == first.count
    return Kept(first.count, decided, np.max([f.tail for f in found], axis=0))


def _orders(active: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    yield from itertools.permutations(active)
    if TOP_K in active and TOP_P in active:
        rest = (JOINT, *(f for f in active if f not in (TOP_K, TOP_P)))
        yield from itertools.permutations(rest)


def _in_order(listed: Floats, sampler: Sampler, order: tuple[str, ...]) -> Kept:
    state = _State(listed, sampler)
    for step in order:
        if step == TEMPERATURE:
            state.heat()
        elif step == TOP_K:
            state.cut_top_k()
        elif step == TOP_P:
            state.cut_top_p()
        elif step == MIN_P:
            state.cut_min_p()
        elif step == JOINT:
            state.cut_both()
    return state.result()


class _State:
    """The kept head of each list while filters are applied one after another."""

    def __init__(self, listed: Floats, sampler: Sampler) -> None:
        n, self._k = listed.shape
        self._sampler, self._raw = sampler, listed
        self._places = np.arange(self._k)
        self._full = np.isfinite(listed).sum(axis=1)
        self._count = self._full.copy()
        self._decided = self._full > 0
        self._log = _relative(listed)
        unlisted = np.maximum(0.0, 1.0 - np.exp(listed).sum(axis=1))
        first = np.where(self._full > 0, listed[:, 0], 0.0) if self._k else np.zeros(n)
        # The tail's weight, on the scale where the first token weighs 1.
        self._low = self._high = unlisted * np.exp(-first)

    def result(self) -> Kept:
        # The most likely token always stays, so this is at least 1 where anything is listed.
        weight = np.maximum(self._weights().sum(axis=1), 1.0)
        return Kept(self._count, self._decided & (self._count > 0), self._high / weight)

    def heat(self) -> None:
        """Divide logits by the temperature; the tail's weight is from here on a bound.

        With ``m`` unlisted, each at most ``s``, and ``V`` tokens: ``sum p^(1/T)`` is at most
        ``m s^(1/T - 1)`` below 1, and ``m^(1/T) V^(1 - 1/T)`` above (equal shares).
        """
        t = self._sampler.temperature
        if t == 1 or not self._k:
            return
        self._log = _relative(self._raw / t)
        alive, first = self._high > 0, np.where(self._full > 0, self._raw[:, 0], 0.0)
        with np.errstate(divide="ignore"):
            mass = np.log(np.maximum(0.0, 1.0 - np.exp(self._raw).sum(axis=1)))
        if t < 1:
            last = np.take_along_axis(self._raw, np.maximum(self._full - 1, 0)[:, None], 1)[:, 0]
            bound = mass + (1 / t - 1) * np.where(self._full > 0, last, 0.0)
        else:
            bound = mass / t + (1 - 1 / t) * math.log(self._sampler.vocabulary)
        self._high = np.where(alive, np.exp(np.minimum(bound - first / t, 700.0)), 0.0)
        self._low = np.zeros_like(self._high)

    def cut_top_k(self) -> None:
        self._keep_first(self._by_top_k())

    def cut_top_p(self) -> None:
        self._keep_first(self._by_top_p())

    def cut_both(self) -> None:
        by_p = self._by_top_p()  # before the cut: over the whole distribution
        self._keep_first(self._by_top_k())
        self._keep_first(by_p)

    def cut_min_p(self) -> None:
        """Keep what is at least ``min_p`` times as likely as the most likely token."""
        least = self._sampler.min_p
        if least <= 0:
            return
        limit = math.log(least)
        inside = self._places < self._count[:, None]
        self._decided &= ~(inside & (np.abs(self._log - limit) < NEAR)).any(axis=1)
        count = (inside & (self._log >= limit)).sum(axis=1)
        # Where all that is listed stays, unlisted tokens may stay too.
        self._keep_first(np.where(count < self._count, count, self._k + 1), ties=False)

    def _by_top_k(self) -> Ints:
        k = self._sampler.top_k
        # One more than is listed stands for "and the tail".
        return np.full(self._full.shape, k if 0 < k <= self._k else self._k + 1)

    def _by_top_p(self) -> Ints:
        """How many tokens it takes to reach ``top_p``; more than are listed where the tail is
        needed for it. Undecided where the tail's weight, or rounding, moves that."""
        p = self._sampler.top_p
        if p >= 1:
            return np.full(self._full.shape, self._k + 1)
        weights = self._weights()
        sums = np.cumsum(weights, axis=1)
        total = sums[:, -1:] if self._k else np.zeros((len(self._full), 1))
        low, high = total[:, 0] + self._low, total[:, 0] + self._high
        inside = self._places < self._count[:, None]
        reached = [(inside & (sums < p * x[:, None])).sum(axis=1) + 1 for x in (low, high)]
        near = np.abs(sums - p * low[:, None]) < NEAR * low[:, None]
        # Only another token after it makes a near sum matter: all that there is ends at 1.
        more = self._places + 1 < self._count[:, None]
        alive = (self._high > 0) & (self._count == self._full)
        more |= (self._places + 1 == self._count[:, None]) & alive[:, None]
        self._decided &= (reached[0] == reached[1]) & ~(inside & near & more).any(axis=1)
        count: Ints = reached[0]
        return count

    def _keep_first(self, count: Ints, *, ties: bool = True) -> None:
        """Cut down to the first ``count`` tokens; more than are listed leaves the tail in."""
        cuts = count < self._count
        if ties and self._k > 1:
            # Two equally likely tokens on both sides of the cut: which of them stays is the
            # engine's way of sorting, and logits of 16 bits tie often.
            at = np.clip(count, 1, self._k - 1)[:, None]
            before = np.take_along_axis(self._raw, at - 1, 1)[:, 0]
            after = np.take_along_axis(self._raw, at, 1)[:, 0]
            with np.errstate(invalid="ignore"):
                self._decided &= ~(cuts & (before - after < NEAR))
        self._count = np.where(cuts, count, self._count)
        ended = cuts | (count <= self._full)
        self._low, self._high = np.where(ended, 0.0, self._low), np.where(ended, 0.0, self._high)

    def _weights(self) -> Floats:
        inside = self._places < self._count[:, None]
        return np.where(inside, np.exp(self._log), 0.0)


def distribution(
    logprobs: ArrayLike, temperature: float, among: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Probabilities of the listed tokens ``among`` (n, k) at the temperature, and their logs.

    0 and 0 for the others; all 0 where none is among them.
    """
    logs = np.where(among, np.asarray(logprobs, np.float64) / temperature, -np.inf)
    weights = np.exp(_relative(logs))
    total = weights.sum(axis=1, keepdims=True)
    q = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    with np.errstate(divide="ignore"):
        return q, np.where(q > 0, np.log(q), 0.0)


def _relative(logs: Floats) -> Floats:
    """Logs with each row's largest at 0; rows without any stay ``-inf``."""
    largest = logs.max(axis=1, keepdims=True) if logs.shape[1] else np.zeros((len(logs), 1))
    return logs - np.where(np.isfinite(largest), largest, 0.0)
