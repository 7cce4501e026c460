"""What a command prints when it has a report: a page for people, an object for programs. Pure.

Both say the same facts, in the words that the report's surfaces use. Everything foreign is
escaped here; nothing is written here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from iqaction.json_value import JSON
from iqaction.report import Check, Report, StageResult
from iqaction.surfaces import _changes, _direction, _facts, _figures, _standing
from iqaction.terminal import inline, paragraph, table, width
from iqaction.verdict import EXIT_CODE

_MOST = 12  # lines of one kind on the terminal; report.html holds all
_RIGHT = (False, True, True, False, True, False)


class Outcome(Protocol):
    """What ended: a report, and the folder that proves it."""

    @property
    def report(self) -> Report: ...

    @property
    def folder(self) -> Path: ...

    @property
    def root(self) -> str:
        """sha256 of the sealed evidence, "" where it is not sealed."""
        ...

    @property
    def complete(self) -> bool:
        """True where nothing is left to ask."""
        ...

    @property
    def problem(self) -> str:
        """Why it is not complete; "" where it is."""
        ...


def page(outcome: Outcome, columns: int) -> str:
    """The outcome for people: verdict, checks, why, what next, where the rest is."""
    report = outcome.report
    blocks = [
        _heading(report, columns),
        _list("Not everything was asked", _sentence(outcome.problem), columns),
        _list("The evidence has a problem", _sentences(report.problems), columns),
        _list("The pull request changes its own judge", _changed(report), columns),
        _checks(report, columns),
        _list(
            "Why it is not a PASS" if report.baseline_root else "What was captured",
            [f"{x.title}, {x.verdict.value}: {_facts.why(x)}" for x in _facts.open_lines(report)],
            columns,
        ),
        _list("Where the texts part", [p.summary for p in _facts.partings(report)], columns),
        _list("What this means", _facts.meaning(report), columns),
        _list("Caveats", _facts.caveats(report), columns),
        _list("Next", _facts.next_steps(report), columns),
        _places(outcome),
    ]
    return "\n\n".join(b for b in blocks if b) + "\n"


def as_json(outcome: Outcome) -> dict[str, JSON]:
    """The outcome for programs. Keys are only ever added; ``report.json`` holds the rest."""
    report, folder = outcome.report, outcome.folder
    return {
        "verdict": report.verdict.value,
        "gate": report.gate.value,
        "exit_code": exit_code(report),
        "headline": report.headline,
        "suite": report.suite,
        "complete": outcome.complete,
        "evidence": str(folder),
        "root": outcome.root,
        "report": str(folder / "report.json"),
        "html": str(folder / "report.html"),
        "problem": outcome.problem,
        "problems": list(report.problems),
        "caveats": list(_facts.caveats(report)),
        "next_steps": list(_facts.next_steps(report)),
        "stages": [_stage_json(s) for s in report.stages],
    }


def _stage_json(stage: StageResult) -> dict[str, JSON]:
    cover = stage.coverage
    return {
        "stage": stage.stage,
        "verdict": stage.verdict.value,
        "required": stage.required,
        "prompts": {"required": cover.required, "observed": cover.observed},
        "checks": [_check_json(c) for c in stage.checks],
    }


def _check_json(check: Check) -> dict[str, JSON]:
    estimate = check.estimate
    interval = (None, None) if estimate is None else estimate.interval or (None, None)
    return {
        "metric": check.metric,
        "verdict": check.verdict.value,
        "judged": check.judged,
        "worse_by": _number(None if estimate is None else estimate.value),
        "interval": [_number(x) for x in interval],
        "direction": _direction.of(estimate),
        "unit": "" if estimate is None else estimate.unit,
        "limit": _number(check.limit),
        "reason": check.reason,
        "accepted": check.accepted,
    }


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def exit_code(report: Report) -> int:
    """What the report means for a job: 0 for PASS, and where all that is open is accepted."""
    return 0 if _standing.passes(report) else EXIT_CODE[_standing.verdict(report)]


def _changed(report: Report) -> list[str]:
    return [
        f"{d.field}: {d.path}" + (f" ({d.accepted})" if d.accepted else "")
        for d in report.differences
    ]


def _sentences(problems: Sequence[str]) -> list[str]:
    return [s for p in problems for s in _sentence(p)]


def _sentence(problem: str) -> list[str]:
    """An error of several lines as one item of a list; no item where there is none."""
    said = "; ".join(line.strip() for line in problem.splitlines() if line.strip())
    return [said] if said else []


def _heading(report: Report, columns: int) -> str:
    compared = "; ".join(x for x in (_facts.engines(report), *_changes.said(report.changes)) if x)
    lines = [f"{_standing.word(report)}  inferquality / {inline(report.suite)}"]
    lines += [paragraph(inline(x), columns) for x in (report.headline, compared) if x]
    return "\n".join(lines)


def _checks(report: Report, columns: int) -> str:
    lines = _facts.lines(report)
    if not lines:
        return ""
    level = _figures.levels([x.estimate for x in lines if x.estimate])
    head = ("check", "baseline", "candidate", _figures.worse_by_head(level), "margin", "verdict")
    return "\n".join(table([head, *(_row(x, level) for x in lines)], _RIGHT, columns))


def _row(line: _facts.Line, level: float | None) -> Sequence[str]:
    check, estimate = line.check, line.estimate
    word = (
        line.verdict.value
        + (" (accepted)" if check and check.accepted else "")
        + ("" if line.stage.required else " (not required)")
    )
    if check is None:
        return (inline(line.title), _figures.DASH, _figures.DASH, _figures.DASH, "", word)
    return (
        inline(line.title),
        _figures.arm(check.baseline, check),
        _figures.arm(check.candidate, check),
        _figures.DASH if estimate is None else _figures.worse_by(estimate, level),
        _figures.margin(check.limit, check.estimate),
        word,
    )


def _list(title: str, sentences: Sequence[str], columns: int) -> str:
    if not sentences:
        return ""
    shown = [f"  - {paragraph(inline(s), columns, '    ')}" for s in sentences[:_MOST]]
    if len(sentences) > _MOST:
        shown.append(f"  and {len(sentences) - _MOST} more: see report.html")
    return "\n".join([title, *shown])


def _places(outcome: Outcome) -> str:
    folder = inline(str(outcome.folder))
    pairs = [("report", f"{folder}/report.html"), ("evidence", folder)]
    if outcome.root:
        pairs.append(("root", inline(outcome.root)))
    if not outcome.complete:
        pairs.append(("next", "the same command continues where it stopped"))
    column = max(width(name) for name, _ in pairs)
    return "\n".join(f"{name:{column}}  {value}".rstrip() for name, value in pairs)
