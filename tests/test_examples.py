"""The examples work as they stand: what they name exists, and they are as safe as we say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from iqaction import acceptance, addresses, anchor
from iqaction.inputs import read_request
from iqaction.stages._levels import is_floorless
from iqaction.surfaces._around import ACCEPT

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FOLDERS = sorted(p for p in EXAMPLES.iterdir() if p.is_dir())
OURS = "org/inferquality@v1"
PINNED = re.compile(
    r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_./-]+)?@[0-9a-f]{40} # v\d+\.\d+\.\d+\Z"
)
PUBLISHING = {"checks": "write", "pull-requests": "write"}


def load(path: Path) -> dict[str, object]:
    """A YAML file with every scalar as it is written: ``on`` is no truth value."""
    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)


def is_workflow(path: Path) -> bool:
    found = load(path)
    return isinstance(found, dict) and "jobs" in found


YAML = sorted(EXAMPLES.rglob("*.yml"))
WORKFLOWS = [p for p in YAML if is_workflow(p)]
COMPOSES = [p for p in YAML if "services" in load(p)]
PLANS = sorted(EXAMPLES.rglob("plan.yml"))
OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda p: str(p.relative_to(ROOT)))


def jobs(path: Path) -> dict[str, dict[str, object]]:
    return load(path)["jobs"]


def steps(path: Path) -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    """Each step with its job."""
    for job in jobs(path).values():
        for step in job["steps"]:
            yield job, step


def uses(path: Path) -> list[str]:
    """What follows each ``uses:``, its comment with it."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"^\s*(?:- )?uses: *(.+?)\s*$", text, re.MULTILINE)


def of_ours(path: Path) -> list[tuple[dict[str, object], dict[str, str]]]:
    """The jobs that use this action, with the inputs they give."""
    return [(job, step.get("with", {})) for job, step in steps(path) if step.get("uses") == OURS]


def action() -> dict[str, dict[str, object]]:
    return load(ROOT / "action.yml")


# --- all workflows --------------------------------------------------------------------------


@named([*WORKFLOWS, *OWN])
def test_workflow__pinned(path):
    """Other people's actions are pinned by commit, with the version beside it; local ones are
    this checkout's."""
    found = [u for u in uses(path) if u not in (OURS, "./")]

    assert [u for u in found if not PINNED.match(u)] == []
    assert len(uses(path)) == sum("uses" in step for _, step in steps(path))


def test_workflow__one_version_of_each_action():
    """Every workflow uses the same commit of an action, and a commit has one version."""
    found = {u for path in [*WORKFLOWS, *OWN] for u in uses(path) if u not in (OURS, "./")}

    assert len(found) == len({u.partition("@")[0] for u in found})


@named([*WORKFLOWS, *OWN])
def test_workflow__permissions(path):
    """No permission at the top; each job names its own."""
    assert load(path)["permissions"] == {}
    for job in jobs(path).values():
        assert isinstance(job["permissions"], dict)


@named([*WORKFLOWS, *OWN])
def test_workflow__no_expression_in_run(path):
    """What GitHub fills in never becomes part of a script."""
    assert [s["run"] for _, s in steps(path) if "${{" in s.get("run", "")] == []
    commands = [w.get(k, "") for _, w in of_ours(path) for k in ("boot_command", "stop_command")]
    assert [c for c in commands if "${{" in c] == []


@named([*WORKFLOWS, *OWN])
def test_workflow__checkout_leaves_no_token(path):
    """The token does not stay in the clone, where everything that is booted could read it."""
    checkouts = [s for _, s in steps(path) if s.get("uses", "").startswith("actions/checkout@")]

    assert [s for s in checkouts if s["with"]["persist-credentials"] != "false"] == []


@named([*WORKFLOWS, *OWN])
def test_workflow__ends(path):
    """Every job has a time limit, and an older run does not hold a runner for ever."""
    assert [name for name, job in jobs(path).items() if "timeout-minutes" not in job] == []
    assert "group" in load(path)["concurrency"]


@named([*WORKFLOWS, *OWN])
def test_workflow__no_dangerous_trigger(path):
    """No pull request's code runs with the base repository's token."""
    events = load(path)["on"]

    assert "pull_request_target" not in events
    if "workflow_run" in events:
        assert [s for _, s in steps(path) if "run" in s] == []
        assert not [s for _, s in steps(path) if s["uses"].startswith("actions/checkout@")]


# --- the examples ---------------------------------------------------------------------------


def test_examples__are_all_looked_at():
    """Every folder has a README that the list names, and at least one workflow."""
    listed = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+)\)", (EXAMPLES / "README.md").read_text(), re.M)

    assert [(p.name, p.name) for p in FOLDERS] == sorted(listed)
    assert len(FOLDERS) == 9
    for folder in FOLDERS:
        assert (folder / "README.md").is_file()
        assert [p for p in WORKFLOWS if folder in p.parents]
    assert set(YAML) == {*WORKFLOWS, *COMPOSES, *PLANS}


@named(WORKFLOWS)
def test_example__inputs_exist(path):
    """Only inputs that action.yml declares; one that does not exist would be ignored in silence."""
    declared = set(action()["inputs"])

    assert of_ours(path)
    for _, given in of_ours(path):
        assert set(given) - declared == set()
        assert all(isinstance(v, str) for v in given.values())


@named(WORKFLOWS)
def test_example__inputs_go_together(path):
    """A job that boots says how, and one that does not says where the artifacts are."""
    for _, given in of_ours(path):
        mode, boot = given.get("mode", "run"), given.get("boot", "none")
        assert ("artifacts_path" in given) == (mode not in ("run", "capture"))
        assert ("boot_command" in given) == (boot == "command")
        assert ("compose_file" in given) == (boot == "compose")
        assert boot != "command" or "endpoint" in given
        assert mode != "run" or "plan" in given, "inline stages are the pull request's"


@named(WORKFLOWS)
def test_example__permissions(path):
    """A job may write exactly where it publishes."""
    for job, given in of_ours(path):
        rights = job["permissions"]
        writes = {k: v for k, v in rights.items() if v == "write"}
        silent = given.get("comment") == given.get("check_run") == "false"
        assert rights["contents"] == "read"
        posts = dict(PUBLISHING)
        if given.get("mode") == "publish":  # a check would vouch for a fork's own result
            del posts["checks"]
        if given.get("mode") == "capture":  # there is no pull request
            del posts["pull-requests"]
        assert writes == ({} if silent else posts)


@named(WORKFLOWS)
def test_example__never_skipped(path):
    """A job that judges is never skipped by a filter of the workflow: skipped counts as passed,
    or is waited for for ever."""
    events = load(path)["on"]
    for event in ("pull_request", "merge_group"):
        found = events.get(event) if isinstance(events, dict) else None
        assert not isinstance(found, dict) or not {"paths", "paths-ignore"} & set(found)
    for job, given in of_ours(path):
        if "needs" in job:
            assert job["if"] == "${{ always() }}"
        elif given.get("mode", "run") == "run":
            assert "if" not in job


def test_example__matrix():
    """The legs are all the parts of one whole, and their artifacts are the ones downloaded."""
    path = EXAMPLES / "matrix-report" / "workflow.yml"
    leg, report = jobs(path)["leg"], jobs(path)["report"]
    shards = leg["strategy"]["matrix"]["shard"]
    (_, asked), (_, judged) = of_ours(path)
    download = next(s for s in report["steps"] if "download-artifact" in s["uses"])

    assert shards == [f"{i}/{len(shards)}" for i in range(1, len(shards) + 1)]
    assert leg["strategy"]["fail-fast"] == "false"
    assert (asked["suite"], judged["mode"]) == (judged["suite"], "report")
    assert download["with"]["pattern"] == f"inferquality-{asked['suite']}-*"
    assert download["with"]["path"] == judged["artifacts_path"]


def test_example__fork_safe():
    """The half that runs a fork's files can write nothing; the other half waits for it by name."""
    measure, publish = (EXAMPLES / "fork-safe" / f"{n}.yml" for n in ("measure", "publish"))
    (job, asked), (_, told) = *of_ours(measure), *of_ours(publish)
    download = next(s for _, s in steps(publish) if "download-artifact" in s["uses"])

    assert job["permissions"] == {"contents": "read"}
    assert load(publish)["on"]["workflow_run"]["workflows"] == [load(measure)["name"]]
    assert "secrets." not in measure.read_text(encoding="utf-8")
    assert (asked["suite"], told["mode"]) == (told["suite"], "publish")
    assert download["with"]["path"] == told["artifacts_path"]


def test_example__baseline():
    """Both halves are of one suite, plan and start, or the second would not find the first's; what
    captures runs on the base branch and once a week, and nothing of a pull request does."""
    capture, compare = (EXAMPLES / "baseline" / f"{n}.yml" for n in ("capture", "workflow"))
    (_, captured), (job, asked) = *of_ours(capture), *of_ours(compare)
    events = load(capture)["on"]

    shared = ("suite", "plan", "boot", "compose_file", "model", "paths")
    assert {k: captured[k] for k in shared} == {k: asked[k] for k in shared}
    assert (captured["mode"], asked["baseline"]) == ("capture", "auto")
    assert set(events) == {"push", "schedule", "workflow_dispatch"}
    assert events["push"] == {"branches": ["main"]}
    assert job["permissions"]["actions"] == "read"


def test_example__merge_queue():
    """The queue's event runs the same job."""
    assert {"pull_request", "merge_group"} <= set(
        load(EXAMPLES / "merge-queue" / "workflow.yml")["on"]
    )


@named(PLANS)
def test_example__plan(path):
    """Each plan is read without a mistake, asks for what the README promises, and has no folder
    of this machine in it."""
    request = read_request(path.read_text(encoding="utf-8"), str(path))

    assert {s.stage for s in request.stages} >= {"trajectory", "score"}
    assert request.prompts == "default"
    assert (request.endpoint, request.baseline) == ("", "")


@named(COMPOSES)
def test_example__compose(path):
    """Images have a version and ports are bound to loopback: the endpoints have no password."""
    services = load(path)["services"].values()

    assert services
    for service in services:
        assert re.search(r":v\d+\.\d+\.\d+\Z", service["image"])
        assert service["ports"]
        assert [p for p in service["ports"] if not p.startswith("127.0.0.1:")] == []
        assert "network_mode" not in service
        assert "privileged" not in service


def test_example__compose_is_the_same_where_it_is_copied():
    """The examples that need any endpoint have the same one."""
    first = (EXAMPLES / "vllm-compose" / "compose.yml").read_bytes()

    for name in ("baseline", "matrix-report", "fork-safe", "merge-queue", "nightly"):
        assert (EXAMPLES / name / "compose.yml").read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("up", "qwen27b-dual"), 0, "compose -p qwen27b-dual -f compose/qwen27b-dual.yml up"),
        (("down", "qwen27b-dual"), 0, "compose -p qwen27b-dual -f compose/qwen27b-dual.yml down"),
        (("up", "nothing"), 64, "no such server"),
        (("up", "../compose/qwen27b-dual"), 64, "no such server"),
        (("up", "$(touch ran)"), 64, "no such server"),
        (("restart", "qwen27b-dual"), 64, "not restart"),
        ((), 1, "up or down"),
    ],
)
def test_example__launch_script(tmp_path, arguments, code, said):
    """The script starts and stops the server that it is asked for, and nothing else."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$@"\n')
    docker.chmod(0o755)
    script = EXAMPLES / "launch-script" / "scripts" / "launch.sh"
    assert os.access(script, os.X_OK)

    done = subprocess.run(
        ["bash", script, *arguments],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_example__readme_names_what_is_there(folder):
    """Links lead somewhere, and every file in backticks that stands beside the README exists."""
    text = (folder / "README.md").read_text(encoding="utf-8")

    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        assert (folder / target).exists()
    for name in re.findall(r"`((?:workflow|plan|compose|measure|publish|capture)\.yml)`", text):
        assert (folder / name).is_file()


# --- this repository's own ------------------------------------------------------------------


def test_own__are_all_there():
    """Continuous integration, the action on itself, and the release."""
    assert {p.stem for p in OWN} >= {"ci", "selftest", "release"}


def test_selftest__every_step_of_ours_is_judged():
    """Each use of the action has an id that the last check looks at, and cannot end the job."""
    path = ROOT / ".github" / "workflows" / "selftest.yml"
    found = [s for _, s in steps(path) if s.get("uses") == "./"]
    (judge,) = (s for _, s in steps(path) if "expect()" in s.get("run", ""))
    shown = " ".join(judge["env"].values())

    assert len(found) >= 6
    for step in found:
        assert step["continue-on-error"] == "true"
        assert f"steps.{step['id']}.outcome" in shown
        assert f"expect {step['id']} " in judge["run"]
        assert set(step["with"]) - set(action()["inputs"]) == set()
    suites = [s["with"]["suite"] for s in found]
    assert len(set(suites)) == len(suites), "one artifact, comment and check for each"


def test_selftest__asks_the_demos_plan():
    """The reference that the demo captures is the one that these stages can be compared with."""
    job = jobs(ROOT / ".github" / "workflows" / "selftest.yml")["selftest"]
    demo = (ROOT / "iqaction" / "data" / "demo_plan.yml").read_text(encoding="utf-8")

    asked = read_request("stages:\n" + job["env"]["STAGES"], "selftest")
    assert asked.stages == read_request(demo, "demo").stages


def test_release__signs_before_it_moves_the_tag():
    """Only the signing job can sign, only the last can write, and it waits for the others."""
    found = jobs(ROOT / ".github" / "workflows" / "release.yml")

    assert found["build"]["permissions"] == {"contents": "read"}
    assert found["attest"]["permissions"] == {
        **{"attestations": "write", "contents": "read", "id-token": "write"}
    }
    assert found["publish"]["permissions"] == {"contents": "write"}
    assert set(found["publish"]["needs"]) == {"build", "attest"}


def test_dependabot__looks_at_everything_that_is_pinned():
    """Actions in the workflows and in the examples, and Python."""
    found = load(ROOT / ".github" / "dependabot.yml")["updates"]

    assert {u["package-ecosystem"] for u in found} == {"github-actions", "pip"}
    assert found[0]["directories"] == ["/", "/examples/*"]
    assert all(u["groups"] for u in found)


def blocks() -> dict[str, str]:
    """The files that the list of examples shows whole, by the name in their first line."""
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.DOTALL)
    return dict(found)


def test_readme__accept() -> None:
    """The acceptance that is shown is one, of the names that the report uses."""
    (found,) = acceptance.read(blocks()[ACCEPT], ACCEPT)

    assert (found.suite, found.check, found.field) == ("default", "score:reference.kl", "")


def test_readme__anchor() -> None:
    """The pin that is shown reads, with one step behind it."""
    found = anchor.read(blocks()[anchor.NAME], anchor.NAME)

    assert (len(found.pins), found.since_first("kl")) == (2, 0.0104)


def test_readme__live_baseline() -> None:
    """The plan that is shown compares two servers, and goes without a floor."""
    found = read_request(blocks()["live.yml"], "live.yml")
    (score,) = [s for s in found.stages if s.stage == "score"]

    assert found.baseline.startswith("http://")
    assert not addresses.is_same(found.baseline, found.endpoint)
    assert is_floorless(score)
