"""How a report stands: its verdict, and whether the job is held to it. Pure; no markup.

A maintainer may accept single checks. The verdict then stays what it is and stands beside the
word "accepted": green for the job, and never the word PASS.
"""

from __future__ import annotations

from iqaction.report import Report
from iqaction.verdict import Verdict, cap

ACCEPTED = "ACCEPTED"


def passes(report: Report) -> bool:
    """True where the job is green: all is well, or what is not is accepted, all of it.

    A gate that is PASS without either cannot come from us, and is not believed.
    """
    if report.gate is not Verdict.PASS:
        return False
    return report.verdict is Verdict.PASS or is_accepted(report)


def is_accepted(report: Report) -> bool:
    """True where the verdict is no PASS, and the job is green because of what was accepted."""
    return (
        report.gate is Verdict.PASS
        and report.verdict in (Verdict.FAIL, Verdict.UNPROVEN)
        and (
            any(c.accepted for s in report.stages for c in s.checks)
            or any(d.accepted for d in report.differences)
        )
    )


def verdict(report: Report) -> Verdict:
    """The verdict that is shown: never PASS beside a job that is red."""
    return report.verdict if passes(report) else cap(report.verdict, Verdict.UNPROVEN)


def word(report: Report, joint: str = ", ") -> str:
    """The verdict as headings say it: "FAIL", or "FAIL, ACCEPTED"."""
    accepted = f"{joint}{ACCEPTED}" if is_accepted(report) else ""
    return f"{verdict(report).value}{accepted}"


def output(report: Report) -> str:
    """The verdict as later steps read it: one of the four words, or "ACCEPTED"."""
    return ACCEPTED if is_accepted(report) else verdict(report).value
