"""The token, for the two steps that hold it: a conversation with GitHub."""

from __future__ import annotations

from iqaction.action.job import Job
from iqaction.errors import ConfigError, GithubError
from iqaction.github.client import Client, open_session

VARIABLE = "IQ_TOKEN"


def client(job: Job, deadline_s: float = 120.0) -> tuple[Client | None, str]:
    """GitHub's API with the job's token, for so many seconds from now on; None, and why, where
    there is no way to ask."""
    token = job.environ.get(VARIABLE, "")
    job.log.mask(token)
    try:
        event = job.event()
        made = Client(
            event.api_url,
            token,
            session=open_session(),
            clock=job.clock,
            sleep=job.sleep,
            deadline_s=deadline_s,
            graphql_url=event.graphql_url,
        )
    except (ConfigError, GithubError) as exc:
        return None, exc.happened
    return made, ""
