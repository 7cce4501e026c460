"""Packing of log-probability rows: what is kept, what is refused, how tokens are matched."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.rows import (
    PAD,
    Match,
    Position,
    RowFault,
    Rows,
    Token,
    concat_pieces,
    pack,
    text_key,
    value_fault,
)


def row(chosen: float | None, *top: float | None, start: int = 1) -> Position:
    """Chosen token ``start`` and listed tokens ``start``, ``start`` + 1, ..."""
    listed = tuple(Token(f"t{start + i}", v, start + i) for i, v in enumerate(top))
    return Position(Token(f"t{start}", chosen, start), listed)


def test_pack__nothing() -> None:
    """No positions are no rows, and no list."""
    rows = pack([])

    assert (len(rows), rows.k) == (0, 0)
    assert rows.top.shape == (0, 0)


def test_pack__lists_are_sorted_and_padded() -> None:
    """Engines list in their own order; shorter lists end in PAD and -inf."""
    rows = pack([row(-3.0, -3.0, -0.5), row(-0.1, -0.1, start=7)])

    assert rows.top.tolist() == [[2, 1], [7, PAD]]
    assert rows.top_logprob.ravel().tolist() == pytest.approx([-0.5, -3.0, -0.1, -math.inf])
    assert rows.usable.all()
    assert (rows.top.dtype, rows.top_logprob.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, RowFault.MISSING),
        (math.nan, RowFault.NOT_FINITE),
        (math.inf, RowFault.NOT_FINITE),
        (-math.inf, RowFault.CLAMPED),
        (-9999.0, RowFault.CLAMPED),
        (-9000.0, RowFault.CLAMPED),
        (-3.4e38, RowFault.CLAMPED),
        (1.1e-4, RowFault.NOT_LOGPROB),
        (23.75, RowFault.NOT_LOGPROB),
        (1e-4, None),
        (0.0, None),
        (-0.0, None),
        (-8999.0, None),
    ],
)
def test_value_fault(value: float | None, fault: RowFault | None) -> None:
    """Only a finite value of at most 0, up to rounding, is a log-probability."""
    assert value_fault(value) is fault


@pytest.mark.parametrize("where", ["chosen", "top"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -9999.0, 0.5])
def test_pack__a_faulty_value_costs_the_row(value: float | None, where: str) -> None:
    """The row keeps its token, so that paths compare, and loses its numbers."""
    bad = row(value, -1.0) if where == "chosen" else row(-1.0, -1.0, value)
    rows = pack([row(-0.5, -0.5), bad])

    assert rows.usable.tolist() == [True, False]
    assert rows.chosen.tolist() == [1, 1]
    assert np.isnan(rows.logprob[1])
    assert (rows.top[1] == PAD).all()
    assert sum(rows.faults.values()) == 1


def test_pack__rounding_above_zero_is_zero() -> None:
    """Float rounding of log-softmax gives tiny positive values."""
    rows = pack([row(1e-7, 1e-7)])

    assert rows.logprob.tolist() == rows.top_logprob[0].tolist() == [0.0]


@pytest.mark.parametrize(
    ("tokens", "match"),
    [
        ([Token("a", -1.0, 5, b"a"), Token("b", -2.0, 6)], Match.ID),
        ([Token("a", -1.0, 5, b"a"), Token("b", -2.0, None, b"b")], Match.BYTES),
        ([Token("a", -1.0, 5, b"a"), Token("b", -2.0)], Match.TEXT),
    ],
)
def test_pack__match_is_what_all_tokens_support(tokens: list[Token], match: Match) -> None:
    """One token without an id makes ids useless for the whole text."""
    rows = pack([Position(tokens[0], tuple(tokens))])

    assert rows.match is match
    assert rows.chosen[0] == rows.top[0, 0]


def test_pack__tokens_that_print_alike_are_ambiguous() -> None:
    """Without ids, which of the two is which cannot be told."""
    twins = Position(Token("a", -1.0), (Token("x", -1.0), Token("x", -2.0)))

    assert pack([twins]).faults == {RowFault.AMBIGUOUS.value: 1}


@pytest.mark.parametrize(
    ("ident", "width"), [(2**31 - 1, np.int32), (2**31, np.int64), (-(2**40), np.int64)]
)
def test_pack__ids_take_as_many_bits_as_they_need(ident: int, width: type) -> None:
    """Vocabulary ids are half as wide as hashes; an id that does not fit is not cut."""
    rows = pack([Position(Token("a", -1.0, ident), (Token("a", -1.0, ident),))])

    assert (rows.chosen.dtype, rows.top.dtype) == (width, width)
    assert rows.chosen[0] == rows.top[0, 0] == ident


def test_pack__a_repeated_id_is_one_token() -> None:
    """vLLM lists the chosen token twice under one id."""
    rows = pack([Position(Token("a", -1.0, 3), (Token("a", -1.0, 3), Token("a", -1.0, 3)))])

    assert rows.top.tolist() == [[3]]
    assert rows.usable.all()


@pytest.mark.parametrize(
    "token",
    [
        Token("", -0.1),
        Token("\ufffd", -0.1),
        Token("", -0.1, None, b""),
        Token("\ufffd", -0.1, None, b"\xef\xbf\xbd"),
    ],
)
def test_pack__a_nameless_fragment_never_counts_as_agreement(token: Token) -> None:
    """Two different byte fragments look the same where engines print them as nothing."""
    assert pack([Position(token)]).faults == {RowFault.NAMELESS.value: 1}
    assert pack([Position(Token("", -0.1, 7))]).usable.all()  # with an id it has a name
    assert pack([Position(Token("", -0.1, None, b"\xf0\x9f"))]).usable.all()


@pytest.mark.parametrize(
    ("other", "same"),
    [(-1.0, True), (-1.04, True), (-1.1, False), (-0.9, False), (-4.0, False)],
)
def test_pack__one_token_has_one_value(other: float, same: bool) -> None:
    """Beyond rounding, two values of one token are none: neither is taken for the other."""
    a = Token("a", -1.0, 3)
    listed_twice = pack([Position(a, (a, Token("a", other, 3)))])
    unlike_its_list = pack([Position(a, (Token("a", other, 3), Token("b", -2.0, 4)))])

    faults = {} if same else {RowFault.CONTRADICTORY.value: 1}
    assert listed_twice.faults == unlike_its_list.faults == faults


def test_pack__another_token_that_prints_alike() -> None:
    """Without ids, a listed token spelled as the chosen one with another value is another one."""
    rows = pack([Position(Token("os", -2.0), (Token("os", -0.4), Token("x", -3.0)))])

    assert rows.faults == {RowFault.AMBIGUOUS.value: 1}


@pytest.mark.parametrize(
    ("values", "usable"),
    [((-0.7, -0.7), True), ((-0.65, -0.7), True), ((-0.1, -0.1), False), ((-1.0,) * 5, False)],
)
def test_pack__negative_logits_are_no_log_probabilities(
    values: tuple[float, ...], usable: bool
) -> None:
    """Logits below 0 pass for log-probabilities one by one; together they sum to more than 1."""
    rows = pack([row(values[0], *values)])

    assert rows.usable.tolist() == [usable]
    assert rows.faults == ({} if usable else {RowFault.OVER_ONE.value: 1})


def test_pack__a_faulty_row_makes_no_list_longer() -> None:
    """A list that is not used takes no room, however long: evidence has a limit for it."""
    hostile = Position(Token("a", math.nan, 1), tuple(Token("x", -9.0, i) for i in range(300)))
    rows = pack([row(-1.0, -1.0, -2.0), hostile])

    assert (rows.k, rows.usable.tolist()) == (2, [True, False])


def test_piece__display_text() -> None:
    """Chosen tokens and each list's first have a text; others show their id."""
    rows = pack([row(-2.0, -2.0, -0.3, -3.0)])

    assert [rows.piece(i) for i in (1, 2, 3)] == ["t1", "t2", "<3>"]
    assert concat_pieces(rows, [1, 2]) == "t1t2"


def test_text_key__fits_the_array() -> None:
    """Keys are non-negative 62-bit numbers, different for different texts."""
    keys = {text_key(bytes([a, b])) for a in range(64) for b in range(64)}

    assert len(keys) == 64 * 64
    assert all(0 <= k < 2**62 for k in keys)


values = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True, width=64))
tokens = st.builds(
    Token,
    text=st.text(max_size=3),
    logprob=values,
    id=st.one_of(st.none(), st.integers(0, 2**31 - 1)),
    data=st.one_of(st.none(), st.binary(max_size=3)),
)
positions = st.builds(Position, tokens, st.lists(tokens, max_size=4).map(tuple))


@given(st.lists(positions, max_size=6))
def test_pack__whatever_comes(listed: list[Position]) -> None:
    """Usable rows hold only numbers, unusable ones none, and every fault is counted."""
    rows: Rows = pack(listed)

    assert len(rows) == len(listed)
    assert np.isfinite(rows.logprob[rows.usable]).all()
    assert (rows.logprob[rows.usable] <= 0).all()
    assert np.isnan(rows.logprob[~rows.usable]).all()
    assert sum(rows.faults.values()) == int((~rows.usable).sum())
    filled = rows.top != PAD
    assert np.isfinite(rows.top_logprob[filled]).all()
    assert (rows.top_logprob[~filled] == -np.inf).all()
    if rows.k > 1:
        assert (rows.top_logprob[:, :-1] >= rows.top_logprob[:, 1:]).all()
