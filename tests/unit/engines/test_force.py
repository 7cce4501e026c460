"""Teacher forcing: one row per wanted token, or a failure that names the position."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire.replay import NOT_RECORDED, Script, answer, chat, engine, force, run, tokenize

from iqaction import engines
from iqaction.calls import Failure, FailureKind, Force, Scored, TokenIds
from iqaction.engines._base import WireReply, WireRequest
from iqaction.engines.llamacpp import spread
from iqaction.rows import Match, Position, Token

FORCING = ["vllm", "sglang", "llamacpp"]
PROMPT = (1, 2, 3)


def ask(dialect: str, call: Force, *replies: WireReply, **info: Any) -> tuple[Any, Script]:
    script = Script(*replies)
    return run(engines.load(dialect).speak(call, engine(dialect, **info)), script), script


@pytest.mark.parametrize("dialect", FORCING)
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (force((), (1,)), "empty prompt"),
        (force((1,), ()), "empty continuation"),
        (force((1,), (-1,)), "negative"),
        (force((1,) * 90, (2,) * 10), "100 tokens do not fit into this engine's context of 100"),
    ],
)
def test_force__what_cannot_be_scored_is_not_asked(dialect: str, call: Force, said: str) -> None:
    """Nothing is sent, and both figures are named."""
    result, script = ask(dialect, call, max_model_len=100)

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNSUPPORTED
    assert said in result.message
    assert script.asked == []


def test_force__a_plain_server_cannot() -> None:
    """It says so, and who could."""
    result, script = ask("openai", force())

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNSUPPORTED
    assert "vLLM, SGLang and llama.cpp" in result.message
    assert script.asked == []


def vllm_rows(*rows: Any) -> WireReply:
    return answer(200, {"choices": [{"prompt_logprobs": list(rows)}]})


def listed(**by_id: float) -> dict[str, Any]:
    return {
        k.strip("_"): {"logprob": v, "rank": 1, "decoded_token": f"t{k.strip('_')}"}
        for k, v in by_id.items()
    }


@pytest.mark.parametrize(
    ("rows", "kind", "said"),
    [
        ([None, None, None, listed(_7=-1.0)], None, ""),
        ([None, None, None], FailureKind.MALFORMED, "3 rows for 4 tokens"),
        ([None] * 5, FailureKind.MALFORMED, "5 rows for 4 tokens"),
        ([None, None, None, None], FailureKind.MALFORMED, "position 0"),
        ([None, None, None, listed(_8=-1.0)], FailureKind.MALFORMED, "position 0"),
        ([None, None, None, {"x": 5, "-7": {}}], FailureKind.MALFORMED, "position 0"),
        (
            [None, None, None, {**listed(_7=-1.0), "x": {"logprob": -0.5}}],
            FailureKind.MALFORMED,
            "a listed token without an id",
        ),
    ],
)
def test_vllm__rows(rows: list[Any], kind: FailureKind | None, said: str) -> None:
    """Exactly one row per token of prompt and continuation, each holding its token."""
    result, _ = ask("vllm", force(PROMPT, (7,)), vllm_rows(*rows))

    if kind is None:
        assert isinstance(result, Scored)
    else:
        assert isinstance(result, Failure)
        assert result.kind is kind
        assert said in result.message


def test_vllm__the_list_keeps_its_length() -> None:
    """The forced token's own entry makes a row one longer: k tokens stay, the forced apart."""
    row = listed(_7=-9.0, _8=-0.1, _9=-3.0)
    result, _ = ask("vllm", force(PROMPT, (7,), k=2), vllm_rows(None, None, None, row))

    assert isinstance(result, Scored)
    assert result.rows.top.tolist() == [[8, 9]]
    assert result.rows.logprob.tolist() == [-9.0]
    assert result.rows.piece(7) == "t7"


@pytest.mark.parametrize("value", [None, 21.5, -9999.0, "x"])
def test_vllm__a_value_that_is_none_is_counted(value: Any) -> None:
    """It is no reason to throw the other rows away."""
    bad = {"7": {"logprob": value}, "8": {"logprob": -0.5}}
    rows = [None, None, None, listed(_6=-0.2), bad]
    result, _ = ask("vllm", force(PROMPT, (6, 7)), vllm_rows(*rows))

    assert isinstance(result, Scored)
    assert result.rows.usable.tolist() == [True, False]


def test_vllm__salt_is_refused_by_older_releases() -> None:
    """The field is left out, and said so."""
    refusal = answer(400, {"error": "extra_forbidden: cache_salt"})
    good = vllm_rows(None, None, None, listed(_7=-1.0))
    result, script = ask("vllm", force(PROMPT, (7,)), refusal, good)

    assert isinstance(result, Scored)
    assert "cache_salt" in result.flags[0]
    assert "cache_salt" not in script.bodies[1]


def test_vllm__salts_differ_by_call_and_by_nothing_else() -> None:
    """Two askings of one call are one question."""
    salts = [
        ask("vllm", force(PROMPT, (i,)), NOT_RECORDED)[1].bodies[0]["cache_salt"] for i in (7, 8, 7)
    ]

    assert salts[0] == salts[2] != salts[1]


def sglang_reply(rows: list[Any], tops: list[Any] | None = None, **meta: Any) -> WireReply:
    tops = [[[-0.1, 9, "x"]]] * len(rows) if tops is None else tops
    return answer(
        200,
        {"meta_info": {"input_token_logprobs": rows, "input_top_logprobs": tops, **meta}},
    )


@pytest.mark.parametrize(
    "lead", [[], [[None, 3, None]], [[None, 1, None], [-1, 2, "b"], [-1, 3, "c"]]]
)
def test_sglang__the_last_rows_are_the_continuation(lead: list[Any]) -> None:
    """Wherever the server began to count."""
    rows = [*lead, [-0.5, 7, "g"], [-0.25, 8, None]]
    result, script = ask("sglang", force(PROMPT, (7, 8), k=2), sglang_reply(rows))

    assert isinstance(result, Scored)
    assert result.rows.logprob.tolist() == [-0.5, -0.25]
    assert result.rows.match is Match.ID
    assert (script.asked[0].path, script.asked[0].retry) == ("/generate", False)
    assert script.bodies[0]["logprob_start_len"] == 2


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (sglang_reply([[-0.5, 7, "g"]]), FailureKind.MALFORMED),
        (sglang_reply([[-0.5, 7, "g"], [-0.5, 9, "g"]]), FailureKind.MALFORMED),
        (sglang_reply([[-0.5, 7, "g"], [-0.5, 8, "g"]], tops=[]), FailureKind.MALFORMED),
        (sglang_reply([], finish_reason={"type": "abort", "message": "m"}), FailureKind.ABORTED),
        (answer(200, {}), FailureKind.MALFORMED),
        (
            answer(400, {"message": "longer than the model's context length"}),
            FailureKind.UNSUPPORTED,
        ),
    ],
)
def test_sglang__failures(reply: WireReply, kind: FailureKind) -> None:
    """Too few rows, other tokens, no lists, an aborted item."""
    result, _ = ask("sglang", force(PROMPT, (7, 8)), reply)

    assert isinstance(result, Failure)
    assert result.kind is kind


def test_sglang__older_releases_tokenize_no_chat() -> None:
    """That is an ability they lack, not an error of the run."""
    result = run(
        engines.load("sglang").speak(tokenize(), engine("sglang")),
        Script(answer(400, {"message": "Field required: prompt"})),
    )

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNSUPPORTED


class FakeLlama:
    """Forces as llama.cpp does: grammar, bias, no rows for fragments, 500 for end tokens."""

    def __init__(self, fragments: set[int], ends: set[int], eos: int, grammar: bool = True) -> None:
        self.fragments, self.ends, self.eos, self.grammar = fragments, ends, eos, grammar
        self.asked: list[str] = []

    def piece(self, token: int) -> str | list[int]:
        if token in self.fragments:
            return [200 + token % 50]
        return "é" if token % 3 == 0 else f"t{token}"

    @staticmethod
    def value(context: int, token: int) -> float:
        return -((token * 7 + context * 13) % 97) / 16 - 3.5  # no list sums to more than 1

    def row(self, context: int, token: int, k: int) -> dict[str, Any]:
        ranked = sorted(range(120), key=lambda t: -self.value(context, t))[:k]
        entries = [{"id": t, "token": "x", "logprob": self.value(context, t)} for t in ranked]
        return {
            "id": token,
            "token": "x",
            "logprob": self.value(context, token),
            "top_logprobs": entries,
        }

    def __call__(self, request: WireRequest) -> WireReply:
        body: Any = request.body
        self.asked.append(request.path)
        if request.path == "/detokenize":
            pieces = [self.piece(t) for t in body["tokens"]]
            text = "".join(p if isinstance(p, str) else "\ufffd" for p in pieces)
            return answer(200, {"content": text})
        if request.path == "/tokenize":
            if body["content"] == "a":
                return answer(200, {"tokens": [101]})
            whole = [] if 6 in self.fragments else [{"id": 6, "piece": "é"}]
            return answer(200, {"tokens": whole})
        return self.completion(body)

    def completion(self, body: Any) -> WireReply:
        context, k, n = len(body["prompt"]), body["n_probs"], body["n_predict"]
        if "grammar" in body:
            if not self.grammar:
                return answer(400, {"error": {"message": "failed to parse grammar"}})
            wanted = [int(t) for t in re.findall(r"<\[(\d+)\]>", body["grammar"])]
            if set(wanted) & (self.fragments | self.ends):
                return answer(500, {"error": {"message": "got exception: empty grammar stack"}})
            tokens = [*wanted, self.eos][:n]
        else:
            ((token, _),) = body["logit_bias"]
            tokens = [token]
        rows = [
            self.row(context + i, t, k) for i, t in enumerate(tokens) if t not in self.fragments
        ]
        told = {"tokens": tokens, "tokens_evaluated": context}
        return answer(200, {**told, "completion_probabilities": rows})


TOKENS = st.lists(st.integers(5, 40), min_size=1, max_size=12)


@given(TOKENS, st.sets(st.integers(5, 40)), st.sets(st.integers(5, 40)), st.booleans())
def test_llamacpp__any_mixture_of_tokens(
    ids: list[int], fragments: set[int], ends: set[int], grammar: bool
) -> None:
    """Plain tokens, fragments and end tokens in any order: each row has its own true value."""
    fake = FakeLlama(fragments, ends - fragments, eos=2, grammar=grammar)
    call = force(PROMPT, tuple(ids), k=4)
    result = run(engines.load("llamacpp").speak(call, engine("llamacpp", eos_id=2)), fake)

    assert isinstance(result, Scored), result
    assert result.rows.chosen.tolist() == ids
    expected = [fake.value(len(PROMPT) + i, t) for i, t in enumerate(ids)]
    assert result.rows.logprob.tolist() == pytest.approx(expected, rel=1e-6)
    assert result.rows.k == 4
    assert len(fake.asked) <= 6 * len(ids) + 2


def test_llamacpp__an_ended_text_takes_two_requests() -> None:
    """The end token comes by itself where the grammar ends."""
    fake = FakeLlama(set(), {2}, eos=2)
    result = run(
        engines.load("llamacpp").speak(force(PROMPT, (7, 8, 2)), engine("llamacpp", eos_id=2)), fake
    )

    assert isinstance(result, Scored)
    assert (result.method, fake.asked) == ("grammar", ["/detokenize", "/completion"])


def test_llamacpp__another_end_token_is_not_taken_for_the_wanted_one() -> None:
    """A model with two of them may prefer the other: then the wanted one is forced alone."""
    fake = FakeLlama(set(), {2, 0}, eos=0)
    result = run(
        engines.load("llamacpp").speak(force(PROMPT, (7, 2)), engine("llamacpp", eos_id=2)), fake
    )

    assert isinstance(result, Scored)
    assert (result.method, result.rows.chosen.tolist()) == ("stepwise", [7, 2])


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer(503, {"error": "Loading model"}), FailureKind.BUSY),
        (answer(500, {"error": {"message": "CUDA error"}}), FailureKind.STATUS),
        (
            answer(400, {"error": {"message": "exceeds the available context size"}}),
            FailureKind.UNSUPPORTED,
        ),
        (answer(200, {"content": "x"}), FailureKind.MALFORMED),
        (answer(200, text="<html>"), FailureKind.MALFORMED),
        (
            answer(200, {"tokens": [9], "completion_probabilities": [{"id": 9}]}),
            FailureKind.MALFORMED,
        ),
        (
            answer(
                200,
                {
                    "tokens": [7],
                    "tokens_evaluated": len(PROMPT) + 1,  # of another request
                    "completion_probabilities": [{"id": 7, "logprob": -1.0, "top_logprobs": []}],
                },
            ),
            FailureKind.MALFORMED,
        ),
    ],
)
def test_llamacpp__failures_end_it(reply: WireReply, kind: FailureKind) -> None:
    """A dead server is not asked token by token."""
    script = Script(answer(200, {"content": "ascii"}), *[reply] * 3)
    result = run(engines.load("llamacpp").speak(force(PROMPT, (7,)), engine("llamacpp")), script)

    assert isinstance(result, Failure)
    assert result.kind is kind
    assert len(script.asked) <= 4


@pytest.mark.parametrize(
    "before", [(), (answer(200, {"content": "é"}),)], ids=["detokenize", "tokenize"]
)
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer(500, {"error": {"message": "?"}}), FailureKind.STATUS),
        (WireReply(0, failure=FailureKind.RESET), FailureKind.RESET),
    ],
)
def test_llamacpp__what_is_lost_on_the_way_to_it(
    before: tuple[WireReply, ...], reply: WireReply, kind: FailureKind
) -> None:
    """Without knowing the tokens they would be forced another way: lost, and not guessed."""
    result, _ = ask("llamacpp", force(PROMPT, (7,)), *before, reply)

    assert isinstance(result, Failure)
    assert result.kind is kind


def at(token: int, text: str = "x") -> Position:
    return Position(Token(text, -0.1, token))


@pytest.mark.parametrize(
    ("rows", "tokens", "places"),
    [
        ([at(1), at(2)], (1, 2), [0, 1]),
        ([at(1), at(9, "é")], (1, 8, 9), [0, 2]),
        ([at(1), at(9, "\U0001f30d"), at(2)], (1, 6, 7, 8, 9, 2), [0, 4, 5]),
        ([at(1)], (1, 8, 9), [0]),  # the text was cut within a character
        ([at(1), at(2)], (1, 8, 2), None),  # a whole ASCII character hides nothing
        ([at(9, "\U0001f30d")], (5, 6, 7, 8, 9), None),  # a gap too long for one character
        ([at(9, "é")], (9, 9), None),  # two places fit
        ([at(1)], (2,), None),
        ([at(1)], (1, 5, 6, 7, 8), None),
    ],
)
def test_spread(rows: list[Position], tokens: tuple[int, ...], places: list[int] | None) -> None:
    """Rows go where only they can go; where that is unclear they stay as they came."""
    positions = spread(rows, tokens)

    if places is None:
        assert positions is None
    else:
        assert positions is not None
        assert [p.chosen.id for p in positions] == list(tokens)
        assert [i for i, p in enumerate(positions) if p.chosen.logprob is not None] == places


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200))
def test_spread__long_texts_end(tokens: list[int]) -> None:
    """The number of placements is not counted beyond two."""
    rows = [at(t, "é") for t in tokens[::2]]
    positions = spread(rows, tokens)

    if positions is not None:
        assert [p.chosen.id for p in positions] == tokens
        assert [p for p in positions if p.chosen.logprob is not None] == rows


QUESTION = chat().messages[-1].content


def said(text: str, prompt: str) -> WireReply:
    """A chat's answer that tells which prompt it answers."""
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return answer(200, {"choices": [choice], "__verbose": {"prompt": prompt}})


class Mixed:
    """A server whose answers to chats say these prompts, in turn; its template makes ``own``."""

    def __init__(self, prompts: tuple[str, ...], own: WireReply) -> None:
        self.left, self.own = list(prompts), own
        self.asked: list[str] = []

    def __call__(self, request: WireRequest) -> WireReply:
        self.asked.append(request.path)
        if request.path == "/apply-template":
            return self.own
        return said(str(self.asked.count("/v1/chat/completions") - 1), self.left.pop(0))


RIGHT = f"<|user|>{QUESTION}<|end|>"
FOREIGN = "<|user|>Another one?<|end|>"
MADE = answer(200, {"prompt": RIGHT})
REWRITES = answer(200, {"prompt": "<|user|>Rewritten.<|end|>"})
NO_SUCH_PATH = answer(404, {"error": "not found"})
FORBIDDEN = answer(403, {"error": "only /v1 is open"})
BROKEN = answer(500, {"error": "?"})


@pytest.mark.parametrize(
    ("prompts", "own", "text"),
    [
        ((RIGHT,), MADE, "0"),
        ((RIGHT.replace(" ", "\n "),), MADE, "0"),
        ((FOREIGN, RIGHT), MADE, "1"),
        ((FOREIGN, FOREIGN, "<|user|>A third?", RIGHT), MADE, "3"),
        ((FOREIGN,) * 4, MADE, None),
        (("<|user|>Rewritten.<|end|>",), REWRITES, "0"),
        ((FOREIGN, "<|user|>Rewritten.<|end|>"), REWRITES, "1"),
        (("<|begin|><|user|>Rewritten.<|end|>",), REWRITES, "0"),  # llama.cpp tells a BOS, too
        ((FOREIGN,), NO_SUCH_PATH, "0"),  # nothing to compare with
        ((FOREIGN,), FORBIDDEN, "0"),
        ((FOREIGN, RIGHT), BROKEN, "1"),
        ((FOREIGN,) * 4, BROKEN, None),
    ],
)
def test_llamacpp__an_answer_to_another_prompt(
    prompts: tuple[str, ...], own: WireReply, text: str | None
) -> None:
    """Asked anew, unless the server's own template makes that prompt of the question; no answer
    is made of answers to other prompts."""
    server = Mixed(prompts, own)
    result = run(engines.load("llamacpp").speak(chat(top_logprobs=0), engine("llamacpp")), server)

    assert not isinstance(result, Scored | TokenIds)
    assert server.left == []
    if text is None:
        assert isinstance(result, Failure)
        assert result.kind is FailureKind.MALFORMED
        assert "other prompts" in result.message
    else:
        assert not isinstance(result, Failure)
        assert result.text == text


@pytest.mark.parametrize(("prompt_tokens", "ids"), [(5, None), (3, (1, 2, 3)), (None, None)])
def test_llamacpp__prompt_ids_have_the_engines_own_count(
    prompt_tokens: int | None, ids: tuple[int, ...] | None
) -> None:
    """A second BOS, or another template, would show in the length."""
    reply = {
        "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": 1},
        "__verbose": {"prompt": f"<|im_start|>user {QUESTION}"},
    }
    script = Script(answer(200, reply), *[answer(200, {"tokens": [1, 2, 3]})] * 3)
    result = run(engines.load("llamacpp").speak(chat(top_logprobs=0), engine("llamacpp")), script)

    assert not isinstance(result, Failure | Scored | TokenIds)
    assert result.prompt_ids == ids
    assert bool(result.flags) is (prompt_tokens == 5)


def test_llamacpp__prompt_ids_of_a_prompt_that_begins_with_its_bos() -> None:
    """Where the engine tells the token that it adds with the prompt, it is not added again."""
    reply = {
        "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        "__verbose": {"prompt": f"<s>user {QUESTION}"},
    }
    twice, once = answer(200, {"tokens": [1, 1, 2, 3]}), answer(200, {"tokens": [1, 2, 3]})
    script = Script(answer(200, reply), twice, once)
    result = run(engines.load("llamacpp").speak(chat(top_logprobs=0), engine("llamacpp")), script)

    assert not isinstance(result, Failure | Scored | TokenIds)
    assert (result.prompt_ids, result.flags) == ((1, 2, 3), ())
