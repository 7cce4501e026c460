"""Sends what stages ask, keeps every answer as it lands, and continues where a run stopped.

Knows no stage by name, no wire format and no file: stages are generators of calls, connections
send, and ``keep`` is told each observation before the next step depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice

from iqaction import stages
from iqaction.calls import (
    TRANSPORT,
    Answer,
    Arm,
    Call,
    Chat,
    EngineInfo,
    Failure,
    FailureKind,
    Generation,
    Message,
    Observation,
    Tag,
    digest,
)
from iqaction.errors import EngineError
from iqaction.interrupts import LOOK_S, deferred
from iqaction.observed import Engines, Observed
from iqaction.plan import Plan
from iqaction.progress import Progress
from iqaction.prompts import Prompt
from iqaction.stages._base import Context, Round

MOST_IN_FLIGHT = 32
_GONE_AFTER = 8  # consecutive transport failures after which an endpoint is given up
_PROBE_TOKENS = 24
_WORTH = 1.3  # more requests in flight must raise throughput by this factor to be used

Kept = dict[str, dict[Tag, Observation]]


@dataclass(frozen=True)
class Connection:
    """One endpoint: who it is, and how to ask it. ``ask`` never raises for what a server does."""

    engine: EngineInfo
    ask: Callable[[Call], Observation]


@dataclass(frozen=True)
class Job:
    """What to observe: of whom, with what known already.

    Attributes
    ----------
    kept
        What the evidence holds so far; grows as answers land.
    keep
        Makes an observation durable; called before anything depends on it.
    traffic
        How many requests are in flight where a stage asks as traffic does.
    extend
        Told the look just observed; True where the next look is needed to decide.
    data
        By stage, the file that its questions come from.
    part
        Which part of how many this machine asks; (0, 0) is the whole.
    """

    plan: Plan
    prompts: Mapping[str, Prompt]
    kept: Kept
    connections: Mapping[Arm, Connection]
    keep: Callable[[str, Observation], None]
    traffic: Callable[[], int]
    extend: Callable[[int], bool]
    arm: Arm = Arm.CANDIDATE
    launch: int = 0
    baseline: Observed | None = None
    data: Mapping[str, bytes] = field(default_factory=dict)
    part: tuple[int, int] = (0, 0)
    clock: Callable[[], float] = time.monotonic


def observe(job: Job, progress: Progress) -> None:
    """Ask every stage's calls, look by look, until nothing is undecided or no look is left.

    A capture asks all prompts that any look may need, at once.

    Raises
    ------
    EngineError
        When an endpoint stopped answering; everything kept until then stays kept.
    """
    looks: Sequence[int] = (-1,) if job.plan.is_capture else range(len(job.plan.looks))
    for look in looks:
        for spec in job.plan.stages:
            context = Context(
                spec,
                job.plan,
                job.prompts,
                job.kept,
                look,
                job.arm,
                job.launch,
                job.baseline,
                _engines(job),
                job.data.get(spec.stage, b""),
                job.part,
            )
            job.kept.setdefault(spec.stage, {})
            asking = stages.load(spec.stage).ask(context)
            answers: Sequence[Observation] | None = None
            while True:
                try:
                    wanted = next(asking) if answers is None else asking.send(answers)
                except StopIteration:
                    break
                answers = _round(job, spec.stage, wanted, progress)
        if look >= 0 and (look + 1 >= len(job.plan.looks) or not job.extend(look)):
            break


def _engines(job: Job) -> Engines:
    return {
        (arm, job.launch if arm is job.arm else 0): connection.engine
        for arm, connection in job.connections.items()
    }


def answered(kept: Mapping[Tag, Observation], call: Call) -> Observation | None:
    """The kept answer to exactly this question; what the way or the server lost is asked again."""
    observation = kept.get(call.tag)
    if observation is None or observation.call_sha256 != digest(call):
        return None
    if isinstance(observation.answer, Failure) and observation.answer.is_lost:
        return None
    return observation


def _round(job: Job, stage: str, wanted: Round, progress: Progress) -> tuple[Observation, ...]:
    kept = job.kept[stage]
    results: dict[Tag, Observation] = {}
    todo: list[Call] = []
    for call in wanted.calls:
        known = answered(kept, call)
        if known is None:
            todo.append(call)
        else:
            results[call.tag] = known
    if any(_is_cut(o.answer) for o in results.values()):  # nothing after it was sent, nor is now
        todo = []
    progress.start(wanted.label or stage, len(wanted.calls), done=len(results))
    try:
        if todo:
            limit = min(wanted.concurrency or job.traffic(), len(todo))
            budget = _Budget(wanted.budget_s, limit, tuple(results.values()), job.clock)
            with deferred() as look:
                for observation in _send(job, todo, limit, look, budget):
                    job.keep(stage, observation)
                    kept[observation.tag] = observation
                    results[observation.tag] = observation
                    if _is_cut(observation.answer):
                        assert isinstance(observation.answer, Failure)
                        progress.note(f"{wanted.label or stage}: {observation.answer.message}")
                    else:
                        progress.step(failed=int(isinstance(observation.answer, Failure)))
    finally:
        progress.finish()
    return tuple(results[call.tag] for call in wanted.calls if call.tag in results)


def _is_cut(answer: Answer) -> bool:
    return isinstance(answer, Failure) and answer.kind is FailureKind.BUDGET


class _Budget:
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
    """Gives an endpoint up after several transport failures in a row, so that a dead one ends the
    stage within minutes and not after every call has timed out."""

    def __init__(self, in_flight: int) -> None:
        self._limit = _GONE_AFTER + in_flight
        self._row = 0

    def saw(self, observation: Observation) -> None:
        answer = observation.answer
        if not (isinstance(answer, Failure) and answer.kind in TRANSPORT):
            self._row = 0
            return
        self._row += 1
        if self._row >= self._limit:
            raise EngineError(
                f"the endpoint stopped answering: {self._row} requests in a row failed "
                f"({answer.message})",
                expected="a server that stays up for the whole run",
                next_step="start it again and run the same command: it continues where it stopped",
            )


def _send(
    job: Job, calls: Sequence[Call], in_flight: int, look: Callable[[], None], budget: _Budget
) -> Iterator[Observation]:
    """Answers as they land, at most ``in_flight`` calls out at a time; where the budget ends
    first, a mark in place of the first call that was not sent, last.

    This thread sends nothing itself: between two waits it holds no lock, and there ``look``
    raises a signal that came.
    """
    breaker, waiting = _Breaker(in_flight), iter(calls)
    cut: Call | None = None

    def ask(call: Call) -> Observation:
        return job.connections[call.tag.arm].ask(call)

    pool = ThreadPoolExecutor(in_flight)
    try:
        running: set[Future[Observation]] = {
            pool.submit(ask, call) for call in islice(waiting, in_flight)
        }
        while running:
            look()
            done, running = wait(running, LOOK_S, FIRST_COMPLETED)
            for future in done:
                yield future.result()
            for future in done:
                breaker.saw(future.result())
                budget.saw(future.result())
            if cut is None and budget.is_spent:
                cut = next(waiting, None)
            if cut is None:
                running |= {pool.submit(ask, call) for call in islice(waiting, len(done))}
        if cut is not None:
            yield budget.cut(cut)
    finally:
        # Not waiting: on Ctrl-C the session closes the connections, which ends the workers.
        pool.shutdown(wait=False, cancel_futures=True)


def traffic(
    connection: Connection, asked: int | None, clock: Callable[[], float]
) -> tuple[int, str]:
    """How many requests are in flight when traffic is imitated, and where the number comes from.

    The plan's number where there is one, else the engine's own (``slots``), else the fewest of
    1, 8, 32 that raises throughput, timed with short generations that are not kept.
    """
    if asked:
        return asked, "plan"
    if connection.engine.slots:
        return max(1, min(connection.engine.slots, MOST_IN_FLIGHT)), "engine"
    best, rate = 1, _throughput(connection, 1, clock)
    for n in (8, 32):
        now = _throughput(connection, n, clock)
        if now == 0 or now < _WORTH * rate:
            break
        best, rate = n, now
    return best, "timing probe"


def _throughput(connection: Connection, n: int, clock: Callable[[], float]) -> float:
    """Generated tokens a second with ``n`` short requests in flight; 0 where any fails."""
    calls = [
        Chat(
            Tag(Arm.CANDIDATE, "probe", f"probe-{n}-{i}"),
            (Message("user", f"Count upwards from {100 * n + i}."),),
            _PROBE_TOKENS,
        )
        for i in range(n)
    ]
    started = clock()
    with ThreadPoolExecutor(n) as pool:
        answers = [o.answer for o in pool.map(connection.ask, calls)]
    took = max(clock() - started, 1e-6)
    if not all(isinstance(a, Generation) for a in answers):
        return 0.0
    tokens = sum(a.completion_tokens or _PROBE_TOKENS for a in answers if isinstance(a, Generation))
    return tokens / took
