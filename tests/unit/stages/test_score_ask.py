"""What `score` asks, in which order, and what it does not ask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_engine import CANNOT, FakeEngine, captured, compared, drive
from world import FAILED, World, noisy, only, without

from iqaction.calls import Arm, Call, Failure, Force, Tag
from iqaction.judgement import judge

WORLD = World(units=6, length=16)


def asked(engine: FakeEngine, leg: str) -> list[tuple[str, int]]:
    return [(t.unit, t.attempt) for t in engine.tags if t.leg == leg]


def capture(world: World = WORLD, engine: FakeEngine | None = None, **params: object) -> FakeEngine:
    engine = engine or FakeEngine(world, version="1.0")
    drive(world.plan(**params), world, {Arm.BASELINE: engine}, arm=Arm.BASELINE)
    return engine


FIRST = [(u, 0) for u in WORLD.names]


def test_capture__own_tokens_and_three_twice() -> None:
    """The reference scores its own tokens, and the first three prompts a second time."""
    engine = capture()

    assert asked(engine, "self") == [*FIRST, *[(u, 2) for u in WORLD.names[:3]]]


def test_capture__without_self_leg() -> None:
    """Without a self leg only the three that are scored twice are forced."""
    engine = capture(legs=("reference",))

    assert asked(engine, "self") == [
        *[(u, 0) for u in WORLD.names[:3]], *[(u, 2) for u in WORLD.names[:3]]
    ]  # fmt: skip


def test_capture__end_tokens_need_forcing() -> None:
    """Where chat leaves the end token out, forcing is the only way to its row: all are forced."""
    world = World(units=6, length=16, end="omitted")
    engine = capture(world, legs=("reference",))

    assert asked(engine, "self") == [*FIRST, *[(u, 2) for u in WORLD.names[:3]]]
    assert all(c.continuation_ids[-1] == world.eos for c in engine.calls if isinstance(c, Force))


def test_capture__skips_what_cannot_be_forced() -> None:
    """A text that failed is not forced, and the three that are scored twice are of the others."""
    engine = FakeEngine(
        WORLD, fails=lambda c: FAILED if c.tag.unit == WORLD.names[1] else None, version="1.0"
    )
    capture(engine=engine)

    assert asked(engine, "self") == [
        *[(u, 0) for u in WORLD.names if u != "p-001"],
        *[(u, 2) for u in ("p-000", "p-002", "p-003")],
    ]


def test_capture__text_only() -> None:
    """Texts without tokens are not forced at all."""
    engine = capture(engine=FakeEngine(WORLD, text_only=True))

    assert asked(engine, "self") == []


def test_relaunch__the_first_launch_tokens() -> None:
    """A relaunch forces launch 0's very tokens after launch 0's prompt ids."""
    engines: list[FakeEngine] = []

    def make(launch: int) -> FakeEngine:
        engines.append(FakeEngine(WORLD, seed=launch, noise=0.3, version="1.0"))
        return engines[-1]

    baseline = captured(WORLD, 2, make)

    for launch, engine in enumerate(engines[1:], start=1):
        assert engine.tags == [Tag(Arm.REPEAT, "reference", u, launch) for u in WORLD.names]
        for call in engine.calls:
            text = baseline.seen["trajectory"][Tag(Arm.BASELINE, "trajectory", call.tag.unit)]
            assert isinstance(call, Force)
            assert call.continuation_ids == tuple(text.answer.rows.chosen)  # type: ignore[union-attr]
            assert call.prompt_ids == WORLD.ids(call.tag.unit)
            assert call.top_logprobs == 20


def test_candidate__both_legs() -> None:
    """The reference's tokens, then the candidate's own; nothing more where all is well."""
    engine = FakeEngine(WORLD)
    compared(WORLD, engine, captured(WORLD, 1))

    assert asked(engine, "reference") == FIRST
    assert asked(engine, "self") == FIRST
    forced = [c for c in engine.calls if isinstance(c, Force)]
    assert [c.tag.leg for c in forced] == ["reference"] * 6 + ["self"] * 6


def test_candidate__hits_once_more() -> None:
    """Broken prompts are forced once more, and only they."""
    engine = FakeEngine(WORLD, damage=only(("p-002", "p-004"), noisy(5.0)))
    compared(WORLD, engine, captured(WORLD, 1))

    assert asked(engine, "reference")[6:] == [("p-002", 2), ("p-004", 2)]
    assert asked(engine, "self") == FIRST


def test_candidate__decode_faults_once_more() -> None:
    """Prompts with a decode fault are scored once more, and only they."""

    def flat(unit: str, logits: np.ndarray) -> np.ndarray:
        return logits * 0.3

    engine = FakeEngine(WORLD, decoding=only(("p-005",), flat))
    compared(WORLD, engine, captured(WORLD, 1))

    assert asked(engine, "self")[6:] == [("p-005", 2)]
    assert asked(engine, "reference") == FIRST


@pytest.mark.parametrize("legs", [("reference",), ("self",)])
def test_candidate__one_leg(legs: tuple[str, ...]) -> None:
    """A leg that the plan leaves out is not asked."""
    engine = FakeEngine(WORLD)
    compared(WORLD, engine, captured(WORLD, 1), legs=legs)

    assert {t.leg for t in engine.tags} == {"trajectory", *legs}


def test_candidate__failed_once() -> None:
    """What the engine failed on is asked once more at the end, each time until the way cannot have
    made the error."""

    def fails(call: Call) -> Failure | None:
        return FAILED if call.tag.leg == "reference" and call.tag.unit == "p-001" else None

    engine = FakeEngine(WORLD, fails=fails)
    compared(WORLD, engine, captured(WORLD, 1))

    assert asked(engine, "reference") == [*FIRST, *[("p-001", 0)] * 3, *[("p-001", 1)] * 4]


def test_candidate__what_it_cannot_do() -> None:
    """What an engine says that it cannot do is not asked again."""
    engine = FakeEngine(WORLD, fails=lambda c: CANNOT if isinstance(c, Force) else None)
    compared(WORLD, engine, captured(WORLD, 1))

    assert asked(engine, "reference") == asked(engine, "self") == FIRST


def test_candidate__no_hopeless_questions() -> None:
    """A prompt that lacks its baseline is not forced: it cannot be compared."""
    baseline = captured(WORLD, 1)
    gap = Tag(Arm.REPEAT, "reference", "p-003", 1)
    engine = FakeEngine(WORLD)
    compared(WORLD, engine, without(baseline, "score", lambda t: t == gap))

    assert "p-003" not in [u for u, _ in asked(engine, "reference")]
    assert "p-003" in [u for u, _ in asked(engine, "self")]


def test_candidate__second_look() -> None:
    """The second look asks the further prompts only."""
    world = World(units=8, length=16)
    engine = FakeEngine(world)

    compared(world, engine, captured(world, 3), looks=(4, 8))

    assert sorted(u for u, _ in asked(engine, "trajectory")) == list(world.names)
    assert asked(engine, "reference") == [(u, 0) for u in world.names]
    assert engine.tags.index(Tag(Arm.CANDIDATE, "self", "p-003")) < engine.tags.index(
        Tag(Arm.CANDIDATE, "trajectory", "p-004")
    )


def test_candidate__forces_with_the_references_list_length() -> None:
    """The candidate lists as many tokens as the reference's rows hold."""
    baseline = captured(WORLD, 1, lambda n: FakeEngine(WORLD, cap=7, version="1.0"))
    engine = FakeEngine(WORLD)
    compared(WORLD, engine, baseline)

    ks = {c.tag.leg: c.top_logprobs for c in engine.calls if isinstance(c, Force)}
    assert ks == {"reference": 7, "self": 20}


def test_candidate__nothing_to_force() -> None:
    """A baseline without any usable text leaves the reference leg nothing to ask."""
    baseline = captured(WORLD, 1)
    empty = replace(baseline, seen={"trajectory": {}, "score": {}})
    engine = FakeEngine(WORLD)

    compared(WORLD, engine, empty)

    assert asked(engine, "reference") == []
    assert asked(engine, "self") == FIRST


def test_candidate__many_broken_are_not_all_asked_again() -> None:
    """Of many broken prompts the first 32 are asked once more, and the report says so."""
    world = World(units=40, length=16)
    baseline = captured(world, 3)
    engine = FakeEngine(world, damage=noisy(3.0), version="2.0")

    report = judge(compared(world, engine, baseline), "0")

    again = [u for u, attempt in asked(engine, "reference") if attempt == 2]
    assert again == list(world.names[:32])
    reason = next(
        c.reason for s in report.stages for c in s.checks if c.metric == "reference.broken"
    )
    assert "40 of 40 prompts broken (of the first 32 asked once more 32 again)" in reason
