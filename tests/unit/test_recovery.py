"""What of a round is asked again before its stage sees it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Chat,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Tag,
    digest,
)
from iqaction.recovery import asked_again

FINE = Generation("x", "stop")
LOST = sorted({"connect", "reset", "proxy", "busy", "truncated body"})
DAMAGED = sorted({"malformed", "aborted", "too large"})
ANSWERS = sorted({"timeout", "unsupported", "budget"})


def round_of(*answers: Answer) -> Sequence[tuple[Call, Observation]]:
    calls = [Chat(Tag(Arm.CANDIDATE, "leg", f"u-{i}"), (), 4) for i in range(len(answers))]
    return [
        (c, Observation(c.tag, digest(c), answer)) for c, answer in zip(calls, answers, strict=True)
    ]


def units(answers: Sequence[Answer], turn: int) -> list[int]:
    return [int(c.tag.unit[2:]) for c in asked_again(round_of(*answers), turn)]


def test_asked_again__every_kind_is_sorted() -> None:
    """A kind of failure that is added later must be put into one of the three."""
    assert sorted((*LOST, *DAMAGED, *ANSWERS, "status")) == sorted(FailureKind)


@pytest.mark.parametrize("kind", sorted(FailureKind))
@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_asked_again__by_kind(kind: FailureKind, turn: int) -> None:
    """Lost on the way, or damaged: three times; an answer of the engine's own: not at all."""
    wanted = kind in (*LOST, *DAMAGED) and turn < 3

    assert units([FINE, Failure(kind, "?", 404), FINE], turn) == [1] * wanted


@pytest.mark.parametrize(("status", "asked"), [(400, 0), (404, 0), (500, 1), (507, 1), (None, 0)])
def test_asked_again__by_status(status: int | None, asked: int) -> None:
    """A server error may pass; a refusal stays one."""
    assert units([FINE, Failure(FailureKind.STATUS, "?", status)], 0) == [1] * asked


@pytest.mark.parametrize(
    ("fine", "failed", "asked"), [(0, 1, 1), (0, 8, 8), (0, 9, 0), (10, 10, 10), (10, 11, 0)]
)
def test_asked_again__many_damaged(fine: int, failed: int, asked: int) -> None:
    """More than half of a round, and more than a few: it is the engine that fails."""
    error = Failure(FailureKind.STATUS, "?", 500)
    gone = Failure(FailureKind.RESET, "?")

    assert len(units([FINE] * fine + [error] * failed, 0)) == asked
    assert len(units([FINE] * fine + [gone] * failed, 0)) == failed


def test_asked_again__nothing_failed() -> None:
    """A round without failures, or without calls, asks nothing."""
    assert units([FINE, FINE], 0) == []
    assert units([], 0) == []
