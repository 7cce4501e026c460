"""Whatever ended early leaves a report, and it is never green."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import report_factory as made_reports
from unit.action.desk import Desk
from unit.action.evidence import RUN, Evidence
from world import World

from iqaction.action import holding, reports
from iqaction.action.work import Ending, Measured
from iqaction.circumstances import Circumstances
from iqaction.errors import EvidenceError
from iqaction.report import Coverage, Report
from iqaction.verdict import Verdict


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Large enough for a PASS."""
    return Evidence(tmp_path_factory.mktemp("reports"), World(units=64, length=6))


def test_conclude__what_was_measured_is_judged(tmp_path, made):
    """A run that was killed after its last answer, before its seal, is judged and does not PASS."""
    desk = Desk(tmp_path).decided(circumstances=Circumstances(RUN))
    shutil.copytree(made.leg("unsealed", sealed=False), desk.work.evidence)

    reports.conclude(desk.work, "the run was cancelled")

    report = reports.stored(desk.work.evidence)
    assert (report.verdict, report.gate) == (Verdict.UNPROVEN, Verdict.UNPROVEN)
    assert report.problems == ("the run was cancelled",)
    assert not [x for s in report.stages for x in s.coverage.missing]
    assert report.evidence_root != ""


def test_conclude__a_problem_that_is_known_stays(tmp_path, made):
    """What the endpoint said before is not replaced by what followed from it."""
    around = Circumstances(RUN, problem="no GPU", log_tail="CUDA error")
    desk = Desk(tmp_path).decided()
    folder = made.leg("problem", circumstances=around, lost=lambda tag: True, sealed=False)
    shutil.copytree(folder, desk.work.evidence)

    reports.conclude(desk.work, "the run was cancelled")

    assert reports.stored(desk.work.evidence).problems[0] == "no GPU"


@pytest.mark.parametrize("damage", ["plan", "sealed", "none"])
def test_conclude__what_cannot_be_judged(tmp_path, made, damage):
    """Where there is nothing, and where what there is cannot be judged, it is NOT RUN."""
    desk = Desk(tmp_path).decided(circumstances=Circumstances(RUN), suite="qwen")
    if damage != "none":
        shutil.copytree(made.leg(f"damage-{damage}"), desk.work.evidence)
        (desk.work.evidence / "report.json").unlink()
    if damage == "plan":
        (desk.work.evidence / "plan.json").write_text("{")

    reports.conclude(desk.work, "it broke\n  expected: not to")

    report = reports.stored(desk.work.evidence)
    assert report.gate is not Verdict.PASS
    if damage != "sealed":
        assert (report.verdict, report.suite, report.run) == (Verdict.NOT_RUN, "qwen", RUN)
        assert report.headline == "nothing was measured: it broke"


def test_conclude__twice(tmp_path):
    """A report that is there stays."""
    desk = Desk(tmp_path).decided().reported(made_reports.failed_by_score())

    reports.conclude(desk.work, "later")

    assert reports.stored(desk.work.evidence).verdict is Verdict.FAIL


@pytest.mark.parametrize("problem", ["", "\n", "x\ny"])
def test_report__any_problem(problem):
    """Even without a reason there is a sentence."""
    report = reports.report(None, problem)

    assert report.headline.startswith("nothing was measured: ")
    assert (report.verdict, report.gate) == (Verdict.NOT_RUN, Verdict.NOT_RUN)


def test_stored__names_its_evidence(tmp_path, made):
    """A sealed folder's report says which evidence it is of; one without evidence does not."""
    reports.write(tmp_path / "bare", made_reports.passed())

    assert len(reports.stored(made.leg("rooted")).evidence_root) == 64
    assert reports.stored(tmp_path / "bare").evidence_root == ""


def test_keep__a_damaged_ending_is_replaced(tmp_path):
    """An ending that cannot be read is no cause."""
    desk = Desk(tmp_path)
    (desk.work.path / "ending.json").write_text("{")

    reports.keep(desk.job, Ending(3, "it broke"))

    assert desk.work.ending() == Ending(3, "it broke")


# --- what a job is held to ------------------------------------------------------------------


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("gate", Verdict)
def test_ended__is_never_green(verdict, gate):
    """A step that broke takes a PASS away, and makes nothing milder."""
    report = Report(verdict, (), "h", gate=gate)

    found = holding.ended(report, Ending(70, "it broke\nhere"))

    assert Verdict.PASS not in (found.verdict, found.gate)
    assert found.gate is (Verdict.NOT_RUN if gate is Verdict.PASS else gate)
    assert "it broke\nhere" in found.problems
    assert holding.ended(report, None) == report


def test_ended__says_it_once():
    """A reason that the report gives already is not said again."""
    report = Report(Verdict.NOT_RUN, (), "h", gate=Verdict.NOT_RUN, problems=("it broke",))

    assert holding.ended(report, Ending(3, "it broke\n  next: look")).problems == ("it broke",)


@pytest.mark.parametrize(
    ("inputs", "ending", "measured", "lets_through"),
    [
        ({}, None, None, False),
        ({"on_unproven": "warn"}, None, None, True),
        ({"on_unproven": "warn"}, None, Measured(False, "x"), True),
        ({"on_unproven": "warn"}, Ending(3, "x"), None, False),
        ({"on_unproven": "warn", "mode": "report"}, None, None, False),
        ({"on_unproven": "warn", "mode": "report"}, None, Measured(False), False),
        ({"on_unproven": "warn", "mode": "report"}, None, Measured(True), True),
    ],
)
def test_warns(tmp_path, inputs, ending, measured, lets_through):
    """UNPROVEN is let through where the user asked, and only what was measured."""
    if "mode" in inputs:
        inputs = {**inputs, "artifacts_path": "x", "suite": "s"}
    desk = Desk(tmp_path, inputs=inputs)
    if measured:
        desk.work.keep(measured)

    whole = made_reports.failed_by_trajectory()

    assert holding.warns(desk.job, desk.job.settings(), whole, ending) is lets_through


@pytest.mark.parametrize("lacking", ["a stage", "an answer", "a whole answer", "everything"])
def test_warns__not_what_was_not_measured(tmp_path, lacking):
    """A stage that did not run, a prompt without an answer, and nothing at all: red."""
    report = made_reports.failed_by_trajectory()
    (stage,) = report.stages
    stages = {
        "a stage": (stage, replace(stage, verdict=Verdict.NOT_RUN)),
        "an answer": (replace(stage, coverage=Coverage(64, 63, missing=("p-1",))),),
        "a whole answer": (replace(stage, coverage=Coverage(64, 63, failed=("p-1",))),),
        "everything": (),
    }[lacking]
    desk = Desk(tmp_path, inputs={"on_unproven": "warn"})

    report = replace(report, stages=stages)

    assert not holding.warns(desk.job, desk.job.settings(), report, None)


@pytest.mark.parametrize("known", [True, False])
def test_stored__altered_after_it_was_judged(tmp_path, known):
    """What a server that was left running writes is found where the runner knows better."""
    reports.write(tmp_path, made_reports.failed_by_trajectory())
    sha256 = reports.sha256(tmp_path) if known else ""
    reports.write(tmp_path, made_reports.passed())

    if known:
        with pytest.raises(EvidenceError, match="altered after it was judged"):
            reports.stored(tmp_path, sha256)
    else:
        assert reports.stored(tmp_path, sha256).verdict is Verdict.PASS


def test_write__is_what_a_folder_has(tmp_path, made):
    """A report without evidence has the same files as one with it."""
    sealed = made.leg("files")
    bare = tmp_path / "bare"

    reports.write(bare, replace(made_reports.passed()))

    ours = {p.name for p in bare.iterdir()}
    assert ours <= {p.name for p in Path(sealed).iterdir()}
    assert {"report.json", "report.html", "comment.md", "summary.md", "effects.json"} <= ours
