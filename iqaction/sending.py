"""Sends the calls of one round, each endpoint's at most so many at a time. I/O: asks in threads.

Knows calls, answers and time; no stage, no plan, no file. A lane is one endpoint's part of the
round: lanes are sent side by side, so that what slows the machine down slows all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice

from iqaction.calls import TRANSPORT, Answer, Call, Failure, FailureKind, Observation, digest
from iqaction.errors import EndpointLost
from iqaction.interrupts import LOOK_S

_GONE_AFTER = 8  # consecutive transport failures after which an endpoint is given up
_SILENT_S = 900.0  # or as long without an answer, where each takes until its timeout


def is_cut(answer: Answer) -> bool:
    """True for the mark of a call that was not sent because the round's time was spent."""
    return isinstance(answer, Failure) and answer.kind is FailureKind.BUDGET


class Budget:
    """Ends a round in time: nothing is sent that is projected to end past ``seconds`` (0: never).

    What an earlier run of the same round took counts, as the answers it kept say.
    """

    def __init__(
        self,
        seconds: float,
        in_flight: int,
        kept: Sequence[Observation],
        clock: Callable[[], float],
    ) -> None:
        self._seconds, self._clock = seconds, clock
        self._took, self._n = sum(o.elapsed_s for o in kept), len(kept)
        self._begun = clock() - self._took / in_flight

    def saw(self, observation: Observation) -> None:
        self._took += observation.elapsed_s
        self._n += 1

    @property
    def is_spent(self) -> bool:
        if not self._seconds:
            return False
        typical = self._took / self._n if self._n else 0.0
        return self._clock() - self._begun + typical > self._seconds

    def cut(self, call: Call) -> Observation:
        """The mark that this call was not sent, and why."""
        said = f"the time budget of {self._seconds:.0f} s is spent after {self._n} answers"
        return Observation(call.tag, digest(call), Failure(FailureKind.BUDGET, said), 0)


class _Breaker:
    """Gives an endpoint up after several transport failures in a row, or after minutes in which
    nothing but such failures came: a dead one ends the stage, whether it refuses or is silent, and
    not every call has to time out."""

    def __init__(self, in_flight: int, url: str) -> None:
        self._in_flight, self._url = in_flight, url
        self._row, self._lost_s = 0, 0.0

    def saw(self, observation: Observation) -> None:
        answer = observation.answer
        if not (isinstance(answer, Failure) and answer.kind in TRANSPORT):
            self._row, self._lost_s = 0, 0.0
            return
        self._row += 1
        self._lost_s += observation.elapsed_s
        silent = self._row > 1 and self._lost_s >= _SILENT_S * self._in_flight
        if silent or self._row >= _GONE_AFTER + self._in_flight:
            to = f" to {self._url}" if self._url else ""
            raise EndpointLost(
                f"the endpoint stopped answering: {self._row} requests in a row{to} failed "
                f"({answer.message})",
                expected="a server that stays up for the whole run",
                next_step="start it again and run the same command: it continues where it stopped",
            )


@dataclass(frozen=True)
class Lane:
    """What one endpoint is asked in a round, in this order. ``url`` names it, given up."""

    calls: Sequence[Call]
    in_flight: int
    ask: Callable[[Call], Observation]
    budget: Budget
    url: str = ""


class _Sending:
    """A lane under way."""

    def __init__(self, lane: Lane) -> None:
        self._lane, self._waiting = lane, iter(lane.calls)
        self._breaker = _Breaker(lane.in_flight, lane.url)
        self.pool = ThreadPoolExecutor(lane.in_flight)
        self.cut: Observation | None = None

    def more(self, free: int) -> list[Future[Observation]]:
        """The next calls, for so many free places; none once the time is spent."""
        if self.cut is None and self._lane.budget.is_spent:
            unsent = next(self._waiting, None)
            self._waiting = iter(())
            if unsent is not None:
                self.cut = self._lane.budget.cut(unsent)
        return [self.pool.submit(self._lane.ask, call) for call in islice(self._waiting, free)]

    def saw(self, observation: Observation) -> None:
        self._breaker.saw(observation)
        self._lane.budget.saw(observation)


def send(lanes: Sequence[Lane], look: Callable[[], None]) -> Iterator[tuple[int, Observation]]:
    """Answers as they land, each with its lane's index; where a lane's budget ends first, a mark
    in place of its first call that was not sent, last.

    This thread sends nothing itself: between two waits it holds no lock, and there ``look``
    raises a signal that came.

    Raises
    ------
    EndpointLost
        When an endpoint stopped answering.
    """
    sending = [_Sending(lane) for lane in lanes]
    try:
        running = {
            future: i
            for i, (one, lane) in enumerate(zip(sending, lanes, strict=True))
            for future in one.more(lane.in_flight)
        }
        while running:
            look()
            done, _ = wait(running, LOOK_S, FIRST_COMPLETED)
            landed = [(running.pop(future), future.result()) for future in done]
            yield from landed
            for i, observation in landed:
                sending[i].saw(observation)
            for i, _ in landed:
                running |= dict.fromkeys(sending[i].more(1), i)
        yield from ((i, one.cut) for i, one in enumerate(sending) if one.cut is not None)
    finally:
        # Not waiting: on Ctrl-C the session closes the connections, which ends the workers.
        for one in sending:
            one.pool.shutdown(wait=False, cancel_futures=True)
