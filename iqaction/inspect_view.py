"""Evidence in full, for a person at a terminal: a prompt, the divergences, the failures. Pure.

Judges nothing: where two texts part, and what that is worth, is the report's word; the texts,
the tokens and the failures are the evidence's. All of it is foreign and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iqaction import item_view
from iqaction.answer_view import draws, every, observations, quoted, tag_name, tries, written
from iqaction.calls import Arm, Failure, FailureKind, Generation, Observation, Scored
from iqaction.counts import counted
from iqaction.errors import ConfigError
from iqaction.json_value import JSON
from iqaction.observed import Observed
from iqaction.prompts import Prompt
from iqaction.report import Divergence, Report, UnitFault
from iqaction.rows import PAD, Rows
from iqaction.spelling import nearest
from iqaction.stages._paths import TRAJECTORY, generation
from iqaction.surfaces import _facts
from iqaction.terminal import fit, fit_end, inline, paragraph, table

_AROUND = 3  # positions shown before and after a divergence
_LISTED = 5  # tokens shown of each list
_OPEN, _SHUT = "⟦", "⟧"  # around the first token that differs


def overview(observed: Observed, report: Report, columns: int) -> str:
    """What the folder holds, and which prompts deserve a look: faults, then divergences."""
    lines = [
        f"{report.verdict.value}  inferquality / {inline(report.suite)}",
        paragraph(inline(report.headline), columns),
        "",
        f"{counted(len(observed.prompts), 'prompt')}, {counted(_count(observed), 'observation')}"
        + (", a capture (no baseline)" if observed.plan.is_capture else ""),
    ]
    found = list(_failures(observed))
    if found:
        lines.append(f"{counted(len(found), 'request')} failed: iqaction inspect DIR --failures")
    for title, faults in _facts.faults(report):
        lines += ["", inline(title), *_fault_lines(faults, columns)]
    lines += ["", divergences(report, columns).rstrip("\n")]
    lines += ["", "A prompt, or an item of another stage, whole: iqaction inspect DIR --prompt ID"]
    return "\n".join(lines) + "\n"


def divergences(report: Report, columns: int) -> str:
    """All divergences as a table, the gravest first."""
    blocks = []
    for parting in _facts.partings(report):
        room = max(10, (columns - 48) // 2)
        rows = [("prompt", "token", "kind", "gap", "baseline wrote", "candidate wrote")]
        rows += [
            (
                inline(d.unit),
                str(d.position) if d.position >= 0 else "?",
                inline(d.kind),
                _facts.gap(d),
                _wrote(d, d.baseline_token, d.baseline_after, room),
                _wrote(d, d.candidate_token, d.candidate_after, room),
            )
            for d in parting.found
        ]
        title = f"Where the texts part ({inline(parting.stage)}): {parting.summary}"
        right = (False, True, False, True, False, False)
        blocks.append("\n".join([title, *table(rows, right, columns)]))
    return "\n\n".join(blocks or ["No texts part."]) + "\n"


def failures(observed: Observed, report: Report, columns: int) -> str:
    """Every request without an answer, and every prompt that the report names as faulty."""
    lines = []
    for title, faults in _facts.faults(report):
        lines += [inline(title), *_fault_lines(faults, columns), ""]
    found = list(_failures(observed))
    lines.append(f"{counted(len(found), 'request')} failed" if found else "No request failed.")
    for whose, stage, observation, failure in found:
        status = f" {failure.status}" if failure.status is not None else ""
        said = (
            f"{tag_name(whose, stage, observation.tag)}: {failure.kind.value}{status}, "
            f"{inline(failure.message)} ({tries(observation)})"
        )
        lines.append("  " + paragraph(said, columns - 2, "    "))
    return "\n".join(lines) + "\n"


def prompt(observed: Observed, report: Report, unit: str, columns: int) -> str:
    """One prompt whole: what was asked, what both arms wrote, where and how the texts part; or
    one item of a stage that has questions of its own.

    Raises
    ------
    ConfigError
        No such prompt or item in the evidence.
    """
    item = None if unit in observed.prompts else item_view.find(observed, unit)
    if item is not None:
        return item_view.page(observed, report, item, columns)
    asked = _find(observed, unit)
    arms = _arms(observed, unit)
    blocks = [f"{inline(asked.id)}  ({inline(asked.bucket)})"]
    faults = [f for s in report.stages for f in s.faults if f.unit == unit]
    if faults:
        blocks[0] += "\n" + "\n".join(_fault_lines(faults, columns))
    blocks += [f"{inline(m.role)}\n{quoted(m.content, columns)}" for m in asked.messages]
    if asked.template_kwargs:
        blocks.append(f"template: {inline(asked.template_kwargs)}")
    found = [d for s in report.stages for d in s.divergences if d.unit == unit]
    for arm in arms:
        marks = [_Mark(d, "baseline" in arm.name) for d in found[:1]]
        blocks.append(_text(arm, marks[0] if marks else None, columns))
    named = _named(observed, arms) if found else {}
    blocks += [_parting(d, arms, named, columns) for d in found]
    if not found and len(arms) > 1 and all(isinstance(a.answer, Generation) for a in arms):
        blocks.append("The report names no divergence of these texts.")
    drawn = draws(observed, unit)
    if drawn:
        blocks.append("\n".join(["What was drawn of it", *(f"  {x}" for x in drawn)]))
    blocks.append(observations(observed, unit, columns))
    return "\n\n".join(blocks) + "\n"


def divergence(observed: Observed, report: Report, unit: str, columns: int) -> str:
    """Where one prompt's texts part: the text around it, both tokens, the lists around it.

    Raises
    ------
    ConfigError
        No such prompt, or no divergence of it.
    """
    _find(observed, unit)
    found = [d for s in report.stages for d in s.divergences if d.unit == unit]
    if not found:
        raise ConfigError(
            f"{inline(unit)}: its texts do not part",
            expected="a prompt of the list that `iqaction inspect DIR` shows",
            next_step=f"iqaction inspect DIR --prompt {inline(unit)}",
        )
    arms = _arms(observed, unit)
    named = _named(observed, arms)
    return "\n\n".join(_parting(d, arms, named, columns) for d in found) + "\n"


def prompt_json(observed: Observed, report: Report, unit: str) -> dict[str, JSON]:
    """One prompt or item whole, for programs. Raises ConfigError where there is none such."""
    item = None if unit in observed.prompts else item_view.find(observed, unit)
    if item is not None:
        return item_view.to_json(report, item)
    asked = _find(observed, unit)
    texts: dict[str, JSON] = {}
    for arm in _arms(observed, unit):
        answer = arm.answer
        if isinstance(answer, Generation):
            texts[arm.name] = {
                "text": answer.text,
                "reasoning": answer.reasoning,
                "finish_reason": answer.finish_reason,
            }
        elif isinstance(answer, Failure):
            texts[arm.name] = {"failure": answer.kind.value, "message": answer.message}
    return {
        "id": asked.id,
        "bucket": asked.bucket,
        "messages": [{"role": m.role, "content": m.content} for m in asked.messages],
        "texts": texts,
        "draws": [*draws(observed, unit)],
        "divergences": [
            divergence_json(d) for s in report.stages for d in s.divergences if d.unit == unit
        ],
        "faults": [
            {"kind": f.kind, "detail": f.detail}
            for s in report.stages
            for f in s.faults
            if f.unit == unit
        ],
    }


def overview_json(observed: Observed, report: Report) -> dict[str, JSON]:
    """What the folder holds, for programs."""
    return {
        "verdict": report.verdict.value,
        "prompts": list(observed.prompts),
        "observations": _count(observed),
        "failures": failures_json(observed),
        "divergences": [divergence_json(d) for s in report.stages for d in s.divergences],
        "faults": [
            {"id": f.unit, "kind": f.kind, "detail": f.detail}
            for s in report.stages
            for f in s.faults
        ],
    }


def divergence_json(d: Divergence) -> dict[str, JSON]:
    """One divergence, for programs. ``token`` is None where only the texts could be compared."""
    return {
        "id": d.unit,
        "token": d.position if d.position >= 0 else None,
        "kind": d.kind,
        "gap_nats": d.gap,
        "baseline_token": d.baseline_token,
        "candidate_token": d.candidate_token,
        "before": d.before,
        "baseline_after": d.baseline_after,
        "candidate_after": d.candidate_after,
    }


def failures_json(observed: Observed) -> list[JSON]:
    """Every request without an answer, for programs."""
    return [
        {
            "stage": stage,
            "arm": observation.tag.arm.value,
            "leg": observation.tag.leg,
            "id": observation.tag.unit,
            "launch": observation.tag.launch,
            "kind": failure.kind.value,
            "status": failure.status,
            "message": failure.message,
            "attempts": observation.attempts,
        }
        for _, stage, observation, failure in _failures(observed)
    ]


@dataclass(frozen=True)
class _Arm:
    """One arm's text of one prompt."""

    name: str
    answer: Generation | Failure | None

    @property
    def rows(self) -> Rows | None:
        return self.answer.rows if isinstance(self.answer, Generation) else None


@dataclass(frozen=True)
class _Mark:
    divergence: Divergence
    is_baseline: bool

    @property
    def token(self) -> str:
        d = self.divergence
        return d.baseline_token if self.is_baseline else d.candidate_token


def _arms(observed: Observed, unit: str) -> list[_Arm]:
    if observed.plan.stage(TRAJECTORY) is None:
        return []  # no texts were asked for
    kept = observed.seen.get(TRAJECTORY, {})
    if observed.baseline is None:
        arms = [_Arm("baseline", generation(kept, Arm.BASELINE, unit))]
        arms += [
            _Arm(f"relaunch {n} of the baseline", generation(kept, Arm.REPEAT, unit, n))
            for n in observed.launches
        ]
        return [arms[0], *(a for a in arms[1:] if a.answer is not None)]
    theirs = observed.baseline.seen.get(TRAJECTORY, {})
    return [
        _Arm("baseline", generation(theirs, Arm.BASELINE, unit)),
        _Arm("candidate", generation(kept, Arm.CANDIDATE, unit)),
    ]


def _find(observed: Observed, unit: str) -> Prompt:
    found = observed.prompts.get(unit)
    if found is None:
        raise ConfigError(
            f"no prompt {inline(unit[:128])!r} in this evidence"
            + nearest(unit, [inline(p) for p in (*observed.prompts, *item_view.names(observed))]),
            expected="an id of the prompt file, or an item that the report names",
            next_step="iqaction inspect DIR lists the prompts worth a look",
        )
    return found


def _text(arm: _Arm, mark: _Mark | None, columns: int) -> str:
    def marked(whole: str) -> str:
        cut = None if mark is None else _offset(whole, arm.rows, mark)
        if cut is None or mark is None:
            return whole
        token = mark.token if whole.startswith(mark.token, cut) else whole[cut : cut + 1]
        end = cut + len(token)
        return whole[:cut] + _OPEN + whole[cut:end] + _SHUT + whole[end:]

    return written(arm.name, arm.answer, columns, marked)


def _offset(whole: str, rows: Rows | None, mark: _Mark) -> int | None:
    """Where in the text the differing token starts; None where that cannot be told."""
    position = mark.divergence.position
    if rows is not None and 0 <= position <= len(rows):
        before = "".join(rows.piece(int(k)) for k in rows.chosen[:position])
        if whole.startswith(before):
            return len(before)
    # Pieces that are parts of characters do not join to the text: look for the report's words.
    at = whole.find(mark.divergence.before + mark.token)
    return None if at < 0 else at + len(mark.divergence.before)


def _parting(d: Divergence, arms: list[_Arm], named: Mapping[int, str], columns: int) -> str:
    where = f"token {d.position}" if d.position >= 0 else "the text (tokens are unknown)"
    both = [f"  both        {fit_end(inline(d.before), columns - 14)}"] if d.before else []
    lines = [
        f"The texts part at {where}: {inline(d.kind)}, gap {_facts.gap(d)}",
        *both,
        f"  baseline    {_here(d.baseline_token, d.baseline_after, columns - 14)}",
        f"  candidate   {_here(d.candidate_token, d.candidate_after, columns - 14)}",
    ]
    lists = _lists(d.position, arms, named, columns) if d.position >= 0 else []
    return "\n".join([*lines, *(["", *lists] if lists else [])])


def _here(token: str, after: str, columns: int) -> str:
    return fit(f"{_OPEN}{inline(token)}{_SHUT}{inline(_facts.rest(token, after))}", columns)


def _lists(at: int, arms: list[_Arm], named: Mapping[int, str], columns: int) -> list[str]:
    """The most likely tokens around a position, one row per position and arm."""
    rows = [("token", "arm", "chosen", "nats", f"the {_LISTED} most likely")]
    for position in range(max(0, at - _AROUND), at + _AROUND + 1):
        for arm in arms:
            if arm.rows is not None and position < len(arm.rows):
                mark = ">" if position == at else " "
                rows.append((f"{mark}{position}", arm.name, *_row(arm.rows, position, named)))
    if len(rows) == 1:
        return []
    shown = table(rows, (True, False, False, True, False), 10_000)
    return [fit(f"  {x}", columns) for x in shown]


def _named(observed: Observed, arms: list[_Arm]) -> Mapping[int, str]:
    """Display text of tokens, by any answer of either run that names them: an engine may list the
    id alone. Nothing where the arms do not name tokens in the same way."""
    kinds = {a.rows.match for a in arms if a.rows is not None}
    if len(kinds) != 1:
        return {}
    answers = (
        observation.answer
        for run in (observed.baseline, observed)
        for kept in (run.seen.values() if run else ())
        for observation in kept.values()
    )
    pieces: dict[int, str] = {}
    for answer in answers:
        rows = answer.rows if isinstance(answer, Generation | Scored) else None
        if rows is not None and rows.match in kinds:
            pieces.update((key, text) for key, text in rows.pieces.items() if text)
    return pieces


def _row(rows: Rows, at: int, pieces: Mapping[int, str]) -> tuple[str, str, str]:
    def shown(key: int) -> str:
        return f'"{fit(inline(rows.pieces.get(key) or pieces.get(key, rows.piece(key))), 16)}"'

    chosen = shown(int(rows.chosen[at]))
    if not rows.usable[at]:
        return chosen, "–", "no usable log-probabilities"
    pairs = zip(rows.top[at][:_LISTED], rows.top_logprob[at][:_LISTED], strict=True)
    listed = [f"{shown(int(key))} {value:.2f}" for key, value in pairs if key != PAD]
    return chosen, f"{rows.logprob[at]:.3f}", "  ".join(listed)


def _failures(observed: Observed) -> Iterator[tuple[str, str, Observation, Failure]]:
    for whose, stage, observation in every(observed):
        answer = observation.answer
        # What a time budget kept from being sent is no request, and so no failed one.
        if isinstance(answer, Failure) and answer.kind is not FailureKind.BUDGET:
            yield whose, stage, observation, answer


def _count(observed: Observed) -> int:
    return sum(len(kept) for kept in observed.seen.values())


def _fault_lines(faults: list[UnitFault], columns: int) -> list[str]:
    return [
        "  "
        + paragraph(f"{inline(f.unit)}: {inline(f.kind)}, {inline(f.detail)}", columns - 2, "  ")
        for f in faults
    ]


def _wrote(d: Divergence, token: str, after: str, room: int) -> str:
    own = fit(inline(token + _facts.rest(token, after)), room - room // 3)
    return fit_end(inline(d.before), room // 3) + own
