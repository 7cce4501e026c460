"""What a boot is asked with, and what it gives back. Data; starts nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

COMMAND = "command"
COMPOSE = "compose"
LOG = "boot.log"  # in the private folder, whatever the mode and however it ends
MARK = "IQ_LEASE"  # the variable by which a started process is known as ours

Say = Callable[[str], None]


@dataclass(frozen=True)
class Owner:
    """The job that boots.

    ``tracking`` is the runner's RUNNER_TRACKING_ID, which is new in every job: by it two boots
    of one job are told from those of two jobs. ``place`` is its RUNNER_TEMP: two runners of two
    repositories on one host may have one name (the host's, by default), but no folder in common.
    Both are taken from the environment, and empty where the runner gives none.
    """

    runner: str
    repository: str
    run_id: str
    attempt: str
    job: str
    tracking: str = ""
    place: str = ""


@dataclass(frozen=True)
class Spec:
    """What to start.

    Attributes
    ----------
    endpoint
        Where it will answer. May be empty for compose, where it is then found.
    ready_timeout_s
        Seconds until a generation must have succeeded, pulls of images included.
    work
        Our private folder of this job. Log and resolved compose file go there.
    leases
        A folder that outlives the job, one for all runners that share it.
    secrets
        Values that never appear in logs, errors or evidence.
    """

    mode: str
    endpoint: str
    ready_timeout_s: float
    cwd: Path
    work: Path
    leases: Path
    owner: Owner
    command: str = ""
    stop_command: str = ""
    compose_file: Path | None = None
    compose_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def log(self) -> Path:
        return self.work / LOG


@dataclass(frozen=True)
class Booted:
    """An endpoint that has generated. ``machine`` holds facts for the evidence; ``problem`` is
    for callers that go on without an endpoint and carry the reason."""

    endpoint: str
    lease: Path
    machine: Mapping[str, str]
    log: Path
    problem: str = ""


@dataclass(frozen=True)
class World:
    """What a test replaces: the environment that programs inherit, the clocks, and waiting."""

    environ: Mapping[str, str] = field(repr=False)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.time  # seconds since 1970: leases are read after a reboot


class Started(Protocol):
    """What was started, as the waiting sees it."""

    def alive(self) -> str:
        """Why it can no longer come up; "" while it can."""
        ...

    def endpoint(self) -> str:
        """Where it answers; "" while that is not known."""
        ...

    def remark(self) -> str:
        """What a reader should know when it does not answer; often ""."""
        ...

    def facts(self) -> Mapping[str, str]:
        """What was started, for the evidence."""
        ...

    def release(self) -> None:
        """Let go of it: it goes on without us, or was stopped."""
        ...
