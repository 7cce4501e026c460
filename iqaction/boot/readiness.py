"""Waits until an endpoint has generated. Knows what ready means and when to give up.

Ready is an answer with at least one token, nothing less: a listening port, /health and a list
of models are all there before, and after, a model works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from iqaction import http
from iqaction.boot._base import Say, World
from iqaction.boot.logs import LogTail
from iqaction.calls import Arm, Chat, Failure, Generation, Message, Tag
from iqaction.engines import load as load_dialect
from iqaction.engines._detect import AUTO, discover
from iqaction.errors import BootError, EngineError
from iqaction.terminal import inline

Probe = Callable[[], str]
Begin = Callable[[Probe], Callable[[], "str | None"]]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.2, 2.0, 1.5
_LOOK_S = 0.2  # between two looks at the log and at what runs
_LINGER_S = 0.5  # what a program said last may reach the log after its end
REMIND_S = 30.0  # what is waited for is said that often
_TAIL_LINES = 40
_DETECTION_S = 30.0
_GENERATION_S = 600.0  # a first token may wait for kernels to be compiled
_QUESTION = (Message("user", "Say yes."),)


@dataclass(frozen=True)
class Watched:
    """What is waited for.

    Attributes
    ----------
    probe
        "" when a generation has succeeded, else why not. May take its time.
    alive
        "" while it can still come up, else why not. Quick.
    limit
        What a user raises where it only needs longer.
    """

    probe: Probe
    alive: Callable[[], str]
    log: LogTail
    limit: str = "ready_timeout"


def in_background(probe: Probe) -> Callable[[], str | None]:
    """Begin a probe; the function returned gives its answer, None while there is none.

    A thread, since a server that hangs would else hide its own log and its own death. It is left
    alone when the waiting ends first.
    """
    answers: list[str | Exception] = []

    def work() -> None:
        try:
            answers.append(probe())
        except Exception as exc:
            answers.append(exc)

    threading.Thread(target=work, name="boot-probe", daemon=True).start()

    def answer() -> str | None:
        if not answers:
            return None
        found = answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    return answer


def wait(
    watched: Watched, deadline_s: float, world: World, say: Say, begin: Begin = in_background
) -> None:
    """Return when the probe has succeeded and what was started is still alive.

    Raises
    ------
    BootError
        As soon as it is dead, or at the deadline; ends with the log's last lines.
    """
    start = world.clock()
    end, ask_at, pause = start + deadline_s, start, _FIRST_PAUSE_S
    reason, remind_at = "it was not asked yet", start + REMIND_S
    pending: Callable[[], str | None] | None = None
    while True:
        watched.log.poll(say)
        dead = watched.alive()
        if dead:
            raise _given_up(watched, dead, reason, world, say)
        now = world.clock()
        if pending is None and now >= ask_at:
            pending = begin(watched.probe)
        answer = pending() if pending is not None else None
        if answer == "":
            watched.log.poll(say)
            dead = watched.alive()  # another server may have answered in its place
            if dead:
                raise _given_up(watched, dead, reason, world, say)
            return
        if answer is not None:
            reason, pending = answer, None
            ask_at, pause = now + pause, min(pause * _GROWTH, _LONGEST_PAUSE_S)
        if now >= end:
            late = f"it has generated nothing within {round(deadline_s, 1):g} s"
            raise _given_up(watched, late, reason, world, say)
        if now >= remind_at:
            remind_at = now + REMIND_S
            say(f"waiting for the endpoint, {now - start:.0f} s: {inline(reason)}")
        world.sleep(max(0.0, min(_LOOK_S, end - now)))


def _given_up(watched: Watched, why: str, reason: str, world: World, say: Say) -> BootError:
    world.sleep(_LINGER_S)
    watched.log.poll(say)
    tail = watched.log.last(_TAIL_LINES)
    log = "\n".join(["\n  its log ends:", *tail]) if tail else "\n  its log is empty"
    return BootError(
        f"the endpoint did not come up: {inline(why)}\n  last answer: {inline(reason)}{log}",
        expected="a generated token before the deadline",
        next_step=f"read the log above; where the model only needs longer, raise {watched.limit}",
    )


def probe(endpoint: str, model: str, dialect: str, api_key: str) -> str:
    """Ask an endpoint for a few tokens: "" when they came, else why not.

    Raises
    ------
    ConfigError
        When the address or the key can never be right.
    """
    wire = http.Wire(endpoint, api_key=api_key, read_timeout=_DETECTION_S, sleep=_at_once)
    try:
        engine, _ = http.converse(wire, discover(model, dialect or AUTO))
    except EngineError as exc:
        return f"{exc.happened} (expected: {exc.expected})" if exc.expected else exc.happened
    finally:
        wire.close()
    wire = http.Wire(endpoint, api_key=api_key, read_timeout=_GENERATION_S, sleep=_at_once)
    asked = Chat(Tag(Arm.CANDIDATE, "boot", "ready"), _QUESTION, max_tokens=8)
    try:
        answer = http.call(wire, load_dialect(engine.dialect), engine, asked).answer
    finally:
        wire.close()
    if isinstance(answer, Failure):
        return f"no generation: {answer.message}"
    if not isinstance(answer, Generation) or not _has_token(answer):
        return "an answer without a generated token"
    return ""


def _has_token(answer: Generation) -> bool:
    if answer.text or answer.reasoning:
        return True
    return answer.completion_tokens is not None and answer.completion_tokens > 0


def _at_once(seconds: float) -> None:
    """Retries need no pauses of their own: we ask again anyway."""
