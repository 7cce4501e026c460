"""Every recording is decoded: to an answer where the server gave one, to a failure where not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wire.replay import (
    DIALECT,
    RECORDINGS,
    Script,
    chat,
    engine,
    force,
    load,
    reply_of,
    run,
    tokenize,
)

from iqaction import engines
from iqaction.calls import Call, Failure, FailureKind, Force, Generation, Scored, TokenIds

FILES = sorted(p for p in RECORDINGS.glob("*/*.json") if not p.stem.startswith("conversation_"))
IDS = (504, 3575, 282, 4649, 314)  # "The capital of France is"
CLAMPED = {"processed_top_p"}  # what the sampler filtered away is written as -9999


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def of(*prefixes: str) -> list[Path]:
    return [p for p in FILES if p.stem.startswith(prefixes)]


def ask(path: Path, call: Call) -> tuple[object, Script]:
    """The dialect's answer when the server answers every request as recorded, once."""
    dialect = DIALECT[path.parent.name]
    script = Script(reply_of(load(path)))
    return run(engines.load(dialect).speak(call, engine(dialect)), script), script


def test_recordings__there_are_many() -> None:
    """A wrong folder would leave nothing to test."""
    assert len(FILES) > 200
    assert {p.parent.name for p in FILES} == set(DIALECT)


@pytest.mark.parametrize("path", of("chat_", "no_key_chat", "processed_t"), ids=name)
def test_chat(path: Path) -> None:
    """A completion with a message becomes a Generation, anything else a Failure that says why."""
    recording = load(path)
    sent = recording["request"]["body"]
    k = sent.get("top_logprobs", 20) if isinstance(sent, dict) else 20
    answer, script = ask(path, chat(top_logprobs=k if k > 0 else 49152))
    choices = (recording.get("body_json") or {}).get("choices")

    if path.stem == "chat_stream_raw":  # what was not asked for, and came: see the next test
        assert isinstance(answer, Generation)
    elif choices:
        message, generation = choices[0]["message"], answer
        assert isinstance(generation, Generation)
        assert (message["content"] or "") == generation.text
        assert choices[0]["finish_reason"] == generation.finish_reason
        assert recording["body_json"]["usage"]["prompt_tokens"] == generation.prompt_tokens
        listed = (choices[0].get("logprobs") or {}).get("content") or []
        if listed:
            assert generation.rows is not None
            assert len(listed) == len(generation.rows)
            assert (path.stem not in CLAMPED) == bool(generation.rows.usable.any())
        else:
            assert generation.rows is None
            assert generation.top_logprobs == 0
    else:
        assert isinstance(answer, Failure)
        assert answer.message.startswith("chat: ")
        if len(script.asked) > 1:  # asked differently after a cap or a refusal
            assert recording["status"] == 400
            assert script.bodies[1].get("top_logprobs", 0) < script.bodies[0]["top_logprobs"]
        else:
            assert len(answer.message) > 20


@pytest.mark.parametrize("path", of("chat_stream_raw"), ids=name)
def test_stream(path: Path) -> None:
    """A recorded stream is the answer that its chunks amount to, rows and counts included."""
    answer, _ = ask(path, chat(top_logprobs=2))
    events = [e[6:] for e in load(path)["body_text"].split("\n\n") if e.startswith("data: {")]
    chunks = [c for e in map(json.loads, events) for c in e["choices"]]

    assert isinstance(answer, Generation)
    assert answer.text == "".join(c["delta"].get("content") or "" for c in chunks)
    assert answer.finish_reason == "length"
    assert answer.rows is not None
    assert (len(answer.rows), answer.rows.usable.all()) == (3, True)


@pytest.mark.parametrize("path", of("tokenize_", "apply_template"), ids=name)
def test_tokenize(path: Path) -> None:
    """A list of ids is the answer; an empty one, or an error, is a failure."""
    recording = load(path)
    dialect = DIALECT[path.parent.name]
    answer, script = ask(path, tokenize() if "messages" in path.stem else tokenize("a text"))
    tokens = (recording["body_json"] or {}).get("tokens")

    if dialect == "openai":
        assert isinstance(answer, Failure)
        assert answer.kind is FailureKind.UNSUPPORTED
        assert script.asked == []  # nothing is sent to a server that is not known to have it
    elif tokens and not (dialect == "llamacpp" and "messages" in path.stem):
        assert isinstance(answer, TokenIds)
        assert tuple(t["id"] if isinstance(t, dict) else t for t in tokens) == answer.ids
    else:
        assert isinstance(answer, Failure)


@pytest.mark.parametrize("path", of("completion_prompt_logprobs"), ids=name)
def test_prompt_logprobs(path: Path) -> None:
    """vLLM's rows score the forced ids; a server that ignores or refuses the field fails."""
    recording = load(path)
    call = Force(tokenize("x").tag, IDS[:1], IDS[1:], 20)
    script = Script(reply_of(recording))
    answer = run(engines.load("vllm").speak(call, engine("vllm")), script)
    rows = ((recording["body_json"] or {}).get("choices") or [{}])[0].get("prompt_logprobs")

    if rows:
        assert isinstance(answer, Scored)
        assert list(IDS[1:]) == answer.rows.chosen.tolist()
        assert answer.rows.usable.all()
    else:
        assert isinstance(answer, Failure)


@pytest.mark.parametrize("path", of("llamacompletion_"), ids=name)
def test_llamacpp_completion(path: Path) -> None:
    """Generated ids with rows score as if forced; an answer without ids or rows fails."""
    recording = load(path)
    body = recording["body_json"] or {}
    tokens = tuple(body.get("tokens") or ())
    call = force(IDS, tokens or (1, 2), 20)
    script = Script(reply_of({"status": 404, "headers": {}}), reply_of(recording))
    answer = run(engines.load("llamacpp").speak(call, engine("llamacpp")), script)

    if tokens and body.get("completion_probabilities"):
        assert isinstance(answer, Scored)
        assert tokens == tuple(answer.rows.chosen.tolist())
        assert answer.method == "grammar"
    else:
        assert isinstance(answer, Failure)


LEFT = set(FILES) - set(
    of(
        *("chat_", "no_key_chat", "processed_t", "tokenize_", "apply_template"),
        *("completion_prompt_logprobs", "llamacompletion_"),
    )
)


@pytest.mark.parametrize("path", sorted(LEFT), ids=name)
def test_detection_answers(path: Path) -> None:
    """What was recorded for detection, and any other answer, is read by every dialect."""
    if path.stem.startswith("get_") or path.stem == "no_key":
        for dialect in engines.names():
            run(engines.load(dialect).detect(""), lambda _: reply_of(load(path)))
    else:
        answer, _ = ask(path, chat())  # a completions answer where a chat was asked for
        assert isinstance(answer, Failure)
