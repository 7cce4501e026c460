"""An endpoint that went away and came back: answers count when it is the same engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pytest
from unit.test_session_compatibility import Answers, served
from world import ENGINE

from iqaction import connecting
from iqaction.calls import (
    Arm,
    EngineInfo,
    Failure,
    Generation,
    Observation,
    Tag,
    TokenIds,
    Tokenize,
)
from iqaction.connecting import _Same
from iqaction.errors import EngineError


def test_same__looked_at_once_an_absence() -> None:
    """Nothing is asked while it stays, and once by all threads when it came back."""
    asked: list[int] = []
    same = _Same(ENGINE, lambda: asked.append(1) or ENGINE)

    same.confirmed(0)
    assert asked == []
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(same.confirmed, [1] * 32))
    assert asked == [1]
    same.confirmed(2)
    assert asked == [1, 1]


def test_same__another_engine_came_back() -> None:
    """No thread's answer counts then; what differs is named."""
    same = _Same(ENGINE, lambda: replace(ENGINE, version="2.0"))

    for _ in range(2):
        with pytest.raises(EngineError, match=r"another engine answers .* version was") as caught:
            same.confirmed(1)
    assert "continues where it stopped" in caught.value.next_step


def test_same__nobody_to_ask_yet() -> None:
    """Where the look itself fails, why is said, and it is due again."""
    found: list[EngineInfo | None] = [None, ENGINE]

    def look() -> EngineInfo:
        one = found.pop(0)
        if one is None:
            raise EngineError("nobody answers")
        return one

    same = _Same(ENGINE, look)

    assert same.confirmed(1) == "nobody answers"
    assert same.confirmed(1) == ""
    assert found == []


def test_same__another_name_in_an_answer() -> None:
    """An engine that was replaced without ever being away is known by what its answers name; one
    that only calls itself otherwise is looked at once for each name, and not for ever."""
    now, looks = [ENGINE], count()

    def look() -> EngineInfo:
        next(looks)
        return now[0]

    same = _Same(ENGINE, look)
    for n in (0, 0, 1, 1, 0, 2, 3, 4, 5, 6):
        assert same.confirmed(0, Generation("x", "stop", model=f"name-{n}")) == ""
    assert next(looks) == 3

    now[0] = replace(ENGINE, model="another")
    fresh = _Same(ENGINE, look)
    assert fresh.confirmed(0, Generation("x", "stop", model="m")) == ""
    for _ in range(2):
        with pytest.raises(EngineError, match="model was"):
            fresh.confirmed(0, Generation("x", "stop", model="another"))


def test_connected__waits_for_a_server_that_is_started_again() -> None:
    """A call that meets a closed port is answered by the server that opens it again."""
    said: list[str] = []
    with served() as server:
        port = int(server.url.rpartition(":")[2])
        context = connecting.connected(server.url, "", "auto", "", 1, said.append)
        connection = context.__enter__()
    try:
        again = threading.Timer(0.8, lambda: None)
        again.start()
        call = Tokenize(Tag(Arm.CANDIDATE, "probe", "u"), "ab")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(connection.ask, call)
            again.join()
            with served(port=port):
                answer = asked.result(timeout=30).answer
    finally:
        context.__exit__(None, None, None)

    assert answer == TokenIds((97, 98))
    assert len(said) == 1
    assert "waiting up to 60 s" in said[0]


CALL = Tokenize(Tag(Arm.CANDIDATE, "probe", "u"), "ab")


@contextmanager
def gone_and_back(odd: Answers) -> Iterator[tuple[Future[Observation], Callable[[], object]]]:
    """A call to a server that is away; it comes back and answers also as ``odd``. With what ends
    the connection."""
    with served() as server:
        port = int(server.url.rpartition(":")[2])
        context = connecting.connected(server.url, "", "auto", "", 1)
        connection = context.__enter__()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(connection.ask, CALL)
        time.sleep(0.2)
        with served(odd, port):
            yield asked, lambda: context.__exit__(None, None, None)


@pytest.mark.parametrize("at", ["/v1/models", "/props"])
def test_connected__an_engine_that_cannot_be_looked_at(at: str) -> None:
    """Where it crashes again before or while it is looked at, its answer is lost, and what it did
    not say makes no other engine of it."""

    def crashes(path: str, body: object) -> object:
        if path == at:
            raise ConnectionError
        return None

    with gone_and_back(crashes) as (asked, end):
        answer = asked.result(timeout=30).answer
        end()

    assert isinstance(answer, Failure)
    assert answer.is_lost
    assert "still the same is not known" in answer.message


def test_connected__ended_while_it_is_looked_at() -> None:
    """Closing ends a look at a server that came back and is silent then."""
    reached, release = threading.Event(), threading.Event()

    def silent(path: str, body: object) -> object:
        if path == "/v1/models":
            reached.set()
            release.wait(30)
        return None

    with gone_and_back(silent) as (asked, end):
        assert reached.wait(10)
        end()
        try:
            assert isinstance(asked.result(timeout=5).answer, Failure)
        finally:
            release.set()
