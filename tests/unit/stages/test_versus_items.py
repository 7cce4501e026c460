"""Two runs' graded answers beside each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.calls import Arm, Chat, Generation, Message, Observation, Tag, digest
from iqaction.report import Versus
from iqaction.stages._paired_items import Questions, Read
from iqaction.stages._versus_items import Asked, Line, versus
from iqaction.stats.paired import PLAIN_Z, tango

LINE = Line("q.right", "right answers", "q")
UNITS = tuple(f"q-{i}" for i in range(6))


def call(wording: str, unit: str, tag: Tag) -> Chat:
    return Chat(tag, (Message("user", f"{wording} {unit}"),), 8, temperature=0.0)


def asked(answers: str, arm: Arm = Arm.CANDIDATE, wording: str = "what is") -> Asked:
    """A run of as many questions as characters: y is right, n wrong, a blank never answered."""
    units = tuple(f"q-{i}" for i in range(len(answers)))
    questions = Questions(
        units,
        lambda unit, tag: call(wording, unit, tag),
        lambda unit, text, cut: Read(text == "y", text),
        "q",
    )
    kept = {}
    for unit, text in zip(units, answers, strict=True):
        tag = Tag(arm, "q", unit)
        if text.strip():
            kept[tag] = Observation(
                tag, digest(call(wording, unit, tag)), Generation(text, "stop", None, True)
            )
    return Asked(questions, kept, arm)


def beside(a: Asked, b: Asked) -> Versus:
    return versus(a, b, LINE, lambda unit: "y")


def test_versus__paired_item_by_item() -> None:
    """Shares right, the drop with Tango's interval, what was lost and gained."""
    (found,) = beside(asked("yyyynn"), asked("ynynyn")).contrasts
    bounds = tango(2, 1, 6, PLAIN_Z)

    assert (found.a, found.b, found.estimate.value) == (4 / 6, 3 / 6, 1 / 6)
    assert found.estimate.interval == (bounds.low, bounds.high)
    assert found.note == "2 lost, 1 gained of 6, McNemar p 1"


def test_versus__the_flips_with_both_answers() -> None:
    """What was lost comes before what was gained."""
    movers = beside(asked("yyn"), asked("yny")).movers

    assert [(m.unit, m.baseline, m.candidate) for m in movers] == [
        ("q-1", "y", "n"),
        ("q-2", "n", "y"),
    ]


def test_versus__a_capture_and_a_candidate() -> None:
    """The arms need not be the same: the question is."""
    found = beside(asked("yy", Arm.BASELINE), asked("yn"))

    assert found.compared == 2


def test_versus__what_one_never_answered() -> None:
    """Left out, and said; nothing in common is nothing paired."""
    (found,) = beside(asked("yyy"), asked("yn ")).contrasts

    assert found.estimate.n_units == 2
    assert "1 without an answer on a side are left out" in found.note
    assert beside(asked("y"), asked(" ")).contrasts == ()


def test_versus__another_wording() -> None:
    """Answers to other words are no pairs, under whatever name."""
    assert beside(asked("yy"), asked("yy", wording="who is")).contrasts == ()


def test_versus__an_answer_to_another_question() -> None:
    """Evidence whose call is not the plan's is missing, not wrong."""
    a, b = asked("yy"), asked("yy")
    tag = Tag(Arm.CANDIDATE, "q", "q-0")
    b = replace(b, kept={**b.kept, tag: replace(b.kept[tag], call_sha256="0" * 64)})

    assert beside(a, b).compared == 1


@given(st.lists(st.sampled_from(["yy", "yn", "ny", "nn"]), min_size=1, max_size=30))
def test_versus__mirrored(pairs: list[str]) -> None:
    """The other way round the drop has the other sign, and its interval too."""
    a, b = (asked("".join(p[i] for p in pairs)) for i in range(2))
    (there,), (back,) = beside(a, b).contrasts, beside(b, a).contrasts

    assert back.estimate.value == -there.estimate.value
    assert back.estimate.interval == pytest.approx(tuple(-x for x in there.estimate.interval[::-1]))
