"""The prompts that changed most against the baseline."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from world import World, healthy, judged, noisy, only, stage_of

from iqaction.rows import PAD
from iqaction.stages import _movers
from iqaction.stages._paired_items import Graded, Item, Kind

WORLD = World(units=12, length=8)
BASELINE = WORLD.capture(launches=3)
HIT = WORLD.names[4:6]


def test_of_figures__the_damaged_prompts_come_first() -> None:
    """Two prompts whose model is another one lead the list, the others follow by size."""
    movers = stage_of(judged(WORLD.compare(BASELINE, only(HIT, noisy(1.0)))), "score").movers
    rises = [m.value_after - m.value_before for m in movers]

    assert {m.unit for m in movers[:2]} == set(HIT)
    assert rises == sorted(rises, reverse=True)
    assert {m.what for m in movers} == {"KL"}


def test_of_figures__the_text_is_the_reference_s() -> None:
    """The token with the largest KL is named, with the reference's own text before it."""
    mover = stage_of(judged(WORLD.compare(BASELINE, only(HIT, noisy(1.0)))), "score").movers[0]
    path = WORLD.path(mover.unit)

    assert mover.before == "".join(f"w{t} " for t in path[: mover.position])
    assert mover.baseline.startswith(f"w{path[mover.position]} ")
    assert mover.candidate.startswith("w")


def test_of_figures__the_same_token_with_another_probability() -> None:
    """Where both would write the same token, how sure each is says what moved."""
    flatter = WORLD.compare(BASELINE, lambda unit, logits: logits * 0.8)
    mover = stage_of(judged(flatter), "score").movers[0]
    shares = [re.fullmatch(r"w\d+  \((\d+) %\)", x) for x in (mover.baseline, mover.candidate)]

    assert all(shares)
    assert int(shares[0][1]) > int(shares[1][1])


def test_share__nothing_listed() -> None:
    """Without a list there is no probability to tell."""
    rows = WORLD.forced(WORLD.logits("p-000"), WORLD.path("p-000")).rows

    assert _movers._share(replace(rows, top=np.full_like(rows.top, PAD)), 0) == ""


def test_of_figures__an_equal_engine_moves_nothing() -> None:
    """Where no prompt's KL rises above the floor none is named, and 20 are named at most."""
    same = WORLD.compare(WORLD.capture(launches=3, noise=0.0), healthy, noise=0.0)
    many = World(units=30, length=4)
    worse = many.compare(many.capture(launches=3), noisy(1.0))

    assert stage_of(judged(same), "score").movers == ()
    assert len(stage_of(judged(worse), "score").movers) == _movers.MOST


def test_of_figures__without_rows() -> None:
    """A prompt without rows is named without a text."""
    leg = _leg()
    zeros, now = np.zeros(len(leg.units)), np.arange(len(leg.units), dtype=float)
    movers = _movers.of_figures(leg, "nll", (zeros, now), {}, lambda _: None)

    assert movers[0].unit == leg.units[-1]
    assert (movers[0].what, movers[0].position, movers[0].before) == ("NLL", -1, "")
    assert movers[0].bucket == ""


@pytest.mark.parametrize(("both_ways", "first"), [(False, 1), (True, 0)])
def test_of_figures__falls_count_where_they_are_asked_for(both_ways: bool, first: int) -> None:
    """Against a baseline only rises are named; between two runs both."""
    leg = _leg()
    before, now = np.zeros(len(leg.units)), np.zeros(len(leg.units))
    before[0], now[1] = 0.9, 0.5
    values = before, now
    movers = _movers.of_figures(leg, "kl", values, {}, lambda _: None, both_ways=both_ways)

    assert [m.unit for m in movers] == list(leg.units[first:2])


def _leg() -> object:
    from iqaction.stages._forced import Pairing, leg  # noqa: PLC0415 - beside its only use

    rows = {u: WORLD.forced(WORLD.logits(u), WORLD.path(u)).rows for u in WORLD.names}
    return leg(Pairing(u, r, r) for u, r in rows.items())


def test_likeliest__an_empty_list() -> None:
    """Without a listed token the chosen one stands for it."""
    rows = WORLD.forced(WORLD.logits("p-000"), WORLD.path("p-000")).rows
    bare = replace(rows, top=np.full_like(rows.top, PAD))

    assert _movers.likeliest(bare, 2) == f"w{rows.chosen[2]} "


def test_likeliest__named_by_the_other() -> None:
    """A token that one engine never names has the text that the other gives it."""
    rows = WORLD.forced(WORLD.logits("p-000"), WORLD.path("p-000")).rows
    nameless = replace(rows, pieces={})

    assert _movers.likeliest(nameless, 0, rows) == rows.piece(int(rows.top[0, 0]))
    assert _movers.likeliest(nameless, 0) == f"<{int(rows.top[0, 0])}>"


def item(unit: str, a: Kind, b: Kind) -> Item:
    return Item(unit, Graded(a, "1", end="so 1"), Graded(b, "2", end="2"))


def test_of_flips__lost_before_gained() -> None:
    """What flipped, both answers, and the right one; what is right on both sides is left out."""
    right, wrong = Kind.RIGHT, Kind.WRONG
    items = [item("c", wrong, right), item("b", right, wrong), item("a", right, right)]
    movers = _movers.of_flips([*items, item("d", right, Kind.LOST)], "gsm8k", lambda u: f"<{u}>")

    assert [(m.unit, m.what, m.baseline, m.candidate) for m in movers] == [
        ("b", "lost, <b> is right", "1: so 1", "2"),
        ("c", "gained, <c> is right", "1: so 1", "2"),
    ]
