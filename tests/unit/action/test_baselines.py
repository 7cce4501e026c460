"""The search for a baseline, step by step, each with its reason; none where one is named."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, SHA, Fault
from unit.action import clones
from unit.action.desk import Desk, merge_group, pull_request, push
from unit.action.evidence import TESTED, Evidence
from unit.action.on_github import compared, ran, zipped
from world import World

from iqaction import anchor
from iqaction.action import reports, shelf
from iqaction.anchor import Anchor
from iqaction.evidence import bundle
from iqaction.verdict import Verdict

NAME = "inferquality-baseline-default"
PLAN = "stages:\n  - trajectory\n  - score\n"
LOOKED_UP = ("/actions/artifacts", "/actions/runs")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(tmp_path_factory.mktemp("baselines"), World(units=8, length=6))


@pytest.fixture(scope="module")
def captured(made: Evidence) -> Path:
    return made.captured("captured", BASE_SHA)


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        running.state.files = {7: [{"filename": "serve/start.sh"}]}
        compared(running, BASE_SHA, SHA, "serve/start.sh")
        running.state.contents = {BASE_SHA: {"ci/plan.yml": PLAN}}
        yield running

    assert running.state.violations == []


def to_main() -> dict[str, Any]:
    payload = pull_request()
    payload["pull_request"]["base"]["ref"] = "main"
    return payload


def prepared(home: Path, github: FakeGithub | None, **more: Any) -> Desk:
    inputs = {"plan": "ci/plan.yml", "paths": "serve/**", **more.pop("inputs", {})}
    more.setdefault("payload", to_main())
    desk = Desk(home, github, inputs=inputs, **more).checkout({"ci/plan.yml": PLAN})

    assert desk.step("prepare") == 0
    assert "Traceback" not in desk.log
    return desk


def looked_up(github: FakeGithub) -> list[str]:
    return [x["path"] for x in github.state.log if any(y in x["path"] for y in LOOKED_UP)]


def files(folder: Path, below: str) -> Mapping[str, Any]:
    return {
        f"{below}/{p.relative_to(folder)}": {"base64": base64.b64encode(p.read_bytes()).decode()}
        for p in folder.rglob("*")
        if p.is_file() and p.name != ".lock"
    }


def test_resolved__named(tmp_path, github, captured):
    """A baseline that is named is looked for nowhere else, and costs no request to find."""
    github.state.contents[BASE_SHA] |= files(captured, "b")
    desk = prepared(tmp_path, github, inputs={"baseline": "b"})

    assert desk.decision.baseline == str(desk.work.judge / "b")
    assert desk.decision.circumstances.searched == ()
    assert desk.decision.circumstances.history == ()
    assert looked_up(github) == []


def test_resolved__committed(tmp_path, github, captured):
    """The committed one goes before the artifacts."""
    github.state.contents[BASE_SHA] |= files(captured, ".inferquality/baseline")
    ran(github, 3, BASE_SHA, zipped(captured), NAME)
    desk = prepared(tmp_path, github)

    assert desk.decision.baseline == str(desk.work.judge / ".inferquality/baseline")
    assert len(desk.decision.circumstances.searched) == 1
    assert not [x for x in looked_up(github) if x.endswith("/zip")]


def test_resolved__an_artifact(tmp_path, github, captured, made):
    """With none committed, one that the base branch captured is taken, and the log says so;
    earlier runs are found with it."""
    ran(github, 2, BASE_SHA, zipped(made.leg("earlier")), "inferquality-default-1")
    ran(github, 3, BASE_SHA, zipped(captured), NAME)
    desk = prepared(tmp_path, github)

    assert desk.decision.action == "measure"
    assert [p.head_sha for p in desk.decision.circumstances.history] == [BASE_SHA]
    assert bundle.root_of(Path(desk.decision.baseline)) == bundle.root_of(captured)
    assert [x.partition(":")[0] for x in desk.decision.circumstances.searched] == [
        "committed",
        "committed",
        f"artifact {NAME} of run 3 (push, {BASE_SHA[:12]})",
    ]
    assert f"artifact {NAME} of run 3" in desk.log


def test_resolved__in_a_merge_queue(tmp_path, github, captured):
    """A group is compared with where it starts, as a pull request is."""
    ran(github, 3, BASE_SHA, zipped(captured), NAME)
    group = merge_group()
    group["merge_group"]["base_ref"] = "refs/heads/main"
    desk = prepared(tmp_path, github, event="merge_group", payload=group)

    assert desk.decision.baseline


def test_resolved__on_a_push(tmp_path, github, captured):
    """A push is compared with what was there before; a commit is never its own baseline."""
    compared(github, BASE_SHA, TESTED, "serve/start.sh")
    ran(github, 3, BASE_SHA, zipped(captured), NAME)
    ran(github, 4, TESTED, zipped(captured), NAME)
    compared(github, TESTED, BASE_SHA, status="behind")
    payload = {**push(), "ref": "refs/heads/main"}
    desk = prepared(tmp_path, github, event="push", payload=payload)

    assert "of run 3" in desk.decision.circumstances.searched[-1]
    assert desk.decision.baseline


def test_resolved__nowhere(tmp_path, github):
    """With none anywhere a pull request is UNPROVEN; the report names every place and how to get
    one."""
    desk = prepared(tmp_path, github)

    assert (desk.decision.action, desk.decision.exit_code) == ("refuse", 2)
    report = reports.stored(desk.work.evidence)
    assert report.verdict is Verdict.UNPROVEN
    assert len(report.searched) == 4
    assert report.searched[2] == f"artifacts: there is none named {NAME}"
    assert "this runner keeps no baseline" in report.searched[3]
    assert "mode: capture" in report.problems[0]
    assert desk.step("gate") == 2


def test_resolved__github_is_down(tmp_path):
    """Where not even the merge-base is known, nothing is taken for it."""
    desk = prepared(tmp_path, None)

    assert desk.decision.baseline == ""
    assert "the merge-base is not known" in desk.decision.circumstances.searched[-1]


def boots_for(desk, github, base: str, head: str, touched: str) -> None:
    """A pull request that changes one file, with an endpoint that a command starts."""
    compared(github, base, head, touched)
    github.state.pulls = {7: {"head_sha": head, "base_sha": base}}
    payload = to_main()
    payload["pull_request"]["head"]["sha"], payload["pull_request"]["base"]["sha"] = head, base
    (desk.temp / "event.json").write_text(json.dumps(payload))
    desk.inputs(plan="ci/plan.yml", boot="command", boot_command="x", endpoint="http://127.0.0.1:9")


def test_resolved__booted(tmp_path, github):
    """Where what the merge-base serves can be started, it is, and that is the last step."""
    desk = Desk(tmp_path, github)
    base = clones.committed(desk.workspace, {"ci/plan.yml": PLAN, "serve/start.sh": "1"})
    head = clones.committed(desk.workspace, {"serve/start.sh": "2"})
    boots_for(desk, github, base, head, "serve/start.sh")

    assert desk.step("prepare") == 0
    assert desk.decision.base == base
    assert "is started first" in desk.decision.circumstances.searched[-1]
    assert desk.outputs["reference"] == "true"


# --- pinned and packed ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def packed(captured: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("packed") / "b.tar.gz"
    bundle.pack(captured, out)
    return out.read_bytes()


def test_named__packed(tmp_path, github, captured, packed):
    """A packed baseline is unpacked, and must be the pinned one where there is a pin."""
    kept = {"b.tar.gz": {"base64": base64.b64encode(packed).decode()}}
    github.state.contents[BASE_SHA] |= kept
    pinned = {"baseline": "b.tar.gz", "baseline_sha256": bundle.root_of(captured)}
    taken = prepared(tmp_path / "a", github, inputs=pinned)
    refused = prepared(tmp_path / "b", github, inputs={**pinned, "baseline_sha256": "0" * 64})

    assert bundle.root_of(Path(taken.decision.baseline)) == pinned["baseline_sha256"]
    assert (refused.decision.action, refused.decision.exit_code) == ("refuse", 3)
    assert "not the baseline that was pinned" in refused.decision.reason
    assert refused.step("gate") == 3


WORKFLOW = ".github/workflows/quality.yml"


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("changes", [True, False])
def test_resolved__booted_with_changed_inputs(tmp_path, github, changes, is_told):
    """A flag that the pull request adds to `boot_command` in the workflow starts the merge-base
    too, and would be on both sides: such a run gives no PASS, and says why. Where GitHub does not
    tell what changed, the clone does."""
    desk = Desk(tmp_path, github)
    base = clones.committed(desk.workspace, {"ci/plan.yml": PLAN, WORKFLOW: "1"})
    touched = WORKFLOW if changes else "serve/start.sh"
    head = clones.committed(desk.workspace, {touched: "2"})
    boots_for(desk, github, base, head, touched)
    github.state.files = {7: [{"filename": touched}]}
    if not is_told:
        github.state.faults.append(Fault("GET", "/pulls/7/files", 9, 403))

    assert desk.step("prepare") == 0
    assert desk.decision.base == base
    found = [(d.field, d.path) for d in desk.decision.circumstances.differences]
    assert found == ([("baseline", WORKFLOW)] if changes else [])


@pytest.mark.parametrize("touched", [WORKFLOW, "serve/start.sh"])
def test_resolved__kept_with_changed_inputs(tmp_path, github, captured, touched):
    """The same of what a runner has kept: its own run may have been an earlier push of the same
    pull request."""
    github.state.files = {7: [{"filename": touched}]}
    first = prepared(tmp_path / "first", github)
    shelf.keep(first.job, first.job.settings(), "default", BASE_SHA, captured)
    again = prepared(tmp_path / "second", github, RUNNER_TOOL_CACHE=str(first.cache))

    assert again.decision.baseline
    found = [(d.field, d.path) for d in again.decision.circumstances.differences]
    assert found == ([("baseline", WORKFLOW)] if touched == WORKFLOW else [])


def anchored(packed: bytes, root: str) -> Mapping[str, Any]:
    """A plan that takes the pinned baseline only, and that baseline, at the merge-base."""
    pin = anchor.Pin(root, "2026-11-01", "the first")
    return {
        "ci/plan.yml": f"anchor: pins/baseline.yml\n{PLAN}",
        "ci/pins/baseline.yml": anchor.to_text(Anchor((pin,), "../b.tar.gz")),
        "ci/b.tar.gz": {"base64": base64.b64encode(packed).decode()},
    }


def test_anchored__the_pinned_one(tmp_path, github, captured, made, packed):
    """A plan's anchor says where the pinned baseline is, and no other is looked for; where the
    base branch stands by now is shown beside it."""
    github.state.contents[BASE_SHA] |= anchored(packed, bundle.root_of(captured))
    ran(github, 2, BASE_SHA, zipped(made.leg("earlier")), "inferquality-default-1")
    ran(github, 3, BASE_SHA, zipped(captured), NAME)
    desk = prepared(tmp_path, github)

    assert bundle.root_of(Path(desk.decision.baseline)) == bundle.root_of(captured)
    assert Path(desk.decision.baseline).is_relative_to(desk.work.path)
    assert desk.decision.circumstances.searched == ()
    assert [p.head_sha for p in desk.decision.circumstances.history] == [BASE_SHA]


def test_named__a_server(tmp_path, github):
    """A URL is no path: nothing is looked for, and the step that asks is given it as it is."""
    desk = prepared(tmp_path, github, inputs={"baseline": "http://127.0.0.1:9/v1"})

    assert desk.decision.baseline == "http://127.0.0.1:9/v1"
    assert desk.decision.circumstances.searched == ()
    assert desk.outputs["observe"] == "true"


def test_committed__no_archive(tmp_path, github, captured):
    """What lies in the place of a packed one and is none is told, and the search goes on."""
    github.state.contents[BASE_SHA][".inferquality/baseline.tar.gz"] = "nonsense"
    ran(github, 3, BASE_SHA, zipped(captured), NAME)
    desk = prepared(tmp_path, github)

    assert desk.decision.baseline
    assert any("committed: not taken" in said for said in desk.decision.circumstances.searched)


# --- capture --------------------------------------------------------------------------------


CAPTURE = {"mode": "capture", "endpoint": "http://127.0.0.1:9"}


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch"])
def test_capture(tmp_path, github, event):
    """The checkout is the reference; nothing is looked up, and one name is its artifact's."""
    compared(github, BASE_SHA, TESTED, "serve/start.sh")
    desk = prepared(tmp_path, github, inputs=CAPTURE, event=event, payload=push())

    assert (desk.decision.action, desk.decision.base) == ("measure", TESTED)
    assert {k: desk.outputs[k] for k in ("reference", "boot", "observe", "artifact")} == {
        **{"reference": "true", "boot": "false", "observe": "true", "artifact": "true"}
    }
    assert desk.outputs["baseline_name"] == NAME
    assert desk.outputs["artifact_name"] == "inferquality-default-capture-1"
    assert looked_up(github) == []


@pytest.mark.parametrize(
    ("event", "payload"),
    [("pull_request", to_main()), ("merge_group", merge_group())],
)
def test_capture__refused(tmp_path, github, event, payload):
    """A change does not capture what it is to be judged by."""
    desk = prepared(tmp_path, github, inputs=CAPTURE, event=event, payload=payload)

    assert (desk.decision.action, desk.decision.exit_code) == ("refuse", 4)
    assert "mode: capture on" in desk.decision.reason
    assert desk.step("gate") == 4


def test_capture__names_the_commit_that_is_there(tmp_path, github):
    """A step may have checked out another commit than the event's: that one is captured."""
    desk = Desk(tmp_path, github, event="schedule", inputs={**CAPTURE, "plan": "ci/plan.yml"})
    head = clones.committed(desk.workspace, {"ci/plan.yml": PLAN})

    desk.step("prepare")

    assert head != TESTED
    assert desk.decision.circumstances.run.tested_sha == head
    assert desk.decision.circumstances.run.head_sha == TESTED
