"""The job's step summary: the comment's text with more of everything, and nothing folded away
that a reader of the run would look for."""

from __future__ import annotations

from iqaction.report import Report
from iqaction.surfaces import _around, _budget, _markdown, _sections, _since
from iqaction.surfaces._base import AppendSummary, Effect, WriteFile
from iqaction.surfaces._budget import Limits

LIMITS = Limits(
    divergences=100,
    ties=20,
    text=160,
    prose=2000,
    names=40,
    checks=200,
    tables=40,
    rows=200,
    block=20_000,
    movers=20,
)


def render(report: Report) -> list[Effect]:
    """The summary as an effect, and the same text as ``summary.md``."""

    def whole(limits: Limits, cut: str) -> str:
        return _body(report, limits, cut)

    text = _budget.fit(
        whole, LIMITS, _budget.utf8_bytes, _budget.SUMMARY_BYTES - 1024, _markdown.closers
    )
    body = text + "\n"
    return [AppendSummary(body), WriteFile("summary.md", body)]


def _body(report: Report, limits: Limits, cut: str) -> str:
    return _markdown.join(
        _around.top(report, limits),
        _around.problems(report, limits),
        _around.differences(report, limits),
        _sections.checks(report, limits),
        _since.course(report, limits),
        _sections.reasons(report, limits),
        _sections.partings(report, limits),
        _since.movers(report, limits),
        _sections.faults(report, limits),
        _sections.meaning(report, limits),
        _markdown.shortened(cut),
        _sections.coverage(report, limits),
        _sections.caveats(report, limits),
        _markdown.details(
            "All figures: also measured, noise floor, by position and by bucket",
            _sections.measured(report, limits),
            _sections.tables(report, limits),
        ),
        _around.offer(report, limits),
        _around.evidence(report, limits),
    )
