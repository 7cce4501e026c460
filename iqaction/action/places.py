"""Where on a runner the action keeps what outlives a job: leases, and evidence to find again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from iqaction.boot._base import World


class Runs(Protocol):
    """The part of a job that is needed here."""

    @property
    def environ(self) -> Mapping[str, str]: ...


def kept(environ: Mapping[str, str]) -> Path:
    """The runner's own folder of tools, which lasts; else, or where we may not write there, the
    job's temporary one."""
    for name in ("RUNNER_TOOL_CACHE", "RUNNER_TEMP"):
        root = environ.get(name, "")
        place = Path(root) / "inferquality"
        there = next(p for p in (place, *place.parents) if p.exists())  # what is not yet, is made
        if root and os.access(there, os.W_OK):
            return place
    return Path(environ.get("RUNNER_TEMP") or ".") / "inferquality"


def leases(environ: Mapping[str, str]) -> Path:
    """Where it is written down what was started."""
    return kept(environ) / "leases"


def judged(environ: Mapping[str, str]) -> Path:
    """Where judged evidence is found again by a re-run."""
    return kept(environ) / "judged"


def world(job: Runs) -> World:
    """The world as a boot sees it."""
    return World(job.environ)
