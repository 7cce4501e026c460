"""An answer that came as a stream of events though none was asked for, put together as one. Pure.

Gateways stream what they were told not to. Knows server-sent events and OpenAI's chunks; judges
nothing: an error among the chunks becomes the answer's error, and a stream that broke off gives an
answer without a ``finish_reason``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from iqaction.json_value import JSON

Parse = Callable[[str], JSON]
_DONE = "[DONE]"
_TEXTS = ("content", "reasoning", "reasoning_content")
_LISTS = ("token_ids",)


def is_stream(data: bytes, content_type: str) -> bool:
    """True for the bytes of an event stream, whatever the server calls them."""
    head = data[:64].lstrip()
    named = content_type.lower().startswith("text/event-stream")
    return head.startswith((b"data:", b"event:", b"id:", b"retry:", b":")) and (
        named or b"data:" in data
    )


def assembled(text: str, parse: Parse) -> JSON:
    """The chat completion that the chunks of a stream amount to; None where there are none.

    Raises
    ------
    ValueError
        ``parse``'s, for an event that it cannot read.
    """
    whole: dict[str, JSON] = {}
    choices: dict[int, _Choice] = {}
    for data in _events(text):
        chunk = parse(data)
        if not isinstance(chunk, dict):
            continue
        if chunk.get("error") or chunk.get("object") == "error":
            return {"error": chunk.get("error") or chunk}
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                whole[name] = value
        listed = chunk.get("choices")
        for delta in listed if isinstance(listed, list) else []:
            if isinstance(delta, dict):
                index = delta.get("index")
                at = index if isinstance(index, int) else 0
                choices.setdefault(at, _Choice()).add(delta)
    if not choices and not whole:
        return None
    return {**whole, "choices": [choices[i].whole(i) for i in sorted(choices)]}


def _events(text: str) -> Iterator[str]:
    """The data of each event, up to the end mark; comments and other fields are left out."""
    lines: list[str] = []
    for line in (*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""):
        if line.startswith("data:"):
            lines.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and lines:
            data, lines = "\n".join(lines), []
            if data.strip() == _DONE:
                return
            yield data


class _Choice:
    """One choice as it grows."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._odd: dict[str, JSON] = {}  # a content that is no text stays what it is
        self._rows: list[JSON] | None = None
        self._lists: dict[str, list[JSON]] = {}
        self._rest: dict[str, JSON] = {}

    def add(self, chunk: dict[str, JSON]) -> None:
        delta = chunk.get("delta", chunk.get("message"))
        for name, value in delta.items() if isinstance(delta, dict) else ():
            if name in _TEXTS and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            elif value is not None:
                self._odd[name] = value
        logprobs = chunk.get("logprobs")
        rows = logprobs.get("content") if isinstance(logprobs, dict) else None
        if isinstance(rows, list):
            self._rows = self._rows or []
            self._rows.extend(rows)
        for name in _LISTS:
            more = chunk.get(name)
            if isinstance(more, list):
                self._lists.setdefault(name, []).extend(more)
        known = ("index", "delta", "message", "logprobs", *_LISTS)
        self._rest |= {k: v for k, v in chunk.items() if k not in known and v is not None}

    def whole(self, index: int) -> JSON:
        message: dict[str, JSON] = {name: "".join(parts) for name, parts in self._texts.items()}
        choice = {"index": index, **self._rest, **self._lists, "message": {**message, **self._odd}}
        if self._rows is not None:
            choice["logprobs"] = {"content": self._rows}
        return cast(JSON, choice)
