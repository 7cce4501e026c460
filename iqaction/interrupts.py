"""Ctrl-C and SIGTERM that wait for a safe place. Knows signals and nothing of what is interrupted.

A signal's exception can rise between any two instructions of the main thread: also between the
taking of a lock and the block that gives it back, and then the clean-up waits for that lock for
ever. Work that shares locks with other threads therefore defers signals and looks for them where
it holds none.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK_S = 0.1  # how often a wait is left to look for a signal


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C would be: what stops cleanly for one does for the other."""


@contextmanager
def termination_raised() -> Iterator[None]:
    """SIGTERM raises :class:`Terminated` once; a second one does not disturb the cleaning up."""

    def raise_once(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, raise_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def deferred() -> Iterator[Callable[[], None]]:
    """Signals are noted instead of raised; the function given raises what came.

    What came and was not looked for is raised when the block has ended well. Outside the main
    thread, where Python runs no handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    handlers = {n: h for n in _SIGNALS if callable(h := signal.getsignal(n))}

    def look() -> None:
        if came:
            number = came.pop(0)
            handlers[signal.Signals(number)](number, None)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield look
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    look()
