"""One item of gsm8k or niah whole: question, both answers, how they were read, what is right."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from answered import GSM8K, Exam
from needles import Server, captured, compared, spare

from iqaction import inspect_view, item_view
from iqaction.calls import Arm, Generation, Tag, TokenIds
from iqaction.errors import ConfigError
from iqaction.observed import Observed
from iqaction.report import Report, UnitFault
from iqaction.stages._lost import NEVER
from iqaction.verdict import Verdict

EXAM = Exam(12)
SAT = EXAM.compare(EXAM.capture("R*12", again="R*2"), "W R*9 T C")
LOST, AGAIN, TIMED_OUT, CUT = (EXAM.units[i] for i in (0, 1, 10, 11))


def report(observed: Observed, exam: Exam = EXAM) -> Report:
    return Report(Verdict.FAIL, (exam.judge(observed),), "it differs")


def shown(unit: str, observed: Observed = SAT) -> str:
    return inspect_view.prompt(observed, report(observed), unit, 100)


def test_page__both_answers() -> None:
    """Question, right answer, both texts and how each was read, the relaunch's too."""
    gold = int(LOST[6:])

    said = shown(LOST)

    assert said.startswith(f"{LOST}  (a problem of gsm8k; right is {gold})")
    assert f"  | {gold}?" in said
    assert f"baseline wrote (9 tokens, ended by stop)\n  | It is {gold}." in said
    assert f"right: {gold}, read by: ####" in said
    assert f"wrong: {gold + 1}, read by: ####" in said
    assert "relaunch 1 of the baseline wrote" in said
    assert "gsm8k: candidate gsm8k" in said


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (TIMED_OUT, "candidate failed: timeout, no answer\n  lost on the way: no answer"),
        (CUT, "ended by length)\n  | First, 2 and\n  cut off before an answer"),
    ],
)
def test_page__no_answer(unit: str, said: str) -> None:
    """A failure and a text without an answer are told apart."""
    assert said in shown(unit)


def test_page__not_asked() -> None:
    """What was never asked of an arm is said to be so; a relaunch that was not asked has no
    part in it."""
    few = EXAM.compare(EXAM.capture("R*12"), "R")

    said = shown(EXAM.units[5], few)

    assert f"candidate was not asked\n  missing: {NEVER}" in said
    assert "relaunch" not in said


def test_page__fault_of_the_report() -> None:
    """What the report says of the item stands above the question."""
    found = report(SAT)
    (stage,) = found.stages
    fault = UnitFault(LOST, "gsm8k", "failed", "x\x1b[2J")
    named = replace(found, stages=(replace(stage, faults=(fault,)),))

    said = inspect_view.prompt(SAT, named, LOST, 100)

    assert "\n  failed: x" in said.split("\n\n")[0]
    assert "\x1b" not in said


def test_page__hostile() -> None:
    """What a model wrote cannot leave its gutter, and an answer of another kind is no answer."""
    tag, other = (Tag(Arm.CANDIDATE, GSM8K, u) for u in EXAM.units[:2])
    kept = SAT.seen[GSM8K]
    text = Generation("\x1b[2J\n##[group]\n#### \x07 7", "st\nop", completion_tokens=1)
    seen = {
        **kept,
        tag: replace(kept[tag], answer=text),
        other: replace(kept[other], answer=TokenIds((1,))),
    }
    observed = replace(SAT, seen={GSM8K: seen})
    said = shown(LOST, observed)

    assert "\x1b" not in said
    assert "\x07" not in said
    assert not any(line.startswith("##[") for line in said.splitlines())
    assert "candidate was not asked" in shown(AGAIN, observed)


def test_page__unreadable_data() -> None:
    """Where the problems cannot be read there is no item to show."""
    with pytest.raises(ConfigError, match="no prompt"):
        shown(LOST, replace(SAT, data={}))


def test_page__needle() -> None:
    """Of a needle: where it lies, the code, the long text, and what both sides found."""
    unit = "256-0.5-0"
    baseline = captured()
    observed = compared(Server(finds=spare({unit})), baseline)
    item = item_view.find(observed, unit)

    assert item is not None
    said = item_view.page(observed, Report(Verdict.FAIL, (), ""), item, 100)
    assert f"{unit}  (a needle at depth 0.5 of 256 tokens; right is {item.right})" in said
    assert f"the secret code is {item.right}." in item.messages[0].content
    assert f"right: {item.right}, read by: the only one" in said
    assert [s.graded.right for s in item.sides] == [True, True, False]


def test_json() -> None:
    """The same for programs, and every value is one that JSON has."""
    found = json.loads(json.dumps(inspect_view.prompt_json(SAT, report(SAT), LOST)))
    late = inspect_view.prompt_json(SAT, report(SAT), TIMED_OUT)["texts"]

    assert (found["id"], found["bucket"], found["right"]) == (LOST, "gsm8k", str(int(LOST[6:])))
    assert {k: v["right"] for k, v in found["texts"].items()} == {
        "baseline": True,
        "relaunch 1 of the baseline": True,
        "candidate": False,
    }
    assert found["texts"]["candidate"]["text"].startswith("It is")
    assert isinstance(late, dict)
    assert late["candidate"]["failure"] == "timeout"  # type: ignore[index, call-overload]


def test_unknown() -> None:
    """An item that is none is refused with its nearest one."""
    with pytest.raises(ConfigError, match=r"no prompt 'gsm8k-9999'.*did you mean 'gsm8k-00"):
        shown("gsm8k-9999")
