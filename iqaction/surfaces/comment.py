"""The one sticky comment on a pull request: verdict first, short when all is well.

Knows the order of the comment's parts. Each suite of a repository has its own comment.
"""

from __future__ import annotations

import re

from iqaction.json_value import JSON
from iqaction.report import Report
from iqaction.surfaces import (
    _around,
    _budget,
    _markdown,
    _sections,
    _since,
    _standing,
    _state,
)
from iqaction.surfaces._base import Effect, UpsertComment, WriteFile
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import hex_or_nothing
from iqaction.verdict import Verdict, combine

LIMITS = Limits(
    divergences=12,
    ties=2,
    text=72,
    prose=1000,
    names=8,
    checks=40,
    tables=12,
    rows=40,
    block=5000,
)
_STAGE_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")
_LEG_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ /-]{0,60}\Z")
_MOST_STAGES, _MOST_LEGS = 20, 50  # in the state line
_RESERVE = 1024  # characters that publishing may add


def render(report: Report) -> list[Effect]:
    """The comment as an effect, and the same text as ``comment.md``."""
    start, end = marker(report), state(report)

    def whole(limits: Limits, cut: str) -> str:
        return _markdown.join(start, _body(report, limits, cut))

    text = _budget.fit(
        whole,
        LIMITS,
        _budget.utf16_units,
        _budget.COMMENT_UNITS - _RESERVE - len(end),
        _markdown.closers,
    )
    body = f"{text}\n\n{end}\n"
    return [UpsertComment(start, body), WriteFile("comment.md", body)]


def marker(report: Report) -> str:
    """The comment's first line, by which the next run finds it again."""
    return _state.marker(report.run.repository, report.suite)


def state(report: Report) -> str:
    """The comment's last line: what a later run must know of this one, as JSON."""
    more: dict[str, JSON] = {
        "gate": report.gate.value,
        "stages": _verdicts(report, by_leg=False),
        "legs": _verdicts(report, by_leg=True),
        "plan_sha256": hex_or_nothing(report.plan_sha256),
        "evidence_root": hex_or_nothing(report.evidence_root),
    }
    return _state.state_line(report.run, _standing.verdict(report).value, more)


def _verdicts(report: Report, *, by_leg: bool) -> dict[str, JSON]:
    """By stage, or by leg of a matrix; names that could be anything else are left out."""
    found: dict[str, list[Verdict]] = {}
    form, most = (_LEG_NAME, _MOST_LEGS) if by_leg else (_STAGE_NAME, _MOST_STAGES)
    for stage in report.stages:
        name = stage.leg if by_leg else stage.stage
        if form.match(name) and (not by_leg or stage.required):
            found.setdefault(name, []).append(stage.verdict)
    return {name: combine(each).value for name, each in list(found.items())[:most]}


def _body(report: Report, limits: Limits, cut: str) -> str:
    passed = _standing.verdict(report) is Verdict.PASS
    fold = _markdown.details(
        "Coverage, noise floor, caveats, evidence and how to check it",
        _sections.partings(report, limits, title=False) if passed else "",
        _since.movers(report, limits) if passed else "",
        _sections.coverage(report, limits),
        _sections.measured(report, limits),
        _sections.tables(report, limits),
        _sections.caveats(report, limits),
        _around.offer(report, limits),
        _around.evidence(report, limits),
    )
    return _markdown.join(
        _around.top(report, limits),
        _around.problems(report, limits),
        _around.differences(report, limits),
        _sections.checks(report, limits),
        _since.course(report, limits),
        _sections.reasons(report, limits),
        _sections.partings(report, limits, rows=not passed),
        "" if passed else _since.movers(report, limits),
        _sections.faults(report, limits),
        "" if passed else _sections.meaning(report, limits),
        _markdown.shortened(cut),
        fold,
    )
