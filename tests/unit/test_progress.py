"""Progress: right counts, an honest rate, few lines in a log, and nothing that breaks a run."""

from __future__ import annotations

import io
import threading

import pytest

from iqaction.progress import (
    Plain,
    Progress,
    Quiet,
    State,
    Terminal,
    choose,
    duration,
    line,
    rate,
    seconds_left,
    speed,
    summary,
)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def state(done: int, total: int = 96, kept: int = 0, failed: int = 0) -> State:
    return State("score: reference leg", total, kept, 1000.0, done, failed)


# --- figures


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (59, "59 s"),
        (59.5, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3600, "1 h 00 min"),
        (7505, "2 h 05 min"),
        (-3, "0 s"),
    ],
)
def test_duration(seconds: float, shown: str) -> None:
    """Times read as a person says them, rounded up: work takes at least that long."""
    assert shown == duration(seconds)


@pytest.mark.parametrize(
    ("per_second", "shown"), [(120, "120/s"), (12.4, "12/s"), (0.8, "0.8/s"), (0.05, "3.0/min")]
)
def test_speed(per_second: float, shown: str) -> None:
    """Slow work is told by the minute."""
    assert shown == speed(per_second)


def test_rate__kept_does_not_count() -> None:
    """What an earlier run answered makes this one no faster."""
    assert rate(state(60, kept=50), 1010.0) == 1.0
    assert seconds_left(state(60, kept=50), 1010.0) == 36.0


@pytest.mark.parametrize(
    ("done", "kept", "now"), [(0, 0, 1010.0), (50, 50, 1010.0), (5, 0, 1000.5)]
)
def test_rate__unknown(done: int, kept: int, now: float) -> None:
    """Without a step, or in the first second, no rate and no time left are claimed."""
    assert rate(state(done, kept=kept), now) is None
    assert seconds_left(state(done, kept=kept), now) is None
    assert "left" not in line(state(done, kept=kept), now)


def test_line() -> None:
    """Counts, failures, rate and time left in one line."""
    shown = line(state(31, failed=2), 1022.0)

    assert shown == "score: reference leg  31 of 96 (32 %), 2 failed, 1.4/s, 47 s left"


def test_line__unknown_total() -> None:
    """Without a total there is no percentage and no time left."""
    assert line(state(31, total=0), 1010.0) == "score: reference leg  31, 3.1/s"


def test_line__more_than_total() -> None:
    """More steps than announced never show as more than 100 %."""
    assert "97 of 96 (100 %)" in line(state(97), 1010.0)


def test_summary() -> None:
    """The end says what was done, what failed and what was kept."""
    assert summary(state(96), 1062.0) == "score: reference leg  96, 1 min 02 s"
    assert summary(state(40, kept=10, failed=3), 1005.0) == (
        "score: reference leg  40 of 96, 3 failed, 10 kept from before, 5 s"
    )


# --- in a log


def test_plain__few_lines() -> None:
    """Quick work of a thousand steps takes about twelve lines, not a thousand."""
    out, clock = io.StringIO(), Clock()
    progress = Plain(out, clock)
    progress.start("texts", 1000)
    for _ in range(1000):
        clock.now += 0.01
        progress.step()
    progress.finish()
    lines = out.getvalue().splitlines()

    assert 10 <= len(lines) <= 12
    assert lines[-1] == "texts  1000, 10 s"
    assert "\x1b" not in out.getvalue()
    assert "\r" not in out.getvalue()


def test_plain__slow_work() -> None:
    """Slow work shows a line at least every 30 seconds that a step ends."""
    out, clock = io.StringIO(), Clock()
    progress = Plain(out, clock)
    progress.start("texts", 1000)
    for _ in range(6):
        clock.now += 31
        progress.step()

    assert len(out.getvalue().splitlines()) == 7


def test_plain__resumed() -> None:
    """A continued run starts where the last one stopped."""
    out = io.StringIO()
    Plain(out, Clock()).start("texts", 96, done=50)

    assert out.getvalue() == "texts  50 of 96 (52 %)\n"


# --- at a terminal


def test_terminal__one_line() -> None:
    """The line is rewritten in place, and its end stays on the screen."""
    out, clock = Tty(), Clock()
    progress = Terminal(out, clock, lambda: 80)
    progress.start("texts", 3)
    for _ in range(3):
        clock.now += 1
        progress.step()
    progress.finish()

    assert out.getvalue().count("\n") == 1
    assert out.getvalue().split("\r\x1b[K")[-1] == "texts  3, 3 s\n"


def test_terminal__throttled() -> None:
    """A thousand steps in a second are ten pictures."""
    out, clock = Tty(), Clock()
    progress = Terminal(out, clock, lambda: 80)
    progress.start("texts", 1000)
    for _ in range(1000):
        clock.now += 0.001
        progress.step()

    assert out.getvalue().count("\r") <= 12


@pytest.mark.parametrize("columns", [0, 1, 2, 20, 80])
def test_terminal__narrow(columns: int) -> None:
    """The line never reaches the last column: the terminal would wrap it."""
    out = Tty()
    Terminal(out, Clock(), lambda: columns).start("a label that is rather long", 10)
    shown = out.getvalue().removeprefix("\r\x1b[K")

    assert len(shown) <= max(0, columns - 1)


def test_terminal__note() -> None:
    """A note stays on the screen, and the line is drawn again below it."""
    out = Tty()
    progress = Terminal(out, Clock(), lambda: 80)
    progress.start("texts", 10)
    progress.note("cannot PASS: fewer than 59 prompts")

    assert "\r\x1b[Kcannot PASS: fewer than 59 prompts\n\r\x1b[Ktexts" in out.getvalue()


# --- whatever happens


def both() -> list[Progress]:
    return [Plain(io.StringIO(), Clock()), Terminal(Tty(), Clock(), lambda: 80), Quiet()]


@pytest.mark.parametrize("progress", both(), ids=["plain", "terminal", "quiet"])
def test_progress__odd_order(progress: Progress) -> None:
    """Steps without a phase, two starts and two ends are all harmless."""
    progress.step()
    progress.finish()
    progress.note("hello")
    progress.start("a", 2)
    progress.start("b", 0)
    progress.step(3, failed=3)
    progress.finish()
    progress.finish()


@pytest.mark.parametrize("cls", [Plain, lambda s, c: Terminal(s, c, lambda: 80)])
def test_progress__hostile_note(cls: type[Plain]) -> None:
    """What a server says neither moves the cursor nor commands the runner."""
    out = io.StringIO()
    cls(out, Clock()).note("\x1b[2J\r::error::x\u202e ##[error]y")

    shown = out.getvalue().removeprefix("\r\x1b[K")
    assert shown == "\\x1b[2J\\x0d::error::x\\u202e ##\\x5berror]y\n"


def test_progress__closed_stderr() -> None:
    """A run does not end because nobody reads its progress."""
    progress = Plain(Broken(), Clock())
    progress.start("texts", 2)
    progress.step()
    progress.finish()

    closed = io.StringIO()
    closed.close()
    Plain(closed, Clock()).note("x")


def test_progress__threads() -> None:
    """No step is lost when several threads report at once."""
    out = io.StringIO()
    progress = Plain(out, Clock())
    progress.start("texts", 4000)
    threads = [
        threading.Thread(target=lambda: [progress.step() for _ in range(1000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    progress.finish()

    assert out.getvalue().splitlines()[-1] == "texts  4000, 0 s"


@pytest.mark.parametrize(
    ("stream", "environ", "quiet", "kind"),
    [
        (Tty(), {"TERM": "xterm"}, False, Terminal),
        (Tty(), {}, False, Terminal),
        (Tty(), {"CI": "false"}, False, Terminal),
        (Tty(), {"CI": "true"}, False, Plain),
        (Tty(), {"TERM": "dumb"}, False, Plain),
        (io.StringIO(), {}, False, Plain),
        (Tty(), {}, True, Quiet),
    ],
)
def test_choose(stream: io.StringIO, environ: dict[str, str], quiet: bool, kind: type) -> None:
    """A line that rewrites itself is for a person at a terminal, and for nobody else."""
    assert type(choose(stream, environ, Clock(), lambda: 80, quiet=quiet)) is kind
