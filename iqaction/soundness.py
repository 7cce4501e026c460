"""Can a stored plan be judged by? Pure; knows the stages' parameters, and no file.

A plan file is checked when it is read; ``plan.json`` of an evidence folder may be anybody's, and
its schema does not know what a stage may be asked with.
"""

from __future__ import annotations

import math
from dataclasses import replace

from iqaction import stages
from iqaction.errors import EvidenceError
from iqaction.plan import Plan, StageSpec, Value
from iqaction.stages._base import Param

_NUMBERS = ("float", "share", "duration")
_TEXTS = ("text", "url", "object")
_MOST_SEED = 2**63


def completed(plan: Plan) -> Plan:
    """The plan with the parameters that it was made before there were, at their defaults.

    Its sha256 is another one: what is hashed is the plan as it is stored.

    Raises
    ------
    EvidenceError
        Naming the stage and the parameter.
    """
    counts = list(plan.looks)
    if not counts or counts != sorted({n for n in counts if 0 <= n <= len(plan.prompt_ids)}):
        raise _unsound("its looks are not rising counts of its prompts")
    if len({s.stage for s in plan.stages}) < len(plan.stages):
        raise _unsound("a stage is there twice")
    return replace(plan, stages=tuple(_spec(s) for s in plan.stages))


def _spec(spec: StageSpec) -> StageSpec:
    if spec.stage not in stages.names():
        raise _unsound(f"there is no stage {spec.stage[:40]!r}")
    if not 0 <= spec.seed < _MOST_SEED:
        raise _unsound(f"{spec.stage}: its seed is no seed")
    for margin in spec.margins:
        if not (math.isfinite(margin.limit) and margin.limit >= 0):
            raise _unsound(f"{spec.stage}: the margin of {margin.metric[:40]!r} is none")
    declared = stages.load(spec.stage).params
    params = {**{p.name: p.default for p in declared}, **spec.params}
    for param in declared:
        value = params[param.name]
        if value != param.default and not _is_one(param, value):
            raise _unsound(f"{spec.stage}: {param.name} is none")
    return replace(spec, params=params)


def _unsound(what: str) -> EvidenceError:
    return EvidenceError(
        f"plan.json: {what}",
        expected="a plan as this version or an earlier one wrote it",
        next_step="judge it with the version that wrote it",
    )


def _is_one(param: Param, value: Value) -> bool:
    match param.kind:
        case "int":
            return _whole(param, value)
        case "int_or_auto":
            return value == "auto" or _whole(param, value)
        case "bool":
            return isinstance(value, bool)
        case "choice":
            return isinstance(value, str) and value in param.choices
        case "names":
            return isinstance(value, tuple) and all(
                isinstance(x, str) and x in param.choices for x in value
            )
        case "numbers":
            return (
                isinstance(value, tuple) and bool(value) and all(_number(param, x) for x in value)
            )
        case kind if kind in _NUMBERS:
            return _number(param, value)
        case kind if kind in _TEXTS:
            return isinstance(value, str)
    return False


def _whole(param: Param, value: Value) -> bool:
    return isinstance(value, int) and _number(param, value)


def _number(param: Param, value: Value) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    low = -math.inf if param.low is None else param.low
    high = math.inf if param.high is None else param.high
    return low <= value <= high and abs(value) < math.inf
