"""Sending forced requests, for both directions of `score`: one at a time, failures once more.

Prompt log-probabilities of several long prompts at once have killed engines, and load is what
the *decoded* side of the self leg is there to show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iqaction.calls import Failure, FailureKind, Force
from iqaction.stages._base import Asking, Round
from iqaction.stages._paths import FRESH

# Where so many prompts are broken, their being broken again decides; all of them would cost as
# much as the whole leg.
MOST_AGAIN = 32


def forced(calls: Iterable[Force], label: str) -> Asking:
    """One at a time; what the engine failed on is asked once more at the end."""
    calls = tuple(calls)
    if not calls:
        return
    observations = yield Round(calls, 1, label)
    failed = [
        attempt(call, 1)
        for call, seen in zip(calls, observations, strict=True)
        if isinstance(seen.answer, Failure) and seen.answer.kind is not FailureKind.UNSUPPORTED
    ]
    if failed:
        yield Round(tuple(failed), 1, f"{label}, failed once")


def once_more(calls: Iterable[Force], units: tuple[str, ...], label: str) -> Asking:
    """The calls of the first of these prompts, as fresh requests."""
    few = set(units[:MOST_AGAIN])
    again = tuple(attempt(c, FRESH) for c in calls if c.tag.unit in few)
    if again:
        yield Round(again, 1, label)


def attempt(call: Force, number: int) -> Force:
    """The same call under another attempt's number."""
    return replace(call, tag=replace(call.tag, attempt=number))
