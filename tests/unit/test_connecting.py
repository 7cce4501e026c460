"""An endpoint that went away and came back: answers count when it is the same engine."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from unit.test_session_compatibility import served
from world import ENGINE

from iqaction import connecting
from iqaction.calls import Arm, EngineInfo, Tag, TokenIds, Tokenize
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
        with pytest.raises(EngineError, match="another engine came back: version was") as caught:
            same.confirmed(1)
    assert "continues where it stopped" in caught.value.next_step


def test_same__nobody_to_ask_yet() -> None:
    """Where the look itself fails, it is due again."""
    found: list[EngineInfo | None] = [None, ENGINE]

    def look() -> EngineInfo:
        one = found.pop(0)
        if one is None:
            raise EngineError("nobody answers")
        return one

    same = _Same(ENGINE, look)
    with pytest.raises(EngineError):
        same.confirmed(1)
    same.confirmed(1)

    assert found == []


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
