"""With no baseline yet: starts what the merge-base serves, and captures it as this run's reference.

The same machine, one after the other; started anew for every relaunch, which is how its own noise
is known. It takes as many starts as the floor needs, every time: a captured baseline is cheaper.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from iqaction import session
from iqaction.action import base_tree, keys, logged, places, starting
from iqaction.action.job import Job
from iqaction.action.settings import Settings
from iqaction.action.work import Decision
from iqaction.boot import stopping
from iqaction.boot._base import Booted
from iqaction.circumstances import NONE, Circumstances
from iqaction.errors import BootError, GithubError
from iqaction.session import Outcome, RunOptions
from iqaction.stages._levels import FEWEST_LAUNCHES


def run(job: Job) -> int:
    """Leave a captured reference in the job's folder; where that fails, the reason why nothing
    can be compared."""
    settings, decision = job.settings(), job.work.decided()
    tree = job.work.path / "base"
    try:
        base_tree.unpack(job.workspace(), decision.base, tree)
        for launch in range(FEWEST_LAUNCHES + 1):
            with job.log.group(f"the merge-base, launch {launch} of {FEWEST_LAUNCHES}"):
                _captured(job, settings, decision, launch, tree)
    except (BootError, GithubError) as exc:
        job.log.error(exc.happened, title="inferquality: no reference")
        problem = f"there is no baseline, and what the merge-base serves gave none: {exc}"
        around = replace(decision.circumstances, problem=problem)
        job.work.keep(replace(decision, circumstances=around))
        return 0
    job.work.keep(replace(decision, baseline=str(job.work.reference)))
    job.log.notice(f"the merge-base {decision.base[:12]} is this run's reference")
    return 0


def _captured(job: Job, settings: Settings, decision: Decision, launch: int, tree: Path) -> None:
    booted = starting.started(job, settings, starting.spec(job, settings, tree))
    try:
        outcome = _observed(job, settings, decision, launch, booted)
    finally:
        with job.log.quiet() as say:
            say(stopping.stop(booted.lease, places.world(job)))
    if not outcome.complete:
        raise BootError(f"launch {launch} stopped answering: {outcome.problem}")


def _observed(
    job: Job, settings: Settings, decision: Decision, launch: int, booted: Booted
) -> Outcome:
    run = decision.circumstances.run
    run = replace(run, head_sha=decision.base, tested_sha=decision.base)
    options = RunOptions(
        evidence=job.work.reference,
        plan=Path(decision.plan) if decision.plan else None,
        endpoint=booted.endpoint,
        model=keys.model(settings),
        dialect=settings.dialect,
        suite=decision.suite,
        api_key_env=settings.api_key_env,
        launch=launch,
        circumstances=NONE if launch else Circumstances(run, booted.machine),
    )
    with job.log.quiet():
        return session.run(options, progress=logged.progress(job))
