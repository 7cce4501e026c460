"""Where on a runner the action keeps what outlives a job: leases, and evidence to find again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from iqaction.boot._base import World


class Runs(Protocol):
    """The part of a job that is needed here."""

    @property
    def environ(self) -> Mapping[str, str]: ...


def kept(environ: Mapping[str, str]) -> Path:
    """The runner's own folder of tools, which lasts; else the job's temporary one."""
    root = environ.get("RUNNER_TOOL_CACHE") or environ.get("RUNNER_TEMP") or "."
    return Path(root) / "inferquality"


def leases(environ: Mapping[str, str]) -> Path:
    """Where it is written down what was started."""
    return kept(environ) / "leases"


def judged(environ: Mapping[str, str]) -> Path:
    """Where judged evidence is found again by a re-run."""
    return kept(environ) / "judged"


def world(job: Runs) -> World:
    """The world as a boot sees it."""
    return World(job.environ)
