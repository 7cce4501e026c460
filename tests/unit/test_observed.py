"""What a loaded evidence folder says of itself."""

from __future__ import annotations

from dataclasses import replace

from world import ENGINE, World

from iqaction.calls import Arm
from iqaction.observed import Observed


def test_launches__relaunches_only() -> None:
    """Relaunches are counted by who answered, in order, without the first start."""
    world = World(units=1, length=2)
    engines = {(Arm.REPEAT, 3): ENGINE, (Arm.BASELINE, 0): ENGINE, (Arm.REPEAT, 1): ENGINE}

    observed = replace(world.capture(launches=0), engines=engines)

    assert observed.launches == (1, 3)


def test_observed__defaults() -> None:
    """Evidence without engines, problems or a baseline is complete as data."""
    world = World(units=1, length=2)

    observed = Observed(world.plan(), world.prompts(), {})

    assert observed.launches == ()
    assert observed.baseline is None
    assert observed.problems == ()
    assert observed.root == ""
