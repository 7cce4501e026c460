"""What the bytes of an answer are: JSON, cut JSON, JSON with a mistake, or none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction._replies import read_reply
from iqaction.calls import FailureKind

TRUNCATED, MALFORMED = FailureKind.TRUNCATED_BODY, FailureKind.MALFORMED
BODY = {
    "choices": [{"message": {"content": 'é "\\ \n 𝕏'}, "logprobs": [-1.5e-07, True, None]}],
    "usage": {"n": 12},
}
WHOLE = json.dumps(BODY, ensure_ascii=False).encode()


@settings(max_examples=300)
@given(st.integers(1, len(WHOLE) - 1), st.booleans())
def test_read_reply__cut_anywhere(at: int, ascii_only: bool) -> None:
    """JSON that breaks off breaks off, wherever that is: it is worth another try."""
    data = json.dumps(BODY).encode() if ascii_only else WHOLE
    reply = read_reply(200, data[: min(at, len(data) - 1)], {})

    assert (reply.body, reply.failure) == (None, TRUNCATED)
    assert reply.message == "the answer breaks off within its JSON"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"logprob": nan, "usage": {"completion_tokens": 5}}', "Expecting value, character 12"),
        (b'{"logprob": -inf, "usage": {"completion_tokens": 5}}', "Expecting value"),
        (b'{"text": "two\nlines", "usage": {"completion_tokens": 5}}', "Invalid control character"),
        (b'{"a": 1}{"b": 2, "usage": {"completion_tokens": 5}}', "Extra data"),
        (b"{'a': 1, 'usage': {'completion_tokens': 5}}", "property name"),
        (b'{"text": "\xff\xfe", "usage": {"completion_tokens": 5}}', "not UTF-8 (byte 10)"),
        (b'{"a": 1, "b": [{"x": 1, "x": 2}]}', "names 'x' twice, with two values"),
        (b'{"a": {"\\ud800": 1, "\\ud800": 2}}', "names '\\ud800' twice, with two values"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"n": ' + b"9" * 5000 + b"}", "absurdly long number"),
    ],
)  # fmt: skip
def test_read_reply__a_mistake_in_it(data: bytes, said: str) -> None:
    """A mistake is named, and no second try would mend it."""
    reply = read_reply(200, data, {})

    assert (reply.body, reply.failure) == (None, MALFORMED)
    assert said in reply.message


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"\xef\xbb\xbf" + WHOLE, BODY),
        (json.dumps(BODY).encode("utf-16"), BODY),
        (b' \r\n{"a": 1}\n\n', {"a": 1}),
        (b'{"a": [1, 2], "a": [1, 2]}', {"a": [1, 2]}),
        (b'{"a": Infinity, "b": -Infinity}', {"a": float("inf"), "b": float("-inf")}),
        (b'{"a": 1e999}', {"a": float("inf")}),
    ],
)
def test_read_reply__json(data: bytes, body: Any) -> None:
    """JSON in the encodings it may have, and in Python's dialect of it."""
    reply = read_reply(200, data, {})

    assert (reply.body, reply.failure, reply.message) == (body, None, "")


@pytest.mark.parametrize("data", [b"", b"Loading", b"<html>", b"\xff\xfe\xfd", b"null", b"data:"])
def test_read_reply__no_json(data: bytes) -> None:
    """What does not look like JSON is shown as it is."""
    reply = read_reply(200, data, {})

    assert (reply.body, reply.failure, reply.message) == (None, None, "")
    assert reply.text == data.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, None), (201, None), (400, None), (404, None), (424, None), (500, None),
        (302, FailureKind.STATUS), (429, FailureKind.BUSY), (503, FailureKind.BUSY),
        (529, FailureKind.BUSY), (408, FailureKind.PROXY), (502, FailureKind.PROXY),
        (504, FailureKind.PROXY), (520, FailureKind.PROXY), (522, FailureKind.PROXY),
        (524, FailureKind.PROXY), (527, FailureKind.PROXY), (530, None),
    ],
)  # fmt: skip
def test_read_reply__statuses(status: int, kind: FailureKind | None) -> None:
    """What stands between us and the engine is told from the engine, with JSON and with a page."""
    for data in (b'{"error": "x"}', b"<title>x</title>", b'{"a": nan, "xxxxxxxxxxxxxxxxxxx": 1}'):
        assert read_reply(status, data, {}).failure is (
            MALFORMED if status == 200 and b"nan" in data else kind
        )


def test_read_reply__a_stream() -> None:
    """A stream that was not asked for is the answer it amounts to; a broken one is none."""
    good = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
    reply = read_reply(200, good + b"data: [DONE]\n\n", {"content-type": "text/event-stream"})
    broken = read_reply(200, good + b'data: {"choices": [{"de\n\n', {})

    assert reply.body == {
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Hi"}}]
    }
    assert (broken.body, broken.failure) == (None, TRUNCATED)


@settings(max_examples=200)
@given(
    st.binary(max_size=60), st.sampled_from([200, 400, 503]), st.sampled_from(["", "{", "data:"])
)
def test_read_reply__whatever_comes(data: bytes, status: int, start: str) -> None:
    """Any bytes are read, and what is kept of them is text that can be written."""
    reply = read_reply(status, start.encode() + data, {"content-type": "text/event-stream"})

    assert len((reply.text + reply.message).encode()) < 9_000
