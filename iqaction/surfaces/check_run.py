"""The check run on the commit: green only for PASS.

Knows how a verdict becomes a conclusion. "neutral" and "skipped" pass a required check, so
UNPROVEN and NOT RUN are failures; whoever wants them otherwise says so when publishing.
"""

from __future__ import annotations

from collections.abc import Callable

from iqaction.report import Report
from iqaction.surfaces import _budget, _facts, _sections
from iqaction.surfaces._base import Effect, PutCheckRun
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import hex_or_nothing, line
from iqaction.verdict import Verdict

LIMITS = Limits(
    divergences=30, ties=5, text=100, prose=1500, names=20, checks=60, tables=20, rows=60
)
_TITLE = 250  # characters


def render(report: Report) -> list[Effect]:
    """One check run, ``inferquality / <suite>``; "success" for PASS and for nothing else."""
    return [
        PutCheckRun(
            name=f"inferquality / {line(report.suite, _facts.NAME)}",
            head_sha=hex_or_nothing(report.run.head_sha),
            conclusion="success" if report.verdict is Verdict.PASS else "failure",
            title=line(f"{report.verdict.value}: {report.headline}", _TITLE),
            summary=_fit(report, _summary),
            text=_fit(report, _text),
        )
    ]


def _fit(report: Report, part: Callable[[Report, Limits], str]) -> str:
    def whole(limits: Limits, cut: str) -> str:
        return _sections.join(part(report, limits), _sections.shortened(cut))

    return _budget.fit(whole, LIMITS, _budget.utf8_bytes, _budget.CHECK_BYTES, _sections.closers)


def _summary(report: Report, limits: Limits) -> str:
    return _sections.join(
        _sections.compared(report, limits),
        _sections.problems(report, limits),
        _sections.checks(report, limits),
        _sections.reasons(report, limits),
        _sections.meaning(report, limits),
    )


def _text(report: Report, limits: Limits) -> str:
    return _sections.join(
        _sections.partings(report, limits),
        _sections.faults(report, limits),
        _sections.coverage(report, limits),
        _sections.measured(report, limits),
        _sections.tables(report, limits),
        _sections.caveats(report, limits),
        _sections.evidence(report, limits),
    )
