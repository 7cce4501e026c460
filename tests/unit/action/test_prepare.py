"""The first step decides; what GitHub does not tell makes nothing green."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, SHA, Fault
from unit.action.desk import Desk, merge_group, pull_request, push, workflow_run

from iqaction.action import reports
from iqaction.report import Acceptance
from iqaction.verdict import Verdict

PLAN = "stages:\n  - trajectory: {prompts: dev.jsonl}\n  - score: {margins: {kl: 0.02}}\n"
WEAKER = PLAN.replace("0.02", "0.9")
PROMPTS = '{"id": "a", "messages": [{"role": "user", "content": "hi"}]}\n'
ACCEPT = """\
accept:
  - suite: default
    field: plan
    plan: "0123456789ab"
    expires: 2027-01-31
    reason: on purpose
    author: jane
"""
BASE = {"ci/plan.yml": PLAN, "ci/dev.jsonl": PROMPTS, "base/manifest.json": "{}"}
INPUTS = {"plan": "ci/plan.yml", "baseline": "base", "paths": "serve/**"}
PAIR = f"{BASE_SHA}...{SHA}"


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    """GitHub, with a pull request that changes one file under `paths`."""
    with FakeGithub() as running:
        running.state.files = {7: [{"filename": "serve/start.sh", "patch": "@@ -1 +1 @@\n-a\n+b"}]}
        running.state.compares = {PAIR: {"files": [{"filename": "serve/start.sh"}]}}
        running.state.contents = {BASE_SHA: dict(BASE)}
        yield running

    assert running.state.violations == []


def prepared(home: Path, github: FakeGithub | None, **more: object) -> Desk:
    inputs = {**INPUTS, **more.pop("inputs", {})}  # type: ignore[dict-item]
    desk = Desk(home, github, inputs=inputs, **more).checkout(BASE)  # type: ignore[arg-type]

    assert desk.step("prepare") == 0
    assert "Traceback" not in desk.log
    return desk


def conditions(desk: Desk) -> dict[str, str]:
    return {k: v for k, v in desk.outputs.items() if k in ("boot", "observe", "artifact")}


def test_prepare__measures(tmp_path, github):
    """A relevant change is measured, by the merge-base's files, and a check says that it is on
    its way."""
    desk = prepared(tmp_path, github)

    decision = desk.decision
    assert decision.action == "measure"
    assert Path(decision.plan) == desk.work.judge / "ci/plan.yml"
    assert Path(decision.baseline) == desk.work.judge / "base"
    assert decision.circumstances.differences == ()
    assert [x.text for x in decision.circumstances.changed_lines] == ["b"]
    assert decision.circumstances.run.head_sha == SHA
    (check,) = github.state.checks.values()
    assert (check["id"], check["status"]) == (decision.check, "in_progress")
    assert (check["name"], check["head_sha"]) == ("inferquality / default", SHA)
    assert conditions(desk) == {"boot": "false", "observe": "true", "artifact": "true"}
    assert desk.outputs["artifact_name"] == "inferquality-default-1"


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"boot": "command", "boot_command": "x"}, ("true", "true", "true")),
        ({"artifact": "false"}, ("false", "true", "false")),
        ({"mode": "report", "artifacts_path": "x", "suite": "s"}, ("false", "true", "true")),
        ({"mode": "publish", "artifacts_path": "x"}, ("false", "true", "false")),
    ],
)
def test_prepare__conditions(tmp_path, github, inputs, expected):
    """Later steps run as the inputs say."""
    more = {"endpoint": "http://127.0.0.1:9"} if "boot" in inputs else {}
    desk = prepared(tmp_path, github, inputs={**inputs, **more})

    assert tuple(conditions(desk)[x] for x in ("boot", "observe", "artifact")) == expected


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        ({"suite": "qwen"}, "inferquality-qwen-2"),
        ({"suite": "qwen", "shard": "3/4"}, "inferquality-qwen-3-of-4-2"),
        ({"mode": "report", "artifacts_path": "x", "suite": "s"}, "inferquality-s-report-2"),
    ],
)
def test_prepare__artifact_names(tmp_path, github, inputs, name):
    """Each leg and each attempt has a name of its own: GitHub takes none twice in a run."""
    assert prepared(tmp_path, github, inputs=inputs, attempt=2).outputs["artifact_name"] == name


# --- what need not be measured --------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "payload"),
    [("pull_request", None), ("merge_group", merge_group()), ("push", push())],
)
def test_prepare__nothing_relevant(tmp_path, github, event, payload):
    """Green at once, on every event that changes files; no check is begun."""
    github.state.files = {7: [{"filename": "README.md"}]}
    after = "c" * 40 if event == "push" else SHA
    github.state.compares = {f"{BASE_SHA}...{after}": {"files": [{"filename": "README.md"}]}}
    desk = prepared(tmp_path, github, event=event, payload=payload)

    assert desk.decision.action == "skip"
    assert "NOT NEEDED: none of the 1 changed files" in desk.log
    assert conditions(desk) == {"boot": "false", "observe": "false", "artifact": "false"}
    assert github.state.checks == {}
    assert desk.step("gate") == 0


@pytest.mark.parametrize(
    "path", ["ci/plan.yml", "ci/dev.jsonl", "base/x", ".inferquality/accept.yml"]
)
def test_prepare__its_own_judge_is_relevant(tmp_path, github, path):
    """A pull request that changes only how it is judged is judged."""
    github.state.files = {7: [{"filename": path}]}

    assert prepared(tmp_path, github).decision.action == "measure"


@pytest.mark.parametrize("status", [500, 403, 404, 422])
@pytest.mark.parametrize("path", ["/files", r"/pulls/7$"])
def test_prepare__github_does_not_tell(tmp_path, github, status, path):
    """An error of GitHub's where a skip would have been decided is measured."""
    github.state.files = {7: [{"filename": "README.md"}]}
    github.state.faults = [Fault("GET", path, times=99, status=status)]

    desk = prepared(tmp_path, github)

    assert desk.decision.action == "measure"
    assert "the changed files are not known, so everything is measured" in desk.log


def test_prepare__github_is_down(tmp_path):
    """No GitHub at all: measured, and what cannot be compared caps the verdict."""
    desk = prepared(tmp_path, None)

    assert desk.decision.action == "measure"
    assert {d.field for d in desk.decision.circumstances.differences} >= {"plan", "baseline"}
    assert desk.decision.check == 0
    assert sum(desk.waits) <= 120


@pytest.mark.parametrize("token", ["", "two words", "x\ny"])
def test_prepare__no_token(tmp_path, github, token):
    """Without a token the run is measured, with a warning; the token is not shown."""
    github.state.files = {7: [{"filename": "README.md"}]}
    desk = prepared(tmp_path, github, IQ_TOKEN=token)

    assert desk.decision.action == "measure"
    assert "::warning title=inferquality::GitHub is not asked: " in desk.log
    assert github.state.log == []


def test_prepare__a_read_only_token(tmp_path, github):
    """A fork's token reads what changed and cannot begin a check: no fault of the run."""
    desk = prepared(tmp_path, github, IQ_TOKEN="ghs_ro")

    assert desk.decision.action == "measure"
    assert desk.decision.check == 0
    assert "no check run in progress" in desk.log
    assert desk.work.ending() is None


@pytest.mark.parametrize("inputs", [{"check_run": "false"}, {"shard": "1/2"}])
def test_prepare__no_check_is_wanted(tmp_path, github, inputs):
    """Who wants no check, and a shard, which is not judged here, begins none."""
    desk = prepared(tmp_path, github, inputs=inputs)

    assert (desk.decision.check, github.state.checks) == (0, {})


# --- whose judge ----------------------------------------------------------------------------


def test_prepare__a_changed_plan(tmp_path, github):
    """The merge-base's plan judges, and what the pull request makes of it is told."""
    github.state.files = {7: [{"filename": "ci/plan.yml"}, {"filename": "serve/x"}]}
    desk = Desk(tmp_path, github, inputs=INPUTS).checkout({**BASE, "ci/plan.yml": WEAKER})

    desk.step("prepare")

    (difference,) = desk.decision.circumstances.differences
    assert (difference.field, difference.path) == ("plan", "ci/plan.yml")
    assert "-  - score: {margins: {kl: 0.02}}" in difference.detail
    assert Path(desk.decision.plan).read_text() == PLAN


def test_prepare__in_a_merge_queue(tmp_path, github):
    """The queue's commit is judged as its pull requests were: from where it starts."""
    github.state.compares[PAIR]["files"].append({"filename": "ci/plan.yml"})
    desk = Desk(tmp_path, github, inputs=INPUTS, event="merge_group", payload=merge_group())
    desk.checkout({**BASE, "ci/plan.yml": WEAKER})

    desk.step("prepare")

    assert [d.field for d in desk.decision.circumstances.differences] == ["plan"]
    assert Path(desk.decision.plan).read_text() == PLAN


def test_prepare__on_a_push(tmp_path, github):
    """What is on the branch is what judges: nobody's pull request."""
    desk = Desk(tmp_path, github, inputs=INPUTS, event="push", payload=push())
    desk.checkout({**BASE, "ci/plan.yml": WEAKER})

    desk.step("prepare")

    assert desk.decision.circumstances.differences == ()
    assert Path(desk.decision.plan).read_text() == WEAKER


def test_prepare__acceptances_of_the_merge_base_alone(tmp_path, github):
    """A pull request accepts nothing of its own."""
    desk = Desk(tmp_path, github, inputs=INPUTS)
    desk.checkout({**BASE, ".inferquality/accept.yml": ACCEPT})
    desk.step("prepare")
    github.state.contents[BASE_SHA][".inferquality/accept.yml"] = ACCEPT
    other = Desk(tmp_path / "other", github, inputs=INPUTS).checkout(BASE)
    other.step("prepare")

    assert desk.decision.circumstances.acceptances == ()
    assert [type(a) for a in other.decision.circumstances.acceptances] == [Acceptance]


# --- what is refused ------------------------------------------------------------------------

FORK = {"repo": {"full_name": "stranger/serve"}}


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ({"payload": pull_request(**FORK)}, 3, "comes from a fork (stranger/serve)"),
        ({"payload": pull_request(repo=None)}, 3, "comes from a fork (deleted)"),
        ({"GITHUB_ACTOR": "dependabot[bot]"}, 3, "Dependabot"),
        ({"event": "pull_request_target"}, 4, "pull_request_target is not supported"),
        ({"inputs": {"mode": "nonsense"}}, 4, "mode: found"),
        ({"inputs": {"suite": "x-report"}}, 4, "suite: found"),
        ({"inputs": {"plan": "../plan.yml"}}, 4, "leads out of the workspace"),
        ({"inputs": {"plan": "ci/absent.yml"}}, 4, "no such file"),
        ({"GITHUB_SHA": "x"}, 4, "GITHUB_SHA"),
        ({"GITHUB_EVENT_PATH": "/nowhere"}, 4, "payload cannot be read"),
        ({"payload": {"pull_request": {}}}, 4, "no usable pull_request"),
    ],
)
def test_prepare__refused(tmp_path, github, more, status, said):
    """A refusal starts nothing, leaves a report that says why, and is red."""
    desk = prepared(tmp_path, github, **more)

    assert (desk.decision.action, desk.decision.exit_code) == ("refuse", status)
    assert said in desk.decision.reason
    assert conditions(desk) == {"boot": "false", "observe": "false", "artifact": "true"}
    report = reports.stored(desk.work.evidence)
    assert report.gate is Verdict.NOT_RUN
    assert said in report.headline + report.problems[0]
    assert desk.step("gate") == status


def test_prepare__a_fork_that_is_let_in(tmp_path, github):
    """The maintainer has said so, or the machine is GitHub's own."""
    github.state.pulls = {7: {"head_repository": "stranger/serve"}}
    allowed = {"payload": pull_request(**FORK), "inputs": {"allow_forks": "true"}}
    hosted = {"payload": pull_request(**FORK), "RUNNER_ENVIRONMENT": "github-hosted"}

    assert prepared(tmp_path / "a", github, **allowed).decision.action == "measure"
    assert prepared(tmp_path / "b", github, **hosted).decision.action == "measure"


def test_prepare__the_second_workflow(tmp_path, github):
    """Publishing a fork's result runs nothing of it, and posts on its commit."""
    inputs = {"mode": "publish", "artifacts_path": "x"}
    desk = prepared(tmp_path, github, event="workflow_run", payload=workflow_run(), inputs=inputs)

    assert desk.decision.action == "measure"
    assert desk.decision.circumstances.run.head_sha == SHA
    assert github.state.checks == {}


def test_prepare__no_baseline(tmp_path, github):
    """A pull request with nothing to compare it with is UNPROVEN, and learns what to do."""
    desk = prepared(tmp_path, github, inputs={"baseline": "", "plan": ""})

    assert (desk.decision.action, desk.decision.exit_code) == ("refuse", 2)
    assert desk.step("gate") == 2
    assert desk.outputs["verdict"] == "UNPROVEN"
    assert "iqaction observe" in desk.log
