"""The last step: the job's exit status, from the report and from nothing else.

A required check is the job itself, so this is where a merge is let through or not. A report that
is missing or is none is red; what a step noted about its own end can only make it redder.
"""

from __future__ import annotations

from iqaction.action import holding, reports
from iqaction.action.job import CONFIGURATION, INTERNAL, NOT_RUN, Job
from iqaction.action.settings import CAPTURE, REPORT, Settings
from iqaction.action.work import SKIP, Ending
from iqaction.errors import ConfigError, IqError
from iqaction.evidence import report_json
from iqaction.report import Report
from iqaction.surfaces._standing import ACCEPTED
from iqaction.surfaces._state import NOT_NEEDED
from iqaction.surfaces.check_run import CAPTURED
from iqaction.verdict import EXIT_CODE, Verdict

PARTIAL = "PARTIAL"


def run(job: Job) -> int:
    """Say the verdict, give the outputs, and return the status that the job ends with."""
    try:
        verdict, status, why = decide(job)
    except IqError as exc:  # what the steps before have kept is damaged
        status = CONFIGURATION if isinstance(exc, ConfigError) else NOT_RUN
        verdict, why = Verdict.NOT_RUN.value, exc.happened
    where = job.work.evidence
    job.log.output("verdict", verdict)
    for name, file in (("report", report_json.NAME), ("html", "report.html"), ("evidence", "")):
        path = where / file if file else where
        job.log.output(name, str(path) if path.exists() else "")
    job.log.output("baseline", str(where) if verdict == CAPTURED else "")
    said = f"{verdict}: {why}" if why else verdict
    if status:
        job.log.error(said, title="inferquality")
    else:
        job.log.notice(said, title="inferquality")
    return status


def decide(job: Job) -> tuple[str, int, str]:
    """The verdict's word, the exit status, and one sentence."""
    ending = job.work.ending()
    decision = job.work.decision()
    if decision is not None and decision.action == SKIP and ending is None:
        return NOT_NEEDED, 0, decision.reason
    try:
        report = reports.stored(job.work.evidence, job.environ.get(reports.VARIABLE, ""))
    except IqError as exc:
        report = None
        why = exc.happened
    if ending is not None and ending.exit_code:
        return _ended(ending, report)
    if report is None:
        return Verdict.NOT_RUN.value, NOT_RUN, why
    return held_to(job, report)


def held_to(job: Job, report: Report) -> tuple[str, int, str]:
    """What a report that was written means for the job."""
    settings = job.settings()
    if settings.is_leg:
        return _of_shard(job, settings, report)
    if report.gate is Verdict.PASS and report.verdict is Verdict.NOT_RUN:
        return Verdict.NOT_RUN.value, NOT_RUN, "the report contradicts itself"
    if settings.mode == REPORT and report.gate is Verdict.PASS and holding.lacking(job):
        return Verdict.NOT_RUN.value, NOT_RUN, holding.lacking(job)
    if settings.mode == CAPTURE and holding.warns(job, settings, report, None):
        return CAPTURED, 0, report.headline
    if settings.mode == CAPTURE and report.gate is Verdict.PASS:
        return Verdict.NOT_RUN.value, NOT_RUN, "the report is of no capture"
    status = EXIT_CODE[report.gate]
    if report.gate is Verdict.PASS and report.verdict is not Verdict.PASS:
        return ACCEPTED, status, report.headline
    said = report.gate if report.verdict is Verdict.PASS else report.verdict
    if report.gate is Verdict.UNPROVEN and holding.warns(job, settings, report, None):
        return said.value, 0, f"{report.headline} (on_unproven: warn)"
    return said.value, status, report.headline


def _of_shard(job: Job, settings: Settings, report: Report) -> tuple[str, int, str]:
    shard = f"shard {settings.shard}/{settings.shards}"
    measured = job.work.measured()
    if measured is not None and measured.complete and report.verdict is not Verdict.NOT_RUN:
        return PARTIAL, 0, f"{shard} is measured; not judged here"
    why = measured.problem if measured and measured.problem else report.headline
    return Verdict.NOT_RUN.value, NOT_RUN, f"{shard}: {why}"


def _ended(ending: Ending, report: Report | None) -> tuple[str, int, str]:
    """A step that did not end well: its status, whatever a report says beside it."""
    verdict = Verdict.NOT_RUN if report is None else report.verdict
    said = Verdict.NOT_RUN if verdict is Verdict.PASS else verdict
    # Beyond 255 a shell would see another number, which might be 0.
    status = ending.exit_code if 0 < ending.exit_code < 256 else INTERNAL
    return said.value, status, holding.first_line(ending.reason)
