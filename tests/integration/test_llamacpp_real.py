"""The llama.cpp dialect against a real server: what it asks is answered, and the values agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pytest

from iqaction import connecting, engines, http
from iqaction.calls import (
    Arm,
    Call,
    Chat,
    EngineInfo,
    Failure,
    FailureKind,
    Force,
    Generation,
    Message,
    Scored,
    Tag,
    TokenIds,
    Tokenize,
)
from iqaction.engines import _llamacpp_force as forcing
from iqaction.engines._detect import discover
from iqaction.errors import EngineError
from iqaction.http import Wire, converse
from iqaction.rows import Match

pytestmark = pytest.mark.engine

TAG = Tag(Arm.CANDIDATE, "trajectory", "p1")
ENDS = (Message("user", "Say hi."),)
FRAGMENTS = (Message("user", "Repeat exactly: \U0001f600 naïve 東京"),)


class Ask(Protocol):
    def __call__(self, call: Call) -> Any: ...


@pytest.fixture
def wire(llama: Callable[..., Any]) -> Iterator[Wire]:
    one = Wire(llama().url + "/v1")
    yield one
    one.close()


@pytest.fixture
def engine(wire: Wire) -> EngineInfo:
    info, _ = converse(wire, discover("", "auto"))
    return info


@pytest.fixture
def ask(wire: Wire, engine: EngineInfo) -> Ask:
    return lambda call: http.call(wire, engines.load("llamacpp"), engine, call).answer


def chat(messages: tuple[Message, ...], max_tokens: int, k: int = 5) -> Chat:
    return Chat(TAG, messages, max_tokens, top_logprobs=k)


def forced(answer: Generation, k: int = 5) -> Force:
    assert answer.rows is not None
    assert answer.prompt_ids is not None
    return Force(TAG, answer.prompt_ids, tuple(int(i) for i in answer.rows.chosen), k)


def test_detect(engine: EngineInfo) -> None:
    """Slots, context and end token are known, so that nothing has to be guessed."""
    assert (engine.dialect, engine.slots, engine.max_model_len) == ("llamacpp", 1, 4096)
    assert engine.eos_id == 2
    assert len(engine.details["chat_template_sha256"]) == 64


def test_detect__a_wrong_model_name(wire: Wire) -> None:
    """The server itself would answer it with another model."""
    with pytest.raises(EngineError):
        converse(wire, discover("no-such-model", "auto"))


def test_force__equals_decoding(ask: Ask) -> None:
    """A text that ended, forced with its end token, gives the values it was decoded with."""
    told = ask(chat(ENDS, 40))
    assert isinstance(told, Generation)
    assert told.rows is not None
    assert (told.finish_reason, told.rows_complete, told.flags) == ("stop", True, ())
    assert told.rows.chosen[-1] == 2
    scored = ask(forced(told))

    assert isinstance(scored, Scored)
    assert scored.method == "grammar"
    assert scored.rows.chosen.tolist() == told.rows.chosen.tolist()
    assert np.abs(scored.rows.logprob - told.rows.logprob).max() < 1e-4
    assert (scored.rows.top == told.rows.top).all()


def test_force__grammar_and_stepwise_agree(ask: Ask, wire: Wire, engine: EngineInfo) -> None:
    """Each token read alone in the list has the value that the grammar gave it."""
    told = ask(chat(ENDS, 8))
    by_grammar = ask(forced(told))
    call = forced(told)
    one_by_one = forcing._Kinds(frozenset(call.continuation_ids), None)
    alone, _ = converse(wire, forcing._Forcing(call, engine.eos_id, one_by_one).run())

    assert isinstance(by_grammar, Scored)
    assert isinstance(alone, Scored)
    assert (by_grammar.method, alone.method) == ("grammar", "stepwise")
    # A token after a prefill and after a decode step differ by the kernels' rounding.
    assert np.abs(by_grammar.rows.logprob - alone.rows.logprob).max() < 0.05
    assert (by_grammar.rows.top[:, 0] == alone.rows.top[:, 0]).all()


def test_force__byte_fragments(ask: Ask) -> None:
    """Tokens that are parts of a character are generated without a row, and forced with one."""
    told = ask(chat(FRAGMENTS, 12))
    assert isinstance(told, Generation)
    assert told.rows is not None
    assert told.rows_complete
    assert (len(told.rows), told.rows.match) == (12, Match.ID)
    assert 0 < told.rows.usable.sum() < 12
    scored = ask(forced(told))

    assert isinstance(scored, Scored)
    assert scored.rows.usable.all()
    both = told.rows.usable
    assert np.abs(scored.rows.logprob[both] - told.rows.logprob[both]).max() < 0.05


def test_tokenize(ask: Ask) -> None:
    """A chat has the ids that its completion was made from; a text gets none added."""
    told = ask(chat(ENDS, 1))
    ids = ask(Tokenize(TAG, None, ENDS))

    assert isinstance(ids, TokenIds)
    assert ids.ids == told.prompt_ids
    assert len(ids.ids) == told.prompt_tokens
    assert ask(Tokenize(TAG, "Hello world")) == TokenIds((19556, 905))
    assert ask(Tokenize(TAG, "")) == TokenIds(())


def test_fingerprints__quantizations(llama: Callable[..., Any]) -> None:
    """Weights of 16 and of 4 bits of one model have one tokenizer and one chat template."""
    found = []
    for quant in ("F16", "Q4_0"):
        with connecting.connected(llama(quant).url, "", "auto", "", 1) as connection:
            found.append(connection.engine)
    one, other = found

    assert one.details["ftype"] != other.details["ftype"]
    assert (one.tokenizer_sha256, one.template_sha256) == (
        other.tokenizer_sha256,
        other.template_sha256,
    )
    assert "" not in (one.tokenizer_sha256, one.template_sha256)
    assert not any("fingerprint" in x for x in (*one.limitations, *other.limitations))


def test_chat__too_long_a_prompt(ask: Ask) -> None:
    """The server's own words, and no second try."""
    answer = ask(chat((Message("user", "word " * 5000),), 1))

    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.UNSUPPORTED
    assert "4096" in answer.message


def test_chat__greedy_text_is_the_same_twice(ask: Ask) -> None:
    """No cache and no sampling default shows in a second asking."""
    first, second = ask(chat(ENDS, 16)), ask(chat(ENDS, 16))

    assert first.text == second.text
    assert first.rows.logprob.tolist() == second.rows.logprob.tolist()
