"""Progress as lines of a workflow's log."""

from __future__ import annotations

import io

from iqaction.action.job import Job
from iqaction.action.workflow_log import WorkflowLog
from iqaction.progress import Plain


def progress(job: Job) -> Plain:
    """Lines for a log, model names and paths in them disarmed."""
    return Plain(_Lines(job.log), job.clock)


class _Lines(io.StringIO):
    """A stream that a log's foreign lines are written to."""

    def __init__(self, log: WorkflowLog) -> None:
        super().__init__()
        self._log = log

    def write(self, text: str) -> int:
        self._log.text(text)
        return len(text)
