"""Does a sampler draw from its own distribution? Sums over positions, each with its own law.

Knows arrays: what may be drawn at each position (:mod:`iqaction.stats.filters`) and the place of
what was drawn. No engine, no prompt, no verdict.

Positions of a sequence depend on one another: what is drawn decides what comes next. Given all
that came before, though, a position's law is known, so observed minus expected is a martingale:
sums over positions have the sum of the conditional variances, and no independence is needed. A
position may be left out for any reason that was known before its draw. Outcomes may be left out
too where *all* positions with such an outcome are: the law is then that given "none of these".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from iqaction.stats.filters import Floats, Sampler, distribution, kept
from iqaction.stats.proportions import clopper_pearson_upper

BINS = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20))  # places in the list, from 1
SURE_OF_ONE = 0.98  # the top token's share from which a position says nothing but what is outside
_FEWEST = 10.0  # expected draws of a bin of the chi-square; a rarer one joins the bin before
_BOUNDARY = 1e-5  # of the draws may fall outside by a float's last digit that NEAR did not cover
_TIED = 4.0  # tokens that may share the list's last value, unseen: 16-bit logits tie
_ROUNDS = 50
_LEVEL = 0.95


@dataclass(frozen=True)
class Drawn:
    """One draw at each of ``n`` positions, from lists of ``k`` tokens.

    Attributes
    ----------
    logs : float64 (n, k)
        Log-probabilities of what may be drawn, at the temperature, normalised over ``among``.
    probabilities : float64 (n, k)
        The same as probabilities, 0 outside ``among``.
    place : int (n,)
        Which token of the list was drawn, from 0; ``k`` for one that is not in it.
    among : bool (n, k)
        The outcomes that are judged: kept for sure, and not left out.
    outside : bool (n,)
        True where what was drawn may not be drawn at all.
    last : float64 (n,)
        How likely a draw of the list's last token is where the cut comes after it; 0 elsewhere.
    """

    logs: Floats
    probabilities: Floats
    place: NDArray[np.intp]
    among: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    last: Floats


@dataclass(frozen=True)
class Score:
    """(A) Are likely tokens drawn as often as their log-probabilities say?

    ``ratio`` is the temperature that fits the draws over the one asked for: the maximum
    likelihood of ``q ** (1 / ratio)`` over the same tokens. ``information`` is the variance of
    ``log q`` summed over positions, and ``1 / sqrt(information)`` the standard error of
    ``1 / ratio`` near 1. None where the draws fit no temperature.
    """

    n: int
    z: float
    p: float
    ratio: float | None
    error: float | None  # standard error of 1 / ratio
    information: float

    def interval(self, z: float) -> tuple[float, float] | None:
        """Of ``ratio``, at ``z`` standard errors; the high end is infinite where the low end of
        ``1 / ratio`` is not above 0."""
        if self.ratio is None or self.error is None:
            return None
        low, high = 1 / self.ratio - z * self.error, 1 / self.ratio + z * self.error
        return (1 / high if high > 0 else math.inf), (1 / low if low > 0 else math.inf)


@dataclass(frozen=True)
class Ranks:
    """(B) Is each place of the list drawn as often as it should be?

    ``upper`` bounds the total variation distance over the bins from above, one-sided at 95 %:
    the largest, over all sets of bins, of the excess of draws in the set plus 1.645 standard
    errors. The distance is the largest excess itself, and the bound holds for that one set, so
    nothing is paid for looking at all of them.
    """

    n: int
    observed: tuple[int, ...]
    expected: tuple[float, ...]
    chi2: float
    df: int
    p: float
    distance: float | None
    upper: float | None


@dataclass(frozen=True)
class Support:
    """(C) Is anything drawn that was cut away?

    ``p`` is twice the smaller of two Poisson tails: of draws outside against what rounding
    explains, and of draws of the list's last token, behind which draws of unlisted
    ones hide where an engine puts what it drew in the last one's place.
    """

    n: int
    outside: int
    explained: float
    last: int
    last_explained: float
    p: float
    upper: float


@dataclass(frozen=True)
class Sums:
    """The three together. ``n`` of the first two counts informative positions only."""

    score: Score
    ranks: Ranks
    support: Support

    @property
    def p(self) -> Mapping[str, float]:
        return {"score": self.score.p, "ranks": self.ranks.p, "support": self.support.p}


def weighed(
    logprobs: Floats, place: NDArray[np.intp], unlisted: NDArray[np.bool_], sampler: Sampler
) -> Drawn:
    """The law of each position, over the tokens that are kept for sure, and what was drawn.

    Parameters
    ----------
    logprobs : (n, k)
        Raw log-probabilities, descending; ``-inf`` where fewer are listed.
    place : (n,)
        Of the draw in the list, from 0; ``k`` for a token that is not in it.
    unlisted : bool (n, k)
        Outcomes for which the engine lists no row at all: no position has one of them, so the law
        is that given none of them.
    """
    k = logprobs.shape[1]
    may = kept(logprobs, sampler)
    places = np.arange(k)
    among = (places < may.sure[:, None]) & ~unlisted
    probabilities, logs = distribution(logprobs, sampler.temperature, among)
    # Where the cut comes after the list's last token, an unlisted one may tie with it or, at some
    # engines, stand in its place: that outcome is not sure, and watched in a test of its own.
    at_end = ~may.open & (may.possible == k)
    q, _ = distribution(logprobs, sampler.temperature, places < may.possible[:, None])
    last = np.where(at_end, q[:, -1], 0.0) if k else np.zeros(len(place))
    outside = ~may.open & (place >= may.possible)
    return Drawn(logs, probabilities, place, among, outside, last)


def pooled(first: Drawn, second: Drawn) -> Drawn:
    """Both as one; their lists must be of the same length."""
    pairs = zip(vars(first).values(), vars(second).values(), strict=True)
    return Drawn(*(np.concatenate(pair) for pair in pairs))


def sums(drawn: Drawn) -> Sums:
    """All three, over every position given.

    Where the top token has a share of .98 or more, a position counts for the support only.
    """
    k = drawn.logs.shape[1]
    rows = np.arange(len(drawn.place))
    inside = np.minimum(drawn.place, max(k - 1, 0))
    judged = np.zeros(len(rows), np.bool_)
    if k:
        judged = (drawn.place < k) & drawn.among[rows, inside]
        judged &= drawn.probabilities.max(axis=1) < SURE_OF_ONE
    q, logs = drawn.probabilities[judged], drawn.logs[judged]
    place = drawn.place[judged]
    return Sums(_score(q, logs, place), _ranks(q, place), _support(drawn, k))


def holm(p: Mapping[str, float], level: float) -> tuple[str, ...]:
    """The names that are rejected at ``level`` by Holm's step-down rule, most striking first.

    A NaN is never rejected.
    """
    rejected = []
    ordered = sorted(p, key=lambda name: math.inf if math.isnan(p[name]) else p[name])
    for i, name in enumerate(ordered):
        if not p[name] < level / (len(p) - i):
            break
        rejected.append(name)
    return tuple(rejected)


def _score(q: Floats, logs: Floats, place: NDArray[np.intp]) -> Score:
    if not len(place):
        return Score(0, 0.0, 1.0, None, None, 0.0)
    chosen = logs[np.arange(len(place)), place]
    excess = float((chosen - (q * logs).sum(axis=1)).sum())
    information = float(_variance(q, logs).sum())
    if not information > 0:
        return Score(len(place), 0.0, 1.0, None, None, 0.0)
    z = excess / math.sqrt(information)
    ratio, error = _fit(q, logs, float(chosen.sum()))
    return Score(len(place), z, _two_sided(z), ratio, error, information)


def _variance(q: Floats, logs: Floats) -> Floats:
    middle = (q * logs).sum(axis=1, keepdims=True)
    variance: Floats = (q * (logs - middle) ** 2).sum(axis=1)
    return variance


def _fit(q: Floats, logs: Floats, chosen: float) -> tuple[float | None, float | None]:
    """The exponent that fits best, by Newton's steps: the likelihood is concave in it.

    Only exponents from 1/20 to 20 are looked at; None where the best lies beyond.
    """
    exponent = 1.0
    for _ in range(_ROUNDS):
        heavy = np.where(q > 0, exponent * logs, -np.inf)
        tilted = np.exp(heavy - heavy.max(axis=1, keepdims=True))
        tilted /= tilted.sum(axis=1, keepdims=True)
        slope = chosen - float((tilted * logs).sum())
        curve = float(_variance(tilted, logs).sum())
        step = slope / max(curve, 1e-300)
        exponent = min(max(exponent + step, exponent / 3), exponent * 3)
        if abs(step) < 1e-9:
            return 1 / exponent, 1 / math.sqrt(curve)
        if not 0.05 < exponent < 20:
            break
    return None, None


def _ranks(q: Floats, place: NDArray[np.intp]) -> Ranks:
    n = len(place)
    shares = np.zeros((n, len(BINS)))
    observed = np.zeros(len(BINS), np.int64)
    for b, (first, last) in enumerate(BINS):
        end = last if b + 1 < len(BINS) else q.shape[1]  # a longer list's rest is in the last bin
        shares[:, b] = q[:, first - 1 : end].sum(axis=1)
        observed[b] = ((place >= first - 1) & (place < max(end, first - 1))).sum()
    expected = shares.sum(axis=0)
    covariance = np.diag(expected) - shares.T @ shares
    excess = observed - expected
    chi2, df, p = _chi_square(excess, covariance, expected)
    distance, upper = _distance(excess, covariance, n)
    seen, due = tuple(int(x) for x in observed), tuple(float(x) for x in expected)
    return Ranks(n, seen, due, chi2, df, p, distance, upper)


def _chi_square(excess: Floats, covariance: Floats, expected: Floats) -> tuple[float, int, float]:
    """Of the excess by bin, rare bins joined with the one before: their counts are not normal."""
    groups: list[list[int]] = []
    for b, due in enumerate(expected):
        if groups and (due < _FEWEST or expected[groups[-1]].sum() < _FEWEST):
            groups[-1].append(b)
        else:
            groups.append([b])
    if len(groups) < 2:
        return 0.0, 0, 1.0
    join = np.zeros((len(groups), len(expected)))
    for g, members in enumerate(groups):
        join[g, members] = 1.0
    # The groups' excesses add up to 0: the last one says nothing more.
    d, v = (join @ excess)[:-1], (join @ covariance @ join.T)[:-1, :-1]
    from scipy import stats  # noqa: PLC0415 - 0.4 s to import

    chi2 = float(d @ np.linalg.pinv(v, rcond=1e-10, hermitian=True) @ d)
    df = int(np.linalg.matrix_rank(v, hermitian=True))
    return chi2, df, float(stats.chi2.sf(chi2, df)) if df else 1.0


def _distance(excess: Floats, covariance: Floats, n: int) -> tuple[float | None, float | None]:
    if not n:
        return None, None
    sets = np.array([[s >> b & 1 for b in range(len(excess))] for s in range(2 ** len(excess))])
    over = sets @ excess
    error = np.sqrt(np.maximum(0.0, ((sets @ covariance) * sets).sum(axis=1)))
    bound = over + NormalDist().inv_cdf(_LEVEL) * error
    return max(0.0, float(over.max())) / n, max(0.0, float(bound.max())) / n


def _support(drawn: Drawn, k: int) -> Support:
    n, outside = len(drawn.place), int(drawn.outside.sum())
    last = int((~drawn.outside & (drawn.place >= k - 1) & (drawn.last > 0)).sum())
    explained = n * _BOUNDARY
    last_explained = _TIED * float(drawn.last.sum()) + n * _BOUNDARY
    p = min(1.0, 2 * min(_at_least(outside, explained), _at_least(last, last_explained)))
    upper = clopper_pearson_upper(outside, n, _LEVEL) if n else 1.0
    return Support(n, outside, explained, last, last_explained, p, upper)


def _at_least(count: int, mean: float) -> float:
    """How often a Poisson count of that mean is as large."""
    if count == 0:
        return 1.0
    from scipy import special  # noqa: PLC0415 - 0.4 s to import

    return float(special.gammainc(count, mean))


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))
