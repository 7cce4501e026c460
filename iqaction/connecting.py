"""Engines that are up: reached, recognised, and found able. I/O: the one place that connects.

Knows requests, plans and engines; nothing of folders, and no stage by name but the one whose
reference is a server of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from iqaction import addresses, fingerprints, judgement, runner, stages
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Capability,
    EngineInfo,
    Evaluate,
    Failure,
    FailureKind,
    Generation,
    Observation,
)
from iqaction.engines import load as load_dialect
from iqaction.engines._detect import discover
from iqaction.errors import ConfigError, EngineError, EvidenceError
from iqaction.inputs import Request
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.runner import Connection

AUTO = "auto"
_DETECTION_S = 30.0  # who is there is told at once, or nobody is
_MORE_TRIES = 2  # at finding out: one lost answer there would make another engine of it
_MOST_NAMES = 4  # in answers; a gateway's engines may have more, and then names tell nothing
_AWAY_S = 60.0  # how long an endpoint that went away in mid-run is waited for

Note = Callable[[str], object]


def _unheard(said: str) -> None: ...


def identify(request: Request) -> EngineInfo:
    """Who answers at the request's endpoint; raises EngineError where nobody does."""
    asked = request.endpoint, request.model, request.dialect
    with connected(*asked, api_key(request), 1) as found:
        return found.engine


def most_in_flight(plan: Plan) -> int:
    """The most requests that any stage may have in flight."""
    values = [s.params.get("concurrency") for s in plan.stages]
    return max([runner.MOST_IN_FLIGHT] + [v for v in values if isinstance(v, int)])


@contextmanager
def connected(
    url: str, model: str, dialect: str, api_key: str, concurrency: int, note: Note = _unheard
) -> Iterator[Connection]:
    """Whoever answers at a URL, recognised and fingerprinted; raises EngineError for nobody.

    One that goes away in between is waited for for a minute, and looked at again when it is back:
    ``ask`` raises EngineError where another one came. Where it cannot be looked at, the answer is
    lost.
    """
    from iqaction import http  # noqa: PLC0415 - judging asks nobody, and `requests` takes .08 s

    ended = threading.Event()
    open_: list[http.Wire] = []  # on Ctrl-C no thread goes on asking

    def found(before: EngineInfo | None = None) -> EngineInfo:
        asking = http.Wire(
            url,
            api_key=api_key,
            read_timeout=_DETECTION_S,
            more_tries=_MORE_TRIES,
            keep_alive=False,
        )
        open_.append(asking)
        if ended.is_set():
            asking.close()
        try:
            engine, _ = http.converse(asking, discover("" if model == AUTO else model, dialect))
            speaker = load_dialect(engine.dialect)
            now = fingerprints.taken(
                replace(engine, base_url=asking.shown_url()),
                lambda call: http.call(asking, speaker, engine, call),
            )
        finally:
            asking.close()
        if before and asking.has_lost and judgement.identity_change(before, now):
            raise EngineError("it stopped answering while it was looked at")
        return now

    engine = found()
    speaker = load_dialect(engine.dialect)
    wire = http.Wire(url, api_key=api_key, concurrency=concurrency, patience=_AWAY_S, note=note)
    open_.append(wire)
    same = _Same(engine, lambda: found(engine))
    try:

        def ask(call: Call) -> Observation:
            assert not isinstance(call, Evaluate)  # see `with_harness`
            observation = http.call(wire, speaker, engine, call)
            unseen = same.confirmed(wire.absence.ended, observation.answer)
            if unseen and not isinstance(observation.answer, Failure):
                said = f"whether the engine is still the same is not known: {unseen}"
                return replace(observation, answer=Failure(FailureKind.RESET, said))
            return observation

        yield Connection(engine, ask)
    finally:
        ended.set()
        for one in open_:
            one.close()


class _Same:
    """That the engine which came back, or which calls itself otherwise in an answer, is the one
    which was there; no answer counts before."""

    def __init__(self, engine: EngineInfo, found: Callable[[], EngineInfo]) -> None:
        self._engine, self._found = engine, found
        self._lock = threading.Lock()
        self._absences = 0
        self._names: set[tuple[str, str]] = set()

    def confirmed(self, absences: int, answer: Answer | None = None) -> str:
        """Look again where it was away since the last look, or ``answer`` has another name; why
        that was in vain, "" where it is the same. Raises EngineError for another one.

        An engine that crashes again and again may be away at each look: that ends no run.
        """
        with self._lock:
            name = _name(answer)
            is_new = bool(name and self._names and name not in self._names)
            if absences > self._absences or (is_new and len(self._names) < _MOST_NAMES):
                try:
                    now = self._found()
                except EngineError as exc:
                    return exc.happened
                self._must_be_same(now)
                self._absences = max(self._absences, absences)
            if name:
                self._names.add(name)
            return ""

    def _must_be_same(self, now: EngineInfo) -> None:
        change = judgement.identity_change(self._engine, now)
        if change is not None:
            raise EngineError(
                f"another engine answers at the endpoint now: {change.what} was "
                f"{change.before!r}, now {change.after!r}",
                expected="one engine for the whole run",
                next_step="start the first one again and run the same command: it continues "
                "where it stopped",
            )


def _name(answer: Answer | None) -> tuple[str, str] | None:
    """What an engine calls itself in an answer; None where it does not."""
    if not isinstance(answer, Generation) or not (answer.model or answer.fingerprint):
        return None
    return answer.model, answer.fingerprint


@contextmanager
def asked(request: Request, plan: Plan, note: Note) -> Iterator[Connection]:
    """The request's endpoint, and beside it whatever else the plan's stages ask with.

    Raises
    ------
    ConfigError
        The API key is not set.
    EngineError
        Nobody answers there.
    """
    key, most = api_key(request), most_in_flight(plan)
    with (
        connected(request.endpoint, request.model, request.dialect, key, most, note) as wired,
        _with_harness(wired, plan, key) as found,
    ):
        yield found


@contextmanager
def _with_harness(connection: Connection, plan: Plan, api_key: str) -> Iterator[Connection]:
    """The connection, with lm-evaluation-harness beside it where a stage wants that to ask."""
    if not by_harness(plan.stages):
        yield connection
        return
    from iqaction.harness import beside  # noqa: PLC0415 - an extra, and processes take .03 s

    engine = connection.engine
    with beside(connection.ask, engine.base_url, engine.model, api_key) as ask:
        yield Connection(engine, ask)


def by_harness(specs: Sequence[StageSpec]) -> bool:
    """True where a stage is asked by lm-evaluation-harness."""
    return any(stages.load(s.stage).by_harness(s) for s in specs)


@contextmanager
def live_reference(
    request: Request, plan: Plan, candidate: Connection, note: Note, *, needed: bool
) -> Iterator[Connection | None]:
    """The live reference of `score`, where the plan names one and this run compares."""
    spec = plan.stage("score")
    url = spec.text("reference") if spec else ""
    if spec is None or not url or not needed:
        yield None
        return
    model, dialect = spec.text("reference_model"), spec.text("reference_dialect")
    with connected(url, model, dialect, api_key(request), 1, note) as found:
        if addresses.is_same(found.engine.base_url, candidate.engine.base_url):
            raise ConfigError(
                f"score: the reference {found.engine.base_url} is the candidate itself",
                expected="another server, of higher precision",
            )
        tokenizer = spec.text("tokenizer")
        if tokenizer and Capability.TOKENIZE not in found.engine.capabilities:
            from iqaction.hf_tokenizer import with_tokenizer  # noqa: PLC0415 - an extra

            yield Connection(found.engine, with_tokenizer(tokenizer, found.ask))
        else:
            yield found


def api_key(request: Request) -> str:
    """The endpoint's key, "" where the request names none; ConfigError where it is not set."""
    if not request.api_key_env:
        return ""
    key = os.environ.get(request.api_key_env, "")
    if not key:
        raise ConfigError(
            f"the environment variable {request.api_key_env} is empty or not set",
            expected="the API key of the endpoint in it",
        )
    return key


def same_engine(kept: Observed, arm: Arm, launch: int, now: EngineInfo) -> None:
    """A folder holds one engine per arm: neither a continued run nor a relaunch mixes two."""
    for before, role in (
        (kept.engines.get((arm, launch)), "this folder was observed on"),
        (kept.engines.get((Arm.BASELINE, 0)) if launch else None, "the reference came from"),
    ):
        differing = judgement.identity_change(before, now) if before else None
        if differing is not None:
            raise EvidenceError(
                f"{role} another engine: {differing.what} was {differing.before!r}, "
                f"now {differing.after!r}",
                expected="the same server, to continue or to relaunch",
                next_step="look at how it was started again; another engine needs a folder of "
                "its own",
            )


def unable(plan: Plan, connections: Mapping[Arm, Connection]) -> frozenset[str]:
    """Stages to leave out because the engine cannot do them and they are not required.

    Raises
    ------
    ConfigError
        Where a required stage cannot be done, before any heavy work.
    """
    skipped = set()
    for spec in plan.stages:
        for arm, connection in connections.items():
            lacking = _lacks(spec, arm, connection)
            if not lacking:
                continue
            if spec.required:
                raise ConfigError(
                    f"{spec.stage} needs {lacking} of the {arm.value}, and "
                    f"{judgement.describe(connection.engine)} cannot do that",
                    expected="an engine or dialect with it (vllm, sglang, llamacpp)",
                    next_step=f"set `required: false` on {spec.stage} to go on without it",
                )
            skipped.add(spec.stage)
    return frozenset(skipped)


def _lacks(spec: StageSpec, arm: Arm, connection: Connection) -> str:
    wanted = stages.load(spec.stage).needs(spec, arm)
    return ", ".join(sorted(c.value for c in wanted - connection.engine.capabilities))
