"""What holds for every answer to every call, read from its bytes a second time and plainly."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from wire.lab import Lab

from iqaction.calls import (
    Call,
    Draw,
    Drawn,
    Failure,
    Force,
    Generation,
    Observation,
    Scored,
    TokenIds,
)
from iqaction.engines import _chat
from iqaction.evidence import canon, envelope
from iqaction.rows import Match, Rows

_MARKS = ("think", "thought", "THINK", "<|channel|>")
WHEN = "2025-01-01T00:00:00Z"
_WORDS = [
    f
    for name, f in vars(_chat).items()
    if name.isupper() and isinstance(f, str) and not name.startswith("_") and name != "PATH"
]
_FLAGS = [re.compile(re.escape(f).replace(r"\{\}", ".*"), re.DOTALL) for f in _WORDS]
_FLAGS += [re.compile("the engine gave a sampled sequence up|the prompt's token ids do not have")]


def told_again(observation: Observation) -> None:
    """What is kept of an answer is written and read back without a loss."""
    body = envelope.observation_to_json("trajectory", observation, WHEN)
    data = canon.dump(body)
    stage, again = envelope.observation_from_json(canon.load_object(data, "line"))

    assert canon.dump(envelope.observation_to_json(stage, again, WHEN)) == data


def texts_of(answer: Any) -> Iterator[str]:
    match answer:
        case Generation():
            yield from (answer.text, answer.reasoning, answer.model, answer.fingerprint)
            yield from answer.flags
        case Scored() | Drawn():
            yield from answer.flags
        case Failure():
            yield answer.message
    rows = getattr(answer, "rows", None)
    if rows is not None:
        yield from rows.pieces.values()


def check_rows(rows: Rows) -> None:
    """Every row that is not usable is counted under one fault, and has no number."""
    unusable = int((~rows.usable).sum())

    assert sum(rows.faults.values()) == unusable
    assert all(math.isnan(v) for v in rows.logprob[~rows.usable])
    assert rows.top_logprob.size == 0 or float(rows.top_logprob.max()) <= 0
    if len(rows):
        mass = [sum(math.exp(v) for v in row) for row in rows.top_logprob.tolist()]
        assert max(mass) <= 1.06


def check(call: Call, observation: Observation, lab: Lab) -> None:
    """What holds for every answer to every call."""
    answer = observation.answer
    told_again(observation)
    for text in texts_of(answer):
        text.encode()
    assert len(lab.paths) <= 80
    assert max(lab.slept, default=0) <= 60
    rows = getattr(answer, "rows", None)
    if rows is not None:
        check_rows(rows)
    for flag in getattr(answer, "flags", ()):
        assert any(f.match(flag) for f in _FLAGS), flag
    match answer:
        case Failure():
            assert answer.message
            assert len(answer.message) < 700
            assert "\n" not in answer.message
        case Generation():
            assert answer.finish_reason in ("stop", "length", "tool_calls", "repetition")
            assert answer.rows is not None or not (answer.rows_complete or answer.top_logprobs)
        case Scored():
            assert isinstance(call, Force)
            assert tuple(answer.rows.chosen.tolist()) == call.continuation_ids
            assert answer.rows.match is Match.ID
        case Drawn():
            assert isinstance(call, Draw)
            assert sum(answer.lengths) == len(answer.rows)
            assert len(answer.lengths) == len(answer.finish_reasons) <= call.n
        case TokenIds():
            assert all(0 <= i < 2**24 for i in answer.ids)


def is_logprob(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -9000 < value <= 1e-4


def plain_choice(data: bytes) -> dict[str, Any] | None:
    """The first choice of an answer as the plainest reader has it."""
    try:
        body = json.loads(data)
        found = [c for c in body["choices"] if isinstance(c, dict)]
        indices = [c.get("index") for c in found]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found[0] if len(found) == 1 and indices[0] in (0, None) else None


def check_chat(answer: Any, data: bytes) -> None:
    """What a chat's answer says is in the bytes; what it calls usable is a log-probability."""
    choice = plain_choice(data)
    if not isinstance(answer, Generation) or choice is None:
        return
    content = choice["message"].get("content")
    assert content is None or isinstance(content, (str, list))
    marked = isinstance(content, str) and any(mark in content for mark in _MARKS)
    if isinstance(content, str) and not answer.reasoning and not marked:
        assert answer.text == content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    rows, logprobs = answer.rows, choice.get("logprobs")
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    if rows is None or not isinstance(entries, list) or len(entries) != len(rows):
        return
    for i, entry in enumerate(entries):
        if not rows.usable[i]:
            continue
        assert is_logprob(entry["logprob"])
        assert rows.logprob[i] == pytest.approx(min(entry["logprob"], 0.0), rel=1e-5, abs=1e-5)
        listed = entry.get("top_logprobs")
        for other in listed if isinstance(listed, list) else ():
            assert is_logprob(other["logprob"])


def check_counts(answer: Generation, body: Any) -> None:
    """What is called whole has as many rows as tokens were counted, or one less at the end."""
    usage = body.get("usage")
    told = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if answer.rows_complete and type(told) is int and 0 <= told < 2**53:
        ended = answer.finish_reason == "stop"
        assert answer.rows is not None
        assert len(answer.rows) in (told, told - 1 if ended else told)


def check_forced(answer: Any, call: Force, data: bytes) -> None:
    """Each value is the one that the answer has under that very token."""
    if not isinstance(answer, Scored) or answer.method != "prompt_logprobs":
        return
    if data.startswith(b"data:"):
        return
    body = json.loads(data)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else {}
    rows = choice.get("prompt_logprobs") if isinstance(choice, dict) else None
    rows = (body.get("prompt_logprobs") if rows is None else rows)[len(call.prompt_ids) :]
    for i, (row, wanted) in enumerate(zip(rows, call.continuation_ids, strict=True)):
        if answer.rows.usable[i]:
            told = [v["logprob"] for k, v in row.items() if k.isdigit() and int(k) == wanted]
            assert all(map(is_logprob, told))
            assert answer.rows.logprob[i] == pytest.approx(min(told[0], 0.0), rel=1e-5, abs=1e-5)


def check_ids(answer: Any, data: bytes) -> None:
    """The ids are those that the answer lists, in its order, and as many as it counts."""
    if not isinstance(answer, TokenIds) or data.startswith(b"data:"):
        return
    body = json.loads(data)
    listed = body if isinstance(body, list) else body["tokens"]
    while listed and isinstance(listed[0], list):
        (listed,) = listed
    told = body.get("count") if isinstance(body, dict) else None
    assert answer.ids == tuple(t["id"] if isinstance(t, dict) else t for t in listed)
    assert type(told) is not int or not 0 <= told < 2**53 or told == len(answer.ids)
