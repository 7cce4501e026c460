"""Looks at captured baselines: what one holds, whether it can be used, which one is pinned. I/O.

Opens, reads and hands over; what the evidence means is said by the judge and the stages.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from iqaction import (
    __version__,
    anchor,
    compatibility,
    connecting,
    inputs,
    judgement,
    session,
    sources,
    stages,
    surroundings,
)
from iqaction.anchor import Anchor, Pin
from iqaction.calls import Arm, EngineInfo
from iqaction.circumstances import NONE
from iqaction.counts import counted
from iqaction.errors import ConfigError, EngineError, EvidenceError
from iqaction.evidence import bundle, canon, reading
from iqaction.evidence.store import Folder, load_baseline
from iqaction.evidence.tree import Tree, explain
from iqaction.evidence.verify import verify
from iqaction.inputs import Request
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.report import Report
from iqaction.stages._levels import FEWEST_LAUNCHES, is_floorless
from iqaction.verdict import Verdict


@dataclass(frozen=True)
class Held:
    """A baseline that is open. ``size`` and ``sha256`` are of a packed one, 0 and "" of a folder;
    ``day`` is that of its first answer, "" where none says."""

    path: Path
    folder: Path
    observed: Observed
    report: Report
    day: str
    size: int = 0
    sha256: str = ""

    @property
    def root(self) -> str:
        return self.observed.root

    @property
    def engine(self) -> EngineInfo | None:
        return self.observed.engines.get((Arm.BASELINE, 0))


@dataclass(frozen=True)
class Usable:
    """Whether a baseline can be used: ``damage`` is of its files, ``problems`` of what it is to be
    used for, ``looked`` what was looked at."""

    root: str
    damage: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    looked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pinned:
    """A pin that was made. ``step`` is the drift since the pin before, by metric; None where it
    was not measured, or there is none before."""

    anchor: Anchor
    file: Path
    step: Mapping[str, float] | None
    margins: Mapping[str, float]


@contextmanager
def held(path: Path, sha256: str = "") -> Iterator[Held]:
    """Open a baseline, a folder or a packed one; what was unpacked is removed again.

    Raises
    ------
    EvidenceError
        There is none, it is not ``sha256``, or it cannot be unpacked safely or read.
    """
    with tempfile.TemporaryDirectory(prefix="iqaction-") as scratch:
        folder = bundle.opened(path, Path(scratch) / "baseline", sha256)
        observed = load_baseline(folder)
        report = judgement.judge(observed, __version__)
        packed = folder != path
        yield Held(
            path,
            folder,
            observed,
            report,
            _day(folder),
            path.stat().st_size if packed else 0,
            bundle.digest(path) if packed else "",
        )


def _day(folder: Path) -> str:
    found = reading.load(Tree(folder), inner=True, numbers=False)
    return min((w.observed_at for w in found.lines.values() if w.observed_at), default="")[:10]


def refusals(one: Held) -> tuple[str, ...]:
    """Why no candidate could be compared with it; none where one could."""
    found = list(one.observed.problems) or list(one.report.problems)
    if one.report.verdict in (Verdict.FAIL, Verdict.NOT_RUN):
        found.append(one.report.headline)
    return tuple(dict.fromkeys(found))


def floorless(observed: Observed, specs: Sequence[StageSpec]) -> tuple[str, ...]:
    """What keeps `score` from a PASS against these launches, where it must give one."""
    score = next((s for s in specs if s.stage == "score"), None)
    if score is None or not score.required or is_floorless(score):
        return ()
    instead = "`floor: single` at `score` goes without"
    if observed.not_restarted:
        return (f"`score` cannot PASS: the server was not restarted between launches ({instead})",)
    if len(observed.launches) < FEWEST_LAUNCHES:
        known = counted(len(observed.launches), "relaunch")
        return (f"`score` cannot PASS: {known} of at least {FEWEST_LAUNCHES} ({instead})",)
    return ()


def check(path: Path, plan: Path | None, flags: Mapping[str, str], sha256: str = "") -> Usable:
    """Whether a baseline is whole, and fits a plan and an endpoint where these are given.

    Parameters
    ----------
    flags
        "endpoint", "model", "dialect" and "api_key_env" of the command line; empty ones are the
        plan's.

    Raises
    ------
    ConfigError
        The plan or a flag is wrong.
    EvidenceError
        There is no baseline that can be read.
    """
    with held(path, sha256) as one:
        whole = verify(one.folder)
        if not whole.ok:
            return Usable(one.root, whole.problems)
        problems, looked = list(refusals(one)), ["its files"]
        request = inputs.with_flags(sources.plan_file(plan), tuple(flags.items()))
        problems += floorless(one.observed, request.stages if plan else one.observed.plan.stages)
        if plan is not None:
            looked.append(f"the plan {plan}")
            problems += _against_plan(one, request, plan)
        if flags.get("endpoint"):  # who only asks about a plan needs no server
            looked.append(f"the endpoint {request.endpoint}")
            problems += _against_endpoint(one, request)
        return Usable(one.root, (), tuple(dict.fromkeys(problems)), tuple(looked))


def _against_plan(one: Held, request: Request, plan: Path) -> list[str]:
    prompts = sources.prompt_file(request, plan)
    data = sources.stage_data(request, plan)
    request = inputs.with_data(request, {k: canon.identify(v) for k, v in data.items()})
    asked = inputs.freeze(request, prompts, one.observed)
    around = surroundings.found(NONE, NONE, "")
    now = Observed(asked, {}, {}, circumstances=around)
    found = list(compatibility.problems(now, one.observed))
    if request.baseline_sha256 and request.baseline_sha256 not in (one.root, one.sha256):
        found.append(f"it is not the baseline that the plan pins: {request.baseline_sha256}")
    if request.anchor and sources.anchor_file(request, plan).root != one.root:
        found.append(f"it is not the baseline that {request.anchor} pins")
    return found


def _against_endpoint(one: Held, request: Request) -> list[str]:
    try:
        engine = connecting.identify(request)
    except EngineError as exc:
        return [f"the endpoint cannot be asked: {exc.happened}"]
    found = []
    for spec in one.observed.plan.stages:
        lacking = stages.load(spec.stage).needs(spec, Arm.CANDIDATE) - engine.capabilities
        if lacking and spec.required:
            names = ", ".join(sorted(c.value for c in lacking))
            found.append(f"{spec.stage} needs {names}, and {judgement.describe(engine)} lacks it")
    mismatches = compatibility.differing(_asked(one, request, engine), one.observed)
    return found + [str(m) for m in mismatches]


def _asked(one: Held, request: Request, engine: EngineInfo) -> Observed:
    """What a candidate at that endpoint would begin with."""
    plan = replace(one.observed.plan, baseline_root=one.root, model_identity=request.model_identity)
    around = surroundings.found(NONE, NONE, request.endpoint)
    return Observed(plan, {}, {}, {(Arm.CANDIDATE, 0): engine}, circumstances=around)


# --- the anchor -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PinOptions:
    """What to pin where. ``unmeasured`` allows a step whose drift nobody measured; ``artifact``
    says that the baseline itself is not committed beside the file."""

    path: Path
    file: Path
    today: str
    reason: str = ""
    candidate: Path | None = None
    unmeasured: bool = False
    artifact: bool = False


def pin(options: PinOptions) -> Pinned:
    """Write the pin: a small file to be reviewed and committed.

    Raises
    ------
    ConfigError
        The drift is not known, or the candidate measured something else.
    EvidenceError
        There is no baseline, or it could not be compared with.
    """
    before = sources.anchor_at(options.file) if options.file.exists() else None
    with held(options.path) as one:
        if before is not None and not options.reason and before.root != one.root:
            raise ConfigError(
                f"{options.file} pins {before.root[:12]}, and nothing says why another one "
                "follows it",
                expected="--reason TEXT, for those who review the change, and --candidate DIR: "
                "evidence of the new engine, judged against the pinned one",
            )
        if wrong := refusals(one):
            raise EvidenceError(
                f"{options.path} is not pinned: {wrong[0]}",
                expected="a baseline that a candidate can be compared with",
                next_step="capture it again",
            )
        step = None if before is None else _step(options, before, one)
        made = anchor.pinned(
            before,
            Pin(one.root, options.today, options.reason or "the first anchor", step),
            _place(options),
        )
        score = one.observed.plan.stage("score")
        limits = {m.metric: m.limit for m in score.margins} if score else {}
    margins = {m: limits[m] for m in anchor.METRICS if m in limits}
    _write(options.file, anchor.to_text(made))
    return Pinned(made, options.file, step, margins)


def _place(options: PinOptions) -> str:
    """The baseline's path from the file's folder, so that both move together."""
    if options.artifact:
        return anchor.ARTIFACT
    home = options.file.parent.resolve()
    return Path(os.path.relpath(options.path.resolve(), home)).as_posix()


def _step(options: PinOptions, before: Anchor, one: Held) -> Mapping[str, float] | None:
    """How much worse the new baseline's engine scored, compared with the pinned one."""
    if options.candidate is None:
        if options.unmeasured:
            return None
        raise ConfigError(
            f"{options.file} pins {before.root[:12]} already, and how far the new baseline lies "
            "from it is not known",
            expected="--candidate DIR: evidence of the new engine, judged against the pinned one",
            next_step="measure it: `iqaction run --baseline PINNED --evidence DIR ...`; or say "
            "--unmeasured, and the file will say `unknown`",
        )
    outcome = session.judge(options.candidate, write=False)
    with Folder.open(options.candidate) as folder:
        theirs = folder.load()
    if not outcome.root or theirs.problems:
        raise EvidenceError(
            f"{options.candidate} is not whole: {(*theirs.problems, 'it is not sealed')[0]}",
            expected="the sealed evidence of a finished run",
        )
    if theirs.plan.baseline_root != before.root:
        raise ConfigError(
            f"{options.candidate} was compared with {theirs.plan.baseline_root[:12] or 'nothing'}",
            expected=f"evidence compared with the pinned baseline {before.root[:12]}",
        )
    engine = theirs.engines.get((Arm.CANDIDATE, 0))
    if engine is None or one.engine is None:
        raise ConfigError(f"{options.candidate} or {options.path} names no engine")
    change = judgement.identity_change(one.engine, engine)
    if change is not None:
        raise ConfigError(
            f"{options.candidate} measured another engine than {options.path}: {change.what} is "
            f"{change.after!r} there and {change.before!r} in the baseline",
            expected="the engine that the new baseline was captured from",
        )
    return _drift(outcome.report, options)


def _drift(report: Report, options: PinOptions) -> Mapping[str, float]:
    """The estimates of `score`, by metric, where all of it was observed."""
    found = {}
    for stage in report.stages:
        gaps = stage.coverage.missing or stage.coverage.failed
        if stage.stage == "score" and (gaps or not stage.coverage.observed):
            raise ConfigError(
                f"{options.candidate} is not whole: {stage.coverage.observed} of "
                f"{stage.coverage.required} prompts were observed",
                expected="a run that came to its end",
                next_step="run it again with the same --evidence: it continues; or --unmeasured",
            )
        for one in stage.checks if stage.stage == "score" else ():
            leg, _, metric = one.metric.partition(".")
            value = one.estimate.value if one.estimate else None
            if leg in ("reference", "live") and metric in anchor.METRICS and value is not None:
                found[metric] = value
    if not found:
        raise ConfigError(
            f"{options.candidate} has no figures of `score`",
            expected="a run whose plan has the stage `score`",
        )
    return found


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(text, encoding="utf-8")
        os.replace(staged, path)
    except OSError as exc:
        raise explain(exc, f"cannot write {path}") from exc
