"""The gate: the job is green for a PASS, for what was agreed, and for nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import report_factory as made
from unit.action.desk import Desk

from iqaction.action import reports
from iqaction.action.steps import gate
from iqaction.action.work import Ending, Measured
from iqaction.report import Report
from iqaction.verdict import EXIT_CODE, Verdict

PASS, FAIL, UNPROVEN, NOT_RUN = Verdict


def report(verdict: Verdict = PASS, gate_: Verdict | None = None) -> Report:
    return replace(made.passed(), verdict=verdict, gate=gate_ or verdict)


@pytest.mark.parametrize("verdict", Verdict)
def test_gate__each_verdict_has_its_status(tmp_path, verdict):
    """The exit status says the verdict, and so do the outputs and the annotation."""
    desk = Desk(tmp_path).decided().reported(report(verdict))

    assert EXIT_CODE[verdict] == desk.step("gate")
    assert verdict.value == desk.outputs["verdict"]
    assert str(desk.work.evidence / "report.json") == desk.outputs["report"]
    assert str(desk.work.evidence / "report.html") == desk.outputs["html"]
    kind = "notice" if verdict is PASS else "error"
    assert f"::{kind} title=inferquality::{verdict.value}: " in desk.log


@pytest.mark.parametrize("verdict", [FAIL, UNPROVEN])
def test_gate__accepted(tmp_path, verdict):
    """What a maintainer has accepted is green, and is not called PASS."""
    desk = Desk(tmp_path).decided().reported(report(verdict, PASS))

    assert desk.step("gate") == 0
    assert desk.outputs["verdict"] == "ACCEPTED"


def test_gate__not_run_is_never_accepted(tmp_path):
    """A report that says NOT RUN and is let through contradicts itself."""
    desk = Desk(tmp_path).decided().reported(report(NOT_RUN, PASS))

    assert desk.step("gate") == 3
    assert desk.outputs["verdict"] == "NOT RUN"


@pytest.mark.parametrize(("verdict", "status"), [(PASS, 0), (FAIL, 1), (UNPROVEN, 0), (NOT_RUN, 3)])
def test_gate__on_unproven_warn(tmp_path, verdict, status):
    """The user lets UNPROVEN through, and nothing else; it stays UNPROVEN."""
    desk = Desk(tmp_path, inputs={"on_unproven": "warn"}).decided().reported(report(verdict))

    assert status == desk.step("gate")
    assert verdict.value == desk.outputs["verdict"]


def test_gate__not_needed(tmp_path):
    """Nothing relevant changed: green without a report, and said so."""
    desk = Desk(tmp_path).decided("skip", reason="none of the 3 changed files")

    assert desk.step("gate") == 0
    assert desk.outputs["verdict"] == "NOT NEEDED"
    assert "NOT NEEDED: none of the 3 changed files" in desk.log
    assert desk.outputs["report"] == ""


@pytest.mark.parametrize("action", ["measure", "refuse", "republish", "", "SKIP"])
def test_gate__not_needed_by_a_skip_alone(tmp_path, action):
    """No report is green only where it was decided that there need be none."""
    assert Desk(tmp_path).decided(action).step("gate") == 3


def test_gate__nothing_at_all(tmp_path):
    """A job in which nothing came to anything is red."""
    desk = Desk(tmp_path)

    assert desk.step("gate") == 3
    assert desk.outputs["verdict"] == "NOT RUN"


BROKEN = {
    "empty": b"",
    "garbled": b'{"verdict": "PASS"',
    "another verdict": b'{"verdict": "GREEN", "gate": "GREEN"}',
    "verdict alone": b'{"verdict": "PASS", "gate": "PASS"}',
    "a list": b'["PASS"]',
    "nested": b"[" * 100_000,
    "not utf-8": b"\xff\xfe",
    "NaN": b'{"verdict": NaN}',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_gate__no_report_in_it(tmp_path, data):
    """A report that is none is red, and no traceback."""
    desk = Desk(tmp_path).decided()
    desk.work.evidence.mkdir()
    (desk.work.evidence / "report.json").write_bytes(data)

    assert desk.step("gate") == 3
    assert desk.outputs["verdict"] == "NOT RUN"
    assert "Traceback" not in desk.log


def test_gate__a_huge_report(tmp_path):
    """A report that fills the memory is not read."""
    desk = Desk(tmp_path).decided()
    desk.work.evidence.mkdir()
    with (desk.work.evidence / "report.json").open("wb") as file:
        file.truncate(reports.MAX_REPORT + 1)

    assert desk.step("gate") == 3
    assert "larger than" in desk.log


@pytest.mark.parametrize("name", ["decision", "ending", "measured", "inputs"])
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"action": 1e999}', b"\xff"])
def test_gate__a_damaged_note_of_a_step(tmp_path, name, data):
    """What a step kept and is damaged now is red, unless nothing depends on it."""
    desk = Desk(tmp_path, inputs={"shard": "1/2"}).decided().reported(report())
    desk.work.keep(Measured(True))
    (desk.work.path / f"{name}.json").write_bytes(data)
    if name == "inputs" and data == b"{}":  # a workflow without inputs: no endpoint
        assert desk.step("gate") == 4
        return

    assert desk.step("gate") == 3
    assert desk.outputs["verdict"] == "NOT RUN"
    assert "Traceback" not in desk.log


# --- how a step ended -----------------------------------------------------------------------

ENDINGS = (None, Ending(3, "it broke"), Ending(4, "a mistake"), Ending(70, "ours"))
REPORTS = (
    None,
    *(Report(v, (), "why", gate=g) for v, g in itertools.product(Verdict, Verdict)),
)
SHARDS = ("", "2/4")
MEASURED = (None, Measured(True), Measured(False, "it stopped"))


@pytest.mark.parametrize("action", ["measure", "republish", "refuse", "skip", None])
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda e: str(e and e.exit_code))
@pytest.mark.parametrize("warn", [True, False], ids=["warn", "fail"])
@pytest.mark.parametrize("shard", SHARDS, ids=["whole", "shard"])
def test_gate__green_only_for_a_reason(tmp_path, action, ending, warn, shard):
    """Over all that steps can leave: an ending is never green, and without one a job is green for
    a PASS, an UNPROVEN that the user lets through, a shard that is complete, or a decided skip."""
    inputs = {"on_unproven": "warn" if warn else "fail", "shard": shard}
    desk = Desk(tmp_path, inputs=inputs)
    if action is not None:
        desk.decided(action)
    if ending is not None:
        desk.work.keep(ending)
    for kept, measured in itertools.product(REPORTS, MEASURED if shard else (None,)):
        (desk.work.evidence / "report.json").unlink(missing_ok=True)
        (desk.work.path / "measured.json").unlink(missing_ok=True)
        if kept is not None:
            desk.reported_fast(kept)
        if measured is not None:
            desk.work.keep(measured)

        word, status, _ = gate.decide(desk.job)

        skipped = action == "skip" and ending is None
        if shard:
            good = kept is not None and kept.verdict is not NOT_RUN
            reason = good and measured is not None and measured.complete
        else:
            let_through = (PASS, UNPROVEN) if warn else (PASS,)
            reason = kept is not None and kept.gate in let_through
        assert status != 0 or skipped or (ending is None and reason)
        assert (word == "NOT NEEDED") == skipped
        assert word != "PASS" or status == 0
        assert ending is None or status == ending.exit_code


@pytest.mark.parametrize("status", [256, 512, -256, 1000])
def test_gate__a_status_that_a_shell_would_cut(tmp_path, status):
    """An exit status of 256 is 0 to whoever reads it."""
    desk = Desk(tmp_path).decided().reported(report())
    desk.work.keep(Ending(status, "it broke"))

    assert desk.step("gate") == 70


@pytest.mark.parametrize("reason", ["", "\n", "  \n it broke\n  expected: nothing"])
def test_gate__an_ending_without_a_reason(tmp_path, reason):
    """Why it ended is the first line that says anything."""
    desk = Desk(tmp_path).decided()
    desk.work.keep(Ending(4, reason))

    assert desk.step("gate") == 4
    assert ("it broke" if "broke" in reason else "no reason is known") in desk.log


def test_gate__an_ending_is_not_called_pass(tmp_path):
    """Where a step broke after a PASS was written, nobody reads PASS."""
    desk = Desk(tmp_path).decided().reported(report())
    desk.work.keep(Ending(70, "internal error"))

    assert desk.step("gate") == 70
    assert desk.outputs["verdict"] == "NOT RUN"


# --- shards and legs ------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [PASS, FAIL, UNPROVEN])
def test_gate__a_complete_shard(tmp_path, verdict):
    """A shard says that it is measured and nothing of how: the whole is judged elsewhere."""
    desk = Desk(tmp_path, inputs={"shard": "2/4"}).decided().reported(report(verdict))
    desk.work.keep(Measured(True))

    assert desk.step("gate") == 0
    assert desk.outputs["verdict"] == "PARTIAL"


@pytest.mark.parametrize("measured", [None, Measured(False, "the engine stopped answering")])
def test_gate__an_incomplete_shard(tmp_path, measured):
    """A shard that did not end is red, whatever its own report says."""
    desk = Desk(tmp_path, inputs={"shard": "2/4"}).decided().reported(report())
    if measured:
        desk.work.keep(measured)

    assert desk.step("gate") == 3
    assert desk.outputs["verdict"] == "NOT RUN"
    assert "shard 2/4" in desk.log


@pytest.mark.parametrize("measured", [None, Measured(False, "shard 2 of 4 is missing")])
@pytest.mark.parametrize("verdict", [PASS, UNPROVEN, FAIL])
def test_gate__a_missing_leg_is_not_let_through(tmp_path, verdict, measured):
    """`on_unproven: warn` is about what was measured; a leg that is missing is red."""
    inputs = {"mode": "report", "artifacts_path": "x", "suite": "s", "on_unproven": "warn"}
    desk = Desk(tmp_path, inputs=inputs).decided().reported(report(verdict))
    if measured:
        desk.work.keep(measured)

    assert {PASS: 3, UNPROVEN: 2, FAIL: 1}[verdict] == desk.step("gate")


def test_gate__hostile_reasons(tmp_path):
    """Nothing in a reason is a command to the runner."""
    desk = Desk(tmp_path).decided("skip", reason="x\n::set-output name=verdict::PASS\x1b[2J")

    desk.step("gate")

    assert "\n::set-output" not in desk.log
    assert "\x1b" not in desk.log


def test_gate__writes_outside_of_nothing(tmp_path):
    """The gate leaves the checkout as it is."""
    desk = Desk(tmp_path).decided().reported(report())

    desk.step("gate")

    assert list(Path(desk.workspace).iterdir()) == []
