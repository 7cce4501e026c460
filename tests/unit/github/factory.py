"""What tests of publishing start from: an event, a target, the effects of a report."""

from __future__ import annotations

from dataclasses import replace

from fake_github.state import BASE_SHA, SHA

from iqaction.github.event import Event
from iqaction.github.publication import Mark, Target
from iqaction.surfaces._base import Annotate, PutCheckRun, UpsertComment
from iqaction.verdict import Verdict

CHECK = "inferquality / default"
MARKER = "<!-- inferquality:v1 key=0123456789abcdef -->"
OTHER_MARKER = "<!-- inferquality:v1 key=fedcba9876543210 -->"
MARK = Mark(50, 1, SHA, "2026-11-30T12:00:00Z")
OLDER = Mark(40, 1, SHA, "2026-11-30T11:00:00Z")
NEWER = Mark(60, 1, SHA, "2026-11-30T13:00:00Z")


def event() -> Event:
    return Event(
        name="pull_request",
        repository="acme/serve",
        api_url="https://api.github.com",
        graphql_url="https://api.github.com/graphql",
        server_url="https://github.com",
        head_sha=SHA,
        tested_sha="c" * 40,
        base_sha=BASE_SHA,
        number=7,
        head_repository="acme/serve",
        is_fork=False,
        is_dependabot=False,
        is_self_hosted=True,
        run_id="50",
        attempt=1,
        job="quality",
        workflow_path=".github/workflows/quality.yml",
        workspace="/work",
        run_url="https://github.com/acme/serve/actions/runs/50",
    )


def target(mark: Mark = MARK, gate: Verdict = Verdict.FAIL, *, warn: bool = False) -> Target:
    return Target(
        repository="acme/serve",
        head_sha=mark.head_sha,
        check_name=CHECK,
        mark=mark,
        numbers=(7,),
        run_url="https://github.com/acme/serve/actions/runs/50",
        gate=gate,
        warn=warn,
    )


def check(summary: str = "the figures", text: str = "the details") -> PutCheckRun:
    return PutCheckRun(CHECK, SHA, "failure", "FAIL: it differs", summary, text)


def comment(text: str = "the figures", marker: str = MARKER) -> UpsertComment:
    state = '<!-- {"head_sha":"","verdict":"FAIL"} -->'
    return UpsertComment(marker, f"{marker}\n\n### FAIL: it differs\n\n{text}\n\n{state}\n")


def notes(count: int) -> list[Annotate]:
    return [Annotate("compose.yml", i + 1, "failure", f"line {i}") for i in range(count)]


def at_head(mark: Mark, sha: str) -> Mark:
    return replace(mark, head_sha=sha)
