"""Decides what this run does, before anything of the pull request is run. Holds the token.

What changed, what the judge's own files are, whether the same was measured before. Nothing that
GitHub fails to tell makes anything green: what cannot be known is taken for changed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from iqaction.action import again, baselines, deciding, history, reports, targets, tokens
from iqaction.action.baselines import UNPROVEN, Search
from iqaction.action.choosing import EVENTS
from iqaction.action.job import CONFIGURATION, NOT_RUN, Job
from iqaction.action.settings import CAPTURE, NONE, PUBLISH, REPORT, RUN, Settings
from iqaction.action.work import BASELINE, MEASURE, REFUSE, REPUBLISH, SKIP, Decision, Ending
from iqaction.circumstances import Circumstances
from iqaction.counts import counted
from iqaction.errors import ConfigError, EvidenceError, GithubError
from iqaction.github import checks
from iqaction.github.client import Client
from iqaction.github.event import Event
from iqaction.report import NO_RUN, Run
from iqaction.verdict import Verdict


def run(job: Job) -> int:
    """Decide, and give the later steps their conditions."""
    client, why = tokens.client(job)
    try:
        settings = job.settings()
        decision = _decided(job, settings, client)
    except ConfigError as exc:
        settings = None
        around = Circumstances(_known(job))
        suite = _suite(job)
        decision = Decision(REFUSE, str(exc), CONFIGURATION, suite=suite, circumstances=around)
    if why:
        job.log.warning(f"GitHub is not asked: {why}", title="inferquality")
    job.work.keep(decision)
    if decision.action == REFUSE:
        job.log.error(decision.reason, title="inferquality")
        if decision.exit_code == UNPROVEN:  # a verdict, and no step that ended badly
            made = reports.report(decision, decision.reason, Verdict.UNPROVEN)
            reports.write(job.work.evidence, made)
        else:
            reports.leave(job, Ending(decision.exit_code, decision.reason))
    else:
        job.log.notice(_told(decision), title="inferquality")
    _outputs(job, settings, decision)
    return 0


def _told(decision: Decision) -> str:
    if decision.action == SKIP:
        return f"NOT NEEDED: {decision.reason}"
    if decision.action == REPUBLISH:
        return f"nothing is measured: {decision.reason}"
    return decision.reason or "measuring"


def _decided(job: Job, settings: Settings, client: Client | None) -> Decision:
    event = job.event()
    around = Circumstances(
        reports.run_of(event, job.now()), shard=settings.shard, shards=settings.shards
    )
    suite = deciding.suite(settings, _in(job, settings.plan))
    refused = deciding.refused(settings, event)
    if refused:
        return Decision(REFUSE, refused, NOT_RUN, suite=suite, circumstances=around)
    if settings.mode == PUBLISH:
        said = "publishing what another run measured"
        return Decision(MEASURE, said, suite=suite, circumstances=around)
    found = deciding.changes(client, event)
    if not found.known and settings.paths:
        job.log.notice(
            f"the changed files are not known, so everything is measured: {found.reason}"
        )
    skipped = deciding.nothing_relevant(settings, event, found, job.workspace())
    if skipped:
        return Decision(SKIP, skipped, suite=suite, circumstances=around)
    files = deciding.judge_files(job, settings, event, client, found)
    for note in files.notes:
        job.log.notice(note)
    around = replace(
        around,
        differences=files.differences,
        acceptances=files.acceptances,
        changed_lines=deciding.changed_lines(settings, event, found, job.workspace()),
    )
    decision = Decision(
        MEASURE,
        plan=str(files.plan or ""),
        suite=deciding.suite(settings, files.plan),
        circumstances=around,
    )
    if settings.mode == CAPTURE:
        decision = _capture(job, settings, event, decision)
    if settings.mode == RUN:
        search = Search(job, settings, event, client, files, deciding.paths(found))
        decision = _compared(search, decision)
    is_asking = settings.mode in (RUN, REPORT) and decision.action != REFUSE
    # A pinned baseline tells nothing of where the base branch stands by now: earlier runs do.
    is_told = files.is_anchored or not files.named
    if is_asking and is_told and not settings.is_leg:
        earlier = history.past(job, settings, event, client, decision)
        decision = replace(decision, circumstances=replace(decision.circumstances, history=earlier))
    return replace(decision, check=_begun(job, settings, client, decision))


def _compared(search: Search, decision: Decision) -> Decision:
    """The decision with what this run is compared with, and with the same run of before."""
    try:
        decision = baselines.resolved(search, decision)
    except EvidenceError as exc:
        return replace(decision, action=REFUSE, reason=str(exc), exit_code=NOT_RUN)
    if decision.action != MEASURE:
        return decision
    return again.found(search.job, search.settings, search.event, search.client, decision)


def _capture(job: Job, settings: Settings, event: Event, decision: Decision) -> Decision:
    """The checkout itself is the reference, at the commit that is really there."""
    if event.name not in EVENTS:
        job.log.notice(
            f"`baseline: auto` takes what {' and '.join(EVENTS)} runs capture: what this run, on "
            f"{event.name}, captures is found on this runner alone"
        )
    around = decision.circumstances
    sha = again.checked_out(job) or around.run.tested_sha
    launches = counted(settings.launches, "relaunch")
    said = f"a baseline of {sha[:12]} is captured, with {launches}"
    around = replace(around, run=replace(around.run, tested_sha=sha))
    return replace(decision, base=sha, reason=said, circumstances=around)


def _in(job: Job, plan: str) -> Path | None:
    return job.workspace() / plan if plan else None


def _known(job: Job) -> Run:
    """The run as far as it is known, where there was a mistake."""
    try:
        return reports.run_of(job.event(), job.now())
    except ConfigError:
        return NO_RUN


def _suite(job: Job) -> str:
    """Whose result a mistake is, as far as that can be told."""
    settings = job.known_settings()
    with suppress(ConfigError):
        return deciding.suite(settings, _in(job, settings.plan))
    return "default"


def _begun(job: Job, settings: Settings, client: Client | None, decision: Decision) -> int:
    """The check run in progress; a reader sees that something is on its way."""
    if client is None or not settings.check_run or settings.is_leg:
        return 0
    try:
        run = decision.circumstances.run
        return checks.begin(client, targets.of(decision.suite, run)).check_id
    except GithubError as exc:
        job.log.notice(f"no check run in progress: {exc.happened}")
        return 0


def _outputs(job: Job, settings: Settings | None, decision: Decision) -> None:
    is_measured = decision.action == MEASURE
    is_observed = decision.action in (MEASURE, REPUBLISH)
    boots = settings is not None and settings.mode == RUN and settings.boot != NONE
    is_capture = settings is not None and settings.mode == CAPTURE
    starts = settings is not None and settings.boot != NONE and (boots or is_capture)
    uploads = settings is None or (
        settings.artifact and settings.mode != PUBLISH and decision.action != SKIP
    )
    job.log.output("reference", str(is_measured and bool(decision.base)).lower())
    job.log.output("boot", str(is_measured and boots).lower())
    job.log.output("stop", str(is_measured and starts).lower())
    job.log.output("observe", str(is_observed).lower())
    job.log.output("artifact", str(uploads).lower())
    job.log.output("artifact_name", again.artifact_name(settings, decision))
    job.log.output("baseline_name", f"{BASELINE}{decision.suite}" if is_capture else "")
