"""Where a judgement comes from: what was changed and where, on which machine, against which
baseline. Prose in the sense of ``_escape``; no markup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from iqaction.report import ChangedLine, Report
from iqaction.surfaces import _changes, _facts, _links
from iqaction.surfaces._escape import head, hex_or_nothing

FOLDER = "evidence"  # what the folder is called in the run
LINES = 3  # changed lines shown that no change accounts for
_LINE = 80  # characters of one of them
_FACT = 200  # characters of one fact of the machine
_SHORTEST = 3  # characters of a value that is looked for in a line
_MOST_LINES = 200  # looked at
_SEPARATORS = re.compile(r"[\s=,\"'\[\]]+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]{1,120}\Z")
_GPU = re.compile(r"gpu(?:[ _-]?\d{1,3})?\Z", re.IGNORECASE)
_MAKER = re.compile(r"\A(?:NVIDIA )?(?:GeForce )?")
_DAY = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])-([0-3]\d)T", re.ASCII)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def compared(report: Report, most: int) -> list[str]:
    """What was changed and where, who answered on what, and which baseline; ``most`` changes."""
    changes = report.changes[:most]
    lines = report.changed_lines[:_MOST_LINES]
    parts, told = [], set()
    for change, said in zip(changes, _changes.said(changes), strict=True):
        found = next((x for x in lines if _holds(x, change.after)), None)
        if found is None:
            parts.append(said)
        else:
            told.add(found)
            parts.append(f"{said} ({place(found)})")
    more = len(report.changes) - len(changes)
    parts += [f"and {more:,} more changes"] if more > 0 else []
    parts += _other([x for x in report.changed_lines if x not in told], most)
    parts += [_changes.same(report)]
    return [x for x in (*parts, _facts.engines(report), hardware(report), baseline(report)) if x]


@dataclass(frozen=True)
class Marks:
    """How a surface writes a link (of an address that ``_links`` has made), code, and a foreign
    text."""

    link: Callable[[str, str], str]
    code: Callable[[str], str]
    foreign: Callable[[str], str]


def run(report: Report, marks: Marks) -> str:
    """One line: the run, its attempt, where the evidence is, and which run measured."""
    now = report.run
    if not now.run_id:
        return ""
    page, artifact = _links.run_url(now), _links.artifact_url(now)
    parts = [marks.link("run", page)] if page else []
    parts += [f"attempt {now.attempt:,}"] if now.attempt > 1 else []
    if artifact:
        parts.append(marks.link("evidence", artifact))
    elif report.evidence_root:
        parts.append(f"evidence: folder {marks.code(FOLDER)} of this run")
    if now.republished:
        ident, url = _links.measured(now)
        where = marks.link(f"run {ident}", url) if url else marks.foreign(now.republished)
        parts.append(f"measured in {where}; this run measured nothing anew")
    return " · ".join(parts)


def _holds(line: ChangedLine, value: str) -> bool:
    """True where the line's text says ``value``, as "--a=b", "--a b" or within a list."""
    wanted = _SEPARATORS.sub(" ", head(value, _facts.NAME)).strip()
    if len(wanted) < _SHORTEST:
        return False
    tag = "[vV]?" if wanted[0].isdigit() else ""  # an engine's 0.27.1 is an image's v0.27.1
    # "v0.2" is not said by "v0.27", nor "q4" by "seq4".
    word = rf"(?<![^\W_]){tag}{re.escape(wanted)}(?![^\W_])"
    return re.search(word, _SEPARATORS.sub(" ", head(line.text, 2000))) is not None


def _other(lines: list[ChangedLine], most: int) -> list[str]:
    shown = [
        f"{place(x)} {_changes.quoted(head(' '.join(head(x.text, 2000).split()), _LINE))}"
        for x in lines[: min(LINES, most)]
    ]
    more = len(lines) - len(shown)
    return [*shown, *([f"and {more:,} more changed lines"] if more > 0 else [])]


def place(line: ChangedLine) -> str:
    """File and line, as "compose.yml:31"; a path with anything else in it as code."""
    name = f"{head(line.path, _facts.NAME)}:{line.line}"
    return name if _PLAIN_PATH.match(line.path) else _changes.quoted(name)


def hardware(report: Report) -> str:
    """The GPUs in a few words, as "2 x RTX 3090"; "" where none is known."""
    named = Counter(
        _MAKER.sub("", head(value, _FACT).split(",")[0].strip())
        for name, value in report.machine.items()
        if _GPU.match(name)
    )
    found = [f"{n} x {name}" if n > 1 else name for name, n in sorted(named.items()) if name]
    return ", ".join(head(x, _facts.NAME) for x in found[:3])


def machine(report: Report) -> list[tuple[str, str]]:
    """What it ran on, all that is known, by name."""
    return [
        (head(name, _facts.NAME), head(value, _FACT))
        for name, value in sorted(report.machine.items())
        if value
    ]


# --- the baseline ---------------------------------------------------------------------------


def baseline(report: Report) -> str:
    """The baseline's day and commit, else its evidence root in short; "" where there is none."""
    run, root = report.baseline_run, hex_or_nothing(report.baseline_root)
    when, sha = day(run.started_at, report.run.started_at), hex_or_nothing(run.head_sha)
    if not root:
        return ""
    commit = f"`{sha[:7]}`" if sha else ""
    if when:
        return f"baseline of {when} ({commit})" if commit else f"baseline of {when}"
    return f"baseline of {commit}" if commit else f"against baseline `{root[:12]}`"


def day(started_at: str, now: str = "") -> str:
    """The day a run started, as "26 Nov"; with its year where that is not this run's."""
    found = _DAY.match(started_at)
    if found is None:
        return ""
    year = "" if now.startswith(found[1]) else f" {found[1]}"
    return f"{int(found[3])} {_MONTHS[int(found[2]) - 1]}{year}"
