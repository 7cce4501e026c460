"""The observing step leaves a judged folder, or the reason why there is none."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.action.desk import Desk
from unit.action.evidence import Evidence
from world import World

from iqaction import session
from iqaction.action import remembered, reports
from iqaction.action.work import Ending, Endpoint, Measured
from iqaction.circumstances import Circumstances
from iqaction.evidence.store import Folder
from iqaction.verdict import Verdict

ENTRY = Path(__file__).parents[3] / "iqaction" / "_entry"
BOOTED = {"boot": "command", "boot_command": "serve"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(tmp_path_factory.mktemp("observe"), World(units=8, length=6))


class Listener:
    """A server that takes connections, counts them, and never answers."""

    def __init__(self) -> None:
        self.asked = 0
        self._kept: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._kept.append(self._server.accept()[0])
                self.asked += 1

    def close(self) -> None:
        self._server.close()
        for one in self._kept:
            one.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    running = Listener()
    yield running
    running.close()


def test_observe__the_endpoint_did_not_start(tmp_path, listener):
    """NOT RUN with the endpoint's own last words; whoever else answers there is not asked."""
    desk = Desk(tmp_path, inputs={**BOOTED, "endpoint": listener.url}).decided()
    said = "the endpoint did not start: no GPU\n  expected: one"
    desk.work.keep(Endpoint("", said, log_tail="CUDA error", machine={"gpu": "none"}))

    assert desk.step("observe") == 0

    report = reports.stored(desk.work.evidence)
    assert (report.verdict, report.gate) == (Verdict.NOT_RUN, Verdict.NOT_RUN)
    assert report.problems[0] == said
    assert report.machine["gpu"] == "none"
    with Folder.open(desk.work.evidence) as folder:
        assert folder.load().circumstances.log_tail == "CUDA error"
    assert desk.work.measured() == Measured(False, said)
    assert "no GPU" in desk.summary
    assert desk.step("gate") == 3
    assert listener.asked == 0


def test_observe__nothing_was_started(tmp_path, listener):
    """What happens to answer where the endpoint was to be is not what was to be tested."""
    desk = Desk(tmp_path, inputs={**BOOTED, "endpoint": listener.url}).decided()

    assert desk.step("observe") == 0
    assert listener.asked == 0
    assert desk.step("gate") == 3


def test_observe__the_reference_could_not_be_started(tmp_path, listener):
    """Why there is nothing to compare with is not lost because the candidate came up."""
    around = Circumstances(problem="there is no baseline")
    desk = Desk(tmp_path, inputs={**BOOTED, "endpoint": listener.url})
    desk.decided(circumstances=replace(around, run=desk.run))
    desk.work.keep(Endpoint(listener.url))

    desk.step("observe")

    assert reports.stored(desk.work.evidence).problems[0] == "there is no baseline"
    assert listener.asked == 0
    assert desk.step("gate") == 3


@pytest.mark.parametrize("status", [3, 4, 70])
def test_observe__after_a_step_that_broke(tmp_path, listener, status):
    """Nothing is measured on top of a mistake, and the mistake stays what is said."""
    desk = Desk(tmp_path, inputs={"endpoint": listener.url}).decided()
    reports.leave(desk.job, Ending(status, "the first"))

    assert desk.step("observe") == 0
    assert listener.asked == 0
    assert desk.work.ending() == Ending(status, "the first")
    assert desk.step("gate") == status


def test_observe__without_a_decision(tmp_path, listener):
    """Where nothing was decided nothing is asked."""
    desk = Desk(tmp_path, inputs={"endpoint": listener.url})

    assert desk.step("observe") == 0
    assert listener.asked == 0
    assert desk.step("gate") == 3


def test_observe__no_key(tmp_path, listener):
    """A key that is named and not there is a mistake, before anybody is asked."""
    inputs = {"endpoint": listener.url, "api_key_env": "MY_KEY"}
    desk = Desk(tmp_path, inputs=inputs).decided()

    desk.step("observe")

    assert listener.asked == 0
    assert desk.step("gate") == 4
    assert "MY_KEY is not set" in desk.log


@pytest.mark.parametrize("plan", ["absent.yml", "stages: [nonsense]"])
def test_observe__a_mistake_in_the_plan(tmp_path, listener, plan):
    """A plan that cannot be used is a mistake, and no evidence is begun."""
    path = tmp_path / "plan.yml"
    if plan.startswith("stages"):
        path.write_text(plan)
    desk = Desk(tmp_path, inputs={"endpoint": listener.url}).decided(plan=str(path))

    desk.step("observe")

    assert listener.asked == 0
    assert desk.step("gate") == 4


def test_observe__publishes_again(tmp_path, made, listener):
    """Evidence that was found again is judged under this run and measured by nobody."""
    folder = made.leg("again")
    desk = Desk(tmp_path, inputs={**BOOTED, "endpoint": listener.url}, attempt=2)
    run = replace(desk.run, republished=f"{desk.run.url}")
    around = Circumstances(run, machine={remembered.KEY: "k" * 64})
    desk.decided("republish", judged=str(folder), key="k" * 64, circumstances=around)

    assert desk.step("observe") == 0

    report = reports.stored(desk.work.evidence)
    before = reports.stored(folder)
    assert (report.verdict, report.stages) == (before.verdict, before.stages)
    assert report.run == run
    assert desk.work.measured() == Measured(True)
    assert session.verify(desk.work.evidence).ok
    assert listener.asked == 0


def test_observe__publishes_again_a_shard(tmp_path, made):
    """A shard that was found again is a complete shard."""
    folder = made.leg("shard", shard=1, shards_=2)
    desk = Desk(tmp_path, inputs={**BOOTED, "endpoint": "http://127.0.0.1:9", "shard": "1/2"})
    desk.decided(
        "republish", judged=str(folder), circumstances=Circumstances(desk.run, shard=1, shards=2)
    )

    desk.step("observe")

    assert desk.step("gate") == 0
    assert desk.outputs["verdict"] == "PARTIAL"


@pytest.mark.parametrize("judged", ["", "absent", "unsealed"])
def test_observe__found_evidence_is_gone(tmp_path, made, judged):
    """Where the evidence that was found is no longer whole, nothing is judged in its place."""
    folder = made.leg(f"{tmp_path.name}", sealed=False) if judged == "unsealed" else tmp_path / "x"
    desk = Desk(tmp_path, inputs={**BOOTED, "endpoint": "http://127.0.0.1:9"})
    desk.decided("republish", judged=str(folder) if judged else "")

    assert desk.step("observe") == 0
    assert "Traceback" not in desk.log
    assert desk.step("gate") == 3


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_observe__is_stopped(tmp_path, listener, number, status):
    """A cancelled run seals what there is and leaves why; then it is published and red."""
    desk = Desk(tmp_path, inputs={"endpoint": listener.url}).decided()
    # A child of a shell's background job ignores SIGINT, and so would its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [sys.executable, "-I", "-B", str(ENTRY), "observe"],
        env=desk.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        signal.signal(signal.SIGINT, before)
        while not listener.asked and process.poll() is None:
            threading.Event().wait(0.02)
        process.send_signal(number)
        log, _ = process.communicate(timeout=30)

    assert process.returncode == status, log
    assert "Traceback" not in log
    ending = desk.work.ending()
    assert ending == Ending(3, "the run was cancelled while it was in the step `observe`")
    assert json.loads((desk.work.evidence / "report.json").read_text())["verdict"] == "NOT RUN"
    assert (desk.work.evidence / "manifest.json").is_file()
    assert desk.step("gate") == 3
