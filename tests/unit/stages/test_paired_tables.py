"""The tables of paired items: the flips with both answers, and what came of all."""

from __future__ import annotations

from iqaction.stages._paired_items import Graded, Item, Kind
from iqaction.stages._paired_tables import flip_table

R, W, LOST = Graded(Kind.RIGHT), Graded(Kind.WRONG), Graded(Kind.LOST, why="timeout")


def items(*runs: tuple[Graded, Graded, int]) -> list[Item]:
    pairs = [(a, b) for a, b, n in runs for _ in range(n)]
    return [Item(f"u{i:04}", a, b) for i, (a, b) in enumerate(pairs)]


def test_flip_table() -> None:
    """At most fifty rows, and the title says of how many; nothing flipped has no table."""
    table = flip_table(items((R, W, 70)), lambda unit: "1")

    assert table is not None
    assert (table.title, len(table.rows)) == ("answers that flipped, 50 of 70", 50)
    assert flip_table(items((R, R, 3), (R, LOST, 3)), lambda unit: "1") is None
