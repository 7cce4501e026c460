"""Neighbours of every case, by topic: an answer or a named failure, and no figure that is none.

Each is asked through the real client. What comes back can be written down and read again; a row
that is called usable is a list of log-probabilities in the bytes that came, read here a second
time in the plainest way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire.cases import CASES, GOOD
from wire.lab import Lab, Said, json_of
from wire.neighbours import neighbour, spelled
from wire.replay import TAG, chat, force, tokenize
from wire.test_all_cases import TOPICS

from iqaction import engines, http
from iqaction.calls import (
    Arm,
    Call,
    Draw,
    Drawn,
    Failure,
    FailureKind,
    Force,
    Generation,
    Message,
    Observation,
    Scored,
    TokenIds,
)
from iqaction.engines import _chat
from iqaction.engines._detect import discover
from iqaction.errors import IqError
from iqaction.evidence import canon, envelope
from iqaction.rows import Match, Rows

WHEN = "2025-01-01T00:00:00Z"
DIALECTS = tuple(engines.names())
FLAGS = [
    re.compile(re.escape(f).replace(r"\{\}", ".*"))
    for name, f in vars(_chat).items()
    if name.isupper() and isinstance(f, str) and not name.startswith("_") and name != "PATH"
]
FLAGS += [re.compile("the engine gave a sampled sequence up|the prompt's token ids do not have")]
RUNS = settings(
    max_examples=16, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
MANY = settings(RUNS, max_examples=1500)


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


SEEDS = {
    topic: [
        (c.get("status") or 200, t) for c in CASES.values() if c["topic"] == topic for t in trees(c)
    ]
    for topic in TOPICS
}
CALLS: tuple[Call, ...] = (
    chat(max_tokens=8),
    chat(top_logprobs=0, template_kwargs='{"enable_thinking":false}'),
    chat(temperature=1.0, top_logprobs=3),
    Draw(TAG, (Message("user", "x"),), 3, 4, 0.8, top_k=20, top_logprobs=4),
    force((5,), (7, 8), 3),
    force((5,), (917,), 1),
    tokenize("hi"),
    tokenize(),
)


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
        assert any(f.match(flag) for f in FLAGS), flag
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
    if isinstance(content, str) and not answer.reasoning:
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


def explore(topic: str, data: st.DataObject) -> None:
    status, tree = data.draw(st.sampled_from(SEEDS[topic]))
    body = data.draw(spelled(data.draw(neighbour(tree))))
    call = data.draw(st.sampled_from(CALLS))
    dialect = data.draw(st.sampled_from(DIALECTS))
    status = data.draw(st.sampled_from([status, status, status, 200, 400, 500]))
    kinds = {}
    if data.draw(st.booleans()):
        kinds = {"Content-Type": data.draw(st.sampled_from(["text/html", "text/event-stream", ""]))}
    lab = Lab(Said(status, body, kinds), json_of(GOOD))
    observation = lab.call(call, dialect)

    check(call, observation, lab)
    if len(lab.paths) == 1 and status == 200:
        check_chat(observation.answer, body)


@pytest.mark.parametrize("topic", TOPICS)
@RUNS
@given(st.data())
def test_neighbours(topic: str, data: st.DataObject) -> None:
    """No exception, nothing that cannot be kept, nothing usable that is no measurement."""
    explore(topic, data)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("topic", TOPICS)
@MANY
@given(st.data())
def test_neighbours__many(topic: str, data: st.DataObject) -> None:
    """The same, a hundred times as often."""
    explore(topic, data)


LISTING = {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 4096}]}
OWNERS = ("vllm", "sglang", "llamacpp", "someone")
PROPS = CASES["info-llamacpp-slots"]["response"] | {"model_alias": "m", "eos_token": "</s>"}
SERVER = CASES["info-sglang-server-info"]["response"] | {"max_running_requests": 32}


@settings(RUNS, max_examples=120)
@given(st.data())
def test_neighbours__who_answers(data: st.DataObject) -> None:
    """Whatever a server says of itself: an engine that can be written down, or one clear error."""
    listing = {
        "object": "list",
        "data": [{**LISTING["data"][0], "owned_by": data.draw(st.sampled_from(OWNERS))}],
    }
    said = [listing, PROPS, SERVER, {"version": "0.9"}, {"tokens": [2]}]
    which = data.draw(st.integers(0, len(said) - 1))
    changed = data.draw(spelled(data.draw(neighbour(said[which]))))
    replies = [json.dumps(s).encode() for s in said]
    replies[which] = changed
    places = ("/v1/models", "/props", "/server_info", "/version", "/tokenize")
    lab = ByPath(dict(zip(places, replies, strict=True)))
    model = data.draw(st.sampled_from(["", "m", "other"]))
    try:
        info, _ = http.converse(
            lab.wire, discover(model, data.draw(st.sampled_from(["auto", *DIALECTS])))
        )
    except IqError as exc:
        str(exc).encode()
        return
    line = canon.dump(envelope.engine_to_json(Arm.CANDIDATE, 0, info, WHEN))

    assert envelope.engine_from_json(canon.load_object(line, "line")) == (Arm.CANDIDATE, 0, info)
    json.dumps(vars(info), default=str, ensure_ascii=False).encode()
    assert model in ("", info.model) or info.model == "m"


class ByPath(Lab):
    """Answers by path; 404 elsewhere."""

    def __init__(self, replies: dict[str, bytes]) -> None:
        super().__init__(Said(404, b'{"detail": "Not Found"}'))
        self.replies = replies

    def send(self, request: Any, **_: Any) -> Any:
        found = self.replies.get(request.path_url)
        self.answers = [
            Said(404, b'{"detail": "Not Found"}') if found is None else Said(200, found)
        ]
        return super().send(request)


HEADERS = st.sampled_from(
    ["0", "5", "-5", "1e9", "inf", "nan", "99999999999999", "0.5", "5, 6", "\xb2", "", " 7 ", "soon",
     "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 9999 07:28:00 GMT", "Mon, 01 Jan 0001 00:00:00 -0000",
     "Wed, 21 Oct 2026 07:28:00 +9999", "31 Feb 2026", "Thu, 01 Jan 1970 00:00:00 GMT"]
)  # fmt: skip


@settings(RUNS, max_examples=80)
@given(HEADERS, HEADERS, st.sampled_from([429, 503, 529, 502, 524, 408]), st.binary(max_size=20))
def test_neighbours__waiting(after: str, date: str, status: int, body: bytes) -> None:
    """However a server puts how long to wait: never for more than a minute, and a few times."""
    lab = Lab(Said(status, body, {"Retry-After": after, "Date": date}))
    observation = lab.call(chat(), "openai")

    assert isinstance(observation.answer, Failure)
    assert observation.answer.kind in (FailureKind.BUSY, FailureKind.PROXY)
    assert observation.attempts <= 5
    assert all(0 <= s <= 60 for s in lab.slept)
    check(chat(), observation, lab)
