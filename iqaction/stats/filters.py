"""Which tokens a sampler may draw, as far as a list of the most likely ones tells.

Knows arrays of raw log-probabilities and a sampler's settings; no engine, no token, no verdict.

Every filter keeps the most likely tokens, so what is kept is always the head of the list and one
number says it. The final distribution depends on that number alone: whatever the order, it is
``p ** (1 / temperature)`` over what was kept. What lies beyond the list is known by its total
only, ties are sorted one way or the other, and sums end in a rounded digit: so two numbers are
told, how many tokens are kept for sure and how many may be. Given that one of the sure ones was
drawn, the distribution over them is exact, whatever became of the others.
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
NEAR = 1e-4  # of a sum, or in nats: engines add up in other orders and widths
_LARGEST = 700.0  # the largest exponent that a float holds
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
    sure, possible : int (n,)
        How many of the list's first tokens are kept at least, and at most.
    open : bool (n,)
        True where tokens that are not listed may be drawn too.
    """

    sure: Ints
    possible: Ints
    open: Bools


def kept(logprobs: ArrayLike, sampler: Sampler) -> Kept:
    """What the sampler may draw, given each position's list.

    Where the order of the filters is not known, sure is what every order that an engine may have
    keeps, and possible what any of them does.

    Parameters
    ----------
    logprobs : (n, k)
        Raw log-probabilities in nats, descending; ``-inf`` where fewer are listed.
    """
    listed = np.asarray(logprobs, np.float64)
    orders = [sampler.order] if sampler.order else _orders(sampler.active)
    found = [_in_order(listed, sampler, order) for order in orders]
    return Kept(
        np.min([f.sure for f in found], axis=0),
        np.max([f.possible for f in found], axis=0),
        np.any([f.open for f in found], axis=0),
    )


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
            state.cut(state.by_top_k())
        elif step == TOP_P:
            state.cut(state.by_top_p())
        elif step == MIN_P:
            state.cut(state.by_min_p())
        elif step == JOINT:
            by_p = state.by_top_p()  # before the cut: over the whole distribution
            state.cut(state.by_top_k())
            state.cut(by_p)
    return state.result()


Cut = tuple[Ints, Ints] | None
"""How many tokens a filter keeps, at least and at most; more than are listed: all, and it may be
some of the unlisted ones as well. None where it is off."""


class _State:
    """The kept head of each list while filters are applied one after another.

    Weights are on the scale where the first token weighs 1. The tail's is within ``low`` and
    ``high``, and 0 to 0 once it was cut off for sure.
    """

    def __init__(self, listed: Floats, sampler: Sampler) -> None:
        n, self._k = listed.shape
        self._sampler, self._raw = sampler, listed
        self._places = np.arange(self._k)
        self._full = np.isfinite(listed).sum(axis=1)
        self._sure, self._possible = self._full.copy(), self._full.copy()
        self._first = np.where(self._full > 0, listed[:, 0], 0.0) if self._k else np.zeros(n)
        self._log = listed - self._first[:, None]
        self._unlisted = np.maximum(0.0, 1.0 - np.exp(listed).sum(axis=1))
        self._low = self._high = self._unlisted * np.exp(np.minimum(-self._first, _LARGEST))
        self._open = np.ones(n, np.bool_)

    def result(self) -> Kept:
        return Kept(self._sure, self._possible, self._open)

    def heat(self) -> None:
        """Divide logits by the temperature; the tail's weight is from here on between bounds.

        With ``m`` unlisted, each at most ``s``, and ``V`` tokens: ``sum p^(1/T)`` is at most
        ``m s^(1/T - 1)`` below 1, and ``m^(1/T) V^(1 - 1/T)`` above, where the shares are equal;
        for the other side the two change places.
        """
        t = self._sampler.temperature
        if t == 1 or not self._k:
            return
        self._log = (self._raw - self._first[:, None]) / t
        with np.errstate(divide="ignore"):
            mass = np.log(self._unlisted)
        at = np.maximum(self._full - 1, 0)[:, None]
        last = np.where(self._full > 0, np.take_along_axis(self._raw, at, 1)[:, 0], 0.0)
        few = mass + (1 / t - 1) * last
        equal = mass / t + (1 - 1 / t) * math.log(self._sampler.vocabulary)
        low, high = (
            np.exp(np.minimum(bound - self._first / t, _LARGEST))
            for bound in ((equal, few) if t < 1 else (few, equal))
        )
        # A tail that may be gone already has no weight for sure.
        self._low = np.where(self._low > 0, np.minimum(low, high), 0.0)
        self._high = np.where(self._open, high, 0.0)

    def by_top_k(self) -> Cut:
        k = self._sampler.top_k
        if k < 1:
            return None
        count = np.full(self._full.shape, min(k, self._k + 1))
        return self._untied(count, count)

    def by_min_p(self) -> Cut:
        """What is at least ``min_p`` times as likely as the most likely token."""
        least = self._sampler.min_p
        if least <= 0:
            return None
        limit = math.log(least)
        return self._beyond((self._log >= limit + NEAR).sum(axis=1)), self._beyond(
            (self._log >= limit - NEAR).sum(axis=1)
        )

    def by_top_p(self) -> Cut:
        """How many tokens it takes to reach ``top_p`` of all that is left, tail included."""
        p = self._sampler.top_p
        if p >= 1:
            return None
        weights = np.exp(self._log)
        sums = np.cumsum(weights, axis=1)
        counts = []
        for kept, tail, near in (
            (self._sure, self._low, -NEAR),
            (self._possible, self._high, NEAR),
        ):
            inside = self._places < kept[:, None]
            total = np.where(inside, weights, 0.0).sum(axis=1) + tail
            short = inside & (sums < ((p + near) * total)[:, None])
            count = short.sum(axis=1) + 1
            counts.append(np.where(count > kept, self._k + 1, count))
        return self._untied(counts[0], counts[1])

    def cut(self, count: Cut) -> None:
        """Keep no more than the first ``count`` tokens, at least and at most."""
        if count is None:
            return
        sure, possible = count
        self._sure = np.minimum(self._sure, np.minimum(sure, possible))
        self._possible = np.minimum(self._possible, possible)
        # A cut within the list takes the tail off; one beyond it, nobody knows how much of it.
        self._open &= possible > self._full
        self._low = np.zeros_like(self._low)
        self._high = np.where(self._open, self._high, 0.0)

    def _beyond(self, count: Ints) -> Ints:
        """All that is listed stays: then unlisted tokens may stay too."""
        return np.where(count >= self._full, self._k + 1, count)

    def _untied(self, sure: Ints, possible: Ints) -> Cut:
        """Equally likely tokens on both sides of a cut: which of them stay is the engine's way of
        sorting, and some keep all. Logits of 16 bits tie often. Where the cut comes after the
        last token listed, those that tie with it are not seen."""
        if not self._k:
            return sure, possible
        before = self._value(sure)
        fewer = (self._raw > before[:, None] + NEAR).sum(axis=1)
        next_ = self._value(sure + 1)
        hidden = sure >= self._full
        tied = (next_ > before - NEAR) | hidden
        least = np.where((sure <= self._full) & tied, fewer, sure)
        more = (self._raw > self._value(possible)[:, None] - NEAR).sum(axis=1)
        return least, np.where(possible <= self._full, np.maximum(possible, more), possible)

    def _value(self, count: Ints) -> Floats:
        """The log-probability of the ``count``-th token listed, ``-inf`` beyond them."""
        at = np.clip(count - 1, 0, self._k - 1)[:, None]
        found = np.take_along_axis(self._raw, at, 1)[:, 0]
        return np.where((count >= 1) & (count <= self._full), found, -np.inf)


def distribution(
    logprobs: ArrayLike, temperature: float, among: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Probabilities of the listed tokens ``among`` (n, k) at the temperature, and their logs.

    0 and 0 for the others; all 0 where none is among them.
    """
    logs = np.where(among, np.asarray(logprobs, np.float64) / temperature, -np.inf)
    largest = logs.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
    total = weights.sum(axis=1, keepdims=True)
    q = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    with np.errstate(divide="ignore"):
        return q, np.where(q > 0, np.log(q), 0.0)
