"""Figures for display: the means by position and input, the tails, the points of the plots."""

from __future__ import annotations

import numpy as np
import pytest
from world import World, noisy, rows

from iqaction.stages._forced import Leg, Pairing, leg
from iqaction.stages._score_tables import series, tables

WORLD = World(units=4, length=300)
BUCKETS = {p.id: p.bucket for p in WORLD.prompts().values()}


def one(sd: float, world: World = WORLD) -> Leg:
    damage = noisy(sd)
    return leg(
        Pairing(
            u,
            rows(world.logits(u), world.path(u), 20),
            rows(damage(u, world.logits(u)), world.path(u), 20),
        )
        for u in world.names
    )


def test_tables__by_position() -> None:
    """Rows stand in the order of the positions, and hold the means of their positions."""
    candidate, floors = one(0.5), (one(0.1), one(0.2))
    table = tables(candidate, floors, BUCKETS)[0]

    assert [row[0] for row in table.rows] == ["0-15", "16-63", "64-255", "256+"]
    assert [row[1] for row in table.rows] == [64, 192, 768, 176]
    kl = candidate.compared.kl.reshape(4, 300)
    before = np.concatenate([f.compared.kl.reshape(4, 300) for f in floors])
    assert table.columns[2:4] == ("KL (>=)", "KL (>=), floor")
    assert table.rows[1][2:4] == pytest.approx((kl[:, 16:64].mean(), before[:, 16:64].mean()))
    nll = candidate.compared.nll_cand.reshape(4, 300)
    assert table.rows[3][-2] == pytest.approx(nll[:, 256:].mean())


def test_tables__by_input() -> None:
    """Rows are the prompts' own buckets."""
    candidate = one(0.5)
    table = tables(candidate, (), BUCKETS)[1]

    assert [row[0] for row in table.rows] == ["code", "short"]
    agree = candidate.compared.agree.reshape(4, 300)
    differ = table.columns.index("differ")
    assert table.rows[0][differ] == pytest.approx((~agree[[0, 2]]).mean())
    assert all(row[differ + 1] is None for row in table.rows)  # no floor


def test_tables__tails() -> None:
    """Percentiles, same-top share, RMS of the change, perplexity and covered mass."""
    candidate = one(0.5)
    c = candidate.compared
    table = tables(candidate, (one(0.1),), BUCKETS)[2]
    figures = {row[0]: row[1] for row in table.rows}

    assert figures["token KL, median"] == pytest.approx(np.median(c.kl))
    assert figures["token KL, 99.9 %"] == pytest.approx(np.percentile(c.kl, 99.9))
    assert figures["token KL, largest"] == c.kl.max()
    assert figures["same top token"] == pytest.approx(c.agree.mean())
    rms = figures["RMS change of the token's probability"]
    assert rms == pytest.approx(np.sqrt((c.delta_p**2).mean()))
    assert figures["perplexity"] == pytest.approx(np.exp(c.nll_cand.mean()))
    assert figures["reference mass covered by shared tokens"] == pytest.approx(c.covered.mean())
    assert all(row[2] is not None for row in table.rows)


def test_tables__without_floor_or_prompts() -> None:
    """No floor leaves its column empty; no prompts leave no table."""
    tails = tables(one(0.5), (), BUCKETS)[2]

    assert all(row[2] is None for row in tails.rows)
    none = leg(iter([]))
    assert tables(none, (none,), {}) == ()
    assert series(none, np.empty(0), np.empty(0), 0.02) == ()


def test_series__largest_first() -> None:
    """Prompts are drawn by their KL beyond the floor, largest first, with the margin."""
    candidate = one(0.5)
    floor = np.array([0.0, 0.1, 0.2, 0.3])
    now = np.array([0.1, 0.5, 0.1, 0.31])

    by_prompt, by_position = series(candidate, floor, now, 0.02)

    assert by_prompt.labels == ("p-001", "p-000", "p-003", "p-002")
    assert by_prompt.y == pytest.approx((0.4, 0.1, 0.01, -0.1))
    assert by_prompt.limit == 0.02
    assert len(by_position.y) == 300
    kl = candidate.compared.kl.reshape(4, 300)
    assert by_position.y[7] == pytest.approx(kl[:, 7].mean())


def test_series__many_points() -> None:
    """Long texts and many prompts give at most 512 points."""
    world = World(units=2, length=600)
    long = one(0.5, world)
    by_prompt, by_position = series(long, np.zeros(2), np.ones(2), None)
    kl = long.compared.kl.reshape(2, 600)

    assert len(by_position.y) == 512
    assert by_position.y[511] == pytest.approx(kl[:, 511:].mean())
    assert by_prompt.limit is None


def test_series__different_lengths() -> None:
    """A position that only the longer texts have is their mean."""
    short, long = World(units=1, length=3), World(units=2, length=5)
    pairs = [
        Pairing(u, rows(w.logits(u), w.path(u), 9), rows(w.logits(u) * 1.2, w.path(u), 9))
        for w, u in ((short, "p-000"), (long, "p-001"))
    ]
    both = leg(iter(pairs))
    _, by_position = series(both, np.zeros(2), np.zeros(2), None)

    kl = both.compared.kl
    assert by_position.y[4] == pytest.approx(kl[7])
    assert by_position.y[0] == pytest.approx((kl[0] + kl[3]) / 2)


def test_series__last_bits_change_no_order() -> None:
    """Prompts that differ by a last bit only, which may be another elsewhere, keep their order."""
    candidate = one(0.5)
    bits = np.array([0.0, 1e-18, -1e-18, 1e-17])
    by_prompt, _ = series(candidate, np.zeros(4), bits, None)

    assert by_prompt.labels == candidate.units
