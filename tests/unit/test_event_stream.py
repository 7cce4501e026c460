"""A stream that nobody asked for, put together as one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction._event_stream import assembled, is_stream


def stream(*chunks: Any, done: bool = True, end: str = "\n") -> str:
    events = [c if isinstance(c, str) else json.dumps(c) for c in chunks] + ["[DONE]"] * done
    return "".join(f"data: {event}{end}{end}" for event in events)


def chunk(content: Any = None, finish: Any = None, index: int = 0, **more: Any) -> dict[str, Any]:
    delta = {"content": content, **more.pop("delta", {})}
    return {
        "id": "x",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish} | more],
    }


def made(text: str) -> Any:
    return assembled(text, json.loads)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_assembled__a_whole_answer(end: str) -> None:
    """Texts and rows are joined, the end and the counts kept, comments and pings left out."""
    row = {"token": "H", "logprob": -0.1}
    text = f": ping{end}{end}" + stream(
        chunk(None),
        chunk("H", logprobs={"content": [row]}, token_ids=[1]),
        chunk("i", delta={"reasoning_content": "so"}, logprobs={"content": [row, row]}),
        chunk("", "stop", token_ids=[2, 3]),
        {"id": "x", "choices": [], "usage": {"completion_tokens": 3}},
        end=end,
    )

    assert made(text) == {
        "id": "x",
        "usage": {"completion_tokens": 3},
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "token_ids": [1, 2, 3],
                "message": {"content": "Hi", "reasoning_content": "so"},
                "logprobs": {"content": [row] * 3},
            }
        ],
    }


def test_assembled__several_choices() -> None:
    """Chunks of several choices come mixed and go apart."""
    text = stream(chunk("B", index=1), chunk("A"), chunk("b", "stop", 1), chunk("a", "length"))

    assert [(c["message"]["content"], c["finish_reason"]) for c in made(text)["choices"]] == [
        ("Aa", "length"),
        ("Bb", "stop"),
    ]


@pytest.mark.parametrize(
    "error",
    [{"error": {"message": "boom"}}, {"object": "error", "message": "boom"}, {"error": "boom"}],
)
def test_assembled__an_error_is_the_answer(error: Any) -> None:
    """What came before an error is no answer."""
    body = made(stream(chunk("Hi", "stop"), error))

    assert list(body) == ["error"]
    assert "boom" in json.dumps(body["error"])


def test_assembled__breaks_off() -> None:
    """A stream that ends in the middle has no reason to have finished."""
    (choice,) = made(stream(chunk("Hi"), done=False))["choices"]

    assert "finish_reason" not in choice


def test_assembled__content_that_is_no_text_stays() -> None:
    """It is not read as an empty text."""
    (choice,) = made(stream(chunk("H"), chunk(5), chunk("i", "stop")))["choices"]

    assert choice["message"]["content"] == 5


def test_assembled__after_the_end() -> None:
    """What follows the end mark does not count."""
    text = stream(chunk("Hi", "stop")) + stream(chunk(" you"))

    assert made(text)["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.parametrize(
    "text", ["", "data: [DONE]\n\n", ": ping\n\n", "data: 5\n\n", "event: x\n"]
)
def test_assembled__nothing(text: str) -> None:
    """A stream without chunks is no answer."""
    assert made(text) is None


def test_assembled__an_event_of_several_lines() -> None:
    """Lines of one event are joined; the last one needs no blank line after it."""
    text = 'data: {"choices": [{"delta":\ndata:{"content": "Hi"}}]}'

    assert made(text)["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        (b"data: {}\n\n", "", True),
        (b": hi\n\ndata: {}", "", True),
        (b"\n event: x\ndata: {}", "text/event-stream", True),
        (b": hi\n\n", "text/event-stream; charset=utf-8", True),
        (b'{"data": 1}', "text/event-stream", False),
        (b"idle", "", False),
        (b"id: nothing follows", "", False),
        (b"", "text/event-stream", False),
    ],
)
def test_is_stream(data: bytes, content_type: str, expected: bool) -> None:
    """By its first line, since gateways call it what they like."""
    assert is_stream(data, content_type) is expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "index", "logprobs", "content", "error", "token_ids", "usage"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150)
@given(st.lists(VALUES, max_size=4))
def test_assembled__whatever_comes(chunks: list[Any]) -> None:
    """Any chunks are an answer or none, and an answer is one object."""
    body = made(stream(*map(json.dumps, chunks)))

    assert body is None or isinstance(body, dict)
