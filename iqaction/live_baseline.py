"""A baseline that is up while the candidate is: both are observed in one run. I/O.

Texts, problems, needles and draws are asked of both at the same time, so that what slows the
machine or changes on it meets both. `score` follows: its questions are the baseline's own texts.
Beside the evidence folder lies ``NAME.live`` with what both answered until the baseline was whole;
from there on it is a comparison as with any captured one, and the evidence holds a copy.

Decides no verdict. A live server is not restarted, so that what a restart changes is not known:
without ``floor: single`` in the plan, `score` does not PASS.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from iqaction import addresses, capture, connecting, runner, session, stages
from iqaction.boot._base import World
from iqaction.calls import Arm
from iqaction.circumstances import NONE
from iqaction.errors import ConfigError, EngineError, EvidenceError
from iqaction.evidence.store import Folder
from iqaction.evidence.tree import explain
from iqaction.inputs import Request
from iqaction.progress import Progress
from iqaction.runner import Job
from iqaction.session import Outcome, RunOptions
from iqaction.stages._levels import FEWEST_LAUNCHES

BESIDE = ".live"
_BASELINE, _CANDIDATE, _STOPPED = "baseline", "candidate", "stopped"


def run(options: RunOptions, *, progress: Progress) -> Outcome:
    """As :func:`iqaction.session.run`, where the baseline may also be a URL.

    Raises
    ------
    ConfigError, EvidenceError, KeyboardInterrupt
        As there.
        One that stops answering is no error: the report says so, and the same call continues.
    """
    if options.launch or options.capture:
        return session.run(options, progress=progress)
    request = session.requested(options)
    if "://" not in request.baseline:
        return session.run(options, progress=progress)
    if options.circumstances.problem:  # the candidate did not start: nobody is asked anything
        return session.run(replace(options, capture=True), progress=progress)
    _possible(options, request)
    evidence = options.evidence.resolve()
    place = evidence.parent / (evidence.name + BESIDE)
    theirs = replace(
        options,
        evidence=place / _BASELINE,
        endpoint=request.baseline,
        model=request.baseline_model or connecting.AUTO,
        dialect=connecting.AUTO,
        baseline="",
        capture=True,
        circumstances=replace(NONE, run=options.circumstances.run),
    )
    ours = replace(theirs, evidence=place / _CANDIDATE, endpoint=request.endpoint)
    ours = replace(ours, model=request.model or connecting.AUTO, dialect=request.dialect)
    _same_servers(theirs, ours)
    if _only_says_why(options.evidence):
        _put_aside(options.evidence, place / _STOPPED)
    if not (options.evidence / "plan.json").exists():
        _warn(request, progress)
        try:
            _side_by_side(theirs, ours, progress)
            _repeated(theirs, request, progress)
        except EngineError as exc:
            problem = f"{exc} (what both answered until then is kept in {place.name})"
            return _stopped(options, problem, progress)
    if not theirs.evidence.is_dir():
        raise EvidenceError(
            f"{theirs.evidence} is gone: what the baseline of {options.evidence} answered",
            expected="the folder that the first run left there",
            next_step=f"judge what is there: `iqaction judge {options.evidence}`; or compare anew, "
            "into another folder",
        )
    # It goes when all is taken over; without its plan a run was killed while it went.
    here = (ours.evidence / "plan.json").is_file()
    compared = replace(
        options, baseline=str(theirs.evidence), begun=ours.evidence if here else None
    )
    outcome = session.run(compared, progress=progress)
    if outcome.complete:
        shutil.rmtree(ours.evidence, ignore_errors=True)  # every line of it is in the evidence
    return outcome


def _stopped(options: RunOptions, problem: str, progress: Progress) -> Outcome:
    """The report of a run in which a server stopped answering before there was a baseline to
    compare with: it says so. The answers stay beside it."""
    around = replace(options.circumstances, problem=problem)
    return session.run(replace(options, capture=True, circumstances=around), progress=progress)


def _only_says_why(evidence: Path) -> bool:
    """True where an earlier call left nothing there but the reason why it was stopped."""
    if not (evidence / "plan.json").exists():
        return False
    with Folder.open(evidence) as folder:
        kept = folder.load(alone=True)
    return kept.plan.is_capture and not kept.engines and not any(kept.seen.values())


def _put_aside(evidence: Path, into: Path) -> None:
    """Make room for the run that goes on. What is there is moved, not removed."""
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(into, ignore_errors=True)
        os.replace(evidence, into)
    except OSError as exc:
        raise explain(exc, f"cannot move {evidence}") from exc


def _possible(options: RunOptions, request: Request) -> None:
    """Refuse what cannot be meant together with a live baseline."""
    if addresses.is_same(request.baseline, request.endpoint):
        raise ConfigError(
            f"baseline: {request.baseline} is the endpoint that is to be compared with it",
            expected="another server",
        )
    for key, value in (("baseline_sha256", request.baseline_sha256), ("anchor", request.anchor)):
        if value:
            raise ConfigError(
                f"{key}: a live baseline is another one each time",
                expected=f"a captured baseline, or no `{key}`",
            )
    if options.circumstances.shards:
        raise ConfigError(
            "a live baseline cannot be compared in shards: each would have another one",
            expected="one job, or a captured baseline",
        )


def _same_servers(*asked: RunOptions) -> None:
    """Refuse to go on with a run at other addresses: one folder would hold two servers' answers."""
    for one in asked:
        if not (one.evidence / "plan.json").exists():
            continue
        with Folder.open(one.evidence) as folder:
            engines = folder.load(alone=True).engines
        before = next((e.base_url for (_, n), e in engines.items() if not n and e.base_url), "")
        if before and not addresses.is_same(before, one.endpoint):
            raise EvidenceError(
                f"{one.evidence} was observed at {before}, and {one.endpoint} is another address",
                expected="the same two servers, to continue",
                next_step="use a new --evidence folder for other ones",
            )


def _warn(request: Request, progress: Progress) -> None:
    if capture.needs_floor(request.stages):
        progress.note(
            "`score` cannot PASS: a live baseline is not restarted, so that the noise between "
            "launches is not known; `floor: single` at `score` in the plan goes without"
        )


def _side_by_side(theirs: RunOptions, ours: RunOptions, progress: Progress) -> None:
    """Ask the reference all that a capture asks, and the candidate all that does not follow from
    the reference's answers."""
    with ExitStack() as stack:
        try:
            baseline, _ = _job(theirs, stack, progress, as_candidate=False)
        except EngineError as exc:
            said = f"the baseline: {exc.happened}"
            raise EngineError(said, expected=exc.expected, next_step=exc.next_step) from exc
        job, folder = _job(ours, stack, progress, as_candidate=True)
        free = [s for s in job.plan.stages if not stages.load(s.stage).follows_baseline]

        def as_baseline() -> int:
            """Under the baseline's load: it is part of what is compared."""
            number = baseline.traffic()
            folder.keep_concurrency(Arm.CANDIDATE, 0, number, "baseline")
            return number

        candidate = replace(job, plan=replace(job.plan, stages=tuple(free)), traffic=as_baseline)
        runner.together((baseline, candidate), progress)
        session.finish(folder, ours.evidence, "")


def _job(
    options: RunOptions, stack: ExitStack, progress: Progress, *, as_candidate: bool
) -> tuple[Job, Folder]:
    prepared = replace(session.prepare(options, stack), as_candidate=as_candidate)
    folder = stack.enter_context(session.opened(options, prepared))
    around = session.circumstances_of(options, prepared, folder)
    job = stack.enter_context(session.asked(options, prepared, folder, around, progress))
    assert job is not None  # without a baseline none is refused
    return job, folder


def _repeated(theirs: RunOptions, request: Request, progress: Progress) -> None:
    """The reference asked again, as often as a floor needs; it is the same launch each time."""
    launches = FEWEST_LAUNCHES if capture.needs_floor(request.stages) else 0
    captured = capture.capture(capture.Options(theirs, launches), World(os.environ), progress)
    if not captured.outcome.complete:
        raise EngineError(
            f"the baseline stopped answering: {captured.outcome.problem}",
            expected="two servers that stay up for the whole run",
            next_step="start it again and run the same command: it continues where it stopped",
        )
