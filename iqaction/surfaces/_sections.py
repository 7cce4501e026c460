"""The parts of a report in Markdown, each a block or "". Knows the report's facts and the limits;
the surfaces choose which parts go where.

Every cell, sentence and text passes through ``_escape``; the only raw HTML is the ``<details>``
written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iqaction.report import Divergence, Report, StageResult, Table, UnitFault
from iqaction.surfaces import _facts, _figures
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import NOTHING, code, fence, figure, head, line, prose
from iqaction.verdict import Verdict

_IN_DETAIL = 5  # faults of one kind up to here stand with what was seen, more by name alone
WHOLE = "`report.html` of the evidence"


def join(*blocks: str) -> str:
    """The blocks that say something, a blank line between them."""
    return "\n\n".join(b for b in blocks if b)


def table(columns: Sequence[str], aligns: str, rows: Iterable[Sequence[str]]) -> str:
    """A GitHub table of escaped cells. ``aligns`` holds l or r per column."""
    rule = ["---:" if a == "r" else "---" for a in aligns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def bold(text: str) -> str:
    """Escaped text in bold; four asterisks around nothing would be a rule across the page."""
    return f"**{text or NOTHING}**"


def details(summary: str, *blocks: str) -> str:
    """A folded part; "" where there is nothing to fold."""
    inside = join(*blocks)
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>" if inside else ""


# --- the top --------------------------------------------------------------------------------


def heading(report: Report, limits: Limits) -> str:
    suite = prose(line(report.suite, _facts.NAME))
    headline = _sentence(report.headline, limits, most=300)
    return f"### {report.verdict.value}  inferquality / {suite}: {headline}"


def compared(report: Report, limits: Limits) -> str:
    """One line: what changed, who answered, which baseline."""
    changes = _facts.changed(report.changes[: limits.names])
    more = len(report.changes) - len(changes)
    parts = [*changes, *([f"and {more:,} more changes"] if more > 0 else [])]
    parts += [_facts.engines(report), _facts.baseline(report)]
    return " · ".join(_sentence(p, limits) for p in parts if p)


def problems(report: Report, limits: Limits) -> str:
    """Faults of the evidence itself; each of them keeps the verdict from PASS."""
    found = _facts.unique(report.problems)
    if not found:
        return ""
    return "**The evidence has a problem**\n" + bullets(_some(found, limits))


def checks(report: Report, limits: Limits, *, judged: bool = True) -> str:
    """The table of checks with estimate, interval, margin and verdict."""
    lines = _facts.lines(report, judged=judged)
    if not lines:
        return "No stage was judged." if judged else ""
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
        worse = figure(_figures.worse_by(estimate, level))
    elif check is not None and check.reason and (x.verdict is Verdict.PASS or not judged):
        # What is no PASS has its reason in full below the table.
        worse += f" ({_sentence(check.reason, limits, most=100, cell=True)})"
    row = [
        _sentence(x.title, limits, most=_facts.NAME, cell=True),
        figure(_figures.arm(check.baseline, check)) if check else _figures.DASH,
        figure(_figures.arm(check.candidate, check)) if check else _figures.DASH,
        worse,
    ]
    if judged:
        row += [_figures.margin(check.limit, check.estimate) if check else "", _word(x)]
    return row


def _word(x: _facts.Line) -> str:
    word = x.verdict.value if x.verdict is Verdict.PASS else f"**{x.verdict.value}**"
    return word if x.stage.required else f"{word} (not required)"


def reasons(report: Report, limits: Limits) -> str:
    """Why each check is no PASS, in plain words, worst first."""
    lines = _facts.open_lines(report)
    if not lines:
        return ""
    items = [
        f"{bold(_sentence(x.title, limits, most=_facts.NAME))}, {x.verdict.value}: "
        f"{_sentence(_facts.why(x), limits)}"
        for x in lines[: limits.checks]
    ]
    more = len(lines) - len(items)
    items += [f"and {more:,} more: {WHOLE}"] if more > 0 else []
    return "**Why it is not a PASS**\n" + bullets(items)


def meaning(report: Report, limits: Limits) -> str:
    """What this means, and what to do next, as one paragraph."""
    said, steps = _facts.meaning(report), _facts.next_steps(report)
    parts = []
    if said:
        parts.append("**What this means.** " + " ".join(_some(said, limits)))
    if steps:
        parts.append("**Next:** " + " ".join(_some(steps, limits)))
    return " ".join(parts)


# --- texts and prompts ----------------------------------------------------------------------


def partings(report: Report, limits: Limits, *, title: bool = True, rows: bool = True) -> str:
    """Where the texts part: how many and of which kind, then the ones that matter first."""
    found = _facts.partings(report)
    blocks = []
    for parting in found:
        where = f" in {_sentence(parting.stage, limits)}" if len(found) > 1 else ""
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
        f"{_facts.gap(d)}, {_sentence(d.kind, limits, most=20, cell=True)}",
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
        items.append(f"{bold(_sentence(title, limits))} ({len(found):,}): {names}")
    return bullets(items[: max(limits.names, 6)])


def _fault(fault: UnitFault, limits: Limits) -> str:
    name = code(head(fault.unit, _facts.NAME))
    if not fault.detail:
        return name
    return f"{name} ({_sentence(fault.detail, limits, most=160)})"


# --- below the fold -------------------------------------------------------------------------


def coverage(report: Report, limits: Limits) -> str:
    """How many prompts each stage needed, could judge, and lost; the lost ones by name."""
    if not report.stages:
        return ""
    shown = report.stages[: limits.checks]
    columns = ("stage", "prompts required", "judged", "failed", "no answer", "left out")
    text = table(columns, "lrrrrr", [_coverage_row(s, limits) for s in shown])
    names = []
    for stage in shown:
        for what, units in (
            ("failed", stage.coverage.failed),
            ("no answer", stage.coverage.missing),
            ("left out, because the baseline itself could not be judged", stage.coverage.left_out),
        ):
            if units:
                name = _sentence(stage.stage, limits, most=_facts.NAME)
                names.append(f"{name}, {what}: {_names(units, limits)}")
    return join("**Coverage**", text, bullets(names))


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
        _sentence(stage.stage, limits, most=_facts.NAME, cell=True),
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
    title = bold(_sentence(name, limits))
    if not t.columns:
        return title
    grid, aligns = _figures.grid(t, limits.rows)
    rows = [[_sentence(c, limits, most=_facts.NAME, cell=True) for c in row] for row in grid]
    columns = [_sentence(c, limits, most=_facts.NAME, cell=True) for c in t.columns]
    more = len(t.rows) - len(rows)
    return join(
        title, table(columns, aligns, rows), f"{more:,} more rows: {WHOLE}." if more > 0 else ""
    )


def caveats(report: Report, limits: Limits) -> str:
    found = _facts.caveats(report)
    return "**Caveats**\n" + bullets(_some(found, limits)) if found else ""


def evidence(report: Report, limits: Limits) -> str:
    """Hashes and versions, and the commands that check and open the evidence."""
    known = [f"{name} {code(text)}" for name, text in _facts.identities(report)]
    who = [
        _sentence(f"{e.arm}: {_facts.engine(e)}", limits) for e in report.engines[: limits.names]
    ]
    return join("**Evidence**", bullets([*known, *who]), fence(_facts.commands(report), "sh"))


def shortened(cut: str) -> str:
    """What was left out to fit, and where the whole is."""
    return f"*Shortened to fit ({cut}). The whole is in {WHOLE}.*" if cut else ""


def closers(text: str) -> str:
    """What closes the fence and the folds that a cut left open, and says that it was cut."""
    out = []
    open_fence = ""
    for row in text.split("\n"):
        ticks = row[: len(row) - len(row.lstrip("`"))]
        if open_fence:
            if len(ticks) >= len(open_fence) and row.strip("`") == "":
                open_fence = ""
        elif len(ticks) >= 3:
            open_fence = ticks
    if open_fence:
        out.append(open_fence)
    folds = text.count("<details>") - text.count("</details>")
    out += ["", *["</details>"] * folds, "", shortened("cut off at its end")]
    return "\n".join(out)


# --- sentences ------------------------------------------------------------------------------


def _sentence(text: str, limits: Limits, *, most: int | None = None, cell: bool = False) -> str:
    limit = limits.prose if most is None else min(most, limits.prose)
    return prose(text, limit, cell=cell)


def _some(sentences: Sequence[str], limits: Limits) -> list[str]:
    shown = [_sentence(s, limits) for s in sentences[: limits.names]]
    more = len(sentences) - len(shown)
    return [*shown, f"And {more:,} more: {WHOLE}."] if more > 0 else shown
