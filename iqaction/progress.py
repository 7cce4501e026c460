"""Progress on stderr: counts, rate, time left. Knows a stream and a clock; no engine, no verdict.

Three ways to show it: one line that is rewritten (a person at a terminal), a line now and then
(the log of a CI job), nothing. What is noted may quote a server: it is escaped here.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TextIO

from iqaction import terminal

_REDRAW_S = 0.1  # a terminal needs no more than ten pictures a second
_LINE_S = 30.0  # a silent CI log looks hung
_LINE_SHARE = 0.1
_RATE_S = 1.0  # before this, a rate is noise


class Progress(Protocol):
    """What may be told of long work. Safe to call from several threads."""

    def start(self, label: str, total: int, done: int = 0) -> None:
        """A phase of ``total`` steps begins; ``done`` were kept from an earlier run. 0: unknown."""
        ...

    def step(self, n: int = 1, failed: int = 0) -> None:
        """``n`` more steps ended, ``failed`` of them without an answer."""
        ...

    def note(self, text: str) -> None:
        """One thing to know, shown at once and kept on the screen."""
        ...

    def finish(self) -> None:
        """The phase ended, or was given up. Harmless where none is open."""
        ...


@dataclass(frozen=True)
class State:
    """Where a phase stands. Times in seconds of the same clock."""

    label: str
    total: int
    kept: int
    started: float
    done: int
    failed: int = 0

    def after(self, n: int, failed: int) -> State:
        return State(
            self.label, self.total, self.kept, self.started, self.done + n, self.failed + failed
        )


def rate(state: State, now: float) -> float | None:
    """Steps a second of this run; what an earlier run did does not count. None: too early."""
    elapsed = now - state.started
    steps = state.done - state.kept
    return steps / elapsed if steps > 0 and elapsed >= _RATE_S else None


def seconds_left(state: State, now: float) -> float | None:
    """Time to the end at the present rate; None where that is not known."""
    speed = rate(state, now)
    return None if speed is None or not state.total else max(0, state.total - state.done) / speed


def duration(seconds: float) -> str:
    """A time for people: "8 s", "3 min 20 s", "2 h 05 min"."""
    whole = max(0, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def speed(per_second: float) -> str:
    """A rate for people: "12/s", "0.8/s", "3.1/min"."""
    if per_second >= 10:
        return f"{per_second:.0f}/s"
    return f"{per_second:.1f}/s" if per_second >= 0.5 else f"{per_second * 60:.1f}/min"


def line(state: State, now: float) -> str:
    """One line: "score: reference leg  31 of 96 (32 %), 2 failed, 1.4/s, 46 s left"."""
    parts = [f"{state.done} of {state.total}" if state.total else f"{state.done}"]
    if state.total:
        parts[0] += f" ({100 * min(state.done, state.total) // state.total} %)"
    if state.failed:
        parts.append(f"{state.failed} failed")
    current = rate(state, now)
    if current is not None:
        parts.append(speed(current))
    left = seconds_left(state, now)
    if left is not None and state.done < state.total:
        parts.append(f"{duration(left)} left")
    return f"{terminal.inline(state.label)}  {', '.join(parts)}"


def summary(state: State, now: float) -> str:
    """The last line of a phase: what was done, and in which time."""
    kept = f", {state.kept} kept from before" if state.kept else ""
    failed = f", {state.failed} failed" if state.failed else ""
    count = f"{state.done} of {state.total}" if state.done != state.total else f"{state.done}"
    took = duration(now - state.started)
    return f"{terminal.inline(state.label)}  {count}{failed}{kept}, {took}"


class Quiet:
    """Shows nothing."""

    def start(self, label: str, total: int, done: int = 0) -> None: ...

    def step(self, n: int = 1, failed: int = 0) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self) -> None: ...


class _Shown:
    """The book-keeping that both visible ways share; they differ in what they write when."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()
        self._state: State | None = None

    def start(self, label: str, total: int, done: int = 0) -> None:
        with self._lock:
            self._end()
            self._state = State(label, total, done, self._clock(), done)
            self._begun(self._state)

    def step(self, n: int = 1, failed: int = 0) -> None:
        with self._lock:
            if self._state is not None:
                self._state = self._state.after(n, failed)
                self._moved(self._state)

    def note(self, text: str) -> None:
        with self._lock:
            self._noted(terminal.escape(text))

    def finish(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._state is not None:
            self._ended(summary(self._state, self._clock()))
            self._state = None

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # A closed pipe or a full disk under stderr must not end a measurement.
            pass

    def _begun(self, state: State) -> None:
        raise NotImplementedError

    def _moved(self, state: State) -> None:
        raise NotImplementedError

    def _noted(self, text: str) -> None:
        raise NotImplementedError

    def _ended(self, text: str) -> None:
        raise NotImplementedError


class Terminal(_Shown):
    """One line, rewritten. ``columns`` is asked at each picture: windows are resized."""

    def __init__(
        self, stream: TextIO, clock: Callable[[], float], columns: Callable[[], int]
    ) -> None:
        super().__init__(stream, clock)
        self._columns = columns
        self._drawn = -math.inf

    def _begun(self, state: State) -> None:
        self._draw(state, self._clock())

    def _moved(self, state: State) -> None:
        now = self._clock()
        if now - self._drawn >= _REDRAW_S:
            self._draw(state, now)

    def _noted(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n")
        if self._state is not None:
            self._draw(self._state, self._clock())

    def _ended(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n")

    def _draw(self, state: State, now: float) -> None:
        self._drawn = now
        # One column stays free: a full line makes some terminals wrap, and \r then goes astray.
        self._write(f"\r\x1b[K{terminal.fit(line(state, now), self._columns() - 1)}")


class Plain(_Shown):
    """A line at every tenth of the work, and every 30 seconds that something moved."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(stream, clock)
        self._at = 0.0
        self._share = 0.0

    def _begun(self, state: State) -> None:
        self._wrote(state)
        self._write(line(state, self._clock()) + "\n")

    def _moved(self, state: State) -> None:
        now = self._clock()
        due = now - self._at >= _LINE_S
        if due or (state.total and state.done / state.total >= self._share + _LINE_SHARE):
            self._wrote(state)
            if state.done < state.total or not state.total:  # else `finish` says it
                self._write(line(state, now) + "\n")

    def _noted(self, text: str) -> None:
        self._write(text + "\n")

    def _ended(self, text: str) -> None:
        self._write(text + "\n")

    def _wrote(self, state: State) -> None:
        self._at = self._clock()
        self._share = state.done / state.total if state.total else 0.0


def choose(
    stream: TextIO,
    environ: Mapping[str, str],
    clock: Callable[[], float],
    columns: Callable[[], int],
    *,
    quiet: bool = False,
) -> Progress:
    """The way that fits: nothing if ``quiet``; one line on a terminal; lines in a log or in CI."""
    if quiet:
        return Quiet()
    terminal_like = stream.isatty() and environ.get("TERM") != "dumb"
    if terminal_like and environ.get("CI", "").lower() in ("", "0", "false"):
        return Terminal(stream, clock, columns)
    return Plain(stream, clock)
