"""The action's steps as processes, each started as action.yml starts it and as no workflow runner
is needed for: to signal one, and to measure them.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ORDER = ("setup", "prepare", "reference", "boot", "observe", "publish", "stop", "gate")
HELD = ("prepare", "publish")  # the steps that have the token
_OUTPUT = re.compile(r"(\w+)<<(\S+)\n(.*?)\n?\2\n", re.DOTALL)


def _of_children() -> float:
    """Seconds of computing of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Steps:
    """One job on one runner. ``outputs`` are those of the steps that have run."""

    home: Path
    checkout: Path
    cache: Path  # of tools
    inputs: Mapping[str, str]
    event: Mapping[str, Any]
    api_url: str
    environ: Mapping[str, str] = field(default_factory=dict)
    token: str = "ghs_rw"
    outputs: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    action: Path = ROOT

    def __post_init__(self) -> None:
        (self.home / "temp").mkdir(parents=True, exist_ok=True)
        (self.home / "event.json").write_text(json.dumps(self.event))

    @property
    def work(self) -> Path:
        return Path(self.outputs["work"])

    @property
    def evidence(self) -> Path:
        return self.work / "evidence"

    def given(self, step: str) -> dict[str, str]:
        """The environment of a step; the output file is emptied."""
        (self.home / "output").write_text("")
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.api_url,
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(self.home / "event.json"),
            "GITHUB_JOB": "quality",
            "GITHUB_OUTPUT": str(self.home / "output"),
            "GITHUB_REPOSITORY": "acme/serve",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": "17",
            "GITHUB_SHA": self.event["pull_request"]["head"]["sha"],
            "GITHUB_STEP_SUMMARY": str(self.home / "summary"),
            "GITHUB_WORKSPACE": str(self.checkout),
            "RUNNER_NAME": "gpu",
            "RUNNER_TEMP": str(self.home / "temp"),
            "RUNNER_TOOL_CACHE": str(self.cache),
            **{k: v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_"))},
            **self.environ,
        }
        if step == "setup":
            return env | {f"IQ_INPUT_{k.upper()}": v for k, v in self.inputs.items()}
        token = {"IQ_TOKEN": self.token} if step in HELD else {}
        return env | {"IQ_PY": self.outputs["python"], "IQ_WORK": self.outputs["work"]} | token

    def start(self, step: str) -> subprocess.Popen[str]:
        """The step's process, whose output is one stream, as in a job's log."""
        env = self.given(step)
        python = sys.executable if step == "setup" else self.outputs["python"]
        return subprocess.Popen(
            [python, "-I", "-B", str(self.action / "iqaction" / "_entry"), step],
            cwd=self.checkout,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def run(self, step: str) -> tuple[int, str]:
        """The step's exit status and log; its outputs are kept."""
        begun, before = time.perf_counter(), _of_children()
        process = self.start(step)
        said, _ = process.communicate(timeout=300)
        self.seconds[step] = time.perf_counter() - begun
        self.cpu[step] = _of_children() - before
        self.take()
        return process.returncode, said

    def take(self) -> None:
        """Keep the outputs of the step that has ended."""
        self.outputs |= {m[1]: m[3] for m in _OUTPUT.finditer((self.home / "output").read_text())}

    def wanted(self, step: str) -> bool:
        """Whether action.yml would run a step now."""
        conditions = {
            "reference": "reference",
            "boot": "boot",
            "stop": "stop",
            "observe": "observe",
        }
        return step not in conditions or self.outputs.get(conditions[step]) == "true"
