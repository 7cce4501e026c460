"""One run, from options to a sealed evidence folder. I/O: wires the pieces and decides nothing.

``run`` is observe, judge, render and seal; the other functions are its parts, so that evidence
can be judged, rendered and verified again at any time by the same code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from iqaction import (
    __version__,
    compatibility,
    connecting,
    given_baseline,
    inputs,
    judgement,
    runner,
    shards,
    sources,
    surfaces,
    surroundings,
)
from iqaction.calls import Arm
from iqaction.circumstances import NONE, Circumstances
from iqaction.errors import ConfigError, EngineError
from iqaction.evidence import canon
from iqaction.evidence.store import Folder
from iqaction.evidence.verify import Verified
from iqaction.evidence.verify import verify as verify_folder
from iqaction.inputs import Request
from iqaction.observed import Engines, Observed
from iqaction.plan import Plan
from iqaction.progress import Progress
from iqaction.prompts import Prompt, PromptSet
from iqaction.report import Report
from iqaction.runner import Connection, Job

_NOT_YET = ("auto",)  # baselines that a later version looks up


@dataclass(frozen=True)
class RunOptions:
    """What a run is asked with; empty values fall back to the plan file, then to defaults.

    ``launch`` above 0 adds a relaunch of the reference to a capture's folder; ``not_restarted``
    says that its server is the one that was asked before. ``capture`` leaves out the baseline that
    the plan names: this run makes one. ``baseline`` is a folder or a packed capture; where
    ``baseline_sha256`` is given it must be that one. ``reference`` is
    the URL of a live reference. ``circumstances`` are kept with the evidence; with a ``problem``
    in them nobody is asked, and with a shard only its prompts are.
    """

    evidence: Path
    plan: Path | None = None
    endpoint: str = ""
    model: str = ""
    dialect: str = ""
    baseline: str = ""
    baseline_sha256: str = ""
    suite: str = ""
    api_key_env: str = ""
    concurrency: int | None = None
    launch: int = 0
    not_restarted: bool = False
    capture: bool = False
    reference: str = ""
    reference_model: str = ""
    circumstances: Circumstances = NONE
    baseline_model: str = ""
    begun: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """A judged folder. ``complete`` is False where an endpoint stopped answering on the way;
    ``problem`` then says what happened."""

    report: Report
    folder: Path
    root: str
    complete: bool = True
    problem: str = ""


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before the first request. ``as_candidate``: what is asked is a
    candidate's, though there is no baseline to compare with yet."""

    request: Request
    plan: Plan
    prompts: PromptSet
    baseline: Observed | None
    baseline_path: Path | None
    data: Mapping[str, bytes] = field(default_factory=dict)
    as_candidate: bool = False

    @property
    def arm(self) -> Arm:
        is_reference = self.plan.is_capture and not self.as_candidate
        return Arm.BASELINE if is_reference else Arm.CANDIDATE


def run(options: RunOptions, *, progress: Progress) -> Outcome:
    """Observe, judge, render and seal; continues a folder that holds the same plan.

    Raises
    ------
    ConfigError
        Before any request: the plan, prompts or flags are wrong, or the engine cannot do what a
        required stage needs.
    EvidenceError
        The folder belongs to another plan, is in use, or cannot be written.
    KeyboardInterrupt
        What was measured is kept; the same call continues.
    """
    with ExitStack() as scratch:
        prepared = _relaunch(options) if options.launch else prepare(options, scratch)
        return _run(options, prepared, progress)


def _run(options: RunOptions, prepared: Prepared, progress: Progress) -> Outcome:
    with opened(options, prepared) as folder:
        if options.begun is not None:
            _continue_from(folder, options.begun)
        around = circumstances_of(options, prepared, folder)
        if options.circumstances.problem:
            return finish(folder, options.evidence, options.circumstances.problem)
        problem = ""
        if not _refused(prepared, around, {}, progress):
            for warning in inputs.warnings(prepared.plan):
                progress.note(warning)
            try:
                _observe(options, prepared, folder, around, progress)
            except EngineError as exc:
                problem = str(exc)
                if options.circumstances != NONE:  # a report that others read says why
                    folder.keep_circumstances(replace(around, problem=problem))
        return finish(folder, options.evidence, problem)


def opened(options: RunOptions, prepared: Prepared) -> Folder:
    """The run's folder, founded or continued; raises EvidenceError."""
    return Folder.create_or_continue(
        options.evidence,
        prepared.plan,
        prepared.prompts.data,
        prepared.baseline_path,
        prepared.data,
    )


def _continue_from(folder: Folder, begun: Path) -> None:
    """Take over the answers of another folder, unless that was done before."""
    with Folder.open(begun) as other:
        given = other.load(alone=True).seen
    seen = folder.load(alone=True).seen
    if any(tag not in seen.get(stage, {}) for stage, tags in given.items() for tag in tags):
        folder.adopt(begun)


def observe(options: RunOptions, *, progress: Progress) -> Outcome:
    """The same as :func:`run`: observing always ends in a judged and sealed folder."""
    return run(options, progress=progress)


def judge(path: Path, *, write: bool = True) -> Outcome:
    """Judge a folder again from what it holds; ``write`` seals and renders the result."""
    if write:
        with Folder.open_for_writing(path) as folder:
            return finish(folder, path, "")
    with Folder.open(path) as folder:
        observed = folder.load()
    return Outcome(judgement.judge(observed, __version__), path, observed.root)


def render(path: Path) -> Outcome:
    """Write the rendered files again from the folder's stored report."""
    with Folder.open_for_writing(path) as folder:
        report, root = folder.report()
        folder.write_rendered(surfaces.files(replace(report, evidence_root=root)))
    return Outcome(replace(report, evidence_root=root), path, root)


def verify(path: Path, root: str = "") -> Verified:
    """Whether a folder is whole, and judges and renders to what it says."""
    return verify_folder(
        path,
        root,
        rejudge=lambda observed: judgement.judge(observed, __version__),
        rerender=surfaces.files,
    )


def finish(folder: Folder, path: Path, problem: str) -> Outcome:
    """Judge what a folder holds, seal and render it."""
    report = judgement.judge(folder.load(), __version__)
    root = folder.seal(report)
    folder.write_rendered(surfaces.files(replace(report, evidence_root=root)))
    return Outcome(replace(report, evidence_root=root), path, root, not problem, problem)


def circumstances_of(options: RunOptions, prepared: Prepared, folder: Folder) -> Circumstances:
    """The circumstances, with the day and the version of the first observation, kept in the folder
    (one that an older version sealed without them stays as it is)."""
    around = surroundings.found(
        options.circumstances, folder.circumstances(), prepared.request.endpoint
    )
    if options.circumstances != NONE or not folder.is_sealed:
        folder.keep_circumstances(around)
    return around


def _refused(
    prepared: Prepared, around: Circumstances, engines: Engines, progress: Progress
) -> bool:
    """True where what is known already rules a comparison out: the report says the same."""
    if prepared.baseline is None:
        return False
    now = Observed(prepared.plan, {}, {}, engines, circumstances=around)
    problems = compatibility.problems(now, prepared.baseline)
    if problems:
        progress.note(f"nothing is asked: {problems[0]}")
    return bool(problems)


def _requested(options: RunOptions, *keys: str) -> Request:
    """The plan file with the flags over it; there must be somebody to ask."""
    flags = [(key, getattr(options, key)) for key in keys]
    request = inputs.with_flags(sources.plan_file(options.plan), flags, options.concurrency)
    request = inputs.with_reference(request, options.reference, options.reference_model)
    if not request.endpoint:
        raise ConfigError(
            "no endpoint: there is nobody to ask",
            expected="--endpoint URL, or `endpoint:` in the plan",
        )
    return request


def requested(options: RunOptions) -> Request:
    """What a run asks for, before prompts and baseline are looked at; raises ConfigError."""
    of_baseline = ("baseline", "baseline_sha256", "baseline_model")
    request = _requested(
        options, "endpoint", "model", "dialect", *of_baseline, "suite", "api_key_env"
    )
    if options.capture:
        request = replace(request, baseline="", baseline_sha256="", anchor="")
    return request


def planned(options: RunOptions) -> Plan:
    """The plan that a run of these options would ask; raises ConfigError as the run would."""
    with ExitStack() as scratch:
        return prepare(options, scratch).plan


def prepare(options: RunOptions, scratch: ExitStack) -> Prepared:
    """Everything before the first request; raises ConfigError and EvidenceError as :func:`run`.
    ``scratch`` removes what was unpacked for it."""
    request = requested(options)
    if request.baseline in _NOT_YET or "://" in request.baseline:
        raise ConfigError(
            f"baseline: {request.baseline!r} is not supported by this version",
            expected="a folder or a .tar.gz that `iqaction baseline capture` made, a URL, or none",
        )
    if connecting.by_harness(request.stages):
        from iqaction import harness  # noqa: PLC0415 - an extra

        harness.must_be_installed()
    prompts = sources.prompt_file(request, options.plan)
    data = sources.stage_data(request, options.plan)
    request = inputs.with_data(request, {k: canon.identify(v) for k, v in data.items()})
    request = given_baseline.pinned(request, options.plan)
    path = given_baseline.folder(request, options.evidence, scratch)
    baseline = None
    if path is not None:
        with Folder.open(path) as folder:
            baseline = folder.load()
        given_baseline.anchored(request, options.plan, baseline)
        prompts = _judgeable(request, prompts, baseline)
    plan = inputs.freeze(request, prompts, baseline, extend=not options.circumstances.shards)
    return Prepared(request, plan, prompts, baseline, path, data)


def _judgeable(request: Request, prompts: PromptSet, baseline: Observed) -> PromptSet:
    """The prompts without those that the baseline itself could not be judged on. Where none
    would be left they all stay, and the report says why nothing can be compared."""
    gaps = judgement.left_out(request.stages, baseline)
    kept = tuple(p for p in prompts.prompts if p.id not in gaps)
    return replace(prompts, prompts=kept) if kept else prompts


def _relaunch(options: RunOptions) -> Prepared:
    """A relaunch asks the captured plan of the folder itself, whatever the plan file says now."""
    request = _requested(options, "endpoint", "model", "dialect", "api_key_env")
    given_baseline.must_be_there(options.evidence, "--evidence")
    with Folder.open(options.evidence) as folder:
        observed, data = folder.load(), folder.prompts_bytes()
    if not observed.plan.is_capture:
        raise ConfigError(
            f"{options.evidence}: a candidate's evidence has no relaunches",
            expected="--evidence names the folder of a captured reference",
        )
    if options.launch > max(observed.launches, default=0) + 1:
        raise ConfigError(
            f"--launch {options.launch}: {len(observed.launches)} relaunches were observed",
            expected=f"--launch {max(observed.launches, default=0) + 1}, or one to continue",
        )
    prompts = PromptSet(tuple(observed.prompts.values()), observed.plan.prompts_sha256, data)
    return Prepared(request, observed.plan, prompts, None, None, observed.data)


def _observe(
    options: RunOptions,
    prepared: Prepared,
    folder: Folder,
    around: Circumstances,
    progress: Progress,
) -> None:
    with asked(options, prepared, folder, around, progress) as job:
        if job is not None:
            runner.observe(job, progress)


@contextmanager
def asked(
    options: RunOptions,
    prepared: Prepared,
    folder: Folder,
    around: Circumstances,
    progress: Progress,
) -> Iterator[Job | None]:
    """What is to be observed of the engine, which is connected to for as long; None where who
    answers there cannot be compared with the baseline.

    Raises
    ------
    EngineError, ConfigError, EvidenceError
        Nobody answers, it cannot do what is required, or is not who answered before.
    """
    arm = Arm.REPEAT if options.launch else prepared.arm
    request, plan = prepared.request, prepared.plan
    kept = folder.load(alone=True)
    with connecting.asked(request, plan, progress.note) as found:
        connections = {arm: found}
        progress.note(f"{arm.value}: {judgement.describe(found.engine)}")
        connecting.same_engine(kept, arm, options.launch, found.engine)
        if _refused(prepared, around, {(arm, options.launch): found.engine}, progress):
            folder.keep_engine(arm, options.launch, found.engine)
            yield None
            return
        compares = arm is Arm.CANDIDATE and prepared.baseline is not None
        with connecting.live_reference(
            request, plan, found, progress.note, needed=compares
        ) as reference:
            if reference is not None:
                connections[Arm.REFERENCE] = reference
            skipped = connecting.unable(plan, connections)
            for stage in skipped:
                progress.note(f"{stage} is not required and the engine cannot do it: not asked")
            repeat = bool(options.launch) and options.not_restarted
            folder.keep_engine(arm, options.launch, replace(found.engine, not_restarted=repeat))
            if reference is not None:
                folder.keep_engine(Arm.REFERENCE, 0, reference.engine)
            job = _job(options, prepared, folder, kept, connections, arm)
            asking = replace(plan, stages=tuple(s for s in plan.stages if s.stage not in skipped))
            asking = shards.asked(asking, options.circumstances.shard, options.circumstances.shards)
            yield replace(job, plan=asking)


def _job(
    options: RunOptions,
    prepared: Prepared,
    folder: Folder,
    kept: Observed,
    connections: Mapping[Arm, Connection],
    arm: Arm,
) -> Job:
    plan = prepared.plan
    prompts: dict[str, Prompt] = {p.id: p for p in prepared.prompts.prompts}
    seen = {stage: dict(tags) for stage, tags in kept.seen.items()}

    def extend(look: int) -> bool:
        now = Observed(
            plan, prompts, seen, kept.engines, baseline=prepared.baseline, data=prepared.data
        )
        return judgement.undecided(now, look)

    return Job(
        plan,
        prompts,
        seen,
        connections,
        folder.keep,
        _traffic(options, prepared, folder, kept, connections[arm]),
        extend,
        arm,
        options.launch,
        prepared.baseline,
        prepared.data,
        (options.circumstances.shard, options.circumstances.shards),
    )


def _traffic(
    options: RunOptions,
    prepared: Prepared,
    folder: Folder,
    kept: Observed,
    connection: Connection,
) -> Callable[[], int]:
    """How many requests are in flight, found out once: a continued run keeps its number, and a
    candidate is asked as the baseline was, because load is part of what is compared."""
    arm = Arm.REPEAT if options.launch else prepared.arm
    known: list[int] = []

    def ask() -> int:
        if not known:
            now = kept.concurrency.get((arm, options.launch))
            before = prepared.baseline and prepared.baseline.concurrency.get((Arm.BASELINE, 0))
            planned = _planned(prepared.plan)
            if now is None and before and not planned:
                now = (before[0], "baseline")
            if now is None:
                now = runner.traffic(connection, planned, time.monotonic)
            folder.keep_concurrency(arm, options.launch, *now)
            known.append(now[0])
        return known[0]

    return ask


def _planned(plan: Plan) -> int | None:
    """The plan's number of requests in flight where a stage asks as traffic does: that of the
    trajectory, which is what traffic sees; in a plan without one the first that a stage names.

    A stage's own number is its own (``stages._base.in_flight``): it says nothing of the others.
    """
    asked = plan.stage("trajectory")
    values = [s.params.get("concurrency") for s in ((asked,) if asked else plan.stages)]
    return next((v for v in values if isinstance(v, int)), None)
