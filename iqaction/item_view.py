"""One item of a stage with questions of its own, whole, for a person at a terminal. Pure.

What was asked, what is right, what each side answered and by which rule that was read. Judges
nothing; what models wrote is escaped by ``answer_view``.
"""

from __future__ import annotations

from collections.abc import Iterator

from iqaction import stages
from iqaction.answer_view import observations, quoted, written
from iqaction.calls import Failure, Generation
from iqaction.json_value import JSON
from iqaction.observed import Observed
from iqaction.report import Report, UnitFault
from iqaction.stages._base import Context
from iqaction.stages._unit import Side, Unit
from iqaction.terminal import inline, paragraph


def find(observed: Observed, name: str) -> Unit | None:
    """The item of that name; None where no stage of the plan has one."""
    for spec in observed.plan.stages:
        context = Context(
            spec,
            observed.plan,
            observed.prompts,
            observed.seen,
            baseline=observed.baseline,
            engines=observed.engines,
            data=observed.data.get(spec.stage, b""),
        )
        found = stages.load(spec.stage).unit(context, name)
        if found is not None:
            return found
    return None


def names(observed: Observed) -> Iterator[str]:
    """The items that were asked, of stages that have their own."""
    for spec in observed.plan.stages:
        if not stages.load(spec.stage).about_prompts:
            found = {tag.unit for tag in observed.seen.get(spec.stage, {})}
            yield from sorted(found - set(observed.prompts))


def page(observed: Observed, report: Report, item: Unit, columns: int) -> str:
    """The item as text."""
    head = f"{inline(item.id)}  ({inline(item.about)}; right is {inline(item.right)})"
    lines = [
        "  " + paragraph(f"{inline(f.kind)}: {inline(f.detail)}", columns - 2, "    ")
        for f in _faults(report, item)
    ]
    blocks = ["\n".join([head, *lines])]
    blocks += [f"{inline(m.role)}\n{quoted(m.content, columns)}" for m in item.messages]
    if item.template_kwargs:
        blocks.append(f"template: {inline(item.template_kwargs)}")
    for side in item.sides:
        blocks.append(f"{written(side.name, side.answer, columns)}\n  {_read(side)}")
    blocks.append(observations(observed, item.id, columns))
    return "\n\n".join(blocks) + "\n"


def to_json(report: Report, item: Unit) -> dict[str, JSON]:
    """The item for programs."""
    return {
        "id": item.id,
        "bucket": item.stage,
        "about": item.about,
        "messages": [{"role": m.role, "content": m.content} for m in item.messages],
        "right": item.right,
        "texts": {side.name: _side_json(side) for side in item.sides},
        "divergences": [],
        "faults": [{"kind": f.kind, "detail": f.detail} for f in _faults(report, item)],
    }


def _faults(report: Report, item: Unit) -> list[UnitFault]:
    return [f for s in report.stages for f in s.faults if f.unit == item.id]


def _read(side: Side) -> str:
    """How the answer was read, and what came of it."""
    said = side.graded
    if not said.shown:
        return f"{said.kind.value}{f': {inline(said.why)}' if said.why else ''}"
    rule = f", read by: {inline(said.rule)}" if said.rule else ""
    return f"{said.kind.value}: {inline(said.shown)}{rule}"


def _side_json(side: Side) -> dict[str, JSON]:
    answer, said = side.answer, side.graded
    body: dict[str, JSON] = {
        "outcome": said.kind.value,
        "right": said.right,
        "read": said.shown or None,
        "rule": said.rule or None,
        "why": said.why or None,
    }
    if isinstance(answer, Generation):
        body |= {
            "text": answer.text,
            "reasoning": answer.reasoning,
            "finish_reason": answer.finish_reason,
        }
    elif isinstance(answer, Failure):
        body |= {"failure": answer.kind.value, "message": answer.message}
    return body
