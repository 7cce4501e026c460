"""Earlier runs of the same suite on the base branch, for display. I/O: asks GitHub.

Best effort, within a few seconds and requests: no verdict depends on it, and what fails is a note
in the log. Of an artifact only its report is read, and of that a word and numbers; whose run it
was is GitHub's to say.
"""

from __future__ import annotations

import io
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping

from iqaction.action import again, tokens
from iqaction.action.choosing import EVENTS
from iqaction.action.job import Job
from iqaction.action.settings import Settings
from iqaction.action.work import Decision
from iqaction.errors import EvidenceError, GithubError, IqError
from iqaction.evidence import report_json
from iqaction.github import artifacts
from iqaction.github.artifacts import Artifact, WorkflowRun
from iqaction.github.client import Client
from iqaction.github.event import Event
from iqaction.report import Past, Report

MOST = 8  # earlier runs that are shown
_MOST_LOOKED_AT = 12  # each is a request
_SECONDS = 20.0  # for all of it
_PACKED, _REPORT = 16 << 20, 8 << 20  # bytes
_ENDED = ("success", "failure")
_MOST_FIGURES = 100
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,120}\Z")


def past(
    job: Job, settings: Settings, event: Event, client: Client | None, decision: Decision
) -> tuple[Past, ...]:
    """Earlier runs, the oldest first; none where GitHub does not tell."""
    branch = event.base_branch or event.default_branch
    if client is None or not branch:
        return ()
    client, _ = tokens.client(job, _SECONDS)
    if client is None:
        return ()
    name = f"{again.stem(settings, decision)}-1"
    found: list[Past] = []
    try:
        listed = artifacts.named(client, event.repository, name, pages=2)
        for one in _earlier(job, client, event, branch, listed):
            found.append(one)
            if len(found) == MOST:
                break
    except GithubError as exc:
        job.log.text(f"earlier runs are not shown: {exc.happened}")
    return tuple(reversed(found))


def _earlier(
    job: Job, client: Client, event: Event, branch: str, listed: tuple[Artifact, ...]
) -> Iterator[Past]:
    """The newest first. One that cannot be read is left out."""
    theirs = [a for a in listed if a.branch == branch and a.run_id not in ("", event.run_id)]
    theirs.sort(key=lambda a: (a.created_at, a.id), reverse=True)
    for artifact in theirs[:_MOST_LOOKED_AT]:
        run = artifacts.run(client, event.repository, artifact.run_id)
        if not _is_ours(run, event, branch) or artifact.size > _PACKED:
            continue
        try:
            data = artifacts.download(client, event.repository, artifact, _PACKED)
            report = report_json.from_bytes(_report(data))
        except IqError as exc:
            job.log.text(f"run {run.id} is not shown: {exc.happened}")
            continue
        yield Past(
            run.head_sha,
            run.started_at,
            report.verdict,
            f"{event.server_url}/{event.repository}/actions/runs/{run.id}",
            figures(report),
        )


def _is_ours(run: WorkflowRun, event: Event, branch: str) -> bool:
    return (
        run.event in EVENTS
        and run.conclusion in _ENDED
        and run.branch == branch
        and run.head_repository.lower() == event.repository.lower()
        and bool(run.head_sha)
    )


def _report(data: bytes) -> bytes:
    """The report in an artifact's archive, within its bound.

    Raises
    ------
    EvidenceError
        There is none that can be read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(report_json.NAME) as file:
            found = file.read(_REPORT + 1)
    except (KeyError, OSError, ValueError, RuntimeError, EOFError) as exc:
        raise EvidenceError(f"its artifact holds no report: {type(exc).__name__}") from exc
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError) as exc:
        raise EvidenceError("its artifact is no whole archive") from exc
    if len(found) > _REPORT:
        raise EvidenceError(f"its report is larger than {_REPORT} bytes")
    return found


def figures(report: Report) -> Mapping[str, float]:
    """How much worse than its baseline a run was, by stage and check, in each check's own unit."""
    found: dict[str, float] = {}
    for stage in report.stages:
        for check in stage.checks:
            value = check.estimate.value if check.estimate else None
            name = f"{stage.stage}:{check.metric}"
            if value is not None and math.isfinite(value) and _NAME.match(name):
                found[name] = value
    return dict(list(found.items())[:_MOST_FIGURES])
