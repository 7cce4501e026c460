"""What stands around a judgement, in Markdown: its heading, the run and its links, problems, what
the pull request changes about its own judge, the machine and the evidence.
"""

from __future__ import annotations

from iqaction.report import Difference, Report
from iqaction.surfaces import _facts, _links, _origin, _searched, _since, _standing
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import code, fence, head, line, prose
from iqaction.surfaces._markdown import WHOLE, block, bold, bullets, join, sentence
from iqaction.surfaces._origin import Marks
from iqaction.verdict import Verdict

ACCEPT = ".inferquality/accept.yml"
JUDGE_CHANGED = "This pull request changes what it is judged by"


def top(report: Report, limits: Limits) -> str:
    """Heading, what was compared, and the run: the lines that are always there."""
    lines = (
        heading(report, limits),
        _since.standing(report, limits),
        compared(report, limits),
        run(report, limits),
    )
    return "\n".join(x for x in lines if x)


def heading(report: Report, limits: Limits) -> str:
    suite = prose(line(report.suite, _facts.NAME))
    headline = sentence(report.headline, limits, most=300)
    return f"### {_standing.word(report)}  inferquality / {suite}: {headline}"


def compared(report: Report, limits: Limits) -> str:
    """One line: what changed and where, who answered on what, which baseline."""
    return " · ".join(sentence(p, limits) for p in _origin.compared(report, limits.names))


def run(report: Report, limits: Limits) -> str:
    """One line on the run and where its evidence is."""
    marks = Marks(_links.markdown, lambda x: f"`{x}`", lambda x: sentence(x, limits))
    return _origin.run(report, marks)


def problems(report: Report, limits: Limits) -> str:
    """Faults of the evidence and of its circumstances, in full; each keeps the verdict from
    PASS."""
    found = _facts.unique(report.problems)
    if not found:
        return ""
    not_run = report.verdict is Verdict.NOT_RUN
    title = "Why nothing was judged" if not_run else "The evidence has a problem"
    parts = [f"**{title}**"]
    for problem in found[: limits.names]:
        first, _, rest = problem.strip().partition("\n")
        said = f"- {sentence(first, limits)}"
        # A list goes on after its neighbour; a block stands by itself.
        if rest.strip():
            parts += [said, "", block(rest, limits), ""]
        else:
            parts.append(said)
    more = len(found) - limits.names
    parts += [f"- And {more:,} more: {WHOLE}."] if more > 0 else []
    return "\n".join(parts).strip()


def differences(report: Report, limits: Limits) -> str:
    """What the pull request changes about its own judge, each with its diff."""
    shown = report.differences[: limits.names]
    parts = [_difference(d, limits) for d in shown]
    more = len(report.differences) - len(shown)
    parts += [f"{more:,} more: {WHOLE}."] if more > 0 else []
    return join(bold(JUDGE_CHANGED), *parts) if parts else ""


def _difference(d: Difference, limits: Limits) -> str:
    said = f"{sentence(d.field, limits, most=_facts.NAME)}: {code(head(d.path, 300))}"
    if d.accepted:
        said += f". {sentence(_facts.granted(d.accepted), limits)}"
    return join(said, block(d.detail, limits, info=_info(d.detail)))


def _info(detail: str) -> str:
    """The language of the block: a diff is coloured, a sentence is not."""
    return "diff" if "@@ " in detail[:4000] else "text"


def offer(report: Report, limits: Limits) -> str:
    """What a maintainer would write to accept what is open, folded away: it is not the first
    thing to think of."""
    if not report.offer or _standing.passes(report):
        return ""
    said = (
        f"If this is wanted: on the base branch, in `{ACCEPT}`, with why and who, the job is no "
        "longer held to it."
    )
    return join(bold("Accepting it"), said, block(report.offer, limits, info="yaml"))


def evidence(report: Report, limits: Limits) -> str:
    """Where the baseline was looked for, hashes, versions and the machine, and the commands that
    check and open the evidence."""
    known = [f"{name} {code(text)}" for name, text in _facts.identities(report)]
    facts = _origin.machine(report)
    machine = [
        f"{sentence(n, limits, most=_facts.NAME)} {code(v)}" for n, v in facts[: limits.names]
    ]
    more = len(facts) - len(machine)
    machine += [f"{more:,} more facts of the machine: {WHOLE}."] if more > 0 else []
    who = [sentence(f"{e.arm}: {_facts.engine(e)}", limits) for e in report.engines[: limits.names]]
    return join(
        _searched.markdown(report, limits),
        "**Evidence**",
        bullets([*known, *who, *machine]),
        fence(_facts.commands(report), "sh"),
    )
