"""The one sticky comment on a pull request: verdict first, short when all is well.

Knows the order of the comment's parts. Publishing adds the repository to the key and the run to
the last line.
"""

from __future__ import annotations

import hashlib
import re

from iqaction.calls import JSON
from iqaction.report import Report
from iqaction.surfaces import _budget, _sections
from iqaction.surfaces._base import Effect, UpsertComment, WriteFile
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import hex_or_nothing, hidden_json
from iqaction.verdict import Verdict

LIMITS = Limits(divergences=12, ties=2, text=72, prose=1000, names=8, checks=40, tables=12, rows=40)
_STAGE_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")
_RESERVE = 1024  # for the state line, and for the run that publishing adds to it


def render(report: Report) -> list[Effect]:
    """The comment as an effect, and the same text as ``comment.md``."""
    start, end = marker(report), state(report)

    def whole(limits: Limits, cut: str) -> str:
        return _sections.join(start, _body(report, limits, cut))

    text = _budget.fit(
        whole,
        LIMITS,
        _budget.utf16_units,
        _budget.COMMENT_UNITS - _RESERVE - len(end),
        _sections.closers,
    )
    body = f"{text}\n\n{end}\n"
    return [UpsertComment(start, body), WriteFile("comment.md", body)]


def marker(report: Report) -> str:
    """The comment's first line, by which the next run finds it again."""
    suite = report.suite.encode("utf-8", "surrogatepass")
    return f"<!-- inferquality:v1 key={hashlib.sha256(suite).hexdigest()[:16]} -->"


def state(report: Report) -> str:
    """The comment's last line: what a later run must know of this one, as JSON."""
    stages: dict[str, JSON] = {
        s.stage: s.verdict.value for s in report.stages[:20] if _STAGE_NAME.match(s.stage)
    }
    body: dict[str, JSON] = {
        "verdict": report.verdict.value,
        "stages": stages,
        "head_sha": hex_or_nothing(report.run.head_sha),
        "plan_sha256": hex_or_nothing(report.plan_sha256),
        "evidence_root": hex_or_nothing(report.evidence_root),
    }
    return f"<!-- {hidden_json(body)} -->"


def _body(report: Report, limits: Limits, cut: str) -> str:
    passed = report.verdict is Verdict.PASS
    fold = _sections.details(
        "Coverage, noise floor, caveats, evidence and how to check it",
        _sections.partings(report, limits, title=False) if passed else "",
        _sections.coverage(report, limits),
        _sections.measured(report, limits),
        _sections.tables(report, limits),
        _sections.caveats(report, limits),
        _sections.evidence(report, limits),
    )
    return _sections.join(
        _sections.heading(report, limits) + "\n" + _sections.compared(report, limits),
        _sections.problems(report, limits),
        _sections.checks(report, limits),
        _sections.reasons(report, limits),
        _sections.partings(report, limits, rows=not passed),
        _sections.faults(report, limits),
        "" if passed else _sections.meaning(report, limits),
        _sections.shortened(cut),
        fold,
    )
