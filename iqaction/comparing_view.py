"""Two evidence folders beside each other, for a person at a terminal and for programs. Pure.

Knows the comparison and the words of the report's surfaces; decides nothing. Everything foreign
is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iqaction.comparing import NO_VERDICT, Comparison, Line, Party, Stage
from iqaction.json_value import JSON
from iqaction.report import Contrast, Divergence, Mover
from iqaction.surfaces import _changes, _direction, _facts, _figures, _movers, _standing
from iqaction.terminal import fit, fit_end, inline, paragraph
from iqaction.verdict import Verdict

SHOWN = 5  # prompts of one kind on the terminal
_MOST = 20  # for programs, and on the page
_SENTENCES = 12
_PROBLEMS = 3
_INDENT = 4
_LEVEL = 0.95  # of every interval that is computed here; another one is written out


def page(comparison: Comparison, columns: int) -> str:
    """Which two, whether they answer the same question, how the engines differ, and then stage
    by stage what changed."""
    blocks = [
        _parties(comparison, columns),
        _list(heading(comparison), comparison.asked, columns),
        _list("Engine and settings", differing(comparison), columns),
        *(_stage(s, columns) for s in comparison.stages),
        paragraph(NO_VERDICT, columns),
    ]
    return "\n\n".join(b for b in blocks if b) + "\n"


def heading(comparison: Comparison) -> str:
    """Whether both answer the same question."""
    if not comparison.asked:
        return "Both were asked the same, and are held against the same baseline."
    return "They were not asked the same. What differs:"


def differing(comparison: Comparison) -> list[str]:
    """What differs between the engines, or that nothing that is known does."""
    if comparison.changes:
        return _changes.said(comparison.changes)
    known = comparison.a.engine is not None and comparison.b.engine is not None
    return ["the same, as far as they are known" if known else "not known of both"]


def who(party: Party) -> str:
    """What a folder holds, in one line."""
    root = party.observed.plan.baseline_root[:12]
    kind = f"compared with {root}" if root else "a captured reference"
    engine = party.engine
    asked = f"{engine.dialect} {engine.version}, {engine.model}" if engine else "no engine"
    return f"{kind}; {' '.join(asked.split())}; {party.report.headline}"


def problems(party: Party) -> list[str]:
    """What is wrong with a folder's evidence itself, a line each."""
    found = party.report.problems
    more = len(found) - _PROBLEMS
    said = [f"problem: {' '.join(p.split())}" for p in found[:_PROBLEMS]]
    return [*said, *([f"problems in all: {len(found)}"] if more > 0 else [])]


def word(party: Party) -> str:
    """A folder's own verdict; a capture has none."""
    return "capture" if party.observed.plan.is_capture else _standing.word(party.report)


def verdicts(a: Verdict | None, b: Verdict | None) -> str:
    """Two verdicts as "PASS → FAIL", as one word where they are the same."""
    before, now = (v.value if v else _figures.DASH for v in (a, b))
    if a is None and b is None:
        return ""
    return now if a is b else f"{before} → {now}"


def values(contrast: Contrast) -> str:
    """Both runs' figures, as "0.0008 → 0.3056"."""
    if not _figures.known(contrast.a) and not _figures.known(contrast.b):
        return ""
    a, b = (_figures.value(x, contrast.unit) for x in (contrast.a, contrast.b))
    return f"{a} → {b}"


def by(contrast: Contrast) -> str:
    """B less A with its interval after the direction in words, as "worse: 0.30 (0.28 to 0.33)"."""
    estimate = contrast.estimate
    if estimate is None:
        return ""
    figure = _figures.worse_by(estimate, _LEVEL)
    if figure == _figures.DASH:
        return ""
    word = _direction.of(estimate)
    return f"{'difference' if word == _direction.UNKNOWN else word}: {figure}"


def _parties(comparison: Comparison, columns: int) -> str:
    a, b = comparison.a, comparison.b
    lines = [f"{word(a)} → {word(b)}  iqaction diff"]
    for letter, party in (("A", a), ("B", b)):
        said = f"{letter}  {inline(party.name)}: {inline(who(party))}"
        lines.append(paragraph(said, columns, "   "))
        lines += [f"   {paragraph(inline(x), columns, '   ')}" for x in problems(party)]
    is_sound = not (problems(a) or problems(b))
    if is_sound and a.observed.root and a.observed.root == b.observed.root:
        lines.append("Both are the same evidence.")
    return "\n".join(lines)


def _list(title: str, sentences: Sequence[str], columns: int) -> str:
    shown = [f"  - {paragraph(inline(s), columns, '    ')}" for s in sentences[:_SENTENCES]]
    more = len(sentences) - len(shown)
    shown += [f"  and {more} more: --json"] if more > 0 else []
    return "\n".join([title, *shown])


def _stage(stage: Stage, columns: int) -> str:
    units = f"{stage.compared:,} compared" if stage.compared else ""
    said = ", ".join(x for x in (verdicts(stage.a, stage.b), units) if x)
    lines = [f"{inline(stage.stage)}: {said}" if said else inline(stage.stage)]
    for line in stage.lines:
        lines += _line(line, columns)
    if stage.note:
        lines.append(f"  {paragraph(inline(stage.note), columns, '  ')}")
    lines += _texts(stage.divergences, columns)
    lines += _moved(stage.movers, columns)
    return "\n".join(lines)


def _line(line: Line, columns: int) -> list[str]:
    contrast = line.contrast
    verdict = verdicts(line.a, line.b)
    title = fit(inline(contrast.title), columns - 4 - len(verdict))
    out = [f"  {title}{f': {verdict}' if verdict else ''}"]
    figures = ", ".join(x for x in (values(contrast), by(contrast)) if x)
    said = "; ".join(x for x in (figures, contrast.note) if x)
    return [*out, f"    {paragraph(inline(said), columns, '    ')}"] if said else out


def _texts(found: Sequence[Divergence], columns: int) -> list[str]:
    if not found:
        return []
    lines = [f"  Where the texts part: {counted(found)}"]
    for d in found[:SHOWN]:
        place = f"token {d.position}" if d.position >= 0 else "tokens not known"
        lines.append(f"    {inline(d.unit)}: {place}, {inline(d.kind)}, gap {_facts.gap(d)}")
        lines += _both(
            d.before,
            d.baseline_token + _facts.rest(d.baseline_token, d.baseline_after),
            d.candidate_token + _facts.rest(d.candidate_token, d.candidate_after),
            columns,
        )
    return [*lines, *_more(len(found))]


def counted(found: Sequence[Divergence]) -> str:
    """How many of which kind, as "6 real, 2 ties"."""
    kinds = [d.kind for d in found]
    pairs = (("real", "real"), ("unknown", "unknown"), ("shift", "shifts"), ("tie", "ties"))
    return ", ".join(f"{kinds.count(k)} {name}" for k, name in pairs if k in kinds)


def _moved(found: Sequence[Mover], columns: int) -> list[str]:
    if not found:
        return []
    lines = [f"  {_movers.TITLE}:"]
    for m in found[:SHOWN]:
        place = f" (token {m.position})" if m.position >= 0 else ""
        lines.append(f"    {inline(m.unit)}: {inline(_movers.said(m))}{place}")
        lines += _both(m.before, m.baseline, m.candidate, columns)
    return [*lines, *_more(len(found))]


def _both(before: str, a: str, b: str, columns: int) -> list[str]:
    room = columns - _INDENT - 8
    shared = [f"      both  {fit_end(inline(before.rstrip()), room)}"] if before.strip() else []
    return [
        *shared,
        *(f"      {n}     {fit(inline(t), room)}".rstrip() for n, t in (("A", a), ("B", b))),
    ]


def _more(n: int) -> list[str]:
    return [f"    and {n - SHOWN} more: --json"] if n > SHOWN else []


# --- for programs ---------------------------------------------------------------------------


def as_json(comparison: Comparison) -> dict[str, JSON]:
    """The comparison for programs. Keys are only ever added."""
    return {
        "exit_code": 0,
        "is_a_verdict": False,
        "a": _party_json(comparison.a),
        "b": _party_json(comparison.b),
        "same_question": not comparison.asked,
        "question_differs_in": list(comparison.asked),
        "changes": [
            {"what": c.what, "before": c.before, "after": c.after} for c in comparison.changes
        ],
        "stages": [_stage_json(s) for s in comparison.stages],
    }


def _party_json(party: Party) -> dict[str, JSON]:
    return {
        "folder": party.name,
        "root": party.observed.root,
        "baseline_root": party.observed.plan.baseline_root,
        "is_capture": party.observed.plan.is_capture,
        "verdict": party.report.verdict.value,
        "gate": party.report.gate.value,
        "problems": list(party.report.problems),
    }


def _stage_json(stage: Stage) -> dict[str, JSON]:
    return {
        "stage": stage.stage,
        "a": _value(stage.a),
        "b": _value(stage.b),
        "compared": stage.compared,
        "note": stage.note,
        "figures": [_line_json(x) for x in stage.lines],
        "movers": [_mover_json(m) for m in stage.movers[:_MOST]],
        "divergences": [_divergence_json(d) for d in stage.divergences[:_MOST]],
        "divergences_in_all": len(stage.divergences),
    }


def _line_json(line: Line) -> dict[str, JSON]:
    contrast, estimate = line.contrast, line.contrast.estimate
    interval = (None, None) if estimate is None else estimate.interval or (None, None)
    return {
        "metric": contrast.metric,
        "title": contrast.title,
        "unit": contrast.unit,
        "a": _number(contrast.a),
        "b": _number(contrast.b),
        "paired": estimate is not None,
        "worse_by": _number(None if estimate is None else estimate.value),
        "interval": [_number(x) for x in interval],
        "level": None if estimate is None else _number(estimate.level),
        "n": None if estimate is None else estimate.n_units,
        "direction": _direction.of(estimate),
        "note": contrast.note,
        "verdict_a": _value(line.a),
        "verdict_b": _value(line.b),
    }


def _mover_json(m: Mover) -> dict[str, JSON]:
    return {
        "id": m.unit,
        "what": m.what,
        "a": _number(m.value_before),
        "b": _number(m.value_after),
        "token": m.position if m.position >= 0 else None,
        "before": m.before,
        "a_has": m.baseline,
        "b_has": m.candidate,
    }


def _divergence_json(d: Divergence) -> dict[str, JSON]:
    return {
        "id": d.unit,
        "token": d.position if d.position >= 0 else None,
        "kind": d.kind,
        "gap_nats": _number(d.gap),
        "before": d.before,
        "a_wrote": d.baseline_token + _facts.rest(d.baseline_token, d.baseline_after),
        "b_wrote": d.candidate_token + _facts.rest(d.candidate_token, d.candidate_after),
    }


def _value(verdict: Verdict | None) -> str | None:
    return verdict.value if verdict is not None else None


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
