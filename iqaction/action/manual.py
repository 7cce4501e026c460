"""Publishing outside of a workflow: the same report, the same effects, a token of the user's."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from iqaction import surfaces
from iqaction.action import reports, targets
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence import manifest
from iqaction.evidence.reading import PLAN
from iqaction.evidence.store import Folder
from iqaction.github import publishing, pulls
from iqaction.github.client import Client, open_session
from iqaction.github.publishing import Published
from iqaction.report import Report


@dataclass(frozen=True)
class Wanted:
    """What the command line says; empty values are the report's own."""

    repository: str = ""
    sha: str = ""
    pull_request: int = 0
    comment: bool = True
    check: bool = True


def stored(folder: Path, root: str = "") -> Report:
    """The report in ``folder``: the sealed one, or where no evidence is beside it (a run that was
    refused, several suites as one) the file's own word, without a root.

    Parameters
    ----------
    root
        The evidence root as the run told it, "" for any.

    Raises
    ------
    EvidenceError
        There is none, it is not the one that was sealed, or is of another root.
    """
    report = reports.stored(folder)
    if any(os.path.lexists(folder / name) for name in (PLAN, manifest.NAME)):
        with Folder.open(folder) as opened:
            report, found = opened.report()
        report = replace(report, evidence_root=found)
    if root and root.lower() != report.evidence_root:
        raise EvidenceError(
            f"{folder}: its evidence root is {report.evidence_root or 'not known: it has none'}",
            expected=root.lower(),
            next_step="publish the folder that the run left, as its log and comment name it",
        )
    return report


def publish(report: Report, wanted: Wanted, token: str, environ: Mapping[str, str]) -> Published:
    """Post a report.

    Raises
    ------
    ConfigError
        Neither the report nor the command line says where.
    GithubError
        GitHub does not say which pull request it is.
    """
    run = replace(
        report.run,
        repository=wanted.repository or report.run.repository,
        head_sha=wanted.sha or report.run.head_sha,
    )
    if not run.repository or not run.head_sha:
        raise ConfigError(
            "the report does not say which commit it is of: it was made outside of a workflow",
            expected="--repository OWNER/NAME and --sha SHA",
        )
    client = Client(
        environ.get("GITHUB_API_URL") or "https://api.github.com",
        token,
        session=open_session(),
        clock=time.monotonic,
        sleep=time.sleep,
    )
    one = wanted.pull_request
    numbers: tuple[int, ...] = (one,) if one else ()
    if wanted.comment and not numbers:
        numbers = pulls.find_pull_requests(client, run.repository, run.head_sha, run.repository)
    rendered = surfaces.render_all(replace(report, run=run))
    effects = targets.posted(rendered, comment=wanted.comment, check=wanted.check)
    target = targets.of(report.suite, run, numbers=numbers, gate=report.gate)
    return publishing.publish(effects, target, client)
