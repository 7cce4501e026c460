"""What a job is held to, said once: the check that is published and the exit status agree.

Pure but for reading what the steps before have kept. Knows no GitHub.
"""

from __future__ import annotations

from dataclasses import replace

from iqaction.action.job import Job
from iqaction.action.settings import CAPTURE, REPORT, Settings
from iqaction.action.work import Ending
from iqaction.report import Report
from iqaction.verdict import Verdict


def ended(report: Report, ending: Ending | None) -> Report:
    """The report of a job in which a step ended badly: never green, and it says why."""
    if ending is None or not ending.exit_code:
        return report
    is_pass = report.verdict is Verdict.PASS
    said = first_line(ending.reason)
    is_known = any(said in problem for problem in report.problems)
    return replace(
        report,
        verdict=Verdict.NOT_RUN if is_pass else report.verdict,
        gate=Verdict.NOT_RUN if report.gate is Verdict.PASS else report.gate,
        headline=f"the job did not end as it should: {said}" if is_pass else report.headline,
        problems=report.problems if is_known else (*report.problems, ending.reason),
    )


def warns(job: Job, settings: Settings, report: Report, ending: Ending | None) -> bool:
    """True where an UNPROVEN is let through, as the user asked.

    Not what was not measured: a step that ended badly, a leg of a matrix that is missing, a stage
    that did not run, prompts without an answer. A captured reference is all that was asked for.
    """
    if settings.mode == CAPTURE:
        measured = job.work.measured()
        is_done = ending is None and measured is not None and measured.complete
        return is_done and is_captured(report)
    if not settings.warn_unproven or ending is not None or not _is_whole(report):
        return False
    return settings.mode != REPORT or not lacking(job)


def is_captured(report: Report) -> bool:
    """True for a reference that is whole and agrees with itself. Its verdict is UNPROVEN: there
    is nothing to compare yet."""
    is_missing = any(s.coverage.missing for s in report.stages if s.required)
    is_open = report.verdict is report.gate is Verdict.UNPROVEN and not report.baseline_root
    return is_open and bool(report.stages) and not report.problems and not is_missing


def _is_whole(report: Report) -> bool:
    required = [s for s in report.stages if s.required]
    return bool(required) and all(
        s.verdict is not Verdict.NOT_RUN and not s.coverage.missing and not s.coverage.failed
        for s in required
    )


def lacking(job: Job) -> str:
    """Of the legs of a matrix, what is not there; "" where nothing is."""
    measured = job.work.measured()
    if measured is None:
        return "the legs were not judged to the end"
    return "" if measured.complete else measured.problem or "not every leg was measured"


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason is known")
