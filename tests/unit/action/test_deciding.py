"""What may run here, and what need not: where anything is unknown, it is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.github.factory import event

from iqaction.action import deciding
from iqaction.action.settings import Settings
from iqaction.errors import ConfigError
from iqaction.github.changes import ChangedFile, Changes
from iqaction.github.event import Event, Finished
from iqaction.report import ChangedLine

PLAN = """\
stages:
  - trajectory: {prompts: ../data/dev.jsonl}
  - score
baseline: kept/reference
"""
URL = "http://127.0.0.1:8000"


def fork(**more: object) -> Event:
    return replace(event(), head_repository="stranger/serve", is_fork=True, **more)  # type: ignore[arg-type]


def second(repository: str = "stranger/serve") -> Event:
    """A `workflow_run` after a pull request of that repository."""
    finished = Finished("40", 1, "success", "pull_request", "a" * 40, repository)
    return replace(
        event(),
        name="workflow_run",
        number=None,
        head_repository=repository,
        is_fork=repository != "acme/serve",
        finished=finished,
    )


# --- may it run here ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "settings", "said"),
    [
        (event(), Settings(), ""),
        (fork(), Settings(), "comes from a fork (stranger/serve)"),
        (fork(), Settings(allow_forks=True), ""),
        (fork(is_self_hosted=False), Settings(), ""),
        (fork(), Settings(mode="report"), "comes from a fork"),
        (replace(fork(), head_repository=""), Settings(), "comes from a fork (deleted)"),
        (replace(event(), is_dependabot=True), Settings(), "Dependabot's"),
        (replace(event(), is_dependabot=True), Settings(allow_forks=True), ""),
        (replace(event(), is_dependabot=True, is_self_hosted=False), Settings(), ""),
        (replace(event(), is_dependabot=True, is_fork=True), Settings(), "comes from a fork"),
        (replace(event(), name="push", number=None), Settings(), ""),
        (replace(event(), name="merge_group", number=None), Settings(), ""),
        (second(), Settings(mode="publish"), ""),
        (second(), Settings(mode="report"), ""),
        (second(), Settings(mode="run"), "comes from a fork"),
        (second("acme/serve"), Settings(mode="run"), ""),
    ],
)
def test_refused(which, settings, said):
    """Code of strangers is not run on our hardware, unless somebody says so."""
    found = deciding.refused(settings, which)

    assert bool(said) == bool(found)
    assert said in found


@pytest.mark.parametrize("settings", [Settings(), Settings(allow_forks=True)])
def test_refused__pull_request_target(settings):
    """It would give a fork's code this repository's token: never."""
    with pytest.raises(ConfigError, match="pull_request_target"):
        deciding.refused(settings, replace(event(), name="pull_request_target"))


@pytest.mark.parametrize(
    "name",
    ["pull_request_review", "pull_request_review_comment", "issue_comment", "check_run", "release"],
)
@pytest.mark.parametrize("settings", [Settings(allow_forks=True), Settings(mode="publish")])
def test_refused__events_that_carry_anything(settings, name):
    """On these a fork's pull request would pass for our own code, judged by its own plan."""
    with pytest.raises(ConfigError, match="on: pull_request, merge_group, push, schedule"):
        deciding.refused(settings, replace(event(), name=name, number=None))


@pytest.mark.parametrize("name", ["schedule", "workflow_dispatch", "repository_dispatch"])
def test_refused__events_of_our_own(name):
    """The branch's own code."""
    assert deciding.refused(Settings(), replace(event(), name=name, number=None)) == ""


# --- is there anything to measure -----------------------------------------------------------


def files(*paths: str) -> Changes:
    """Changed files; `a <- b` is one that was renamed."""
    found = []
    for text in paths:
        path, _, before = text.partition(" <- ")
        found.append(ChangedFile(path, "renamed" if before else "modified", before))
    return Changes(True, tuple(found))


def skipped(tmp_path: Path, changes: Changes, **more: object) -> str:
    (tmp_path / "ci").mkdir(exist_ok=True)
    (tmp_path / "ci/plan.yml").write_text(PLAN)
    settings = Settings(endpoint=URL, paths=("serve/**", "!serve/README.md"), plan="ci/plan.yml")
    return deciding.nothing_relevant(replace(settings, **more), event(), changes, tmp_path)  # type: ignore[arg-type]


def test_nothing_relevant(tmp_path):
    """Where no changed file is under `paths`, the reason says how many there are."""
    said = skipped(tmp_path, files("README.md", "serve/README.md"))

    assert said == "none of the 2 changed files is under `paths` (serve/**, !serve/README.md)"


@pytest.mark.parametrize(
    "path",
    [
        "serve/compose.yml",
        "serve",
        "README.md <- serve/compose.yml",
        "serve/compose.yml <- README.md",
        "ci/plan.yml",
        "elsewhere/plan.yml <- ci/plan.yml",
        "data/dev.jsonl",
        "kept/reference/manifest.json",
        "kept/reference",
        "kept",
        "base/manifest.json",
        "compose.yml",
        ".github/workflows/quality.yml",
        ".inferquality/accept.yml",
    ],
)
def test_nothing_relevant__ours_always_matter(tmp_path, path):
    """`paths` takes nothing away from how the endpoint is started and how it is judged; a file
    that was renamed counts under both names."""
    more = {"baseline": "./base/", "compose_file": "./compose.yml", "boot": "compose"}

    assert skipped(tmp_path, files("README.md", path), **more) == ""


@pytest.mark.parametrize(
    "plan", ["ci/plan.yml", "./ci/plan.yml", "ci//plan.yml", "x/../ci/plan.yml", "ABSOLUTE"]
)
def test_nothing_relevant__however_the_plan_is_spelled(tmp_path, plan):
    """A path is compared as GitHub names it."""
    (tmp_path / "x").mkdir()
    plan = str(tmp_path / "ci/plan.yml") if plan == "ABSOLUTE" else plan

    assert skipped(tmp_path, files("ci/plan.yml"), plan=plan) == ""
    assert skipped(tmp_path, files("data/dev.jsonl"), plan=plan) == ""
    assert skipped(tmp_path, files("README.md"), plan=plan) != ""


def test_nothing_relevant__prompts_of_inline_stages(tmp_path):
    """Stages in the workflow may name a file too."""
    stages = "- trajectory: {prompts: dev.jsonl}\n- score"

    assert skipped(tmp_path, files("dev.jsonl"), plan="", stages=stages) == ""
    assert skipped(tmp_path, files("x.jsonl"), plan="", stages=stages) != ""


@pytest.mark.parametrize("path", ["kept/reference-2/x", "ci/plan.yml.md", "kep", "data/dev"])
def test_nothing_relevant__a_name_like_ours(tmp_path, path):
    """Only what lies at the path or below it."""
    assert skipped(tmp_path, files(path)) != ""


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        (Changes(False, reason="3,000 files changed"), {}),
        (Changes(False, (ChangedFile("README.md", "modified"),)), {}),
        (Changes(True), {}),
        (files("README.md"), {"paths": ()}),
        (files("README.md"), {"plan": "ci/absent.yml"}),
        (files("README.md"), {"plan": "ci"}),
        (files("README.md"), {"plan": "", "stages": "- no such stage"}),
    ],
    ids=["unknown", "unknown with files", "none", "no paths", "no plan", "a folder", "a mistake"],
)
def test_nothing_relevant__unknown_is_measured(tmp_path, changes, more):
    """What is not known does not go green."""
    assert skipped(tmp_path, changes, **more) == ""


@given(st.lists(st.text(min_size=1), min_size=1))
def test_nothing_relevant__any_names(tmp_path_factory, names):
    """Names are anybody's: they decide, and break nothing."""
    said = skipped(
        tmp_path_factory.mktemp("w"), Changes(True, tuple(ChangedFile(n, "") for n in names))
    )

    assert bool(said) == all(
        n != "serve" and (not n.startswith("serve/") or n == "serve/README.md")
        for n in names
        if n not in ("ci/plan.yml", ".inferquality/accept.yml")
    )


def test_changes__without_a_token():
    """Whom we cannot ask tells nothing."""
    assert not deciding.changes(None, event()).known


# --- names and lines ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["report", "x-report", "x-1-of-2", "1-of-2", "a-b-12-of-34"])
def test_suite__not_as_artifacts_end(name):
    """The artifact of such a suite would be taken for a shard of another, or left out as a report
    of reports, and what it says with it."""
    with pytest.raises(ConfigError, match="suite"):
        deciding.suite(Settings(suite=name), None)


@pytest.mark.parametrize("name", ["reports", "report-x", "xreport", "x-1-of-n", "qwen-7"])
def test_suite__like_them_is_fine(name):
    """Only what cannot be told apart is refused."""
    assert deciding.suite(Settings(suite=name), None) == name


def test_suite__of_the_plan(tmp_path):
    """Without the input, the plan's own name."""
    (tmp_path / "p.yml").write_text("stages: [score]\nsuite: qwen\n")
    (tmp_path / "q.yml").write_text("stages: [score]\nsuite: x-report\n")

    assert deciding.suite(Settings(), tmp_path / "p.yml") == "qwen"
    assert deciding.suite(Settings(suite="mine"), tmp_path / "p.yml") == "mine"
    assert deciding.suite(Settings(), None) == "default"
    assert deciding.suite(Settings(), tmp_path / "absent.yml") == "default"
    assert deciding.suite(Settings(stages="- score"), None) == "default"
    with pytest.raises(ConfigError, match="x-report"):
        deciding.suite(Settings(), tmp_path / "q.yml")


def test_changed_lines__of_what_starts_the_endpoint(tmp_path):
    """Lines of the compose file and of what is under `paths`; blank ones left out, long ones cut,
    no more than anybody reads."""

    def file(path: str, *lines: str) -> ChangedFile:
        added = tuple(ChangedLine(path, i + 1, x) for i, x in enumerate(lines))
        return ChangedFile(path, "modified", added=added)

    found = Changes(
        True,
        (
            file("compose.yml", "a: b", "  ", "x" * 900),
            file("README.md", "no"),
            file("serve/start.sh", *("y" for _ in range(300))),
        ),
    )
    settings = Settings(compose_file="./compose.yml", paths=("serve/**",))

    kept = deciding.changed_lines(settings, event(), found, tmp_path)

    assert len(kept) == 200
    assert kept[0] == ChangedLine("compose.yml", 1, "a: b")
    assert kept[1] == ChangedLine("compose.yml", 3, "x" * 500)
    assert {k.path for k in kept[2:]} == {"serve/start.sh"}
