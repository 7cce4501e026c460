"""Answers from public bug reports and engine sources: each is read as what it is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from wire.cases import CASES, CHECKS, GOOD, ask, case, failure, forced, generation, of, reply_of
from wire.lab import Lab, json_of, said
from wire.replay import TAG, Script, answer, chat, engine, run, tokenize

from iqaction import engines
from iqaction.calls import (
    Capability,
    Draw,
    Drawn,
    Failure,
    FailureKind,
    Generation,
    Message,
    Scored,
    TokenIds,
)
from iqaction.engines import _chat, _logprobs
from iqaction.engines._base import WireReply
from iqaction.engines._detect import discover
from iqaction.engines._logprobs import Asked
from iqaction.rows import Match, RowFault


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


@pytest.mark.parametrize("name", ["samp-minp-unsupported", "samp-topk-encoding"])
def test_case__a_setting_that_is_asked_for_is_not_dropped(name: str) -> None:
    """A draw with a filter that the engine refuses is not run without it, and says which."""
    field = {"samp-minp-unsupported": "min_p", "samp-topk-encoding": "top_k"}[name]
    on = {"min_p": {"min_p": 0.05}, "top_k": {"top_k": 20}}[field]
    call = Draw(TAG, (Message("user", "x"),), 1, 1, 1.0, **on)  # type: ignore[arg-type]
    failed, script = ask(CASES[name], "vllm", call)

    assert isinstance(failed, Failure)
    assert FailureKind.UNSUPPORTED is failed.kind
    assert f"refuses {field}" in failed.message
    assert len(script.asked) == 1


@case("samp-silent-defaults")
def defaults_are_sent(c: dict[str, Any]) -> None:
    """Every field of the sampler is sent, in each engine's own words; where an engine's words
    are not known, that is said."""
    penalty = {"llamacpp": "repeat_penalty"}
    off = {"llamacpp": 0, "vllm": -1, "sglang": -1}
    for dialect, none in off.items():
        for call in (chat(), Draw(TAG, (Message("user", "x"),), 1, 1, 1.0)):
            lab = Lab(json_of({"error": "x"}, 404))
            lab.call(call, dialect)
            names = set(c["expected"]["send_explicit"]) - {"repetition_penalty"}
            assert {*names, penalty.get(dialect, "repetition_penalty")} <= set(lab.bodies[0])
            assert (lab.bodies[0]["top_p"], lab.bodies[0]["min_p"]) == (1.0, 0.0)
            assert lab.bodies[0]["top_k"] == none
            assert CASES["samp-topk-encoding"]["expected"][dialect] == none
    plain = run(discover("", "openai"), lambda _: answer(200, {"data": [{"id": "m"}]}))
    assert any("sampling defaults" in said for said in plain.limitations)
    lab = Lab(json_of({"error": "x"}, 404))
    lab.call(chat(), "openai")
    assert "top_k" not in lab.bodies[0]


@case("samp-seed-ignored")
def draws_are_not_paired(c: dict[str, Any]) -> None:
    """No draw is seeded, so that none is compared with another by its seed."""
    assert c["expected"]["pair_by_seed"] is False
    for dialect in engines.names():
        lab = Lab(json_of({"error": "x"}, 404))
        lab.call(Draw(TAG, (Message("user", "x"),), 4, 1, 1.0), dialect)
        assert lab.bodies[0].get("seed", -1) == -1


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
    """Not usable, counted, and named for what it is."""
    result = generation(c)
    rows = result.rows
    assert rows is not None

    usable = c["expected"].get("position_usable", [False])
    fault = {
        "clamped_logprob": RowFault.CLAMPED,
        "missing_logprob_entry": RowFault.CLAMPED,
        "token_id_out_of_vocab": RowFault.CLAMPED,
        "null_logprob": RowFault.MISSING,
        "not_logprobs": RowFault.NOT_LOGPROB,
        "chosen_token_missing": RowFault.NAMELESS,
    }[c["expected"]["flag"]]
    assert usable == rows.usable.tolist()
    assert rows.faults == {fault.value: 1}
    assert np.isnan(rows.logprob[~rows.usable]).all()
    if c["id"] == "val-default-missing-token":
        assert c["expected"]["k"] == rows.k
    assert (_chat.NO_VOCABULARY in result.flags) is (c["id"] == "samp-oov-token")


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
    assert rows.piece(rows.top[0, 0]) == c["expected"]["argmax"]
    assert rows.piece(rows.chosen[0]) == c["expected"]["chosen"]
    assert rows.top[0].tolist().index(rows.chosen[0]) + 1 == c["expected"]["chosen_rank"]


@case("top-completions-k-plus-1")
def one_more_than_asked(c: dict[str, Any]) -> None:
    """Three entries for two are taken, in a chat's answer: the two most likely, and the drawn."""
    choice = c["response"]["choices"][0]
    body = {
        "choices": [{**choice, "message": {"content": choice["text"]}}],
        "usage": c["response"]["usage"],
    }
    listed = _logprobs.read(choice["logprobs"], Asked())
    rows = generation({"response": body}, top_logprobs=c["expected"]["k"]).rows

    assert listed is not None and rows is not None
    assert c["expected"]["entries"] == len(listed.positions[0].top)
    assert c["expected"]["k"] == rows.k
    assert c["expected"]["argmax"] == rows.piece(rows.top[0, 0])
    assert (rows.piece(rows.chosen[0]), rows.usable.tolist()) == ("Z", [True])


@case("plp-llamacpp-none")
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
    assert result.rows is not None
    assert result.rows_complete
    assert (2 if c["id"] == "count-eos-excluded" else None) == result.eos_id
    wanted = c["expected"]
    assert wanted.get("tokens", wanted.get("generated_tokens")) == len(result.rows)
    assert wanted.get("reasoning", "") == result.reasoning
    assert wanted.get("content", "Hi") == result.text
    if wanted.get("last_is_eos"):
        assert result.rows.piece(result.rows.chosen[-1]) == "<|im_end|>"


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
    """By their indices, wherever they stand; the count is of both."""
    drawn, _ = ask(c, call=Draw(TAG, (Message("user", "x"),), 2, 1, 1.0))

    assert generation(c).text == "A"
    assert isinstance(drawn, Drawn)
    assert [drawn.rows.piece(k) for k in drawn.rows.chosen] == ["A", "B"]
    assert drawn.completion_tokens == 2


@case("count-empty-choices")
def no_choices(c: dict[str, Any]) -> None:
    assert FailureKind.MALFORMED is failure(c).kind
    assert "without choices" in failure(c).message


@case("count-usage-null")
def no_usage(c: dict[str, Any]) -> None:
    result = generation(c)

    assert (result.prompt_tokens, result.completion_tokens) == (None, None)


@case("reason-field-renamed", "reason-think-in-content", "reason-think-unopened")
def reasoning_apart(c: dict[str, Any]) -> None:
    result = generation(c)

    assert c["expected"].get("answer_text", "4") == result.text
    assert c["expected"].get("reasoning", result.reasoning) == result.reasoning
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


@case("tok-add-special-defaults-differ")
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
    value = c["expected"].get("target_logprob", -0.1)
    assert result.rows.logprob.tolist() == pytest.approx([value])
    assert (target == argmax) is c["expected"].get("agree", True)


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
    assert result.rows.faults == {RowFault.NOT_LOGPROB.value: 1}


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
    lab = Lab(said(c))
    observation = lab.call(forced([5, 7]), "vllm")
    assert (observation.attempts, lab.slept) == (1, [])
    assert observation.answer.is_lost  # and asked again when the run continues


@case("greedy-tgi-penalty", "greedy-tiny-temperature")
def plain_request(c: dict[str, Any]) -> None:
    _, script = ask(c)

    assert script.bodies[0]["temperature"] == 0
    assert not {"presence_penalty", "frequency_penalty", "n"} & set(script.bodies[0])


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


@pytest.mark.parametrize("name", of(__name__))
def test_case(name: str) -> None:
    """What the case's own `expected` says, checked by its kind."""
    CHECKS[name](CASES[name])
