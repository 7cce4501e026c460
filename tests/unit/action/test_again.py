"""A re-run of the same thing publishes what was found, and only of the same thing."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import Fault
from unit.action.desk import Desk
from unit.action.evidence import Evidence
from world import ENGINE, World

from iqaction import merging, session
from iqaction.action import again, places, remembered
from iqaction.action.work import Decision
from iqaction.calls import Arm
from iqaction.circumstances import Circumstances
from iqaction.evidence.store import Folder
from iqaction.github import client as clients
from iqaction.report import Difference

SMALL = World(units=8, length=6)
COMMAND = {"boot": "command", "boot_command": "serve", "endpoint": "http://127.0.0.1:9"}
COMPOSE = {"boot": "compose", "compose_file": "compose.yml"}
DOCKER = """\
#!{python}
import os, sys
said = {{"config": "services: x ${{}}".replace("${{}}", os.environ.get("FLAGS", "")),
        "--images": "vllm:latest", "{{{{.Id}}}}": open({ids!r}).read()}}
for word, text in reversed(said.items()):
    if word in sys.argv:
        print(text)
        sys.exit(0 if text else 1)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(tmp_path_factory.mktemp("again"), SMALL)


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        yield running

    assert running.state.violations == []


NOBODY = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")


class Case:
    """A runner on which one job after another runs."""

    def __init__(self, home: Path, made: Evidence, github: FakeGithub | None = None) -> None:
        self.home, self.made, self.github = home, made, github
        self.desks = 0
        self.plan = made.healthy_plan.sha256

    def desk(self, *, attempt: int = 0, **more: object) -> Desk:
        """The first job is an attempt's first, every other one a second."""
        self.desks += 1
        attempt = attempt or min(self.desks, 2)
        inputs = more.pop("inputs", COMMAND)
        home = self.home / f"job {self.desks}"
        desk = Desk(home, self.github, attempt=attempt, inputs=inputs, **more)  # type: ignore[arg-type]
        desk.environ["RUNNER_TOOL_CACHE"] = str(self.home / "cache")
        desk.checkout({"base/x": "baseline"})
        desk.work.judge.mkdir()
        (desk.work.judge / "plan.yml").write_text("stages: [score]")
        return desk

    def found(self, desk: Desk, decision: Decision | None = None) -> Decision:
        """What the preparing step makes of it."""
        job = desk.job
        settings, event = job.settings(), job.event()
        base = str(desk.workspace / "base")
        asked = decision or Decision(
            "measure", baseline=base, circumstances=Circumstances(desk.run)
        )
        if self.github is None:
            return again.found(job, settings, event, None, asked, lambda *_: self.plan)
        with clients.open_session() as opened:
            client = clients.Client(
                self.github.url, "ghs_rw", session=opened, clock=job.clock, sleep=job.sleep
            )
            return again.found(job, settings, event, client, asked, lambda *_: self.plan)

    def measured(self, desk: Desk, decision: Decision, **more: object) -> Path:
        """As if the job had measured: its evidence, and what a runner keeps of it."""
        machine = {"gpu": "H200", remembered.KEY: decision.key}
        around = replace(decision.circumstances, machine=machine)
        around = more.pop("circumstances", around)
        path = self.made.leg(f"{self.home.name}-{self.desks}", circumstances=around, **more)  # type: ignore[arg-type]
        outcome = session.judge(path)
        remembered.remember(desk.job, decision, outcome)
        return path

    def first(self, **more: object) -> tuple[Decision, Path]:
        desk = self.desk()
        decision = self.found(desk)
        return decision, self.measured(desk, decision, **more)


@pytest.fixture
def case(tmp_path: Path, made: Evidence) -> Case:
    return Case(tmp_path, made)


def test_found__the_same_again(case):
    """The same commit, started in the same way: what was found is published, under this run."""
    first, _ = case.first()
    desk = case.desk(attempt=2)

    decision = case.found(desk)

    assert (first.action, decision.action) == ("measure", "republish")
    assert decision.key == first.key
    run = decision.circumstances.run
    assert (run.attempt, run.republished) == (2, first.circumstances.run.url)
    assert decision.circumstances.machine["gpu"] == "H200"
    merged = merging.merge([Path(decision.judged)], desk.work.evidence, decision.circumstances)
    assert merged.report.run == run
    assert case.found(case.desk(attempt=3)).action == "republish"


def test_found__judged_by_what_is_agreed_now(case):
    """An acceptance that was merged since is read: judging is done anew, measuring is not."""
    case.first()
    desk = case.desk(attempt=2)
    accepted = replace(Circumstances(desk.run), changed_lines=())

    decision = case.found(desk, Decision("measure", baseline=str(desk.workspace / "base"),
                                         circumstances=accepted))  # fmt: skip

    assert decision.circumstances.acceptances == ()
    assert decision.action == "republish"


@pytest.mark.parametrize(
    "change",
    [
        *("commit", "baseline", "plan", "command", "model", "shard", "differences", "suite"),
        *("environment", "run", "checkout"),
    ],
)
def test_found__another_thing(case, change):
    """Whatever the measurement depends on makes it another one."""
    case.first()
    inputs = dict(COMMAND)
    inputs |= {
        "command": {"boot_command": "serve --kv-cache-dtype fp8"},
        "model": {"model": "other"},
        "shard": {"shard": "1/2"},
        "suite": {"suite": "other"},
    }.get(change, {})
    env = {
        "commit": {"GITHUB_SHA": "d" * 40},
        "environment": {"ENGINE_IMAGE": "broken:latest"},
        "run": {"GITHUB_RUN_ID": "51"},  # a nightly run of the same commit
    }.get(change, {"GITHUB_SHA": "c" * 40})
    desk = case.desk(inputs=inputs, **env)
    if change == "checkout":
        for words in (
            ["init", "-q"],
            [*NOBODY, "commit", "-q", "--allow-empty", "-m", "other ref"],
        ):
            subprocess.run(["git", *words], cwd=desk.workspace, check=True)
    if change == "baseline":
        (desk.workspace / "base/x").write_text("another")
    if change == "plan":
        (desk.work.judge / "plan.yml").write_text("stages: [trajectory]")
    around = Circumstances(desk.run)
    if change == "differences":
        around = replace(around, differences=(Difference("plan", "plan.yml", "-a\n+b"),))

    decision = case.found(
        desk, Decision("measure", baseline=str(desk.workspace / "base"), circumstances=around)
    )

    assert decision.action == "measure"
    assert len(decision.key) == 64


@pytest.mark.parametrize(
    "inputs",
    [
        {"paths": "serve/**"},
        {"on_unproven": "warn"},
        {"comment": "false", "check_run": "false", "artifact": "false"},
        {"allow_forks": "true"},
    ],
)
def test_found__what_it_does_not_depend_on(case, inputs):
    """What is done with a result changes no measurement."""
    case.first()

    assert case.found(case.desk(inputs={**COMMAND, **inputs})).action == "republish"


@pytest.mark.parametrize(
    "inputs",
    [
        {"endpoint": "http://127.0.0.1:9"},
        {**COMMAND, "reference_endpoint": "http://127.0.0.1:8"},
    ],
)
def test_found__who_answers_is_not_ours_to_know(case, inputs):
    """An endpoint that we do not start, or a live reference, may be another one by now."""
    decision = case.found(case.desk(inputs=inputs))

    assert (decision.key, decision.action) == ("", "measure")


def test_found__a_live_reference_of_the_plan(case):
    """A plan may name a live reference as well; evidence that asked one is not published again."""
    desk = case.desk()
    decision = case.found(desk)
    path = case.measured(desk, decision)
    place = places.judged(desk.environ) / decision.key
    assert place.is_dir()
    shutil.rmtree(place)
    with Folder.open_for_writing(path) as folder:
        folder.keep_engine(Arm.REFERENCE, 0, ENGINE)
    session.judge(path)
    shutil.copytree(path, place)

    assert case.found(case.desk(attempt=2)).action == "measure"


# --- what is kept ---------------------------------------------------------------------------


def test_remember__not_what_is_incomplete(case):
    """A run that lost answers is to be finished, not repeated."""
    case.first(lost=lambda tag: tag.unit == "p-003")

    assert case.found(case.desk(attempt=2)).action == "measure"


def test_remember__not_what_had_a_problem(case):
    """Where the endpoint stopped answering, nothing was settled."""
    desk = case.desk()
    decision = case.found(desk)
    around = replace(
        decision.circumstances, machine={remembered.KEY: decision.key}, problem="it stopped"
    )
    path = case.measured(desk, decision, circumstances=around)
    shutil.copytree(path, places.judged(desk.environ) / decision.key, dirs_exist_ok=True)

    assert case.found(case.desk(attempt=2)).action == "measure"


def test_remember__no_more_than_a_few(case):
    """A runner does not fill up: the oldest go."""
    desk = case.desk()
    decision = case.found(desk)
    kept = places.judged(desk.environ)
    for n in range(30):
        (kept / f"old-{n}").mkdir(parents=True)

    case.measured(desk, decision)

    assert len(list(kept.iterdir())) <= 20
    assert (kept / decision.key).is_dir()


def test_remember__a_full_disk_is_no_fault_of_the_run(case):
    """What cannot be kept is measured again."""
    desk = case.desk()
    decision = case.found(desk)
    kept = places.judged(desk.environ)
    kept.parent.mkdir(parents=True)
    kept.write_text("a file in its place")

    case.measured(desk, decision)

    assert "the evidence is not kept for a re-run" in desk.log
    assert case.found(case.desk(attempt=2)).action == "measure"


@pytest.mark.parametrize(
    "name",
    ["observations/score.jsonl.gz", "manifest.json", "circumstances.json", "plan.json",
     "prompts.jsonl", "baseline/manifest.json"],
)  # fmt: skip
@pytest.mark.parametrize("damage", ["altered", "removed", "link"])
def test_found__damaged(case, name, damage):
    """Evidence that is not as it was sealed is not used."""
    desk = case.desk()
    decision = case.found(desk)
    case.measured(desk, decision)
    path = places.judged(desk.environ) / decision.key / name
    data = path.read_bytes()
    path.unlink()
    if damage == "altered":
        path.write_bytes(data[:-2] + b"x\n")
    if damage == "link":
        path.symlink_to("/etc/passwd")

    assert case.found(case.desk(attempt=2)).action == "measure"


def test_found__a_forged_key_alone(case, made):
    """A folder under the right name that is no evidence, or says that it is of another measurement,
    or is not sealed, is nothing."""
    desk = case.desk()
    decision = case.found(desk)
    place = places.judged(desk.environ) / decision.key
    forged = Circumstances(desk.run, machine={remembered.KEY: decision.key})
    other = Circumstances(desk.run, machine={remembered.KEY: "0" * 64})
    folders = [
        made.leg(f"{case.home.name}-unsealed", circumstances=forged, sealed=False),
        made.leg(f"{case.home.name}-other", circumstances=other),
        made.leg(f"{case.home.name}-none", circumstances=Circumstances(desk.run)),
    ]
    bare = case.home / "bare"
    bare.mkdir()
    (bare / "report.json").write_text(json.dumps({"verdict": "PASS", "gate": "PASS"}))

    for folder in [*folders, bare]:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)

        assert case.found(case.desk(attempt=2)).action == "measure"


def test_found__a_forged_measurement(case, made):
    """The key can be computed by whatever has run there: evidence under it that is of another run,
    commit or repository, or that was asked another plan, is measured anew."""
    desk = case.desk()
    decision = case.found(desk)
    place = places.judged(desk.environ) / decision.key
    machine = {remembered.KEY: decision.key}

    def forged(**run: str) -> str:
        around = Circumstances(replace(desk.run, **run), machine=machine)
        folder = made.leg(f"{case.home.name}-{'-'.join(run) or 'own'}", circumstances=around)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)
        return case.found(case.desk(attempt=2)).action

    assert forged() == "republish"
    assert forged(run_id="51") == "measure"
    assert forged(tested_sha="d" * 40) == "measure"
    assert forged(repository="acme/other") == "measure"
    assert forged(url="https://evil.invalid/") == "republish"
    found = case.found(case.desk(attempt=2))
    assert found.circumstances.run.republished == desk.run.url
    case.plan = "0" * 64
    desk = case.desk(attempt=2)
    assert case.found(desk).action == "measure"
    assert "another plan" in desk.log


def test_planned(tmp_path, made):
    """What would be asked is known before anybody answers, as the measuring step will say it: the
    plan's own margins, and the baseline that it is compared with."""
    desk = Desk(tmp_path).inputs(**COMMAND)
    (tmp_path / "plan.yml").write_text("stages: [trajectory]")
    near = Decision("measure", plan=str(tmp_path / "plan.yml"), baseline=str(made.reference))
    (tmp_path / "far.yml").write_text("stages: [trajectory: {max_tokens: 32}]")

    def sha256(decision: Decision) -> str:
        return again.planned(desk.job, desk.job.settings(), decision)

    assert sha256(near) == sha256(near)
    captured = replace(near, baseline="")
    others = [replace(near, plan=str(tmp_path / "far.yml")), captured]
    assert len({sha256(x) for x in (near, *others)}) == 3


# --- images ---------------------------------------------------------------------------------


def docker(home: Path, ids: str) -> str:
    """A PATH with a docker that knows one image."""
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "ids").write_text(ids)
    program = folder / "docker"
    program.write_text(DOCKER.format(python=sys.executable, ids=str(folder / "ids")))
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_found__compose(case):
    """The image's id decides, for a tag moves; so does what a variable puts into the file."""
    path = docker(case.home, "sha256:one")
    desk = case.desk(inputs=COMPOSE, PATH=path)
    decision = case.found(desk)
    case.measured(desk, decision)

    assert case.found(case.desk(inputs=COMPOSE, PATH=path)).action == "republish"
    flags = case.desk(inputs=COMPOSE, PATH=path, FLAGS="--kv-cache-dtype fp8")
    assert case.found(flags).action == "measure"
    docker(case.home, "sha256:two")
    assert case.found(case.desk(inputs=COMPOSE, PATH=path)).action == "measure"


@pytest.mark.parametrize("ids", ["", None])
def test_found__compose_that_does_not_tell(case, ids):
    """Without docker, and with an image that is not pulled, nothing is taken for the same."""
    path = "/nowhere" if ids is None else docker(case.home, ids)

    assert case.found(case.desk(inputs=COMPOSE, PATH=path)).key == ""


def test_key__holds_no_secret(case):
    """The key is published with the evidence: a hash, whatever the compose file is given."""
    path = docker(case.home, "sha256:one")
    desk = case.desk(inputs={**COMPOSE, "compose_env": "KEY=canary"}, PATH=path)

    key = case.found(desk).key

    assert set(key) <= set("0123456789abcdef")
    assert "canary" not in desk.log


# --- artifacts of an earlier attempt --------------------------------------------------------


def packed(folder: Path) -> str:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"):
            archive.write(path, str(path.relative_to(folder)))
    return base64.b64encode(data.getvalue()).decode()


def uploaded(folder: Path, name: str = "inferquality-default-1", **more: object) -> dict[str, Any]:
    same = {"repository_id": 1, "head_repository_id": 1}
    return {"id": 301, "name": name, "run_id": 50, "zip": packed(folder), "workflow_run": same,
            "expired": False, **more}  # fmt: skip


@pytest.fixture
def attempted(tmp_path: Path, made: Evidence, github: FakeGithub) -> tuple[Case, Path]:
    """A run whose first attempt measured on another runner."""
    case = Case(tmp_path, made, github)
    desk = case.desk()
    path = case.measured(desk, case.found(desk))
    shutil.rmtree(places.judged(desk.environ))
    return case, path


def test_found__an_artifact_of_an_earlier_attempt(attempted, github):
    """What another runner measured in this run's first attempt is found among its artifacts."""
    case, path = attempted
    github.state.artifacts = [uploaded(path)]

    decision = case.found(case.desk(attempt=2))

    assert decision.action == "republish"
    assert Path(decision.judged).name == "301"


def test_found__the_newest_attempt(attempted, github):
    """Of several attempts the last one counts."""
    case, path = attempted
    github.state.artifacts = [
        uploaded(path, "inferquality-default-2", id=302),
        uploaded(path, "inferquality-default-1"),
    ]

    assert Path(case.found(case.desk(attempt=3)).judged).name == "302"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "inferquality-default-report-1"},
        {"name": "inferquality-default-1-of-2-1"},
        {"name": "inferquality-default-2"},
        {"name": "inferquality-other-1"},
        {"expired": True},
        {"workflow_run": {"repository_id": 1, "head_repository_id": 2}},
        {"run_id": 49},
        {"zip": base64.b64encode(b"no archive").decode()},
    ],
    ids=lambda change: str(next(iter(change.items())))[:44],
)
def test_found__artifacts_that_are_not_ours(attempted, github, change):
    """Another leg's, another run's, a fork's, one that cannot be read: measured."""
    case, path = attempted
    github.state.artifacts = [{**uploaded(path), **change}]

    assert case.found(case.desk(attempt=2)).action == "measure"


def test_found__a_cancelled_attempt(attempted, github, made):
    """A run that was cancelled has sealed what it had. It is measured again, not judged for ever
    on a part."""
    case, _ = attempted
    decision = case.found(case.desk(attempt=2))
    around = replace(decision.circumstances, machine={remembered.KEY: decision.key})
    part = made.leg(
        f"{case.home.name}-part", circumstances=around, lost=lambda tag: tag.unit > "p-004"
    )
    github.state.artifacts = [uploaded(part)]

    assert case.found(case.desk(attempt=2)).action == "measure"


def test_found__a_first_attempt_asks_nobody(attempted, github):
    """There is no earlier attempt of a first one."""
    case, path = attempted
    github.state.artifacts = [uploaded(path)]
    github.state.log.clear()

    assert case.found(case.desk(attempt=1)).action == "measure"
    assert github.state.log == []


@pytest.mark.parametrize("path_re", ["/artifacts", "/zip"])
def test_found__github_does_not_tell(attempted, github, path_re):
    """What GitHub does not give is measured."""
    case, path = attempted
    github.state.artifacts = [uploaded(path)]
    github.state.faults = [Fault("GET", path_re, times=99, status=500)]

    assert case.found(case.desk(attempt=2)).action == "measure"
