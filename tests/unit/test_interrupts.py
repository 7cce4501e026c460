"""Signals that wait for a safe place."""

from __future__ import annotations

import signal
import threading

import pytest

from iqaction.interrupts import deferred


def test_deferred__raised_where_looked_for() -> None:
    """A signal does nothing until it is looked for; then it raises as it would have."""
    after = []

    def work() -> None:
        with deferred() as look:
            look()
            signal.raise_signal(signal.SIGINT)
            after.append("signal")
            look()
            after.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert after == ["signal"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_deferred__raised_at_the_end() -> None:
    """One that nobody looked for is not lost."""
    after = []

    def work() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            after.append("signal")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert after == ["signal"]


def test_deferred__own_handler() -> None:
    """Whoever handled the signal before handles it, with its number."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with deferred() as look:
            signal.raise_signal(signal.SIGTERM)
            assert seen == []
            look()
            assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_deferred__an_error_goes_first() -> None:
    """An error of the block is not hidden by a signal that came meanwhile."""

    def work() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        work()


def test_deferred__other_thread() -> None:
    """Outside the main thread nothing changes, and nothing is refused."""
    looked = []

    def work() -> None:
        with deferred() as look:
            look()
            looked.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert looked == [True]
