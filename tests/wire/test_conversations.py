"""Whole recorded conversations: what the dialect asks, in which order, and what it makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire.replay import RECORDINGS, TAG, Paths, Script, answer, engine, load, reply_of, run

from iqaction import engines
from iqaction.calls import (
    Call,
    Chat,
    EngineInfo,
    Force,
    Generation,
    Message,
    Scored,
    TokenIds,
    Tokenize,
)
from iqaction.engines._base import WireReply, WireRequest
from iqaction.engines._detect import discover
from iqaction.rows import Match, Rows

NAMES = sorted(p.stem for p in (RECORDINGS / "llama.cpp-b11549").glob("conversation_*.json"))
CALLS = [n for n in NAMES if n != "conversation_detect"]
LLAMA = engine("llamacpp", eos_id=2, max_model_len=4096)


class Recorded:
    """Answers as recorded, and insists that the same is asked in the same order."""

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self.left = list(exchanges)

    def __call__(self, request: WireRequest) -> WireReply:
        exchange = self.left.pop(0)
        asked = {"method": request.method, "path": request.path, "body": request.body}

        assert exchange["request"] == json.loads(json.dumps(asked))
        return reply_of(exchange)


def call_of(recording: dict[str, Any]) -> Call:
    parts = {k: v for k, v in recording["call"].items() if k != "tag"}
    for name in ("prompt_ids", "continuation_ids"):
        if name in parts:
            parts[name] = tuple(parts[name])
    if "messages" in parts:
        parts["messages"] = tuple(Message(**m) for m in parts["messages"])
    kinds: dict[str, Any] = {"Chat": Chat, "Force": Force, "Tokenize": Tokenize}
    call: Call = kinds[recording["kind"]](tag=TAG, **parts)
    return call


def replay(name: str) -> tuple[Any, int]:
    recording = load(f"llama.cpp-b11549/{name}")
    exchanges = Recorded(recording["exchanges"])
    result = run(engines.load("llamacpp").speak(call_of(recording), LLAMA), exchanges)

    assert exchanges.left == []
    return result, len(recording["exchanges"])


@pytest.mark.parametrize("name", CALLS)
def test_conversation(name: str) -> None:
    """The dialect asks exactly what was recorded and reaches an answer."""
    result, _ = replay(name)

    assert isinstance(result, Generation | Scored | TokenIds)


def rows_of(name: str) -> Rows:
    result, _ = replay(name)
    rows = result.rows
    assert isinstance(rows, Rows)
    return rows


def test_chat__an_ended_text_has_its_end_token_as_a_row() -> None:
    """llama.cpp lists the end token, so that an early stop can be seen and forced."""
    result, _ = replay("conversation_chat_end")

    assert (result.finish_reason, result.rows_complete) == ("stop", True)
    assert (int(result.rows.chosen[-1]), result.eos_id) == (2, None)
    assert result.prompt_tokens == len(result.prompt_ids)
    assert result.flags == ()


def test_chat__byte_fragments_keep_their_place() -> None:
    """12 rows come for 24 tokens: the ids of all are kept, the missing values are not made up."""
    result, _ = replay("conversation_chat_fragments")

    assert result.rows_complete
    assert (len(result.rows), result.completion_tokens) == (24, 24)
    assert tuple(result.rows.chosen[6:9].tolist()) == (10813, 230, 231)
    assert result.rows.usable[6:9].tolist() == [False, False, True]
    assert result.rows.faults == {"no log-probability": 12}
    assert result.text == "".join(result.rows.piece(i) for i in result.rows.chosen)


def test_force__gives_the_decoded_values_back() -> None:
    """One request with a grammar scores a whole text, its end token included."""
    result, exchanges = replay("conversation_force_end")
    decoded = rows_of("conversation_chat_end")

    assert (result.method, exchanges) == ("grammar", 2)
    assert decoded.chosen.tolist() == result.rows.chosen.tolist()
    assert decoded.logprob.tolist() == pytest.approx(result.rows.logprob.tolist(), abs=1e-4)


def test_force__byte_fragments_are_read_in_the_list() -> None:
    """Every position has a value, also those for which no row comes."""
    result, _ = replay("conversation_force_fragments")

    assert result.method == "stepwise"
    assert result.rows.usable.all()
    assert (result.rows.k, result.rows.match) == (3, Match.ID)


def test_force__an_unexpected_end_token_is_found_by_halves() -> None:
    """Another end-of-generation token in the middle costs a few requests, not one per token."""
    result, exchanges = replay("conversation_force_other_end")

    assert result.rows.chosen.tolist() == [19556, 665, 0, 17]
    assert result.rows.usable.all()
    assert exchanges == 7


@pytest.mark.parametrize(
    ("recorded", "dialect", "capabilities", "context"),
    [
        ("vllm-0.32.0", "vllm", 4, 2048),
        ("llama.cpp-b11549", "llamacpp", 4, 4096),
        ("llama-cpp-python-0.3.36", "openai", 2, None),
    ],
)
def test_discover(recorded: str, dialect: str, capabilities: int, context: int | None) -> None:
    """Each recorded server is told from the others by what it answers."""
    paths = Paths(recorded)
    info = run(discover("", "auto"), paths)

    assert isinstance(info, EngineInfo)
    assert (info.dialect, len(info.capabilities)) == (dialect, capabilities)
    assert info.max_model_len == context
    assert len(paths.asked) == len(set(paths.asked))  # nothing is asked twice


def test_discover__llamacpp_tells_slots_and_end_token() -> None:
    """Concurrency and end token are the server's own word."""
    info = run(discover("", "auto"), Recorded(_detect_exchanges()))

    assert (info.slots, info.eos_id, info.model) == (1, 2, "smollm2")
    assert info.details["model_file"] == "SmolLM2-135M-Instruct.Q4_1.gguf"


def _detect_exchanges() -> list[dict[str, Any]]:
    exchanges: list[dict[str, Any]] = load("llama.cpp-b11549/conversation_detect")["exchanges"]
    return exchanges


def test_chat__vllm_ids_come_with_every_listed_token() -> None:
    """The dialect's own request gives ids for chosen and listed tokens, and texts for the first."""
    body = load("vllm-0.32.0/chat_return_tokens_as_token_ids")["body_json"]
    apart = load("vllm-0.32.0/chat_return_token_ids")["body_json"]
    body["choices"][0]["token_ids"] = apart["choices"][0]["token_ids"]
    body["prompt_token_ids"] = apart["prompt_token_ids"]
    script = Script(answer(200, body))
    call = Chat(TAG, (Message("user", "What is the capital of France?"),), 8, top_logprobs=3)
    result = run(engines.load("vllm").speak(call, engine("vllm")), script)

    assert isinstance(result, Generation)
    assert result.rows is not None
    assert result.rows.match is Match.ID
    assert result.rows.chosen.tolist() == [504, 3575, 282, 4649, 314, 7042, 30, 2]
    assert result.rows.top[0].tolist() == [504, 60, 15319]
    assert result.rows.logprob[0] == pytest.approx(-1.88270521)
    assert result.rows.piece(3575) == " capital"
    assert result.prompt_ids is not None
    assert len(result.prompt_ids) == result.prompt_tokens == 37
    assert result.rows_complete
    assert result.flags == ()
    assert {"return_token_ids", "return_tokens_as_token_ids"} <= set(script.bodies[0])
    assert script.bodies[0]["stream"] is False
    assert "n" not in script.bodies[0]


def test_force__vllm_rows_are_those_recorded() -> None:
    """Ids, values and the model's own choice, from a recorded answer."""
    script = Script(reply_of(load("vllm-0.32.0/completion_prompt_logprobs_5")))
    call = Force(TAG, (504,), (3575, 282, 4649, 314), 5)
    result = run(engines.load("vllm").speak(call, engine("vllm")), script)

    assert isinstance(result, Scored)
    assert result.method == "prompt_logprobs"
    assert result.rows.logprob.tolist() == pytest.approx(
        [-11.5392742, -0.3376067, -2.4386611, -0.4509211], abs=1e-6
    )
    assert result.rows.top[0, 0] == 29  # "-" is what the model would have said
    assert result.rows.piece(29) == "-"
    assert result.rows.k == 5  # the forced token's extra entry is cut off
    assert script.bodies[0]["prompt_logprobs"] == 5
    assert len(script.bodies[0]["cache_salt"]) == 64
    assert script.asked[0].retry is False


def test_force__vllm_obeys_the_cap() -> None:
    """A longer list than the server gives is asked for again with what it allows."""
    script = Script(
        reply_of(load("vllm-0.32.0/completion_prompt_logprobs_100")),
        reply_of(load("vllm-0.32.0/completion_prompt_logprobs_20")),
    )
    call = Force(TAG, (504,), (3575, 282, 4649, 314), 100)
    result = run(engines.load("vllm").speak(call, engine("vllm")), script)

    assert isinstance(result, Scored)
    assert [b["prompt_logprobs"] for b in script.bodies] == [100, 20]
    assert result.rows.k == 20


def test_chat__the_cap_is_told_to_later_calls() -> None:
    """Generation.top_logprobs is what the server accepted."""
    script = Script(
        reply_of(load("vllm-0.32.0/chat_top_logprobs_100")),
        reply_of(load("vllm-0.32.0/chat_top_logprobs_20")),
    )
    call = Chat(TAG, (Message("user", "?"),), 8, top_logprobs=100)
    result = run(engines.load("vllm").speak(call, engine("vllm")), script)

    assert isinstance(result, Generation)
    assert result.top_logprobs == 20
    assert result.flags == ()
