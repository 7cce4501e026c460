"""Captured references that many cases are compared with. Nobody changes them: they are frozen."""

from __future__ import annotations

import pytest
from fake_engine import FakeEngine, captured, compared
from world import World

from iqaction.observed import Observed


@pytest.fixture(scope="session")
def world() -> World:
    """64 prompts of 16 tokens, cut at the length limit."""
    return World(units=64, length=16)


@pytest.fixture(scope="session")
def baseline(world: World) -> Observed:
    """A healthy reference with five relaunches, observed by a real run of the fake engine."""
    return captured(world, launches=5)


@pytest.fixture(scope="session")
def stopping() -> World:
    """64 prompts whose texts stop; the end token has no row in chats, as at llama.cpp."""
    return World(units=64, length=16, end="omitted")


@pytest.fixture(scope="session")
def stopped(stopping: World) -> Observed:
    return captured(stopping, launches=3)


@pytest.fixture(scope="session")
def well(world: World, baseline: Observed) -> Observed:
    """A healthy candidate against ``baseline``, both legs."""
    return compared(world, FakeEngine(world), baseline)


@pytest.fixture(scope="session")
def well_along(world: World, baseline: Observed) -> Observed:
    """A healthy candidate against ``baseline``, the reference leg only."""
    return compared(world, FakeEngine(world), baseline, legs=("reference",))
