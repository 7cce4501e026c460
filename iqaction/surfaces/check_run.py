"""The check run on the commit: green only for PASS, and for what a maintainer accepted.

Knows how a verdict becomes a conclusion. "neutral" and "skipped" pass a required check, so
UNPROVEN and NOT RUN are failures; whoever wants them otherwise says so when publishing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from iqaction.report import Report
from iqaction.surfaces import (
    _around,
    _budget,
    _facts,
    _markdown,
    _sections,
    _since,
    _standing,
)
from iqaction.surfaces._base import Effect, PutCheckRun
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import hex_or_nothing, line
from iqaction.verdict import Verdict

LIMITS = Limits(
    divergences=30,
    ties=5,
    text=100,
    prose=1500,
    names=20,
    checks=60,
    tables=20,
    rows=60,
    block=8000,
    movers=10,
)
TITLE = 250  # characters
CAPTURED = "CAPTURED"


def render(report: Report) -> list[Effect]:
    """One check run, ``inferquality / <suite>``; "success" where the job is green."""
    return [
        PutCheckRun(
            name=name(report.suite),
            head_sha=hex_or_nothing(report.run.head_sha),
            conclusion="success" if _standing.passes(report) else "failure",
            title=line(f"{_title_word(report)}: {report.headline}", TITLE),
            summary=_fit(report, _summary),
            text=_fit(report, _text),
        )
    ]


def captured(report: Report, effects: Iterable[Effect]) -> list[Effect]:
    """The effects where a sound reference was all that was asked for: the title says so in place
    of the verdict, for UNPROVEN reads as if something were wrong. No other report is called so.
    """
    if report.verdict is not Verdict.UNPROVEN or report.baseline_root:
        return list(effects)
    title = line(f"{CAPTURED}: {report.headline}", TITLE)
    return [replace(e, title=title) if isinstance(e, PutCheckRun) else e for e in effects]


def name(suite: str) -> str:
    """The check's name: one for each suite, and never the name of a job."""
    return f"inferquality / {line(suite, _facts.NAME)}"


def _title_word(report: Report) -> str:
    word = _standing.verdict(report).value
    return f"{word}, accepted" if _standing.is_accepted(report) else word


def _fit(report: Report, part: Callable[[Report, Limits], str]) -> str:
    def whole(limits: Limits, cut: str) -> str:
        return _markdown.join(part(report, limits), _markdown.shortened(cut))

    return _budget.fit(whole, LIMITS, _budget.utf8_bytes, _budget.CHECK_BYTES, _markdown.closers)


def _summary(report: Report, limits: Limits) -> str:
    return _markdown.join(
        _since.standing(report, limits),
        _around.compared(report, limits),
        _around.run(report, limits),
        _around.problems(report, limits),
        _around.differences(report, limits),
        _sections.checks(report, limits),
        _since.course(report, limits),
        _sections.reasons(report, limits),
        _sections.meaning(report, limits),
    )


def _text(report: Report, limits: Limits) -> str:
    return _markdown.join(
        _sections.partings(report, limits),
        _since.movers(report, limits),
        _sections.faults(report, limits),
        _sections.coverage(report, limits),
        _sections.measured(report, limits),
        _sections.tables(report, limits),
        _sections.caveats(report, limits),
        _around.offer(report, limits),
        _around.evidence(report, limits),
    )
