"""The plan: canonical bytes, what its hashes cover, and refusal of what is no plan."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.errors import EvidenceError
from iqaction.plan import Margin, Plan, StageSpec, Value, from_json, to_bytes, to_json

SCORE = StageSpec(
    "score",
    {"legs": ("reference", "self"), "tokenizer": None, "k": 20, "tau": 0.5, "live": False},
    (Margin("kl", 0.02), Margin("decisive", 0.005, 93)),
    required=False,
    seed=7,
)
PLAN = Plan((StageSpec("trajectory"), SCORE), "ab" * 32, ("a", "b", "c"), (2, 3), "cd" * 32, "s")


def test_to_bytes__canonical() -> None:
    """The stored bytes are sorted, compact ASCII JSON with one newline, and are what is hashed."""
    data = to_bytes(PLAN)

    assert data.endswith(b"}\n")
    assert (
        data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode() + b"\n"
    )
    assert PLAN.sha256 == hashlib.sha256(data).hexdigest()


def test_to_bytes__order_of_params() -> None:
    """The order in which parameters were written is not part of the plan."""
    turned = dataclasses.replace(SCORE, params=dict(reversed(list(SCORE.params.items()))))

    assert to_bytes(PLAN) == to_bytes(dataclasses.replace(PLAN, stages=(PLAN.stages[0], turned)))


def test_to_bytes__nan() -> None:
    """NaN never reaches a plan file."""
    bad = StageSpec("score", margins=(Margin("kl", float("nan")),))

    with pytest.raises(ValueError, match="not JSON compliant"):
        to_bytes(dataclasses.replace(PLAN, stages=(bad,)))


def test_from_json__round_trip() -> None:
    """Reading gives back the plan, lists as tuples, ints as ints."""
    again = from_json(json.loads(to_bytes(PLAN)))

    assert again == PLAN
    assert again.stages[1].params["legs"] == ("reference", "self")
    assert again.sha256 == PLAN.sha256


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)


@given(
    st.dictionaries(
        st.text(max_size=5), st.one_of(scalars, st.lists(scalars, max_size=3).map(tuple))
    )
)
def test_from_json__any_params(params: dict[str, Value]) -> None:
    """Whatever the parameters are, the plan that is read has the hash of the one written."""
    plan = Plan((StageSpec("x", params),), "", ("a",), (1,))

    assert from_json(json.loads(to_bytes(plan))).sha256 == plan.sha256


@pytest.mark.parametrize(
    "change",
    [
        {"stages": (SCORE,)},
        {"stages": (PLAN.stages[0], dataclasses.replace(SCORE, margins=(Margin("kl", 0.03),)))},
        {"stages": (PLAN.stages[0], dataclasses.replace(SCORE, seed=8))},
        {"stages": (PLAN.stages[0], dataclasses.replace(SCORE, required=True))},
        {"prompts_sha256": "00" * 32},
        {"prompt_ids": ("b", "a", "c")},
        {"looks": (3,)},
        {"model_identity": "org/m"},
    ],
)
def test_settings_sha256__covers(change: dict[str, object]) -> None:
    """What both arms must share moves both hashes: margins, seeds, prompts and their order."""
    other = dataclasses.replace(PLAN, **change)  # type: ignore[arg-type]

    assert other.sha256 != PLAN.sha256
    assert other.settings_sha256() != PLAN.settings_sha256()


@pytest.mark.parametrize(
    "change", [{"baseline_root": ""}, {"suite": "t"}, {"max_age_days": 7}, {"strict": True}]
)
def test_settings_sha256__leaves_out(change: dict[str, object]) -> None:
    """The baseline and the suite's name are the plan's, and not the shared settings'."""
    other = dataclasses.replace(PLAN, **change)  # type: ignore[arg-type]

    assert other.sha256 != PLAN.sha256
    assert other.settings_sha256() == PLAN.settings_sha256()


def test_to_json__what_a_plan_does_not_say() -> None:
    """Keys that a plan does not set are not in it, so that older plans keep their hash; those that
    it sets come back."""
    plan = dataclasses.replace(PLAN, model_identity="org/m", max_age_days=7, strict=True)
    extra = set(to_json(plan)) - set(to_json(PLAN))

    assert extra == {"model_identity", "max_age_days", "strict"}
    assert to_bytes(from_json(json.loads(to_bytes(plan)))) == to_bytes(plan)


def test_is_capture() -> None:
    """A plan without a baseline is a capture."""
    assert dataclasses.replace(PLAN, baseline_root="").is_capture
    assert not PLAN.is_capture


def test_stage__by_name() -> None:
    """Stages are found by name; an absent one is None."""
    assert PLAN.stage("score") is SCORE
    assert PLAN.stage("gsm8k") is None


def test_stage_spec__typed_reading() -> None:
    """Parameters come back as what they are; an unset text is empty."""
    assert SCORE.integer("k") == 20
    assert SCORE.number("k") == 20.0
    assert SCORE.number("tau") == 0.5
    assert SCORE.text("tokenizer") == ""
    assert SCORE.names("legs") == ("reference", "self")
    assert SCORE.margin("decisive") == Margin("decisive", 0.005, 93)
    assert SCORE.margin("nll") is None


@pytest.mark.parametrize("name", ["live", "tau"])
def test_stage_spec__no_integer(name: str) -> None:
    """False is no 0, and half is no whole number."""
    with pytest.raises(AssertionError):
        SCORE.integer(name)


def broken_plans() -> list[tuple[str, object]]:
    whole = to_json(PLAN)
    cases: list[tuple[str, object]] = [
        (f"without {key}", {k: v for k, v in whole.items() if k != key})
        for key in whole
        if key != "$schema"
    ]
    for path, value in [
        (("stages",), {}),
        (("prompts_sha256",), None),
        (("stages", 0), "score"),
        (("stages", 1, "params"), []),
        (("stages", 1, "params", "k"), {"a": 1}),
        (("stages", 1, "margins", 0), [1]),
        (("stages", 1, "margins", 0, "limit"), "0.02"),
        (("stages", 1, "margins", 0, "min_units"), 59.5),
        (("stages", 1, "required"), 1),
        (("stages", 1, "seed"), None),
    ]:
        body: object = copy.deepcopy(whole)
        place = body
        for step in path[:-1]:
            place = place[step]  # type: ignore[index]
        place[path[-1]] = value  # type: ignore[index]
        cases.append((f"{path} = {value!r}", body))
    return cases


@pytest.mark.parametrize("body", [b for _, b in broken_plans()], ids=[n for n, _ in broken_plans()])
def test_from_json__refused(body: dict[str, None]) -> None:
    """What is no plan is refused as evidence, whatever part of it is wrong."""
    with pytest.raises(EvidenceError, match=r"plan\.json"):
        from_json(body)


def test_from_json__a_margin_that_no_float_holds():
    """JSON has whole numbers of any length; a margin of 400 digits is none."""
    body = to_json(Plan((StageSpec("score", {}, (Margin("kl", 0.02),)),), "0" * 64, ("a",), (1,)))
    body["stages"][0]["margins"][0]["limit"] = 10**400  # type: ignore[index, call-overload]

    with pytest.raises(EvidenceError, match="not a margin"):
        from_json(body)
