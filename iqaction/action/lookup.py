"""Looks for a captured baseline: among the artifacts of the base branch's runs, then in the
runner's own folder. I/O: asks GitHub, unpacks into the job's folder.

Nothing that is found is believed for its name: it is opened, must be a sound capture of the commit
that it is said to be of, and else it is told why it is not taken, and the search goes on.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from iqaction import __version__, judgement
from iqaction.action import bundles, choosing, copying, shelf
from iqaction.action.ancestry import Ancestry
from iqaction.action.choosing import Origin
from iqaction.action.job import Job
from iqaction.action.settings import Settings
from iqaction.action.work import BASELINE
from iqaction.archives import Bounds
from iqaction.errors import EvidenceError, GithubError
from iqaction.evidence.canon import shown
from iqaction.evidence.store import load_baseline
from iqaction.github import artifacts
from iqaction.github.artifacts import Artifact
from iqaction.github.client import Client
from iqaction.github.event import Event
from iqaction.verdict import Verdict

_MOST_RUNS = 12  # looked at; each is two requests
_ANYBODYS = "any earlier job on this runner could have written it"
_BOUNDS = Bounds(packed=128 << 20, unpacked=512 << 20)


@dataclass(frozen=True)
class Asked:
    """What is looked for, and how commits are compared."""

    job: Job
    settings: Settings
    event: Event
    suite: str
    ancestry: Ancestry


@dataclass(frozen=True)
class Found:
    """A baseline's folder, or None; ``searched`` says in plain words where it was looked for.
    ``by_inputs``: it was started with this run's own inputs."""

    folder: Path | None = None
    searched: tuple[str, ...] = ()
    by_inputs: bool = False


def among_artifacts(asked: Asked, client: Client | None) -> Found:
    """The newest captured on the base branch that may stand for the merge-base; never raises for
    what GitHub does, or for what somebody uploaded."""
    name = f"{BASELINE}{asked.suite}"
    if client is None:
        return Found(None, ("artifacts: there is no token to ask GitHub with",))
    try:
        listed = artifacts.named(client, asked.event.repository, name)
    except GithubError as exc:
        return Found(None, (f"artifacts: {exc.happened}",))
    if not listed:
        return Found(None, (f"artifacts: there is none named {name}",))
    ours = sorted(listed, key=lambda a: (a.created_at, a.id), reverse=True)[:_MOST_RUNS]
    by_id = {artifact.id: artifact for artifact in ours}
    said: list[str] = []
    origins = (_origin(client, asked.event.repository, artifact) for artifact in ours)
    for one in choosing.weighed(origins, _branches(asked.event), asked.ancestry.of):
        label = f"artifact {name} of {one.origin.name}"
        reason, folder = one.reason, asked.job.work.baseline / f"artifact-{one.origin.id}"
        if not reason:
            try:
                found = _fetched(asked, client, by_id[one.origin.id], folder)
                must_be_sound(found, one.origin.head_sha)
            except (EvidenceError, GithubError, OSError) as exc:
                reason = _why(asked, exc)
                shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(_unpacked(folder), ignore_errors=True)
            else:
                said.append(f"{label}: taken, {_of(asked, one.origin.head_sha)}")
                return Found(found, tuple(said))
        said.append(f"{label}: not taken, {reason}")
    if len(listed) > _MOST_RUNS:
        said.append(f"artifacts: {len(listed) - _MOST_RUNS} older ones are not looked at")
    return Found(None, tuple(said))


def on_the_runner(asked: Asked) -> Found:
    """The newest that this runner has kept and that may stand for the merge-base."""
    said = []
    for kept in shelf.kept(asked.job, asked.settings, asked.suite):
        label = f"this runner's baseline of {kept.head_sha[:12]}, kept at {kept.kept_at}"
        reason = choosing.commit_unfit(asked.ancestry.of(kept.head_sha))
        if not reason:
            folder = asked.job.work.baseline / f"kept-{kept.head_sha}"
            try:
                copying.copy(kept.path, folder)
                must_be_sound(folder, kept.head_sha)
            except (EvidenceError, OSError, shutil.Error) as exc:
                reason = _why(asked, exc)
            else:
                said.append(f"{label}: taken, {_of(asked, kept.head_sha)}; {_ANYBODYS}")
                return Found(folder, tuple(said), by_inputs=True)
        said.append(f"{label}: not taken, {reason}")
    none = "this runner keeps no baseline of this suite that was started in the same way"
    return Found(None, tuple(said) or (none,))


def _branches(event: Event) -> tuple[str, ...]:
    found = (event.base_branch, event.default_branch)
    return tuple(dict.fromkeys(name for name in found if name))


def _origin(client: Client, repository: str, artifact: Artifact) -> Origin:
    """The artifact's run, of which the artifact itself tells only the commit."""
    name = f"run {artifact.run_id}"
    try:
        run = artifacts.run(client, repository, artifact.run_id)
    except GithubError as exc:
        return Origin(artifact.id, name, "", "", "", "", unreadable=exc.happened)
    same = run.head_repository.lower() == repository.lower() and artifact.same_repository
    return Origin(
        artifact.id,
        f"{name} ({shown(run.event) or 'unknown event'}, {run.head_sha[:12] or 'unknown commit'})",
        shown(run.event),
        run.branch,
        shown(run.conclusion),
        # Two lists of GitHub's that disagree say nothing.
        run.head_sha if artifact.head_sha in ("", run.head_sha) else "",
        same,
    )


def _fetched(asked: Asked, client: Client, artifact: Artifact, folder: Path) -> Path:
    artifacts.fetch(client, asked.event.repository, artifact, folder, _BOUNDS)
    return bundles.in_artifact(folder, _unpacked(folder))


def _unpacked(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-unpacked")


def must_be_sound(folder: Path, head_sha: str) -> None:
    """Raises EvidenceError for what is no whole capture of that commit, or one that disagrees
    with itself."""
    observed = load_baseline(folder)
    if observed.problems:
        raise EvidenceError(observed.problems[0])
    tested = observed.circumstances.run.tested_sha
    if tested != head_sha:
        raise EvidenceError(f"it was captured from {tested[:12] or 'an unknown commit'}")
    if judgement.judge(observed, __version__).verdict is not Verdict.UNPROVEN:
        raise EvidenceError("the reference in it disagrees with itself, or did not answer")


def _why(asked: Asked, exc: Exception) -> str:
    """In one line, without the job's own folder in it."""
    said = exc.happened if isinstance(exc, (EvidenceError, GithubError)) else ""
    first = said.splitlines()[0] if said else type(exc).__name__
    return first.replace(f"{asked.job.work.baseline}/", "")


def _of(asked: Asked, sha: str) -> str:
    if sha == asked.ancestry.base:
        return "of the merge-base"
    return "of an ancestor of the merge-base, since which nothing that matters has changed"
