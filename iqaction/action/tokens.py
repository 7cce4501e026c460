"""The token, for the two steps that hold it: a conversation with GitHub, and where results go."""

from __future__ import annotations

from iqaction.action.job import Job
from iqaction.errors import ConfigError, GithubError
from iqaction.github.client import Client
from iqaction.github.publication import Mark, Target
from iqaction.report import Run
from iqaction.surfaces import check_run
from iqaction.verdict import Verdict

VARIABLE = "IQ_TOKEN"


def client(job: Job) -> tuple[Client | None, str]:
    """GitHub's API with the job's token; None, and why, where there is no way to ask."""
    import requests  # noqa: PLC0415 - 80 ms that the steps without a token do not need

    token = job.environ.get(VARIABLE, "")
    job.log.mask(token)
    try:
        event = job.event()
        made = Client(
            event.api_url,
            token,
            session=requests.Session(),
            clock=job.clock,
            sleep=job.sleep,
            graphql_url=event.graphql_url,
        )
    except (ConfigError, GithubError) as exc:
        return None, exc.happened
    return made, ""


def target(
    suite: str,
    run: Run,
    *,
    numbers: tuple[int, ...] = (),
    gate: Verdict = Verdict.UNPROVEN,
    warn: bool = False,
    check: int = 0,
) -> Target:
    """Where a suite's result of this run goes."""
    return Target(
        run.repository,
        run.head_sha,
        check_run.name(suite),
        Mark(int(run.run_id or 0), run.attempt, run.head_sha, run.started_at),
        numbers,
        run.url,
        gate,
        warn,
        check,
    )
