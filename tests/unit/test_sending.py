"""What is sent side by side: each endpoint's calls in order, none waiting for another's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from iqaction.calls import (
    Arm,
    Call,
    Chat,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Tag,
    digest,
)
from iqaction.errors import EngineError
from iqaction.sending import Budget, Lane, is_cut, send

Ask = Callable[[Call], Observation]


def calls(arm: Arm, n: int) -> tuple[Chat, ...]:
    return tuple(Chat(Tag(arm, "leg", f"u-{i}"), (), 4) for i in range(n))


def fine(call: Call) -> Observation:
    return Observation(call.tag, digest(call), Generation("x", "stop"), 1, 0.0)


def lost(call: Call) -> Observation:
    return Observation(call.tag, digest(call), Failure(FailureKind.CONNECT, "nobody there"))


def lane(arm: Arm, n: int, ask: Ask, in_flight: int = 1, seconds: float = 0.0) -> Lane:
    return Lane(calls(arm, n), in_flight, ask, Budget(seconds, in_flight, (), lambda: 0.0))


def test_send__each_lane_in_order() -> None:
    """Every call is answered once; one lane's come in its own order."""
    lanes = (lane(Arm.BASELINE, 20, fine), lane(Arm.CANDIDATE, 7, fine))

    got = list(send(lanes, lambda: None))

    for i, n in enumerate((20, 7)):
        assert [f"u-{k}" for k in range(n)] == [o.tag.unit for j, o in got if j == i]


def test_send__lanes_are_in_flight_together() -> None:
    """A call of each endpoint is out at the same time: neither waits for the other to finish."""
    both = threading.Barrier(2, timeout=10)

    def ask(call: Call) -> Observation:
        both.wait()
        return fine(call)

    got = list(send((lane(Arm.BASELINE, 5, ask), lane(Arm.CANDIDATE, 5, ask)), lambda: None))

    assert len(got) == 10


def test_send__no_more_than_asked_for_in_flight() -> None:
    """Each lane keeps to its own number, whatever the other's is."""
    lock, now, most = threading.Lock(), Counter[Arm](), Counter[Arm]()

    def ask(call: Call) -> Observation:
        arm = call.tag.arm
        with lock:
            now[arm] += 1
            most[arm] = max(most[arm], now[arm])
        threading.Event().wait(0.01)
        with lock:
            now[arm] -= 1
        return fine(call)

    list(send((lane(Arm.BASELINE, 9, ask, 1), lane(Arm.CANDIDATE, 24, ask, 4)), lambda: None))

    assert most[Arm.BASELINE] == 1
    assert 2 <= most[Arm.CANDIDATE] <= 4


def test_send__a_dead_endpoint_is_given_up() -> None:
    """One endpoint that is gone ends the sending, though the other still answers."""
    seen: list[Observation] = []

    sent = send((lane(Arm.BASELINE, 500, lost), lane(Arm.CANDIDATE, 500, fine)), lambda: None)

    with pytest.raises(EngineError, match="stopped answering"):
        seen.extend(observation for _, observation in sent)

    assert sum(isinstance(o.answer, Failure) for o in seen) < 20
    assert any(isinstance(o.answer, Generation) for o in seen)


def test_send__which_endpoint_is_gone() -> None:
    """Of two that are asked side by side, the one that is given up is named."""
    gone = Lane(calls(Arm.BASELINE, 50), 1, lost, Budget(0, 1, (), lambda: 0.0), "http://a:1")
    other = Lane(calls(Arm.CANDIDATE, 50), 1, fine, Budget(0, 1, (), lambda: 0.0), "http://b:2")

    with pytest.raises(EngineError, match="9 requests in a row to http://a:1 failed"):
        list(send((other, gone), lambda: None))


@pytest.mark.parametrize(("in_flight", "asked"), [(1, 2), (4, 6)])
def test_send__a_silent_endpoint_is_given_up(in_flight: int, asked: int) -> None:
    """Where each call takes ten minutes to time out, a few are enough."""

    def silent(call: Call) -> Observation:
        gone = Failure(FailureKind.TIMEOUT, "no answer within 600 s")
        return Observation(call.tag, digest(call), gone, 1, 600.0)

    seen: list[Observation] = []
    sent = send((lane(Arm.CANDIDATE, 500, silent, in_flight),), lambda: None)

    with pytest.raises(EngineError, match="stopped answering"):
        seen.extend(observation for _, observation in sent)

    assert asked <= len(seen) < asked + in_flight


def test_send__slow_now_and_then() -> None:
    """Timeouts with answers between them end nothing, however long they took."""

    def ask(call: Call) -> Observation:
        if int(call.tag.unit[2:]) % 3 == 0:
            return fine(call)
        gone = Failure(FailureKind.TIMEOUT, "no answer within 400 s")
        return Observation(call.tag, digest(call), gone, 1, 400.0)

    assert len(list(send((lane(Arm.CANDIDATE, 60, ask),), lambda: None))) == 60


def test_send__one_budget_does_not_end_the_other_lane() -> None:
    """A lane whose time is spent leaves a mark; the other is sent to its end."""
    time = iter(range(10**6))
    budget = Budget(5.0, 1, (), lambda: float(next(time)))
    short = Lane(calls(Arm.BASELINE, 50), 1, fine, budget)

    got = list(send((short, lane(Arm.CANDIDATE, 50, fine)), lambda: None))

    first = [o for i, o in got if i == 0]
    assert [False] * (len(first) - 1) + [True] == [is_cut(o.answer) for o in first]
    assert 1 < len(first) < 50
    assert len([o for i, o in got if i == 1]) == 50


def test_send__a_signal_is_raised_between_waits() -> None:
    """What ``look`` raises leaves at once, and what landed before was given."""
    looks = iter(range(100))

    def look() -> None:
        if next(looks) == 3:
            raise KeyboardInterrupt

    got: list[Observation] = []
    sent = send((lane(Arm.CANDIDATE, 1000, fine),), look)

    with pytest.raises(KeyboardInterrupt):
        got.extend(observation for _, observation in sent)

    assert 0 < len(got) < 1000
