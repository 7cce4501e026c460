"""What earlier runs of this suite on the base branch gave, beside this one. Plain text, no markup.

Knows the report's past runs; no verdict depends on them. A leg of a matrix has none: the runs are
told by stage and check alone, and would be taken for another leg's.
"""

from __future__ import annotations

from dataclasses import dataclass

from iqaction.report import Check, Past, Report
from iqaction.surfaces import _facts, _figures, _origin, _standing
from iqaction.surfaces._escape import hex_or_nothing
from iqaction.verdict import Verdict

MOST_RUNS = 8  # shown; of more, the last
IN_A_ROW = 5  # figures of one check on one line
ROWS = 4  # checks on that line
HERE = "here"


@dataclass(frozen=True)
class Course:
    """One check's figure (how much worse than the baseline) over the runs, the oldest first."""

    title: str
    unit: str
    past: tuple[float | None, ...]
    now: float | None
    limit: float | None
    verdict: Verdict

    @property
    def change(self) -> float:
        """Since the last run that has the figure, in margins; without a margin, in itself."""
        last = next((x for x in reversed(self.past) if x is not None), None)
        if last is None or self.now is None:
            return 0.0
        scale = self.limit or max(abs(last), abs(self.now))
        return abs(self.now - last) / scale if scale > 0 else 0.0


def runs(report: Report) -> tuple[Past, ...]:
    """The last runs, the oldest first."""
    return report.history[-MOST_RUNS:]


def name(past: Past, report: Report) -> str:
    """A run in a few words: day and commit, as far as either is known."""
    day = _origin.day(past.started_at, report.run.started_at)
    sha = hex_or_nothing(past.head_sha)[:7]
    return ", ".join(x for x in (day, f"`{sha}`" if sha else "") if x)


def standing(report: Report) -> str:
    """The verdict before and after, as "base branch: PASS (26 Nov, `4f1c2aa`) → this change:
    FAIL"; "" where no earlier run is known."""
    if not report.history:
        return ""
    last = report.history[-1]
    known = name(last, report)
    when = f" ({known})" if known else ""
    here = "this run" if report.run.event in ("push", "schedule") else "this change"
    return f"base branch: {last.verdict.value}{when} → {here}: {_standing.word(report)}"


def courses(report: Report) -> list[Course]:
    """The judged figures that an earlier run has too, in the plan's order."""
    if _facts.has_legs(report):
        return []
    found = []
    for line in _facts.lines(report):
        if line.check is not None and line.estimate is not None:
            course = _course(report, line.stage.stage, line.title, line.check)
            if any(x is not None for x in course.past) and _figures.known(course.now):
                found.append(course)
    return found


def _course(report: Report, stage: str, title: str, check: Check) -> Course:
    key = f"{stage}:{check.metric}"
    figures = [p.figures.get(key) for p in runs(report)]
    estimate = check.estimate
    return Course(
        title,
        estimate.unit if estimate else "",
        tuple(x if _figures.known(x) else None for x in figures),
        estimate.value if estimate else None,
        check.limit if _figures.known(check.limit) else None,
        check.verdict,
    )


def row(report: Report) -> list[tuple[str, str]]:
    """Title and figures of the checks that changed most since the last run: the last five on the
    base branch, then this one's, as "0.0008 0.0009 → 0.0029"."""
    largest = sorted(courses(report), key=lambda c: -c.change)[:ROWS]
    return [(c.title, figures(c)) for c in largest]


def figures(course: Course) -> str:
    """The course in one line."""
    before = [_figures.value(x, course.unit) for x in course.past[-IN_A_ROW:]]
    return f"{' '.join(before)} → {_figures.value(course.now, course.unit)}"
