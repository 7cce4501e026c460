"""Captured baselines that a runner keeps for its own later runs. I/O.

As trustworthy as the jobs that have run there, all of which could write here: it is the last place
that is looked in. Each is kept with the commit that it is of and with all that its start depended
on, as one hash; where that is another now, it is another suite's.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from iqaction.action import again, copying, places
from iqaction.action.job import Job
from iqaction.action.settings import Settings
from iqaction.errors import EvidenceError
from iqaction.evidence import canon

ORIGIN, EVIDENCE = "origin.json", "evidence"
_KEPT = 12  # on one runner
_MOST_BYTES = 64 * 1024
_SHA = re.compile(r"[0-9a-f]{40,64}\Z")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
_STARTED_WITH = (
    *("stages", "plan", "endpoint", "model", "dialect", "boot", "boot_command", "stop_command"),
    *("compose_file", "compose_env"),
)


@dataclass(frozen=True)
class Kept:
    """One baseline on the shelf: of which commit, and when it was put there."""

    head_sha: str
    kept_at: str
    path: Path


def key(job: Job, settings: Settings, suite: str) -> str:
    """What a baseline depends on beside its commit: repository, suite, how it is started."""
    asked = asdict(settings)
    depends = {
        "repository": job.event().repository,
        "suite": suite,
        "inputs": {name: asked[name] for name in _STARTED_WITH},
        "environment": again.environment(job),
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()


def keep(job: Job, settings: Settings, suite: str, head_sha: str, folder: Path) -> None:
    """Put a sealed capture of a commit on the shelf; best effort."""
    shelf = places.baselines(job.environ)
    name = f"{key(job, settings, suite)}-{head_sha}"
    staged = shelf / f".{uuid.uuid4().hex}"
    origin = {"head_sha": head_sha, "kept_at": job.now()}
    try:
        staged.mkdir(mode=0o700, parents=True)
        copying.copy(folder, staged / EVIDENCE)
        (staged / ORIGIN).write_text(json.dumps(origin), encoding="utf-8")
        shutil.rmtree(shelf / name, ignore_errors=True)
        staged.rename(shelf / name)
        _prune(shelf)
    except (OSError, EvidenceError) as exc:
        shutil.rmtree(staged, ignore_errors=True)
        said = exc.happened if isinstance(exc, EvidenceError) else exc.strerror or exc
        job.log.notice(f"the baseline is not kept on this runner: {said}")


def kept(job: Job, settings: Settings, suite: str) -> tuple[Kept, ...]:
    """What is there for this suite as it is started now, the newest first."""
    shelf, start = places.baselines(job.environ), f"{key(job, settings, suite)}-"
    try:
        folders = [p for p in shelf.iterdir() if p.name.startswith(start) and not p.is_symlink()]
    except OSError:
        return ()
    found = [one for folder in folders for one in _read(folder)]
    return tuple(sorted(found, key=lambda one: (one.kept_at, one.head_sha), reverse=True))


def _read(folder: Path) -> Iterator[Kept]:
    """None or one: what was put there in part, or altered, is as if it were not there."""
    try:
        with (folder / ORIGIN).open("rb") as file:
            body = canon.load_object(file.read(_MOST_BYTES), ORIGIN)
    except (OSError, EvidenceError):
        return
    sha, at = body.get("head_sha"), body.get("kept_at")
    fits = isinstance(sha, str) and _SHA.match(sha) and folder.name.endswith(f"-{sha}")
    if fits and isinstance(sha, str) and isinstance(at, str) and _INSTANT.match(at):
        yield Kept(sha, at, folder / EVIDENCE)


def _prune(shelf: Path) -> None:
    every = sorted(shelf.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in every[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
