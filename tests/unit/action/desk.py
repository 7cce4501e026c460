"""A job of the action in this process: its folder, its event, its log, and a GitHub or none.

desk = Desk(tmp_path, github)
desk.step("prepare", endpoint="http://127.0.0.1:1")
assert desk.decision.action == "measure"
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, SHA
from unit.action.evidence import TESTED

from iqaction.action import job as jobs
from iqaction.action import reports
from iqaction.action.job import Job
from iqaction.action.work import Decision, Work
from iqaction.action.workflow_log import WorkflowLog
from iqaction.circumstances import Circumstances
from iqaction.evidence import dataclass_json, report_json
from iqaction.report import Report, Run

REPOSITORY = "acme/serve"
NOWHERE = "http://127.0.0.1:9"  # the port "discard": nobody listens


def pull_request(**head: Any) -> dict[str, Any]:
    """The payload of pull request 7; ``head`` is laid over its head."""
    theirs = {"sha": SHA, "repo": {"full_name": REPOSITORY}, **head}
    base = {"sha": BASE_SHA, "repo": {"full_name": REPOSITORY}}
    return {"pull_request": {"number": 7, "head": theirs, "base": base, "user": {"login": "ann"}}}


def merge_group() -> dict[str, Any]:
    return {"merge_group": {"head_sha": SHA, "base_sha": BASE_SHA}}


def push(before: str = BASE_SHA) -> dict[str, Any]:
    return {"before": before, "after": TESTED}


def workflow_run(repository: str = "stranger/serve") -> dict[str, Any]:
    run = {"id": 40, "head_sha": SHA, "event": "pull_request", "conclusion": "success"}
    return {"workflow_run": {**run, "head_repository": {"full_name": repository}}}


class Desk:
    """One job. Steps run one after the other as they do on a runner, each from its environment."""

    def __init__(
        self,
        home: Path,
        github: FakeGithub | None = None,
        *,
        event: str = "pull_request",
        payload: Mapping[str, Any] | None = None,
        attempt: int = 1,
        inputs: Mapping[str, str] | None = None,
        **env: str,
    ) -> None:
        self.home = home
        self.workspace, self.temp = home / "checkout", home / f"temp-{attempt}"
        self.cache = home / "tool cache"
        for folder in (self.workspace, self.temp, self.cache):
            folder.mkdir(parents=True, exist_ok=True)
        self.work = Work(self.temp / "inferquality-x")
        self.work.path.mkdir(mode=0o700)
        self.files = {n: self.temp / n for n in ("output", "summary")}
        (self.temp / "event.json").write_text(json.dumps(payload or pull_request()))
        self.environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": github.url if github else NOWHERE,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_OUTPUT": str(self.files["output"]),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ATTEMPT": str(attempt),
            "GITHUB_RUN_ID": "50",
            "GITHUB_SHA": TESTED,
            "GITHUB_STEP_SUMMARY": str(self.files["summary"]),
            "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/quality.yml@refs/heads/main",
            "GITHUB_WORKSPACE": str(self.workspace),
            "IQ_TOKEN": "ghs_rw",
            "IQ_WORK": str(self.work.path),
            "PATH": "/usr/bin:/bin",
            "RUNNER_ENVIRONMENT": "self-hosted",
            "RUNNER_TEMP": str(self.temp),
            "RUNNER_TOOL_CACHE": str(self.cache),
            **env,
        }
        self.waits: list[float] = []
        self.now = 0.0
        self.stream = io.StringIO()
        self.inputs(**(inputs or {}))

    def inputs(self, **inputs: str) -> Desk:
        """What the workflow says, as the set-up step keeps it."""
        inputs.setdefault("endpoint", NOWHERE) if "mode" not in inputs else None
        path = self.work.path / "inputs.json"
        path.write_text(json.dumps(inputs))
        path.chmod(0o600)
        return self

    def checkout(self, files: Mapping[str, str | bytes]) -> Desk:
        """Put files into the checkout."""
        for name, content in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    @property
    def job(self) -> Job:
        """For a step's own functions; nobody waits in it."""
        return Job(
            self.environ,
            self.work,
            WorkflowLog(self.stream, self.environ),
            lambda: self.now,
            self._sleep,
        )

    def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def step(self, name: str) -> int:
        """Run a step as its process does; what it said is in ``log``."""
        clocks = jobs.Clocks(lambda: self.now, self._sleep)
        return jobs.run(name, self.environ, self.stream, clocks)

    @property
    def log(self) -> str:
        return self.stream.getvalue()

    @property
    def outputs(self) -> dict[str, str]:
        if not self.files["output"].exists():
            return {}
        text = self.files["output"].read_text()
        return dict(re.findall(r"^(\w+)<<(?:\S+)\n(.*)\n", text, re.MULTILINE))

    @property
    def summary(self) -> str:
        path = self.files["summary"]
        return path.read_text() if path.exists() else ""

    @property
    def decision(self) -> Decision:
        found = self.work.decision()
        assert found is not None
        return found

    def decided(self, action: str = "measure", **more: Any) -> Desk:
        """As if the step ``prepare`` had decided so."""
        around = more.pop("circumstances", Circumstances(self.run))
        self.work.keep(Decision(action, circumstances=around, **more))
        return self

    @property
    def run(self) -> Run:
        return Run(
            repository=REPOSITORY,
            event=self.environ["GITHUB_EVENT_NAME"],
            head_sha=SHA,
            tested_sha=TESTED,
            run_id="50",
            attempt=int(self.environ["GITHUB_RUN_ATTEMPT"]),
            url=f"https://github.com/{REPOSITORY}/actions/runs/50",
            started_at="2026-11-30T12:00:00Z",
        )

    def reported(self, report: Report) -> Desk:
        """As if a step had left this report, with all that is rendered of it."""
        reports.write(self.work.evidence, report)
        return self

    def reported_fast(self, report: Report) -> Desk:
        """The same, nothing rendered and nothing checked."""
        self.work.evidence.mkdir(exist_ok=True)
        body = {**dataclass_json.to_json(report), "$schema": report_json.SCHEMA}
        (self.work.evidence / "report.json").write_text(json.dumps(body))
        return self

    def everything(self) -> str:
        """All that the job has written anywhere, but the inputs: to look for secrets in."""
        found = [self.log]
        for path in sorted(self.home.rglob("*")):
            if path.is_file() and path.name != "inputs.json":
                found.append(path.read_bytes().decode("utf-8", "replace"))
        return "\n".join(found)
