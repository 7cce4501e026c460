"""Every prompt belongs to one leg, whatever the number of legs."""

from __future__ import annotations

import dataclasses

import evidence_factory as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction import shards
from iqaction.errors import ConfigError


@given(st.integers(0, 300), st.integers(1, 256))
def test_part__each_prompt_once(n, parts):
    """Together the legs ask all prompts, none of them twice, as evenly as can be."""
    ids = [f"p-{i}" for i in range(n)]

    legs = [shards.part(ids, i + 1, parts) for i in range(parts)]

    assert sorted(x for leg in legs for x in leg) == sorted(ids)
    assert max(map(len, legs)) - min(map(len, legs)) <= 1


def test_part__the_whole():
    """Where nothing is split, everything is asked in the plan's order."""
    assert shards.part(("a", "b"), 0, 0) == ("a", "b")


@pytest.mark.parametrize(("text", "shard"), [("2/4", (2, 4)), (" 1 / 1 ", (1, 1)), ("", (0, 0))])
def test_read(text, shard):
    """Which part of how many."""
    assert shards.read(text, "shard") == shard


@pytest.mark.parametrize("text", ["0/4", "5/4", "2", "2/", "a/b", "-1/4", "1/257", "1/4/2", "2/²"])
def test_read__refused(text):
    """Half of a matrix that is mistyped would look like the whole of it."""
    with pytest.raises(ConfigError, match="shard: found"):
        shards.read(text, "shard")


def test_asked__only_what_is_asked_changes():
    """Stages and baseline stay; one look, because legs cannot agree on a second."""
    plan = dataclasses.replace(made.plan(), looks=(2, 3))

    asked = shards.asked(plan, 2, 2)

    assert asked == dataclasses.replace(plan, prompt_ids=("p-1",), looks=(1,))
    assert shards.asked(plan, 0, 0) is plan


def test_asked__an_empty_leg_is_a_mistake():
    """More legs than prompts: the leg would be green with nothing asked."""
    with pytest.raises(ConfigError, match="holds no prompt"):
        shards.asked(made.plan(), 4, 4)
