"""Where on a runner the action keeps what outlives a job: leases, and evidence to find again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from iqaction.boot._base import World


class Runs(Protocol):
    """The part of a job that is needed here."""

    @property
    def environ(self) -> Mapping[str, str]: ...


def kept(environ: Mapping[str, str], name: str = "") -> Path:
    """A folder in the runner's own folder of tools, which lasts; else, where none can be made and
    written there, in the job's temporary one."""
    root = environ.get("RUNNER_TOOL_CACHE", "")
    place = Path(root) / "inferquality" / name
    if root and _can_be_written(place):
        return place
    return Path(environ.get("RUNNER_TEMP") or ".") / "inferquality" / name


def _can_be_written(place: Path) -> bool:
    """Tried, not asked: a file in the way, another user's folder and a read-only disk say so. In
    what is there already, under a name of its own, so that two jobs may try at once."""
    there = next(p for p in (place, *place.parents) if os.path.lexists(p))
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".inferquality-", dir=there))
    except OSError:
        return False
    return True


def leases(environ: Mapping[str, str]) -> Path:
    """Where it is written down what was started."""
    return kept(environ, "leases")


def judged(environ: Mapping[str, str]) -> Path:
    """Where judged evidence is found again by a re-run."""
    return kept(environ) / "judged"


def baselines(environ: Mapping[str, str]) -> Path:
    """Where captured baselines are kept for later runs on this runner."""
    return kept(environ, "baselines")


def world(job: Runs) -> World:
    """The world as a boot sees it."""
    return World(job.environ)
