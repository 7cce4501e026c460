"""Asks, judges and renders; or judges what other jobs asked. Its result is a sealed folder.

Holds no token. Stopped by a signal, it seals what was answered and stops the server, for the
runner leaves ten seconds and kills what is left.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from iqaction import live_baseline, merging, session, surfaces
from iqaction.action import asking, holding, legs, logged, places, remembered, reports, shelf
from iqaction.action.job import Job
from iqaction.action.settings import CAPTURE, NONE, PUBLISH, REPORT, RUN, Settings
from iqaction.action.work import REPUBLISH, Decision, Measured
from iqaction.boot import stopping
from iqaction.errors import BootError, EvidenceError, IqError
from iqaction.outcome_view import page
from iqaction.report import Report
from iqaction.session import Outcome
from iqaction.surfaces._base import AppendSummary

_COLUMNS = 120


def run(job: Job) -> int:
    """Leave a judged folder, its summary in the run's page, and its text in the log."""
    settings, decision = job.settings(), job.work.decided()
    if job.work.ending() is not None:
        job.log.notice("nothing is measured: a step before this one did not end well")
        return 0
    if settings.mode == PUBLISH:
        made = legs.foreign(Path(settings.artifacts_path), decision.circumstances.run)
        if settings.suite:  # whose comment is replaced is not for a fork to say
            made = replace(made, suite=settings.suite)
        reports.write(job.work.evidence, made)
        _told(job, made)
        return 0
    try:
        outcome = _outcome(job, settings, decision)
    except KeyboardInterrupt:
        _rescue(job)
        raise
    job.work.keep(Measured(outcome.complete, outcome.problem))
    if settings.mode == CAPTURE:
        _kept(job, settings, decision, outcome)
    else:
        remembered.remember(job, decision, outcome)
    with job.log.quiet():
        job.log.text(page(outcome, _COLUMNS))
    _told(job, outcome.report)
    return 0


def _kept(job: Job, settings: Settings, decision: Decision, outcome: Outcome) -> None:
    """A baseline that is sound is uploaded, and kept on this runner; another is neither."""
    is_sound = outcome.complete and holding.is_captured(outcome.report)
    job.log.output("captured", str(is_sound).lower())
    if is_sound:
        shelf.keep(job, settings, decision.suite, decision.base, outcome.folder)


def _outcome(job: Job, settings: Settings, decision: Decision) -> Outcome:
    around = decision.circumstances
    if settings.mode == REPORT:
        return legs.judged(job, settings, decision)
    if settings.mode == CAPTURE:  # the step before has asked, or says why it could not
        if around.problem:
            raise EvidenceError(around.problem)
        return session.judge(job.work.evidence)
    if decision.action == REPUBLISH:
        return merging.merge([Path(decision.judged)], job.work.evidence, around)
    endpoint = job.work.endpoint()
    where = settings.endpoint or asking.UNKNOWN
    if (
        endpoint is None and settings.mode == RUN and settings.boot != NONE
    ):  # who answers there is not what was to be tested
        raise EvidenceError(
            "the step before this one started no endpoint", next_step="read its log"
        )
    if endpoint is not None:
        where = endpoint.endpoint or where
        around = replace(
            around,
            machine={**around.machine, **endpoint.machine},
            log_tail=endpoint.log_tail,
            problem=around.problem or endpoint.problem,
        )
    if decision.key:
        around = replace(around, machine={**around.machine, remembered.KEY: decision.key})
    with job.log.group("asking"), job.log.quiet():
        return live_baseline.run(
            asking.options(job, settings, decision, where, around), progress=logged.progress(job)
        )


def _told(job: Job, report: Report) -> None:
    job.log.output("report_sha256", reports.sha256(job.work.evidence))
    for effect in surfaces.load("summary")(report):
        if isinstance(effect, AppendSummary):
            job.log.summary(effect.markdown)


def _rescue(job: Job) -> None:
    """Seal what there is, and stop the server, in the few seconds that are left."""
    with contextlib.suppress(IqError, OSError):
        reports.conclude(job.work, "the run was cancelled while it measured")
    with contextlib.suppress(BootError, OSError):
        stopping.stop_work(places.leases(job.environ), job.work.path, places.world(job))
