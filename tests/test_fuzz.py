"""Damaged inputs of every kind are read or refused in words, and nothing else happens.

A bounded number here; `.ci/fuzz` reads 100,000 and more, others each night.
"""

from __future__ import annotations

import os
import time

import pytest
from fuzz_targets import TARGETS, Target, read
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

TOTAL = int(os.environ.get("IQACTION_FUZZ", "1000"))
SLOWEST_S = 5.0  # for one input, on a machine that does something else as well


@pytest.mark.timeout(0)
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.__name__)
def test_fuzz(target: Target) -> None:
    """Every input of this kind is read, or refused with an error of ours, in a short time."""
    counted = {True: 0, False: 0}

    # A seed shrinks to nothing that tells more than itself.
    @settings(
        max_examples=max(5, round(TOTAL * TARGETS[target])),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**63))
    def one(seed: int) -> None:
        started = time.process_time()
        counted[read(target, seed)] += 1
        assert time.process_time() - started < SLOWEST_S

    one()
    print(f"{target.__name__}: {counted[True]} read, {counted[False]} refused")

    assert sum(counted.values()) >= min(5, TOTAL)
