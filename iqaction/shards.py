"""Parts of one plan that run on several machines: which prompts belong to which. Pure.

Every leg knows the whole plan and asks its own part of it, so that the legs' evidence can be put
together again and judged as if one machine had asked everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from iqaction.errors import ConfigError
from iqaction.plan import Plan

MAX_SHARDS = 256
_SHARD = re.compile(r"([1-9][0-9]{0,3}) ?/ ?([1-9][0-9]{0,3})\Z")


def read(text: str, place: str) -> tuple[int, int]:
    """``"2/4"`` as (2, 4): the second of four; nothing is (0, 0), the whole.

    Raises
    ------
    ConfigError
        It is neither.
    """
    if not text.strip():
        return 0, 0
    found = _SHARD.match(text.strip())
    shard, shards = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= shard <= shards <= MAX_SHARDS:
        raise ConfigError(
            f"{place}: found {text.strip()[:40]!r}",
            expected=f"which part of how many, as 2/4 (at most {MAX_SHARDS} parts)",
        )
    return shard, shards


def part(ids: Sequence[str], shard: int, shards: int) -> tuple[str, ...]:
    """Every ``shards``-th prompt, from the ``shard``-th on: each part holds every kind of prompt,
    because prompts of a kind stand together in a prompt file. 0 of 0 is all of them."""
    return tuple(ids) if not shards else tuple(ids[shard - 1 :: shards])


def asked(plan: Plan, shard: int, shards: int) -> Plan:
    """What one leg asks: the plan with its own prompts alone. Not what its evidence is kept under:
    that is the whole plan, the same in every leg."""
    if not shards:
        return plan
    ids = part(plan.prompt_ids, shard, shards)
    if not ids:
        raise ConfigError(
            f"shard {shard}/{shards} holds no prompt: the plan has {len(plan.prompt_ids)}",
            expected="at most as many shards as prompts",
        )
    return replace(plan, prompt_ids=ids, looks=(len(ids),))
