"""JSON is written one way and read strictly."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.errors import EvidenceError
from iqaction.evidence import canon

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(VALUES)
def test_dump__round_trip_is_exact_and_canonical(value):
    """What was written reads back equal, and writes the same bytes again."""
    data = canon.dump(value)

    assert canon.load(data, "x") == value
    assert canon.dump(canon.load(data, "x")) == data


def test_dump__order_of_keys_does_not_matter():
    """Equal objects have equal bytes, one line of ASCII each."""
    assert canon.dump({"b": "é", "a": 1}) == canon.dump({"a": 1, "b": "é"})
    assert canon.dump({"b": "é", "a": 1}) == b'{"a":1,"b":"\\u00e9"}\n'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_dump__no_number_is_never_written(value):
    """NaN and infinities are refused."""
    with pytest.raises(EvidenceError, match="a number that is none"):
        canon.dump({"x": [value]})


@pytest.mark.parametrize(
    "data",
    [
        *(b"NaN", b"[Infinity]", b'{"x": -Infinity}', b"1e999", b"[-1e999]"),
        *(b"", b"{", b"[1,]", b"{'a': 1}", b"1 2", b"\xff", b"[" * 100_000, b'"\x01"'),
        *(b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b"9" * 5000),
    ],
)
def test_load__refuses_what_is_no_json(data):
    """NaN, numbers beyond all, other encodings, bombs of brackets: one error, no traceback."""
    with pytest.raises(EvidenceError, match=r"^here: not JSON"):
        canon.load(data, "here")


def test_load__the_error_escapes_what_a_terminal_would_obey():
    """Nothing of the broken text reaches a terminal raw."""
    with pytest.raises(EvidenceError) as caught:
        canon.load(b"[\x1b[31m 1e9999\xe2\x80\xae]", "here")

    assert "\x1b" not in str(caught.value)
    assert canon.shown("a\x1b[31m\u202e\n") == "a\\x1b[31m\\u202e\\n"


@pytest.mark.parametrize("data", [b"[]", b"1", b"null", b'"x"'])
def test_load_object__wants_an_object(data):
    """A list is no document."""
    with pytest.raises(EvidenceError, match="no JSON object"):
        canon.load_object(data, "here")


def test_identify__is_the_sha256_of_the_bytes():
    """An id can be checked with sha256sum."""
    assert canon.identify(b"abc").startswith("ba7816bf8f01cfea414140de5dae2223")
    assert json.loads(canon.dump({})) == {}


def test_real__what_no_float_holds():
    """JSON has whole numbers of any length; one that is too long is refused in words."""
    assert canon.real(3) == 3.0
    with pytest.raises(EvidenceError, match="no float holds"):
        canon.real(10**400)
