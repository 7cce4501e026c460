"""The action starts the endpoint itself, asks it and stops it: under act, and cancelled.

Most servers here repeat what a real one said; two are real.
"""

from __future__ import annotations

import base64
import io
import pickle
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
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
    job,
)
from integration.captured import UNITS, Weights
from integration.stand_in import Memory
from integration.stepping import Steps

from iqaction import _llama_server, demo_engine, session
from iqaction.boot import lease, processes
from iqaction.evidence.store import Folder

pytestmark = pytest.mark.timeout(900)

NAME = "inferquality / real"
REPLAY = Path(__file__).with_name("replay.py")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Serving:
    """A command that serves on a port, and how often it was started."""

    def __init__(self, memory: Path, starts: Path) -> None:
        self.port = free_port()
        self._memory, self._starts = memory, starts

    @property
    def starts(self) -> int:
        return len(self._starts.read_text().splitlines()) if self._starts.exists() else 0

    def command(self, *more: object) -> str:
        argv = [sys.executable, "-I", REPLAY, self._memory, self.port, "--starts", self._starts]
        return f"exec {shlex.join(map(str, [*argv, *more]))}"

    def inputs(self, *more: object) -> dict[str, str]:
        return {
            "boot": "command",
            "boot_command": self.command(*more),
            "endpoint": f"http://127.0.0.1:{self.port}",
            "ready_timeout": "60s",
            **JUDGE,
        }


@pytest.fixture
def serving(memory: Memory, tmp_path: Path) -> Iterator[Serving]:
    kept = tmp_path / "memory.pickle"
    kept.write_bytes(pickle.dumps(memory))
    made = Serving(kept, tmp_path / "starts")
    yield made
    assert not answers(made.port)


def leases(cache: Path) -> list[Path]:
    return sorted((cache / "tool_cache" / "inferquality" / "leases").glob("[0-9a-f]*.json"))


# --- under act ------------------------------------------------------------------------------


def test_boot(
    staged: Staged, github: FakeGithub, serving: Serving, runner_cache: Path, tmp_path: Path
) -> None:
    """What the action starts it stops; nothing is left in the checkout, the home folder and the
    job's environment, and the evidence says what was started."""
    home = tmp_path / "home"
    home.mkdir()
    pr = staged()
    measuring = job(**serving.inputs())
    told = {"shell": "bash", "run": "git status --porcelain --ignored; env | sort"}
    measuring["steps"].insert(1, {**told, "run": f"echo BEFORE; {told['run']}"})
    measuring["steps"].append(
        {**told, "run": f"echo AFTER; {told['run']}", "if": "${{ always() }}"}
    )
    done = pr.run(measuring, env={"HOME": str(home)})

    assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
    assert serving.starts == 1
    assert not answers(serving.port)
    assert leases(runner_cache) == []
    # pip asks rustc for its version, and rustup makes itself a folder for that.
    assert {p.name for p in home.iterdir()} <= {".rustup"}
    assert shown(done, "BEFORE") == shown(done, "AFTER")
    assert done.obeyed("set-env", "add-path") == []
    machine = done.report()["machine"]
    assert machine["started by"] == "command"
    assert len(machine["command sha256"]) == 64


def shown(done: Done, word: str) -> list[str]:
    """What a step of the workflow printed, without what is each step's own."""
    lines = [x.partition("| ")[2] for x in done.log.splitlines() if x.startswith("[quality/a]   |")]
    rest = lines[lines.index(word) + 1 :]
    end = next((i for i, x in enumerate(rest) if x.startswith("_=")), len(rest))
    own = ("GITHUB_ACTION", "GITHUB_STATE", "GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH")
    return [x for x in rest[:end] if not x.startswith(own)]


def test_boot__fails(staged: Staged, github: FakeGithub) -> None:
    """A command that ends with 1 is NOT RUN at once, with the end of its log in the comment."""
    command = "echo loading shard 3; echo out of memory >&2; exit 1"
    begun = time.monotonic()
    done = staged().run(
        job(boot="command", boot_command=command, endpoint=f"http://127.0.0.1:{free_port()}",
            **JUDGE)
    )  # fmt: skip

    assert (done.exit_code, done.verdict) == (3, "NOT RUN"), done.log
    assert time.monotonic() - begun < 60
    assert checks(github)[NAME][0] == "failure"
    assert "exit code 1" in comment(github)
    assert "loading shard 3" in comment(github)
    assert "out of memory" in comment(github)


@pytest.mark.full
def test_again(staged: Staged, github: FakeGithub, serving: Serving, runner_cache: Path) -> None:
    """A re-run publishes what the first attempt found and starts no engine; on another runner it
    finds it among the artifacts, and where there is none it measures."""
    pr = staged()
    inputs = serving.inputs()
    assert pr.run(job(**inputs)).verdict == "UNPROVEN"
    for attempt in (2, 3):
        if attempt == 3:
            shutil.rmtree(runner_cache / "tool_cache" / "inferquality" / "judged")
            github.state.artifacts = [artifact(pr.acting.artifacts / "inferquality-real-2")]
        done = pr.run(job(**inputs), attempt=attempt)

        assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
        assert done.outputs()["published"] == "true"
        assert serving.starts == 1
        assert f"attempt {attempt}" in comment(github)
        assert any("nothing is measured" in said for said in done.annotations)
        assert session.verify(done.artifacts / f"inferquality-real-{attempt}").problems == ()
    pr.change({"compose.yml": "services: {}\n# another commit\n"})

    assert pr.run(job(**inputs), run_id=18).verdict == "UNPROVEN"
    assert serving.starts == 2


def artifact(folder: Path) -> dict[str, Any]:
    """A folder as GitHub keeps it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(path, str(path.relative_to(folder)))
    own = {"repository_id": 1, "head_repository_id": 1}
    return {
        "id": 5,
        "name": folder.name,
        "run_id": 17,
        "expired": False,
        "zip": base64.b64encode(data.getvalue()).decode(),
        "workflow_run": own,
    }


@pytest.mark.full
def test_no_baseline(staged: Staged, github: FakeGithub, serving: Serving) -> None:
    """With no baseline yet the merge-base's server is the reference, started as often as its
    noise asks for, and then the pull request's."""
    inputs = {k: v for k, v in serving.inputs().items() if k != "baseline"}
    pr = staged()
    shutil.rmtree(pr.acting.checkout / ".inferquality" / "baseline")
    pr.base = pr.acting.commit({})
    pr.change({"compose.yml": "services: {}\n# --kv-cache-dtype fp8\n"})
    done = pr.run(job(**inputs))

    assert (done.exit_code, done.verdict) == (2, "UNPROVEN"), done.log
    assert serving.starts > 2
    assert done.report()["baseline_root"]


# --- a real engine --------------------------------------------------------------------------


def real(weights: Weights, quant: str, port: int) -> dict[str, str]:
    """Inputs that boot llama.cpp with the demo's model."""
    argv = [sys.executable, "-I", _llama_server.__file__, weights(quant)]
    argv += [f"--packages={demo_engine.package_folder()}", "--port", port, "--threads", 1]
    argv += ["--slots", 2, "--ctx", 512, "--alias", "smollm2-135m"]
    return {
        "boot": "command",
        # The server ends with its standard input, so something holds that open.
        "boot_command": f"sleep 100000 | {shlex.join(map(str, argv))}",
        "endpoint": f"http://127.0.0.1:{port}",
        **JUDGE,
    }


def is_gone(port: int) -> None:
    """Asserts that no process of the boot is left."""
    assert not answers(port)
    found = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f"--port {port}" not in found.stdout


@pytest.mark.parametrize(
    ("quant", "units", "status", "verdict"),
    [("F16", UNITS, 0, "PASS"), ("Q4_0", 24, 1, "FAIL")],
    ids=["F16", "Q4_0"],
)
def test_real(
    staged: Staged,
    github: FakeGithub,
    weights: Weights,
    runner_cache: Path,
    quant: str,
    units: int,
    status: int,
    verdict: str,
) -> None:
    """A real engine that the action boots and stops: the reference's own weights PASS, four bits
    FAIL."""
    port = free_port()
    done = staged(units).run(job(**real(weights, quant, port)))

    assert (done.exit_code, done.verdict) == (status, verdict), done.log
    assert f"### {verdict}  inferquality / real" in comment(github)
    assert checks(github)[NAME][0] == ("failure" if status else "success")
    assert done.report()["machine"]["started by"] == "command"
    assert session.verify(done.artifacts / "inferquality-real-1").problems == ()
    is_gone(port)
    assert leases(runner_cache) == []


# --- cancelled ------------------------------------------------------------------------------


@pytest.fixture
def steps(
    staged: Staged, github: FakeGithub, runner_cache: Path, tmp_path: Path
) -> Callable[[dict[str, str]], Steps]:
    """Factory: the steps of one job, set up and prepared."""

    def make(inputs: dict[str, str]) -> Steps:
        pr: Scene = staged()
        made = Steps(
            tmp_path / "job",
            pr.acting.checkout,
            runner_cache / "tool_cache",
            inputs,
            pr.payload(),
            github.url,
        )
        for step in ("setup", "prepare"):
            status, said = made.run(step)
            assert status == 0, said
        return made

    return make


def until(claim: Callable[[], object], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if claim():
            return True
        time.sleep(0.05)
    return False


def cancel(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, float]:
    """Signal the step as the runner does, and wait; its log and the seconds it took."""
    begun = time.monotonic()
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    return said, time.monotonic() - begun


def is_told_cancelled(job: Steps, github: FakeGithub, step: str, verdict: str) -> None:
    """Asserts that the steps which always run complete the check as a failure, and are red.
    ``verdict`` is what the answers say that there were."""
    assert job.run("publish")[0] == 0
    if job.wanted("stop"):
        assert job.run("stop")[0] == 0
    status, said = job.run("gate")

    assert status == 3, said
    assert job.outputs["verdict"] == verdict
    assert checks(github)[NAME][0] == "failure"
    assert f"cancelled while it was in the step `{step}`" in comment(github)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cancelled__observing(
    steps: Callable[[dict[str, str]], Steps],
    github: FakeGithub,
    serving: Serving,
    runner_cache: Path,
    number: signal.Signals,
) -> None:
    """Cancelled while it asks: the server is stopped within the runner's patience, and what was
    answered is valid evidence."""
    job = steps(serving.inputs("--delay", 0.5))
    status, said = job.run("boot")
    assert status == 0, said
    assert answers(serving.port)
    process = job.start("observe")
    journal = job.evidence / "journal.jsonl"
    assert until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 4)
    said, took = cancel(process, number)

    assert process.returncode == 128 + number, said
    assert took < 7.5
    assert not answers(serving.port)
    assert leases(runner_cache) == []
    assert session.verify(job.evidence).problems == ()
    with Folder.open(job.evidence) as folder:
        assert sum(map(len, folder.load().seen.values())) > 0
    is_told_cancelled(job, github, "observe", "UNPROVEN")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cancelled__booting(
    steps: Callable[[dict[str, str]], Steps],
    github: FakeGithub,
    runner_cache: Path,
    number: signal.Signals,
) -> None:
    """Cancelled while it waits for the endpoint: what was started is ended."""
    port = free_port()
    command = f"sleep 987.{port} & sleep 987.{port}"
    job = steps(
        {
            "boot": "command",
            "boot_command": command,
            "endpoint": f"http://127.0.0.1:{port}",
            **JUDGE,
        }
    )
    process = job.start("boot")
    assert until(lambda: leases(runner_cache) and lease.read(leases(runner_cache)[0]).leader)
    held = lease.read(leases(runner_cache)[0])
    assert until(lambda: len(processes.family(held.mark, held.leader)) == 3)
    said, took = cancel(process, number)

    assert process.returncode == 128 + number, said
    assert took < 7.5
    assert processes.family(held.mark, held.leader) == []
    assert leases(runner_cache) == []
    is_told_cancelled(job, github, "boot", "NOT RUN")
