"""The whole action under nektos/act: each verdict reaches the job's exit status, the check, the
comment and the outputs, and the judge is not the pull request's.

The candidate answers what a real llama.cpp server answered; ``test_action_boot`` boots real ones.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import Fault
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
from integration.captured import BOTH, PLAN, REFERENCE, TOKENS, UNITS, Capture
from integration.stand_in import FORCE, Ask, Memory, Said, StandIn, swapped

pytestmark = pytest.mark.timeout(900)

NAME = "inferquality / real"
MANY = 24  # prompts: enough for a FAIL
NOBODY = "http://127.0.0.1:9"


def other_choice(ask: Ask, said: Said) -> Said:
    """A candidate whose kernels prefer another token, everywhere."""
    if ask.path != FORCE:
        return said
    body = said.body
    rows = body.get("completion_probabilities", [])
    return said.with_body({**body, "completion_probabilities": [swapped(r, 4) for r in rows]})


@pytest.fixture
def broken(memory: Memory) -> Iterator[StandIn]:
    """A candidate that FAILs."""
    with StandIn(memory=memory, tell=other_choice) as between:
        yield between


@dataclass(frozen=True)
class Failed:
    """A run of the broken candidate, and what it left."""

    done: Done
    github: FakeGithub
    pr: Scene

    @property
    def accept(self) -> list[dict[str, str]]:
        """An acceptance of each check that FAILs or is UNPROVEN."""
        report = self.done.report()
        return [
            {
                "suite": "real",
                "check": f"{stage['stage']}:{check['metric']}",
                "plan": report["settings_sha256"][:12],
                "reason": "the new kernels are wanted",
                "author": "ann",
            }
            for stage in report["stages"]
            for check in stage["checks"]
            if check["judged"] and check["verdict"] in ("FAIL", "UNPROVEN")
        ]


@pytest.fixture(scope="module")
def failed(
    capture: Capture, memory: Memory, runner_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Failed]:
    with FakeGithub() as github, StandIn(memory=memory, tell=other_choice) as engine:
        acting = Acting(tmp_path_factory.mktemp("failed"), github, runner_cache)
        plan = PLAN.format(suite="real", units=MANY, tokens=TOKENS, legs=REFERENCE)
        pr = scene(acting, capture.home, plan)
        inputs = {"endpoint": engine.url, "paths": "compose.yml", **JUDGE}
        yield Failed(pr.run(job(**inputs)), github, pr)


def is_told(
    done: Done, github: FakeGithub, status: int, verdict: str, conclusion: str, *, suite: str = ""
) -> None:
    """Asserts that every surface says the same, and that all of it was posted."""
    name = f"inferquality / {suite or 'real'}"

    assert done.exit_code == status, done.log
    assert (done.status != 0) == (status != 0)
    assert done.verdict == verdict
    assert done.outputs()["published"] == "true"
    assert [name] == list(checks(github))
    assert checks(github)[name][0] == conclusion
    assert checks(github)[name][1].startswith(verdict)


# --- the four verdicts ----------------------------------------------------------------------


def test_pass(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """PASS: exit 0, a green check, one comment that says so, and all outputs."""
    pr = staged(UNITS, legs=BOTH)
    done = pr.run(job(endpoint=candidate.url, **JUDGE))

    is_told(done, github, 0, "PASS", "success")
    assert checks(github)[NAME] == ("success", "PASS: this change keeps the model's output")
    assert "### PASS  inferquality / real" in comment(github)
    assert "/artifacts/4242)" in comment(github)
    assert done.report()["verdict"] == "PASS"
    assert [s["coverage"]["observed"] for s in done.report()["stages"]] == [UNITS, UNITS]
    found = done.outputs()
    assert found["comment_url"].endswith("#issuecomment-1002")
    assert found["check_url"].endswith("/runs/1001")
    assert [found[n].rpartition("/")[2] for n in ("report", "html", "evidence")] == [
        *("report.json", "report.html", "evidence"),
    ]
    [check] = github.state.checks.values()
    assert check["head_sha"] == pr.head
    assert check["external_id"] == "17.1"
    assert done.annotations == ["measuring", "PASS: this change keeps the model's output"]


def test_fail(failed: Failed) -> None:
    """FAIL: exit 1, a red check, and a comment that says what differs and what was changed."""
    is_told(failed.done, failed.github, 1, "FAIL", "failure")
    said = comment(failed.github)
    assert "### FAIL  inferquality / real" in said
    assert "| **FAIL** |" in said
    assert "--kv-cache-dtype fp8" in said
    assert "compose.yml:2" in said
    [notes] = failed.github.state.annotations.values()
    assert {(n["path"], n["start_line"]) for n in notes} == {("compose.yml", 1), ("compose.yml", 2)}


def test_unproven(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """UNPROVEN, as with too few prompts: exit 2 and a red check that says what would decide it."""
    done = staged().run(job(endpoint=candidate.url, **JUDGE))

    is_told(done, github, 2, "UNPROVEN", "failure")
    assert "### UNPROVEN  inferquality / real" in comment(github)


def test_unproven__warn(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """With on_unproven: warn the job is green and the check neutral; the word stays UNPROVEN."""
    done = staged().run(job(endpoint=candidate.url, on_unproven="warn", **JUDGE))

    is_told(done, github, 0, "UNPROVEN", "neutral")
    assert "### UNPROVEN  inferquality / real" in comment(github)


def test_not_run(staged: Staged, github: FakeGithub) -> None:
    """NOT RUN, as where nobody answers: exit 3, also under on_unproven: warn, and the reason."""
    done = staged().run(job(endpoint=NOBODY, on_unproven="warn", **JUDGE))

    is_told(done, github, 3, "NOT RUN", "failure")
    assert "nobody answers at the endpoint" in comment(github)
    assert done.report()["verdict"] == "NOT RUN"


def test_configuration(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """A mistake in an input: exit 4, named on every surface, and nobody is asked."""
    done = staged().run(job(endpoint=candidate.url, mode="runn", suite="mine", **JUDGE))

    is_told(done, github, 4, "NOT RUN", "failure", suite="mine")
    assert "mode: found 'runn'; did you mean 'run'?" in comment(github)
    assert any("mode: found 'runn'" in said for said in done.annotations)
    assert candidate.asked == []


def test_configuration__quiet(staged: Staged, github: FakeGithub) -> None:
    """What an input says about posting holds although another input is a mistake."""
    done = staged().run(job(dialect="x", comment="false", check_run="false", **JUDGE))

    assert done.exit_code == 4
    assert comments(github) == []
    assert checks(github) == {}


def test_configuration__plan(staged: Staged, github: FakeGithub) -> None:
    """A mistake in the plan is named with its line."""
    pr = staged()
    pr.base = pr.acting.commit({".inferquality/plan.yml": "suite: real\nstages: [skore]\n"})
    pr.change({"compose.yml": "services: {}\n# b\n"})
    done = pr.run(job(endpoint=NOBODY, **JUDGE))

    assert done.exit_code == 4
    assert done.verdict == "NOT RUN"
    assert any("unknown stage 'skore'" in said for said in done.annotations)


# --- nothing changed ------------------------------------------------------------------------


def test_not_needed(staged: Staged, github: FakeGithub) -> None:
    """Nothing under `paths` changed: green at once with that reason, and no comment is made."""
    done = staged().run(job(endpoint=NOBODY, paths="docs/**", **JUDGE))

    is_told(done, github, 0, "NOT NEEDED", "success")
    assert checks(github)[NAME][1] == "NOT NEEDED: nothing relevant changed"
    assert comments(github) == []
    assert done.outputs()["report"] == ""
    assert list(done.artifacts.iterdir()) == []


def test_not_needed__replaces(staged: Staged, github: FakeGithub) -> None:
    """A comment of an earlier commit is replaced: its verdict is not this commit's."""
    pr = staged()
    assert pr.run(job(endpoint=NOBODY, **JUDGE)).verdict == "NOT RUN"
    pr.change({"README": "more words\n"})
    done = pr.run(job(endpoint=NOBODY, paths="compose.yml", **JUDGE), run_id=18)

    assert done.verdict == "NOT NEEDED"
    assert "### NOT NEEDED  inferquality / real" in comment(github)


def too_many(github: FakeGithub) -> None:
    github.state.pulls[7]["changed_files"] = 3001


def failing(github: FakeGithub) -> None:
    github.state.faults.append(Fault(path_re="/pulls/7/files", headers={"Retry-After": "600"}))


@pytest.mark.parametrize("unknown", [too_many, failing])
def test_not_needed__unknown(
    staged: Staged, github: FakeGithub, unknown: Callable[[FakeGithub], None]
) -> None:
    """What GitHub does not list whole is measured: unknown is never "nothing"."""
    pr = staged()
    unknown(github)
    done = pr.run(job(endpoint=NOBODY, paths="docs/**", **JUDGE))

    is_told(done, github, 3, "NOT RUN", "failure")
    assert any("the changed files are not known" in said for said in done.annotations)


# --- the judge's own files ------------------------------------------------------------------


def test_judge__changed(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """A pull request that weakens its plan is judged by the merge-base's, and does not PASS."""
    pr = staged(UNITS, legs=BOTH)
    weak = PLAN.format(suite="real", units=2, tokens=TOKENS, legs=REFERENCE)
    pr.change({".inferquality/plan.yml": weak})
    done = pr.run(job(endpoint=candidate.url, **JUDGE))

    is_told(done, github, 2, "UNPROVEN", "failure")
    assert [s["coverage"]["observed"] for s in done.report()["stages"]] == [UNITS, UNITS]
    assert "-  - trajectory: {prompts: prompts.jsonl, limit: 64" in comment(github)
    assert "+  - trajectory: {prompts: prompts.jsonl, limit: 2" in comment(github)


def test_judge__shallow(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """Where the clone is shallow, as checkout makes it, GitHub gives the merge-base's files."""
    pr = staged()
    shallow(pr, github)
    done = pr.run(job(endpoint=candidate.url, **JUDGE))

    is_told(done, github, 2, "UNPROVEN", "failure")
    assert done.report()["differences"] == []


def test_judge__shallow_and_unknown(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """Where neither tells, the verdict is at most UNPROVEN and says why."""
    pr = staged(UNITS, legs=BOTH)
    shallow(pr, github)
    github.state.contents.clear()
    done = pr.run(job(endpoint=candidate.url, **JUDGE))

    is_told(done, github, 2, "UNPROVEN", "failure")
    assert {d["field"] for d in done.report()["differences"]} >= {"plan", "prompts", "baseline"}


def shallow(pr: Any, github: FakeGithub) -> None:
    """Cut the clone's history off, and let GitHub know what it holds."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in pr.acting.checkout.rglob("*") if p.is_file()):
        name = str(path.relative_to(pr.acting.checkout))
        if not name.startswith(".git/"):
            found[name] = {"base64": base64.b64encode(path.read_bytes()).decode()}
    found["compose.yml"] = "services: {}\n"
    github.state.contents = {pr.base: found}
    github.state.compares = {f"{pr.base}...{pr.head}": {"merge_base": pr.base}}
    (pr.acting.checkout / ".git" / "shallow").write_text(f"{pr.head}\n")


# --- acceptances ----------------------------------------------------------------------------

VALID, EXPIRED = "2099-01-31", "2020-01-31"


def accepting(entries: list[dict[str, str]], expires: str) -> dict[str, str]:
    """The file that accepts these."""
    lines = [f"  - {json.dumps({**entry, 'expires': expires})}\n" for entry in entries]
    return {".inferquality/accept.yml": "accept:\n" + "".join(lines)}


def test_accepted(staged: Staged, github: FakeGithub, failed: Failed, broken: StandIn) -> None:
    """What the base accepts makes the job green, and FAIL stays the verdict beside it."""
    pr = staged(MANY)
    pr.base = pr.acting.commit(accepting(failed.accept, VALID))
    pr.change({"compose.yml": "services: {}\n# b\n"})
    done = pr.run(job(endpoint=broken.url, **JUDGE))

    assert (done.exit_code, done.verdict) == (0, "ACCEPTED"), done.log
    assert done.report()["verdict"] == "FAIL"
    assert checks(github)[NAME][0] == "success"
    assert checks(github)[NAME][1].startswith("FAIL, accepted")
    assert "FAIL, ACCEPTED" in comment(github)
    assert "Accepted by ann until 2099-01-31: the new kernels are wanted" in comment(github)


def test_accepted__expired(
    staged: Staged, github: FakeGithub, failed: Failed, broken: StandIn
) -> None:
    """What was accepted until a day that is over is red again, and says so."""
    pr = staged(MANY)
    pr.base = pr.acting.commit(accepting(failed.accept, EXPIRED))
    pr.change({"compose.yml": "services: {}\n# b\n"})
    done = pr.run(job(endpoint=broken.url, **JUDGE))

    is_told(done, github, 1, "FAIL", "failure")
    assert "expired on 2020-01-31" in comment(github)


def test_accepted__by_itself(
    staged: Staged, github: FakeGithub, failed: Failed, broken: StandIn
) -> None:
    """A pull request cannot accept its own change."""
    pr = staged(MANY)
    pr.change(accepting(failed.accept, VALID))
    done = pr.run(job(endpoint=broken.url, **JUDGE))

    is_told(done, github, 1, "FAIL", "failure")
    assert any("a pull request cannot accept for itself" in x for x in done.annotations)
