"""Where on a runner the action keeps what outlives a job: leases, and evidence to find again."""

from __future__ import annotations

import contextlib
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


def kept(environ: Mapping[str, str], name: str) -> Path:
    """A folder in the runner's own folder of tools, which lasts; else, where none can be made and
    written there, in the job's temporary one."""
    last = Path(environ.get("RUNNER_TEMP") or ".") / "inferquality" / name
    root = environ.get("RUNNER_TOOL_CACHE", "")
    place = Path(root) / "inferquality" / name
    return place if root and _is_writable(place) else last


def _is_writable(place: Path) -> bool:
    """Tried, not asked: a file in the way, another user's folder and a read-only disk say so. No
    byte is written: a disk that fills up later must not hide what was kept before."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, probe = tempfile.mkstemp(prefix=".probe-", dir=place)
    except OSError:
        return False
    os.close(handle)
    with contextlib.suppress(OSError):
        os.unlink(probe)
    return True


def leases(environ: Mapping[str, str]) -> Path:
    """Where it is written down what was started."""
    return kept(environ, "leases")


def judged(environ: Mapping[str, str]) -> Path:
    """Where judged evidence is found again by a re-run."""
    return kept(environ, "judged")


def world(job: Runs) -> World:
    """The world as a boot sees it."""
    return World(job.environ)
