"""Errors, broken answers and lost connections: each is named, and none is an answer."""

from __future__ import annotations

from http.client import RemoteDisconnected
from typing import Any

import pytest
import requests
import urllib3
from wire.cases import CASES, CHECKS, GOOD, ask, case, failure, forced, of, reply_of
from wire.lab import Lab, json_of, said
from wire.replay import TAG, answer, chat, run

from iqaction import engines
from iqaction.calls import (
    Draw,
    Failure,
    FailureKind,
    Generation,
    Message,
)
from iqaction.engines._detect import discover
from iqaction.errors import EngineError


@case("err-html-502", "err-tgi-424", "err-string-error")
@case("err-llamacpp-500-logprobs-tools", "err-model-not-found", "err-429-retry-after-date")
def failures(c: dict[str, Any]) -> None:
    failed = failure(c, call=chat(top_logprobs=0))

    kind = {503: FailureKind.BUSY, 429: FailureKind.BUSY, 504: FailureKind.PROXY}
    assert kind.get(c["status"], FailureKind.STATUS) is failed.kind
    assert c["status"] == failed.status
    said = c["response"] if isinstance(c["response"], str) else c["response"]["error"]
    words = said["message"] if isinstance(said, dict) else said
    assert (words if "<" not in words else "504 Gateway Time-out") in failed.message


@pytest.mark.parametrize(
    ("name", "attempts", "waits"),
    [
        ("err-html-502", 3, [1.0, 2.0]),
        ("err-tgi-424", 2, [1.0]),
        ("err-429-retry-after-date", 5, None),
        ("info-health-503-llamacpp", 5, [1.0, 2.0, 4.0, 8.0]),
        ("err-truncated-json", 3, []),
        ("err-string-error", 1, []),
        ("err-detail-list", 1, []),
        ("err-html-200", 1, []),
        ("err-finish-null", 1, []),
    ],
)
def test_case__how_often_it_is_sent(name: str, attempts: int, waits: list[float] | None) -> None:
    """What may pass is tried again, a few times and never for long; what will not is not."""
    lab = Lab(said(CASES[name]))
    observation = lab.call(chat(top_logprobs=0), "openai")

    assert isinstance(observation.answer, Failure)
    assert observation.attempts == attempts
    assert waits is None or lab.slept == waits
    assert max(lab.slept, default=0) <= CASES[name]["expected"].get("wait_s_max", 60)


@pytest.mark.parametrize("name", ["err-html-502", "err-tgi-424", "err-truncated-json"])
def test_case__what_passes_is_no_failure(name: str) -> None:
    """One bad answer before a good one leaves no trace but the attempt."""
    lab = Lab(said(CASES[name]), json_of(GOOD))
    observation = lab.call(chat(top_logprobs=0), "openai")

    assert isinstance(observation.answer, Generation)
    assert (observation.answer.text, observation.attempts) == ("4", 2)


@case("err-keepalive-reset")
def idle_connection_closed(c: dict[str, Any]) -> None:
    """A connection that was closed while idle is tried again, on a fresh one, and not for ever."""
    reset = requests.exceptions.ConnectionError(
        urllib3.exceptions.ProtocolError("aborted", RemoteDisconnected("Remote end closed"))
    )
    lab = Lab(reset, json_of(GOOD))
    observation = lab.call(chat(top_logprobs=0), "openai")
    dead = Lab(reset).call(chat(top_logprobs=0), "openai")

    assert isinstance(observation.answer, Generation)
    assert observation.attempts == 2
    assert isinstance(dead.answer, Failure)
    assert FailureKind.RESET is dead.answer.kind
    assert dead.attempts - 1 <= c["expected"]["max_retries"]


@case("err-sse-error-chunk")
def error_in_a_stream(c: dict[str, Any]) -> None:
    """The text before an error is no answer; the item may be asked again."""
    failed = Lab(said(c)).call(chat(top_logprobs=0), "openai").answer

    assert isinstance(failed, Failure)
    assert FailureKind.ABORTED is failed.kind
    assert c["expected"]["message"] in failed.message


@case("err-sse-usage-only")
def usage_after_the_text(c: dict[str, Any]) -> None:
    """A last chunk without choices counts the tokens; a null delta is no text."""
    lab = Lab(said(c))
    result = lab.call(chat(top_logprobs=0), "openai").answer

    assert lab.bodies[0]["stream"] is False
    assert isinstance(result, Generation)
    assert c["expected"] == {
        "text": result.text,
        "finish_reason": result.finish_reason,
        "completion_tokens": result.completion_tokens,
    }


@pytest.mark.parametrize("name", ["err-string-error", "err-model-not-found"])
def test_case__ends_a_run_before_it_begins(name: str) -> None:
    """A key that is refused and a model that is not served are told before anything is asked."""
    c = CASES[name]
    listing = answer(200, {"data": [{"id": "new-name", "owned_by": "vllm"}]})
    reply = reply_of(c) if c["status"] == 401 else listing
    with pytest.raises(EngineError) as caught:
        run(discover("old-name", "auto"), lambda _: reply)

    assert ("Unauthorized" if c["status"] == 401 else "old-name") in str(caught.value)


def test_case__what_is_sent_is_never_streamed() -> None:
    """The refusals of streams cannot come: no dialect asks for one."""
    calls = (chat(), forced([5, 7]), Draw(TAG, (Message("user", "x"),), 1, 1, 1.0))
    for dialect in engines.names():
        for call in calls:
            lab = Lab(json_of({"error": "x"}, 404))
            lab.call(call, dialect)
            completions = [
                body
                for path, body in zip(lab.paths, lab.bodies, strict=True)
                if "completion" in path or path == "/generate"
            ]
            assert all(body["stream"] is False for body in completions)


@case("err-object-error", "err-context-length")
def too_long(c: dict[str, Any]) -> None:
    result, script = ask(c)

    assert isinstance(result, Failure)
    assert FailureKind.UNSUPPORTED is result.kind
    assert len(script.asked) == 1
    assert "4096 tokens" in result.message


@case("err-detail-list")
def validation_error(c: dict[str, Any]) -> None:
    assert c["expected"]["message"] in failure(c).message


@case("err-finish-null")
def unfinished(c: dict[str, Any]) -> None:
    assert FailureKind.ABORTED is failure(c).kind


@case("err-html-200", "err-truncated-json")
def not_json(c: dict[str, Any]) -> None:
    kind = FailureKind.TRUNCATED_BODY if "truncated" in c["id"] else FailureKind.MALFORMED

    assert kind is failure(c).kind


@pytest.mark.parametrize("name", of(__name__))
def test_case(name: str) -> None:
    """What the case's own `expected` says, checked by its kind."""
    CHECKS[name](CASES[name])
