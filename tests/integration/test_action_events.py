"""The action under act on every event: whose code runs where, which commit a result is posted on,
and what a fork's result may say.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from integration.acting import (
    JUDGE,
    Done,
    Scene,
    Staged,
    checks,
    comment,
    comments,
    job,
)
from integration.stand_in import StandIn

# With the other scenarios these would not fit into the half hour of `.ci/run`.
pytestmark = [pytest.mark.timeout(900), pytest.mark.full]

NAME = "inferquality / real"
NOBODY = "http://127.0.0.1:9"
FORK = {"full_name": "eve/serve", "fork": True}


def dependabot(pr: Scene) -> dict[str, Any]:
    payload = pr.payload()
    payload["pull_request"]["user"]["login"] = "dependabot[bot]"
    return payload


# --- whose code runs here -------------------------------------------------------------------


def test_fork(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """A fork's pull request is refused on a self-hosted runner before any of its code runs, also
    where its token posts nothing."""
    pr = staged()
    boots = {"boot": "command", "boot_command": "touch booted"}
    done = pr.run(
        job(endpoint=candidate.url, **boots, **JUDGE), payload=pr.payload(repo=FORK), token="ghs_ro"
    )

    assert (done.exit_code, done.verdict) == (3, "NOT RUN"), done.log
    assert done.outputs()["published"] == "false"
    assert any("comes from a fork (eve/serve)" in said for said in done.obeyed("error"))
    assert candidate.asked == []
    assert not (pr.acting.checkout / "booted").exists()
    assert github.state.violations == []


def test_fork__allowed(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """With allow_forks it is measured."""
    pr = staged()
    done = pr.run(
        job(endpoint=candidate.url, allow_forks="true", **JUDGE), payload=pr.payload(repo=FORK)
    )

    assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
    assert "### UNPROVEN" in comment(github)


def test_dependabot(staged: Staged, github: FakeGithub) -> None:
    """Dependabot's code is nobody's that has been read, and is refused likewise."""
    pr = staged()
    done = pr.run(job(endpoint=NOBODY, **JUDGE), payload=dependabot(pr))

    assert (done.exit_code, done.verdict) == (3, "NOT RUN"), done.log
    assert "Dependabot" in comment(github)
    assert checks(github)[NAME][0] == "failure"


def test_fork__hosted(staged: Staged, github: FakeGithub) -> None:
    """On GitHub's own machines a fork's code can harm nothing, and is measured."""
    pr = staged()
    done = pr.run(
        job(endpoint=NOBODY, **JUDGE),
        payload=pr.payload(repo=FORK),
        env={"RUNNER_ENVIRONMENT": "github-hosted"},
    )

    assert done.exit_code == 3
    assert "nobody answers" in comment(github)


# --- where it is posted ---------------------------------------------------------------------


def test_merge_group(staged: Staged, github: FakeGithub) -> None:
    """A merge queue's group gets the check on its own head, and no comment."""
    pr = staged()
    group = {"head_sha": pr.head, "base_sha": pr.base, "head_ref": "refs/heads/gh-readonly-queue/m"}
    done = pr.run(
        job(endpoint=NOBODY, **JUDGE),
        event="merge_group",
        payload={"action": "checks_requested", "merge_group": group},
    )

    assert done.exit_code == 3, done.log
    [check] = github.state.checks.values()
    assert check["head_sha"] == pr.head
    assert checks(github)[NAME][0] == "failure"
    assert comments(github) == []


def test_merge_group__not_needed(staged: Staged, github: FakeGithub) -> None:
    """A group that changes nothing relevant is green at once, or the queue would stall."""
    pr = staged()
    github.state.compares = {f"{pr.base}...{pr.head}": {"files": [{"filename": "README"}]}}
    group = {"head_sha": pr.head, "base_sha": pr.base, "head_ref": "refs/heads/gh-readonly-queue/m"}
    done = pr.run(
        job(endpoint=NOBODY, paths="compose.yml", **JUDGE),
        event="merge_group",
        payload={"action": "checks_requested", "merge_group": group},
    )

    assert (done.exit_code, done.verdict) == (0, "NOT NEEDED"), done.log
    assert checks(github) == {NAME: ("success", "NOT NEEDED: nothing relevant changed")}


def test_push(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """A push is judged by its own files, and its check is on its own commit."""
    pr = staged()
    pushed = {"before": pr.base, "after": pr.head, "ref": "refs/heads/main"}
    done = pr.run(job(endpoint=candidate.url, **JUDGE), event="push", payload=pushed)

    assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
    [check] = github.state.checks.values()
    assert check["head_sha"] == pr.head
    assert comments(github) == []
    assert done.report()["run"]["event"] == "push"


def test_pull_request_target(staged: Staged, github: FakeGithub) -> None:
    """The event that hands out the token is refused as a mistake."""
    done = staged().run(job(endpoint=NOBODY, **JUDGE), event="pull_request_target")

    assert done.exit_code == 4
    assert any("pull_request_target is not supported" in x for x in done.obeyed("error"))


# --- the second workflow, for comments on forks ---------------------------------------------


@pytest.fixture
def fork(staged: Staged, github: FakeGithub) -> Scene:
    """A fork's pull request, as the second workflow finds it."""
    pr = staged()
    github.state.pulls = {7: {"head_sha": pr.head, "head_repository": "eve/serve"}}
    return pr


def published(pr: Scene, folder: Path) -> Done:
    """The second workflow, with the first one's artifact in a folder."""
    finished = {
        "id": 17,
        "run_attempt": 1,
        "conclusion": "success",
        "event": "pull_request",
        "head_sha": pr.head,
        "head_repository": {"full_name": "eve/serve"},
        "pull_requests": [],
    }
    return pr.run(
        job(mode="publish", artifacts_path=str(folder), suite="real"),
        event="workflow_run",
        payload={"action": "completed", "workflow_run": finished},
        run_id=18,
    )


def measured(pr: Scene) -> Path:
    """What the fork's own workflow uploads; its token posts nothing."""
    done = pr.run(
        job(endpoint=NOBODY, **JUDGE),
        payload=pr.payload(repo=FORK),
        token="ghs_ro",
        env={"RUNNER_ENVIRONMENT": "github-hosted"},
    )
    assert done.outputs()["published"] == "false"
    return done.artifacts


def test_publish(fork: Scene, github: FakeGithub) -> None:
    """A fork's report becomes a comment that says whose word it is, and never a check."""
    done = published(fork, measured(fork))

    assert done.outputs()["published"] == "true", done.log
    assert "### NOT RUN  inferquality / real" in comment(github)
    assert "read it as its author's word" in comment(github)
    assert checks(github) == {}


def invented(report: dict[str, Any]) -> bytes:
    return json.dumps({**report, "verdict": "SPLENDID"}).encode()


def deep(report: dict[str, Any]) -> bytes:
    return b'{"a":' * 200_000


def other_schema(report: dict[str, Any]) -> bytes:
    return json.dumps({**report, "$schema": "https://example.invalid/@everyone"}).encode()


HOSTILE = (invented, deep, other_schema)


def posts_nothing(done: Done, github: FakeGithub) -> None:
    """Asserts that the job is red and GitHub was told nothing."""
    assert done.exit_code in (3, 4), done.log
    assert done.outputs()["published"] == "false"
    assert comments(github) == []
    assert checks(github) == {}


def test_publish__hostile(fork: Scene, github: FakeGithub) -> None:
    """What is no report is not posted, whatever it is; the job is red and says so."""
    folder = measured(fork)
    kept = folder / "inferquality-real-1" / "report.json"
    report = json.loads(kept.read_text())
    for make in HOSTILE:
        kept.write_bytes(make(report))
        done = published(fork, folder)

        posts_nothing(done, github)


def test_publish__huge(fork: Scene, github: FakeGithub, tmp_path: Path) -> None:
    """A report beyond every bound is not read, and a link in the artifact leads nowhere."""
    folder = tmp_path / "artifacts"
    for name in ("huge", "linked"):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "inferquality-real-1").mkdir(parents=True)
        place = folder / "inferquality-real-1" / "report.json"
        if name == "huge":
            with place.open("wb") as file:
                file.truncate(300 << 20)
        else:
            place.symlink_to("/etc/passwd")
        done = published(fork, folder)

        posts_nothing(done, github)
        assert "root:" not in done.log


def test_publish__other_commit(fork: Scene, github: FakeGithub) -> None:
    """A comment goes to the pull request whose head this is, and to no other."""
    folder = measured(fork)
    github.state.pulls = {8: {"head_sha": "c" * 40, "head_repository": "eve/serve"}}
    done = published(fork, folder)

    assert done.outputs()["comment_url"] == ""
    assert comments(github) == []
