"""One answer and one request for a person: what was drawn, and what was never sent."""

from __future__ import annotations

from dataclasses import replace

from world import World

from iqaction import answer_view
from iqaction.calls import Answer, Arm, Drawn, Failure, FailureKind, Generation, Observation, Tag
from iqaction.observed import Observed
from iqaction.rows import Position, Token, pack


def drawn(sequences: int, length: int) -> Drawn:
    one = Position(Token("a", -0.1, 1), (Token("a", -0.1, 1),))
    rows = pack([one] * (sequences * length))
    return Drawn(rows, (length,) * sequences, ("stop",) * sequences)


def seen(*answers: tuple[str, int, Answer]) -> Observed:
    """Evidence of one prompt: leg, attempt and answer of each of the candidate's requests."""
    observed = World(units=1, length=2).compare(World(units=1, length=2).capture(launches=1))
    kept = {}
    for leg, attempt, answer in answers:
        tag = Tag(Arm.CANDIDATE, leg, "p-000", 0, attempt)
        kept[tag] = Observation(tag, "0" * 64, answer)
    return replace(observed, seen={"sampling": kept}, baseline=None)


def test_draws__counted() -> None:
    """Sequences and positions of both sets, apart; a list that was asked for is no draw."""
    observed = seen(
        ("raw", 0, drawn(1, 1)),
        ("draws-0", 0, drawn(8, 4)),
        ("draws-1", 0, Failure(FailureKind.TIMEOUT, "late")),
        ("draws-1", 1, drawn(2, 4)),
        ("draws-0", 2, drawn(3, 4)),
    )

    assert answer_view.draws(observed, "p-000") == [
        "sampling: candidate, draws: 10 sequences, 40 positions",
        "sampling: candidate, fresh draws: 3 sequences, 12 positions",
    ]
    assert answer_view.draws(observed, "p-001") == []


def test_observations__not_sent() -> None:
    """The mark of a spent time budget is no failure."""
    observed = seen(("draws-0", 0, Failure(FailureKind.BUDGET, "the time budget is spent")))
    said = answer_view.observations(observed, "p-000", 100)

    assert "not sent" in said
    assert "failed" not in said


def test_written__reasoning_comes_first() -> None:
    """A text is shown with its reasoning, and how much of it that is."""
    said = answer_view.written("candidate", Generation("4", "stop", reasoning="2 + 2"), 80)

    assert said.splitlines()[-1] == "  | 2 + 24"
    assert "the first 5 characters are reasoning" in said
