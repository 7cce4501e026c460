"""Broken prompts: the rule, the count, and what it concludes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact
from world import World, noisy, only, rows

from iqaction.report import UnitFault
from iqaction.stages import _broken
from iqaction.stages._broken import Hits, What, broken, find
from iqaction.stages._forced import Leg, Pairing, leg
from iqaction.stages._lost import Lost
from iqaction.verdict import Verdict

WHAT = What("x.broken", "x", "broken")
ONE = World(units=4).plan()
TWO = World(units=4).plan(looks=(2, 4))


@pytest.mark.parametrize(
    ("kl", "decisive", "length", "hit"),
    [
        (0.1, 0, 64, False),
        (0.1001, 0, 64, True),
        (0.1001, 0, 16, True),
        (0.1001, 0, 15, False),  # 1.6 / 15 = .1067
        (0.107, 0, 15, True),
        (1.6, 0, 1, False),
        (1.61, 0, 1, True),
        (0.0, 3, 59, True),  # 5.08 %
        (0.0, 3, 60, False),  # 5 % is not more than 5 %
        (0.0, 2, 16, False),
        (0.0, 3, 16, True),
        (0.0, 15, 15, False),  # under 16 positions only KL counts
        (-1.0, 0, 64, False),
    ],
)
def test_broken__rule(kl: float, decisive: float, length: int, hit: bool) -> None:
    """KL beyond .1 nats, or 3 decisive disagreements and more than 5 %; short texts by KL."""
    found = broken(np.array([kl]), np.array([decisive]), np.array([length]))

    assert found.tolist() == [hit]


def test_broken__empty() -> None:
    """No prompts, none broken."""
    assert broken(np.empty(0), np.empty(0), np.empty(0, np.int64)).tolist() == []


def hits(n: int, reproduced: int | None = None, severe: int = 0, floor: int = 0) -> Hits:
    units = tuple(f"p{i}" for i in range(n))
    again = units[: n if reproduced is None else reproduced]
    return Hits(dict.fromkeys(units, "KL 1"), again, again[:severe], floor, units)


@pytest.mark.parametrize(
    ("n", "found", "verdict"),
    [
        (59, hits(0), "PASS"),
        (58, hits(0), "UNPROVEN"),
        (0, hits(0), "UNPROVEN"),
        (93, hits(1), "PASS"),
        (92, hits(1), "UNPROVEN"),
        (64, hits(3), "UNPROVEN"),
        (64, hits(4), "UNPROVEN"),
        (64, hits(5), "FAIL"),
        (64, hits(5, reproduced=4), "UNPROVEN"),
        (64, hits(5, floor=1), "UNPROVEN"),
        (64, hits(2, severe=2), "FAIL"),
        (64, hits(2, severe=1), "UNPROVEN"),
        (2, hits(2, severe=2), "FAIL"),
        (64, hits(64), "FAIL"),
    ],
)
def test_check__counts(n: int, found: Hits, verdict: str) -> None:
    """0 of 59 and 1 of 93 PASS; 5 reproduced against none, or 2 severe ones, FAIL."""
    check = _broken.check(ONE, found, Lost(), n, WHAT)

    assert check.verdict.value == verdict
    for unit in [*found.hits][:8]:
        assert unit in check.reason
    if n:
        assert check.estimate is not None
        assert check.estimate.value == len(found.hits) / n


@pytest.mark.parametrize(("hit", "floor"), [(5, 0), (4, 0), (8, 2), (64, 64)])
def test_check__second_implementation(hit: int, floor: int) -> None:
    """FAIL by count is Fisher's exact test against one relaunch of the floor."""
    p = fisher_exact([[hit, 64 - hit], [floor, 64 - floor]], alternative="greater").pvalue

    check = _broken.check(ONE, hits(hit, floor=floor), Lost(), 64, WHAT)

    assert (check.verdict is Verdict.FAIL) is bool(p < 0.05)


@pytest.mark.parametrize(("n", "verdict"), [(69, "PASS"), (68, "UNPROVEN")])
def test_check__two_looks(n: int, verdict: str) -> None:
    """Where an extension is planned, each look has its share of the level."""
    assert _broken.check(TWO, hits(0), Lost(), n, WHAT).verdict.value == verdict


def test_check__failed_prompts_are_broken_for_a_pass() -> None:
    """A prompt that failed counts as broken against a PASS, and as nothing for a FAIL."""
    lost = {f"q{i}": "HTTP 500" for i in range(20)}

    one = _broken.check(ONE, hits(0), Lost(failed={"q0": "HTTP 500"}), 64, WHAT)
    many = _broken.check(ONE, hits(0), Lost(failed=lost), 64, WHAT)

    assert one.verdict is Verdict.UNPROVEN
    assert "1 failed on the candidate: q0" in one.reason
    assert many.verdict is Verdict.UNPROVEN
    assert _broken.check(ONE, hits(0), Lost(failed={"q0": "?"}), 93, WHAT).verdict is Verdict.PASS
    same = _broken.check(ONE, hits(1), Lost(failed={"p0": "?"}), 93, WHAT)
    assert same.verdict is Verdict.PASS  # one prompt, counted once


@pytest.mark.parametrize("lost", [Lost(missing={"q": "?"}), Lost(gaps={"q": "baseline: ?"})])
def test_check__unknown(lost: Lost) -> None:
    """A prompt of which nothing is known prevents a PASS, never a FAIL."""
    passing = _broken.check(ONE, hits(0), lost, 200, WHAT)
    failing = _broken.check(ONE, hits(5), lost, 64, WHAT)

    assert passing.verdict is Verdict.UNPROVEN
    assert not passing.more_would_help
    assert failing.verdict is Verdict.FAIL


def test_check__power() -> None:
    """An open count says how many more prompts would decide it, or that none would."""
    few, beyond = (_broken.check(ONE, h, Lost(), 64, WHAT) for h in (hits(1), hits(4)))

    assert few.more_would_help
    assert "29 more prompts" in few.power
    assert not beyond.more_would_help
    assert "more prompts will not make this PASS" in beyond.power


WORLD = World(units=6, length=20)


def one_leg(damage: object = lambda unit, logits: logits, units: object = WORLD.names) -> Leg:
    return leg(
        Pairing(
            u,
            rows(WORLD.logits(u), WORLD.path(u), 20),
            rows(damage(u, WORLD.logits(u)), WORLD.path(u), 20),  # type: ignore[operator]
        )
        for u in units  # type: ignore[attr-defined]
    )


def test_find__reproduced_and_severe() -> None:
    """A hit is reproduced where the fresh request is broken too, and severe beyond .5 nats."""
    damage = only(("p-001", "p-004"), noisy(4.0))
    mild = only(("p-003",), noisy(0.8))

    def both(unit: str, logits: np.ndarray) -> np.ndarray:
        return mild(unit, damage(unit, logits))

    found = find(
        one_leg(both),
        (one_leg(noisy(0.01)),),
        lambda units: one_leg(lambda u, x: x if u == "p-004" else both(u, x), units),
    )

    assert tuple(found.hits) == ("p-001", "p-003", "p-004")
    assert found.reproduced == ("p-001", "p-003")
    assert found.severe == ("p-001",)
    assert found.floor_hits == 0
    assert "decisive disagreements" in found.hits["p-001"]
    faults = found.faults(WORLD.prompts(), "broken")
    assert faults[0] == UnitFault(
        "p-001", "short", "broken", f"{found.hits['p-001']}; again when asked once more"
    )
    assert faults[2].detail.endswith("; not again when asked once more")


def test_find__worst_launch_of_the_floor() -> None:
    """The floor's count is that of its worst launch, each held against their mean."""
    healthy, bad = one_leg(), one_leg(only(("p-000", "p-002"), noisy(4.0)))

    found = find(healthy, (healthy, bad, healthy), lambda units: one_leg(units=units))

    assert found.hits == {}
    assert found.floor_hits == 2


def test_find__own_texts() -> None:
    """Over texts of its own the baseline disagrees too: only what goes beyond that is broken."""
    usual = one_leg(noisy(0.45, seed=1))
    share = float(usual.compared.decisive.mean())
    assert share > 0.05

    along = find(usual, (usual,), lambda units: one_leg(units=()))
    own = find(usual, (usual,), lambda units: one_leg(units=()), own_texts=True)

    assert along.hits
    assert not own.hits


def test_find__nothing() -> None:
    """No prompts and no launches: nothing found, nothing raised."""
    found = find(one_leg(units=()), (), lambda units: one_leg(units=()))

    assert found == Hits({}, ())
