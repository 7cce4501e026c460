"""Posts the result: the check run, then the comment. Holds the token.

What GitHub refuses or fails to do is a warning: verdict and evidence are there, and
``iqaction publish`` posts them later. A run that was cancelled before it had a result still says
so, or the check would stay "in progress".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iqaction import surfaces
from iqaction.action import holding, reports, targets, tokens
from iqaction.action.job import NOT_RUN, Job
from iqaction.action.settings import CAPTURE, PUBLISH, Settings
from iqaction.action.work import SKIP, Decision, Ending
from iqaction.errors import EvidenceError, IqError
from iqaction.github import publishing, pulls
from iqaction.github.publishing import Published
from iqaction.report import NO_RUN, Report
from iqaction.surfaces import _notes, check_run
from iqaction.surfaces._base import AppendSummary, Effect
from iqaction.verdict import Verdict


def run(job: Job) -> int:
    """Post, and say where; the step never fails for what GitHub does."""
    decision = _decision(job)
    settings = job.known_settings()
    if settings.is_leg:  # the job that judges the whole publishes
        job.log.output("published", "true")
        return 0
    try:
        done = _published(job, settings, decision)
    except IqError as exc:
        done = Published(published=False, warnings=(str(exc),))
    for warning in done.warnings:
        job.log.warning(warning, title="inferquality: publishing")
    job.log.output("comment_url", done.comment_url)
    job.log.output("check_url", done.check_url)
    job.log.output("published", str(done.published).lower())
    return 0


def _decision(job: Job) -> Decision | None:
    """What was decided. Where that cannot be told, the job ends red, and says so on its check."""
    try:
        return job.work.decision()
    except EvidenceError as exc:
        reports.leave(job, Ending(NOT_RUN, exc.happened))
        return None


def _published(job: Job, settings: Settings, decision: Decision | None) -> Published:
    if settings.mode == PUBLISH and job.work.ending() is not None:
        # A stranger's artifact that is no report says nothing, and replaces no comment.
        why = "nothing is posted: there is no report that could be"
        return Published(published=False, warnings=(why,))
    posting = _posting(job, settings, decision)
    # Of a fork's own result nothing but a comment: a check of ours would vouch for it.
    checked = settings.check_run and settings.mode != PUBLISH
    effects = targets.posted(posting.effects, comment=settings.comment, check=checked)
    if not effects:
        return Published()
    client, why = tokens.client(job)
    if client is None:
        return Published(published=False, warnings=(f"nothing is posted: {why}",))
    event = job.event()
    run = decision.circumstances.run if decision else NO_RUN
    run = run if run.repository else reports.run_of(event)
    numbers: tuple[int, ...] = (event.number,) if event.number else ()
    if event.finished is not None:
        numbers = pulls.find_pull_requests(
            client, event.repository, event.finished.head_sha, event.finished.head_repository
        )
    target = targets.of(
        posting.suite,
        run,
        numbers=numbers,
        gate=posting.gate,
        warn=posting.warn,
        check=decision.check if decision else 0,
    )
    return publishing.publish(effects, target, client)


@dataclass(frozen=True)
class _Posting:
    """What is to be posted, and what the job is held to."""

    suite: str
    gate: Verdict
    effects: Sequence[Effect]
    warn: bool = False


def _posting(job: Job, settings: Settings, decision: Decision | None) -> _Posting:
    ending = job.work.ending()
    if decision is not None and decision.action == SKIP and ending is None:
        run = decision.circumstances.run
        effects = _notes.not_needed(decision.suite, run.repository, decision.reason, run)
        for effect in effects:
            if isinstance(effect, AppendSummary):
                job.log.summary(effect.markdown)
        return _Posting(decision.suite, Verdict.PASS, effects)
    if ending is None and not reports.is_there(job.work):
        said = "the run was cancelled, or a step before this one did not end"
        reports.leave(job, ending := Ending(NOT_RUN, said))
    elif ending is not None:  # whoever was stopped had no time to make one
        reports.conclude(job.work, ending.reason)
    report = holding.ended(_linked(job, _report(job)), ending)
    warn = holding.warns(job, settings, report, ending)
    effects = surfaces.render_all(report)
    if warn and settings.mode == CAPTURE:
        effects = check_run.captured(report, effects)
    return _Posting(report.suite, report.gate, effects, warn)


def _report(job: Job) -> Report:
    try:
        return reports.stored(job.work.evidence, job.environ.get(reports.VARIABLE, ""))
    except EvidenceError as exc:  # the gate will be red for the same reason
        reports.leave(job, Ending(NOT_RUN, str(exc)))
        return reports.report(_decision(job), str(exc))


def _linked(job: Job, report: Report) -> Report:
    """The report with the link to its evidence, which was uploaded a moment ago."""
    return replace(
        report, run=replace(report.run, artifact_url=job.environ.get("IQ_ARTIFACT_URL", ""))
    )
