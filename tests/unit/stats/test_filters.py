from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sampler_world import LLAMACPP, ORDERS, SGLANG, VLLM, SamplerWorld, law

from iqaction.stats.filters import JOINT, NEAR, Sampler, distribution, kept

LISTED = 20


def truth(logp: np.ndarray, sampler: Sampler, order: tuple[str, ...]) -> int:
    """How many tokens an engine keeps, over the whole vocabulary."""
    params = {k: getattr(sampler, k) for k in ("temperature", "top_k", "top_p", "min_p")}
    return int((law(logp, params, order) > 0).sum())


def logs(*shares: float) -> np.ndarray:
    """One list with these probabilities."""
    return np.log(np.array([shares]))


def counts(listed: np.ndarray, sampler: Sampler) -> tuple[int, int, bool]:
    found = kept(listed, sampler)
    return int(found.sure[0]), int(found.possible[0]), bool(found.open[0])


CASES = [
    {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    {"temperature": 1.0, "top_p": 0.95},
    {"temperature": 0.8, "min_p": 0.05},
    {"temperature": 1.3, "top_k": 8, "top_p": 0.9, "min_p": 0.02},
    {"temperature": 0.7, "top_k": 50, "top_p": 0.8},
    {"temperature": 2.0, "top_p": 0.5},
    {"temperature": 0.5, "min_p": 0.001, "top_p": 0.99},
    {"temperature": 1.0},
]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept__holds_the_truth(case, order):
    """What an engine keeps of its whole vocabulary is never less than sure, nor more than
    possible: 200 lists of 20 out of 1,000 tokens."""
    full = SamplerWorld(contexts=200).logprobs()
    sampler = Sampler(**case, order=ORDERS[order], vocabulary=full.shape[1])
    found = kept(full[:, :LISTED], sampler)
    true = np.array([truth(row, sampler, sampler.order) for row in full])

    assert (found.sure <= true).all()
    assert ((true <= found.possible) | found.open).all()
    assert (found.sure <= found.possible).all()
    assert (found.possible <= LISTED).all()


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept__is_rarely_unsure(case, order):
    """Where the tail is small, the list settles what is kept, to the token."""
    full = SamplerWorld(contexts=200).logprobs()
    sampler = Sampler(**case, order=ORDERS[order], vocabulary=full.shape[1])
    found = kept(full[:, :LISTED], sampler)
    small = np.exp(full[:, :LISTED]).sum(axis=1) > 1 - 1e-4
    true = np.array([truth(row, sampler, sampler.order) for row in full[small]])
    exact = (found.sure[small] == true) & (found.possible[small] == true)
    every = (true >= LISTED) & (found.sure[small] >= LISTED - 1)

    assert small.sum() > 20
    assert (exact | every).mean() > 0.95


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept__unknown_order(case):
    """Without an order, sure and possible hold for every order that an engine may have."""
    full = SamplerWorld(contexts=60).logprobs()
    sampler = Sampler(**case, vocabulary=full.shape[1])
    found = kept(full[:, :LISTED], sampler)
    steps = ("temperature", "top_k", "top_p", "min_p")
    orders = [*itertools.permutations(steps), *itertools.permutations((JOINT, *steps[::3]))]
    for order in orders:
        true = np.array([truth(row, sampler, order) for row in full])

        assert (found.sure <= true).all()
        assert ((true <= found.possible) | found.open).all()


def test_kept__order_matters():
    """A top_p before the temperature keeps two tokens where after it one is enough; top_p over
    what top_k left is reached earlier than over all."""
    listed = logs(0.6, 0.3, 0.06, 0.04)
    cold = {"temperature": 0.25, "top_p": 0.8}

    assert counts(listed, Sampler(**cold, order=LLAMACPP)) == (2, 2, False)
    assert counts(listed, Sampler(**cold, order=VLLM)) == (1, 1, False)
    assert counts(listed, Sampler(**cold)) == (1, 2, False)

    both = {"temperature": 1.0, "top_k": 2, "top_p": 0.65}

    assert counts(listed, Sampler(**both, order=VLLM)) == (1, 1, False)
    assert counts(listed, Sampler(**both, order=SGLANG)) == (2, 2, False)


def test_kept__cuts_on_the_last_digit():
    """A sum that falls on top_p, or a ratio on min_p, may be rounded either way."""
    listed = logs(0.5, 0.25, 0.15, 0.1)

    assert counts(listed, Sampler(1.0, top_p=0.75, order=VLLM)) == (2, 3, False)
    assert counts(listed, Sampler(1.0, top_p=0.75 + 3 * NEAR, order=VLLM)) == (3, 3, False)
    assert counts(listed, Sampler(1.0, top_p=0.75 - 3 * NEAR, order=VLLM)) == (2, 2, False)
    assert counts(listed, Sampler(1.0, min_p=0.5, order=VLLM)) == (1, 2, False)
    assert counts(listed, Sampler(1.0, min_p=0.49, order=VLLM)) == (2, 2, False)


def test_kept__ties():
    """Equally likely tokens on both sides of a cut: none of them is sure, all are possible; those
    that tie with the last one listed are not seen, so it is not sure itself."""
    tied = logs(0.4, 0.2, 0.2, 0.1, 0.1)

    assert counts(tied, Sampler(1.0, top_k=2, order=VLLM)) == (1, 3, False)
    assert counts(tied, Sampler(1.0, top_k=3, order=VLLM)) == (3, 3, False)
    assert counts(tied, Sampler(1.0, top_k=5, order=VLLM)) == (3, 5, False)
    assert counts(tied, Sampler(1.0, top_k=6, order=VLLM)) == (5, 5, True)
    assert counts(tied, Sampler(1.0, top_p=0.5, order=VLLM)) == (1, 3, False)


def test_kept__what_is_not_listed():
    """At T = 1 the tail's weight is known; else it is bounded, and the cut with it. No filter, or
    one that keeps all that is listed, leaves the unlisted in."""
    listed = logs(0.4, 0.2, 0.1)  # 30 % unlisted

    assert counts(listed, Sampler(1.0, top_p=0.65, order=VLLM)) == (2, 3, False)
    assert counts(listed, Sampler(1.0, top_p=0.59, order=VLLM)) == (2, 2, False)
    assert counts(listed, Sampler(1.0, top_p=0.8, order=VLLM)) == (3, 3, True)
    assert counts(listed, Sampler(1.0, order=VLLM)) == (3, 3, True)
    assert counts(listed, Sampler(0.5, order=LLAMACPP)) == (3, 3, True)
    assert counts(listed, Sampler(1.0, min_p=0.2, order=VLLM)) == (3, 3, True)
    assert counts(listed, Sampler(1.0, min_p=0.3, order=VLLM)) == (2, 2, False)
    # Below T = 1 all weighs .21 and a tail of at most .3 x .1, of which .75 are .158 to .18: the
    # first token, .16, may be enough or not.
    assert counts(listed, Sampler(0.5, top_p=0.75, order=VLLM)) == (1, 2, False)
    # Above it, as much as the vocabulary allows.
    assert counts(listed, Sampler(2.0, top_p=0.5, order=VLLM, vocabulary=10)) == (2, 3, True)
    assert counts(listed, Sampler(2.0, top_p=0.5, order=VLLM, vocabulary=10**5))[2]


@pytest.mark.parametrize("sampler", [Sampler(0.6, 20, 0.95, 0.05, VLLM), Sampler(0.6, 20, 0.95)])
def test_kept__degenerate(sampler):
    """No positions, no lists, an empty list and a list of one are answered without a warning."""
    assert kept(np.zeros((0, 20)), sampler).sure.shape == (0,)
    assert kept(np.zeros((3, 0)), sampler).sure.tolist() == [0, 0, 0]

    nothing, one = np.full(4, -math.inf), np.array([0.0, *[-math.inf] * 3])
    found = kept(np.array([nothing, one]), sampler)

    assert found.sure[0] == 0
    assert found.possible[1] == 1


def test_sampler__says_what_it_cannot_model():
    """Settings that do something and have no step in the order; steps that are not known."""
    order = ("top_k", "temperature", "xtc")
    sampler = Sampler(0.6, 20, 0.95, 0.05, order)

    assert sampler.active == ("temperature", "top_k", "top_p", "min_p")
    assert sampler.left_out == ("top_p", "min_p")
    assert sampler.unknown == ("xtc",)
    assert Sampler(1.0, order=order).left_out == ()
    assert counts(logs(0.6, 0.4), Sampler(1.0, 1, order=order)) == (1, 1, False)
    assert Sampler(0.6, 20, 0.95, order=SGLANG).left_out == ()
    assert Sampler(0.6, 20, 0.95).left_out == ()


def test_distribution():
    """p ** (1 / T) over what is among, normalised; nothing among gives nothing."""
    listed = logs(0.5, 0.3, 0.2)
    among = np.array([[True, False, True]])
    q, log_q = distribution(listed, 0.5, among)

    assert q[0].tolist() == pytest.approx([0.25 / 0.29, 0, 0.04 / 0.29])
    assert log_q[0].tolist() == pytest.approx([math.log(0.25 / 0.29), 0, math.log(0.04 / 0.29)])
    assert distribution(listed, 0.5, np.zeros((1, 3), bool))[0].tolist() == [[0, 0, 0]]
    assert distribution(np.zeros((2, 0)), 0.5, np.zeros((2, 0), bool))[0].shape == (2, 0)
