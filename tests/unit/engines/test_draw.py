"""Sampled sequences of one prompt: what is asked for, how often, and what is put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.replay import TAG, Paths, Script, answer, engine, load, reply_of, run

from iqaction import engines
from iqaction.calls import Draw, Drawn, Failure, FailureKind, Message
from iqaction.engines import _chat, _draw
from iqaction.engines._base import WireReply
from iqaction.engines._detect import discover
from iqaction.rows import Match

DIALECTS = ("llamacpp", "openai", "sglang", "vllm")
ASKED = {"temperature": 0.8, "top_k": 20, "top_p": 0.95, "min_p": 0.05}


def draw(n: int = 2, **changes: Any) -> Draw:
    given = {"max_tokens": 8, "top_k": 20, "top_p": 0.95, "min_p": 0.05, **changes}
    return Draw(
        TAG, (Message("user", "hi"),), n, temperature=given.pop("temperature", 0.8), **given
    )


def said(script: Any, dialect: str = "vllm", call: Draw | None = None, **info: Any) -> Any:
    return run(engines.load(dialect).speak(call or draw(), engine(dialect, **info)), script)


def entry(text: str, logprob: float = -0.1, **changes: Any) -> dict[str, Any]:
    token = {"token": text, "logprob": logprob, "bytes": list(text.encode()), **changes}
    return {**token, "top_logprobs": [token]}


def choice(text: str = "ab", finish: Any = "length", rows: int | None = None) -> dict[str, Any]:
    """One choice whose rows are the characters of its text, or the first ``rows`` of them."""
    listed = [entry(c) for c in text[:rows]]
    return {
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": listed} if listed else None,
        "finish_reason": finish,
    }


def reply(*choices: dict[str, Any], tokens: int | None = None) -> WireReply:
    texts = "".join(str(c["message"]["content"]) for c in choices)
    count = len(texts) if tokens is None else tokens
    listed = [{"index": i, **c} for i, c in enumerate(choices)]
    return answer(200, {"choices": listed, "usage": {"completion_tokens": count}})


def drawn(script: Any, dialect: str = "vllm", call: Draw | None = None, **info: Any) -> Drawn:
    result = said(script, dialect, call, **info)
    assert isinstance(result, Drawn)
    assert sum(result.lengths) == len(result.rows)
    assert len(result.lengths) == len(result.finish_reasons)
    return result


def texts(result: Drawn) -> list[str]:
    parts = np.split(result.rows.chosen, np.cumsum(result.lengths)[:-1])
    return ["".join(map(result.rows.piece, part)) for part in parts]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_request__every_setting_is_sent(dialect: str) -> None:
    """Temperature and filters go out as asked, beside neutral penalties; no seed is fixed."""
    script = Script(*[reply(choice())] * 2)
    drawn(script, dialect, draw(template_kwargs='{"a":1}'))
    sent = script.bodies[0]

    assert ASKED.items() <= sent.items()
    assert (sent["logprobs"], sent["top_logprobs"], sent["max_tokens"]) == (True, 20, 8)
    assert sent["chat_template_kwargs"] == {"a": 1}
    assert sent.get("seed", -1) == -1
    assert ("seed" in sent) == (dialect == "llamacpp")  # its command line may fix one


@pytest.mark.parametrize("dialect", DIALECTS)
def test_request__a_filter_that_is_off(dialect: str) -> None:
    """Off is said in the engine's own words, and not at all to a server of unknown kind."""
    script = Script(*[reply(choice())] * 2)
    drawn(script, dialect, draw(top_k=0, top_p=1.0, min_p=0.0))
    sent = {k: v for k, v in script.bodies[0].items() if k in ("top_k", "top_p", "min_p")}
    off = {"llamacpp": 0, "sglang": -1, "vllm": -1}

    if dialect == "openai":
        assert sent == {"top_p": 1.0}
    else:
        assert sent == {"top_k": off[dialect], "top_p": 1.0, "min_p": 0.0}


def test_request__llamacpp_undoes_the_command_line() -> None:
    """Raw lists are asked for, and what a server's defaults may add to the filters is off."""
    script = Script(reply(choice()))
    drawn(script, "llamacpp", draw(1))
    neutral = {"min_keep": 0, "adaptive_target": -1.0, "ignore_eos": False, "mirostat": 0}
    raw = {"post_sampling_probs": False, "cache_prompt": False, "verbose": True}

    assert {**neutral, **raw}.items() <= script.bodies[0].items()


@pytest.mark.parametrize("dialect", ["openai", "sglang", "vllm"])
def test_draw__all_in_one_request(dialect: str) -> None:
    """The sequences of one answer lie one after another, in the order of their indices."""
    shuffled = [{**choice("abc"), "index": 1}, {**choice("de", "stop"), "index": 0}]
    body = {"choices": shuffled, "usage": {"completion_tokens": 5}}
    script = Script(answer(200, body))
    result = drawn(script, dialect)

    assert script.bodies[0]["n"] == 2
    assert texts(result) == ["de", "abc"]
    assert (result.lengths, result.finish_reasons) == ((2, 3), ("stop", "length"))
    assert (result.completion_tokens, result.top_logprobs, result.flags) == (5, 20, ())


def test_draw__vllm_recorded() -> None:
    """A real answer's sequence, twice: ids, raw lists, and one packing of both."""
    body = load("vllm-0.32.0/chat_t1_logprobs_20")["body_json"]
    body["choices"] += [{**body["choices"][0], "index": 1}]
    body["usage"]["completion_tokens"] *= 2
    result = drawn(Script(answer(200, body)), "vllm")

    assert (result.lengths, result.completion_tokens, result.flags) == ((8, 8), 16, ())
    assert result.rows.usable.all()
    assert result.rows.chosen[:8].tolist() == result.rows.chosen[8:].tolist()
    assert result.rows.k == 20


def test_draw__llamacpp_one_by_one() -> None:
    """Of several choices llama.cpp gives only the first with all its ids: one a request."""
    recorded = reply_of(load("llama.cpp-b11549/chat_t1_logprobs_20"))
    script = Script(*[recorded] * 3)
    result = drawn(script, "llamacpp", draw(3))

    assert [b.get("n") for b in script.bodies] == [None] * 3
    assert (result.lengths, result.completion_tokens) == ((8, 8, 8), 24)
    assert result.finish_reasons == ("stop",) * 3
    assert (result.rows.match, result.rows.k, result.flags) == (Match.ID, 20, ())


def test_draw__llamacpp_byte_fragments() -> None:
    """A token that is part of a character keeps its place and its id, without a value."""
    body = load("llama.cpp-b11549/chat_unicode_emoji")["body_json"]
    rows = body["choices"][0]["logprobs"]["content"]
    ids = [e["id"] for e in rows]
    body["usage"]["completion_tokens"] = len(ids) + 1
    body["__verbose"] = {"tokens": [*ids, 7]}  # the last character was cut off
    result = drawn(Script(answer(200, body)), "llamacpp", draw(1))

    assert (result.lengths, result.flags) == ((len(ids) + 1,), ())
    assert result.rows.chosen.tolist() == [*ids, 7]
    assert not result.rows.usable[-1]


def test_draw__a_server_that_ignores_the_number() -> None:
    """One choice at a time came, so one is asked for, until there are enough."""
    script = Script(*[reply(choice(t)) for t in ("ab", "c", "def", "g")])
    result = drawn(script, "openai", draw(3))

    assert [b.get("n") for b in script.bodies] == [3, None, None]
    assert texts(result) == ["ab", "c", "def"]


def test_draw__more_than_asked_for() -> None:
    """The first ones are taken: a stage planned for so many."""
    assert drawn(Script(reply(*[choice()] * 5))).lengths == (2, 2)


@pytest.mark.parametrize(
    ("said_", "asked"),
    [
        ("Field 'n': Value must be between 1 <= value <= 2, but got 5", [5, 2, 2, None]),
        ("n: integer above maximum value, at most 4", [5, 4, None]),
        ("n must be 1 when using greedy sampling, got 5.", [5, None, None, None, None, None]),
        ("Extra inputs are not permitted: n", [5, *[None] * 5]),
    ],
)
def test_draw__the_number_is_refused(said_: str, asked: list[int | None]) -> None:
    """As many as the server allows are asked for in one request, the rest after them."""

    def answers(request: Any) -> WireReply:
        seen.append(request.body.get("n"))
        refused = len(seen) == 1
        return answer(400, {"error": said_}) if refused else reply(*[choice()] * (seen[-1] or 1))

    seen: list[int | None] = []
    result = drawn(answers, "openai", draw(5))

    assert (seen, len(result.lengths), result.flags) == (asked, 5, ())


def test_draw__the_number_is_refused_as_recorded() -> None:
    """llama.cpp spoken to as a plain server names its limit: its number of slots."""
    refusal = reply_of(load("llama.cpp-b11549/chat_n2"))
    script = Script(refusal, reply(choice()), reply(choice()))

    assert len(drawn(script, "openai").lengths) == 2


@pytest.mark.parametrize("field", ["temperature", "top_k", "top_p", "min_p"])
def test_draw__a_setting_is_refused(field: str) -> None:
    """Draws from another distribution are no answer: the failure names the field."""
    script = Script(answer(400, {"error": f"unknown field {field}"}))
    result = said(script)

    assert isinstance(result, Failure)
    assert (result.kind, result.status) == (FailureKind.UNSUPPORTED, 400)
    assert field in result.message
    assert len(script.asked) == 1


def test_draw__an_optional_field_is_refused() -> None:
    """A filter that is off and a penalty may be left out; it is flagged, and never sent again."""
    script = Script(
        answer(400, {"error": "unknown field min_p"}),
        answer(400, {"error": "unknown field repetition_penalty"}),
        reply(choice()),
        reply(choice()),
    )
    result = drawn(script, "vllm", draw(min_p=0.0))

    assert set(result.flags) == {
        _chat.LEFT_OUT.format("min_p"),
        _chat.LEFT_OUT.format("repetition_penalty"),
    }
    assert not {"min_p", "repetition_penalty"} & set(script.bodies[3])


def test_draw__a_cap_holds_for_all_requests() -> None:
    """The list's length that was accepted once is asked for from then on, and reported."""
    refusal = answer(400, {"error": "logprobs: greater than max allowed: 5"})
    script = Script(refusal, reply(choice()), reply(choice()))
    result = drawn(script, "llamacpp")

    assert [b["top_logprobs"] for b in script.bodies] == [20, 5, 5]
    assert result.top_logprobs == 5


@pytest.mark.parametrize(
    "replies",
    [
        [answer(400, {"error": "logprobs is not supported"})],
        [reply(choice("ab", rows=0), choice("cd", rows=0))],
    ],
    ids=["refused", "ignored"],
)
def test_draw__no_lists(replies: list[WireReply]) -> None:
    """Without the list that it was drawn from, a token says nothing."""
    script = Script(*replies)
    result = said(script)

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNSUPPORTED
    assert "log-probabilities" in result.message
    assert len(script.asked) == 1


@pytest.mark.parametrize("call", [draw(0), draw(top_logprobs=0)])
def test_draw__nothing_is_asked_for(call: Draw) -> None:
    """No request is made for no sequence, or for one that could not be judged."""
    script = Script()
    result = said(script, "vllm", call)

    assert isinstance(result, Failure)
    assert script.asked == []


def test_draw__a_request_is_lost() -> None:
    """The call failed, whatever came before it: when a run continues it is asked anew."""
    lost = WireReply(0, failure=FailureKind.RESET, message="the connection broke")
    result = said(Script(reply(choice()), lost), "llamacpp")

    assert isinstance(result, Failure)
    assert result.is_lost


def test_draw__a_sequence_is_given_up() -> None:
    """The others count, and the loss is said; it is not quietly replaced by another draw."""
    script = Script(reply(choice("ab"), choice("c", "abort")))
    result = drawn(script)

    assert (texts(result), result.flags) == (["ab"], (_draw.GIVEN_UP,))
    assert len(script.asked) == 1


def test_draw__all_are_given_up() -> None:
    """What the engine says of the first is the call's failure."""
    result = said(Script(reply(choice(finish=None), choice(finish="error"))))

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.ABORTED


def test_draw__end_tokens_without_a_row() -> None:
    """As many tokens more than rows as texts stopped: the end tokens are not listed."""
    both = reply(choice("ab", "stop"), choice("cd"), tokens=5)
    result = drawn(Script(both), "vllm", eos_id=9)

    assert (result.eos_id, result.completion_tokens, result.flags) == (9, 5, ())


def test_draw__only_an_end_token() -> None:
    """A text that ended at once is a draw of length 0 where the end token has no row."""
    nothing = {**choice("", "stop"), "logprobs": None}
    result = drawn(Script(reply(nothing, choice("ab"), tokens=3)), "vllm", eos_id=9)

    assert (result.lengths, result.eos_id, result.flags) == ((0, 2), 9, ())


@pytest.mark.parametrize(("finish", "tokens"), [("length", 5), ("stop", 9)])
def test_draw__rows_are_lost(finish: str, tokens: int) -> None:
    """Tokens without rows that end tokens do not explain are said."""
    result = drawn(Script(reply(choice(finish=finish), choice(finish=finish), tokens=tokens)))

    assert (result.completion_tokens, result.flags) == (tokens, (_chat.ROWS_LOST,))
    assert result.eos_id is None


@pytest.mark.parametrize("usage", [{}, {"completion_tokens": 2}, {"completion_tokens": "4"}])
def test_draw__a_count_that_is_none(usage: dict[str, Any]) -> None:
    """A missing count, and one of the first sequence only, count nothing."""
    body = {"choices": [choice(), choice()], "usage": usage}
    result = drawn(Script(answer(200, body)))

    assert (result.completion_tokens, result.flags) == (None, ())


def test_draw__odd_rows_are_said_once() -> None:
    """Whole texts that read as certain are no measurement, however many there are."""
    sure = choice("abcd")
    for listed in sure["logprobs"]["content"]:
        listed["logprob"] = listed["top_logprobs"][0]["logprob"] = 0.0
    result = drawn(Script(reply(sure, sure)))

    assert result.flags == (_chat.ALL_ZERO,)
    assert not result.rows.usable.any()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "logprobs", "usage", "error"]), inner
        )
    ),
    max_leaves=8,
)


@given(JSON_VALUES, st.sampled_from(DIALECTS), st.integers(0, 4), st.sampled_from([200, 400, 500]))
def test_draw__whatever_comes(value: Any, dialect: str, depth: int, status: int) -> None:
    """Any JSON is draws that add up or a failure, and the conversation ends."""
    whole = choice("ab")
    nested: list[Any] = [
        value,
        {"choices": value, "usage": value},
        {"choices": [value, whole]},
        {"choices": [{**whole, "logprobs": value, "index": value}] * 2},
        {"choices": [{**whole, "logprobs": {"content": [value, value]}}], "usage": {"x": value}},
    ]
    asked = 0

    def answers(_: object) -> WireReply:
        nonlocal asked
        asked += 1
        return answer(status, nested[depth])

    result = said(answers, dialect, draw(3))

    assert asked <= 16
    if isinstance(result, Drawn):
        assert sum(result.lengths) == len(result.rows)
        assert 1 <= len(result.lengths) == len(result.finish_reasons) <= 3
    else:
        assert isinstance(result, Failure)


def props(**params: Any) -> WireReply:
    found = load("llama.cpp-b11549/get_props")
    found["body_json"]["default_generation_settings"]["params"] |= params
    return reply_of(found)


def filters(told: WireReply) -> tuple[str, ...]:
    listing = answer(200, {"data": [{"id": "m", "owned_by": "llamacpp"}]})

    def answers(request: Any) -> WireReply:
        by_path = {"/v1/models": listing, "/props": told}
        return by_path.get(request.path, answer(404, {}))

    return run(discover("", "auto"), answers).filters


def test_filters__llamacpp_recorded() -> None:
    """The chain of the server's own words, without the samplers that a request switches off."""
    assert filters(props()) == ("top_k", "top_p", "min_p", "temperature")


def test_filters__llamacpp_in_another_order() -> None:
    """A server that was started with another chain says so; what it lacks is not applied."""
    chain = ["temperature", "dry", "top_p", "infill"]

    assert filters(props(samplers=chain)) == ("temperature", "top_p", "infill")


@pytest.mark.parametrize("samplers", [None, [], "top_k", [7]])
def test_filters__llamacpp_does_not_say(samplers: Any) -> None:
    """Its default chain then."""
    assert filters(props(samplers=samplers)) == ("top_k", "top_p", "min_p", "temperature")


def test_filters__llamacpp_of_an_older_release() -> None:
    """The chain stands beside the context's length there."""
    told = answer(200, {"default_generation_settings": {"samplers": ["top_p", "temperature"]}})

    assert filters(told) == ("top_p", "temperature")


def test_filters__vllm_recorded() -> None:
    """Its sampler's order; no request and no option changes it."""
    info = run(discover("", "auto"), Paths("vllm-0.32.0"))

    assert info.filters == ("temperature", "min_p", "top_k", "top_p")


@pytest.mark.parametrize(
    ("owner", "order"), [("sglang", ("temperature", "top_k+top_p", "min_p")), ("someone", ())]
)
def test_filters__by_the_owner(owner: str, order: tuple[str, ...]) -> None:
    """SGLang reads top_p from all tokens; of an unknown server nothing is known."""
    listing = answer(200, {"data": [{"id": "m", "owned_by": owner}]})
    info = run(
        discover("", "auto"), lambda r: listing if r.path == "/v1/models" else answer(404, {})
    )

    assert info.filters == order
