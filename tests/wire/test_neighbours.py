"""Neighbours of every case, by topic: an answer or a named failure, and no figure that is none.

Each is asked through the real client. What comes back can be written down and read again; a row
that is called usable is a list of log-probabilities in the bytes that came, read a second time in
the plainest way (`oracles`).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire.cases import CASES, GOOD
from wire.lab import Lab, Said, json_of
from wire.neighbours import neighbour, spelled
from wire.oracles import (
    WHEN,
    check,
    check_chat,
    check_counts,
    check_forced,
    check_ids,
    plain_choice,
)
from wire.replay import chat
from wire.seeds import ANY, DIALECTS, SEEDS, TOPICS

from iqaction import http
from iqaction.calls import Arm, Draw, Failure, FailureKind, Force, Generation
from iqaction.engines._detect import discover
from iqaction.errors import IqError
from iqaction.evidence import canon, envelope

RUNS = settings(
    max_examples=16, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
MANY = settings(RUNS, max_examples=1000)


def explore(topic: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[topic]))
    body = data.draw(spelled(data.draw(neighbour(seed.body))))
    stray = data.draw(st.sampled_from((False, False, False, True)))
    call = data.draw(st.sampled_from(ANY if stray else seed.calls))
    dialect = data.draw(st.sampled_from(DIALECTS if stray else seed.dialects))
    status = data.draw(st.sampled_from((200, 400, 500) if stray else (seed.status,)))
    headers = {}
    if stray:
        kinds = ("text/html", "text/event-stream", "")
        headers = {"Content-Type": data.draw(st.sampled_from(kinds))}
    lab = Lab(Said(status, body, headers), json_of(GOOD))
    observation = lab.call(call, dialect)
    answer = observation.answer

    check(call, observation, lab)
    if status == 400 and not isinstance(call, Draw):  # nobody is asked the same after a refusal
        asked = list(zip(lab.paths, lab.bodies, strict=True))
        assert all(one not in asked[1:] for one in asked[:1])
    if status != 200 or len(lab.paths) > 1:
        return
    check_ids(answer, body)
    if isinstance(call, Force):
        check_forced(answer, call, body)
    elif isinstance(answer, Generation) and plain_choice(body) is not None:
        check_chat(answer, body)
        check_counts(answer, json.loads(body))


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
    """The same, many times as often."""
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


HEADERS = st.sampled_from([
    "0", "5", "-5", "1e9", "inf", "nan", "99999999999999", "0.5", "5, 6", "\xb2", "", " 7 ",
    "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 9999 07:28:00 GMT", "31 Feb 2026",
    "Mon, 01 Jan 0001 00:00:00 -0000", "Wed, 21 Oct 2026 07:28:00 +9999",
    "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -1200",
])  # fmt: skip


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
