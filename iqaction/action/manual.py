"""Publishing outside of a workflow: the same report, the same effects, a token of the user's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from iqaction import surfaces
from iqaction.action import reports, targets
from iqaction.errors import ConfigError
from iqaction.github import publishing, pulls
from iqaction.github.client import Client, open_session
from iqaction.github.publishing import Published


@dataclass(frozen=True)
class Wanted:
    """What the command line says; empty values are the report's own."""

    repository: str = ""
    sha: str = ""
    pull_request: int = 0
    comment: bool = True
    check: bool = True


def publish(folder: Path, wanted: Wanted, token: str, environ: Mapping[str, str]) -> Published:
    """Post the report in ``folder``.

    Raises
    ------
    ConfigError
        Neither the report nor the command line says where.
    EvidenceError
        There is no report.
    GithubError
        GitHub does not say which pull request it is.
    """
    report = reports.stored(folder)
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
