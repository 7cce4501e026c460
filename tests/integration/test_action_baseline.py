"""Where the action's baseline comes from, under act: captured on the base branch, found again by a
pull request, and not taken where it is another commit's.

The engine's answers are a real one's, remembered: eight short prompts, too few to PASS.
"""

from __future__ import annotations

import base64
import io
import pickle
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from integration.acting import Acting, Done, Scene, checks, comment, git, job
from integration.captured import BOTH, PLAN, Small
from integration.stand_in import FORCE, Ask, Said, StandIn, swapped
from integration.test_action_boot import Serving

from iqaction import merging, session
from iqaction.circumstances import Circumstances
from iqaction.report import Run

pytestmark = pytest.mark.timeout(600)

NAME = "inferquality-baseline-real"
COMPOSE = "compose.yml"
PATHS = f"{COMPOSE}\nserving/**"


@dataclass
class History:
    """A repository whose main branch has four commits, and a pull request from the third.

    Since ``ancestor`` nothing that matters has changed, since ``changed`` something has; ``tip`` is
    on main after the merge-base ``base``.
    """

    pr: Scene
    changed: str
    ancestor: str
    base: str
    tip: str


@pytest.fixture
def history(small: Small, runner_cache: Path, github: FakeGithub, tmp_path: Path) -> History:
    acting = Acting(tmp_path / "pr", github, runner_cache)
    plan = PLAN.format(suite="real", units=8, tokens=4, legs=BOTH)
    prompts = (small.capture.home / "prompts.jsonl").read_bytes()
    judge = {".inferquality/plan.yml": plan, ".inferquality/prompts.jsonl": prompts}
    changed = acting.commit({**judge, COMPOSE: "services: {}\n"})
    ancestor = acting.commit({COMPOSE: "services: {}\n# a flag\n"})
    base = acting.commit({"README": "nothing that matters\n"})
    tip = acting.commit({COMPOSE: "services: {}\n# a later flag\n"})
    git(acting.checkout, "checkout", "-q", "-b", "topic", base)
    pr = Scene(acting, base)
    pr.change({COMPOSE: "services: {}\n# --kv-cache-dtype fp8\n"})
    compared(github, ancestor, base, "README")
    compared(github, changed, base, COMPOSE, "README")
    github.state.compares[f"{tip}...{base}"] = {"status": "behind", "merge_base": base}
    github.state.compares[f"{base}...{pr.head}"] = {"files": [{"filename": COMPOSE}]}
    return History(pr, changed, ancestor, base, tip)


def compared(github: FakeGithub, old: str, new: str, *files: str) -> None:
    github.state.compares[f"{old}...{new}"] = {
        "status": "ahead",
        "merge_base": old,
        "files": [{"filename": name} for name in files],
    }


@pytest.fixture
def baseline(small: Small, tmp_path: Path) -> Callable[[str], bytes]:
    """Factory: an artifact with the reference, as captured from a commit."""

    def make(sha: str) -> bytes:
        folder = tmp_path / f"reference-{sha[:8]}"
        merging.merge([small.capture.folder], folder, Circumstances(Run(tested_sha=sha)))
        return zipped(folder)

    return make


def zipped(folder: Path) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(path, str(path.relative_to(folder)))
    return data.getvalue()


def run_of(
    github: FakeGithub, number: int, sha: str, data: bytes, name: str = NAME, **run: str
) -> None:
    """A run on GitHub, with an artifact; the higher the number, the newer."""
    branch = run.get("head_branch", "main")
    github.state.runs[number] = {
        "event": "push", "head_sha": sha, "head_branch": branch, **run
    }  # fmt: skip
    made_by = {"repository_id": 1, "head_repository_id": 1, "head_sha": sha, "head_branch": branch}
    github.state.artifacts.append(
        {
            "id": number,
            "name": name,
            "run_id": number,
            "expired": False,
            "created_at": f"2026-11-{number:02}T10:00:00Z",
            "zip": base64.b64encode(data).decode(),
            "workflow_run": made_by,
        }
    )


def measuring(endpoint: str, **more: str) -> dict[str, Any]:
    inputs = {"plan": ".inferquality/plan.yml", "baseline": "auto", "paths": PATHS, **more}
    return job(endpoint=endpoint, **inputs)


def searched(done: Done) -> list[str]:
    return list(done.report()["searched"])


@pytest.fixture
def engine_again(small: Small) -> Iterator[StandIn]:
    with StandIn(memory=small.memory) as between:
        yield between


def test_auto(
    history: History,
    github: FakeGithub,
    baseline: Callable[[str], bytes],
    engine_again: StandIn,
) -> None:
    """Of all that is there the newest is taken that is of the merge-base, or of an ancestor after
    which nothing that matters changed; the report says why the others are not."""
    h = history
    run_of(github, 1, h.ancestor, baseline(h.ancestor))
    run_of(github, 2, h.changed, baseline(h.changed))
    run_of(github, 3, h.base, baseline(h.base)[:-400])
    run_of(github, 4, h.base, baseline(h.tip))
    run_of(github, 5, h.base, baseline(h.base), conclusion="failure")
    run_of(github, 6, h.tip, baseline(h.tip))
    run_of(github, 7, h.base, baseline(h.base), event="pull_request")
    run_of(github, 8, h.base, baseline(h.base), head_branch="topic")
    run_of(github, 9, h.base, baseline(h.base), "inferquality-real-1", conclusion="failure")
    done = h.pr.run(measuring(engine_again.url))

    assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
    [earlier] = done.report()["history"]
    assert (earlier["head_sha"], earlier["verdict"]) == (h.base, "UNPROVEN")
    said = [line for line in searched(done) if "artifact" in line]
    assert [("not taken" in line, line.split(" (")[0][-1]) for line in said] == [
        *((True, str(n)) for n in (8, 7, 6, 5, 4, 3, 2)),
        (False, "1"),
    ]
    for line, why in zip(
        said,
        (
            "it ran on the branch topic, not on main",
            "it ran on pull_request, not on push or schedule",
            "its commit is neither the merge-base nor an ancestor of it",
            "it ended with failure",
            f"it was captured from {h.tip[:12]}",
            "it is no whole archive",
            "files that matter have changed: compose.yml",
            "of an ancestor of the merge-base, since which nothing that matters has changed",
        ),
        strict=True,
    ):
        assert why in line
    report = done.report()
    assert report["baseline_run"]["tested_sha"] == h.ancestor
    assert report["problems"] == []
    assert github.state.violations == []
    assert "**Where the baseline comes from**" in comment(github)


# --- capturing ------------------------------------------------------------------------------


@pytest.fixture
def serving(small: Small, tmp_path: Path) -> Serving:
    kept = tmp_path / "memory.pickle"
    kept.write_bytes(pickle.dumps(small.memory))
    return Serving(kept, tmp_path / "starts")


def booted(serving: Serving) -> dict[str, str]:
    return {k: v for k, v in serving.inputs().items() if k not in ("plan", "baseline")}


def capturing(**more: str) -> dict[str, Any]:
    return job(mode="capture", plan=".inferquality/plan.yml", paths=PATHS, **more)


def on_main(h: History, sha: str, *jobs: dict[str, Any], **more: Any) -> Done:
    """A push to main of a commit that changes what is served."""
    git(h.pr.acting.checkout, "checkout", "-q", sha)
    pushed = {"before": "0" * 40, "after": sha, "ref": "refs/heads/main"}
    done = h.pr.acting.run(*jobs, event="push", payload=pushed, **more)
    git(h.pr.acting.checkout, "checkout", "-q", "topic")
    return done


def test_capture(history: History, github: FakeGithub, serving: Serving) -> None:
    """What main serves is captured, started as often as its noise asks for, and its artifact is the
    baseline of the next pull request."""
    h = history
    done = on_main(h, h.base, capturing(launches="3", **booted(serving)), run_id=20)

    assert (done.exit_code, done.verdict) == (0, "CAPTURED"), done.log
    assert serving.starts == 4
    captured = done.artifacts / NAME
    assert session.verify(captured).problems == ()
    assert done.outputs()["baseline"].endswith("/evidence")
    assert [p.name for p in done.artifacts.iterdir()] == [NAME]
    conclusion, title = checks(github)["inferquality / real"]
    assert conclusion == "neutral"
    assert "a reference was captured with 3 relaunches" in title

    run_of(github, 20, h.base, zipped(captured))
    done = h.pr.run(measuring(**booted(serving)), run_id=21)

    assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
    assert serving.starts == 5
    assert searched(done)[-1].startswith(f"artifact {NAME} of run 20 (push, {h.base[:12]}): taken")
    assert done.report()["baseline_run"]["tested_sha"] == h.base


@pytest.mark.full
def test_capture__kept_on_the_runner(
    history: History, github: FakeGithub, serving: Serving
) -> None:
    """Without an artifact the runner's own copy is found; for a pull request from an older commit,
    what its merge-base serves is started as often, and is found on its next push."""
    h = history
    on_main(h, h.base, capturing(launches="3", **booted(serving)), run_id=20)
    done = h.pr.run(measuring(**booted(serving)), run_id=22)

    assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
    assert serving.starts == 5
    assert f"this runner's baseline of {h.base[:12]}" in searched(done)[-1]
    assert f"artifacts: there is none named {NAME}" in searched(done)

    git(h.pr.acting.checkout, "checkout", "-q", "-B", "topic", h.changed)
    older = Scene(h.pr.acting, h.changed)
    older.change({COMPOSE: "services: {}\n# of before\n"})
    compared(github, h.changed, older.head, COMPOSE)
    github.state.compares[f"{h.base}...{h.changed}"] = {
        "status": "behind",
        "merge_base": h.changed,
    }
    for run_id, starts in ((23, 10), (24, 11)):
        done = older.run(measuring(**booted(serving)), run_id=run_id)

        assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
        assert serving.starts == starts
        assert done.report()["baseline_run"]["tested_sha"] == h.changed
    assert "of the merge-base" in searched(done)[-1]


def test_capture__not_restarted(
    history: History, github: FakeGithub, engine_again: StandIn
) -> None:
    """A server that is not the action's to restart is captured all the same, and it is said."""
    done = on_main(history, history.base, capturing(launches="3", endpoint=engine_again.url))

    assert (done.exit_code, done.verdict) == (0, "CAPTURED"), done.log
    assert any("not ours to restart" in said for said in done.annotations)
    assert any("was not restarted" in said for said in done.report(NAME)["caveats"])


def test_capture__disagrees_with_itself(history: History, github: FakeGithub, small: Small) -> None:
    """A reference that does not say the same twice is red, is not uploaded as a baseline, and is
    not kept."""
    asked: list[Ask] = []

    def tell(ask: Ask, said: Said) -> Said:
        rows = said.body.get("completion_probabilities") if ask.path == FORCE else None
        if not rows:
            return said
        asked.append(ask)
        return said.with_body({**said.body, "completion_probabilities": noisy(rows, len(asked))})

    with StandIn(memory=small.memory, tell=tell) as engine:
        done = on_main(history, history.base, capturing(launches="3", endpoint=engine.url))

    assert (done.exit_code, done.verdict) == (1, "FAIL"), done.log
    assert done.outputs()["baseline"] == ""
    assert [p.name for p in done.artifacts.iterdir()] == ["inferquality-real-capture-1"]
    assert checks(github)["inferquality / real"][0] == "failure"


def noisy(rows: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    return [swapped(row, 1 + seed % 3) for row in rows]
