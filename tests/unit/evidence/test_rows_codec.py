"""Packed rows come back to the last bit, and nothing else comes back at all."""

from __future__ import annotations

import base64
import dataclasses
import tracemalloc
import zlib

import numpy as np
import pytest
from evidence_factory import rows
from hypothesis import given
from hypothesis import strategies as st

from iqaction.errors import EvidenceError
from iqaction.evidence.rows_codec import MAX_K, MAX_N, decode_rows, encode_rows
from iqaction.rows import PAD, Match, Position, Rows, Token, pack


def same(a: Rows, b: Rows) -> bool:
    """Equal in every column, NaN with NaN, and in all that goes with them."""
    columns = ("chosen", "logprob", "top", "top_logprob", "usable")
    return (a.match, dict(a.pieces), dict(a.faults)) == (
        b.match,
        dict(b.pieces),
        dict(b.faults),
    ) and all(
        getattr(a, c).dtype == getattr(b, c).dtype
        and getattr(a, c).shape == getattr(b, c).shape
        and getattr(a, c).tobytes() == getattr(b, c).tobytes()
        for c in columns
    )


LOGPROBS = st.none() | st.floats(-20, 2e-5) | st.sampled_from([-9999.0, float("nan")])


@st.composite
def positions(draw):
    """What an engine may send: ids or none, short lists, values that are none."""
    with_ids = draw(st.booleans())
    big = draw(st.booleans())

    def token(index: int) -> Token:
        ident = index + (2**40 if big else 0) if with_ids else None
        return Token(draw(st.text(max_size=4)) + str(index), draw(LOGPROBS), ident)

    return [
        Position(token(0), tuple(token(i) for i in range(draw(st.integers(0, 4)))))
        for _ in range(draw(st.integers(0, 6)))
    ]


@given(positions())
def test_encode_rows__round_trip_is_exact(given_positions):
    """Whatever packing makes of an engine's answer survives, unusable rows included."""
    before = pack(given_positions)

    assert same(decode_rows(encode_rows(before)), before)


@pytest.mark.parametrize(("n", "k"), [(0, 0), (0, 5), (5, 0), (1, 1), (9, 256)])
def test_encode_rows__every_shape(n, k):
    """Empty rows and empty lists keep their shape."""
    before = rows(n, k) if k <= 50 else _wide(n, k)

    assert same(decode_rows(encode_rows(before)), before)


def test_decode_rows__pieces_are_found_by_key():
    """The texts of tokens can be looked up, and a token without one is shown by its key."""
    found = decode_rows(encode_rows(pack([Position(Token("Paris", -1.0, 2**40))])))

    assert found.piece(2**40) == "Paris"
    assert found.piece(3) == "<3>"
    assert 3 not in found.pieces
    assert {**found.pieces} == {2**40: "Paris"}


def _wide(n: int, k: int) -> Rows:
    values = np.sort(-np.abs(np.random.default_rng(1).normal(size=(n, k))), axis=1)[:, ::-1]
    top = np.tile(np.arange(k, dtype=np.int32), (n, 1))
    values = values.astype(np.float32)
    return Rows(top[:, 0], values[:, 0], top, values, np.ones(n, np.bool_), Match.ID)


def test_encode_rows__ids_take_four_bytes_and_hashes_eight():
    """Vocabulary ids are stored narrow, hashes of text whole, ids that do not fit whole too."""
    ids = pack([Position(Token("a", -1.0, 7))])
    text = pack([Position(Token("a", -1.0))])
    huge = pack([Position(Token("a", -1.0, 2**31))])

    assert [encode_rows(r)["keys"] for r in (ids, text, huge)] == ["<i4", "<i8", "<i8"]


def test_decode_rows__ids_stay_narrow():
    """Half of the memory of a list is its keys: ids come back in 32 bits, however they went in."""
    narrow = rows(3, 2)
    wide = dataclasses.replace(
        narrow, chosen=narrow.chosen.astype(np.int64), top=narrow.top.astype(np.int64)
    )

    assert same(decode_rows(encode_rows(wide)), narrow)


def damaged(**changes: object) -> Rows:
    return dataclasses.replace(rows(3, 2), **changes)


BROKEN = {
    "a chosen token below 0": {"chosen": np.array([0, -1, 2])},
    "a listed token below -1": {"top": np.array([[0, 1], [-2, 1], [1, PAD]])},
    "NaN where a row is usable": {"logprob": np.array([-1, np.nan, -1], np.float32)},
    "a number where a row is not": {"usable": np.array([True, False, True])},
    "a log-probability above 0": {"logprob": np.array([-1, 0.5, -1], np.float32)},
    "an infinite log-probability": {"logprob": np.array([-1, -np.inf, -1], np.float32)},
    "a listed value above 0": {"top_logprob": np.array([[0.1, -1]] * 3, np.float32)},
    "a listed NaN": {"top_logprob": np.array([[np.nan, -1]] * 3, np.float32)},
    "a token without value": {"top_logprob": np.full((3, 2), -np.inf, np.float32)},
    "a value without token": {"top": np.full((3, 2), PAD)},
    "an ascending list": {"top_logprob": np.array([[-2, -1], [-2, -1], [-1, -np.inf]], np.float32)},
    "columns of different length": {"chosen": np.array([0, 1])},
}


@pytest.mark.parametrize("what", BROKEN)
def test_encode_rows__refuses_what_breaks_the_contract(what):
    """Rows that no packing can make are not written."""
    with pytest.raises(EvidenceError, match=r"^rows: "):
        encode_rows(damaged(**BROKEN[what]))


def blob(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def body(**changes: object) -> dict[str, object]:
    return {**encode_rows(rows(3, 2)), **changes}


def columns(chosen=0, logprob=-1.0, top=1, top_logprob=-1.0, usable=0b1, n=1) -> str:
    """A blob of ``n`` equal rows with one listed token each, of any values."""
    return blob(
        np.full(n, chosen, "<i4").view("u1").reshape(-1, 4).T.tobytes()
        + np.full(n, logprob, "<f4").view("u1").reshape(-1, 4).T.tobytes()
        + np.full(n, top, "<i4").view("u1").reshape(-1, 4).T.tobytes()
        + np.full(n, top_logprob, "<f4").view("u1").reshape(-1, 4).T.tobytes()
        + bytes([usable])
    )


def test_decode_rows__the_layout_is_what_the_schema_says():
    """A blob written by hand from the description decodes: another program can read it."""
    found = decode_rows(body(n=1, k=1, blob=columns(chosen=5, top=6), pieces={}, faults={}))

    assert (found.chosen.tolist(), found.top.tolist()) == ([5], [[6]])


FORGED = {
    "too many rows": {"n": MAX_N + 1},
    "too long lists": {"k": MAX_K + 1},
    "too many bytes": {"n": MAX_N, "k": MAX_K},
    "a negative number of rows": {"n": -1},
    "a number of rows that is none": {"n": "3"},
    "a number of rows that is a truth value": {"n": True},
    "fewer rows than the blob": {"n": 2},
    "more rows than the blob": {"n": 4},
    "unknown key type": {"keys": "<f8"},
    "unknown match": {"match": "luck"},
    "a blob that is no text": {"blob": 3},
    "a blob that is no base64": {"blob": "é!"},
    "a blob that is not deflated": {"blob": "AAAA"},
    "a blob with a tail": {"blob": base64.b64encode(zlib.compress(b"x" * 75) + b"y").decode()},
    "a cut blob": {"blob": base64.b64encode(zlib.compress(b"x" * 75)[:-6]).decode()},
    "pieces that are none": {"pieces": []},
    "a piece without a key": {"pieces": {"-1": "a"}},
    "a piece under another digit": {"pieces": {"²": "a"}},
    "a piece under no key at all": {"pieces": {"": "a"}},
    "a piece under a key of 64 bits": {"pieces": {"9" * 19: "a"}},
    "a piece under a longer key": {"pieces": {"1" * 20: "a"}},
    "a piece that is no text": {"pieces": {"1": 2}},
    "faults that are none": {"faults": None},
    "a fault of no rows": {"faults": {"x": 0}},
    "a fault that is no count": {"faults": {"x": True}},
    "a chosen token below 0": {"n": 1, "k": 1, "blob": columns(chosen=-1)},
    "a listed token below -1": {"n": 1, "k": 1, "blob": columns(top=-2)},
    "a value above 0": {"n": 1, "k": 1, "blob": columns(logprob=1e-3)},
    "an infinite value": {"n": 1, "k": 1, "blob": columns(logprob=-np.inf)},
    "a usable NaN": {"n": 1, "k": 1, "blob": columns(logprob=np.nan)},
    "an unusable number": {"n": 1, "k": 1, "blob": columns(usable=0)},
    "a listed NaN": {"n": 1, "k": 1, "blob": columns(top_logprob=np.nan)},
    "a listed value above 0": {"n": 1, "k": 1, "blob": columns(top_logprob=2.0)},
    "a token without value": {"n": 1, "k": 1, "blob": columns(top_logprob=-np.inf)},
    "a mark beyond the rows": {"n": 1, "k": 1, "blob": columns(usable=0b11)},
}


SAYS = {
    "too many bytes": "declared as",
    "fewer rows than the blob": "not as long as",
    "more rows than the blob": "not as long as",
    "a blob with a tail": "not as long as",
    "a cut blob": "not as long as",
    "a chosen token below 0": "a chosen token below 0",
    "a listed token below -1": "a listed token below -1",
    "a value above 0": "a log-probability above 0 or infinite",
    "an infinite value": "a log-probability above 0 or infinite",
    "a usable NaN": "NaN where a row is usable",
    "an unusable number": "NaN where a row is usable",
    "a listed NaN": "a listed log-probability above 0 or NaN",
    "a listed value above 0": "a listed log-probability above 0 or NaN",
    "a token without value": "a token without",
    "a mark beyond the rows": "beyond the last row",
}


@pytest.mark.parametrize("what", FORGED)
def test_decode_rows__refuses_forged_bodies(what):
    """Shape, type, range and size are checked against what the body itself declares."""
    with pytest.raises(EvidenceError, match=r"^rows: ") as caught:
        decode_rows(body(**FORGED[what]))

    assert SAYS.get(what, "") in str(caught.value)


@pytest.mark.parametrize("name", ["n", "k", "keys", "match", "pieces", "faults", "blob"])
def test_decode_rows__refuses_a_body_without_a_field(name):
    """Nothing is filled in for what is not there."""
    forged = body()
    del forged[name]

    with pytest.raises(EvidenceError, match=r"^rows: "):
        decode_rows(forged)


def test_decode_rows__a_bomb_is_not_inflated():
    """A blob of a thousand times its declared size costs no more than was declared."""
    bomb = body(blob=blob(b"\0" * 64 * 1024**2))
    tracemalloc.start()
    try:
        with pytest.raises(EvidenceError, match="not as long as"):
            decode_rows(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2 * 1024**2


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_decode_rows__an_altered_blob_is_refused_or_lawful(at, change):
    """Any altered byte gives an error or rows that keep the contract: never a traceback."""
    packed = bytearray(base64.b64decode(str(body()["blob"])))
    packed[at % len(packed)] ^= change
    try:
        found = decode_rows(body(blob=base64.b64encode(bytes(packed)).decode()))
    except EvidenceError:
        return

    assert same(decode_rows(encode_rows(found)), found)
