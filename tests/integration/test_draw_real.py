"""Draws on a real llama.cpp server: as many sequences as asked, from the lists that come along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iqaction import engines, http
from iqaction.calls import Arm, Chat, Draw, Drawn, EngineInfo, Generation, Message, Tag
from iqaction.engines import _chat
from iqaction.engines._detect import discover
from iqaction.http import Wire, converse
from iqaction.rows import Match

pytestmark = pytest.mark.engine

TAG = Tag(Arm.CANDIDATE, "draws", "p1")
ASKED = (Message("user", "What is the capital of France?"),)
CALL = Draw(TAG, ASKED, 4, 8, 0.8, top_k=20, top_p=0.95, min_p=0.05, top_logprobs=20)


@pytest.fixture
def wire(llama: Callable[..., Any]) -> Iterator[Wire]:
    one = Wire(llama().url)
    yield one
    one.close()


@pytest.fixture
def engine(wire: Wire) -> EngineInfo:
    info, _ = converse(wire, discover("", "auto"))
    return info


def ask(wire: Wire, engine: EngineInfo, call: Chat | Draw) -> Any:
    return http.call(wire, engines.load("llamacpp"), engine, call)


def test_detect__the_order_of_the_filters(engine: EngineInfo) -> None:
    """The server tells its chain of samplers, and the temperature comes last."""
    assert engine.filters == ("top_k", "top_p", "min_p", "temperature")


def test_draw(wire: Wire, engine: EngineInfo) -> None:
    """Each sequence is drawn anew, and its first list is the one that greedy decoding gives."""
    seen = ask(wire, engine, CALL)
    drawn = seen.answer
    greedy = ask(wire, engine, Chat(TAG, ASKED, 1, top_logprobs=20)).answer
    assert isinstance(drawn, Drawn)
    assert isinstance(greedy, Generation)
    assert greedy.rows is not None
    rows, starts = drawn.rows, np.cumsum((0, *drawn.lengths[:-1]))
    paths = {tuple(p) for p in np.split(rows.chosen, starts[1:])}

    assert (len(drawn.lengths), len(drawn.finish_reasons)) == (4, 4)
    assert sum(drawn.lengths) == len(rows) == drawn.completion_tokens
    assert (rows.match, drawn.top_logprobs, drawn.flags) == (Match.ID, 20, ())
    assert len(paths) > 1
    assert seen.attempts == 1  # several exchanges, none of them sent again
    for at in starts:
        assert rows.top[at].tolist() == greedy.rows.top[0].tolist()
        assert np.abs(rows.top_logprob[at] - greedy.rows.top_logprob[0]).max() < 1e-3


def test_draw__the_settings_reach_the_sampler(wire: Wire, engine: EngineInfo) -> None:
    """With top_k 1 every draw is the most likely token, at any temperature; without, it is not."""
    hot = replace(CALL, temperature=5.0, top_p=1.0, min_p=0.0)
    alone, free = (ask(wire, engine, replace(hot, top_k=k)).answer for k in (1, 0))

    assert (alone.rows.chosen == alone.rows.top[:, 0]).all()
    assert (free.rows.chosen == free.rows.top[:, 0]).mean() < 0.5
    assert free.rows.top[0].tolist() == alone.rows.top[0].tolist()  # raw: no setting shows


def test_draw__byte_fragments_are_counted(wire: Wire, engine: EngineInfo) -> None:
    """A token that is part of a character has a row without a value; none is lost unseen."""
    messages = (Message("user", "Repeat exactly: \U0001f600 naïve 東京"),)
    drawn = ask(wire, engine, replace(CALL, messages=messages, max_tokens=12)).answer
    lost = drawn.completion_tokens - len(drawn.rows)

    assert sum(drawn.lengths) == len(drawn.rows)
    assert (lost > 0) == (_chat.ROWS_LOST in drawn.flags)  # where a row belongs was not clear
