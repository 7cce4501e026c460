"""Paths are told from the root of the pull request's repository, wherever it is checked out."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from unit.action.clones import committed, git
from unit.action.desk import REPOSITORY, Desk
from unit.github.factory import event

from iqaction.action import checkout, deciding
from iqaction.action.settings import Settings
from iqaction.errors import ConfigError
from iqaction.github.changes import ChangedFile, Changes
from iqaction.github.event import Event

PLAN = "stages:\n  - score: {margins: {kl: 0.02}}\n"
WEAKER = PLAN.replace("0.02", "0.9")
MANIFEST = "base/manifest.json"
ACCEPT = """\
accept:
  - {suite: s, field: plan, plan: 3f2a9c0d1e2b, expires: 2027-01-31, reason: r, author: a}
"""
ACCEPT_PATH = ".inferquality/accept.yml"


class Pull:
    """A pull request in a clone at ``folder`` of the workspace, and its event."""

    def __init__(
        self,
        home: Path,
        folder: str = "src",
        base: dict[str, str | None] | None = None,
        head: dict[str, str | None] | None = None,
        tip: dict[str, str | None] | None = None,
    ) -> None:
        self.home = home
        self.root = home / "checkout" / folder
        self.start = committed(self.root, base or {"plan.yml": PLAN, MANIFEST: "{}"})
        self.tip = committed(self.root, tip) if tip else self.start
        git(self.root, "checkout", "-q", "-b", "theirs", self.start)
        self.head = committed(self.root, head or {"plan.yml": WEAKER})

    def event(self) -> Event:
        return replace(
            event(), base_sha=self.tip, head_sha=self.head, tested_sha=self.head, is_fork=False
        )

    def desk(self, **inputs: str) -> Desk:
        """The step that decides has run, without a token: the clone alone tells."""
        head = {"sha": self.head, "repo": {"full_name": REPOSITORY}}
        pull = {"number": 7, "head": head, "base": {"sha": self.tip}, "user": {"login": "ann"}}
        desk = Desk(
            self.home,
            payload={"pull_request": pull},
            inputs=inputs,
            IQ_TOKEN="",
            GITHUB_SHA=self.head,
        )

        assert desk.step("prepare") == 0
        assert "Traceback" not in desk.log
        return desk


def differences(desk: Desk) -> list[tuple[str, str]]:
    return [(d.field, d.path) for d in desk.decision.circumstances.differences]


@pytest.mark.parametrize("folder", ["", "src", "deep/er"])
def test_prepare__the_plan_is_the_merge_bases(tmp_path: Path, folder: str) -> None:
    """With actions/checkout's `path` the pull request's plan does not judge it either."""
    at = f"{folder}/" if folder else ""
    pull = Pull(tmp_path, folder, head={"plan.yml": WEAKER, MANIFEST: "[]"})

    desk = pull.desk(plan=f"{at}plan.yml", baseline=f"{at}base")

    assert differences(desk) == [("plan", "plan.yml"), ("baseline", "base")]
    assert Path(desk.decision.plan).read_text() == PLAN
    assert (Path(desk.decision.baseline) / "manifest.json").read_text() == "{}"


def test_prepare__an_absolute_path(tmp_path: Path) -> None:
    """The workspace's own path in front changes nothing."""
    pull = Pull(tmp_path)

    desk = pull.desk(plan=str(pull.root / "plan.yml"), baseline="src/base")

    assert differences(desk) == [("plan", "plan.yml")]


def test_prepare__different_repositories(tmp_path: Path) -> None:
    """Files of two repositories cannot both be compared with one merge-base."""
    pull = Pull(tmp_path)
    committed(tmp_path / "checkout/tools", {"reference/manifest.json": "{}"})

    desk = pull.desk(plan="src/plan.yml", baseline="tools/reference")

    assert desk.decision.action == "refuse"
    assert "plan in src, baseline in tools" in desk.decision.reason


def test_prepare__prompts_of_inline_stages(tmp_path: Path) -> None:
    """A plan in the workflow has no folder from which its prompts could be found."""
    pull = Pull(tmp_path, base={"dev.jsonl": "{}", MANIFEST: "{}"})

    desk = pull.desk(stages="- trajectory: {prompts: src/dev.jsonl}", baseline="src/base")

    assert desk.decision.action == "refuse"
    assert "use `plan`" in desk.decision.reason


def test_prepare__another_repository(tmp_path: Path) -> None:
    """A file of a repository that is not the pull request's is never used in silence."""
    pull = Pull(tmp_path, "src")
    committed(tmp_path / "checkout/tools", {"mine.yml": PLAN, MANIFEST: "{}"})
    (tmp_path / "checkout/tools/other.yml").write_text(PLAN)

    desk = pull.desk(plan="tools/mine.yml", baseline="tools/base")

    assert differences(desk) == [("plan", "mine.yml"), ("baseline", "base")]


def test_prepare__no_repository_at_all(tmp_path: Path) -> None:
    """Without `.git`, and nobody to ask, nothing can be compared, and that is told."""
    pull = Pull(tmp_path, "")
    shutil.rmtree(pull.root / ".git")

    assert differences(pull.desk(plan="plan.yml", baseline="base")) == [
        ("plan", "plan.yml"),
        ("baseline", "base"),
    ]


def test_prepare__a_submodule_in_the_plans_place(tmp_path: Path) -> None:
    """A repository that the pull request puts into a folder is not the one that is looked in: its
    plan would be compared with another file of the same name."""
    base: dict[str, str | None] = {"ci/plan.yml": PLAN, "plan.yml": WEAKER, MANIFEST: "{}"}
    pull = Pull(tmp_path, "", base=base, head={"ci/plan.yml": None})
    committed(pull.root / "ci", {"plan.yml": WEAKER})
    pull.head = committed(pull.root, {})

    desk = pull.desk(plan="ci/plan.yml", baseline="base")

    assert differences(desk) == [("plan", "ci/plan.yml")]
    assert Path(desk.decision.plan).read_text() == PLAN


def test_find__neither_is_the_pull_requests(tmp_path: Path) -> None:
    """One repository in another, and neither has the commit: it is said, nothing is guessed."""
    committed(tmp_path, {"a": "x"})
    committed(tmp_path / "in", {"plan.yml": PLAN})

    with pytest.raises(ConfigError, match="neither has the commit that is tested"):
        checkout.find(Settings(plan="in/plan.yml"), event(), tmp_path)


def test_find__behind_a_link(tmp_path: Path) -> None:
    """A link to the repository's own root does not rename what is below it."""
    sha = committed(tmp_path, {"plan.yml": PLAN})
    (tmp_path / "ci").symlink_to(".")

    found = checkout.find(
        Settings(plan="ci/plan.yml"), replace(event(), head_sha=sha), tmp_path.resolve()
    )

    assert (found.root, found.settings.plan) == (tmp_path.resolve(), "ci/plan.yml")


def files(*paths: str) -> Changes:
    return Changes(True, tuple(ChangedFile(p, "modified") for p in paths))


@pytest.mark.parametrize(
    ("path", "is_relevant"),
    [("plan.yml", True), ("base/x", True), ("deploy/compose.yml", True), ("README.md", False)],
)
def test_nothing_relevant__below_a_path(tmp_path: Path, path: str, is_relevant: bool) -> None:
    """GitHub names files from the repository's root, the inputs from the workspace."""
    pull = Pull(tmp_path)
    settings = Settings(
        plan="src/plan.yml",
        baseline="src/base",
        compose_file="src/deploy/compose.yml",
        paths=("serve/**",),
    )
    workspace = (tmp_path / "checkout").resolve()

    said = deciding.nothing_relevant(settings, pull.event(), files(path), workspace)

    assert is_relevant == (said == "")


@pytest.mark.parametrize(
    "path", ["compose.yml", "current", "deploy/prod.yml", "real/prod.yml", "real"]
)
def test_nothing_relevant__the_compose_file_is_a_link(tmp_path: Path, path: str) -> None:
    """Wherever a change can lead it elsewhere, or change what it ends at."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/prod.yml").write_text("x")
    (tmp_path / "deploy").symlink_to("real")
    (tmp_path / "current").symlink_to("deploy/prod.yml")
    (tmp_path / "compose.yml").symlink_to("current")
    if path == "deploy/prod.yml":  # GitHub would name the link itself
        path = "deploy"
    settings = Settings(compose_file="compose.yml", paths=("serve/**",))

    assert deciding.nothing_relevant(settings, event(), files(path), tmp_path) == ""
    assert deciding.nothing_relevant(settings, event(), files("x"), tmp_path) != ""


def test_nothing_relevant__a_compose_file_of_links_to_themselves(tmp_path: Path) -> None:
    """A loop ends."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    settings = Settings(compose_file="a", paths=("serve/**",))

    assert deciding.nothing_relevant(settings, event(), files("b"), tmp_path) == ""


def test_reference__not_from_below_a_path(tmp_path: Path) -> None:
    """The merge-base is started with paths of the workspace: only where they are the same."""
    below, at_root = Pull(tmp_path / "a"), Pull(tmp_path / "b", "")
    given = [Settings(plan="src/plan.yml"), Settings(plan="plan.yml")]
    places = [(x / "checkout").resolve() for x in (tmp_path / "a", tmp_path / "b")]

    assert deciding.reference(given[0], below.event(), None, places[0]) == ""
    assert deciding.reference(given[1], at_root.event(), None, places[1]) == at_root.start


@pytest.mark.parametrize(
    ("tip", "accepted"),
    [
        (None, 1),
        ({"other": "x"}, 1),
        ({ACCEPT_PATH: None}, 0),
        ({ACCEPT_PATH: ACCEPT.replace("reason: r", "reason: s")}, 0),
        ({ACCEPT_PATH: "accept:\n"}, 0),
    ],
)
def test_prepare__acceptances_that_still_stand(
    tmp_path: Path, tip: dict[str, str | None] | None, accepted: int
) -> None:
    """What a maintainer has taken back holds for no pull request, however old its start."""
    base: dict[str, str | None] = {"plan.yml": PLAN, MANIFEST: "{}", ACCEPT_PATH: ACCEPT}
    pull = Pull(tmp_path, base=base, tip=tip)

    desk = pull.desk(plan="src/plan.yml", baseline="src/base")

    assert len(desk.decision.circumstances.acceptances) == accepted
    assert ("no longer stand" in desk.log) == (not accepted)
