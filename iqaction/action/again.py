"""Re-runs: what was judged on complete evidence is not measured again. I/O.

A candidate at the margin that is run until it is green passes in the end; so a further attempt of
one workflow run publishes what the first found. The same thing: the same checkout, the judge's same
files, the same baseline, started in the same way and environment. What a start depends on beyond
that (a tag that moved, weights, the engine on the runner) is not ours to know: so another workflow
run, a nightly one of the same commit too, is measured anew, and so is every endpoint that we do not
start.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from iqaction import __version__, judgement, session
from iqaction.action import asking, git_base, places
from iqaction.action.job import Job
from iqaction.action.remembered import KEY, is_whole
from iqaction.action.settings import CAPTURE, COMPOSE, NONE, REPORT, Settings
from iqaction.action.work import REPUBLISH, Decision
from iqaction.boot import programs
from iqaction.boot.environment import scrubbed
from iqaction.calls import Arm
from iqaction.errors import EvidenceError, GithubError, IqError
from iqaction.evidence.store import Folder
from iqaction.github import artifacts
from iqaction.github.client import Client
from iqaction.github.event import Event
from iqaction.observed import Observed

_MOST_ATTEMPTS = 4
_DOCKER_S = 20.0
_VOLATILE = ("GITHUB_", "RUNNER_", "PWD", "OLDPWD", "SHLVL", "INVOCATION_ID", "JOURNAL_STREAM")
_UNRELATED = ("paths", "warn_unproven", "comment", "check_run", "artifact", "allow_forks")


def artifact_name(settings: Settings | None, decision: Decision) -> str:
    """What this job's evidence is uploaded as: one name for each leg and attempt."""
    attempt = decision.circumstances.run.attempt or 1
    if settings is None:
        return f"inferquality-refused-{attempt}-{uuid.uuid4().hex[:8]}"
    return f"{stem(settings, decision)}-{attempt}"


def stem(settings: Settings, decision: Decision) -> str:
    """That name without the attempt."""
    part = f"-{settings.shard}-of-{settings.shards}" if settings.is_leg else ""
    part = f"-{settings.mode}" if settings.mode in (REPORT, CAPTURE) else part
    return f"inferquality-{decision.suite}{part}"


def planned(job: Job, settings: Settings, decision: Decision) -> str:
    """The sha256 of the plan that this job would ask, the baseline's root in it; raises IqError."""
    where = settings.endpoint or asking.UNKNOWN
    return session.planned(
        asking.options(job, settings, decision, where, decision.circumstances)
    ).sha256


def found(
    job: Job,
    settings: Settings,
    event: Event,
    client: Client | None,
    decision: Decision,
    plan: Callable[[Job, Settings, Decision], str] = planned,
) -> Decision:
    """The decision with its key, and with the evidence of the same measurement where that is
    still to be had: in the runner's own folder, else among this run's artifacts.

    ``plan`` tells the sha256 of what would be asked: the key alone is no proof, for whatever has
    run on the runner can compute it.
    """
    key = _key(job, settings, event, decision)
    if not key:
        return decision
    decision = replace(decision, key=key)
    for place, folder in _candidates(job, settings, event, client, decision):
        measured = _same(folder, key)
        if measured is None or not _is_of(measured, event):
            continue
        try:
            if measured.plan.sha256 != plan(job, settings, decision):
                job.log.notice(f"{place} was asked another plan, or compared with another baseline")
                continue
        except IqError:  # the measuring step says what is wrong with the plan
            return decision
        # The same run's: its address is taken from the event, and not from the evidence.
        where = event.run_url or place
        said = f"the same was measured by {where}, and its evidence is published again"
        around = decision.circumstances
        around = replace(around, run=replace(around.run, republished=where))
        around = replace(around, machine=measured.circumstances.machine)
        return replace(
            decision, action=REPUBLISH, reason=said, judged=str(folder), circumstances=around
        )
    return decision


def _candidates(
    job: Job, settings: Settings, event: Event, client: Client | None, decision: Decision
) -> Iterator[tuple[str, Path]]:
    if event.attempt < 2:
        return
    yield "an earlier attempt on this runner", places.judged(job.environ) / decision.key
    if client is None:
        return
    with contextlib.suppress(GithubError):
        earlier = range(max(1, event.attempt - _MOST_ATTEMPTS), event.attempt)
        names = [f"{stem(settings, decision)}-{n}" for n in earlier]
        every = artifacts.of_run(client, event.repository, event.run_id)
        mine = [a for a in every if a.name in names and a.same_repository and not a.expired]
        for artifact in sorted(mine, key=lambda a: names.index(a.name), reverse=True):
            folder = job.work.path / "found" / str(artifact.id)
            try:
                artifacts.fetch(client, event.repository, artifact, folder)
            except EvidenceError as exc:
                job.log.notice(exc.happened)
                continue
            yield "an earlier attempt", folder


def _same(folder: Path, key: str) -> Observed | None:
    """The evidence in ``folder`` where it is whole and of this measurement."""
    if not folder.is_dir():
        return None
    try:
        with Folder.open(folder) as evidence:
            observed = evidence.load()
    except (IqError, OSError):
        return None
    around = observed.circumstances
    fits = around.machine.get(KEY) == key and not around.problem
    # Who answers for a live reference is not ours to know, and may be another one by now.
    alone = all(arm is not Arm.REFERENCE for arm, _ in observed.engines)
    if not (fits and alone and observed.root and not observed.problems):
        return None
    # A run that was cancelled seals what it has, and is to be finished, not repeated.
    return observed if is_whole(judgement.judge(observed, __version__)) else None


def _is_of(measured: Observed, event: Event) -> bool:
    """True where the evidence says that it is of this run and this commit."""
    theirs = measured.circumstances.run
    ours = (event.repository, event.run_id, event.tested_sha)
    return (theirs.repository, theirs.run_id, theirs.tested_sha) == ours


def _key(job: Job, settings: Settings, event: Event, decision: Decision) -> str:
    """What the measurement depends on, as one hash; "" where that cannot be said."""
    is_live = bool(settings.reference_endpoint) or "://" in decision.baseline
    if settings.boot == NONE or is_live or decision.circumstances.problem:
        return ""
    images = _images(job, settings) if settings.boot == COMPOSE else ()
    if images is None:
        return ""
    try:
        judged_by = _digest(job.work.judge), _digest(Path(decision.baseline or "/dev/null"))
    except OSError:
        return ""
    asked = {k: v for k, v in asdict(settings).items() if k not in _UNRELATED}
    depends = {
        "version": __version__,
        "run": (event.run_id, event.job),
        "commit": (event.tested_sha, checked_out(job)),
        "environment": environment(job),
        "inputs": asked,
        "differences": [asdict(d) for d in decision.circumstances.differences],
        "judge": judged_by,
        "images": images,
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()


def checked_out(job: Job) -> str:
    """The commit that is really in the workspace: a step before ours may have taken another."""
    asked = git_base.command(job.workspace(), "rev-parse", "HEAD")
    done = programs.run(
        asked.arguments, env=asked.environ, cwd=job.workspace(), timeout_s=_DOCKER_S
    )
    return done.out.strip() if done.is_good else ""


def environment(job: Job) -> list[tuple[str, str]]:
    """What a started program sees, but for what differs from one attempt to the next."""
    seen = scrubbed(job.environ)
    return sorted((k, v) for k, v in seen.items() if not k.upper().startswith(_VOLATILE))


def _digest(folder: Path) -> str:
    found = hashlib.sha256()
    if folder.is_dir():
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"):
            found.update(f"{path.relative_to(folder)}\0".encode("utf-8", "surrogateescape"))
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _images(job: Job, settings: Settings) -> tuple[str, ...] | None:
    """What a compose file would start: the ids of its images, for a tag may have moved since, and
    itself as resolved, for a variable may have another value. None where docker does not tell, as
    for an image that is not pulled yet."""
    environ = {**scrubbed(job.environ), **settings.compose_env}

    def docker(*arguments: str) -> str:
        done = programs.run(
            ("docker", *arguments), env=environ, cwd=job.workspace(), timeout_s=_DOCKER_S
        )
        return done.out if done.is_good else ""

    compose = ("compose", "-f", settings.compose_file, "config")
    resolved = docker(*compose)
    names = sorted(set(docker(*compose, "--images").split()))
    ids = docker("image", "inspect", "--format", "{{.Id}}", *names).split() if names else []
    return (resolved, *sorted(set(ids))) if resolved and ids else None
