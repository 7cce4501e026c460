"""However a step ends, the job's folder says why, and no secret is in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import report_factory as made
from unit.action.desk import NOWHERE, Desk

from iqaction.action import reports, steps
from iqaction.action.job import Job
from iqaction.action.work import Ending
from iqaction.errors import (
    BootError,
    ConfigError,
    EngineError,
    EvidenceError,
    GithubError,
    IqError,
)
from iqaction.verdict import Verdict

FAILING = Path(__file__).parent / "failing_step.py"
CANARIES = ("ghs_canary0token", "sk-canary0key", "canary0compose")


@pytest.fixture
def acting() -> Iterator[Callable[[Callable[[Job], int]], str]]:
    """A factory of steps that do what a test says; gives the step's name."""

    def make(run: Callable[[Job], int]) -> str:
        name = "observe"
        module = types.ModuleType(f"{steps.__name__}.{name}")
        module.run = run  # type: ignore[attr-defined]
        kept.setdefault(module.__name__, sys.modules.get(module.__name__))
        sys.modules[module.__name__] = module
        return name

    kept: dict[str, types.ModuleType | None] = {}
    yield make
    for name, before in kept.items():
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before


def raising(error: Exception) -> Callable[[Job], int]:
    def run(job: Job) -> int:
        raise error

    return run


ERRORS = [
    (ConfigError("no plan", expected="a plan", next_step="write one"), 4),
    (EvidenceError("altered"), 3),
    (EngineError("gone"), 3),
    (BootError("did not start"), 3),
    (GithubError("GitHub refused", status=403), 3),
    (IqError("something"), 3),
]


@pytest.mark.parametrize(("error", "status"), ERRORS, ids=lambda x: type(x).__name__)
def test_run__an_error_that_can_be_told(tmp_path, acting, error, status):
    """The step ends well, so that evidence and reason are published; the gate is red with the
    error's own status."""
    desk = Desk(tmp_path).decided()

    assert desk.step(acting(raising(error))) == 0
    assert desk.work.ending() == Ending(status, str(error))
    report = reports.stored(desk.work.evidence)
    assert (report.verdict, report.gate) == (Verdict.NOT_RUN, Verdict.NOT_RUN)
    assert error.happened in report.problems[0]
    assert f"::error title=inferquality%3A observe::{error.happened}" in desk.log
    assert "Traceback" not in desk.log
    assert desk.step("gate") == status


def test_run__a_crash(tmp_path, acting):
    """What nobody foresaw is 70 and says where; its text may quote a key and is not shown."""
    desk = Desk(tmp_path).decided()

    status = desk.step(acting(raising(RuntimeError("the server said sk-canary"))))

    assert status == 70
    assert "internal error in observe (RuntimeError at test_job.py:" in desk.log
    assert "sk-canary" not in desk.everything()
    assert "Traceback" not in desk.log
    assert desk.work.ending().exit_code == 70
    assert reports.stored(desk.work.evidence).verdict is Verdict.NOT_RUN
    assert desk.step("gate") == 70


@pytest.mark.parametrize("name", ["RUNNER_DEBUG", "IQACTION_DEBUG"])
def test_run__a_crash_for_those_who_ask(tmp_path, acting, name):
    """With debug logging the traceback is shown, and nothing in it is a command."""
    desk = Desk(tmp_path, **{name: "1"}).decided()

    desk.step(acting(raising(RuntimeError("x\n::set-output name=verdict::PASS"))))

    assert "Traceback" in desk.log
    assert "set-output" in desk.log
    assert "\n::set-output" not in desk.log


def test_run__a_crash_in_judging_leaves_a_report(tmp_path, acting):
    """Where judging itself is broken, there is still a report to publish, and it is NOT RUN."""
    desk = Desk(tmp_path).decided()
    desk.work.evidence.mkdir()
    (desk.work.evidence / "plan.json").write_text("{}")

    assert desk.step(acting(raising(KeyError("x")))) == 70
    assert reports.stored(desk.work.evidence).verdict is Verdict.NOT_RUN


@pytest.mark.parametrize(("error", "status"), [ERRORS[0], (RuntimeError("x"), 70)])
def test_run__a_report_that_is_there_stays(tmp_path, acting, error, status):
    """What was judged is not judged away by what went wrong later; the job is red all the same."""
    desk = Desk(tmp_path).decided().reported(made.passed())

    desk.step(acting(raising(error)))

    assert reports.stored(desk.work.evidence).verdict is Verdict.PASS
    assert desk.step("gate") == status
    assert desk.outputs["verdict"] == "NOT RUN"


def test_run__the_first_ending_is_the_cause(tmp_path, acting):
    """What goes wrong after something went wrong is no news."""
    desk = Desk(tmp_path).decided()
    name = acting(raising(ConfigError("the first")))
    desk.step(name)
    acting(raising(RuntimeError("the second")))
    desk.step(name)

    assert desk.work.ending() == Ending(4, "the first")


@pytest.mark.parametrize("error", [ConfigError("x"), RuntimeError("x"), KeyboardInterrupt()])
def test_run__nothing_can_be_written(tmp_path, acting, error):
    """Where not even the reason can be left, the step itself is red."""
    desk = Desk(tmp_path).decided()

    def run(job: Job) -> int:
        job.work.path.chmod(0o500)
        raise error

    if os.geteuid() == 0:  # root writes everywhere: a file in the folder's place

        def run(job: Job) -> int:
            for path in job.work.path.iterdir():
                path.unlink()
            job.work.path.rmdir()
            job.work.path.write_text("")
            raise error

    assert desk.step(acting(run)) in (4, 70, 130)
    assert "cannot be written" in desk.log


@pytest.mark.parametrize("step", ["", "nothing", "_private", "../observe", "steps", "observe.py"])
def test_run__no_such_step(tmp_path, step):
    """A name that is no step runs nothing."""
    desk = Desk(tmp_path)

    assert desk.step(step) == 4


def test_run__without_a_folder(tmp_path):
    """Outside of the action no step runs."""
    desk = Desk(tmp_path, IQ_WORK="")

    assert desk.step("gate") == 4


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_run__a_signal(tmp_path, number, status):
    """A cancelled step says so, and the job can no longer be green."""
    desk = Desk(tmp_path).decided()
    with subprocess.Popen(
        [sys.executable, str(FAILING), "wait"],
        env={**desk.environ, "IQ_TOKEN": ""},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "READY" in line:
                break
        process.send_signal(number)
        rest = process.stdout.read()

    assert process.returncode == status
    assert desk.work.ending() == Ending(
        3, "the run was cancelled while it was in the step `observe`"
    )
    assert "Traceback" not in rest
    assert desk.step("gate") == 3
    assert desk.outputs["verdict"] == "NOT RUN"


def test_run__a_crash_as_a_process(tmp_path):
    """The status of a crash is 70 for whoever waits for the process, never Python's own 1."""
    desk = Desk(tmp_path).decided()

    done = subprocess.run(
        [sys.executable, str(FAILING), "crash"],
        env={**desk.environ, "IQ_TOKEN": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 70
    assert "canary" not in done.stdout + done.stderr + desk.everything()


# --- secrets --------------------------------------------------------------------------------


def secretive(tmp_path: Path, **inputs: str) -> Desk:
    return Desk(
        tmp_path,
        inputs={
            "endpoint": NOWHERE,
            "boot": "compose",
            "compose_file": "compose.yml",
            "compose_env": f"HF_TOKEN={CANARIES[2]}",
            "api_key_env": "MY_KEY",
            **inputs,
        },
        IQ_TOKEN=CANARIES[0],
        MY_KEY=CANARIES[1],
    )


def shown(text: str) -> set[str]:
    """The secrets in a text, but for the lines by which a runner learns what to mask."""
    lines = [x for x in text.splitlines() if not x.startswith("::add-mask::")]
    return {c for c in CANARIES if c in "\n".join(lines)}


@pytest.mark.parametrize("step", ["prepare", "boot", "observe", "publish", "stop", "gate"])
def test_secrets__are_nowhere(tmp_path, step):
    """Whatever a step does with no server, no docker and no GitHub, no secret is left in a file
    or in the log."""
    desk = secretive(tmp_path).decided()
    if step == "prepare":
        (desk.work.path / "decision.json").unlink()

    desk.step(step)

    assert shown(desk.everything()) == set()


@pytest.mark.parametrize(
    "inputs",
    [{"api_key_env": CANARIES[1]}, {"compose_env": CANARIES[2]}, {"boot": "none"}],
    ids=["key", "compose", "boot"],
)
def test_secrets__in_a_mistake(tmp_path, inputs):
    """A mistake in the inputs does not show them."""
    desk = secretive(tmp_path, **inputs)

    for step in ("prepare", "publish", "gate"):
        desk.step(step)

    assert desk.work.ending().exit_code == 4
    assert shown(desk.everything()) == set()


def test_secrets__the_token_is_masked_before_anything(tmp_path):
    """The runner learns what to hide before it could be printed."""
    desk = secretive(tmp_path)

    desk.step("prepare")

    assert desk.log.splitlines()[0] == f"::add-mask::{CANARIES[0]}"
