"""Answers from public bug reports and engine sources: each is read as what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire.replay import Script, answer, chat, engine, run, tokenize

from iqaction import engines
from iqaction.calls import (
    Call,
    Capability,
    Failure,
    FailureKind,
    Force,
    Generation,
    Scored,
    TokenIds,
)
from iqaction.engines import _chat
from iqaction.engines._base import WireReply
from iqaction.engines._detect import discover
from iqaction.rows import Match

LINES = (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()
CASES: dict[str, dict[str, Any]] = {c["id"]: c for c in map(json.loads, LINES)}
Check = Callable[[dict[str, Any]], None]
CHECKS: dict[str, Check] = {}

GOOD = {
    "choices": [
        {"index": 0, "message": {"content": "4"}, "logprobs": None, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1},
}


def case(*ids: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(ids, check))
        return check

    return add


def reply_of(c: dict[str, Any]) -> WireReply:
    body, text = c["response"], ""
    if isinstance(body, str):
        body, text = None, body
    headers = {k.lower().replace("-", "_"): v for k, v in c.get("headers", {}).items()}
    return answer(c.get("status", 200), body, text, **headers)


def ask(
    c: dict[str, Any], dialect: str = "openai", call: Call | None = None, **changes: Any
) -> Any:
    """The answer, and the script that gave it: first the case's reply, then a good one."""
    script = Script(reply_of(c), answer(200, GOOD))
    asked = call or chat(**changes)
    result = run(engines.load(dialect).speak(asked, engine(dialect)), script)
    return result, script


def generation(c: dict[str, Any], dialect: str = "openai", **changes: Any) -> Generation:
    result, _ = ask(c, dialect, **changes)
    assert isinstance(result, Generation)
    return result


def failure(c: dict[str, Any], dialect: str = "openai", call: Call | None = None) -> Failure:
    result, _ = ask(c, dialect, call)
    assert isinstance(result, Failure)
    return result


def forced(prompt: list[int], k: int = 1) -> Force:
    return Force(tokenize("x").tag, tuple(prompt[:1]), tuple(prompt[1:]), k)


@case("cap-vllm-max5", "cap-ollama-range", "cap-openai-range")
def cap(c: dict[str, Any]) -> None:
    result, script = ask(c, top_logprobs=c["request"]["top_logprobs"])

    assert isinstance(result, Generation)
    assert [c["request"]["top_logprobs"], c["expected"]["k"]] == [
        b["top_logprobs"] for b in script.bodies
    ]


@case("cap-vllm-max0", "plp-kv-sharing", "plp-stream-refused")
def forcing_refused(c: dict[str, Any]) -> None:
    result, script = ask(c, "vllm", forced([5, 7], 20))

    assert isinstance(result, Failure)
    assert FailureKind.UNSUPPORTED is result.kind
    assert len(script.asked) == 1


@case("cap-lmdeploy-off")
def logprobs_refused(c: dict[str, Any]) -> None:
    result, script = ask(c)

    assert isinstance(result, Generation)
    assert "logprobs" not in script.bodies[1] and "top_logprobs" not in script.bodies[1]
    assert (result.rows, result.top_logprobs) == (None, 0)
    assert "logprobs_mode" in result.flags[0]


@case("cap-trtllm-gather")
def list_refused(c: dict[str, Any]) -> None:
    script = Script(reply_of(c), reply_of(c), answer(200, GOOD))
    result = run(engines.load("openai").speak(chat(), engine("openai")), script)

    assert isinstance(result, Generation)
    assert [(b.get("logprobs"), b.get("top_logprobs")) for b in script.bodies] == [
        (True, 20),
        (True, None),
        (None, None),
    ]


@case("cap-trtllm-forbid-extra", "samp-minp-unsupported", "samp-topk-encoding")
def field_dropped(c: dict[str, Any]) -> None:
    field = {"samp-minp-unsupported": "min_p", "samp-topk-encoding": "top_k"}.get(
        c["id"], "return_tokens_as_token_ids"
    )
    result, script = ask(c, "vllm")

    assert isinstance(result, Generation)
    assert set(script.bodies[0]) - set(script.bodies[1]) == {field}
    assert _chat.LEFT_OUT.format(field) in result.flags


@case("greedy-tgi-top-p-1")
def top_p_dropped(c: dict[str, Any]) -> None:
    _, script = ask(c)

    assert script.bodies[0]["top_p"] == 1.0
    assert "top_p" not in script.bodies[1]


@case("cap-not-a-cap")
def server_error_is_no_cap(c: dict[str, Any]) -> None:
    assert FailureKind.STATUS is failure(c, "sglang").kind
    # What brought it about is never sent: log-probabilities without a list.
    _, script = ask(c, "sglang", chat(top_logprobs=0))
    assert "logprobs" not in script.bodies[0]


@case("val-9999", "val-null-logprob", "val-positive", "val-prob-in-logprob-field")
@case("val-default-missing-token", "val-lmdeploy-zero-default", "samp-oov-token")
def value_faults(c: dict[str, Any]) -> None:
    rows = generation(c).rows
    assert rows is not None

    usable = {
        "val-null-logprob": [False, True],
        "val-default-missing-token": [True, False],
    }.get(c["id"], [False])
    assert usable == rows.usable.tolist()
    assert sum(rows.faults.values()) == 1


@case("val-slightly-positive")
def rounding(c: dict[str, Any]) -> None:
    rows = generation(c).rows

    assert rows is not None
    assert rows.logprob.tolist() == [0.0]


@case("val-vllm-ngram-zero")
def all_zero(c: dict[str, Any]) -> None:
    result = generation(c, "vllm")

    assert _chat.ALL_ZERO in result.flags
    assert result.rows is not None
    assert not result.rows.usable.any()


@case("top-sampled-first")
def sampled_first(c: dict[str, Any]) -> None:
    rows = generation(c, "openai", temperature=1.0).rows

    assert rows is not None
    assert rows.piece(rows.top[0, 0]) == "A"
    assert rows.chosen[0] == rows.top[0, 1]


@case("top-completions-k-plus-1", "plp-llamacpp-none")
def completions_shape(c: dict[str, Any]) -> None:
    """A completions answer is no chat; what it lists for a prompt is what forcing reads."""
    assert FailureKind.MALFORMED is failure(c).kind
    assert FailureKind.UNSUPPORTED is failure(c, "vllm", forced([5, 7, 8])).kind


@case("top-raw-bpe-strings")
def raw_bpe(c: dict[str, Any]) -> None:
    rows = generation(c).rows

    assert rows is not None
    assert rows.piece(rows.chosen[0]) == " there"


@case("top-no-bytes", "top-whitespace-missing", "top-empty-list-k0")
def accepted(c: dict[str, Any]) -> None:
    rows = generation(c, "llamacpp" if "whitespace" in c["id"] else "openai").rows

    assert rows is not None
    assert rows.usable.all()
    expected = {"top-no-bytes": Match.TEXT, "top-whitespace-missing": Match.ID}
    assert expected.get(c["id"], Match.BYTES) is rows.match
    if rows.k:
        assert rows.chosen[0] == rows.top[0, 0]


@case("top-null-logprobs-200", "reason-logprobs-suppressed")
def none_returned(c: dict[str, Any]) -> None:
    result = generation(c, "vllm")

    assert (result.rows, result.top_logprobs) == (None, 0)
    assert _chat.NO_LOGPROBS in result.flags


@case("top-legacy-shape-in-chat")
def legacy_shape(c: dict[str, Any]) -> None:
    result = generation(c)

    assert result.rows is not None
    assert pytest.approx(result.rows.logprob.tolist()) == [-0.1, -0.2]
    assert result.rows.k == 2
    assert result.rows_complete


@case("top-duplicate-strings")
def duplicate_strings(c: dict[str, Any]) -> None:
    rows = generation(c).rows

    assert rows is not None
    assert not rows.usable.any()


@case("top-partial-utf8-llamacpp")
def partial_character(c: dict[str, Any]) -> None:
    rows = generation(c, "llamacpp").rows

    assert rows is not None
    assert rows.chosen[0] == rows.top[0, 0] == 96


@case("top-deepseek-escaped")
def escaped(c: dict[str, Any]) -> None:
    rows = generation(c).rows

    assert rows is not None
    assert Match.BYTES is rows.match
    assert "\\x" not in rows.piece(rows.chosen[0])


@case("top-id-strings")
def id_strings(c: dict[str, Any]) -> None:
    rows = generation(c, "vllm").rows

    assert rows is not None
    assert (
        rows.match,
        rows.chosen.tolist(),
        rows.top.tolist(),
    ) == (Match.ID, [13347], [[13347, 9906]])
    assert rows.piece(13347) == "Hi"


@case("top-id-vs-token-ids-mismatch")
def ids_disagree(c: dict[str, Any]) -> None:
    result = generation(c, "vllm")

    assert _chat.IDS_DISAGREE in result.flags
    assert not result.rows_complete
    assert result.prompt_ids == (1, 2, 3)


@case("top-literal-token-id-text")
def literal_text(c: dict[str, Any]) -> None:
    rows = generation(c, "openai").rows

    assert rows is not None
    assert Match.BYTES is rows.match


@case("count-reasoning-in-logprobs", "count-eos-included", "count-eos-excluded")
def complete(c: dict[str, Any]) -> None:
    result = run(
        engines.load("llamacpp").speak(chat(), engine("llamacpp", eos_id=2)), Script(reply_of(c))
    )

    assert isinstance(result, Generation)
    assert result.rows_complete
    assert (2 if c["id"] == "count-eos-excluded" else None) == result.eos_id


@case("count-specdecode-only-first")
def one_row_of_three(c: dict[str, Any]) -> None:
    meta = c["response"]["meta_info"]
    choice = {
        "message": {"content": c["response"]["text"]},
        "finish_reason": "length",
        "meta_info": meta,
        "token_ids": c["response"]["output_ids"],
    }
    body = {"choices": [choice], "usage": meta}
    result = run(engines.load("sglang").speak(chat(), engine("sglang")), Script(answer(200, body)))

    assert isinstance(result, Generation)
    assert not result.rows_complete
    assert _chat.ROWS_LOST in result.flags


@case("count-tail-specdecode")
def not_greedy(c: dict[str, Any]) -> None:
    assert _chat.NOT_GREEDY in generation(c).flags
    assert _chat.NOT_GREEDY not in generation(c, temperature=1.0).flags


@case("count-n2")
def first_index(c: dict[str, Any]) -> None:
    assert generation(c).text == "A"


@case("count-empty-choices")
def no_choices(c: dict[str, Any]) -> None:
    assert FailureKind.MALFORMED is failure(c).kind


@case("count-usage-null")
def no_usage(c: dict[str, Any]) -> None:
    result = generation(c)

    assert (result.prompt_tokens, result.completion_tokens) == (None, None)


@case("reason-field-renamed", "reason-think-in-content", "reason-think-unopened")
def reasoning_apart(c: dict[str, Any]) -> None:
    result = generation(c)

    assert c["expected"].get("answer_text", "4") == result.text
    assert result.reasoning


@case("reason-exhausted", "reason-think-unclosed", "reason-sglang-empty-string")
def truncated(c: dict[str, Any]) -> None:
    result = generation(c)

    assert (result.text, result.finish_reason) == ("", "length")
    assert result.reasoning
    assert "think" not in result.reasoning.replace("thinking", "")


@case("reason-both-null")
def nothing_said(c: dict[str, Any]) -> None:
    assert _chat.EMPTY in generation(c).flags


@case("reason-kwargs-ignored")
def thinking_not_disabled(c: dict[str, Any]) -> None:
    kwargs = json.dumps(c["request"])

    assert _chat.THINKING in generation(c, template_kwargs=kwargs).flags
    assert _chat.THINKING not in generation(c).flags


@case("tok-llamacpp-with-pieces", "tok-tgi-list")
def token_lists(c: dict[str, Any]) -> None:
    result, _ = ask(c, "llamacpp", tokenize("hi"))

    assert TokenIds(tuple(c["expected"]["ids"])) == result


@case("tok-trtllm-internal", "tok-sglang-batch", "tok-404", "tok-trust-template")
def no_token_list(c: dict[str, Any]) -> None:
    assert failure(c, "vllm", tokenize("hi")).message.startswith("tokenize: ")


@case("tok-base-url-v1")
def root_path(c: dict[str, Any]) -> None:
    """vLLM is asked at the root at once; SGLang at both places."""
    _, vllm = ask(c, "vllm", tokenize("hi"))
    _, sglang = ask(c, "sglang", tokenize("hi"))

    assert [r.path for r in vllm.asked] == ["/tokenize"]
    assert [r.path for r in sglang.asked] == ["/v1/tokenize", "/tokenize"]


@case("tok-double-bos", "tok-add-special-defaults-differ")
def no_special_tokens_added(c: dict[str, Any]) -> None:
    """Nobody adds a second BOS for us: a chat has what its template wrote, a text nothing."""
    for dialect, key in (
        ("vllm", "add_special_tokens"),
        ("sglang", "add_special_tokens"),
        ("llamacpp", "add_special"),
    ):
        _, script = ask(c, dialect, tokenize("Hello!"))
        assert script.bodies[0][key] is False
    _, script = ask(c, "vllm", tokenize())
    assert script.bodies[0]["add_special_tokens"] is False


@case("plp-first-null", "plp-sampled-first-dup-rank")
def prompt_rows(c: dict[str, Any]) -> None:
    result, _ = ask(c, "vllm", forced(c["request"]["prompt"]))

    assert isinstance(result, Scored)
    target, argmax = {"plp-first-null": (11, 11)}.get(c["id"], (917, 15043))
    assert [target] == result.rows.chosen.tolist()
    assert argmax == result.rows.top[0, 0]


@case("plp-target-missing")
def target_missing(c: dict[str, Any]) -> None:
    failed = failure(c, "vllm", forced(c["request"]["prompt"]))

    assert FailureKind.MALFORMED is failed.kind
    assert "position 0" in failed.message and "917" in failed.message


@case("plp-processed-mode")
def raw_logits(c: dict[str, Any]) -> None:
    result, _ = ask(c, "vllm", forced(c["request"]["prompt"]))

    assert isinstance(result, Scored)
    assert not result.rows.usable.any()


@case("plp-chat-location")
def top_level(c: dict[str, Any]) -> None:
    result, _ = ask(c, "vllm", forced([5, 11]))

    assert isinstance(result, Scored)


@case("plp-sglang-generate")
def sglang_rows(c: dict[str, Any]) -> None:
    result, script = ask(c, "sglang", forced(c["request"]["input_ids"]))

    assert isinstance(result, Scored)
    assert result.rows.chosen.tolist() == [7, 8]
    assert result.rows.top[:, 0].tolist() == [7, 9]
    assert script.bodies[0]["logprob_start_len"] == 0


@case("plp-sglang-start-len")
def sglang_no_rows(c: dict[str, Any]) -> None:
    failed = failure(c, "sglang", forced(c["request"]["input_ids"]))

    assert FailureKind.MALFORMED is failed.kind
    assert "0 rows for 2 tokens" in failed.message


@case("plp-oom-500")
def no_second_try(c: dict[str, Any]) -> None:
    result, script = ask(c, "vllm", forced([5, 7]))

    assert isinstance(result, Failure)
    assert [r.retry for r in script.asked] == [False]


@case("greedy-tgi-penalty", "greedy-tiny-temperature")
def plain_request(c: dict[str, Any]) -> None:
    _, script = ask(c)

    assert script.bodies[0]["temperature"] == 0
    assert not {"presence_penalty", "frequency_penalty", "n"} & set(script.bodies[0])


@case("info-health-503-llamacpp", "err-html-502", "err-tgi-424", "err-string-error")
@case("err-llamacpp-500-logprobs-tools", "err-model-not-found", "err-429-retry-after-date")
def failures(c: dict[str, Any]) -> None:
    failed = failure(c, call=chat(top_logprobs=0))

    kind = {503: FailureKind.BUSY, 429: FailureKind.BUSY, 504: FailureKind.PROXY}
    assert kind.get(c["status"], FailureKind.STATUS) is failed.kind
    assert c["status"] == failed.status
    said = c["response"] if isinstance(c["response"], str) else c["response"]["error"]
    words = said["message"] if isinstance(said, dict) else said
    assert (words if "<" not in words else "504 Gateway Time-out") in failed.message


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


@case("err-html-200", "info-health-empty-body", "err-truncated-json")
def not_json(c: dict[str, Any]) -> None:
    kind = FailureKind.TRUNCATED_BODY if "truncated" in c["id"] else FailureKind.MALFORMED

    assert kind is failure(c).kind


@case("info-models-lora-alias")
def adapters(c: dict[str, Any]) -> None:
    info = run(discover("", "openai"), lambda _: reply_of(c))

    assert (info.models, info.model) == (("base", "my-lora"), "base")
    assert run(discover("my-lora", "openai"), lambda _: reply_of(c)).model == "my-lora"


@case("info-sglang-server-info", "info-llamacpp-slots", "info-llamacpp-props-401")
def server_info(c: dict[str, Any]) -> None:
    dialect = "sglang" if "sglang" in c["id"] else "llamacpp"
    listing = {"data": [{"id": "m", "owned_by": dialect}]}

    def answers(request: Any) -> WireReply:
        if request.path == "/v1/models":
            return answer(200, listing)
        if request.path in ("/server_info", "/props"):
            return reply_of(c)
        return answer(404, {"detail": "Not Found"})

    info = run(discover("", "auto"), answers)

    assert dialect == info.dialect
    assert Capability.FORCE in info.capabilities
    assert {"info-sglang-server-info": "0.5.23", "info-llamacpp-slots": "b11380"}.get(
        c["id"], ""
    ) == info.version
    assert (4 if "slots" in c["id"] else None) == info.slots


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    """What the case's own `expected` says, checked by its kind."""
    CHECKS[name](CASES[name])


def test_case__every_check_has_a_case() -> None:
    """A check whose case is gone would test nothing."""
    assert set(CHECKS) == set(CASES)
