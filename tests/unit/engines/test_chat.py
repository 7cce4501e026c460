"""What is asked of each engine, and how an answer is read when it is odd or hostile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire.replay import Script, answer, chat, engine, force, run, tokenize

from iqaction import engines
from iqaction.calls import Failure, FailureKind, Generation, Scored, TokenIds
from iqaction.engines import _chat, _logprobs
from iqaction.engines._base import WireReply
from iqaction.engines._logprobs import Asked
from iqaction.rows import Match, Position, Token

NEUTRAL = {
    "openai": {"top_p": 1.0},
    "vllm": {"top_k": -1, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0},
    "sglang": {"top_k": -1, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0},
    "llamacpp": {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0},
}


def entry(text: str, logprob: float | None = -0.1, **changes: Any) -> dict[str, Any]:
    token = {"token": text, "logprob": logprob, "bytes": list(text.encode())}
    return {**token, "top_logprobs": [token], **changes}


def body(
    *entries: Any, text: str = "", tokens: int | None = None, finish: Any = "stop", **message: Any
) -> dict[str, Any]:
    return {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "logprobs": {"content": list(entries)} if entries else None,
                "finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": len(entries) if tokens is None else tokens,
        },
    }


def said(reply: Any, dialect: str = "openai", **changes: Any) -> Any:
    info = engine(dialect, eos_id=changes.pop("eos_id", None))
    script = Script(answer(200, reply))
    return run(engines.load(dialect).speak(chat(**changes), info), script)


def generation(reply: Any, dialect: str = "openai", **changes: Any) -> Generation:
    result = said(reply, dialect, **changes)
    assert isinstance(result, Generation)
    return result


@pytest.mark.parametrize("dialect", NEUTRAL)
def test_request__is_neutral_and_whole(dialect: str) -> None:
    """Sampling defaults of an engine or of a model never decide: each field is sent."""
    script = Script(answer(200, body(text="x")))
    call = chat(seed=7, max_tokens=9, template_kwargs='{"enable_thinking":false}')
    run(engines.load(dialect).speak(call, engine(dialect)), script)
    sent = script.bodies[0]

    assert NEUTRAL[dialect].items() <= sent.items()
    assert {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 9,
        "temperature": 0.0,
        "seed": 7,
        "stream": False,
        "logprobs": True,
        "top_logprobs": 20,
        "chat_template_kwargs": {"enable_thinking": False},
    }.items() <= sent.items()
    assert "n" not in sent
    assert script.asked[0].path == "/v1/chat/completions"


@pytest.mark.parametrize("dialect", NEUTRAL)
def test_request__without_log_probabilities(dialect: str) -> None:
    """What only serves log-probabilities is left out with them."""
    script = Script(answer(200, body(text="x")))
    result = run(engines.load(dialect).speak(chat(top_logprobs=0), engine(dialect)), script)

    assert not {"logprobs", "top_logprobs", "return_meta_info"} & set(script.bodies[0])
    assert "chat_template_kwargs" not in script.bodies[0]
    assert isinstance(result, Generation)
    assert (result.rows, result.flags) == (None, ())


def test_negotiation__is_bounded() -> None:
    """A server that refuses another field each time ends in its last refusal."""
    names = ("top_p", "top_k", "min_p", "seed", "repetition_penalty", "presence_penalty")
    many = (*names, "frequency_penalty", "return_token_ids", "return_tokens_as_token_ids")
    script = Script(*(answer(400, {"error": f"unknown field {n}"}) for n in many))
    result = run(engines.load("vllm").speak(chat(), engine("vllm")), script)

    assert isinstance(result, Failure)
    assert len(script.asked) == 8


def test_negotiation__the_same_refusal_again_ends_it() -> None:
    """What was left out cannot be refused once more."""
    script = Script(*[answer(400, {"error": "unknown field top_k"})] * 5)
    result = run(engines.load("vllm").speak(chat(), engine("vllm")), script)

    assert isinstance(result, Failure)
    assert len(script.asked) == 2


def test_negotiation__cap_and_field_together() -> None:
    """Each objection is met in turn."""
    script = Script(
        answer(400, {"error": "unknown field seed"}),
        answer(400, {"error": "logprobs: greater than max allowed: 5"}),
        answer(200, body(entry("a"), text="a")),
    )
    result = run(engines.load("openai").speak(chat(), engine("openai")), script)

    assert isinstance(result, Generation)
    assert result.top_logprobs == 5
    assert result.flags == (_chat.LEFT_OUT.format("seed"),)
    assert script.bodies[2]["top_logprobs"] == 5
    assert "seed" not in script.bodies[2]


def test_negotiation__the_newer_name_of_the_limit() -> None:
    """OpenAI's reasoning models refuse max_tokens and name what they want."""
    text = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    script = Script(answer(400, {"error": {"message": text}}), answer(200, body(text="x")))
    result = run(engines.load("openai").speak(chat(max_tokens=9), engine("openai")), script)

    assert isinstance(result, Generation)
    assert script.bodies[1]["max_completion_tokens"] == 9
    assert "max_tokens" not in script.bodies[1]


def test_negotiation__template_kwargs_are_never_dropped() -> None:
    """Without them another question would be asked."""
    script = Script(answer(400, {"error": "unknown field chat_template_kwargs"}))
    call = chat(template_kwargs='{"enable_thinking":false}')
    result = run(engines.load("vllm").speak(call, engine("vllm")), script)

    assert isinstance(result, Failure)
    assert len(script.asked) == 1


@pytest.mark.parametrize("finish", ["abort", "error", None, "", "content_filter", 5, ["stop"]])
def test_finish__a_failed_item_is_no_answer(finish: Any) -> None:
    """HTTP 200 and a text do not make an aborted item an answer."""
    result = said(body(text="partial", finish=finish))

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.ABORTED


@pytest.mark.parametrize(
    ("told", "finish"),
    [("stop", "stop"), ("eos_token", "stop"), ("length", "length"), ("repetition", "repetition"),
     ("tool_calls", "tool_calls"), ("function_call", "tool_calls"), ("STOP", "stop"),
     ("MAX_TOKENS", "length"), ("model_length", "length"), ("COMPLETE", "stop")],
)  # fmt: skip
def test_finish__words(told: str, finish: str) -> None:
    """Engines' words for the same end are one word here."""
    assert generation(body(text="x", finish=told)).finish_reason == finish


def test_error_in_an_answer_with_status_200() -> None:
    """Some gateways report failures that way."""
    result = said({"error": {"message": "CUDA out of memory"}})

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.ABORTED
    assert "CUDA out of memory" in result.message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "4"}, ("", "4")),
        ({"content": "4", "reasoning": "r"}, ("r", "4")),
        ({"content": "4", "reasoning_content": "r"}, ("r", "4")),
        ({"content": None, "reasoning": "r"}, ("r", "")),
        ({"content": "<think>\nr\n</think>\n\n4"}, ("r", "4")),
        ({"content": "r\n</think>\n\n4"}, ("r", "4")),
        ({"content": "<think>\nr 5"}, ("r 5", "")),
        ({"content": "a <think> b"}, ("", "a <think> b")),
        ({"content": "use </think>", "reasoning": "r"}, ("r", "use </think>")),
        ({"content": [{"type": "text", "text": "a"}, {"text": "b"}, 5]}, ("", "ab")),
        ({"content": ["a", {"text": "b"}]}, ("", "ab")),
        (
            {"content": [{"thinking": [{"text": "r"}], "type": "thinking"}, {"text": "4"}]},
            ("r", "4"),
        ),
        ({"content": [{"thinking": "r"}, {"text": "4"}]}, ("r", "4")),
        ({"content": "[THINK]r[/THINK]4"}, ("r", "4")),
        ({"content": "<thinking>r 5"}, ("r 5", "")),
        ({"content": "◁think▷r◁/think▷4"}, ("r", "4")),
        ({"content": "write </thinking> or [/THINK]"}, ("", "write </thinking> or [/THINK]")),
        (
            {
                "content": "<|channel|>analysis<|message|>r<|end|><|start|>assistant"
                "<|channel|>final<|message|>4"
            },
            ("r", "4"),
        ),
        ({"content": "<|channel|>analysis<|message|>r 5"}, ("r 5", "")),
        ({"content": "the tag <|channel|> ends it"}, ("", "the tag <|channel|> ends it")),
        ({}, ("", "")),
    ],
)
def test_reasoning(message: dict[str, Any], expected: tuple[str, str]) -> None:
    """Opened, unopened, unclosed or apart: reasoning is not the answer."""
    reply = body(text="")
    reply["choices"][0]["message"] = message
    result = generation(reply)

    assert (result.reasoning, result.text) == expected


@pytest.mark.parametrize("content", [5, True, {"text": "4"}, 0.5])
def test_content__what_is_no_text_is_no_empty_answer(content: Any) -> None:
    """An answer that cannot be read is a failure: "" would be graded as wrong."""
    reply = body(text="")
    reply["choices"][0]["message"]["content"] = content
    failed = said(reply)

    assert isinstance(failed, Failure)
    assert (failed.kind, failed.message) == (
        FailureKind.MALFORMED,
        "chat: a message whose content is no text",
    )


@pytest.mark.parametrize("where", ["body", "choice"])
def test_error__beside_a_text_that_broke_off(where: str) -> None:
    """A gateway passes on what came before the engine failed: that is no whole answer."""
    reply = body(text="18 and th")
    place = reply if where == "body" else reply["choices"][0]
    place["error"] = {"code": 502, "message": "the provider went away"}
    failed = said(reply)

    assert isinstance(failed, Failure)
    assert FailureKind.ABORTED is failed.kind
    assert "the provider went away" in failed.message


@pytest.mark.parametrize("dialect", NEUTRAL)
def test_lists__are_no_longer_than_asked_for(dialect: str) -> None:
    """A server that lists its whole vocabulary gives no more than what was asked for: evidence
    has no room for it, and the rest would be compared with nothing."""
    listed = [
        {"id": i, "token": f"t{i}", "bytes": [i % 250, i // 250], "logprob": -1.0 - i}
        for i in range(400)
    ]
    row = {**listed[0], "top_logprobs": listed[::-1]}
    rows = generation(body(row, text="t0"), dialect, top_logprobs=5).rows

    assert rows is not None
    assert rows.k == 5
    assert rows.top_logprob[0].tolist() == [-1.0, -2.0, -3.0, -4.0, -5.0]


@pytest.mark.parametrize("hole", [None, "x", 5, [], True])
def test_lists__a_hole_makes_the_row_unusable(hole: Any) -> None:
    """An entry that is none is a token that is not known: the others are no whole list."""
    good = entry("a", -0.2)
    row = {**good, "top_logprobs": [*good["top_logprobs"], hole]}
    rows = generation(body(row, text="a")).rows

    assert rows is not None
    assert rows.faults == {"no log-probability": 1}


@pytest.mark.parametrize(
    ("text", "tokens", "alike"),
    [
        ("The answer is 42.", ["The", " answer", " is", " 42", "."], True),
        ("The answer is 42.", ["▁The", "▁answer", "▁is", "▁42", "."], True),
        ("The answer is 42.", ["<think>so</think>", "The answer is 42.", "<|im_end|>"], True),
        ("The answer", ["The", " answer", " is", " STOP"], True),  # a stop string left out
        ("The answer is 42.", ["Paris", " is the", " capital", " of", " France"], False),
        ("Yes.", ["No", "."], True),  # too little to tell
        ("日本語のとても長い文章です。", ["x", "y"], True),  # likewise
        ("The answer is 42.", ["", "", ""], True),  # nothing told
    ],
)
def test_rows__of_another_text(text: str, tokens: list[str], alike: bool) -> None:
    """Rows that spell another text are another request's: they are kept, and never forced."""
    result = generation(body(*(entry(t) for t in tokens), text=text))

    assert (_chat.OTHER_TEXT not in result.flags) is alike
    assert result.rows_complete is alike


def test_rows__of_a_tool_call() -> None:
    """What a parser took out of the text is still in its tokens."""
    tokens = [entry(t) for t in ("<tool>", '{"name": "x"}', "</tool>")]
    result = generation(body(*tokens, text="I call the tool", finish="tool_calls"))

    assert result.rows_complete


@pytest.mark.parametrize("place", ["token_ids", "id", "meta_info"])
def test_ids__beyond_any_vocabulary(place: str) -> None:
    """A kernel that wrote the bits of a float as an id: such a text is never forced."""
    number = 0x3F4A0000
    reply = body(entry("a", -0.2, **({"id": number} if place == "id" else {})), text="a")
    choice = reply["choices"][0]
    if place == "token_ids":
        choice["token_ids"] = [number]
    if place == "meta_info":
        choice["meta_info"] = {"output_token_logprobs": [[-0.2, number, "a"]]}
    result = generation(reply, "sglang")

    assert _chat.NO_VOCABULARY in result.flags
    assert not result.rows_complete


@pytest.mark.parametrize(
    ("rows", "tokens", "finish", "complete", "eos"),
    [
        (3, 3, "stop", True, None),
        (3, 4, "stop", True, 2),
        (3, 4, "length", False, None),
        (3, 5, "stop", False, None),
        (3, 2, "stop", False, None),
        (3, 3, "length", True, None),
    ],
)
def test_rows_complete(
    rows: int, tokens: int, finish: str, complete: bool, eos: int | None
) -> None:
    """One row per generated token; the end token alone may go unlisted."""
    reply = body(*[entry("a")] * rows, text="a" * rows, tokens=tokens, finish=finish)
    result = generation(reply, eos_id=2)

    assert (result.rows_complete, result.eos_id) == (complete, eos)
    assert (_chat.ROWS_LOST in result.flags) is not complete


@pytest.mark.parametrize(("text", "complete"), [("ab", True), ("abc", False), ("b", False)])
def test_rows_complete__without_usage_the_text_decides(text: str, complete: bool) -> None:
    """Tokens that spell the whole text are all there are."""
    reply = {**body(entry("a"), entry("b"), text=text), "usage": None}

    assert generation(reply).rows_complete is complete


def test_flags__the_same_words_for_every_prompt() -> None:
    """A report counts flags, so they hold no figures of one prompt."""
    beaten = entry("a", -3.0, top_logprobs=[{"token": "b", "logprob": -0.1}])
    one, two = generation(body(beaten)), generation(body(entry("c"), beaten))

    assert set(one.flags) & set(two.flags) == {_chat.NOT_GREEDY}


@pytest.mark.parametrize(("gap", "flagged"), [(0.0, False), (0.0009, False), (0.01, True)])
def test_greedy__up_to_a_tie(gap: float, flagged: bool) -> None:
    """Two tokens of the same value may be chosen either way."""
    other = {"token": "b", "logprob": -1.0 + gap}
    result = generation(body(entry("a", -1.0, top_logprobs=[other])))

    assert (_chat.NOT_GREEDY in result.flags) is flagged


def test_all_zero__certainty_of_one_token_is_believed() -> None:
    """A yes-or-no answer can be certain; a whole text with lists of one is not."""
    assert generation(body(entry("yes", 0.0))).flags == ()
    assert _chat.ALL_ZERO in generation(body(*[entry("a", 0.0)] * 3)).flags
    assert _chat.ALL_ZERO not in generation(body(*[entry("a", 0.0)] * 3), top_logprobs=1).flags
    assert (
        _chat.ALL_ZERO
        not in generation(body(entry("a", 0.0), entry("a", -0.1), entry("a", 0.0))).flags
    )


def test_vllm__a_guest_leaves_the_list() -> None:
    """The sampled token takes the last slot: without it the list is the head of the true one."""
    listed = [
        {"token": f"token_id:{i}", "logprob": v} for i, v in ((28, -14.9), (504, -1.9), (60, -2.0))
    ]
    guest = entry("token_id:28", -14.9, bytes=[44], top_logprobs=listed)
    result = generation(body(guest, text=","), "vllm", temperature=1.0)

    assert result.rows is not None
    assert (result.rows.chosen.tolist(), result.rows.top.tolist()) == ([28], [[504, 60]])
    assert result.rows.piece(28) == ","
    assert result.rows.piece(504) == "<504>"


def test_vllm__a_sampled_token_within_the_list_stays() -> None:
    """Only the least likely one may be a guest."""
    listed = [
        {"token": f"token_id:{i}", "logprob": v} for i, v in ((60, -2.0), (504, -1.9), (28, -3.0))
    ]
    result = generation(
        body(entry("token_id:60", -2.0, bytes=[76], top_logprobs=listed), text="L"),
        "vllm",
        temperature=1.0,
    )

    assert result.rows is not None
    assert result.rows.top.tolist() == [[504, 60, 28]]


def test_vllm__strings_are_ids_only_where_asked_for() -> None:
    """Where the field was refused, a model that writes "token_id:5" wrote just that."""
    refusal = answer(400, {"error": "unknown field return_tokens_as_token_ids"})
    reply = answer(200, body(entry("token_id:5"), text="token_id:5"))
    result = run(engines.load("vllm").speak(chat(), engine("vllm")), Script(refusal, reply))

    assert isinstance(result, Generation)
    assert result.rows is not None
    assert result.rows.match is Match.BYTES
    assert result.rows.piece(result.rows.chosen[0]) == "token_id:5"


def test_sglang__ids_from_the_meta_information() -> None:
    """Triples of (value, id, text), with lists of the same."""
    reply = body(entry("a"), entry("b"), text="ab")
    reply["choices"][0] |= {
        "token_ids": [7, 8],
        "prompt_token_ids": [1, 2, 3, 4, 5],
        "meta_info": {
            "output_token_logprobs": [[-0.1, 7, "a"], [-0.2, 8, None]],
            "output_top_logprobs": [[[-0.1, 7, "a"], [-3.0, 9, None]], None],
        },
    }
    result = generation(reply, "sglang")

    assert result.rows is not None
    assert (result.rows.match, result.rows.chosen.tolist()) == (Match.ID, [7, 8])
    assert result.rows.top[0].tolist() == [7, 9]
    assert result.prompt_ids == (1, 2, 3, 4, 5)
    assert result.rows_complete
    reply["choices"][0]["token_ids"] = [7, 9]
    assert _chat.IDS_DISAGREE in generation(reply, "sglang").flags


def test_logprobs__byte_level_strings_with_a_special_token() -> None:
    """LMDeploy lists vocabulary strings; the text decides how they read."""
    tokens = [entry("Hello"), entry("\u0120there"), entry("\u010a"), entry("<|im_end|>")]
    listed = _logprobs.read({"content": tokens}, Asked(text="Hello there\n"))

    assert listed is not None
    assert [p.chosen.text for p in listed.positions] == ["Hello", " there", "\n", "<|im_end|>"]
    assert listed.positions[1].chosen.data == b" there"
    assert listed.positions[1].top[0].text == " there"


def test_logprobs__a_text_that_really_holds_such_letters() -> None:
    """A model may write the letter that stands for a blank elsewhere."""
    listed = _logprobs.read({"content": [entry("\u0120a")]}, Asked(text="\u0120a"))

    assert listed is not None
    assert listed.positions[0].chosen.text == "\u0120a"


@pytest.mark.parametrize(
    "value", [None, {}, [], {"content": None}, {"content": []}, 5, {"tokens": 5}]
)
def test_logprobs__none(value: Any) -> None:
    """Nothing listed is no rows, not zero positions."""
    assert _logprobs.read(value, Asked()) is None


def test_logprobs__unreadable_entries_keep_their_place() -> None:
    """A null among the rows is a row without a value: later rows do not move up."""
    listed = _logprobs.read({"content": [None, entry("b")]}, Asked())

    assert listed is not None
    assert listed.positions[0] == Position(Token("", None))
    assert listed.positions[1].chosen.text == "b"


JSON_KEYS = st.sampled_from(
    ["choices", "message", "content", "logprobs", "token", "logprob", "bytes", "top_logprobs",
     "finish_reason", "usage", "completion_tokens", "token_ids", "prompt_token_ids", "tokens",
     "token_logprobs", "meta_info", "output_token_logprobs", "__verbose", "id", "index", "error",
     "prompt_logprobs", "input_token_logprobs", "input_top_logprobs", "completion_probabilities",
     "5", "7"]
)  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    | st.sampled_from(["stop", "token_id:5", "\u0120a", "<think>", -0.5, 7])
)  # fmt: skip
JSON_VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(JSON_KEYS, inner, max_size=6),
    max_leaves=30,
)


def deep(value: Any) -> Any:
    """A chat answer with a hostile value at every place that is read."""
    return {
        "choices": [
            {
                "message": {"content": "x"},
                "finish_reason": "stop",
                "logprobs": value,
                "token_ids": value,
                "meta_info": value,
                "prompt_logprobs": value,
            }
        ],
        "usage": value,
        "meta_info": value,
        "__verbose": value,
        "completion_probabilities": value,
        "tokens": value,
        "prompt": value,
    }


@settings(max_examples=150)
@given(JSON_VALUES, st.sampled_from(list(NEUTRAL)), st.booleans(), st.sampled_from([200, 400, 500]))
def test_speak__whatever_comes(value: Any, dialect: str, wrapped: bool, status: int) -> None:
    """Any JSON is an answer or a failure, to every call, and the conversation ends."""
    reply = answer(status, deep(value) if wrapped else value)
    asked = 0

    def answers(_: object) -> WireReply:
        nonlocal asked
        asked += 1
        return reply

    for call in (chat(), tokenize(), tokenize("hi"), force((5,), (7, 5, 7))):
        result = run(engines.load(dialect).speak(call, engine(dialect, eos_id=5)), answers)
        assert isinstance(result, Generation | Scored | TokenIds | Failure)
        if isinstance(result, Scored):
            assert result.rows.chosen.tolist() == [7, 5, 7]
        if isinstance(result, Generation):
            json.dumps(result.text)
            result.text.encode()
    assert asked < 200
