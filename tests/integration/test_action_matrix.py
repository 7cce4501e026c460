"""The action under act as a matrix: legs measure and post nothing, one job judges them as one, and
a leg that is missing is never green.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from integration.acting import (
    JUDGE,
    Acting,
    Done,
    Scene,
    Staged,
    checks,
    comment,
    comments,
    job,
    scene,
)
from integration.captured import PLAN, REFERENCE, TOKENS, UNITS, Capture
from integration.stand_in import Memory, StandIn

from iqaction import session

pytestmark = pytest.mark.timeout(900)

NAME = "inferquality / real"
NOBODY = "http://127.0.0.1:9"


def report_job(pr: Scene, **more: Any) -> dict[str, Any]:
    """The job that judges what the others left."""
    return job(mode="report", artifacts_path=str(pr.acting.artifacts), **JUDGE, **more)


@dataclass(frozen=True)
class Matrix:
    """Two shards of one suite, measured by two jobs and judged by a third."""

    pr: Scene
    github: FakeGithub
    done: Done
    engine: StandIn
    shards: Path  # a copy of their artifacts

    def again(self, *names: str, **more: Any) -> Done:
        """The third job alone, over these artifacts."""
        shutil.rmtree(self.pr.acting.artifacts)
        for name in names:
            shutil.copytree(self.shards / name, self.pr.acting.artifacts / name)
        self.github.state.comments.clear()
        self.github.state.checks.clear()
        return self.pr.run(report_job(self.pr, **more))


@pytest.fixture(scope="module")
def matrix(
    capture: Capture, memory: Memory, runner_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Matrix]:
    home = tmp_path_factory.mktemp("matrix")
    with FakeGithub() as github, StandIn(memory=memory) as engine:
        acting = Acting(home, github, runner_cache)
        plan = PLAN.format(suite="real", units=UNITS, tokens=TOKENS, legs=REFERENCE)
        pr = scene(acting, capture.home, plan)
        legs = [job(endpoint=engine.url, shard=f"{n}/2", **JUDGE) for n in (1, 2)]
        done = pr.run(*legs, {**report_job(pr), "needs": ["a", "b"], "if": "${{ always() }}"})
        kept = home / "kept"
        shutil.copytree(acting.artifacts, kept)
        yield Matrix(pr, github, done, engine, kept)


def test_shards(matrix: Matrix) -> None:
    """Two legs ask half of the prompts each and post nothing; the third job judges all 64, and
    posts one check and one comment."""
    done, github = matrix.done, matrix.github

    for leg in ("a", "b"):
        assert done.of(leg).exit_code == 0, done.of(leg).log
        assert done.of(leg).verdict == "PARTIAL"
    assert (done.of("c").exit_code, done.of("c").verdict) == (0, "PASS"), done.of("c").log
    assert done.of("c").outputs()["published"] == "true"
    assert checks(github) == {NAME: ("success", "PASS: this change keeps the model's output")}
    assert "### PASS  inferquality / real" in comment(github)
    assert {p.name for p in matrix.shards.iterdir()} == {
        *("inferquality-real-1-of-2-1", "inferquality-real-2-of-2-1", "inferquality-real-report-1"),
    }
    judged = json.loads((matrix.shards / "inferquality-real-report-1" / "report.json").read_text())
    assert [s["coverage"]["observed"] for s in judged["stages"]] == [UNITS, UNITS]
    assert session.verify(matrix.shards / "inferquality-real-report-1").problems == ()


def test_shards__one_missing(matrix: Matrix) -> None:
    """Half of the prompts are not a PASS: red, and the shard is named."""
    done = matrix.again("inferquality-real-1-of-2-1")

    assert done.exit_code in (2, 3)
    assert done.verdict != "PASS"
    assert "shard 2 of 2 is missing" in comment(matrix.github)
    assert checks(matrix.github)[NAME][0] == "failure"


def test_shards__none(matrix: Matrix) -> None:
    """No leg at all is NOT RUN, whatever else is green."""
    matrix.pr.acting.artifacts.mkdir(exist_ok=True)
    done = matrix.again(legs="real-1-of-2 real-2-of-2")

    assert done.exit_code in (3, 4)
    assert checks(matrix.github)[NAME][0] == "failure"


def test_shards__of_another_commit(matrix: Matrix) -> None:
    """What an earlier commit's jobs left does not stand in for a leg."""
    matrix.pr.change({"compose.yml": "services: {}\n# another commit\n"})
    done = matrix.again("inferquality-real-1-of-2-1", "inferquality-real-2-of-2-1")

    assert done.exit_code == 3
    assert "its evidence is of the commit" in comment(matrix.github)


def test_leg__fails(staged: Staged, github: FakeGithub) -> None:
    """A leg whose endpoint does not answer is red itself and posts nothing."""
    done = staged().run(job(endpoint=NOBODY, shard="1/2", **JUDGE))

    assert (done.exit_code, done.verdict) == (3, "NOT RUN")
    assert comments(github) == []
    assert checks(github) == {}


@pytest.mark.full
def test_suites(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """Two suites as legs: the third job posts one comment with both. One that did not run is red,
    also where UNPROVEN is a warning."""
    pr = staged()
    legs = [
        job(endpoint=url, suite=name, comment="false", check_run="false", **JUDGE)
        for name, url in (("fast", candidate.url), ("small", NOBODY))
    ]
    report = report_job(pr, suite="all", legs="fast small", on_unproven="warn")
    done = pr.run(*legs, {**report, "needs": ["a", "b"], "if": "${{ always() }}"})

    assert done.of("a").exit_code == 2, done.of("a").log
    assert done.of("b").exit_code == 3
    assert (done.of("c").exit_code, done.of("c").verdict) == (2, "UNPROVEN"), done.of("c").log
    assert list(checks(github)) == ["inferquality / all"]
    assert checks(github)["inferquality / all"][0] == "failure"
    assert "fast" in comment(github)
    assert "small" in comment(github)
    assert "nobody answers" in comment(github)


@pytest.mark.full
def test_suites__one_missing(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """A suite that is expected and left nothing is named, and the job is red."""
    pr = staged()
    leg = job(endpoint=candidate.url, suite="fast", comment="false", check_run="false", **JUDGE)
    report = report_job(pr, suite="all", legs="fast,small")
    done = pr.run(leg, {**report, "needs": ["a"], "if": "${{ always() }}"})

    assert done.of("b").exit_code in (2, 3)
    assert "the leg small is missing" in comment(github)
    assert checks(github)["inferquality / all"][0] == "failure"
