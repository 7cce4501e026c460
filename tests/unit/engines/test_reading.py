"""Typed reads of untrusted JSON: a wrong kind is None, never an exception."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.engines import _reading as read

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_reads__never_raise(value: Any) -> None:
    """Whatever JSON holds, each read gives its own type or None."""
    assert isinstance(read.as_map(value), dict)
    assert isinstance(read.as_list(value), list)
    for reader, kind in (
        (read.as_text, str),
        (read.as_int, int),
        (read.as_count, int),
        (read.as_number, float),
        (read.as_id, int),
        (read.as_ids, tuple),
        (read.as_bytes, bytes),
    ):
        found = reader(value)
        assert found is None or (isinstance(found, kind) and not isinstance(found, bool))


@pytest.mark.parametrize("value", [True, -1, 2**31, 10**400, 1.0, "1", None])
def test_as_id__what_is_no_token_id(value: Any) -> None:
    """True is no id, and no vocabulary has two thousand million tokens."""
    assert read.as_id(value) is None


def test_as_ids__all_or_none() -> None:
    """One bad entry makes the list useless: ids are positions too."""
    assert read.as_ids([1, 2]) == (1, 2)
    assert read.as_ids([]) == ()
    assert read.as_ids([1, None]) is None
    assert read.as_ids({"0": 1}) is None


def test_as_number__keeps_what_is_no_number() -> None:
    """NaN is read here and refused where values are judged."""
    assert math.isnan(read.as_number(math.nan) or 0.0)
    assert read.as_number(10**400) == math.inf
    assert read.as_number(-(10**400)) == -math.inf
    assert read.as_number(True) is None


def test_as_text__half_a_surrogate_pair() -> None:
    """JSON may hold what no file can: it becomes U+FFFD."""
    assert read.as_text("a\ud800b") == "a\ufffdb"
    assert read.as_text("\U0001f600") == "\U0001f600"


@pytest.mark.parametrize(
    ("value", "data"),
    [([], b""), ([32, 80], b" P"), ([256], None), ([-1], None), (["a"], None), ("ab", None)],
)
def test_as_bytes(value: Any, data: bytes | None) -> None:
    """A list of bytes; an empty one is known to be empty."""
    assert read.as_bytes(value) == data
