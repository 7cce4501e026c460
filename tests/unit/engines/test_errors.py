"""What an error answer says, and what may be asked differently because of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.replay import answer

from iqaction.calls import FailureKind
from iqaction.engines import _errors
from iqaction.engines._base import WireReply
from iqaction.engines._errors import Cap, NoLogprobs, UnknownFields, cap, error_text, objection

OPTIONAL = ("top_p", "top_k", "min_p", "seed", "return_token_ids")


def refused(message: str, status: int = 400) -> WireReply:
    return answer(status, {"error": {"message": message}})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "m", "type": "t"}}, "m"),
        ({"error": {"type": "t"}}, "t"),
        ({"error": {"message": None}}, ""),
        ({"error": "text"}, "text"),
        ({"object": "error", "message": "flat"}, "flat"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body", "n"], "msg": "Field required"}]}, "body.n: Field required"),
        ({"detail": [{"loc": None, "msg": 5}, "text", None]}, "text"),
        ({"detail": {"a": 1}}, ""),
        ({"detail": {"message": "within"}}, "within"),
        ({"error": {"message": {"detail": [{"loc": ["body", "x"], "msg": "m"}]}}}, "body.x: m"),
        ({"errors": [{"message": "one"}, {"message": "two"}]}, "one; two"),
        ({"error": {"error": {"error": "deep"}}}, "deep"),
        ({"error": [[[[[[[["too deep"]]]]]]]]}, ""),
        ({"detail": [{"loc": ["a", "\ud800"], "msg": "half a pair"}]}, "a.\ufffd: half a pair"),
        ({"msg": "m"}, "m"),
        ("a string", "a string"),
        ([1, 2], ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_error_text__json(body: Any, said: str) -> None:
    """Every shape that engines use, and none of them indexed blindly."""
    assert error_text(answer(400, body)).strip() == said.strip()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway"),
        ("<h1>Oops</h1>", "Oops"),
        ("upstream connect error\n\n  or disconnect", "upstream connect error or disconnect"),
        ("", ""),
        ('{"error": {"mess', '{"error": {"mess'),
    ],
)
def test_error_text__not_json(text: str, said: str) -> None:
    """A page's title, or its words without tags."""
    assert error_text(answer(502, text=text)) == said


def test_error_text__is_short_and_on_one_line() -> None:
    """A server's page does not flood a report."""
    assert len(error_text(refused("word\n" * 10_000))) == 400
    assert "\n" not in error_text(refused("a\nb\r\tc"))


@given(st.text())
def test_error_text__whatever_comes(text: str) -> None:
    """Any text and any JSON string is read."""
    assert len(error_text(answer(500, text=text))) <= 400
    assert len(error_text(answer(500, {"error": text}))) <= 400


@pytest.mark.parametrize(
    ("message", "k"),
    [
        ("Requested sample logprobs of 20, which is greater than max allowed: 5", 5),
        ("`top_n_tokens` must be >= 0 and <= 5. Given: 20", 5),
        ("top_logprobs must be between 0 and 8", 8),
        ("Invalid 'top_logprobs'. Expected a value <= 5, but got 20 instead.", 5),
        ("top_logprobs: Input should be less than or equal to 5", 5),
        ("logprobs: at most 5 are returned", 5),
        ("top_logprobs cannot exceed 10", 10),
        ("The maximum value of top_logprobs is 5, maximum of 5", 5),
        ("n_probs must be in the range [0, 5]", 5),
        ("max logprobs allowed is 5: maximum allowed: 5", 5),
        ("Invalid top_logprobs value, the valid range of top_logprobs is [0, 5].", 5),
        ("top_logprobs must be in [0, 5), got 20", 4),
        ("Maximum allowed value for top_logprobs is 5", 5),
        ("logprobs (20) exceeds the maximum (5)", 5),
        ("top_logprobs 20 exceeds limit: 5", 5),
        ("top_logprobs must be less than 6", 5),
        ("top_logprobs: supported values are in the range from 0 (inclusive) to 6 (exclusive)", 5),
        ("the range of top_logprobs is 0-5", 5),
        ("top_logprobs must not exceed 5", 5),
        ("top_logprobs must be in range 0..5", 5),
        ("top_logprobs must be 5 or less", 5),
        ("top_logprobs: no greater than 5, got 20", 5),
        ("the server was started with max_logprobs=5", 5),
        ("20 is greater than the maximum of 5 - 'top_logprobs'", 5),
    ],
)
def test_objection__a_cap_is_obeyed(message: str, k: int) -> None:
    """The allowed number is read, never the asked one, and never halved."""
    assert objection(refused(message), 20, OPTIONAL) == Cap(k)
    assert cap(message) == k


@pytest.mark.parametrize(
    "message",
    [
        "Requested prompt logprobs of 20, which is greater than max allowed: 0",
        "Logprobs(True)/top_logprobs(20) requested but not enabled logprobs_mode in engine",
        "`gather_generation_logits` must be `True` to use `top_logprobs`",
        "--kv-sharing-fast-prefill produces incorrect logprobs for prompt tokens",
        "`prompt_logprobs` are not available when `stream=True`.",
        "logprobs is not supported with tools + stream",
        "This model does not support logprobs",
        "You requested logprobs, at most 50 can be listed",  # a cap above what was asked is none
    ],
)
def test_objection__a_refusal_is_no_cap(message: str) -> None:
    """No number of listed tokens will do: log-probabilities are given up at once."""
    assert isinstance(objection(refused(message), 20, OPTIONAL), NoLogprobs)


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 logprob",
        "request (9031 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "max_tokens=100000 cannot be greater than max_model_len=2048.",
        "The model `x` does not exist.",
        "temperature must be non-negative",
        "",
    ],
)
def test_objection__everything_else_is_a_failure(message: str) -> None:
    """Asking differently would not help."""
    assert objection(refused(message), 20, ()) is None


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Unrecognized request argument supplied: return_token_ids", ("return_token_ids",)),
        ("Unknown parameter: 'top_k'.", ("top_k",)),
        ("[{'type': 'extra_forbidden', 'loc': ('body', 'min_p'), 'msg': 'x'}]", ("min_p",)),
        ("Input validation error: `top_p` must be > 0.0 and < 1.0", ("top_p",)),
        ("The min_p and logit_bias parameters are not yet supported", ("min_p",)),
        ("top_k and top_p: Extra inputs are not permitted", ("top_p", "top_k")),
        ("the parameter min_p is not implemented", ("min_p",)),
        ("this model does not support top_k", ("top_k",)),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_objection__fields_by_name(message: str, names: tuple[str, ...], status: int) -> None:
    """Only whole names count: desktop_properties is not top_p."""
    assert objection(refused(message, status), 20, OPTIONAL) == UnknownFields(names)
    assert objection(refused("unknown field desktop_props, xtop_p_"), 20, OPTIONAL) is None


def test_objection__only_the_parameter_names_the_field() -> None:
    """Some servers say what is wrong and leave it to `param` to say with what."""

    def told(message: str, param: str, flat: bool = False) -> WireReply:
        error = {"message": message, "param": param}
        return answer(400, error if flat else {"error": error})

    assert objection(told("Input should be at most 5", "top_logprobs"), 20, OPTIONAL) == Cap(5)
    assert objection(told("Input should be at most 5", "logprobs", True), 20, ()) == Cap(5)
    assert objection(told("Extra inputs are not permitted", "min_p"), 20, OPTIONAL) == (
        UnknownFields(("min_p",))
    )
    assert objection(told("bad", "messages"), 20, OPTIONAL) is None
    odd = objection(told("logprobs are disabled", "a\nb" * 200), 20, OPTIONAL)
    assert isinstance(odd, NoLogprobs)
    assert "\n" not in odd.said
    assert len(odd.said) < 120


def test_objection__only_what_refuses_objects() -> None:
    """A transport failure, a 500 or a 404 is none of these."""
    message = "unknown top_k; logprobs max allowed: 5"
    assert objection(refused(message, 500), 20, OPTIONAL) is None
    assert objection(refused(message, 404), 20, OPTIONAL) is None
    assert objection(WireReply(0, failure=FailureKind.TIMEOUT, message=message), 20, ()) is None
    for status in (403, 404, 501):
        denied = refused("You are not allowed to request logprobs from this model", status)
        assert isinstance(objection(denied, 20, OPTIONAL), NoLogprobs)
        assert objection(denied, 0, OPTIONAL) is None
    # llama-cpp-python refuses with a 500
    refusal = refused("logprobs is not supported for models created with logits_all=False", 500)
    assert isinstance(objection(refusal, 20, OPTIONAL), NoLogprobs)


@pytest.mark.parametrize("number", ["9" * 400, "99999999999"])
def test_cap__absurd_numbers(number: str) -> None:
    """A hostile number is no cap and no crash."""
    assert cap(f"max allowed: {number}") is None


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refused("the maximum context length is 10 tokens"), FailureKind.UNSUPPORTED),
        (refused("bad"), FailureKind.STATUS),
        (answer(401, {"error": "Unauthorized"}), FailureKind.STATUS),
        (answer(200, text="<p>"), FailureKind.MALFORMED),
        (answer(200, {}), FailureKind.MALFORMED),
        (answer(200, text='{"a'), FailureKind.TRUNCATED_BODY),
        (answer(503, {}), FailureKind.BUSY),
        (answer(504, text="<title>504</title>"), FailureKind.PROXY),
    ],
)
def test_failure__kinds(reply: WireReply, kind: FailureKind) -> None:
    """The kind says whose fault it is; the message what was asked and what came."""
    failed = _errors.failure(reply, "chat")

    assert failed.kind is kind
    assert failed.message.startswith("chat: ")
    assert (failed.status or 0) == reply.status


def test_is_missing__a_path_not_a_model() -> None:
    """vLLM answers 404 for a wrong model name: that is no missing endpoint."""
    assert _errors.is_missing(answer(404, {"detail": "Not Found"}))
    assert _errors.is_missing(answer(405, text=""))
    assert not _errors.is_missing(refused("The model `x` does not exist.", 404))
    assert not _errors.is_missing(answer(400, {}))
