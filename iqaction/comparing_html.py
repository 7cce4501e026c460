"""Two evidence folders beside each other as one HTML page, which opens without network. Pure.

Knows the comparison and the frame of our pages; all text in it is escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence

from iqaction import comparing_view as view
from iqaction.comparing import NO_VERDICT, Comparison, Line, Party, Stage
from iqaction.report import Divergence, Mover
from iqaction.surfaces import _facts, _movers, _page
from iqaction.surfaces._escape import head, html, line, prose_html, tail

_MOST = 20  # prompts of one kind
_TEXT = 160  # characters of one text
_SENTENCES = 200
_LINES = 300


def page(comparison: Comparison) -> str:
    """The whole document."""
    a, b = comparison.a, comparison.b
    title = f"{view.word(a)} → {view.word(b)} iqaction diff {line(a.name, 80)} {line(b.name, 80)}"
    body = "\n".join(
        (
            f"<header><h1>{html(view.word(a))} → {html(view.word(b))}: iqaction diff</h1>"
            f"{_page.bullets((_party('A', a), _party('B', b)))}"
            f'<p class="quiet">{html(NO_VERDICT)}</p></header>',
            _page.section("asked", "The question", _asked(comparison)),
            _page.section("engines", "Engine and settings", _prose(view.differing(comparison))),
            *(_page.section(f"stage{i}", *_stage(s)) for i, s in enumerate(comparison.stages)),
        )
    )
    return _page.page(title, body)


def _party(letter: str, party: Party) -> str:
    root = party.observed.root
    sealed = f", root <code>{html(root)}</code>" if root else ", not sealed"
    name = html(head(party.name, 300))
    said = f"<strong>{letter}</strong> <code>{name}</code>: {prose_html(view.who(party))}{sealed}"
    return said + _page.bullets(prose_html(p, 2000) for p in view.problems(party))


def _asked(comparison: Comparison) -> str:
    return f"<p>{html(view.heading(comparison))}</p>{_prose(comparison.asked)}"


def _prose(sentences: Sequence[str]) -> str:
    more = len(sentences) - _SENTENCES
    shown = [prose_html(s, 2000) for s in sentences[:_SENTENCES]]
    return _page.bullets([*shown, *([f"and {more:,} more"] if more > 0 else [])])


def _stage(stage: Stage) -> tuple[str, str]:
    """Title and body."""
    units = f", {stage.compared:,} compared" if stage.compared else ""
    title = html(f"{head(stage.stage, _facts.NAME)}: {view.verdicts(stage.a, stage.b)}{units}")
    columns = ("figure", "A → B", "B less A (95 % CI)", "verdict", "note")
    rows = [_line(x) for x in stage.lines[:_LINES]]
    parts = (
        _page.table("Figures", columns, "lrlll", rows) if rows else "",
        f"<p>{prose_html(stage.note)}</p>" if stage.note else "",
        _texts(stage.divergences),
        _moved(stage.movers),
    )
    return title, "\n".join(p for p in parts if p)


def _line(x: Line) -> list[str]:
    contrast = x.contrast
    return [
        prose_html(contrast.title, 300),
        html(view.values(contrast)),
        html(view.by(contrast)),
        html(view.verdicts(x.a, x.b)),
        prose_html(contrast.note, 600),
    ]


def _texts(found: Sequence[Divergence]) -> str:
    if not found:
        return ""
    rows = [
        (
            f"<code>{html(head(d.unit, _facts.NAME))}</code>",
            _facts.place(d),
            html(f"{head(d.kind, 20)}, {_facts.gap(d)}"),
            _own(d.before, d.baseline_token + _facts.rest(d.baseline_token, d.baseline_after)),
            _own(d.before, d.candidate_token + _facts.rest(d.candidate_token, d.candidate_after)),
        )
        for d in found[:_MOST]
    ]
    caption = f"Where the texts part ({html(view.counted(found))})"
    columns = ("prompt", "token", "gap", "A wrote", "B wrote")
    return _page.table(caption, columns, "lrlll", rows) + _more(len(found))


def _moved(found: Sequence[Mover]) -> str:
    if not found:
        return ""
    rows = [
        (
            f"<code>{html(head(m.unit, _facts.NAME))}</code>",
            prose_html(_movers.said(m), 300),
            _movers.place(m),
            _own(m.before, m.baseline),
            _own(m.before, m.candidate),
        )
        for m in found[:_MOST]
    ]
    columns = ("prompt", "what changed", "token", "A", "B")
    return _page.table(_movers.TITLE, columns, "llrll", rows) + _more(len(found))


def _own(before: str, own: str) -> str:
    """A little that both share, then one's own."""
    shared = html(tail(before, _TEXT // 2))
    return f'<code><span class="shared">{shared}</span><mark>{html(head(own, _TEXT))}</mark></code>'


def _more(n: int) -> str:
    return f'<p class="quiet">{n - _MOST:,} more.</p>' if n > _MOST else ""
