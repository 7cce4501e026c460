"""Starts the endpoint. One that does not come up is no failure of this step: the observing step
says so in a report, and the gate is red."""

from __future__ import annotations

from iqaction.action import starting
from iqaction.action.job import Job
from iqaction.action.work import Endpoint
from iqaction.boot import compose
from iqaction.boot.logs import tail_text
from iqaction.errors import BootError


def run(job: Job) -> int:
    """Start it, wait until it has generated, and keep where it answers or why it does not."""
    settings, decision = job.settings(), job.work.decision()
    if decision is not None and decision.circumstances.problem:
        # There is nothing to compare with: the observing step says why, and asks nobody.
        job.work.keep(Endpoint("", decision.circumstances.problem))
        return 0
    spec = starting.spec(job, settings, job.workspace())
    try:
        with job.log.group("the endpoint starts"):
            booted = starting.started(job, settings, spec)
    except BootError as exc:
        job.log.error(exc.happened, title="inferquality: the endpoint did not start")
        tail = tail_text(spec.log, compose.hidden(spec))
        job.work.keep(Endpoint("", f"the endpoint did not start: {exc}", log_tail=tail))
        return 0
    tail = tail_text(booted.log, compose.hidden(spec))
    job.work.keep(
        Endpoint(booted.endpoint, lease=str(booted.lease), log_tail=tail, machine=booted.machine)
    )
    job.log.notice(f"the endpoint answers at {booted.endpoint}")
    return 0
