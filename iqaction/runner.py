"""Sends what stages ask, keeps every answer as it lands, and continues where a run stopped.

Knows no stage by name, no wire format and no file: stages are generators of calls, connections
send, and ``keep`` is told each observation before the next step depends on it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from iqaction import recovery, stages
from iqaction.calls import (
    Arm,
    Call,
    Chat,
    EngineInfo,
    Failure,
    Generation,
    Message,
    Observation,
    Tag,
    digest,
)
from iqaction.errors import EndpointLost
from iqaction.interrupts import deferred
from iqaction.observed import Engines, Observed
from iqaction.plan import Plan
from iqaction.progress import Progress
from iqaction.prompts import Prompt
from iqaction.sending import Budget, Lane, is_cut, send
from iqaction.stages._base import Asking, Context, Round

MOST_IN_FLIGHT = 32
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
    EndpointLost
        When an endpoint stopped answering; everything kept until then stays kept.
    """
    together((job,), progress)


def together(jobs: Sequence[Job], progress: Progress) -> None:
    """As :func:`observe`, for several jobs at once: stage by stage and round by round, the calls
    of all in flight at the same time. Stages come in the order of the first job that has them.
    """
    asked, turn = list(jobs), 0
    while asked:
        for name in dict.fromkeys(s.stage for job in asked for s in job.plan.stages):
            _stage([job for job in asked if job.plan.stage(name)], name, turn, progress)
        asked = [job for job in asked if _goes_on(job, turn)]
        turn += 1


def _goes_on(job: Job, turn: int) -> bool:
    return not job.plan.is_capture and turn + 1 < len(job.plan.looks) and job.extend(turn)


def _stage(jobs: Sequence[Job], name: str, turn: int, progress: Progress) -> None:
    """One look of one stage: every job's next round, until none has any."""
    asking: list[tuple[Job, Asking]] = []
    for job in jobs:
        job.kept.setdefault(name, {})
        asking.append((job, stages.load(name).ask(_context(job, name, turn))))
    answers: list[Sequence[Observation] | None] = [None] * len(asking)
    while asking:
        wanted = [_next(one, given) for (_, one), given in zip(asking, answers, strict=True)]
        asking = [a for a, w in zip(asking, wanted, strict=True) if w is not None]
        rounds = [(job, w) for (job, _), w in zip(asking, filter(None, wanted), strict=True)]
        answers = list(_rounds(rounds, name, progress))


def _next(asking: Asking, answers: Sequence[Observation] | None) -> Round | None:
    try:
        return next(asking) if answers is None else asking.send(answers)
    except StopIteration:
        return None


def _context(job: Job, name: str, turn: int) -> Context:
    spec = job.plan.stage(name)
    assert spec is not None  # jobs without the stage were left out
    return Context(
        spec,
        job.plan,
        job.prompts,
        job.kept,
        -1 if job.plan.is_capture else turn,
        job.arm,
        job.launch,
        job.baseline,
        _engines(job),
        job.data.get(name, b""),
        job.part,
    )


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


@dataclass
class _Part:
    """One job's part of a round: what is known, and what is to be sent."""

    job: Job
    kept: dict[Tag, Observation]
    wanted: Round
    results: dict[Tag, Observation] = field(default_factory=dict)
    todo: list[Call] = field(default_factory=list)
    was_cut: bool = False
    budget: Budget | None = None
    is_alone: bool = False  # one call at a time

    def __post_init__(self) -> None:
        for call in self.wanted.calls:
            known = answered(self.kept, call)
            if known is None:
                self.todo.append(call)
            else:
                self.results[call.tag] = known
        if any(is_cut(o.answer) for o in self.results.values()):
            self.todo = []  # nothing after it was sent, nor is now

    def lane(self) -> Lane:
        most = self.wanted.concurrency or self.job.traffic()
        if self.budget is None:  # one for all turns, whatever is left to ask in the last of them
            at_once = min(most, len(self.wanted.calls))
            before = tuple(self.results.values())
            self.budget = Budget(self.wanted.budget_s, at_once, before, self.job.clock)
        limit = 1 if self.is_alone else min(most, len(self.todo))
        urls = {self.job.connections[call.tag.arm].engine.base_url for call in self.todo}
        url = urls.pop() if len(urls) == 1 else ""
        return Lane(self.todo, limit, self._ask, self.budget, url)

    def _ask(self, call: Call) -> Observation:
        return self.job.connections[call.tag.arm].ask(call)

    def keep(self, stage: str, observation: Observation) -> None:
        before = self.results.get(observation.tag)
        if is_cut(observation.answer):
            self.was_cut = True
            if before is not None:
                return  # it was sent, and lost: that it was not sent again is no answer
        if before is not None:
            observation = replace(observation, attempts=before.attempts + observation.attempts)
        self.job.keep(stage, observation)
        self.kept[observation.tag] = observation
        self.results[observation.tag] = observation

    def next_turn(self, turn: int, sent: Sequence[Call]) -> None:
        """What of this turn's calls is asked once more."""
        self.todo = []
        if not self.was_cut:
            landed = [(call, self.results[call.tag]) for call in sent]
            self.todo = list(recovery.asked_again(landed, turn))
        self.is_alone = recovery.goes_alone(self.todo, turn)

    def answers(self) -> tuple[Observation, ...]:
        return tuple(self.results[c.tag] for c in self.wanted.calls if c.tag in self.results)


def _rounds(
    rounds: Sequence[tuple[Job, Round]], stage: str, progress: Progress
) -> tuple[tuple[Observation, ...], ...]:
    """The answers to each job's round, those that are kept not asked again."""
    parts = [_Part(job, job.kept[stage], wanted) for job, wanted in rounds]
    if not parts:
        return ()
    label = next((p.wanted.label for p in parts if p.wanted.label), stage)
    total, known = sum(len(p.wanted.calls) for p in parts), sum(len(p.results) for p in parts)
    for turn in itertools.count():
        try:
            _turn(parts, stage, progress, label, total, known)
        except EndpointLost:
            if not (turn or _were_asked_before(parts)) or not _is_there(parts):
                raise
            break  # the same few fail each time: they are what is lost, and not the endpoint
        for part in parts:
            part.next_turn(turn, part.todo)
        total, known = sum(len(p.todo) for p in parts), 0
        if not total:
            break
        label = label if turn else f"{label}, lost and asked again"
    return tuple(p.answers() for p in parts)


def _were_asked_before(parts: Sequence[_Part]) -> bool:
    """True where a stage asks nothing but what it has asked before."""
    return all(call.tag.attempt for part in parts for call in part.todo)


def _is_there(parts: Sequence[_Part]) -> bool:
    """Whether whoever was asked answers a question that no stage asks."""
    asked = [
        part.job.connections[arm].ask(_probe(arm, "there", 1)).answer
        for part in parts
        for arm in {call.tag.arm for call in part.todo}
    ]
    return all(isinstance(answer, Generation) for answer in asked)


def _turn(
    parts: Sequence[_Part], stage: str, progress: Progress, label: str, total: int, known: int
) -> None:
    """Send what is to do, and keep each answer as it lands."""
    progress.start(label, total, done=known)
    try:
        open_ = [p for p in parts if p.todo]
        lanes = [p.lane() for p in open_]
        with deferred() as look:
            for i, observation in send(lanes, look):
                open_[i].keep(stage, observation)
                if is_cut(observation.answer):
                    assert isinstance(observation.answer, Failure)
                    progress.note(f"{label}: {observation.answer.message}")
                else:
                    progress.step(failed=int(isinstance(observation.answer, Failure)))
    finally:
        progress.finish()


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
    calls = [_probe(Arm.CANDIDATE, f"{n}-{i}", 100 * n + i) for i in range(n)]
    started = clock()
    with ThreadPoolExecutor(n) as pool:
        answers = [o.answer for o in pool.map(connection.ask, calls)]
    took = max(clock() - started, 1e-6)
    if not all(isinstance(a, Generation) for a in answers):
        return 0.0
    tokens = sum(a.completion_tokens or _PROBE_TOKENS for a in answers if isinstance(a, Generation))
    return tokens / took


def _probe(arm: Arm, name: str, start: int) -> Chat:
    """A short question that any model answers."""
    words = (Message("user", f"Count upwards from {start}."),)
    return Chat(Tag(arm, "probe", f"probe-{name}"), words, _PROBE_TOKENS)
