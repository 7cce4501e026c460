"""What `iqaction baseline` prints: a page for people, an object for programs. Pure.

Says what a baseline holds, which margins its noise floor can decide, and how far the pinned one
has moved. Everything foreign is escaped here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from iqaction import compatibility
from iqaction.anchor import Anchor
from iqaction.calls import EngineInfo
from iqaction.counts import counted
from iqaction.json_value import JSON
from iqaction.observed import Observed
from iqaction.report import Report
from iqaction.stages._score_floor import Floor, Floors, of_capture
from iqaction.surfaces import _figures
from iqaction.terminal import inline, paragraph, table, width

_RIGHT = (False, True, True, True, True, False)
_HEAD = ("floor of `score`", "mean", "SD", "smallest", "margin", "enough")  # 80 columns in all
_SAID = {True: "yes", False: "no", None: _figures.DASH}


class Held(Protocol):
    """A baseline that is open; see :class:`iqaction.baseline.Held`."""

    @property
    def observed(self) -> Observed: ...
    @property
    def report(self) -> Report: ...
    @property
    def root(self) -> str: ...
    @property
    def day(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    @property
    def engine(self) -> EngineInfo | None: ...


def page(one: Held, refusals: Sequence[str], columns: int) -> str:
    """What the baseline holds and can decide."""
    floors = of_capture(one.observed)
    blocks = [
        _pairs(_facts(one)),
        _stages(one, columns),
        _floors(floors, columns),
        _verdict(one, floors, refusals, columns),
    ]
    return "\n\n".join(b for b in blocks if b) + "\n"


def _facts(one: Held) -> list[tuple[str, str]]:
    observed, engine = one.observed, one.engine
    restarted = len(observed.launches) - len(observed.not_restarted)
    launches = f"1 and {counted(len(observed.launches), 'relaunch')}"
    if observed.not_restarted:
        launches += f", {len(observed.launches) - restarted} of them without a restart"
    pairs = [("captured", one.day or "not recorded")]
    if engine is not None:
        told = [engine.dialect, engine.version, f"model {engine.model or 'unnamed'}"]
        pairs.append(("engine", " ".join(x for x in told if x)))
        pairs += sorted(engine.details.items())
    pairs += [(k, v) for k, v in sorted(observed.circumstances.machine.items())]
    pairs += [(k, v) for k, v in compatibility.key(observed).items() if v]
    pairs += [("launches", launches), ("root", one.root)]
    if one.size:
        pairs += [("size", f"{one.size:,} bytes"), ("sha256", one.sha256)]
    return pairs


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    shown = [(inline(k), inline(v)) for k, v in pairs]
    column = max(width(k) for k, _ in shown)
    return "\n".join(f"{k:{column}}  {v}" for k, v in shown)


def _stages(one: Held, columns: int) -> str:
    lines = []
    for stage in one.report.stages:
        cover = stage.coverage
        head = f"{stage.stage}: {cover.observed} of {cover.required} can be compared with"
        reasons = [c.reason for c in stage.checks if c.reason]
        lines += [f"  - {paragraph(inline(x), columns, '    ')}" for x in (head, *reasons)]
    return "\n".join(["Stages", *lines]) if lines else ""


def _floors(floors: Floors | None, columns: int) -> str:
    if floors is None or not floors.launches:
        return ""
    rows = [_HEAD, *(_row(f) for f in floors.metrics)]
    said = (
        f"Over {counted(floors.prompts, 'prompt')} of the first look and "
        f"{counted(floors.launches, 'relaunch')}. Mean: how far the relaunches are from the "
        "reference; of the NLL its level, of which only a change is judged. SD: of the launches' "
        "means. Smallest: the smallest margin at which one more launch of the same engine would "
        "PASS nine times in ten. Margin: the plan's. Enough: whether that is no less."
    )
    if any(_figures.DASH in row for row in rows):
        said += f" {_figures.DASH}: not known, or the plan gives none."
    return "\n".join([*table(rows, _RIGHT, columns), paragraph(said, columns)])


def _row(floor: Floor) -> Sequence[str]:
    def shown(value: float | None) -> str:
        return _figures.DASH if value is None else f"{value:.3g}"

    decides = _SAID[floor.decides]
    numbers = (floor.mean, floor.tau, floor.smallest, floor.margin)
    return (floor.title, *(shown(n) for n in numbers), decides)


def _verdict(one: Held, floors: Floors | None, refusals: Sequence[str], columns: int) -> str:
    said = [f"It cannot be compared with: {r}" for r in refusals]
    if not refusals and floors is not None and floors.why_not:
        said.append(f"`score` cannot PASS against it: {floors.why_not}")
    weak = [f.title for f in floors.metrics if f.decides is False] if floors else []
    if weak:
        said.append(
            f"Its launches differ too much for the plan's margin of {', '.join(weak)}: an "
            "unchanged engine would often be UNPROVEN. Capture with more relaunches"
        )
    if not said:
        said.append("A candidate can be compared with it: iqaction run --baseline PATH ...")
    return "\n".join(paragraph(inline(s), columns) for s in said)


def as_json(one: Held, refusals: Sequence[str]) -> dict[str, JSON]:
    """The same for programs. Keys are only ever added."""
    floors = of_capture(one.observed)
    engine = one.engine
    return {
        "root": one.root,
        "captured_on": one.day,
        "size": one.size,
        "sha256": one.sha256,
        "engine": None
        if engine is None
        else {
            "dialect": engine.dialect,
            "version": engine.version,
            "model": engine.model,
            "details": dict(engine.details),
        },
        "machine": dict(one.observed.circumstances.machine),
        "plan_sha256": one.observed.plan.sha256,
        "settings_sha256": one.observed.plan.settings_sha256(),
        "prompts_sha256": one.observed.plan.prompts_sha256,
        "prompts": len(one.observed.plan.prompt_ids),
        "relaunches": len(one.observed.launches),
        "not_restarted": list(one.observed.not_restarted),
        "key": dict[str, JSON](compatibility.key(one.observed)),
        "refused": list(refusals),
        "stages": [
            {
                "stage": s.stage,
                "required": s.coverage.required,
                "observed": s.coverage.observed,
                "said": [c.reason for c in s.checks],
            }
            for s in one.report.stages
        ],
        "floor": None if floors is None else _floors_json(floors),
    }


def _floors_json(floors: Floors) -> dict[str, JSON]:
    return {
        "prompts": floors.prompts,
        "relaunches": floors.launches,
        "why_not": floors.why_not,
        "metrics": [
            {
                "metric": f.metric,
                "unit": f.unit,
                "mean": f.mean,
                "launch_sd": f.tau,
                "smallest_margin": f.smallest,
                "margin": f.margin,
                "decides": f.decides,
            }
            for f in floors.metrics
        ],
    }


# --- pins -----------------------------------------------------------------------------------


def pin_page(
    made: Anchor,
    step: Mapping[str, float] | None,
    margins: Mapping[str, float],
    beyond: Sequence[str],
    columns: int,
) -> str:
    """What was pinned, and how far that is from the first anchor."""
    pins = made.pins
    lines = [f"pinned  {pins[-1].root}"]
    if len(pins) == 1:
        return "\n".join([*lines, "It is the first anchor: there is nothing to drift from."]) + "\n"
    rows: list[tuple[str, ...]] = [("worse by", "this step", "since the first anchor", "margin")]
    for metric, limit in margins.items():
        figures = ((step or {}).get(metric), made.since_first(metric), limit)
        shown = ("not known" if f is None else f"{f:.4g}" for f in figures)
        rows.append((metric, *shown))
    lines += table(rows, (False, True, True, True), columns)
    steps = counted(len(pins) - 1, "step")
    lines.append(f"first anchor {pins[0].root[:12]} of {pins[0].pinned_on}, {steps}")
    for metric in beyond:
        total = made.since_first(metric)
        if total is None:
            said = f"{metric}: the sum since the first anchor is not known: a step is unmeasured"
        else:
            said = (
                f"WARNING {metric}: the steps since the first anchor add up to {total:.4g}, beyond "
                f"the margin {margins[metric]:g}: no single change broke it, all of them together "
                "did"
            )
        lines.append(paragraph(said, columns))
    return "\n".join(lines) + "\n"


def pin_json(
    made: Anchor,
    step: Mapping[str, float] | None,
    margins: Mapping[str, float],
    beyond: Sequence[str],
) -> dict[str, JSON]:
    """The same for programs."""
    return {
        "root": made.root,
        "pins": len(made.pins),
        "first_root": made.pins[0].root,
        "step": None if step is None else dict(step),
        "since_first": {m: made.since_first(m) for m in margins},
        "margins": dict(margins),
        "beyond": list(beyond),
    }
