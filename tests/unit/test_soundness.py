"""A stored plan that no stage can be judged by is refused in words; an older one is completed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from whole_evidence import Whole

from iqaction.errors import EvidenceError
from iqaction.plan import Margin, Plan
from iqaction.soundness import completed

PLAN = Whole().plan()


def changed(stage: str, **params: object) -> Plan:
    stages = tuple(
        replace(s, params={**s.params, **params}) if s.stage == stage else s  # type: ignore
        for s in PLAN.stages
    )
    return replace(PLAN, stages=stages)


def test_completed__a_sound_plan() -> None:
    """A plan as the tool makes it is as it was."""
    assert completed(PLAN) == PLAN
    assert completed(PLAN).sha256 == PLAN.sha256


def test_completed__absent_is_the_default() -> None:
    """A parameter that an older version did not know has its default."""
    older = replace(
        PLAN,
        stages=tuple(
            replace(s, params={k: v for k, v in s.params.items() if k != "concurrency"})
            for s in PLAN.stages
        ),
    )
    found = completed(older).stage("gsm8k")

    assert found is not None
    assert found.params["concurrency"] == "auto"


@pytest.mark.parametrize(
    ("stage", "params"),
    [
        ("gsm8k", {"limit": "many"}),
        ("gsm8k", {"limit": True}),
        ("gsm8k", {"margin": 32.0}),
        ("gsm8k", {"margin": 10**400}),
        ("gsm8k", {"wording": "none of ours"}),
        ("gsm8k", {"concurrency": "auto?"}),
        ("gsm8k", {"time_budget": "soon"}),
        ("gsm8k", {"chat_template_kwargs": 7}),
        ("niah", {"lengths": ()}),
        ("niah", {"lengths": 256}),
        ("niah", {"depths": ("a",)}),
        ("score", {"legs": ("reference", "other")}),
        ("score", {"reference": 1}),
        ("sampling", {"temperature": -1}),
        ("trajectory", {"top_logprobs": 1000}),
    ],
    ids=str,
)
def test_completed__a_parameter_that_is_none(stage: str, params: dict[str, object]) -> None:
    """Wrong types and impossible values are named."""
    (name,) = params

    with pytest.raises(EvidenceError, match=f"{stage}: {name} is none"):
        completed(changed(stage, **params))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (replace(PLAN, looks=()), "looks"),
        (replace(PLAN, looks=(65,)), "looks"),
        (replace(PLAN, looks=(10, 5)), "looks"),
        (replace(PLAN, looks=(-1,)), "looks"),
        (replace(PLAN, stages=PLAN.stages * 2), "a stage is there twice"),
        (replace(PLAN, stages=(replace(PLAN.stages[0], stage="x"),)), "there is no stage 'x'"),
        (replace(PLAN, stages=(replace(PLAN.stages[0], seed=-1),)), "its seed is no seed"),
        (
            replace(PLAN, stages=(replace(PLAN.stages[0], margins=(Margin("kl", -1.0),)),)),
            "the margin of 'kl' is none",
        ),
    ],
)
def test_completed__a_plan_that_is_none(plan: Plan, said: str) -> None:
    """Neither is what is not a parameter."""
    with pytest.raises(EvidenceError, match=said):
        completed(plan)
