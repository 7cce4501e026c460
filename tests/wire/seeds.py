"""What neighbours are made of: by topic, the bodies of its cases and who is asked what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wire.cases import CASES, GOOD
from wire.replay import TAG, chat, force, tokenize

from iqaction import engines
from iqaction.calls import Call, Draw, Message

DIALECTS = tuple(engines.names())
TOPICS = tuple(dict.fromkeys(c["topic"] for c in CASES.values()))


def answer_of(tokens: list[str]) -> dict[str, Any]:
    """A chat answer of these tokens."""
    rows = [
        {
            "token": t,
            "logprob": -0.5,
            "bytes": list(t.encode()),
            "top_logprobs": [{"token": t, "logprob": -0.5}, {"token": "?", "logprob": -1.5}],
        }
        for t in tokens
    ]
    choice = {"index": 0, "message": {"content": "".join(tokens)}, "logprobs": {"content": rows}}
    usage = {"prompt_tokens": 5, "completion_tokens": len(tokens)}
    return {"choices": [{**choice, "finish_reason": "stop"}], "usage": usage}


def trees(case: dict[str, Any]) -> Iterator[Any]:
    """What a server of the case answers, as JSON; where the case is no answer, one like it."""
    told = case["response"]
    match case["kind"]:
        case "gsm8k":
            choice = {"message": {"content": told["text"]}, "finish_reason": told["finish_reason"]}
            yield {"choices": [choice], "usage": {"completion_tokens": 9}}
        case "trajectory_pair":
            yield answer_of(["A", "x", "y"])
        case "histogram":
            yield {"choices": [answer_of([t])["choices"][0] for t in "AAB"]}
        case "pair" if "first" in told:
            yield told["first"]
        case "pair":
            yield {"tokens": list(range(30)), "count": 30}
        case "sse":
            yield from (json.loads(e[6:]) for e in told.split("\n\n") if e.startswith("data: {"))
        case "transport" | "raw_body":
            yield GOOD
        case "info" if not {"data", "version"} & set(told) and "total_slots" not in told:
            yield answer_of(["A", "b"])
        case _:
            yield told


CHATS: tuple[Call, ...] = (
    chat(max_tokens=8),
    chat(top_logprobs=0, template_kwargs='{"enable_thinking":false}'),
    chat(temperature=1.0, top_logprobs=3),
    Draw(TAG, (Message("user", "x"),), 3, 4, 0.8, top_k=20, top_logprobs=4),
)
FORCES: tuple[Call, ...] = (force((5,), (7, 8), 3), force((5,), (917,), 1), force((5,), (11,), 2))
TOKENIZES: tuple[Call, ...] = (tokenize("hi"), tokenize())
ANY = CHATS + FORCES + TOKENIZES
FITTING = {
    "completions": FORCES, "sglang_generate": FORCES, "tokenize": TOKENIZES, "http_error": ANY,
    "raw_body": ANY, "sse": ANY, "pair": FORCES + TOKENIZES,
}  # fmt: skip
SPEAKERS = {"completions": ("vllm",), "sglang_generate": ("sglang",)}


@dataclass(frozen=True)
class Seed:
    """A status, a body, and what is asked of which dialects."""

    status: int
    body: Any
    calls: tuple[Call, ...]
    dialects: tuple[str, ...]


SEEDS = {
    topic: tuple(
        Seed(
            c.get("status") or 200,
            tree,
            FITTING.get(c["kind"], CHATS),
            SPEAKERS.get(c["kind"], DIALECTS),
        )
        for c in CASES.values()
        if c["topic"] == topic
        for tree in trees(c)
    )
    for topic in TOPICS
}
