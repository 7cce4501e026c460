"""What was found is posted; what GitHub does about it is a warning, and never a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import report_factory as made
from fake_github.fake import FakeGithub
from fake_github.state import SHA, Fault
from unit.action.desk import Desk, workflow_run

from iqaction.action.work import Ending, Measured
from iqaction.report import Report
from iqaction.surfaces import _state
from iqaction.verdict import Verdict

PASS, FAIL, UNPROVEN, NOT_RUN = Verdict


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        yield running

    assert running.state.violations == []


def report(verdict: Verdict = PASS, gate: Verdict | None = None, **more: object) -> Report:
    found = replace(made.passed(), verdict=verdict, gate=gate or verdict, suite="default", **more)
    return replace(found, run=replace(found.run, repository="acme/serve", head_sha=SHA))


def published(desk: Desk) -> Desk:
    assert desk.step("publish") == 0
    assert "Traceback" not in desk.log
    return desk


def conclusion(github: FakeGithub) -> str:
    (check,) = github.state.checks.values()
    return f"{check['status']} {check['conclusion']}"


def comment(github: FakeGithub) -> str:
    (found,) = github.state.comments.values()
    return str(found["body"])


@pytest.mark.parametrize(
    ("verdict", "gate", "warn", "expected"),
    [
        (PASS, PASS, False, "success"),
        (FAIL, PASS, False, "success"),
        (FAIL, FAIL, True, "failure"),
        (UNPROVEN, UNPROVEN, False, "failure"),
        (UNPROVEN, UNPROVEN, True, "neutral"),
        (NOT_RUN, NOT_RUN, True, "failure"),
    ],
)
def test_publish__each_verdict(tmp_path, github, verdict, gate, warn, expected):
    """Check and comment say what the job is held to, and where they are is an output."""
    inputs = {"on_unproven": "warn" if warn else "fail"}
    desk = Desk(tmp_path, github, inputs=inputs).decided().reported(report(verdict, gate))

    published(desk)

    assert conclusion(github) == f"completed {expected}"
    assert verdict.value in comment(github)
    assert desk.outputs["published"] == "true"
    assert desk.outputs["check_url"].startswith("https://github.com/acme/serve/runs/")
    assert desk.outputs["comment_url"].startswith("https://github.com/acme/serve/pull/7#")
    green = expected in ("success", "neutral")
    assert (desk.step("gate") == 0) == green


def test_publish__completes_the_check_that_was_begun(tmp_path, github):
    """One check run for one job, from "in progress" to its result."""
    github.state.files = {7: [{"filename": "x"}]}
    desk = Desk(tmp_path, github, inputs={"baseline": "base"})
    desk.checkout({"base/manifest.json": "{}"})
    desk.step("prepare")
    begun = desk.decision.check
    desk.reported(replace(report(), run=desk.decision.circumstances.run))

    published(desk)

    assert list(github.state.checks) == [begun]
    assert conclusion(github) == "completed success"


def test_publish__a_cancelled_run(tmp_path, github):
    """A run that was cancelled before it had a report completes its check as a failure, and stays
    red whatever the user lets through."""
    check = github.state.add_check(
        name="inferquality / default", head_sha=SHA, status="in_progress", external_id="50.1"
    )
    desk = Desk(tmp_path, github, inputs={"on_unproven": "warn"}).decided(check=check["id"])

    published(desk)

    assert conclusion(github) == "completed failure"
    assert "NOT RUN" in comment(github)
    assert "cancelled" in comment(github)
    assert desk.step("gate") == 3


def test_publish__a_step_that_was_stopped(tmp_path, github):
    """A step that was stopped has left why, and no report: the runner gives no time for one."""
    desk = Desk(tmp_path, github).decided()
    desk.work.keep(Ending(3, "the run was cancelled while it was in the step `observe`"))

    published(desk)

    assert conclusion(github) == "completed failure"
    assert "while it was in the step" in comment(github)
    assert desk.step("gate") == 3


@pytest.mark.parametrize("verdict", [PASS, UNPROVEN])
@pytest.mark.parametrize("status", [3, 4, 70])
def test_publish__an_ending_beside_a_report(tmp_path, github, verdict, status):
    """Where a step broke after its report was written, nobody reads PASS, on the check or in the
    comment, and nothing is let through."""
    desk = Desk(tmp_path, github, inputs={"on_unproven": "warn"}).decided()
    desk.reported(report(verdict)).work.keep(Ending(status, "it broke\n  expected: not to"))

    published(desk)

    assert conclusion(github) == "completed failure"
    assert "### PASS" not in comment(github)
    assert "it broke" in comment(github)
    assert desk.step("gate") == status


@pytest.mark.parametrize("measured", [None, Measured(False, "shard 2 of 4 is missing")])
def test_publish__a_missing_leg_is_not_let_through(tmp_path, github, measured):
    """`on_unproven: warn` is not about a leg that is missing."""
    inputs = {"mode": "report", "artifacts_path": "x", "suite": "s", "on_unproven": "warn"}
    desk = Desk(tmp_path, github, inputs=inputs).decided().reported(report(UNPROVEN))
    if measured is not None:
        desk.work.keep(measured)

    published(desk)

    assert conclusion(github) == "completed failure"
    assert desk.step("gate") == 2


@pytest.mark.parametrize("data", [b"", b"{", b'{"verdict": "PASS", "gate": "PASS"}'])
def test_publish__a_report_that_is_none(tmp_path, github, data):
    """What is no result is posted as NOT RUN: the check does not stay in progress."""
    desk = Desk(tmp_path, github).decided()
    desk.work.evidence.mkdir()
    (desk.work.evidence / "report.json").write_bytes(data)

    published(desk)

    assert conclusion(github) == "completed failure"
    assert desk.step("gate") == 3


def test_publish__a_damaged_decision(tmp_path, github):
    """Where it cannot be told what was decided, the check is no success either."""
    desk = Desk(tmp_path, github).decided().reported(report())
    (desk.work.path / "decision.json").write_bytes(b"{")

    published(desk)

    assert conclusion(github) == "completed failure"
    assert desk.step("gate") == 3


def test_publish__without_a_decision(tmp_path, github):
    """A job that was killed in its first step still says so on the commit."""
    desk = Desk(tmp_path, github)

    published(desk)

    assert conclusion(github) == "completed failure"
    (check,) = github.state.checks.values()
    assert (check["head_sha"], check["external_id"]) == (SHA, "50.1")


def test_publish__nobody_to_ask(tmp_path, github):
    """Inputs that cannot be read end in a report on the commit as well."""
    desk = Desk(tmp_path, github, inputs={"mode": "nonsense"})
    desk.step("prepare")

    published(desk)

    assert conclusion(github) == "completed failure"
    assert "mode: found" in comment(github)
    assert desk.step("gate") == 4


# --- what GitHub does -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "token"),
    [
        (Fault("POST", "/check-runs", times=99, status=403), "ghs_rw"),
        (Fault("POST", "/comments", times=99, status=403), "ghs_rw"),
        (Fault("", "", times=999, status=500), "ghs_rw"),
        (Fault("", "", times=999, drop=True), "ghs_rw"),
        (None, "ghs_ro"),
        (None, ""),
    ],
    ids=["checks", "comments", "down", "dropped", "read-only", "no token"],
)
@pytest.mark.parametrize("verdict", [PASS, FAIL])
def test_publish__github_fails(tmp_path, github, fault, token, verdict):
    """A warning and `published=false`; the verdict, and with it the exit status, stays."""
    github.state.faults = [fault] if fault else []
    desk = Desk(tmp_path, github, IQ_TOKEN=token).decided().reported(report(verdict))

    published(desk)

    assert desk.outputs["published"] == "false"
    assert "::warning title=inferquality%3A publishing::" in desk.log
    assert desk.work.ending() is None
    assert desk.step("gate") == (0 if verdict is PASS else 1)
    assert sum(desk.waits) <= 120


# --- what is wanted -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "checks", "comments"),
    [
        ({"comment": "false"}, 1, 0),
        ({"check_run": "false"}, 0, 1),
        ({"comment": "false", "check_run": "false"}, 0, 0),
    ],
)
def test_publish__not_wanted(tmp_path, github, inputs, checks, comments):
    """What the user turned off is not posted, and not missed."""
    desk = published(Desk(tmp_path, github, inputs=inputs).decided().reported(report(FAIL)))

    assert (len(github.state.checks), len(github.state.comments)) == (checks, comments)
    assert desk.outputs["published"] == "true"
    assert desk.step("gate") == 1


def test_publish__a_shard_posts_nothing(tmp_path, github):
    """The job that judges the whole publishes."""
    desk = Desk(tmp_path, github, inputs={"shard": "1/2"}).decided().reported(report(FAIL))

    published(desk)

    assert github.state.log == []
    assert desk.outputs["published"] == "true"


def test_publish__not_needed(tmp_path, github):
    """A skip completes the check as a success, makes no comment, and replaces an old one."""
    desk = Desk(tmp_path, github).decided("skip", reason="none of the 2 changed files")
    published(desk)
    assert conclusion(github) == "completed success"
    assert github.state.comments == {}

    marker = _state.marker("acme/serve", "default")
    github.state.add_comment(f"{marker}\n\n### FAIL: before\n")
    published(desk)

    assert "NOT NEEDED" in comment(github)
    assert "NOT NEEDED" in desk.summary


def test_publish__a_skip_that_did_not_end_well(tmp_path, github):
    """A step that broke is no reason to say that nothing was needed."""
    desk = Desk(tmp_path, github).decided("skip", reason="nothing")
    desk.work.keep(Ending(70, "it broke"))

    published(desk)

    assert conclusion(github) == "completed failure"
    assert desk.step("gate") == 70


def test_publish__a_fork_is_told_and_not_vouched_for(tmp_path, github):
    """The second workflow comments and posts no check: a check of ours would vouch for it."""
    github.state.pulls = {7: {"head_sha": SHA, "head_repository": "stranger/serve"}}
    inputs = {"mode": "publish", "artifacts_path": "x"}
    desk = Desk(tmp_path, github, event="workflow_run", payload=workflow_run(), inputs=inputs)
    desk.decided().reported(report())

    published(desk)

    assert github.state.checks == {}
    assert "### PASS" in comment(github)
    assert desk.outputs["published"] == "true"


def test_publish__a_push_has_no_comment(tmp_path, github):
    """Where there is no pull request there is a check and nobody to tell."""
    desk = Desk(tmp_path, github, event="push", payload={"before": "b" * 40})
    desk.decided().reported(report())

    published(desk)

    assert github.state.comments == {}
    assert conclusion(github) == "completed success"


def test_publish__links_the_artifact(tmp_path, github):
    """Where the evidence was uploaded to is known only now."""
    url = "https://github.com/acme/serve/actions/runs/50/artifacts/301"
    desk = Desk(tmp_path, github, IQ_ARTIFACT_URL=url).decided()
    desk.reported(replace(report(), run=desk.run))

    published(desk)

    assert url in comment(github)
