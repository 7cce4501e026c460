"""Captures a reference: what the merge-base serves, where there is no baseline yet, or with
`mode: capture` what the checkout itself serves.

The same machine, one after the other; started anew for every relaunch, which is how its own noise
is known. It takes as many starts as the floor needs, every time: a captured baseline is cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from iqaction import session
from iqaction.action import base_tree, keys, logged, places, shelf, starting
from iqaction.action.job import Job
from iqaction.action.settings import CAPTURE, FEWEST_LAUNCHES, NONE, Settings
from iqaction.action.work import Decision
from iqaction.boot import stopping
from iqaction.circumstances import NONE as NOTHING
from iqaction.circumstances import Circumstances
from iqaction.errors import BootError, GithubError
from iqaction.session import Outcome, RunOptions


@dataclass(frozen=True)
class _Capture:
    """What is captured, from which checkout, and where it is kept."""

    name: str
    tree: Path
    into: Path
    launches: int
    around: Circumstances


def run(job: Job) -> int:
    """Leave a captured reference in the job's folder; where that fails, the reason why nothing
    can be compared."""
    settings, decision = job.settings(), job.work.decided()
    is_asked_for = settings.mode == CAPTURE
    try:
        capture = _checkout(job, settings, decision) if is_asked_for else _base(job, decision)
        for launch in range(capture.launches + 1):
            with job.log.group(f"{capture.name}, launch {launch} of {capture.launches}"):
                _captured(job, settings, decision, capture, launch)
    except (BootError, GithubError) as exc:
        job.log.error(exc.happened, title="inferquality: no reference")
        what = "the reference was not captured"
        if not is_asked_for:
            what = "there is no baseline, and what the merge-base serves gave none"
        around = replace(decision.circumstances, problem=f"{what}: {exc}")
        job.work.keep(replace(decision, circumstances=around))
        return 0
    if not is_asked_for:
        shelf.keep(job, settings, decision.suite, decision.base, job.work.reference)
        job.work.keep(replace(decision, baseline=str(job.work.reference)))
        job.log.notice(f"the merge-base {decision.base[:12]} is this run's reference")
    return 0


def _base(job: Job, decision: Decision) -> _Capture:
    tree = job.work.path / "base"
    base_tree.unpack(job.workspace(), decision.base, tree)
    run = replace(decision.circumstances.run, head_sha=decision.base, tested_sha=decision.base)
    around = Circumstances(run)
    return _Capture("the merge-base", tree, job.work.reference, FEWEST_LAUNCHES, around)


def _checkout(job: Job, settings: Settings, decision: Decision) -> _Capture:
    if settings.boot == NONE:
        said = "the server is not ours to restart: how much its launches differ is not known"
        job.log.warning(said, title="inferquality: capture")
    tree, into = job.workspace(), job.work.evidence
    return _Capture("the reference", tree, into, settings.launches, decision.circumstances)


def _captured(
    job: Job, settings: Settings, decision: Decision, capture: _Capture, launch: int
) -> None:
    if settings.boot == NONE:
        asking = _options(job, settings, decision, capture, launch)
        asking = replace(asking, endpoint=settings.endpoint, not_restarted=bool(launch))
        outcome = _observed(job, asking)
    else:
        booted = starting.started(job, settings, starting.spec(job, settings, capture.tree))
        around = replace(capture.around, machine={**capture.around.machine, **booted.machine})
        patience = None
        try:
            asking = _options(job, settings, decision, replace(capture, around=around), launch)
            outcome = _observed(job, replace(asking, endpoint=booted.endpoint))
        except KeyboardInterrupt:  # the runner leaves ten seconds
            patience = stopping.HURRY
            raise
        finally:
            with job.log.quiet() as say:
                say(stopping.stop(booted.lease, places.world(job), patience))
    if not outcome.complete:
        raise BootError(f"launch {launch} stopped answering: {outcome.problem}")


def _observed(job: Job, asking: RunOptions) -> Outcome:
    with job.log.quiet():
        return session.run(asking, progress=logged.progress(job))


def _options(
    job: Job, settings: Settings, decision: Decision, capture: _Capture, launch: int
) -> RunOptions:
    keys.api_key(job, settings)  # masks it, before anything else can print it
    return RunOptions(
        evidence=capture.into,
        plan=Path(decision.plan) if decision.plan else None,
        model=keys.model(settings),
        dialect=settings.dialect,
        suite=decision.suite,
        api_key_env=settings.api_key_env,
        launch=launch,
        capture=True,
        circumstances=NOTHING if launch else capture.around,
    )
