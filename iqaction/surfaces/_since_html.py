"""What this change did against before, for the HTML page: the verdict before and after, every
figure's course over the last runs of the base branch, and the prompts that changed most.
"""

from __future__ import annotations

from iqaction.report import Mover, Report, StageResult
from iqaction.surfaces import _facts, _figures, _history, _movers, _page, _standing, _svg
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import head, html, prose_html, tail


def standing(report: Report, limits: Limits) -> str:
    """One line: the base branch's last verdict and this one."""
    said = _history.standing(report)
    return f"<p>{prose_html(said, limits.prose)}</p>\n" if said else ""


def history(report: Report, limits: Limits) -> str:
    """A small plot for each judged figure, and the same figures as a table."""
    found = _history.courses(report)[: limits.tables]
    if not found:
        return ""
    plots = "".join(
        f"<figure><figcaption>{prose_html(c.title, _facts.NAME)}</figcaption>"
        f"{_svg.sparkline(_points(c), c.limit, f'past{i}', c.title)}</figure>"
        for i, c in enumerate(found)
    )
    return (
        '<p class="quiet">How much worse than its baseline each run was: the last runs of this '
        "suite on the base branch, the oldest first, then this one. The dashed line is the "
        f'margin.</p><div class="plots">{plots}</div>{_table(report, found)}'
    )


def _points(course: _history.Course) -> tuple[float | None, ...]:
    return (*course.past, course.now)


def _table(report: Report, found: list[_history.Course]) -> str:
    runs = _history.runs(report)
    names = [prose_html(_history.name(p, report) or "an earlier run", 100) for p in runs]
    verdicts = [p.verdict.value for p in runs]
    rows = [["verdict", *verdicts, _standing.word(report)]]
    rows += [
        [
            prose_html(c.title, _facts.NAME),
            *(html(_figures.value(x, c.unit)) for x in _points(c)),
        ]
        for c in found
    ]
    columns = ("figure", *names, _history.HERE)
    return _page.table("The same as figures", columns, "l" + "r" * (len(runs) + 1), rows)


def movers(report: Report, limits: Limits) -> str:
    """The prompts that changed most, with what each arm has where it changed most."""
    shown = _movers.chosen(report, limits.movers)
    if not shown:
        return ""
    rows = [_row(report, stage, mover, limits) for stage, mover in shown]
    columns = ("prompt", "bucket", "what changed", "token", "baseline", "candidate")
    more = _movers.total(report) - len(shown)
    return _page.table(_movers.TITLE, columns, "lllrll", rows) + (
        f'<p class="quiet">{more:,} more: report.json.</p>' if more > 0 else ""
    )


def _row(report: Report, stage: StageResult, mover: Mover, limits: Limits) -> list[str]:
    where = _movers.where(report, stage)
    what = f"{where}: {_movers.said(mover)}" if where else _movers.said(mover)
    return [
        f"<code>{html(head(mover.unit, _facts.NAME))}</code>",
        html(head(mover.bucket, _facts.NAME)),
        prose_html(what, _facts.NAME),
        _movers.place(mover),
        _text(mover, mover.baseline, limits),
        _text(mover, mover.candidate, limits),
    ]


def _text(mover: Mover, own: str, limits: Limits) -> str:
    most = min(limits.text, 160)
    shared = html(tail(mover.before, most // 2))
    return f'<code><span class="shared">{shared}</span><mark>{html(head(own, most))}</mark></code>'
