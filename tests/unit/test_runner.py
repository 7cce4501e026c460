"""Rounds, resuming, the bound on requests in flight, giving up, extending once."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import pytest
from fake_engine import FakeEngine, captured, drive
from world import ENGINE, ROOT, World, noisy, only

from iqaction import runner
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Chat,
    Failure,
    FailureKind,
    Force,
    Generation,
    Observation,
    Tag,
    digest,
)
from iqaction.errors import EngineError
from iqaction.plan import Plan
from iqaction.progress import Quiet
from iqaction.stages._base import Round

WORLD = World(units=12, length=4)
GONE = Failure(FailureKind.CONNECT, "connection refused")
REFUSED = Failure(FailureKind.STATUS, "HTTP 500: the engine failed", 500)


def texts(world: World = WORLD, *, concurrency: object = 4, looks: tuple[int, ...] = ()) -> Plan:
    """A plan that compares nothing but asks for texts; it has a baseline's root."""
    plan = world.plan(baseline_root=ROOT, looks=looks)
    spec = plan.stages[0]
    spec = replace(spec, params={**spec.params, "concurrency": concurrency})
    return replace(plan, stages=(spec,))


def run(
    ask: Callable[[Call], Observation],
    plan: Plan | None = None,
    *,
    kept: runner.Kept | None = None,
    keep: Callable[[str, Observation], None] = lambda stage, observation: None,
    traffic: Callable[[], int] = lambda: 4,
    extend: Callable[[int], bool] = lambda look: False,
    progress: Quiet | None = None,
) -> runner.Kept:
    """Observe a candidate without a baseline at hand; what was kept."""
    kept = {} if kept is None else kept
    job = runner.Job(
        plan or texts(),
        WORLD.prompts(),
        kept,
        {Arm.CANDIDATE: runner.Connection(replace(ENGINE, capabilities=frozenset()), ask)},
        keep,
        traffic,
        extend,
    )
    runner.observe(job, progress or Quiet())
    return kept


def test_observe__everything_kept() -> None:
    """Every prompt is asked once and its answer kept under the stage and the call's tag."""
    engine = FakeEngine(WORLD)

    kept = run(engine)

    assert sorted(t.unit for t in kept["trajectory"]) == list(WORLD.names)
    assert len(engine.calls) == len(WORLD.names)


def test_observe__durable_before_dependent() -> None:
    """An answer is made durable before any call of a later round is sent."""
    log: list[str] = []

    def ask(call: Call) -> Observation:
        log.append("ask")
        return FakeEngine(WORLD)(call)

    run(ask, texts(), traffic=lambda: 1, keep=lambda stage, observation: log.append("keep"))

    assert log == ["ask", "keep"] * len(WORLD.names)


def test_observe__order_of_answers() -> None:
    """A stage gets its answers in the order of its calls, whatever order they land in."""
    engine = FakeEngine(WORLD)
    last_first = {name: threading.Event() for name in WORLD.names}
    last_first[WORLD.names[-1]].set()
    landed: list[str] = []

    def ask(call: Call) -> Observation:
        if call.tag.unit != WORLD.names[0]:  # the first goes alone
            assert last_first[call.tag.unit].wait(10)
            at = WORLD.names.index(call.tag.unit)
            last_first[WORLD.names[at - 1]].set()
        return engine(call)

    kept = run(
        ask,
        texts(),
        traffic=lambda: 11,
        keep=lambda stage, observation: landed.append(observation.tag.unit),
    )

    assert landed != list(WORLD.names)
    assert all(o.tag == tag and o.tag.unit == tag.unit for tag, o in kept["trajectory"].items())
    for name in WORLD.names:
        answer = kept["trajectory"][Tag(Arm.CANDIDATE, "trajectory", name)].answer
        assert isinstance(answer, Generation)
        assert answer.prompt_ids == WORLD.ids(name)


def test_observe__nothing_asked_twice() -> None:
    """A finished run that is continued sends nothing."""
    kept = run(FakeEngine(WORLD))
    again = FakeEngine(WORLD)

    run(again, kept=kept)

    assert again.calls == []


def interrupted_at(number: int) -> Callable[[str, Observation], None]:
    """A journal that is interrupted while it writes its answer of that number."""
    landed = count()

    def keep(stage: str, observation: Observation) -> None:
        if next(landed) == number:
            raise KeyboardInterrupt

    return keep


def test_observe__whole_run_continued_after_every_answer() -> None:
    """Wherever a run stopped, continuing it asks the rest, and ends with the same evidence."""
    world = World(units=4, length=4)
    baseline = captured(world, launches=1)
    plan = world.plan(baseline_root=ROOT)
    broken = only(("p-001",), noisy(9.0))
    whole = FakeEngine(world, damage=broken)
    wanted = drive(plan, world, {Arm.CANDIDATE: whole}, baseline=baseline)
    assert any(t.attempt == 2 for t in whole.tags)

    for stop in range(len(whole.calls)):
        kept: runner.Kept = {}
        first = {Arm.CANDIDATE: FakeEngine(world, damage=broken)}
        keep = interrupted_at(stop)
        with pytest.raises(KeyboardInterrupt):
            drive(plan, world, first, kept=kept, baseline=baseline, keep=keep)
        have = {tag for tags in kept.values() for tag in tags}
        second = FakeEngine(world, damage=broken)
        ended = drive(plan, world, {Arm.CANDIDATE: second}, kept=kept, baseline=baseline)

        assert len(have) == stop
        assert not have & set(second.tags)
        assert {k: set(v) for k, v in ended.seen.items()} == {
            k: set(v) for k, v in wanted.seen.items()
        }


@pytest.mark.parametrize("kind", sorted(FailureKind))
def test_observe__failures_when_continued(kind: FailureKind) -> None:
    """A failure of the way is asked again; what the engine itself failed at stays its answer."""
    kept = run(FakeEngine(WORLD, fails=lambda call: Failure(kind, "?") if _is(call, 5) else None))
    again = FakeEngine(WORLD)

    run(again, kept=kept)

    asked = [(t.unit, t.attempt) for t in again.tags]
    transport = kind in {"connect", "timeout", "reset", "proxy", "busy", "truncated body"}
    assert asked == ([("p-005", 0)] if transport else [])


def _is(call: Call, number: int) -> bool:
    return call.tag.unit == WORLD.names[number]


def test_observe__another_question() -> None:
    """A kept answer to another question under the same tag is no answer: it is asked again."""
    kept = run(FakeEngine(WORLD))
    tag = Tag(Arm.CANDIDATE, "trajectory", "p-003")
    kept["trajectory"][tag] = replace(kept["trajectory"][tag], call_sha256="0" * 64)
    again = FakeEngine(WORLD)

    run(again, kept=kept)

    assert again.tags == [tag]
    assert kept["trajectory"][tag].call_sha256 == digest(again.calls[0])


def test_observe__in_flight_bound() -> None:
    """As many requests are out as the plan says: the bound is reached and never passed."""
    engine, together = FakeEngine(WORLD), threading.Barrier(3)
    lock, out, most = threading.Lock(), 0, 0
    alone: list[int] = []

    def ask(call: Call) -> Observation:
        nonlocal out, most
        with lock:
            out += 1
            most = max(most, out)
        if _is(call, 0):
            alone.append(out)
        elif WORLD.names.index(call.tag.unit) <= 9:  # 9 calls: three times three
            together.wait(10)
        answer = engine(call)
        with lock:
            out -= 1
        return answer

    run(ask, texts(), traffic=lambda: 3)

    assert alone == [1]
    assert most == 3


def test_observe__traffic_is_asked_for_once_needed() -> None:
    """Concurrency `auto` is what traffic sees; a stage that sends nothing does not measure it."""
    asked: list[int] = []

    def traffic() -> int:
        asked.append(1)
        return 2

    kept = run(FakeEngine(WORLD), texts(concurrency="auto"), traffic=traffic)
    assert asked == [1]

    run(FakeEngine(WORLD), texts(concurrency="auto"), kept=kept, traffic=traffic)
    assert asked == [1]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_observe__signal_waits_for_a_safe_place(concurrency: int) -> None:
    """Ctrl-C while an answer is being kept lets it be kept whole, and then ends the run."""
    kept: runner.Kept = {}
    whole: list[str] = []

    def keep(stage: str, observation: Observation) -> None:
        if len(whole) == 3:
            signal.raise_signal(signal.SIGINT)
        whole.append(observation.tag.unit)

    with pytest.raises(KeyboardInterrupt):
        run(FakeEngine(WORLD), texts(), traffic=lambda: concurrency, kept=kept, keep=keep)

    assert len(whole) >= 4
    assert {t.unit for t in kept["trajectory"]} == set(whole)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_observe__signal_while_waiting() -> None:
    """Ctrl-C ends the wait for an answer that does not come, within a moment."""
    hung = threading.Event()

    def ask(call: Call) -> Observation:
        threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,)).start()
        hung.wait(20)
        return FakeEngine(WORLD)(call)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(ask, texts(), traffic=lambda: 1)
    took = time.monotonic() - started
    hung.set()

    assert took < 10


@pytest.mark.parametrize("concurrency", [1, 3])
def test_observe__gives_up_a_dead_endpoint(concurrency: int) -> None:
    """Several failures of the way in a row end the run; all of them are kept, and no more sent."""
    world = World(units=40, length=4)
    engine = FakeEngine(world, fails=lambda call: None if call.tag.unit == "p-000" else GONE)
    kept: runner.Kept = {}
    job_world = world.prompts()

    with pytest.raises(EngineError, match="stopped answering") as caught:
        runner.observe(
            runner.Job(
                texts(world),
                job_world,
                kept,
                {Arm.CANDIDATE: runner.Connection(ENGINE, engine)},
                lambda stage, observation: None,
                lambda: concurrency,
                lambda look: False,
            ),
            Quiet(),
        )

    most = 1 + 8 + concurrency
    assert most <= len(engine.calls) < most + concurrency
    assert most <= len(kept["trajectory"]) <= len(engine.calls)
    assert "connection refused" in str(caught.value)
    assert "continues where it stopped" in caught.value.next_step


def test_observe__failures_not_in_a_row() -> None:
    """An endpoint that answers now and then is not given up, nor is one that fails by itself."""
    tired = FakeEngine(WORLD, fails=lambda call: None if _is(call, 6) else GONE)
    failing = FakeEngine(WORLD, fails=lambda call: REFUSED)

    run(failing)
    with pytest.raises(EngineError):  # eleven that were lost are asked again
        run(tired, texts(concurrency=3))

    alone = 3 * 3  # of one answer, one that failed is not many
    assert len(failing.calls) == 2 * len(WORLD.names) + alone
    assert {t.unit for t in tired.tags} == {*WORLD.names, "probe-there"}


@pytest.mark.parametrize(("willing", "looks"), [(True, [0]), (False, [0])])
def test_observe__extended_once(willing: bool, looks: list[int]) -> None:
    """The second look is asked exactly when the first leaves the question open, and no third."""
    told: list[int] = []

    def extend(look: int) -> bool:
        told.append(look)
        return willing

    engine = FakeEngine(WORLD)
    run(engine, texts(looks=(5, 10)), extend=extend)

    assert told == looks
    assert len(engine.calls) == (10 if willing else 5)
    assert len(set(engine.tags)) == len(engine.tags)


def test_observe__one_look() -> None:
    """Where no extension is planned, nobody is asked whether to extend."""

    def extend(look: int) -> bool:
        raise AssertionError("asked")

    assert len(run(FakeEngine(WORLD), extend=extend)["trajectory"]) == len(WORLD.names)


def test_observe__capture_asks_every_look() -> None:
    """A capture asks all prompts that any look may need, at once."""
    world = World(units=6, length=4)
    engine = FakeEngine(world)

    drive(world.plan(looks=(2, 4)), world, {Arm.BASELINE: engine}, arm=Arm.BASELINE)

    assert {t.unit for t in engine.tags if t.leg == "trajectory"} == set(world.names)


def test_observe__relaunch_forces_the_first_launch_only() -> None:
    """A relaunch asks for no texts: it forces what launch 0 wrote, one call a prompt."""
    world = World(units=3, length=4)
    baseline = captured(world, launches=0)
    kept = {stage: dict(tags) for stage, tags in baseline.seen.items()}
    engine = FakeEngine(world)

    drive(world.plan(), world, {Arm.REPEAT: engine}, arm=Arm.REPEAT, launch=2, kept=kept)

    assert engine.tags == [Tag(Arm.REPEAT, "reference", u, 2) for u in world.names]
    assert all(isinstance(c, Force) for c in engine.calls)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_observe__interrupted(concurrency: int) -> None:
    """Ctrl-C ends the run at once; what had landed stays kept and is not asked again."""
    engine = FakeEngine(WORLD)

    def ask(call: Call) -> Observation:
        if _is(call, 8):
            raise KeyboardInterrupt
        return engine(call)

    kept: runner.Kept = {}
    with pytest.raises(KeyboardInterrupt):
        run(ask, texts(concurrency=concurrency), kept=kept)
    before = set(kept["trajectory"])
    again = FakeEngine(WORLD)
    run(again, kept=kept)

    assert len(before) >= 5
    assert not before & set(again.tags)
    assert {t.unit for t in again.tags} | {t.unit for t in before} == set(WORLD.names)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_observe__disk_full(concurrency: int) -> None:
    """An answer that cannot be made durable ends the run, and is not counted as kept."""

    def keep(stage: str, observation: Observation) -> None:
        if observation.tag.unit == "p-004":
            raise OSError(28, "No space left on device")

    kept: runner.Kept = {}
    with pytest.raises(OSError, match="No space"):
        run(FakeEngine(WORLD), texts(concurrency=concurrency), kept=kept, keep=keep)

    assert Tag(Arm.CANDIDATE, "trajectory", "p-004") not in kept["trajectory"]


class _Told(Quiet):
    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.log.append(("start", label, total, done))

    def step(self, n: int = 1, failed: int = 0) -> None:
        self.log.append(("step", n, failed))

    def finish(self) -> None:
        self.log.append(("finish",))


def test_observe__progress() -> None:
    """Progress tells each phase, how much was known before, what failed, and every end."""
    kept = run(FakeEngine(WORLD))
    del kept["trajectory"][Tag(Arm.CANDIDATE, "trajectory", "p-011")]
    told = _Told()

    run(FakeEngine(WORLD, fails=lambda call: REFUSED), kept=kept, progress=told)

    one = (("step", 1, 1), ("finish",))
    assert told.log == [
        *(("start", "trajectory: first request, alone", 1, 1), ("finish",)),
        ("start", "trajectory: texts", 11, 10),
        *(("step", 1, 1), ("finish",)),
        *(("start", "trajectory: texts, lost and asked again", 1, 0), *one) * 3,
        *(("start", "trajectory: failed once, asked again", 1, 0), *one),
        *(("start", "trajectory: failed once, asked again, lost and asked again", 1, 0), *one) * 3,
    ]


class _Flaky:
    """Fails each call of some prompts so many times, then answers."""

    def __init__(self, failure: Failure, times: int, units: set[str]) -> None:
        self.engine = FakeEngine(WORLD)
        self.asked: Counter[Tag] = Counter()
        self._failure, self._times, self._units = failure, times, units

    def __call__(self, call: Call) -> Observation:
        self.asked[call.tag] += 1
        if call.tag.unit in self._units and self.asked[call.tag] <= self._times:
            return Observation(call.tag, digest(call), self._failure, 2)
        return self.engine(call)


@pytest.mark.parametrize(
    ("failure", "times"),
    [
        (GONE, 3),
        (Failure(FailureKind.RESET, "?"), 3),
        (Failure(FailureKind.BUSY, "?", 429), 3),
        (Failure(FailureKind.PROXY, "?", 502), 3),
        (Failure(FailureKind.TRUNCATED_BODY, "?", 200), 3),
        (REFUSED, 3),
        (Failure(FailureKind.MALFORMED, "?", 200), 3),
        (Failure(FailureKind.ABORTED, "?", 200), 3),
        (Failure(FailureKind.TOO_LARGE, "?", 200), 3),
    ],
)
def test_round__what_was_lost_is_asked_again(failure: Failure, times: int) -> None:
    """Before the stage sees it, under the same tag; the tries of all turns are counted."""
    ask = _Flaky(failure, times, {"p-005", "p-007"})
    kept = run(ask)["trajectory"]

    assert all(isinstance(o.answer, Generation) for o in kept.values())
    assert {t for t in kept if t.attempt} == set()
    lost = {t.unit: n for t, n in ask.asked.items() if n > 1}
    assert lost == dict.fromkeys(("p-005", "p-007"), times + 1)
    tag = Tag(Arm.CANDIDATE, "trajectory", "p-005")
    assert kept[tag].attempts == 2 * times + 1


@pytest.mark.parametrize("first", [0, 25])
def test_round__questions_that_are_lost_each_time(first: int) -> None:
    """More of them than end a run: they stay lost, and the endpoint that answers all others is not
    given up; one that answers nothing more is."""
    world = World(units=40, length=4)
    bad = set(world.names[first : first + 12 : 1]) if first else set(world.names[1:34:3])
    kept: runner.Kept = {}
    engine = FakeEngine(world, fails=lambda c: GONE if c.tag.unit in bad else None)

    def ask(call: Call) -> Observation:
        if call.tag.leg == "probe":
            return Observation(call.tag, digest(call), Generation("2 3", "stop"))
        return engine(call)

    def observe(engine: Callable[[Call], Observation]) -> None:
        lane = {Arm.CANDIDATE: runner.Connection(ENGINE, engine)}
        plan, keep = texts(world, concurrency=8), lambda stage, observation: None
        job = runner.Job(plan, world.prompts(), kept, lane, keep, lambda: 8, lambda look: False)
        runner.observe(job, Quiet())

    observe(ask)
    answers = {t.unit for t, o in kept["trajectory"].items() if isinstance(o.answer, Generation)}
    assert answers == set(world.names) - bad
    with pytest.raises(EngineError, match="stopped answering"):
        observe(FakeEngine(world, fails=lambda c: GONE))


@pytest.mark.parametrize(
    "failure",
    [
        Failure(FailureKind.TIMEOUT, "?"),
        Failure(FailureKind.UNSUPPORTED, "?", 400),
        Failure(FailureKind.STATUS, "?", 404),
    ],
)
def test_round__what_would_fail_again(failure: Failure) -> None:
    """A timeout and a refusal are answers: only the stage asks them once more."""
    ask = _Flaky(failure, 99, {"p-005"})
    run(ask)

    assert {t.attempt: n for t, n in ask.asked.items() if t.unit == "p-005"} == {0: 1, 1: 1}


def test_round__an_engine_that_fails_is_not_the_way() -> None:
    """Where most answers of a round are errors, they are left to the stage."""
    ask = _Flaky(REFUSED, 99, set(WORLD.names[1:]))
    run(ask)

    assert {n for t, n in ask.asked.items() if t.attempt == 0} == {1}


def test_round__a_prompt_that_kills_its_engine() -> None:
    """What was in flight with it is answered in the end; it alone is not."""
    lock, flying, dead = threading.Lock(), Counter[str](), Counter[str]()
    engine = FakeEngine(WORLD)

    def ask(call: Call) -> Observation:
        unit = call.tag.unit
        with lock:
            flying[unit] += 1
            deaths = dead.total()
        time.sleep(0.02)
        with lock:
            flying[unit] -= 1
            if unit == "p-005":
                dead[unit] += 1
            killed = dead.total() > deaths or (flying["p-005"] > 0)
        broke = Observation(call.tag, digest(call), Failure(FailureKind.RESET, "it broke"))
        return broke if killed else engine(call)

    kept = run(ask)["trajectory"]

    lost = {t.unit for t, o in kept.items() if isinstance(o.answer, Failure)}
    assert lost == {"p-005"}
    assert dead["p-005"] == 8  # four turns of the round, and four of the stage's second question


def test_observe__progress_ends_on_error() -> None:
    """A phase that is interrupted is ended on the screen too."""

    def ask(call: Call) -> Observation:
        raise KeyboardInterrupt

    told = _Told()
    with pytest.raises(KeyboardInterrupt):
        run(ask, progress=told)

    assert told.log[-1] == ("finish",)


def connection(ask: Callable[[Call], Observation], slots: int | None = None) -> runner.Connection:
    return runner.Connection(replace(ENGINE, slots=slots), ask)


def clock(*spans: float) -> Callable[[], float]:
    """A clock whose pairs of readings lie ``spans`` seconds apart."""
    times = iter([t for i, span in enumerate(spans) for t in (1000.0 * i, 1000.0 * i + span)])
    return lambda: next(times)


def counted(tokens: int | None = 24) -> tuple[list[Call], Callable[[Call], Observation]]:
    seen: list[Call] = []

    def ask(call: Call) -> Observation:
        seen.append(call)
        return Observation(call.tag, "", Generation("1 2", "length", completion_tokens=tokens))

    return seen, ask


def never(call: Call) -> Observation:
    raise AssertionError("no request was needed")


def test_traffic__plan() -> None:
    """The plan's number is taken as it is, and nothing is asked."""
    assert runner.traffic(connection(never, slots=4), 100, clock()) == (100, "plan")


@pytest.mark.parametrize(("slots", "used"), [(4, 4), (1, 1), (4096, 32), (-1, 1)])
def test_traffic__engine(slots: int, used: int) -> None:
    """The engine's own number is taken up to 32; a nonsensical one is one at a time."""
    assert runner.traffic(connection(never, slots=slots), None, clock()) == (used, "engine")


@pytest.mark.parametrize(
    ("spans", "used"),
    [
        ((1.0, 8.0), 1),  # eight take eight times as long
        ((1.0, 8 / 1.29), 1),
        ((1.0, 8 / 1.31, 32 / 1.31), 8),
        ((1.0, 1.0, 4.0), 8),
        ((1.0, 1.0, 1.0), 32),
    ],
)
def test_traffic__probe(spans: tuple[float, ...], used: int) -> None:
    """The fewest of 1, 8, 32 in flight beyond which throughput no longer rises by 1.3."""
    seen, ask = counted()

    assert runner.traffic(connection(ask), None, clock(*spans)) == (used, "timing probe")
    assert all(isinstance(c, Chat) and c.max_tokens <= 32 for c in seen)
    assert len(seen) == sum((1, 8, 32)[: len(spans)])
    assert len({c.tag for c in seen}) == len(seen)
    assert len({c.messages for c in seen if isinstance(c, Chat)}) == len(seen)  # no cache hits


def test_traffic__tokens_not_told() -> None:
    """An engine that does not count its tokens is taken to have written all that were asked."""
    _, ask = counted(None)

    assert runner.traffic(connection(ask), None, clock(1.0, 1.0, 1.0)) == (32, "timing probe")


def test_traffic__probe_fails() -> None:
    """A server that cannot answer the probe is asked one at a time, not 32."""

    def ask(call: Call) -> Observation:
        return Observation(call.tag, "", GONE)

    assert runner.traffic(connection(ask), None, clock(1.0, 1.0, 1.0)) == (1, "timing probe")


def test_traffic__fails_under_load() -> None:
    """A server that fails with eight in flight is asked one at a time."""
    seen, ask = counted()

    def tired(call: Call) -> Observation:
        observation = ask(call)
        return observation if len(seen) == 1 else replace(observation, answer=REFUSED)

    assert runner.traffic(connection(tired), None, clock(1.0, 0.001)) == (1, "timing probe")


# --- a time budget --------------------------------------------------------------------------


class Timed:
    """A stage of one round with a budget, and a server that takes a second an answer."""

    def __init__(
        self,
        units: int = 10,
        budget_s: float = 5.0,
        answer: Answer = Generation("x", "stop"),  # noqa: B008 - it is frozen
    ) -> None:
        self.answer = answer
        self.calls = tuple(Chat(Tag(Arm.CANDIDATE, "timed", f"u-{i}"), (), 4) for i in range(units))
        self.budget_s, self.now, self.asked = budget_s, 0.0, 0
        self.got: Sequence[Observation] = ()

    def ask(self, call: Call) -> Observation:
        self.now += 1.0
        self.asked += 1
        return Observation(call.tag, digest(call), self.answer, 1, 1.0)

    def job(self, kept: runner.Kept) -> runner.Job:
        kept.setdefault("timed", {})
        return runner.Job(
            texts(),
            {},
            kept,
            {Arm.CANDIDATE: runner.Connection(ENGINE, self.ask)},
            lambda stage, observation: None,
            lambda: 1,
            lambda look: False,
            clock=lambda: self.now,
        )

    def run(self, kept: runner.Kept) -> runner.Kept:
        wanted = Round(self.calls, 1, "timed", self.budget_s)
        (self.got,) = runner._rounds(((self.job(kept), wanted),), "timed", Quiet())
        return kept


def test_round__ends_within_its_budget() -> None:
    """Nothing is sent that would end past the budget; the first call not sent is marked, and no
    call after it has an answer."""
    timed = Timed()

    kept = timed.run({})["timed"]

    assert timed.asked == 5
    assert [o.tag.unit for o in timed.got] == [f"u-{i}" for i in range(6)]
    (mark,) = [o for o in kept.values() if isinstance(o.answer, Failure)]
    assert (mark.tag.unit, mark.attempts) == ("u-5", 0)
    assert mark.answer.kind is FailureKind.BUDGET
    assert mark.call_sha256 == digest(timed.calls[5])


def test_round__a_spent_budget_stays_spent() -> None:
    """A run that is continued after its budget was spent asks nothing more."""
    kept = Timed().run({})
    again = Timed()

    again.run(kept)

    assert again.asked == 0
    assert len(again.got) == 6


def test_round__what_an_earlier_run_took_counts() -> None:
    """A run that was killed and continued has what is left of its budget, not all of it anew."""
    kept = Timed(units=3, budget_s=0).run({})
    again = Timed()

    again.run(kept)

    assert again.asked == 2


def test_round__nothing_is_sent_on_a_spent_budget() -> None:
    """Continued with its time used up and the mark not yet written, a run asks nothing more."""
    kept = Timed(units=5, budget_s=0).run({})
    again = Timed(budget_s=5.0)

    again.run(kept)

    assert again.asked == 0
    assert [o.tag.unit for o in again.got] == [f"u-{i}" for i in range(6)]


def test_round__what_was_lost_stays_lost_on_a_spent_budget() -> None:
    """What was lost and could not be asked again in time is no call that was never sent."""
    timed = Timed(units=5, budget_s=7.0, answer=GONE)

    timed.run({})

    assert timed.asked == 7
    assert [o.answer for o in timed.got] == [GONE] * 5


def test_round__what_was_lost_is_asked_again_within_the_budget() -> None:
    """What many in flight took together is no time that one that was lost has to wait for."""
    lock, asked = threading.Lock(), Counter[str]()

    def ask(call: Call) -> Observation:
        with lock:
            asked[call.tag.unit] += 1
            is_lost = call.tag.unit == "u-7" and asked["u-7"] == 1
        answer = GONE if is_lost else Generation("x", "stop")
        return Observation(call.tag, digest(call), answer, 1, 1.0)

    timed = Timed(units=16)
    connection = runner.Connection(ENGINE, ask)
    job = replace(timed.job({}), connections={Arm.CANDIDATE: connection})
    wanted = Round(timed.calls, 8, "timed", 5.0)  # 16 answers of a second each, 8 in flight

    (got,) = runner._rounds(((job, wanted),), "timed", Quiet())

    assert asked["u-7"] == 2
    assert all(isinstance(o.answer, Generation) for o in got)


def test_round__without_a_budget() -> None:
    """0 is no budget."""
    timed = Timed(budget_s=0)

    timed.run({})

    assert timed.asked == 10


class Both:
    """A reference and a candidate observed side by side, and the order in which they were asked."""

    def __init__(self, parties: int = 1) -> None:
        self.asked: list[Tag] = []
        self.both_out = threading.Barrier(parties, timeout=20)
        self.kept: dict[Arm, runner.Kept] = {Arm.BASELINE: {}, Arm.CANDIDATE: {}}
        servers = {
            Arm.BASELINE: FakeEngine(WORLD, seed=20, version="1.0"),
            Arm.CANDIDATE: FakeEngine(WORLD),
        }
        first, second = WORLD.plan().stages
        alone = replace(first, params={**first.params, "concurrency": 1})
        capture = replace(WORLD.plan(), stages=(alone, second))
        self.jobs = [
            self._job(capture, servers, Arm.BASELINE),
            self._job(texts(concurrency=1), servers, Arm.CANDIDATE),
        ]

    def answered(self) -> set[tuple[Arm, str, Tag, str]]:
        return {
            (arm, stage, tag, o.call_sha256)
            for arm, kept in self.kept.items()
            for stage, answers in kept.items()
            for tag, o in answers.items()
        }

    def _job(self, plan: Plan, servers: Mapping[Arm, FakeEngine], arm: Arm) -> runner.Job:
        def ask(call: Call) -> Observation:
            self.asked.append(call.tag)
            if call.tag.leg == "trajectory":
                self.both_out.wait()
            return servers[arm](call)

        return runner.Job(
            plan,
            WORLD.prompts(),
            self.kept[arm],
            {arm: runner.Connection(servers[arm].engine, ask)},
            lambda stage, observation: None,
            lambda: 1,
            lambda look: False,
            arm,
        )


def test_together__asks_what_each_alone_asks() -> None:
    """Side by side or one after the other: the same questions get the same answers."""
    both, one = Both(), Both()

    runner.together(both.jobs, Quiet())
    for job in one.jobs:
        runner.observe(job, Quiet())

    assert one.answered() == both.answered()
    assert {"trajectory", "score"} == {t[1] for t in both.answered() if t[0] is Arm.BASELINE}
    assert {"trajectory"} == {t[1] for t in both.answered() if t[0] is Arm.CANDIDATE}


def test_together__arms_are_asked_at_the_same_time() -> None:
    """What disturbs the machine for a while meets both arms: a question of each is always out,
    or the barrier breaks."""
    both = Both(parties=2)

    runner.together(both.jobs, Quiet())

    assert Counter(t.leg for t in both.asked)["trajectory"] == 2 * len(WORLD.names)


def test_together__continues() -> None:
    """What either arm was asked before is not asked again."""
    both = Both()
    runner.together(both.jobs, Quiet())
    both.asked.clear()

    runner.together(both.jobs, Quiet())

    assert both.asked == []
