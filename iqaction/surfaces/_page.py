"""The frame of the HTML page: head, style, tables. Knows no report.

One file, no script, no network: the policy in the head forbids both, whatever the body holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iqaction.surfaces._escape import html

POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_LIGHT = """
--bg:#fff;--ink:#1f2328;--quiet:#59636e;--rule:#d1d9e0;--panel:#f6f8fa;
--pass:#1a7f37;--fail:#cf222e;--unproven:#8a5a00;--none:#59636e;
--mark-a:#fff1c2;--mark-b:#ffd7d5;--plot:#0969da;--beyond:#ffebe9;--on:#fff
""".replace("\n", "")
_DARK = """
--bg:#0d1117;--ink:#e6edf3;--quiet:#9aa4af;--rule:#343b44;--panel:#161b22;
--pass:#3fb950;--fail:#ff7b72;--unproven:#d29922;--none:#9aa4af;
--mark-a:#5c4a12;--mark-b:#6e2b2b;--plot:#58a6ff;--beyond:#2d1517;--on:#0d1117
""".replace("\n", "")

_STYLE = (
    f":root{{color-scheme:light dark;{_LIGHT}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
h1,p,.why,table.checks th{overflow-wrap:anywhere}
td,th{overflow-wrap:break-word}
main{max-width:70rem;margin:0 auto;padding:1rem 1rem 4rem}
h1{font-size:1.5rem;line-height:1.3;margin:.5rem 0}
h2{font-size:1.2rem;margin:2.4rem 0 .6rem;padding-bottom:.25rem;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.5rem 0}
ul{padding-left:1.25rem;margin:.5rem 0}
li{margin:.2rem 0;overflow-wrap:anywhere}
.quiet{color:var(--quiet);font-size:.875rem}
.suite{color:var(--quiet);margin:0}
code,pre{font:.875em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code{background:var(--panel);border-radius:4px;padding:.1em .3em;overflow-wrap:anywhere;
 unicode-bidi:isolate}
pre{margin:0;padding:.6rem .75rem;background:var(--panel);border-radius:6px;
 white-space:pre-wrap;overflow-wrap:anywhere}
pre.command{overflow-x:auto}
.verdict{display:inline-block;border-radius:6px;padding:.1rem .6rem;margin-right:.5rem;
 font-weight:700;color:var(--on);background:var(--none)}
.verdict.pass{background:var(--pass)}.verdict.fail{background:var(--fail)}
.verdict.unproven{background:var(--unproven)}
.word{font-weight:700;white-space:nowrap}
.word.pass{color:var(--pass)}.word.fail{color:var(--fail)}
.word.unproven{color:var(--unproven)}.word.not-run{color:var(--none)}
nav{font-size:.875rem;margin:.75rem 0}
nav a{display:inline-block;margin-right:1rem;padding:.15rem 0}
a{color:var(--plot)}
.box{border:1px solid var(--rule);border-left:4px solid var(--unproven);border-radius:6px;
 padding:.25rem 1rem;margin:1rem 0}
.scroll{overflow-x:auto;margin:1rem 0 1.25rem}
.scroll:focus-visible{outline:2px solid var(--plot)}
table{border-collapse:collapse;min-width:min(100%,40rem);font-size:.9375rem}
table.checks{width:100%}
table.checks tbody th{min-width:14rem}
caption{text-align:left;font-weight:600;padding:.25rem 0}
th,td{padding:.4rem .6rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top;
 font-variant-numeric:tabular-nums}
thead th{font-size:.8125rem;color:var(--quiet);font-weight:600;white-space:nowrap;
 vertical-align:bottom}
tbody th{font-weight:600}
.num{text-align:right;white-space:nowrap}
.why{font-weight:400;font-size:.875rem;color:var(--quiet);max-width:46rem}
.fold{width:auto}
details{margin:.75rem 0}
summary{cursor:pointer;font-weight:600}
.part{border:1px solid var(--rule);border-left:4px solid var(--none);border-radius:6px;
 margin:.75rem 0;padding:.6rem .8rem}
.part.real{border-left-color:var(--fail)}.part.shift{border-left-color:var(--unproven)}
.part h3{font-size:.9375rem;font-weight:600;margin:0 0 .4rem;overflow-wrap:anywhere}
.part h3 .quiet{font-weight:400}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:.6rem}
.pair figure{margin:0;min-width:0}
.pair figcaption{font-size:.8125rem;color:var(--quiet)}
.shared{color:var(--quiet)}
mark{color:inherit;background:var(--mark-a);border-radius:2px;padding:0 .1em}
.b mark{background:var(--mark-b)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.25rem}
.plots figure{margin:0;min-width:0}
.plots figcaption{font-weight:600;font-size:.9375rem}
svg.plot{width:100%;height:auto;display:block}
svg.spark{width:220px;max-width:100%;height:56px;display:block}
svg text{font:12px system-ui,sans-serif;fill:var(--quiet)}
svg .grid{stroke:var(--rule);stroke-width:.6;fill:none}
svg .axis{stroke:var(--quiet);fill:none}
svg .line{stroke:var(--plot);stroke-width:1.6;fill:none;stroke-linejoin:round}
svg .dot{fill:var(--plot)}svg .over{fill:var(--fail)}
svg .limit{stroke:var(--fail);stroke-dasharray:4 3;fill:none}
svg .limit-name{fill:var(--fail)}
svg.gauge{width:168px;height:22px;display:block}
svg.gauge .beyond{fill:var(--beyond)}
svg.gauge .zero{stroke:var(--quiet);fill:none}
svg .bar{stroke-width:3;fill:none;stroke:var(--none)}
svg .bar.pass{stroke:var(--pass)}svg .bar.fail{stroke:var(--fail)}
svg .bar.unproven{stroke:var(--unproven)}
svg .dot.pass{fill:var(--pass)}svg .dot.fail{fill:var(--fail)}
svg .dot.unproven{fill:var(--unproven)}
@media (max-width:48rem){
 .pair{grid-template-columns:1fr}
 table.checks,table.checks tbody,table.checks th,table.checks td{display:block}
 table.checks tr{display:flex;flex-direction:column}
 table.checks .word-cell{order:-1}
 table.checks th{order:-2}
 table.checks thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
 table.checks tr{border-bottom:1px solid var(--rule);padding:.5rem 0}
 table.checks th,table.checks td{border:0;padding:.1rem 0;text-align:left}
 table.checks td::before{content:attr(data-label) ": ";color:var(--quiet);font-size:.8125rem}
 table.checks td.gauge-cell::before{content:none}
 table.checks td:empty{display:none}
}
@media print{.part,figure{break-inside:avoid}}
"""
)


def page(title: str, body: str) -> str:
    """A whole document. ``title`` is plain text, ``body`` is markup of ours."""
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(ident: str, title: str, body: str) -> str:
    """A headed section."""
    return (
        f'<section id="{ident}" aria-labelledby="{ident}-h">\n'
        f'<h2 id="{ident}-h">{title}</h2>\n{body}\n</section>'
    )


def bullets(items: Iterable[str]) -> str:
    inside = "".join(f"<li>{item}</li>" for item in items)
    return f"<ul>{inside}</ul>" if inside else ""


def table(caption: str, columns: Sequence[str], aligns: str, rows: Iterable[Sequence[str]]) -> str:
    """A table of escaped cells that scrolls sideways on its own; the first cell heads its row."""
    head = "".join(
        f'<th scope="col"{_align(a)}>{c}</th>' for c, a in zip(columns, aligns, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(_cell(i, c, a) for i, (c, a) in enumerate(zip(row, aligns, strict=True)))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _align(align: str) -> str:
    return ' class="num"' if align == "r" else ""


def _cell(index: int, cell: str, align: str) -> str:
    if index == 0:
        return f'<th scope="row"{_align(align)}>{cell}</th>'
    return f"<td{_align(align)}>{cell}</td>"
