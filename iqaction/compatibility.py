"""Can this baseline be compared with? The fields that both arms must have in common. Pure.

Knows plans and observed evidence as data; no stage by name, no file, no clock. What makes a
candidate a candidate may differ: engine, version, image, flags, quantization, served name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iqaction import days, stages
from iqaction.calls import Arm, EngineInfo
from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec, Value

REFRESH = "`iqaction baseline capture --plan PLAN --out DIR`"
IDENTITY, TOKENIZER, TEMPLATE = "model_identity", "tokenizer", "chat template"
PROMPTS, CONCURRENCY, GPU, HARNESS = "prompt file", "concurrency", "GPU", "harness version"
_SERVED = (TOKENIZER, TEMPLATE, GPU, HARNESS)  # of the machine and the tool, not of the plan
_OPTIONAL = (IDENTITY, *_SERVED, CONCURRENCY)  # "" is not known, and not another value
_LONGEST = 160  # characters of a value in a sentence
_MOST = 500  # characters of a value
_DATED = (
    "a template that writes today's date is another one each day: serve both with one that has a "
    "fixed date (`--chat-template`), and capture again"
)
_CLOCKS_D = 1  # days that two machines' clocks may lie apart


@dataclass(frozen=True)
class Mismatch:
    """One field that differs: in the baseline ``before``, in the candidate ``after``. ``hint`` is
    what may explain it."""

    field: str
    before: str
    after: str
    hint: str = ""

    def __str__(self) -> str:
        said = f"{self.field}: {_short(self.after)} now, {_short(self.before)} in the baseline"
        hint = "faults under load would not be seen" if self.field == CONCURRENCY else self.hint
        return f"{said}: {hint}" if hint else said


def key(observed: Observed) -> dict[str, str]:
    """What evidence must have in common with what it is compared with: field to value, in the
    order to show them. "" is not known."""
    plan, engine = observed.plan, _engine(observed)
    load = observed.concurrency.get((_arm(plan), 0))
    settings = {
        f"{spec.stage}.{name}": _text(spec.params.get(name))
        for spec in plan.stages
        for name in stages.load(spec.stage).comparable
    }
    return {
        IDENTITY: plan.model_identity,
        TOKENIZER: engine.tokenizer_sha256 if engine else "",
        TEMPLATE: engine.template_sha256 if engine else "",
        PROMPTS: plan.prompts_sha256,
        "stages": ", ".join(s.stage for s in plan.stages),
        **settings,
        CONCURRENCY: str(load[0]) if load else "",
        GPU: _gpus(observed.circumstances.machine),
        HARNESS: ".".join(observed.circumstances.harness.split(".")[:2]),
    }


def differing(now: Observed, baseline: Observed) -> tuple[Mismatch, ...]:
    """The fields that keep ``now``, a candidate's evidence or as much of it as there is yet, from
    being compared. A field that is not known of both is none of them: see :func:`caveats`."""
    ours, theirs = key(now), key(baseline)
    found = [
        Mismatch(f, theirs[f], ours[f]) for f in (IDENTITY, PROMPTS) if _differ(f, ours, theirs)
    ]
    for spec in now.plan.stages:
        found += _stage(spec, baseline.plan.stage(spec.stage))
    found += [
        Mismatch(
            f,
            theirs[f],
            ours[f],
            _DATED if f == TEMPLATE and _may_be_the_day(now, baseline) else "",
        )
        for f in _SERVED
        if _differ(f, ours, theirs)
    ]
    # More at a time than the baseline is the harder test: a caveat.
    if _differ(CONCURRENCY, ours, theirs) and int(ours[CONCURRENCY]) < int(theirs[CONCURRENCY]):
        found.append(Mismatch(CONCURRENCY, theirs[CONCURRENCY], ours[CONCURRENCY]))
    return tuple(found)


def _may_be_the_day(now: Observed, baseline: Observed) -> bool:
    """True where a template that writes the day would make this difference: only ids are kept of
    what it wrote, so that this is as much as can be told."""
    days_of = _day(now), _day(baseline)
    return None in days_of or days_of[0] != days_of[1]


def problems(now: Observed, baseline: Observed) -> tuple[str, ...]:
    """Why nothing can be concluded from a comparison, in plain words; where any is known before
    the first question, nothing needs to be asked."""
    found = [str(m) for m in differing(now, baseline)]
    theirs = baseline.plan
    absent = [i for i in now.plan.prompt_ids if i not in set(theirs.prompt_ids)]
    if absent:
        found.append(
            f"{len(absent)} prompts are not in the baseline: {', '.join(absent[:5])}"
            f"{' ...' if len(absent) > 5 else ''}"
        )
    if not theirs.is_capture:
        found.append("the baseline is itself a comparison, not a captured reference")
    if now.plan.strict:
        found += _aged(now, baseline)
    return tuple(found)


def caveats(now: Observed, baseline: Observed) -> tuple[str, ...]:
    """What limits a comparison and forbids none: fields that are known of one arm only, more load
    than the baseline was under, and age where the plan is not strict about it."""
    ours, theirs = key(now), key(baseline)
    found = []
    for whose, told, other in (("now", theirs, ours), ("in the baseline", ours, theirs)):
        alone = [f for f in _OPTIONAL if told[f] and not other[f]]
        if alone:
            found.append(f"could not be compared: {', '.join(alone)} (not known {whose})")
    if _differ(CONCURRENCY, ours, theirs) and int(ours[CONCURRENCY]) > int(theirs[CONCURRENCY]):
        found.append(
            f"the candidate was asked {ours[CONCURRENCY]} at a time, the baseline "
            f"{theirs[CONCURRENCY]} at a time"
        )
    return (*found, *(() if now.plan.strict else _aged(now, baseline)))


def next_steps(now: Observed, baseline: Observed | None) -> tuple[str, ...]:
    """What to do about :func:`problems` of a comparison."""
    if baseline is None:
        return (_AS_CAPTURED,)
    fields = {m.field for m in differing(now, baseline)}
    elsewhere = bool(fields & {*_SERVED})
    aged = now.plan.strict and bool(_aged(now, baseline))
    steps = [_AS_CAPTURED] if fields - {*_SERVED} or not (elsewhere or aged) else []
    if elsewhere:
        steps.append(
            "ask a server with the baseline's tokenizer, chat template and GPU, or capture the "
            f"baseline again as it is now: {REFRESH}"
        )
    elif aged:
        steps.append(f"capture the baseline again: {REFRESH}")
    return tuple(steps)


_AS_CAPTURED = (
    "pass the plan and the prompts that the baseline was captured with, or capture the "
    f"baseline again with these: {REFRESH}"
)


def _arm(plan: Plan) -> Arm:
    return Arm.BASELINE if plan.is_capture else Arm.CANDIDATE


def _engine(observed: Observed) -> EngineInfo | None:
    return observed.engines.get((_arm(observed.plan), 0))


def _differ(field: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Both known, and not the same."""
    return bool(ours[field]) and bool(theirs[field]) and ours[field] != theirs[field]


def _stage(spec: StageSpec, other: StageSpec | None) -> list[Mismatch]:
    """What differs in what a stage asks; by the values themselves, since 1 and 1.0 are one."""
    stage = stages.load(spec.stage)
    if other is None:
        return [] if stage.stands_alone else [Mismatch(f"stage {spec.stage}", "absent", "asked")]
    usual = {p.name: p.default for p in stage.params}  # where a plan is older than a parameter
    pairs = [
        (name, other.params.get(name, usual.get(name)), spec.params.get(name, usual.get(name)))
        for name in stage.comparable
    ]
    return [
        Mismatch(f"{spec.stage}.{name}", _text(before), _text(now))
        for name, before, now in pairs
        if before != now
    ]


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value in (None, "") else str(value)


def _short(text: str) -> str:
    """A value for a sentence: of a hash as much as tells it apart."""
    if len(text) == 64 and not set(text) - set("0123456789abcdef"):
        return text[:12]
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."


def _gpus(machine: Mapping[str, str]) -> str:
    """The kinds of GPU, each once: a machine's number of them is not what the engine was given,
    and driver and memory stand behind the name."""
    names = {v.partition(",")[0].strip() for k, v in machine.items() if k.startswith("gpu ")}
    return ", ".join(sorted(n for n in names if n))[:_MOST]


def _aged(now: Observed, baseline: Observed) -> tuple[str, ...]:
    """What is to be said of the baseline's age: nothing, or one sentence."""
    most = now.plan.max_age_days
    theirs, ours = _day(baseline), _day(now)
    if theirs is None or ours is None:
        whose = "the baseline" if theirs is None else "this run"
        return (f"the baseline's age is not known: the evidence of {whose} names no day",)
    age = ours - theirs
    if age < -_CLOCKS_D:
        return (
            f"the baseline's age is not known: its day is {counted(-age, 'day')} after this run's",
        )
    if age <= most:
        return ()
    return (
        f"the baseline is {counted(age, 'day')} old, over the {counted(most, 'day')} of max_age: "
        f"capture it again: {REFRESH}",
    )


def _day(observed: Observed) -> int | None:
    """The day of the first observation, counted from 1970; None where none is told."""
    around = observed.circumstances
    return days.since_1970(around.run.started_at[:10] or around.observed_on)
