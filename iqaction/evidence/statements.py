"""What a sealed folder says about itself: the records of one run. Pure.

Knows plans, observed evidence and reports as data; knows no file. One record for the plan, one
for each stage's observations, one for each stage's result, one for the report, and in a capture
one for the baseline that it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iqaction.calls import Arm, FailureKind
from iqaction.counts import counted
from iqaction.evidence import canon
from iqaction.evidence.record import (
    Artifact,
    Key,
    Kind,
    Link,
    Metric,
    Record,
    Who,
    Workload,
    dump,
)
from iqaction.observed import Engines
from iqaction.plan import Plan
from iqaction.report import Check, Report, StageResult

_LEVEL = 0.95
_TOLERANCE = 1e-9
_SPENT = "the stage's time budget ended before all was asked"


@dataclass(frozen=True)
class SetSummary:
    """Counts of one stage's observations: answers, failures by kind, rows and unusable rows.

    Among the failures by kind are the marks of a spent time budget, which nobody was asked by.
    """

    artifact: Artifact
    answers: int
    failed: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    unusable: int = 0
    observed_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """All that the records of one run are made of.

    ``files`` holds the folder's other artifacts: plan, prompts, report, and where there are any
    the engines, the circumstances and the baseline's manifest.
    """

    plan: Plan
    engines: Engines
    sets: Mapping[str, SetSummary]
    files: Mapping[str, Artifact]
    report: Report


def build(run: Run) -> dict[str, bytes]:
    """Bytes of all records by id, each linked to what it was made from."""
    records: dict[str, bytes] = {}

    def put(record: Record) -> str:
        data = dump(record)
        records[canon.identify(data)] = data
        return canon.identify(data)

    plan = put(_plan(run))
    sets = {stage: put(_observations(run, stage, plan)) for stage in sorted(run.sets)}
    results = [Link("stage result", put(_result(run, r, plan, sets))) for r in run.report.stages]
    if run.plan.is_capture:
        put(_baseline(run, plan, sets))
    links = (Link("plan", plan), *results)
    put(
        Record(
            Kind.REPORT,
            derived=True,
            subject=(run.files["report"],),
            workload=_workload(run.plan),
            engines=_whos(run.engines),
            model=_model(run.engines),
            artifacts=_present(run, ("plan", "prompts", "baseline", "circumstances")),
            links=links,
            missing=run.report.problems,
            limitations=run.report.caveats,
            verdict=run.report.verdict.value,
        )
    )
    return records


def _plan(run: Run) -> Record:
    return Record(
        Kind.PLAN,
        derived=False,
        subject=(run.files["plan"],),
        workload=_workload(run.plan),
        artifacts=_present(run, ("plan", "prompts", "baseline")),
    )


def _observations(run: Run, stage: str, plan: str) -> Record:
    found = run.sets[stage]
    unsent = found.failed.get(FailureKind.BUDGET.value, 0)  # no request, and so no failed one
    failed = sum(found.failed.values()) - unsent
    asked = found.answers + failed
    figures = [("answers", found.answers, asked)]
    figures += [
        (f"failed: {kind}", n, asked)
        for kind, n in sorted(found.failed.items())
        if kind != FailureKind.BUDGET.value
    ]
    figures += [("positions", found.rows, found.answers)]
    figures += [("unusable positions", found.unusable, found.rows)]
    return Record(
        Kind.OBSERVATIONS,
        derived=False,
        subject=(found.artifact,),
        workload=_workload(run.plan, stage),
        engines=_whos(run.engines),
        model=_model(run.engines),
        artifacts=(found.artifact, *_present(run, ("engines", "prompts", "baseline"))),
        links=(Link("plan", plan),),
        metrics=tuple(
            Metric(name, float(value), "count", "count", n, None, stage)
            for name, value, n in figures
        ),
        missing=(f"{counted(failed, 'request')} without a usable answer",) if failed else (),
        limitations=(*_limitations(run.engines), *((_SPENT,) if unsent else ())),
        observed_at=found.observed_at,
    )


def _result(run: Run, result: StageResult, plan: str, sets: Mapping[str, str]) -> Record:
    found = run.sets.get(result.stage)
    coverage = result.coverage
    gaps = [(coverage.failed, "failed"), (coverage.missing, "missing")]
    gaps.append((coverage.left_out, "left out: the baseline itself could not be judged"))
    artifacts = [s.artifact for s in run.sets.values()]
    return Record(
        Kind.STAGE_RESULT,
        derived=True,
        subject=(found.artifact if found else run.files["plan"],),
        workload=_workload(run.plan, result.stage),
        engines=_whos(run.engines),
        model=_model(run.engines),
        artifacts=(*artifacts, *_present(run, ("baseline", "report"))),
        links=(Link("plan", plan), *(Link("observations", i) for i in sets.values())),
        metrics=tuple(m for c in result.checks if (m := _metric(c)) is not None),
        missing=tuple(f"{unit}: {why}" for units, why in gaps for unit in units),
        limitations=result.caveats,
        verdict=result.verdict.value,
    )


def _baseline(run: Run, plan: str, sets: Mapping[str, str]) -> Record:
    engines = _whos(run.engines)
    return Record(
        Kind.BASELINE,
        derived=True,
        subject=tuple(s.artifact for s in run.sets.values()) or (run.files["plan"],),
        workload=_workload(run.plan),
        engines=engines,
        model=_model(run.engines),
        links=(Link("plan", plan), *(Link("observations", i) for i in sets.values())),
        limitations=("GPU, driver and image are as the engine tells them, where it does",),
        key=Key(
            run.plan.sha256,
            run.plan.settings_sha256(),
            run.plan.prompts_sha256,
            tuple(sorted({e.model for e in engines})),
            len({e.launch for e in engines if e.arm == Arm.REPEAT.value}),
            engines,
        ),
    )


def _metric(check: Check) -> Metric | None:
    estimate = check.estimate
    if estimate is None:
        return None
    is_95 = abs(estimate.level - _LEVEL) < _TOLERANCE
    low, high = estimate.interval or (None, None)
    return Metric(
        check.metric,
        _finite(estimate.value),
        estimate.unit,
        estimate.method,
        estimate.n_units,
        (_finite(low), _finite(high)) if is_95 and estimate.interval else None,
        "candidate - baseline" if check.judged else "candidate",
    )


def _finite(value: float | None) -> float | None:
    """A number, or None for what is none."""
    return None if value is None or not math.isfinite(value) else float(value)


def _workload(plan: Plan, stage: str = "") -> Workload:
    return Workload(plan.suite, plan.sha256, plan.prompts_sha256, len(plan.prompt_ids), stage)


def _whos(engines: Engines) -> tuple[Who, ...]:
    ordered = sorted(engines.items(), key=lambda item: (item[0][0].value, item[0][1]))
    return tuple(
        Who(arm.value, launch, e.dialect, e.version, e.model, e.fingerprint)
        for (arm, launch), e in ordered
    )


def _model(engines: Engines) -> str:
    """The judged model: the candidate's, in a capture the baseline's."""
    for arm in (Arm.CANDIDATE, Arm.BASELINE):
        if (arm, 0) in engines:
            return engines[arm, 0].model
    return ""


def _limitations(engines: Engines) -> tuple[str, ...]:
    return tuple(sorted({text for e in engines.values() for text in e.limitations}))


def _present(run: Run, names: Sequence[str]) -> tuple[Artifact, ...]:
    return tuple(run.files[n] for n in names if n in run.files)
