"""Evidence that a runner keeps, so that a further attempt of the same run finds it. I/O.

Apart from the finding (``again``), which asks GitHub: the step that measures does not.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from iqaction.action import places
from iqaction.action.job import Job
from iqaction.action.work import Decision
from iqaction.report import Report
from iqaction.session import Outcome

KEY = "measurement"  # among the machine's facts
_KEPT = 20  # folders on one runner


def remember(job: Job, decision: Decision, outcome: Outcome) -> None:
    """Keep complete evidence for a re-run on this runner; best effort."""
    around = decision.circumstances
    if not decision.key or not outcome.complete or around.problem or not is_whole(outcome.report):
        return
    place = places.judged(job.environ) / decision.key
    staged = place.with_name(f".{uuid.uuid4().hex}")
    try:
        shutil.copytree(outcome.folder, staged, ignore=shutil.ignore_patterns(".lock"))
        shutil.rmtree(place, ignore_errors=True)
        staged.rename(place)
        _prune(place.parent)
    except OSError as exc:
        shutil.rmtree(staged, ignore_errors=True)
        job.log.notice(f"the evidence is not kept for a re-run: {exc.strerror or exc}")


def is_whole(report: Report) -> bool:
    """True where nothing is left to ask of what the job is held to, and nothing is wrong with
    what was answered, the baseline's part of it included."""
    missing = any(s.coverage.missing for s in report.stages if s.required)
    return not missing and not report.problems


def _prune(folder: Path) -> None:
    every = sorted((p for p in folder.iterdir()), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in every[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
