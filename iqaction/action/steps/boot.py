"""Starts the endpoint. One that does not come up is no failure of this step: the observing step
says so in a report, and the gate is red."""

from __future__ import annotations

from pathlib import Path

from iqaction.action import keys, places
from iqaction.action.job import Job
from iqaction.action.settings import COMPOSE, Settings
from iqaction.action.work import Endpoint
from iqaction.boot import booting, readiness
from iqaction.boot._base import Owner, Spec
from iqaction.boot.logs import tail_text
from iqaction.errors import BootError


def run(job: Job) -> int:
    """Start it, wait until it has generated, and keep where it answers or why it does not."""
    settings = job.settings()
    key = keys.api_key(job, settings)
    spec = _spec(job, settings, key)

    def ready(endpoint: str) -> str:
        return readiness.probe(endpoint, keys.model(settings), settings.dialect, key)

    try:
        with job.log.group("the endpoint starts"), job.log.quiet() as say:
            booted = booting.boot(spec, ready, say=say, world=places.world(job))
    except BootError as exc:
        job.log.error(exc.happened, title="inferquality: the endpoint did not start")
        tail = tail_text(spec.log, spec.secrets)
        job.work.keep(Endpoint("", f"the endpoint did not start: {exc}", log_tail=tail))
        return 0
    tail = tail_text(booted.log, spec.secrets)
    job.work.keep(
        Endpoint(booted.endpoint, lease=str(booted.lease), log_tail=tail, machine=booted.machine)
    )
    job.log.notice(f"the endpoint answers at {booted.endpoint}")
    return 0


def _spec(job: Job, settings: Settings, key: str) -> Spec:
    get = job.environ.get
    owner = Owner(
        runner=get("RUNNER_NAME", ""),
        repository=get("GITHUB_REPOSITORY", ""),
        run_id=get("GITHUB_RUN_ID", ""),
        attempt=get("GITHUB_RUN_ATTEMPT", ""),
        job=get("GITHUB_JOB", ""),
    )
    file = job.workspace() / settings.compose_file if settings.boot == COMPOSE else None
    return Spec(
        settings.boot,
        settings.endpoint,
        settings.ready_timeout_s,
        job.workspace(),
        Path(job.work.path),
        places.leases(job.environ),
        owner,
        settings.boot_command,
        settings.stop_command,
        file,
        settings.compose_env,
        (key,) if key else (),
    )
