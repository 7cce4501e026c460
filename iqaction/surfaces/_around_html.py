"""What stands around a judgement, for the HTML page: its head, the run and its links, problems,
what the pull request changes about its own judge, the machine and the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

from iqaction.report import Engine, Report
from iqaction.surfaces import (
    _facts,
    _links,
    _origin,
    _page,
    _searched,
    _since_html,
    _standing,
)
from iqaction.surfaces._around import ACCEPT, JUDGE_CHANGED
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import excerpt, head, html, line, prose_html
from iqaction.surfaces._origin import Marks
from iqaction.verdict import Verdict

_FACTS = 60  # of the machine


def header(report: Report, limits: Limits) -> str:
    """Verdict and headline, what was compared, and the run."""
    compared = " · ".join(
        prose_html(p, limits.prose) for p in _origin.compared(report, limits.names)
    )
    marks = Marks(_links.html, lambda x: f"<code>{x}</code>", lambda x: html(head(x, 300)))
    run = _origin.run(report, marks)
    return (
        "<header>\n"
        f'<p class="suite">inferquality / {html(line(report.suite, _facts.NAME))}</p>\n'
        f'<h1><span class="verdict {css(_standing.verdict(report))}">{_standing.word(report)}'
        f"</span>{prose_html(report.headline, min(300, limits.prose))}</h1>\n"
        f"{_since_html.standing(report, limits)}"
        f"<p>{compared}</p>\n" + (f'<p class="quiet">{run}</p>\n' if run else "") + "</header>"
    )


def css(verdict: Verdict) -> str:
    """The class of a verdict."""
    return verdict.value.lower().replace(" ", "-")


def problems(report: Report, limits: Limits) -> str:
    """In full: a log's tail stands in a block of its own."""
    found = _facts.unique(report.problems)
    if not found:
        return ""
    not_run = report.verdict is Verdict.NOT_RUN
    title = "Why nothing was judged" if not_run else "The evidence has a problem"
    shown = [_problem(p, limits) for p in found[: limits.names]]
    return _box(title, shown, len(found))


def _problem(problem: str, limits: Limits) -> str:
    first, _, rest = problem.strip().partition("\n")
    return prose_html(first, limits.prose) + _block(rest, limits)


def differences(report: Report, limits: Limits) -> str:
    """What the pull request changes about its own judge, each with its diff."""
    if not report.differences:
        return ""
    shown = [
        f"{prose_html(d.field, _facts.NAME)}: <code>{html(head(d.path, 300))}</code>"
        + (f". {prose_html(_facts.granted(d.accepted), limits.prose)}" if d.accepted else "")
        + _block(d.detail, limits)
        for d in report.differences[: limits.names]
    ]
    return _box(JUDGE_CHANGED, shown, len(report.differences))


def _box(title: str, shown: Sequence[str], of: int) -> str:
    more = [f"and {of - len(shown):,} more: report.json"] if of > len(shown) else []
    return f'<div class="box"><p><strong>{title}</strong></p>{_page.bullets([*shown, *more])}</div>'


def _block(text: str, limits: Limits) -> str:
    text = text.strip("\n")
    if not text.strip():
        return ""
    if limits.block <= 0:
        return f' <span class="quiet">({len(text):,} characters more: report.json)</span>'
    return f"<pre>{html(excerpt(text, limits.block), keep=chr(10))}</pre>"


def accepted(report: Report, limits: Limits) -> str:
    """The checks that the job is not held to: by whom, why, until when."""
    found = [x for x in _facts.open_lines(report) if x.accepted]
    items = [
        f"<strong>{prose_html(x.title, min(_facts.NAME, limits.prose))}</strong>, "
        f"{x.verdict.value}: "
        + " ".join(prose_html(s, limits.prose) for s in _facts.why_accepted(x))
        for x in found[: limits.checks]
    ]
    more = len(found) - len(items)
    items += [f"and {more:,} more: report.json"] if more > 0 else []
    return f"<h3>{_facts.ACCEPTED}</h3>{_page.bullets(items)}" if items else ""


def offer(report: Report, limits: Limits) -> str:
    """What a maintainer would write to accept what is open."""
    if not report.offer or _standing.passes(report):
        return ""
    said = f"On the base branch, in <code>{ACCEPT}</code>, with why and who:"
    return f"<p>{said}</p>{_block(report.offer, limits)}"


def evidence(report: Report, limits: Limits) -> str:
    """Hashes, who answered on what, and the commands that check and open the evidence."""
    known = [f"{name} <code>{html(text)}</code>" for name, text in _facts.identities(report)]
    who = [_engine(e) for e in report.engines[: limits.names]]
    facts = _origin.machine(report)[: min(_FACTS, limits.names)]
    machine = [f"{html(n)} <code>{html(v)}</code>" for n, v in facts]
    return (
        _page.bullets(known)
        + _searched.page(report, limits)
        + ("<h3>Who answered</h3>" + _page.bullets(who) if who else "")
        + ("<h3>On which machine</h3>" + _page.bullets(machine) if machine else "")
        + "<h3>Check it, look into it</h3>"
        + f'<pre class="command">{html(_facts.commands(report), keep=chr(10))}</pre>'
        + '<p class="quiet">DIR is the evidence folder; without <code>--root</code> the answer '
        "can only be &quot;consistent, not authenticated&quot;.</p>"
    )


def _engine(e: Engine) -> str:
    more = "".join(
        f", {html(head(k, 60))} <code>{html(head(v, 200))}</code>"
        for k, v in sorted(e.details.items())[:20]
    )
    print_ = f", fingerprint <code>{html(head(e.fingerprint, 120))}</code>"
    return prose_html(f"{e.arm}: {_facts.engine(e)}") + (print_ if e.fingerprint else "") + more
