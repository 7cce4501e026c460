"""The parts of a judgement in Markdown, each a block or "". Knows the report's facts and limits;
the surfaces choose which parts go where. What stands around the judgement is in ``_around``.
"""

from __future__ import annotations

from collections.abc import Sequence

from iqaction.report import Divergence, Report, StageResult, Table, UnitFault
from iqaction.surfaces import _direction, _facts, _figures
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import code, figure, head
from iqaction.surfaces._markdown import WHOLE, bold, bullets, join, sentence, some, table
from iqaction.verdict import Verdict

_IN_DETAIL = 5  # faults of one kind up to here stand with what was seen, more by name alone


# --- checks ---------------------------------------------------------------------------------


def checks(report: Report, limits: Limits, *, judged: bool = True) -> str:
    """The table of checks with estimate, interval, margin and verdict."""
    lines = _facts.lines(report, judged=judged)
    if not lines:
        return "No stage was judged." if judged else ""
    if _facts.nothing_observed(report):
        return ""  # the reasons below say it; a table of dashes says nothing
    level = _figures.levels([x.estimate for x in lines if x.estimate])
    last = ["margin", "verdict"] if judged else []
    columns = ["check", "baseline", "candidate", _figures.worse_by_head(level), *last]
    rows = [_check_row(x, level, limits, judged) for x in lines[: limits.checks]]
    text = table(columns, "lrrlrl"[: len(columns)], rows)
    more = len(lines) - len(rows)
    return f"{text}\n\n{more:,} more checks: {WHOLE}." if more > 0 else text


def _check_row(x: _facts.Line, level: float | None, limits: Limits, judged: bool) -> list[str]:
    check, estimate = x.check, x.estimate
    worse = _figures.DASH
    if estimate is not None:
        worse = figure(_direction.after(_figures.worse_by(estimate, level), estimate))
    elif check is not None and check.reason and (x.verdict is Verdict.PASS or not judged):
        # What is no PASS has its reason in full below the table.
        worse += f" ({sentence(check.reason, limits, most=100, cell=True)})"
    row = [
        sentence(x.title, limits, most=_facts.NAME, cell=True),
        figure(_figures.arm(check.baseline, check)) if check else _figures.DASH,
        figure(_figures.arm(check.candidate, check)) if check else _figures.DASH,
        worse,
    ]
    if judged:
        row += [_figures.margin(check.limit, check.estimate) if check else "", _word(x)]
    return row


def _word(x: _facts.Line) -> str:
    word = x.verdict.value if x.verdict is Verdict.PASS else f"**{x.verdict.value}**"
    notes = ", ".join(_facts.notes(x))
    return f"{word} ({notes})" if notes else word


def reasons(report: Report, limits: Limits) -> str:
    """Why each check is no PASS, in plain words, worst first; then those that were accepted."""
    lines = _facts.open_lines(report)
    accepted = [x for x in lines if x.accepted]
    return join(
        _reasons("Why it is not a PASS", [x for x in lines if not x.accepted], limits),
        _reasons(_facts.ACCEPTED, accepted, limits),
    )


def _reasons(title: str, lines: Sequence[_facts.Line], limits: Limits) -> str:
    items = [
        f"{bold(sentence(x.title, limits, most=_facts.NAME))}, {x.verdict.value}: "
        f"{_reason(x, limits)}"
        for x in lines[: limits.checks]
    ]
    more = len(lines) - len(items)
    items += [f"and {more:,} more: {WHOLE}"] if more > 0 else []
    return f"**{title}**\n{bullets(items)}" if items else ""


def _reason(x: _facts.Line, limits: Limits) -> str:
    """Each sentence is cut on its own: a long reason must not push out who accepted it."""
    return " ".join(sentence(s, limits) for s in _facts.why_accepted(x))


def meaning(report: Report, limits: Limits) -> str:
    """What this means, and what to do next, as one paragraph."""
    said, steps = _facts.meaning(report), _facts.next_steps(report)
    parts = []
    if said:
        parts.append("**What this means.** " + " ".join(some(said, limits)))
    if steps:
        parts.append("**Next:** " + " ".join(some(steps, limits)))
    return " ".join(parts)


# --- texts and prompts ----------------------------------------------------------------------


def partings(report: Report, limits: Limits, *, title: bool = True, rows: bool = True) -> str:
    """Where the texts part: how many and of which kind, then the ones that matter first."""
    found = _facts.partings(report)
    blocks = []
    for parting in found:
        several = len(found) > 1 or _facts.has_legs(report)
        where = f" in {sentence(parting.stage, limits)}" if several else ""
        if title:
            blocks.append(f"**Where the texts part**{where} ({parting.summary})")
        shown = _facts.chosen(parting, limits.divergences, limits.ties) if rows else []
        if not shown:
            continue
        columns = ("prompt", "token", "baseline wrote", "candidate wrote", "gap")
        blocks.append(table(columns, "lrlll", [_parting_row(d, limits) for d in shown]))
        more = parting.total - len(shown)
        if more > 0:
            blocks.append(f"{more:,} more: {WHOLE}, or `iqaction inspect DIR`.")
    return join(*blocks)


def _parting_row(d: Divergence, limits: Limits) -> list[str]:
    return [
        code(head(d.unit, _facts.NAME), cell=True),
        _facts.place(d),
        _wrote(d, d.baseline_token, d.baseline_after, limits),
        _wrote(d, d.candidate_token, d.candidate_after, limits),
        f"{_facts.gap(d)}, {sentence(d.kind, limits, most=20, cell=True)}",
    ]


def _wrote(d: Divergence, token: str, after: str, limits: Limits) -> str:
    text = _facts.wrote(d, token, after, limits.text)
    if not _facts.ends(token, after):
        return code(text, cell=True)
    return f"{code(text, cell=True)} and ends" if text else "nothing more"


def faults(report: Report, limits: Limits) -> str:
    """Broken, failed and missing prompts by name."""
    items = []
    for title, found in _facts.faults(report):
        if len(found) <= min(_IN_DETAIL, limits.names):
            names = "; ".join(_fault(f, limits) for f in found)
        else:
            names = _names([f.unit for f in found], limits)
        items.append(f"{bold(sentence(title, limits))} ({len(found):,}): {names}")
    return bullets(items[: max(limits.names, 6)])


def _fault(fault: UnitFault, limits: Limits) -> str:
    name = code(head(fault.unit, _facts.NAME))
    if not fault.detail:
        return name
    return f"{name} ({sentence(fault.detail, limits, most=160)})"


# --- below the fold -------------------------------------------------------------------------


def coverage(report: Report, limits: Limits) -> str:
    """How many prompts each stage needed, could judge, and lost; the lost ones by name."""
    if not report.stages:
        return ""
    shown = report.stages[: limits.checks]
    empty = _facts.nothing_observed(report)
    columns = ("stage", "prompts required", "judged", "failed", "no answer", "left out")
    rows = [_coverage_row(s, limits) for s in shown]
    names = []
    for stage in shown:
        for what, units in (
            ("failed", stage.coverage.failed),
            ("no answer", () if empty else stage.coverage.missing),
            ("left out, because the baseline itself could not be judged", stage.coverage.left_out),
        ):
            if units:
                name = sentence(_facts.named(stage), limits, most=_facts.NAME)
                names.append(f"{name}, {what}: {_names(units, limits)}")
    if empty:
        return join("**Coverage**", bullets(names)) if names else ""
    return join("**Coverage**", table(columns, "lrrrrr", rows), bullets(names))


def _coverage_row(stage: StageResult, limits: Limits) -> list[str]:
    cover = stage.coverage
    counts = (
        cover.required,
        cover.observed,
        len(cover.failed),
        len(cover.missing),
        len(cover.left_out),
    )
    return [
        sentence(_facts.named(stage), limits, most=_facts.NAME, cell=True),
        *(f"{n:,}" for n in counts),
    ]


def _names(units: Sequence[str], limits: Limits) -> str:
    shown = ", ".join(code(head(u, _facts.NAME)) for u in units[: limits.names])
    more = len(units) - limits.names
    return f"{shown} and {more:,} more" if more > 0 else shown


def measured(report: Report, limits: Limits) -> str:
    """Figures that carry no verdict of their own."""
    also = checks(report, limits, judged=False)
    return join("**Also measured, without a verdict**", also) if also else ""


def tables(report: Report, limits: Limits) -> str:
    """The stages' own tables, as the noise floor and figures by position."""
    found = _facts.tables(report)
    more = len(found) - limits.tables
    note = f"{more:,} more tables: {WHOLE}." if more > 0 else ""
    return join(*(_stage_table(title, t, limits) for title, t in found[: limits.tables]), note)


def _stage_table(name: str, t: Table, limits: Limits) -> str:
    title = bold(sentence(name, limits))
    if not t.columns:
        return title
    grid, aligns = _figures.grid(t, limits.rows)
    rows = [[sentence(c, limits, most=_facts.NAME, cell=True) for c in row] for row in grid]
    columns = [sentence(c, limits, most=_facts.NAME, cell=True) for c in t.columns]
    more = len(t.rows) - len(rows)
    return join(
        title, table(columns, aligns, rows), f"{more:,} more rows: {WHOLE}." if more > 0 else ""
    )


def caveats(report: Report, limits: Limits) -> str:
    found = _facts.caveats(report)
    return "**Caveats**\n" + bullets(some(found, limits)) if found else ""
