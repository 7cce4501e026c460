"""Stops what the boot step started, whatever became of the steps between."""

from __future__ import annotations

from iqaction.action import places
from iqaction.action.job import Job
from iqaction.boot import stopping
from iqaction.errors import BootError


def run(job: Job) -> int:
    """A server that cannot be stopped is a warning: the verdict stands, and the next run on this
    runner stops it."""
    try:
        said = stopping.stop_work(places.leases(job.environ), job.work.path, places.world(job))
    except BootError as exc:
        job.log.warning(str(exc), title="inferquality: stop")
        return 0
    job.log.text(said)
    return 0
