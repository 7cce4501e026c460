"""Two evidence folders beside each other: any two, candidates or captures. Pure.

Shows and does not judge: each folder's own verdict stands, and here none is added. Figures are
paired where both runs were held against the same reference, or asked the same questions; what is
not paired is shown without an interval, and said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iqaction import changes, judgement, stages
from iqaction.calls import Arm, EngineInfo
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.report import Change, Check, Contrast, Divergence, Mover, Report, StageResult, Versus
from iqaction.verdict import Verdict

_SHORT = 12  # characters of a hash
_UNPAIRED = "not paired: no interval"
NO_VERDICT = (
    "Differences are B less A: above 0 is worse, below 0 better. This is no verdict: it shows what "
    "differs, and each folder keeps its own."
)


@dataclass(frozen=True)
class Party:
    """One folder: its name, what it holds, and what judging it gives."""

    name: str
    observed: Observed
    report: Report

    @property
    def engine(self) -> EngineInfo | None:
        """Who answered."""
        arm = Arm.BASELINE if self.observed.plan.is_capture else Arm.CANDIDATE
        return self.observed.engines.get((arm, 0))

    @property
    def reference(self) -> str:
        """Evidence root of what it is held against: its baseline, or itself where it is one."""
        return self.observed.plan.baseline_root or self.observed.root


@dataclass(frozen=True)
class Line:
    """One figure of both, with each folder's verdict on it; None: it has none."""

    contrast: Contrast
    a: Verdict | None
    b: Verdict | None


@dataclass(frozen=True)
class Stage:
    """One stage of both. ``compared`` counts the units that both answered; a verdict is None
    where the folder has no such stage."""

    stage: str
    a: Verdict | None
    b: Verdict | None
    lines: tuple[Line, ...]
    movers: tuple[Mover, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    compared: int = 0
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Both folders, what their questions differ in by name, and what their answers do.

    ``asked`` is empty where both were asked the same.
    """

    a: Party
    b: Party
    asked: tuple[str, ...]
    changes: tuple[Change, ...]
    stages: tuple[Stage, ...]


def party(name: str, observed: Observed, tool_version: str) -> Party:
    """A loaded folder, judged."""
    return Party(name, observed, judgement.judge(observed, tool_version))


def compare(a: Party, b: Party) -> Comparison:
    """B beside A, A as what was before."""
    return Comparison(a, b, tuple(_asked(a, b)), _changes(a, b), tuple(_stages(a, b)))


def _changes(a: Party, b: Party) -> tuple[Change, ...]:
    started = changes.starts(a.observed.circumstances.machine, b.observed.circumstances.machine)
    if a.engine is None or b.engine is None:
        return started
    return (*changes.engines(a.engine, b.engine), *started)


# --- the question ---------------------------------------------------------------------------


def _asked(a: Party, b: Party) -> Iterator[str]:
    """What the two questions differ in, in plain words."""
    ours, theirs = a.observed.plan, b.observed.plan
    if a.reference != b.reference and not (ours.is_capture and theirs.is_capture):
        yield (
            f"the baseline: {_short(a.reference)} in A, {_short(b.reference)} in B (evidence roots)"
        )
    yield from _prompts(ours, theirs)
    for name in dict.fromkeys(s.stage for s in (*ours.stages, *theirs.stages)):
        one, other = ours.stage(name), theirs.stage(name)
        if one is None or other is None:
            yield f"{name}: only in {'B' if one is None else 'A'}"
        else:
            yield from _settings(name, one, other)
    if ours.looks != theirs.looks and ours.is_capture == theirs.is_capture:
        yield f"looks: {_list(ours.looks)} prompts in A, {_list(theirs.looks)} in B"


def _prompts(a: Plan, b: Plan) -> Iterator[str]:
    if a.prompts_sha256 != b.prompts_sha256:
        yield (
            f"the prompt file: sha256 {_short(a.prompts_sha256)} in A, "
            f"{_short(b.prompts_sha256)} in B"
        )
    ours, theirs = set(a.prompt_ids), set(b.prompt_ids)
    if ours != theirs:
        yield (
            f"the prompts: {len(ours)} in A, {len(theirs)} in B, {len(ours & theirs)} of them "
            "in both"
        )


def _settings(stage: str, a: StageSpec, b: StageSpec) -> Iterator[str]:
    for name in sorted({*a.params, *b.params}):
        before, now = a.params.get(name), b.params.get(name)
        if before != now:
            yield f"{stage}: {name} is {before!r} in A and {now!r} in B"
    ours, theirs = ({m.metric: m.limit for m in spec.margins} for spec in (a, b))
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            yield (
                f"{stage}: the margin of {name} is {_limit(ours.get(name))} in A and "
                f"{_limit(theirs.get(name))} in B"
            )
    if a.seed != b.seed:
        yield f"{stage}: the seed is {a.seed} in A and {b.seed} in B"
    if a.required != b.required:
        yield f"{stage}: required in {'A' if a.required else 'B'} alone"


def _limit(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g}"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _short(sha256: str) -> str:
    return sha256[:_SHORT] or "none (not sealed)"


# --- the answers ----------------------------------------------------------------------------


def _stages(a: Party, b: Party) -> Iterator[Stage]:
    ours = {s.stage: s for s in a.report.stages}
    theirs = {s.stage: s for s in b.report.stages}
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        verdicts = _own(a, one), _own(b, other)
        if one is None or other is None:
            yield Stage(name, *verdicts, (), note="only one of them has this stage")
        elif _is_baseline_of(a, b):
            yield _against_it(other, verdicts, _versus(a, b, name))
        else:
            yield _paired(verdicts, one, other, _versus(a, b, name))


def _is_baseline_of(a: Party, b: Party) -> bool:
    """True where B was compared with A itself: then B's own judgement is the difference."""
    root = a.observed.root
    return bool(root) and a.observed.plan.is_capture and b.observed.plan.baseline_root == root


_Verdicts = tuple[Verdict | None, Verdict | None]


def _own(party: Party, stage: StageResult | None) -> Verdict | None:
    """A stage's verdict; a capture has none, unless it is refused."""
    if stage is None or (party.observed.plan.is_capture and stage.verdict is not Verdict.FAIL):
        return None
    return stage.verdict


def _against_it(b: StageResult, verdicts: _Verdicts, found: Versus) -> Stage:
    lines = []
    for check in b.checks:
        paired = next((c for c in found.contrasts if c.metric == check.metric), None)
        if paired is None or (check.estimate is not None and check.estimate.interval is not None):
            paired = _judged(check)
        lines.append(Line(paired, None, _verdict(check)))
    n = b.coverage.observed
    return Stage(b.stage, *verdicts, tuple(lines), b.movers, b.divergences, n)


def _judged(check: Check) -> Contrast:
    """A check's own figures: it compared with the other folder already."""
    return Contrast(
        check.metric,
        check.title,
        check.estimate.unit if check.estimate else "",
        check.baseline,
        check.candidate,
        check.estimate,
        "" if check.estimate else check.reason,
    )


def _paired(verdicts: _Verdicts, a: StageResult, b: StageResult, found: Versus) -> Stage:
    contrasts = {c.metric: c for c in found.contrasts}
    ours, theirs = ({c.metric: c for c in s.checks} for s in (a, b))
    lines = []
    for metric in dict.fromkeys((*contrasts, *ours, *theirs)):
        before, now = ours.get(metric), theirs.get(metric)
        contrast = contrasts.get(metric) or _unpaired(before, now)
        if contrast is not None:
            lines.append(Line(contrast, _verdict(before), _verdict(now)))
    return Stage(
        a.stage,
        *verdicts,
        tuple(lines),
        found.movers,
        found.divergences,
        found.compared,
        found.note,
    )


def _versus(a: Party, b: Party, name: str) -> Versus:
    specs = a.observed.plan.stage(name), b.observed.plan.stage(name)
    if specs[0] is None or specs[1] is None:
        return Versus()
    sides = [judgement.context(p.observed, spec, -1) for p, spec in ((a, specs[0]), (b, specs[1]))]
    return stages.load(name).versus(sides[0], sides[1])


def _unpaired(a: Check | None, b: Check | None) -> Contrast | None:
    """Both arms' own values, without an interval; None where neither has one and no verdict
    either."""
    known = b or a
    if known is None or known.metric.endswith(".capture"):
        return None
    values = a.candidate if a else None, b.candidate if b else None
    unit = next((c.estimate.unit for c in (b, a) if c is not None and c.estimate), "")
    note = _UNPAIRED if any(v is not None for v in values) else ""
    return Contrast(known.metric, known.title, unit, *values, None, note)


def _verdict(check: Check | None) -> Verdict | None:
    return check.verdict if check is not None and check.judged else None
