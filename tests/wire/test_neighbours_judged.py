"""Neighbours of good answers, judged: nothing PASSes on rows that are no measurement.

One answer of a healthy run is put into the words of an engine, changed, and read again by the
client; the stage is then judged with it in place of the good one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from answered import GSM8K, Exam
from fake_engine import FakeEngine, captured, compared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampler_world import SamplerWorld, Sampling, spec
from sampler_world import run as sampled
from unit.test_http import Server, ok
from wire.lab import Lab, Said
from wire.neighbours import neighbour, spelled
from wire.oracles import check, check_chat, plain_choice
from wire.replay import chat, engine
from world import World, judged, stage_of

from iqaction.boot import readiness
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Chat,
    Draw,
    Drawn,
    Failure,
    Force,
    Generation,
    Message,
    Observation,
    Scored,
    Tag,
)
from iqaction.observed import Observed
from iqaction.rows import PAD, Rows
from iqaction.stages._base import Context
from iqaction.stages.sampling import STAGE as SAMPLING
from iqaction.verdict import Verdict

SMALL = World(units=60, length=4)
UNIT = "p-007"
RUNS = settings(
    max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
MANY = settings(RUNS, max_examples=500)


@cache
def healthy() -> Observed:
    """A run that PASSes."""
    return compared(SMALL, FakeEngine(SMALL), captured(SMALL, launches=5))


def test_healthy() -> None:
    """Only a run that PASSes shows that something takes a PASS away."""
    assert judged(healthy()).verdict is Verdict.PASS


def entries(rows: Rows, i: int) -> list[dict[str, Any]]:
    return [
        {"id": int(t), "logprob": float(v)}
        for t, v in zip(rows.top[i], rows.top_logprob[i], strict=True)
        if t != PAD
    ]


def as_vllm_prompt(answer: Scored) -> dict[str, Any]:
    """Forced rows as vLLM's `prompt_logprobs`."""
    rows, listed = answer.rows, []
    for i, (token, value) in enumerate(zip(rows.chosen, rows.logprob, strict=True)):
        row = {str(e["id"]): {"logprob": e["logprob"]} for e in entries(rows, i)}
        listed.append({**row, str(int(token)): {"logprob": float(value), "decoded_token": "x"}})
    choice = {"index": 0, "text": "x", "finish_reason": "length"}
    return {"choices": [{**choice, "prompt_logprobs": [None] * 5 + listed}]}


def as_llamacpp_chat(answer: Generation) -> dict[str, Any]:
    """A greedy text as an engine that tells every id."""
    rows = answer.rows
    assert rows is not None
    content = [
        {
            "id": int(t),
            "token": rows.piece(int(t)),
            "bytes": list(rows.piece(int(t)).encode()),
            "logprob": float(v),
            "top_logprobs": entries(rows, i),
        }
        for i, (t, v) in enumerate(zip(rows.chosen, rows.logprob, strict=True))
    ]
    choice = {"index": 0, "message": {"content": answer.text}, "finish_reason": "length"}
    return {
        "choices": [{**choice, "logprobs": {"content": content}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": len(content)},
    }


def read(call: Call, dialect: str, body: bytes) -> Answer:
    lab = Lab(Said(200, body))
    info = replace(engine(dialect), max_model_len=None)
    observation = lab.call(call, dialect, info)
    check(call, observation, lab)
    return observation.answer


def with_answer(tags: tuple[Tag, ...], stage: str, answer: Answer) -> Observed:
    """The healthy run with this answer under these tags."""
    observed = healthy()
    kept = dict(observed.seen[stage])
    for tag in tags:
        if tag in kept:
            kept[tag] = replace(kept[tag], answer=answer)
    return replace(observed, seen={**observed.seen, stage: kept})


def is_measured(rows: Rows | None) -> bool:
    return rows is not None and bool(rows.usable.all()) and bool((rows.top[:, :1] >= 0).all())


def forced(leg: str, data: st.DataObject) -> None:
    tag = Tag(Arm.CANDIDATE, leg, UNIT)
    good = healthy().seen["score"][tag].answer
    assert isinstance(good, Scored)
    call = Force(tag, (1, 2, 3, 4, 5), tuple(good.rows.chosen.tolist()), 20)
    body = as_vllm_prompt(good)
    answer = read(call, "vllm", data.draw(spelled(data.draw(neighbour(body)))))
    tags = tuple(replace(tag, attempt=n) for n in range(4))
    stage = stage_of(judged(with_answer(tags, "score", answer)), "score")

    if isinstance(answer, Failure) or (isinstance(answer, Scored) and not is_measured(answer.rows)):
        assert stage.verdict is not Verdict.PASS
        assert UNIT in {f.unit for f in stage.faults}


@pytest.mark.parametrize("leg", ["reference", "self"])
@RUNS
@given(st.data())
def test_forced(leg: str, data: st.DataObject) -> None:
    """A prompt whose forced rows are lost or unusable is named, and takes the PASS away."""
    forced(leg, data)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("leg", ["reference", "self"])
@MANY
@given(st.data())
def test_forced__many(leg: str, data: st.DataObject) -> None:
    """The same, many times."""
    forced(leg, data)


def texts(data: st.DataObject) -> None:
    tag = Tag(Arm.CANDIDATE, "trajectory", UNIT)
    good = healthy().seen["trajectory"][tag].answer
    assert isinstance(good, Generation)
    body = as_llamacpp_chat(good)
    call = Chat(tag, (Message("user", "x"),), 4, top_logprobs=20)
    answer = read(call, "llamacpp", data.draw(spelled(data.draw(neighbour(body)))))
    if isinstance(answer, Generation):  # the template is not what is tried here
        answer = replace(answer, prompt_ids=good.prompt_ids, prompt_tokens=good.prompt_tokens)
    tags = tuple(replace(tag, attempt=n) for n in range(3))
    report = judged(with_answer(tags, "trajectory", answer))

    if isinstance(answer, Failure) or not (
        isinstance(answer, Generation) and is_measured(answer.rows) and answer.rows_complete
    ):
        assert report.verdict is not Verdict.PASS
        faults = [f for s in report.stages for f in s.faults]
        assert UNIT in {f.unit for f in faults}


def test_texts__as_it_was() -> None:
    """The answer unchanged, through the client and back, still PASSes."""
    tag = Tag(Arm.CANDIDATE, "trajectory", UNIT)
    good = healthy().seen["trajectory"][tag].answer
    assert isinstance(good, Generation)
    call = Chat(tag, (Message("user", "x"),), 4, top_logprobs=20)
    answer = read(call, "llamacpp", json.dumps(as_llamacpp_chat(good)).encode())
    assert isinstance(answer, Generation)
    answer = replace(answer, prompt_ids=good.prompt_ids)

    assert judged(with_answer((tag,), "trajectory", answer)).verdict is Verdict.PASS


@RUNS
@given(st.data())
def test_texts(data: st.DataObject) -> None:
    """A text that is lost, or whose rows cannot be forced, is named and takes the PASS away."""
    texts(data)


@pytest.mark.full
@pytest.mark.timeout(1800)
@MANY
@given(st.data())
def test_texts__many(data: st.DataObject) -> None:
    """The same, many times."""
    texts(data)


EXAM = Exam(60, {"margin": 0.09})


@settings(RUNS, max_examples=30)
@given(st.data())
def test_marked(data: st.DataObject) -> None:
    """An item is right only where its bytes hold the text that is right; what is no answer is
    named, and no answer is ever read as the text ""."""
    unit = EXAM.units[3]
    gold = int(unit[6:])
    choice = {"index": 0, "message": {"content": f"#### {gold}"}, "finish_reason": "stop"}
    body = data.draw(spelled(data.draw(neighbour({"choices": [choice]}))))
    answer = read(chat(top_logprobs=0), "openai", body)
    sat = EXAM.compare(EXAM.capture("R*60"), "R*60")
    kept = dict(sat.seen[GSM8K])
    for attempt in (0, 1):
        tag = Tag(Arm.CANDIDATE, GSM8K, unit, 0, attempt)
        kept[tag] = Observation(tag, EXAM.sha256(tag), answer)
    result = EXAM.judge(replace(sat, seen={GSM8K: kept}))
    named = {f.unit for f in result.faults}

    if isinstance(answer, Failure):
        assert unit in named
        assert result.coverage.observed == 59
    else:
        if plain_choice(body) is not None:
            check_chat(answer, body)
        assert result.coverage.observed == 60 - (unit in named)


@cache
def draws() -> Context:
    """A correct sampler that PASSes with its first draws."""
    asked = spec(temperature=0.6, top_k=20, top_p=0.95)
    return sampled(asked, Sampling(SamplerWorld(), asked.params, seed=3))


def as_vllm_draws(answer: Drawn) -> dict[str, Any]:
    """Draws as vLLM's choices, with an id for every string."""
    choices, at = [], 0
    for index, length in enumerate(answer.lengths):
        content = [
            {
                "token": f"token_id:{int(answer.rows.chosen[i])}",
                "logprob": float(answer.rows.logprob[i]),
                "bytes": [65],
                "top_logprobs": [
                    {"token": f"token_id:{e['id']}", "logprob": e["logprob"]}
                    for e in entries(answer.rows, i)
                ],
            }
            for i in range(at, at + length)
        ]
        message = {"message": {"content": "A" * length}, "finish_reason": "length"}
        choices.append({"index": index, **message, "logprobs": {"content": content}})
        at += length
    return {"choices": choices, "usage": {"completion_tokens": at}}


@settings(RUNS, max_examples=3)
@given(st.data())
def test_drawn(data: st.DataObject) -> None:
    """Draws that are lost take the PASS away; rows of which nothing can be said are counted."""
    where = draws()
    tag = next(t for t in where.seen["sampling"] if t.leg == "draws-0" and t.unit == "p-003")
    good = where.seen["sampling"][tag].answer
    assert isinstance(good, Drawn)
    call = Draw(tag, (Message("user", "x"),), len(good.lengths), 64, 0.6, top_k=20, top_p=0.95)
    body = as_vllm_draws(good)
    answer = read(call, "vllm", data.draw(spelled(data.draw(neighbour(body)))))
    kept = dict(where.seen["sampling"])
    for attempt in (0, 1):
        one = replace(tag, attempt=attempt)
        kept[one] = Observation(one, kept[tag].call_sha256, answer)
    result = SAMPLING.judge(replace(where, seen={"sampling": kept}))

    if isinstance(answer, Failure):
        assert result.verdict is not Verdict.PASS
        assert "p-003" in {f.unit for f in result.faults}
    else:
        assert isinstance(answer, Drawn)
        told = dict(result.tables[2].rows)
        generated = told.pop("generated")
        assert sum(told.values()) == generated  # type: ignore[arg-type]


def test_ready() -> None:
    """A server is ready only where an answer with a token came, whatever its answer is near."""
    good = {
        "choices": [{"index": 0, "message": {"content": "Yes"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 1},
    }
    listing = {"data": [{"id": "m"}]}
    ready = {True: 0, False: 0}

    @settings(RUNS, max_examples=25)
    @given(st.data())
    def tried(data: st.DataObject) -> None:
        body = data.draw(spelled(data.draw(neighbour(good))))
        server = Server(ok(listing), ok(raw=body))
        try:
            said = readiness.probe(server.url, "m", "openai", "")
        finally:
            server.stop()
        answer = read(chat(top_logprobs=0), "openai", body)
        ready[said == ""] += 1
        whole = isinstance(answer, Generation)
        assert whole or said != ""

    tried()

    assert all(ready.values())
