"""Items on two sides: what a verdict may cover, and when a loss is one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction.stages import _paired_items
from iqaction.stages._paired_items import (
    LOSS_P,
    Covered,
    Graded,
    Item,
    Kind,
    completed,
    cover,
    decide,
    flips,
    is_decided,
    last_line,
    permuted,
    right,
    settles,
)
from iqaction.stats.paired import Finding

KINDS = {
    "R": Kind.RIGHT,
    "W": Kind.WRONG,
    "C": Kind.CUT_OFF,
    "F": Kind.FAILED,
    "T": Kind.LOST,
    "P": Kind.FAULT,
    "B": Kind.UNSENT,
    ".": Kind.MISSING,
}


def items(text: str) -> list[Item]:
    """`RR*3 RW`: three kept and one lost, baseline first."""
    pairs = [w[:2] for word in text.split() for w in [word[:2]] * int(word[3:] or 1)]
    return [Item(f"u{i}", *(_side(x) for x in pair)) for i, pair in enumerate(pairs)]


def _side(letter: str) -> Graded:
    return Graded(KINDS[letter], ended=letter != "C")


def found(text: str, margin: float = 0.02) -> Finding | None:
    decision = decide(cover(items(text)), margin, right)
    return None if decision is None else decision.finding


def test_permuted__prefix() -> None:
    """The order depends on a unit's own name and the seed: other units do not change it."""
    many, few = [f"u{i}" for i in range(200)], [f"u{i}" for i in range(0, 200, 3)]

    assert [u for u in permuted(many, 4) if u in few] == list(permuted(reversed(few), 4))
    assert permuted(many, 4) != permuted(many, 5)
    assert sorted(permuted(many, 4)) == sorted(many)


@pytest.mark.parametrize(
    ("text", "n", "cut"),
    [
        ("RR*5", 5, False),
        ("RR*3 R.*2", 3, False),
        ("RR*3 .R*2", 3, False),
        ("RR*3 R. RR", 5, False),
        ("RR*3 RB RR", 3, True),
        ("RR*3 BR RR", 3, True),
        ("RR*2 R. RB R.", 3, True),
        ("RB RR*9", 0, True),
        ("R.*9", 0, False),
    ],
)
def test_cover(text: str, n: int, cut: bool) -> None:
    """Covered is what comes before the first mark; an end without answers is left away, and a
    hole is not."""
    covered = cover(items(text))

    assert (len(covered.items), covered.cut) == (n, cut)
    assert covered.planned == len(items(text))


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("RR*60", [10, 20, 30, 40, 50, 60]),
        ("RR*33 RB RR*26", [10, 20, 30, 33]),
        ("RR*33 R.*27", [10, 20, 30, 40, 50, 60]),
        ("RB RR*59", []),
    ],
)
def test_looks(text: str, looks: list[int]) -> None:
    """A time budget makes a look where it ends; a run that broke off makes none."""
    assert [look.n for look in cover(items(text)).looks] == looks


def test_looks__none() -> None:
    """Without items there is no look, and nothing is decided."""
    assert cover([]).looks == ()
    assert found("") is None
    assert decide(Covered((), 300), 0.02, right) is None


@pytest.mark.parametrize("text", ["RR*17 RW*7", "RR*15 RW", "RW*9 RR*15"])
def test_decide__a_few_are_no_loss(text: str) -> None:
    """What the bound calls a loss and the exact test is not sure of is open, never a pass."""
    assert found(text) is Finding.UNDECIDED


def test_decide__loss_at_a_later_look() -> None:
    """A loss that an early look was too small to show is found at a later one."""
    decision = decide(cover(items("RW*4 RR*12 RW*12 RR*68")), 0.02, right)

    assert decision is not None
    assert decision.finding is Finding.BEYOND
    assert decision.look.n > 16
    assert decision.mcnemar_p <= LOSS_P


def test_decide__no_pass_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looked like a loss and was not sure is never a pass later, however well it goes on."""
    text = "RW*60 RR*160 WR*60 RR*1040"
    assert found(text) is Finding.BEYOND
    monkeypatch.setattr(_paired_items, "LOSS_P", 0.0)

    assert found(text) is Finding.UNDECIDED
    assert found("RR*1040 RW*60 WR*60 RR*160") is Finding.WITHIN


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.text("RW", min_size=1, max_size=60), st.text("RW", min_size=60, max_size=60))
def test_decide__a_loss_is_one(base: str, candidate: str) -> None:
    """No look finds a loss in fewer than 16 items, nor against the exact test."""
    text = " ".join(a + b for a, b in zip(base, candidate, strict=False))
    decision = decide(cover(items(text)), 0.02, right)

    assert decision is not None
    if decision.finding is Finding.BEYOND:
        assert decision.look.n >= 16
        assert decision.mcnemar_p <= 0.002
        assert decision.counts.lost > decision.counts.gained


def test_completed() -> None:
    """Whole is an answer that ended, right or wrong; lost on the way is not known."""
    said = {letter: completed(_side(letter)) for letter in "RWCFPT."}

    assert said == {
        "R": True, "W": True, "C": False, "F": False, "P": False, "T": None, ".": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "settled"),
    [("RR*300", True), ("RW*100 RR*200", True), ("WR*300", True), ("RR*100", False), ("", False)],
)
def test_settles(text: str, settled: bool) -> None:
    """Asking ends where both checks are decided, or one is lost."""
    assert settles(cover(items(text)), 0.02) is settled
    assert not is_decided(None)


def test_flips() -> None:
    """Flips are counted where both sides answered; none at all has no rate."""
    some = flips(items("RR*5 RW WR*2 WC R. PR"))

    assert (some.flipped, some.n, some.rate) == (3, 9, 3 / 9)
    assert flips([]).rate is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "b"),
        ("a\n\n  b  \n\n", "b"),
        ("", ""),
        (" \n ", ""),
        ("x" * 99, "x" * 60),
        ("a\u2028b", "b"),
    ],
)
def test_last_line(text: str, line: str) -> None:
    """The end of the last line that says something, of at most 60 characters."""
    assert last_line(text) == line
