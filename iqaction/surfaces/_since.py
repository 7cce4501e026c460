"""What this change did against before, in Markdown: the verdict before and after, the last
figures of the base branch, and the prompts that changed most. Each is a block or "".
"""

from __future__ import annotations

from iqaction.report import Mover, Report, StageResult
from iqaction.surfaces import _facts, _history, _movers
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import code, figure, head, tail
from iqaction.surfaces._markdown import WHOLE, join, sentence, table


def standing(report: Report, limits: Limits) -> str:
    """One line: the base branch's last verdict and this one."""
    return sentence(_history.standing(report), limits)


def course(report: Report, limits: Limits) -> str:
    """One row of figures: how much worse than the baseline, on the base branch and here."""
    found = _history.row(report)
    shown = [
        f"{sentence(title, limits, most=_facts.NAME)} {figure(figures)}" for title, figures in found
    ]
    return f"**Worse by, on the base branch → here:** {' · '.join(shown)}" if shown else ""


def movers(report: Report, limits: Limits) -> str:
    """The prompts that changed most, with what each arm has where it changed most."""
    shown = _movers.chosen(report, limits.movers)
    if not shown:
        return ""
    rows = [_row(report, stage, mover, limits) for stage, mover in shown]
    columns = ("prompt", "what changed", "token", "baseline", "candidate")
    more = _movers.total(report) - len(shown)
    return join(
        f"**{_movers.TITLE}**",
        table(columns, "llrll", rows),
        f"{more:,} more: {WHOLE}." if more > 0 else "",
    )


def _row(report: Report, stage: StageResult, mover: Mover, limits: Limits) -> list[str]:
    where = _movers.where(report, stage)
    what = f"{where}: {_movers.said(mover)}" if where else _movers.said(mover)
    return [
        code(head(mover.unit, _facts.NAME), cell=True),
        sentence(what, limits, most=_facts.NAME, cell=True),
        _movers.place(mover),
        code(_text(mover, mover.baseline, limits.text), cell=True),
        code(_text(mover, mover.candidate, limits.text), cell=True),
    ]


def _text(mover: Mover, own: str, limit: int) -> str:
    """A little that both share, then the arm's own."""
    return tail(mover.before, limit // 2) + head(own, limit - limit // 2)
