"""`mode: capture` after it has asked: green for a sound reference alone, which is then kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import report_factory as factory
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA
from unit.action.desk import Desk, push
from unit.action.evidence import Evidence
from world import World

from iqaction.action import holding, reports, shelf
from iqaction.action.work import Ending, Measured
from iqaction.circumstances import Circumstances
from iqaction.evidence import bundle
from iqaction.report import Report
from iqaction.verdict import Verdict

CAPTURE = {"mode": "capture", "endpoint": "http://127.0.0.1:9"}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Evidence(tmp_path_factory.mktemp("capturing"), World(units=8, length=6))
    return made.captured("captured", BASE_SHA)


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        yield running

    assert running.state.violations == []


def capturing(home: Path, github: FakeGithub | None = None) -> Desk:
    desk = Desk(home, github, event="push", payload=push(), inputs=CAPTURE)
    return desk.decided(base=BASE_SHA)


def kept(desk: Desk) -> tuple[shelf.Kept, ...]:
    return shelf.kept(desk.job, desk.job.settings(), "default")


def test_capture(tmp_path, github, captured):
    """A sound reference: its job is green, its check neutral, for nothing was compared, and the
    runner keeps it."""
    desk = capturing(tmp_path, github)
    shutil.copytree(captured, desk.work.evidence)

    statuses = [desk.step(name) for name in ("observe", "publish", "gate")]

    assert statuses == [0, 0, 0]
    assert desk.outputs["captured"] == "true"
    assert desk.outputs["verdict"] == "CAPTURED"
    assert desk.outputs["baseline"] == str(desk.work.evidence)
    assert bundle.root_of(desk.work.evidence) == bundle.root_of(captured)
    (check,) = github.state.checks.values()
    assert check["conclusion"] == "neutral"
    assert check["output"]["title"].startswith(
        "CAPTURED: a reference was captured with 3 relaunches"
    )
    assert [k.head_sha for k in kept(desk)] == [BASE_SHA]
    assert "a reference was captured" in desk.summary


def test_capture__was_not_captured(tmp_path, github):
    """Where the reference did not start, the job is red with the reason, and nothing is kept."""
    desk = capturing(tmp_path, github)
    problem = "the reference was not captured: no GPU\n  expected: one"
    desk.decided(base=BASE_SHA, circumstances=Circumstances(desk.run, problem=problem))

    assert [desk.step(name) for name in ("observe", "publish", "gate")] == [0, 0, 3]
    assert desk.outputs.get("captured", "") != "true"
    assert (desk.outputs["verdict"], desk.outputs["baseline"]) == ("NOT RUN", "")
    assert kept(desk) == ()
    (check,) = github.state.checks.values()
    assert check["conclusion"] == "failure"
    assert "no GPU" in check["output"]["summary"]


def test_capture__stopped_on_the_way(tmp_path, captured):
    """What was captured until a relaunch failed is no baseline, whatever its report says."""
    desk = capturing(tmp_path)
    shutil.copytree(captured, desk.work.evidence)
    problem = "the reference was not captured: launch 2 stopped answering"
    desk.decided(base=BASE_SHA, circumstances=Circumstances(desk.run, problem=problem))
    desk.step("observe")

    assert desk.step("gate") == 3
    assert desk.outputs.get("captured", "") != "true"
    assert kept(desk) == ()


def test_capture__cancelled(tmp_path, captured):
    """A step that was stopped makes it red, though the evidence is whole."""
    desk = capturing(tmp_path)
    shutil.copytree(captured, desk.work.evidence)
    desk.work.keep(Ending(3, "cancelled"))
    desk.step("observe")

    assert desk.step("gate") == 3
    assert desk.outputs.get("captured", "") != "true"


# --- what is sound --------------------------------------------------------------------------


def of(folder: Path) -> Report:
    return reports.stored(folder)


def test_is_captured(captured):
    """Whole, without a problem, undecided because there is nothing to compare."""
    assert holding.is_captured(of(captured))


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict.FAIL, "gate": Verdict.FAIL},
        {"verdict": Verdict.NOT_RUN, "gate": Verdict.NOT_RUN},
        {"verdict": Verdict.PASS, "gate": Verdict.PASS},
        {"gate": Verdict.PASS},
        {"problems": ("a line of the evidence is broken",)},
        {"baseline_root": "a" * 64},
        {"stages": ()},
    ],
)
def test_is_captured__else(captured, change):
    """Any other report is no captured reference."""
    assert not holding.is_captured(replace(of(captured), **change))


def test_is_captured__missing(captured):
    """A required prompt without an answer is asked for again, not kept."""
    report = of(captured)
    first = report.stages[0]
    lacking = replace(first, coverage=replace(first.coverage, missing=("a",)))

    assert not holding.is_captured(replace(report, stages=(lacking, *report.stages[1:])))


@pytest.mark.parametrize("mode", ["run", "report"])
def test_warns__of_a_capture_alone(tmp_path, captured, mode):
    """Another mode that finds itself with a mere capture stays red."""
    more = {"artifacts_path": "x", "suite": "s"} if mode == "report" else {}
    desk = Desk(tmp_path, inputs={**CAPTURE, **more, "mode": mode}).decided()
    desk.work.keep(Measured(True))
    desk.reported(of(captured))

    assert desk.step("gate") == 2
    assert desk.outputs["verdict"] == "UNPROVEN"
    assert desk.outputs["baseline"] == ""


def test_warns__no_capture(tmp_path):
    """A comparison that mode capture finds in its folder is never green."""
    for verdict in Verdict:
        desk = Desk(tmp_path / verdict.name, inputs=CAPTURE).decided()
        desk.work.keep(Measured(True))
        desk.reported_fast(replace(factory.passed(), verdict=verdict, gate=verdict))

        assert desk.step("gate") == {"FAIL": 1, "UNPROVEN": 2}.get(verdict.name, 3)
        assert desk.outputs["verdict"] not in ("CAPTURED", "PASS")
