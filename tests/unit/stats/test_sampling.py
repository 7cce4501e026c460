from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from iqaction.stats import sampling
from iqaction.stats.filters import Sampler
from iqaction.stats.sampling import BINS, Drawn, Score, Sums, holm, pooled, sums, weighed

OPEN = Sampler(1.0, order=("temperature",))


def lists(n: int, k: int, seed: int = 0, spread: float = 1.5) -> np.ndarray:
    """Raw lists that hold all there is."""
    logits = np.sort(np.random.default_rng(seed).normal(0, spread, (n, k)))[:, ::-1]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def drawn_from(q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    found = (np.cumsum(q, axis=1) < rng.random(len(q))[:, None]).sum(axis=1)
    return np.minimum(found, q.shape[1] - 1)


def of(logprobs: np.ndarray, place: np.ndarray, sampler: Sampler = OPEN) -> Drawn:
    return weighed(logprobs, place, np.zeros(logprobs.shape, np.bool_), sampler)


def tilted(logprobs: np.ndarray, temperature: float) -> np.ndarray:
    w = np.exp(logprobs / temperature)
    return w / w.sum(axis=1, keepdims=True)


def test_score__z_is_standard_normal_and_p_uniform():
    """Over 300 correct samples the three p-values are as often small as they should be."""
    logprobs, rng, found = lists(500, 20), np.random.default_rng(1), []
    for _ in range(300):
        found.append(sums(of(logprobs, drawn_from(np.exp(logprobs), rng))))
    z = np.array([s.score.z for s in found])

    assert stats.kstest(z, "norm").pvalue > 0.01
    assert stats.kstest([s.score.p for s in found], "uniform").pvalue > 0.01
    assert stats.kstest([s.ranks.p for s in found], "uniform").pvalue > 0.01
    assert min(s.support.p for s in found) == 1.0


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.0, 1.25, 2.0])
def test_score__finds_the_temperature(factor):
    """The ratio is that of the temperatures, and its interval covers it 95 times of 100."""
    logprobs, rng = lists(400, 20, 2), np.random.default_rng(3)
    q, sampler = tilted(logprobs, 0.7 * factor), Sampler(0.7, order=("temperature",))
    covered = 0
    for _ in range(100):
        score = sums(of(logprobs, drawn_from(q, rng), sampler)).score
        low, high = score.interval(1.959964)
        covered += low <= factor <= high

    assert covered >= 88
    assert score.ratio == pytest.approx(factor, abs=6 * score.error * factor**2)


def test_score__information_and_error_agree():
    """Near 1 the standard error is one over the root of the information."""
    logprobs = lists(4000, 20)
    score = sums(of(logprobs, drawn_from(np.exp(logprobs), np.random.default_rng(5)))).score

    assert score.error == pytest.approx(1 / math.sqrt(score.information), rel=0.05)
    assert score.information == pytest.approx(
        sum(np.cov(np.log(q), aweights=q, ddof=0) for q in np.exp(logprobs)), rel=1e-9
    )


def test_score__degenerate():
    """Nothing drawn, nothing to tell, or draws that fit no temperature: no ratio, no verdict."""
    nothing = sums(of(np.zeros((0, 20)), np.zeros(0, int)))

    assert nothing.score == Score(0, 0.0, 1.0, None, None, 0.0)
    assert nothing.score.interval(1.96) is None
    assert (nothing.ranks.distance, nothing.ranks.upper, nothing.ranks.p) == (None, None, 1.0)
    assert (nothing.support.n, nothing.support.upper) == (0, 1.0)
    assert sums(of(np.zeros((3, 0)), np.zeros(3, int))).score.n == 0

    equal = np.log(np.full((50, 4), 0.25))
    flat = sums(of(equal, np.zeros(50, int))).score

    assert (flat.n, flat.ratio, flat.information) == (50, None, 0.0)

    greedy = sums(of(lists(200, 20), np.zeros(200, int))).score

    assert greedy.ratio is None
    assert greedy.p < 1e-12


def test_score__vanishing_exponent():
    """An interval whose exponent reaches 0 has no upper end; one below it, no end at all."""
    assert Score(9, 0.0, 1.0, 1.0, 0.6, 3.0).interval(2.0) == (1 / 2.2, math.inf)
    assert Score(9, 0.0, 1.0, -1.0, 0.1, 3.0).interval(2.0) == (math.inf, math.inf)


def test_score__far_fewer_likely_tokens():
    """Draws from the other end of the list fit no temperature."""
    logprobs = lists(200, 20)

    assert sums(of(logprobs, np.full(200, 19))).score.ratio is None


def test_score__gives_up(monkeypatch):
    """A fit that does not settle is no ratio."""
    monkeypatch.setattr(sampling, "_ROUNDS", 1)
    logprobs = lists(200, 20)

    assert (
        sums(of(logprobs, drawn_from(tilted(logprobs, 2.0), np.random.default_rng(1)))).score.ratio
        is None
    )


def test_ranks__one_list_is_a_multinomial():
    """Where all positions have one law, the statistic is Pearson's over the bins."""
    shares = np.array([0.3, 0.2, 0.15, 0.1, 0.05, *[0.02] * 5, *[0.01] * 10])
    logprobs = np.log(np.tile(shares, (2000, 1)))
    place = drawn_from(np.exp(logprobs), np.random.default_rng(7))
    ranks = sums(of(logprobs, place)).ranks
    observed = [((place >= a - 1) & (place < b)).sum() for a, b in BINS]
    expected = [2000 * shares[a - 1 : b].sum() for a, b in BINS]
    known = stats.chisquare(observed, expected)

    assert ranks.chi2 == pytest.approx(known.statistic)
    assert (ranks.df, ranks.p) == (5, pytest.approx(known.pvalue))
    assert list(ranks.observed) == observed
    assert list(ranks.expected) == pytest.approx(expected)
    assert ranks.distance == pytest.approx(
        np.abs(np.array(observed) - expected).sum() / 2 / 2000, abs=1e-12
    )


def test_ranks__rare_places_join():
    """A bin that hardly anything is expected in adds no degree of freedom."""
    shares = np.array([0.6, 0.399, 0.0009, 0.0001])
    logprobs = np.log(np.tile(shares, (1000, 1)))
    place = np.array([0] * 600 + [1] * 399 + [2])

    assert sums(of(logprobs, place)).ranks.df == 1
    assert sums(of(logprobs[:15], place[:15])).ranks.df == 0
    assert sums(of(logprobs[:15], place[:15])).ranks.p == 1.0


def test_ranks__a_longer_list():
    """Places beyond the 20th belong to the last bin."""
    logprobs = lists(300, 40, spread=0.5)
    ranks = sums(of(logprobs, np.full(300, 35))).ranks

    assert ranks.observed[-1] == 300
    assert sum(ranks.expected) == pytest.approx(300)


def test_ranks__upper_bound_covers():
    """The bound is above the true distance 95 times of 100, whether that is 0 or not."""
    logprobs, rng = lists(800, 20, 4), np.random.default_rng(5)
    q = np.exp(logprobs)
    rarer = q.copy()
    rarer[:, 1] *= 0.7
    rarer /= rarer.sum(axis=1, keepdims=True)
    moved = (rarer - q).sum(axis=0)
    true = max(
        np.add.reduceat(moved, [a - 1 for a, _ in BINS])[list(s)].sum()
        for s in [(0,), (0, 2), (0, 2, 3), (0, 2, 3, 4), (0, 2, 3, 4, 5)]
    ) / len(q)
    covers = [sums(of(logprobs, drawn_from(rarer, rng))).ranks.upper >= true for _ in range(100)]

    assert sum(covers) >= 90


def test_support__draws_outside():
    """One draw of a token that was cut away is a striking thing; none is none."""
    logprobs = lists(1000, 20)
    place = np.zeros(1000, int)
    sampler = Sampler(1.0, top_k=5, order=("top_k",))
    right = sums(of(logprobs, place, sampler)).support
    place[0] = 5
    one = sums(of(logprobs, place, sampler)).support
    place[1] = 20
    two = sums(of(logprobs, place, sampler)).support

    assert (right.outside, right.p) == (0, 1.0)
    assert one.outside == 1
    assert one.p == pytest.approx(2 * -math.expm1(-0.01))
    assert two.outside == 2
    assert two.p < 2e-4
    assert two.upper == pytest.approx(0.0063, abs=1e-4)


def test_support__an_open_list():
    """Where unlisted tokens may be drawn, drawing one is nothing."""
    place = np.full(1000, 20)

    assert sums(of(lists(1000, 20) - 0.5, place)).support.outside == 0


def test_support__hidden_behind_the_last():
    """Draws of the list's last token, far more than it explains, are striking: at some engines
    what was drawn beyond the list stands there."""
    logprobs = lists(1000, 20)
    sampler = Sampler(1.0, top_k=20, order=("top_k",))
    often = sums(of(logprobs, np.full(1000, 19), sampler)).support
    right = sums(of(logprobs, drawn_from(np.exp(logprobs), np.random.default_rng(1)), sampler))

    assert (often.outside, often.last) == (0, 1000)
    assert often.p < 1e-12
    assert right.support.p == 1.0
    assert right.score.n <= 1000 - right.support.last


def test_sums__a_sure_token_counts_for_the_support_only():
    """From 98 % on a position says nothing of temperature or places."""
    sure, even = np.log([[0.99, 0.01]]), np.log([[0.6, 0.4]])
    found = sums(of(np.concatenate([sure, even]), np.array([0, 0])))

    assert (found.score.n, found.ranks.n, found.support.n) == (1, 1, 2)


def test_weighed__outcomes_without_a_row():
    """Given that none of the tokens without a row was drawn, the law of the others is exact; read
    as if all had rows, a correct sampler is blamed."""
    logprobs, rng = lists(4000, 20, 6), np.random.default_rng(8)
    unlisted = np.zeros(logprobs.shape, np.bool_)
    unlisted[:, 1] = rng.random(4000) < 0.5
    place = drawn_from(np.exp(logprobs), rng)
    there = ~unlisted[np.arange(4000), place]
    right = sums(weighed(logprobs[there], place[there], unlisted[there], OPEN))
    naive = sums(of(logprobs[there], place[there]))

    assert min(right.score.p, right.ranks.p) > 0.001
    assert naive.ranks.p < 1e-12


def test_pooled():
    """Two sets judged as one are the set of both."""
    logprobs = lists(600, 20)
    place = drawn_from(np.exp(logprobs), np.random.default_rng(2))
    halves = pooled(of(logprobs[:200], place[:200]), of(logprobs[200:], place[200:]))
    one, other = sums(halves), sums(of(logprobs, place))

    assert one.score.n == other.score.n
    assert one.score.z == pytest.approx(other.score.z)
    assert one.ranks.observed == other.ranks.observed
    assert one.support == other.support


def test_holm():
    """The smallest of three is compared with a third of the level, the next with a half."""
    assert holm({"a": 0.003, "b": 0.004, "c": 0.5}, 0.01) == ("a", "b")
    assert holm({"a": 0.0034, "b": 0.0035, "c": 0.5}, 0.01) == ()
    assert holm({"a": 0.004, "b": 0.003, "c": 0.009}, 0.01) == ("b", "a", "c")
    assert holm({"a": math.nan, "b": 0.001, "c": math.nan}, 0.01) == ("b",)
    assert holm({}, 0.01) == ()


def test_sums__p():
    """The three by name, as Holm's rule takes them."""
    found = sums(of(lists(10, 5), np.zeros(10, int)))

    assert isinstance(found, Sums)
    assert set(found.p) == {"score", "ranks", "support"}
