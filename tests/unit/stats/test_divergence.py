from __future__ import annotations

import math
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import rel_entr

from iqaction.stats.divergence import POSITION_BUCKETS, Compared, Lists, buckets, compare

TOLERANCE, ROUNDING = 1e-4, 1e-6

Row = tuple[int, float, dict[int, float]]
"""(chosen key, its probability, probability by listed key)"""


def lists(*rows: Row, width: int | None = None, usable: bool = True) -> Lists:
    """Rows written as probabilities; the list in the order of the dict."""
    n, k = len(rows), max((len(r[2]) for r in rows), default=0)
    top = np.full((n, width or k), -1, np.int64)
    value = np.full((n, width or k), -np.inf)
    for i, (_, _, listed) in enumerate(rows):
        for j, (key, p) in enumerate(listed.items()):
            top[i, j], value[i, j] = key, math.log(p)
    return Lists(
        np.array([r[0] for r in rows], np.int64),
        np.array([math.log(r[1]) for r in rows], np.float64),
        top,
        value,
        np.full(n, usable),
    )


def one(ref: Row, cand: Row, **options: float) -> Compared:
    """One row compared, every field a scalar."""
    return Compared(*(x[0] for x in compare(lists(ref), lists(cand), **options)))


def listed(full: dict[int, float], k: int, chosen: int) -> Row:
    """What an engine tells of a full distribution: the k most likely tokens, and the chosen."""
    top = sorted(full, key=lambda t: (-full[t], t))[:k]
    return chosen, full[chosen], {t: full[t] for t in top}


def softmax(logits: list[float]) -> dict[int, float]:
    weights = [math.exp(x) for x in logits]
    return {i: w / sum(weights) for i, w in enumerate(weights)}


def plain(ref: Row, cand: Row) -> tuple[float, float, bool, bool, float, bool, bool]:
    """The definition once more, one row, dicts and loops: KL, TV, agree, decisive, mass covered,
    floored, disjoint."""
    chosen = ref[0]
    k = min(len(ref[2]), len(cand[2]))
    # Ranks by nats, as the arrays have them: two probabilities may differ where nats do not.
    whole = [
        (math.log(own), {t: math.log(p) for t, p in told.items()}) for _, own, told in (ref, cand)
    ]
    cut = []
    for own, told in whole:
        last = sorted(told.values(), reverse=True)[k - 1]
        cut.append((own, {t: v for t, v in told.items() if v >= last}))
    (own_p, list_p), (own_q, list_q) = cut
    support = {t for t in list_p if t in list_q and t != chosen}
    nats = [(own_p, own_q)] + [(list_p[t], list_q[t]) for t in support]
    pairs = [(math.exp(a), math.exp(b)) for a, b in nats]
    covered, told_q = (math.fsum(x) for x in zip(*pairs, strict=True))
    rest_p, rest_q = max(1 - covered, 0.0), max(1 - told_q, 0.0)
    tv = (math.fsum(abs(p - q) for p, q in pairs) + abs(rest_p - rest_q)) / 2
    floored = rest_q <= ROUNDING and rest_p > TOLERANCE
    kl = math.fsum(p * math.log(p / q) - p + q for p, q in pairs)
    if floored:
        kl += rest_p * math.log(rest_p / TOLERANCE) - rest_p + rest_q
    elif rest_q > ROUNDING:
        kl += (rest_p * math.log(rest_p / rest_q) if rest_p else 0.0) - rest_p + rest_q
    known = any(chosen in told or own >= min(told.values()) for own, told in cut)
    disjoint = not support and not known
    if disjoint:
        mass = math.fsum(math.exp(v) for v in list_q.values())
        kl, tv = max(kl, -math.log(max(1 - mass, TOLERANCE))), max(tv, mass)
        floored = floored or 1 - mass < TOLERANCE
    favourites = []
    for own, told in whole:
        best = max([own, *told.values()])
        favourites.append(chosen if own >= best else min(t for t, v in told.items() if v == best))
    mine, theirs = favourites
    own, told = whole[0]
    rival = own if theirs == chosen else told.get(theirs, min(told.values()))
    decisive = mine != theirs and max([own, *told.values()]) - rival > 0.5
    agree = mine == theirs and not disjoint
    return max(kl, 0.0), min(tv, 1.0), agree, decisive, min(covered, 1.0), floored, disjoint


A, B, C, D, E, F = range(6)
logits = st.lists(st.floats(-8, 8), min_size=6, max_size=14)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[int, float], dict[int, float], int, int, int]:
    """Two full distributions over one vocabulary, a chosen token, and each side's list length."""
    left = draw(logits)
    noise = draw(st.lists(st.floats(-3, 3), min_size=len(left), max_size=len(left)))
    right = [x + y for x, y in zip(left, noise, strict=True)]
    size = st.integers(1, len(left))
    return (
        softmax(left),
        softmax(right),
        draw(st.integers(0, len(left) - 1)),
        draw(size),
        draw(size),
    )


def test_compare__known_answer():
    """A swap of .5 and .25 beside an untouched rest costs a quarter of log 2, and moves a
    quarter of the mass."""
    got = one((A, 0.5, {A: 0.5, B: 0.25}), (A, 0.25, {B: 0.5, A: 0.25}))

    assert got.kl == pytest.approx(0.25 * math.log(2), abs=1e-12)
    assert got.tv == pytest.approx(0.25, abs=1e-12)
    assert got.covered == pytest.approx(0.75)
    assert got.nll_ref == pytest.approx(math.log(2))
    assert got.nll_cand == pytest.approx(math.log(4))
    assert got.delta_p == pytest.approx(-0.25)
    assert (got.usable, got.agree, got.decisive) == (True, False, True)


def test_compare__whole_vocabulary_listed():
    """With nothing unlisted, KL and TV are those of the full distributions."""
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30))
    got = one(*((4, x[4], dict(enumerate(x))) for x in (p, q)))

    assert got.kl == pytest.approx(rel_entr(p, q).sum(), rel=1e-9)
    assert got.tv == pytest.approx(np.abs(p - q).sum() / 2, rel=1e-9)
    assert got.covered == pytest.approx(1.0)


def test_compare__one_shared_token():
    """Tokens that one side alone tells are part of OTHER: what is left is a two-way KL."""
    got = one((A, 0.6, {A: 0.6, B: 0.3}), (A, 0.3, {C: 0.5, A: 0.3}))

    assert got.kl == pytest.approx(0.6 * math.log(2) + 0.4 * math.log(0.4 / 0.7))
    assert got.tv == pytest.approx(0.3)
    assert not got.disjoint


def test_compare__identical_arms():
    """An arm compared with itself differs by exactly 0.0 and agrees everywhere."""
    rng = np.random.default_rng(0)
    value = np.sort(np.log(rng.dirichlet(np.full(12, 0.1), 500) + 1e-9), axis=1)[:, ::-1]
    top = np.argsort(rng.random((500, 40)), axis=1)[:, :5].astype(np.int64)
    arm = Lists(
        top[:, 1].copy(),
        value[:, 1].astype(np.float32),
        top,
        value[:, :5].astype(np.float32),
        np.ones(500, np.bool_),
    )
    got = compare(arm, arm)

    assert got.usable.all()
    assert (got.kl == 0.0).all()
    assert (got.tv == 0.0).all()
    assert (got.delta_p == 0.0).all()
    assert got.agree.all()
    assert not (got.decisive | got.floored | got.disjoint).any()


@settings(deadline=None, max_examples=200, derandomize=True)
@given(pairs())
def test_compare__second_implementation(case):
    """Arrays and plain loops give the same answers for whatever two engines tell."""
    p, q, chosen, k_ref, k_cand = case
    ref, cand = listed(p, k_ref, chosen), listed(q, k_cand, chosen)
    got = one(ref, cand)
    kl, tv, agree, decisive, covered, floored, disjoint = plain(ref, cand)

    assert got.kl == pytest.approx(kl, abs=1e-9)
    assert got.tv == pytest.approx(tv, abs=1e-9)
    assert got.covered == pytest.approx(covered, abs=1e-9)
    assert (got.agree, got.decisive, got.floored, got.disjoint) == (
        agree,
        decisive,
        floored,
        disjoint,
    )


@settings(deadline=None, max_examples=200, derandomize=True)
@given(pairs())
def test_compare__lower_bound(case):
    """What the lists show never exceeds the full distance, and Pinsker's inequality holds."""
    p, q, chosen, k_ref, k_cand = case
    got = one(listed(p, k_ref, chosen), listed(q, k_cand, chosen))
    assume(not got.disjoint)
    full = math.fsum(p[t] * math.log(p[t] / q[t]) for t in p)

    assert 0 <= got.kl <= full + 1e-9
    assert 0 <= got.tv <= math.fsum(abs(p[t] - q[t]) for t in p) / 2 + 1e-9
    if not got.floored:
        assert got.tv <= math.sqrt(got.kl / 2) + TOLERANCE


@settings(deadline=None, max_examples=100, derandomize=True)
@given(pairs())
def test_compare__longer_lists_show_more(case):
    """Each further listed token can only raise the bound."""
    p, q, chosen, _, _ = case
    q = {t: 0.99 * x + 0.01 / len(q) for t, x in q.items()}  # OTHER never within rounding of 0
    rows = [one(listed(p, k, chosen), listed(q, k, chosen)) for k in range(1, len(p) + 1)]
    kls = [r.kl for r in rows if not r.disjoint and not r.floored]

    assert all(b >= a - 1e-9 for a, b in pairwise(kls))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(pairs(), st.randoms(use_true_random=False))
def test_compare__order_of_the_lists(case, random):
    """In which order an engine lists its tokens does not matter, ties at the top included."""
    p, q, chosen, k_ref, k_cand = case
    ref, cand = listed(p, k_ref, chosen), listed(q, k_cand, chosen)

    def shuffled(row: Row) -> Row:
        keys = list(row[2])
        random.shuffle(keys)
        return row[0], row[1], {t: row[2][t] for t in keys}

    straight, mixed = one(ref, cand), one(shuffled(ref), shuffled(cand))

    for name, a, b in zip(Compared._fields, straight, mixed, strict=True):
        assert a == pytest.approx(b, abs=1e-12), name


def test_compare__tie_at_the_cut():
    """Tokens tied at the cut all stay, whichever is listed first."""
    ref = (A, 0.6, {A: 0.6, B: 0.2})
    first = one(ref, (A, 0.6, {A: 0.6, B: 0.1, C: 0.1}))
    second = one(ref, (A, 0.6, {A: 0.6, C: 0.1, B: 0.1}))

    assert first.kl == second.kl > 0


def test_compare__cut_to_the_shorter_list():
    """A reference that lists five tokens is cut to the candidate's two, row by row."""
    long = (A, 0.5, {A: 0.5, B: 0.2, C: 0.1, D: 0.05, E: 0.05})
    short = (A, 0.4, {A: 0.4, B: 0.3})
    got = compare(lists(long, long), lists(short, long))

    assert got.kl[0] == one((A, 0.5, {A: 0.5, B: 0.2}), short).kl
    assert got.covered[0] == pytest.approx(0.7)
    assert got.covered[1] == pytest.approx(0.9)


def test_compare__chosen_token_outside_the_list():
    """The forced token is known on both sides even where a list leaves it out."""
    got = one((C, 0.02, {A: 0.7, B: 0.2}), (C, 0.2, {A: 0.6, C: 0.2}))

    assert got.covered == pytest.approx(0.72)
    assert got.delta_p == pytest.approx(0.18)
    assert got.agree


def test_compare__favourite_is_never_the_first_listed():
    """The most likely token is found by value, in the list or as the chosen one."""
    got = compare(
        lists((A, 0.6, {B: 0.1, A: 0.6}), (A, 0.6, {B: 0.1, C: 0.05})),
        lists((A, 0.5, {A: 0.5, B: 0.2}), (A, 0.5, {B: 0.2, C: 0.05})),
    )

    assert got.agree.tolist() == [True, True]


@pytest.mark.parametrize(
    ("rival", "decisive"),
    [
        (0.60 * math.exp(-0.51), True),
        (0.60 * math.exp(-0.49), False),
    ],
)
def test_compare__decisive(rival, decisive):
    """Another favourite is decisive where the reference held it more than half a nat lower."""
    got = one((A, 0.6, {A: 0.6, B: rival}), (A, 0.3, {B: 0.5, A: 0.3}))

    assert not got.agree
    assert got.decisive == decisive


@pytest.mark.parametrize(("smallest", "decisive"), [(0.2, True), (0.5, False)])
def test_compare__decisive_by_an_unlisted_token(smallest, decisive):
    """A favourite that the reference does not list counts as its smallest listed value, of the
    whole list and not of the cut one."""
    got = one((A, 0.5, {A: 0.5, B: smallest}), (A, 0.3, {C: 0.5}))

    assert got.decisive == decisive


def test_compare__decisive_against_the_chosen_token():
    """Where the candidate's favourite is the forced token, the reference's own value decides."""
    got = one((C, 0.01, {A: 0.7, B: 0.2}), (C, 0.6, {C: 0.6, A: 0.3}))

    assert got.decisive
    assert not got.agree


def test_compare__decisive_nats_is_an_option():
    """The half nat is the caller's to move."""
    rows = (A, 0.6, {A: 0.6, B: 0.3}), (A, 0.3, {B: 0.6, A: 0.3})

    assert one(*rows, decisive_nats=0.6).decisive
    assert not one(*rows, decisive_nats=0.7).decisive


def test_compare__nothing_left_on_the_candidate():
    """A candidate that leaves no mass for OTHER is floored, marked, and stays finite."""
    got = one((A, 0.6, {A: 0.6, B: 0.2}), (A, 0.7, {A: 0.7, B: 0.3}))
    expected = (
        0.6 * math.log(0.6 / 0.7) + 0.2 * math.log(0.2 / 0.3) + 0.2 * math.log(0.2 / TOLERANCE)
    )

    assert got.floored
    assert got.kl == pytest.approx(expected)


@pytest.mark.parametrize(("left_ref", "left_cand"), [(0.0, 0.3), (0.0, 0.0), (5e-5, 0.0)])
def test_compare__nothing_left_within_tolerance(left_ref, left_cand):
    """No mass for OTHER on the reference's side, or next to none on both, needs no floor."""
    got = one((A, 0.6, {A: 0.6, B: 0.4 - left_ref}), (A, 0.6, {A: 0.6, B: 0.4 - left_cand}))

    assert not got.floored
    if left_cand:
        assert got.kl == pytest.approx(0.4 * math.log(0.4 / 0.1))
    else:
        assert got.kl == pytest.approx(0, abs=1e-4)


def test_compare__no_shared_token():
    """Lists without a common token are a disagreement, though OTHER holds nearly all on both
    sides and would read 0."""
    got = one((E, 1e-5, {A: 0.6, B: 0.3}), (E, 1e-5, {C: 0.6, D: 0.3}))

    assert got.disjoint
    assert not got.agree
    assert got.kl == pytest.approx(-math.log(0.1))
    assert got.tv == pytest.approx(0.9)
    assert got.covered == pytest.approx(1e-5)


def test_compare__no_shared_token_and_nothing_left():
    """The penalty of a disjoint row is floored, and says so."""
    got = one((E, 1e-9, {A: 0.999}), (E, 1e-9, {B: 0.99999}))

    assert got.disjoint
    assert got.floored
    assert got.kl == pytest.approx(-math.log(TOLERANCE))
    assert got.decisive is np.False_  # one listed token: the reference tells nothing of a rival


def test_compare__only_the_chosen_token_shared():
    """A chosen token that one side lists is shared: the row has a bound of its own."""
    got = one((A, 0.45, {A: 0.45}), (A, 0.44, {B: 0.46}))

    assert not got.disjoint
    assert got.kl == pytest.approx(0.45 * math.log(0.45 / 0.44) + 0.55 * math.log(0.55 / 0.56))


def test_compare__list_without_its_own_chosen_token():
    """An engine that lists the alternatives only: its chosen token counts as listed."""
    got = one((A, 0.8, {B: 0.1}), (A, 0.8, {C: 0.1}))

    assert not got.disjoint
    assert got.agree


def test_compare__disjoint_rows_beside_others():
    """A disjoint row changes nothing for the rows around it."""
    apart = (E, 1e-5, {A: 0.6, B: 0.3}), (E, 1e-5, {C: 0.6, D: 0.3})
    near = (A, 0.6, {A: 0.6, B: 0.3}), (A, 0.5, {A: 0.5, B: 0.3})
    got = compare(lists(near[0], apart[0], near[0]), lists(near[1], apart[1], near[1]))

    assert got.disjoint.tolist() == [False, True, False]
    assert got.kl[0] == got.kl[2] == one(*near).kl
    assert got.agree.tolist() == [True, False, True]


def test_compare__other_chosen_tokens():
    """Rows that were forced through different tokens are not compared at all."""
    got = one((A, 0.6, {A: 0.6}), (B, 0.6, {B: 0.6}))

    assert not got.usable
    assert math.isnan(got.nll_ref)
    assert math.isnan(got.nll_cand)


def test_compare__empty_list():
    """A row without a list is missing, yet the forced token's nats are known."""
    got = compare(
        lists((A, 0.5, {}), (A, 0.5, {A: 0.5})), lists((A, 0.25, {A: 0.25}), (A, 0.25, {}))
    )

    assert not got.usable.any()
    assert np.isnan(got.kl).all()
    assert np.isnan(got.delta_p).all()
    assert got.nll_ref == pytest.approx([math.log(2)] * 2)
    assert got.nll_cand == pytest.approx([math.log(4)] * 2)
    assert not (got.agree | got.decisive | got.floored | got.disjoint).any()


def test_compare__no_lists_at_all():
    """k = 0 on both sides gives the nats of the forced tokens and no more."""
    got = compare(lists((A, 0.5, {})), lists((A, 1.0, {})))

    assert not got.usable.any()
    assert got.nll_ref == pytest.approx([math.log(2)])
    assert got.nll_cand.tolist() == [0.0]
    assert not np.signbit(got.nll_cand).any()


@pytest.mark.parametrize("k", [0, 3])
def test_compare__no_positions(k):
    """Nothing compared gives empty arrays of the right kinds."""
    got = compare(lists(width=k), lists(width=3))

    assert all(x.shape == (0,) for x in got)
    assert got.usable.dtype == np.bool_
    assert got.kl.dtype == np.float64


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.5])
@pytest.mark.parametrize("where", ["own", "list"])
def test_compare__not_a_log_probability(value, where):
    """NaN, infinity and positive values make their row unusable and leave the others alone."""
    row = (A, 0.5, {A: 0.5, B: 0.3})
    good, bad = lists(row, row), lists(row, row)
    if where == "own":
        bad.logprob[0] = value
    else:
        bad.top_logprob[0, 1] = value

    for got in (compare(good, bad), compare(bad, good)):
        assert got.usable.tolist() == [False, True]
        assert np.isnan(got.kl).tolist() == [True, False]
        assert np.isnan(got.nll_cand).tolist() == [True, False]


def test_compare__infinitely_unlikely():
    """A forced token of probability 0 cannot be compared; a listed one is not listed."""
    row = (A, 0.5, {A: 0.5, B: 0.3})
    own, told = lists(row), lists(row)
    own.logprob[0] = -np.inf
    told.top_logprob[0, 1] = -np.inf

    assert not compare(lists(row), own).usable.any()
    assert compare(lists(row), told).kl == compare(lists(row), lists((A, 0.5, {A: 0.5}))).kl


def test_compare__declared_unusable():
    """What the packing found unusable stays so, whatever the numbers look like."""
    row = (A, 0.5, {A: 0.5})
    got = compare(lists(row), lists(row, usable=False))

    assert not got.usable.any()
    assert np.isnan(got.nll_ref).all()


def test_compare__rounding_above_zero():
    """A log-probability a hair above 0 is rounding: it is used, and no nats are negative."""
    row = lists((A, 1.0, {A: 1.0}))
    row.logprob[0] = row.top_logprob[0, 0] = 5e-5
    got = compare(row, row)

    assert got.usable.all()
    assert got.kl.tolist() == [0.0]
    assert got.nll_ref.tolist() == [0.0]
    assert got.covered.tolist() == [1.0]


def test_compare__extreme_values():
    """Values as low as engines write them overflow nothing."""
    ref = lists((A, 1.0, {A: 1.0, B: 0.5}))
    cand = lists((A, 1.0, {A: 1.0, B: 0.5}))
    ref.top_logprob[0, 1] = cand.logprob[0] = cand.top_logprob[0, 0] = -8999.0
    got = compare(ref, cand)

    assert got.kl == pytest.approx([8999.0])
    assert got.tv == pytest.approx([1.0])


def test_compare__float32_and_padding():
    """Rows as they are packed (float32, padded slots, wider than needed) give the same."""
    ref, cand = (A, 0.5, {A: 0.5, B: 0.25}), (A, 0.25, {B: 0.5, A: 0.25})
    wide = lists(cand, width=7)
    packed = Lists(
        wide.chosen,
        wide.logprob.astype(np.float32),
        wide.top,
        wide.top_logprob.astype(np.float32),
        wide.usable,
    )

    assert compare(lists(ref), packed).kl[0] == pytest.approx(one(ref, cand).kl, abs=1e-6)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(pairs())
def test_compare__keys_of_any_width(case):
    """Keys of 32 bits, on one side or both, give what keys of 64 bits give."""

    def narrow(wide):
        return wide._replace(chosen=wide.chosen.astype(np.int32), top=wide.top.astype(np.int32))

    p, q, chosen, k_ref, k_cand = case
    ref, cand = lists(listed(p, k_ref, chosen)), lists(listed(q, k_cand, chosen))
    wide = compare(ref, cand)

    for sides in ((narrow(ref), narrow(cand)), (ref, narrow(cand)), (narrow(ref), cand)):
        for expected, actual in zip(wide, compare(*sides), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_compare__long_lists():
    """Lists of more than 255 tokens match like short ones."""
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(300)), rng.dirichlet(np.ones(300))
    order = rng.permutation(300).tolist()
    got = one((0, p[0], dict(enumerate(p))), (0, q[0], {t: q[t] for t in order}))

    assert got.kl == pytest.approx(rel_entr(p, q).sum(), rel=1e-9)


def test_compare__many_rows():
    """Rows are worked on in parts; where a part ends makes no difference."""
    rng = np.random.default_rng(2)
    n, k = 30_000, 4
    top = rng.integers(0, 10, (n, k)) + 10 * np.arange(k)
    value = np.log(rng.dirichlet(np.full(k + 1, 0.5), n)[:, :k] + 1e-6)
    usable = rng.random(n) > 0.1
    ref = Lists(top[:, 0], value[:, 0], top, value, usable)
    cand = Lists(*(np.roll(x, 1, axis=0) for x in ref))._replace(chosen=ref.chosen)
    whole = compare(ref, cand)
    half = slice(0, 12_345), slice(12_345, n)
    parts = [compare(Lists(*(x[s] for x in ref)), Lists(*(x[s] for x in cand))) for s in half]

    assert 0 < whole.usable.sum() < n
    for name, column, *pieces in zip(Compared._fields, whole, *parts, strict=True):
        np.testing.assert_array_equal(column, np.concatenate(pieces), name)


def test_compare__memory():
    """Working memory does not grow with the number of positions."""
    n, k = 100_000, 20
    arm = Lists(
        np.zeros(n, np.int64),
        np.full(n, -1, np.float32),
        np.tile(np.arange(k), (n, 1)),
        np.full((n, k), -3.5, np.float32),
        np.ones(n, np.bool_),
    )
    tracemalloc.start()
    got = compare(arm, arm)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert got.usable.all()
    assert peak < sum(x.nbytes for x in got) + 16_000_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("chosen", np.zeros(3, np.int64)),
        ("logprob", np.zeros((2, 1))),
        ("usable", np.ones(1, np.bool_)),
        ("top", np.zeros((2, 2), np.int64)),
        ("top", np.zeros(2, np.int64)),
    ],
)
def test_compare__shapes_that_do_not_fit(field, value):
    """An array of another shape is refused, on either side."""
    good = lists((A, 0.5, {A: 0.5}), (A, 0.5, {A: 0.5}))
    bad = good._replace(**{field: value})

    with pytest.raises(ValueError, match="`ref`"):
        compare(bad, good)
    with pytest.raises(ValueError, match="`cand`"):
        compare(good, bad)


def test_compare__other_lengths():
    """Arms of different length are refused: positions would be mixed up."""
    row = (A, 0.5, {A: 0.5})

    with pytest.raises(ValueError, match="2 positions"):
        compare(lists(row, row), lists(row))


@pytest.mark.parametrize("option", ["tolerance", "decisive_nats"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_compare__options(option, value):
    """Options that are no number above 0 are refused."""
    row = lists((A, 0.5, {A: 0.5}))

    with pytest.raises(ValueError, match=option):
        compare(row, row, **{option: value})


def test_buckets():
    """Positions fall into 0-15, 16-63, 64-255 and 256+."""
    names = [POSITION_BUCKETS[i] for i in buckets(300)]

    assert {name: names.count(name) for name in POSITION_BUCKETS} == {
        "0-15": 16,
        "16-63": 48,
        "64-255": 192,
        "256+": 44,
    }
    assert names == sorted(names, key=POSITION_BUCKETS.index)
    assert buckets(0).shape == (0,)
