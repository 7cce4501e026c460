"""The whole report as one HTML page, for reading at leisure and on a phone.

Knows the order of the page's parts. Opens without network; model text in it is text.
"""

from __future__ import annotations

from iqaction.report import Divergence, Report, Series, StageResult, Table
from iqaction.surfaces import (
    _around_html,
    _budget,
    _direction,
    _facts,
    _figures,
    _movers,
    _page,
    _since_html,
    _standing,
    _svg,
)
from iqaction.surfaces._base import Effect, WriteFile
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import head, html, line, prose_html, tail

LIMITS = Limits(
    divergences=500,
    ties=200,
    text=1200,
    prose=2000,
    names=300,
    checks=300,
    tables=40,
    rows=200,
    block=60_000,
    movers=20,
)
_OPEN = 12  # divergences shown unfolded


def render(report: Report) -> list[Effect]:
    """``report.html``."""

    def whole(limits: Limits, cut: str) -> str:
        return _page.page(_title(report), _body(report, limits, cut))

    text = _budget.fit(
        whole, LIMITS, _budget.utf8_bytes, _budget.PAGE_BYTES, lambda _: "</main></body></html>"
    )
    return [WriteFile("report.html", text)]


def _title(report: Report) -> str:
    return f"{_standing.word(report)} inferquality / {line(report.suite, _facts.NAME)}"


def _body(report: Report, limits: Limits, cut: str) -> str:
    sections = (
        ("checks", "Checks", _checks(report, limits)),
        ("meaning", "What this means", _meaning(report, limits)),
        ("texts", "Where the texts part", _partings(report, limits)),
        ("movers", _movers.TITLE, _since_html.movers(report, limits)),
        ("prompts", "Prompts by name", _faults(report, limits)),
        ("history", "On the base branch", _since_html.history(report, limits)),
        ("plots", "Plots", _plots(report, limits)),
        ("figures", "Figures", _tables(report, limits)),
        ("coverage", "Coverage", _coverage(report, limits)),
        ("caveats", "Caveats", _some(_facts.caveats(report), limits)),
        ("accepting", "Accepting it", _around_html.offer(report, limits)),
        ("evidence", "Evidence", _around_html.evidence(report, limits)),
    )
    present = [s for s in sections if s[2]]
    links = " ".join(f'<a href="#{ident}">{title}</a>' for ident, title, _ in present)
    return "\n".join(
        (
            _around_html.header(report, limits),
            f'<nav aria-label="Parts of this page">{links}</nav>',
            _around_html.problems(report, limits),
            _around_html.differences(report, limits),
            _shortened(cut),
            *(_page.section(*s) for s in present),
        )
    )


# --- the top --------------------------------------------------------------------------------


def _shortened(cut: str) -> str:
    if not cut:
        return ""
    return f'<p class="quiet">Shortened to fit ({cut}). The whole is in report.json.</p>'


def _checks(report: Report, limits: Limits) -> str:
    judged = _facts.lines(report)
    if _facts.nothing_observed(report) and judged:
        return _page.bullets(_unseen(x, limits) for x in judged[: limits.checks])
    also = _facts.lines(report, judged=False)
    estimates = [x.estimate for x in (*judged, *also) if x.estimate]
    level = _figures.levels(estimates)
    heads = ("check", "baseline", "candidate", _figures.worse_by_head(level))
    all_heads = (*heads, "against the margin", "margin", "verdict")
    rows = "".join(_check_row(x, level, all_heads, limits) for x in judged[: limits.checks])
    cells = "".join(f'<th scope="col" role="columnheader">{html(h)}</th>' for h in all_heads)
    text = (
        '<table class="checks" role="table"><thead role="rowgroup">'
        f'<tr role="row">{cells}</tr></thead><tbody role="rowgroup">{rows}</tbody></table>'
        if judged
        else '<p class="quiet">No stage has a check.</p>'
    )
    if len(judged) > limits.checks:
        text += f'<p class="quiet">{len(judged) - limits.checks:,} more: report.json.</p>'
    text += _around_html.accepted(report, limits)
    if also:
        plain = [_measured_row(x, level, limits) for x in also[: limits.checks]]
        text += _page.table(
            "Also measured, without a verdict", (*map(html, heads), "note"), "lrrll", plain
        )
    return text


def _unseen(x: _facts.Line, limits: Limits) -> str:
    """A stage of which nothing was observed; a table of dashes says nothing."""
    title = prose_html(x.title, min(_facts.NAME, limits.prose))
    return f"<strong>{title}</strong>, {x.verdict.value}: {prose_html(_facts.why(x), limits.prose)}"


def _check_row(x: _facts.Line, level: float | None, heads: tuple[str, ...], limits: Limits) -> str:
    check = x.check
    why = prose_html(_facts.why(x), limits.prose)
    word = f'<span class="word {_around_html.css(x.verdict)}">{x.verdict.value}</span>'
    if notes := ", ".join(_facts.notes(x)):
        word += f' <span class="quiet">({notes})</span>'
    gauge = _svg.gauge(check) if check else ""
    margin = _figures.margin(check.limit, check.estimate) if check else ""
    cells = (*_figure_cells(x, level), gauge, html(margin), word)
    kinds = ("num", "num", "", "gauge-cell", "num", "word-cell")
    row = "".join(
        f'<td role="cell" class="{kind}" data-label="{html(label)}">{cell}</td>'
        for cell, kind, label in zip(cells, kinds, heads[1:], strict=True)
    )
    title = prose_html(x.title, min(_facts.NAME, limits.prose))
    return (
        f'<tr role="row"><th scope="row" role="rowheader">{title}'
        f'<div class="why">{why}</div></th>{row}</tr>'
    )


def _figure_cells(x: _facts.Line, level: float | None) -> tuple[str, str, str]:
    if x.check is None:
        return (_figures.DASH,) * 3
    worse = _figures.worse_by(x.estimate, level) if x.estimate else _figures.DASH
    worse = _direction.after(worse, x.estimate)
    return (
        html(_figures.arm(x.check.baseline, x.check)),
        html(_figures.arm(x.check.candidate, x.check)),
        html(worse),
    )


def _measured_row(x: _facts.Line, level: float | None, limits: Limits) -> list[str]:
    title = prose_html(x.title, min(_facts.NAME, limits.prose))
    return [title, *_figure_cells(x, level), prose_html(_facts.why(x), limits.prose)]


def _meaning(report: Report, limits: Limits) -> str:
    said = " ".join(prose_html(s, limits.prose) for s in _facts.meaning(report)[: limits.names])
    steps = _some(_facts.next_steps(report), limits)
    return (f"<p>{said}</p>" if said else "") + (f"<h3>Next</h3>{steps}" if steps else "")


def _some(sentences: list[str], limits: Limits) -> str:
    shown = [prose_html(s, limits.prose) for s in sentences[: limits.names]]
    more = len(sentences) - len(shown)
    return _page.bullets([*shown, *([f"and {more:,} more: report.json"] if more > 0 else [])])


# --- texts and prompts ----------------------------------------------------------------------


def _partings(report: Report, limits: Limits) -> str:
    found = _facts.partings(report)
    parts = []
    for parting in found:
        several = len(found) > 1 or _facts.has_legs(report)
        where = f"{html(head(parting.stage, 2 * _facts.NAME))}: " if several else ""
        parts.append(
            f"<p>{where}{html(parting.summary)}. Tokens are counted from 0; the gap is how much "
            "the reference preferred its own token.</p>"
        )
        shown = _facts.chosen(parting, limits.divergences, limits.ties)
        grave = [d for d in shown if d.kind != "tie"]
        parts += [_card(d, limits) for d in grave[:_OPEN]]
        parts.append(_folded("more divergences", grave[_OPEN:], limits))
        parts.append(_folded("ties", [d for d in shown if d.kind == "tie"], limits))
        if parting.total > len(shown):
            more = parting.total - len(shown)
            parts.append(
                f'<p class="quiet">{more:,} more: <code>iqaction inspect DIR</code>, or '
                "report.json.</p>"
            )
    return "\n".join(p for p in parts if p)


def _folded(what: str, found: list[Divergence], limits: Limits) -> str:
    if not found:
        return ""
    cards = "\n".join(_card(d, limits) for d in found)
    return f"<details><summary>{len(found):,} {what}</summary>\n{cards}\n</details>"


def _card(d: Divergence, limits: Limits) -> str:
    kind = d.kind if d.kind in ("real", "shift", "tie") else "unknown"
    bucket = f" · {html(head(d.bucket, _facts.NAME))}" if d.bucket else ""
    a = _side("baseline", "a", d.before, (d.baseline_token, d.baseline_after), limits)
    b = _side("candidate", "b", d.before, (d.candidate_token, d.candidate_after), limits)
    return (
        f'<article class="part {kind}"><h3><code>{html(head(d.unit, _facts.NAME))}</code> '
        f'<span class="quiet">token {_facts.place(d)} · {html(_facts.gap(d))} · '
        f'{html(head(d.kind, 20))}{bucket}</span></h3><div class="pair">{a}{b}</div></article>'
    )


def _side(arm: str, css: str, before: str, own: tuple[str, str], limits: Limits) -> str:
    token, after = own
    shared = html(tail(before, limits.text // 2), keep="\n")
    if _facts.ends(token, after):
        text = '<em class="quiet">(the text ends here)</em>'
    else:
        following = html(head(_facts.rest(token, after), limits.text), keep="\n")
        marked = html(head(token, limits.text))
        text = f"<mark>{marked}</mark>{following}" if token else following
    return (
        f'<figure class="{css}"><figcaption>{arm}</figcaption>'
        f'<pre><span class="shared">{shared}</span>{text}</pre></figure>'
    )


def _faults(report: Report, limits: Limits) -> str:
    parts = []
    for title, found in _facts.faults(report):
        rows = [
            (
                f"<code>{html(head(f.unit, _facts.NAME))}</code>",
                html(head(f.bucket, _facts.NAME)),
                prose_html(f.detail, limits.prose),
            )
            for f in found[: limits.names]
        ]
        caption = f"{html(title)} ({len(found):,})"
        parts.append(_page.table(caption, ("prompt", "bucket", "what was seen"), "lll", rows))
        if len(found) > limits.names:
            parts.append(f'<p class="quiet">{len(found) - limits.names:,} more: report.json.</p>')
    return "\n".join(parts)


# --- figures --------------------------------------------------------------------------------


def _plots(report: Report, limits: Limits) -> str:
    every = _facts.series(report)[: limits.tables]
    shown = "".join(_figure(title, x, f"plot{i}") for i, (title, x) in enumerate(every))
    return f'<div class="plots">{shown}</div>' if shown else ""


def _figure(name: str, series: Series, ident: str) -> str:
    title = html(head(name, 200))
    return f"<figure><figcaption>{title}</figcaption>{_svg.plot(series, ident)}</figure>"


def _tables(report: Report, limits: Limits) -> str:
    every = _facts.tables(report)
    text = "\n".join(_table(title, t, limits) for title, t in every[: limits.tables])
    more = len(every) - limits.tables
    if more > 0:
        text += f'<p class="quiet">{more:,} more tables: report.json.</p>'
    return text


def _table(title: str, t: Table, limits: Limits) -> str:
    if not t.columns:
        return ""
    grid, aligns = _figures.grid(t, limits.rows)
    rows = [[html(head(c, 160)) for c in row] for row in grid]
    columns = [prose_html(c, _facts.NAME) for c in t.columns]
    text = _page.table(html(head(title, 300)), columns, aligns, rows)
    more = len(t.rows) - len(rows)
    return text + (f'<p class="quiet">{more:,} more rows: report.json.</p>' if more > 0 else "")


# --- coverage and evidence ------------------------------------------------------------------


def _coverage(report: Report, limits: Limits) -> str:
    if not report.stages or _facts.nothing_observed(report):
        return ""
    shown = report.stages[: limits.checks]
    columns = ("stage", "prompts required", "judged", "failed", "no answer", "left out")
    text = _page.table("Prompts by stage", columns, "lrrrrr", [_coverage_row(s) for s in shown])
    return text + _page.bullets(x for s in shown for x in _lost(s, limits))


def _coverage_row(stage: StageResult) -> list[str]:
    cover = stage.coverage
    lost = (len(cover.failed), len(cover.missing), len(cover.left_out))
    counts = (cover.required, cover.observed, *lost)
    return [html(head(_facts.named(stage), 2 * _facts.NAME)), *(f"{n:,}" for n in counts)]


def _lost(stage: StageResult, limits: Limits) -> list[str]:
    out = []
    for what, units in (
        ("failed", stage.coverage.failed),
        ("no answer", stage.coverage.missing),
        ("left out, because the baseline itself could not be judged", stage.coverage.left_out),
    ):
        if units:
            names = ", ".join(
                f"<code>{html(head(u, _facts.NAME))}</code>" for u in units[: limits.names]
            )
            more = len(units) - limits.names
            names += f" and {more:,} more" if more > 0 else ""
            name = html(head(_facts.named(stage), 2 * _facts.NAME))
            out.append(f"{name}, {what}: {names}")
    return out
