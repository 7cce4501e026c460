"""Answers a dialect's requests from recorded exchanges, so that no test needs a server.

A *recording* is one exchange (``request``, ``status``, ``headers``, ``body_json`` or
``body_text``); a *conversation* is a list of them under ``exchanges``, with the call that led to
it under ``call``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

from iqaction.calls import Arm, Chat, EngineInfo, FailureKind, Force, Message, Tag, Tokenize
from iqaction.engines._base import FULL, WireReply, WireRequest
from iqaction.http import read_reply

T = TypeVar("T")

RECORDINGS = Path(__file__).parent / "recordings"
TAG = Tag(Arm.CANDIDATE, "trajectory", "p1")
NOT_RECORDED = WireReply(0, failure=FailureKind.CONNECT, message="not recorded")

DIALECT = {
    "vllm-0.32.0": "vllm",
    "vllm-0.32.0-processed-logprobs": "vllm",
    "llama.cpp-b11549": "llamacpp",
    "llama-cpp-python-0.3.36": "openai",
    "transformers-serve-5.19.0": "openai",
}


def load(path: Path | str) -> dict[str, Any]:
    """A recording, by path or as ``engine/name``."""
    full = path if isinstance(path, Path) else RECORDINGS / f"{path}.json"
    value: dict[str, Any] = json.loads(full.read_text(encoding="utf-8"))
    return value


def reply_of(recording: dict[str, Any]) -> WireReply:
    """What the client makes of a recorded answer; parsed by its own code."""
    if "exception" in recording:
        return WireReply(0, failure=FailureKind.RESET, message="the connection broke")
    body, text = recording.get("body_json"), recording.get("body_text")
    data = (json.dumps(body) if body is not None else text or "").encode()
    headers = {k.lower(): v for k, v in recording.get("headers", {}).items()}
    return read_reply(recording["status"], data, headers)


def answer(status: int, body: object = None, text: str = "", **headers: str) -> WireReply:
    """A made-up answer, parsed by the client's own code."""
    data = json.dumps(body) if body is not None else text
    return read_reply(status, data.encode(), {k.replace("_", "-"): v for k, v in headers.items()})


Answers = Callable[[WireRequest], WireReply]


def run(speaking: Generator[WireRequest, WireReply, T], answers: Answers) -> T:
    """Hold a conversation with ``answers``."""
    try:
        request = next(speaking)
        for _ in range(10_000):
            request = speaking.send(answers(request))
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the conversation does not end")


class Script:
    """Answers in order; what is asked beyond them was not recorded. Remembers the requests."""

    def __init__(self, *replies: WireReply) -> None:
        self.replies = list(replies)
        self.asked: list[WireRequest] = []

    def __call__(self, request: WireRequest) -> WireReply:
        self.asked.append(request)
        return self.replies.pop(0) if self.replies else NOT_RECORDED

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [dict(r.body or {}) for r in self.asked]


class Paths:
    """Answers by method and path from the recordings of one engine; anything else is a 404."""

    def __init__(self, engine: str) -> None:
        self.by_path = {}
        for path in sorted((RECORDINGS / engine).glob("get_*.json")):
            recording = load(path)
            self.by_path["GET " + recording["request"]["path"]] = reply_of(recording)
        self.asked: list[str] = []

    def __call__(self, request: WireRequest) -> WireReply:
        key = f"{request.method} {request.path}"
        self.asked.append(key)
        return self.by_path.get(key, answer(404, {"detail": "Not Found"}))


def engine(dialect: str, **changes: Any) -> EngineInfo:
    given = {"model": "smollm2", "capabilities": FULL, **changes}
    return EngineInfo(dialect, **given)


def chat(text: str = "What is the capital of France?", **changes: Any) -> Chat:
    given = {"max_tokens": 8, "top_logprobs": 20, **changes}
    return Chat(TAG, (Message("user", text),), **given)


def force(
    prompt: tuple[int, ...] = (504,), continuation: tuple[int, ...] = (3575,), k: int = 5
) -> Force:
    return Force(TAG, prompt, continuation, k)


def tokenize(text: str | None = None, **changes: Any) -> Tokenize:
    messages = () if text is not None else (Message("user", "What is the capital of France?"),)
    return Tokenize(TAG, text, messages, **changes)
