"""Starts the endpoint as the inputs say, from one checkout or another. I/O."""

from __future__ import annotations

from pathlib import Path

from iqaction.action import keys, places
from iqaction.action.job import Job
from iqaction.action.settings import COMPOSE, Settings
from iqaction.boot import booting, readiness
from iqaction.boot._base import Booted, Owner, Spec
from iqaction.boot.environment import scrubbed
from iqaction.withheld import of_environment


def started(job: Job, settings: Settings, asked: Spec) -> Booted:
    """An endpoint that has generated.

    Raises
    ------
    BootError
        It did not come up, and was stopped again.
    """

    def ready(endpoint: str) -> str:
        key = keys.api_key(job, settings)
        return readiness.probe(endpoint, keys.model(settings), settings.dialect, key)

    with job.log.quiet() as say:
        return booting.boot(asked, ready, say=say, world=places.world(job))


def spec(job: Job, settings: Settings, checkout: Path) -> Spec:
    """What is to be started from ``checkout``. Raises ConfigError for a key that is not there."""
    get = job.environ.get
    key = keys.api_key(job, settings)
    owner = Owner(
        runner=get("RUNNER_NAME", ""),
        repository=get("GITHUB_REPOSITORY", ""),
        run_id=get("GITHUB_RUN_ID", ""),
        attempt=get("GITHUB_RUN_ATTEMPT", ""),
        job=get("GITHUB_JOB", ""),
    )
    return Spec(
        settings.boot,
        settings.endpoint,
        settings.ready_timeout_s,
        checkout,
        Path(job.work.path),
        places.leases(job.environ),
        owner,
        settings.boot_command,
        settings.stop_command,
        checkout / settings.compose_file if settings.boot == COMPOSE else None,
        settings.compose_env,
        (*((key,) if key else ()), *of_environment(scrubbed(job.environ))),
    )
