"""Whether the server behind an endpoint was restarted, as far as this machine can tell. I/O: reads
the process table and the times in an evidence folder.

Sees servers on this machine that run as this user, and no others: that nothing is found says
nothing. Decides no verdict.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from iqaction import addresses
from iqaction.boot import processes
from iqaction.calls import Tag
from iqaction.errors import ConfigError
from iqaction.evidence import reading
from iqaction.evidence.tree import Tree

_BEGAN_S = 1.0  # how much too early a start may be told


def listening(endpoint: str) -> frozenset[processes.Process]:
    """Who listens there, as far as it is this machine's and ours to see."""
    if not addresses.is_local(endpoint):
        return frozenset()
    found = (processes.find(pid) for pid in processes.listeners(addresses.port(endpoint)))
    return frozenset(p for p in found if p is not None)


def must_be_new(endpoint: str, evidence: Path, launch: int) -> None:
    """Raise ConfigError where the server that is up is the one that an earlier launch asked."""
    before = _last_answer(evidence, launch)
    for process in sorted(listening(endpoint), key=lambda p: p.pid):
        began = processes.began(process)
        if before is not None and began is not None and began + _BEGAN_S < before:
            raise ConfigError(
                f"--launch {launch}: the server was not restarted: process {process.pid} at "
                f"{endpoint} runs since before launch {launch - 1} was observed",
                expected="the same server, stopped and started again",
                next_step="restart it; or say --not-restarted, and the baseline says so too: "
                "`score` does not PASS against it, unless the plan says `floor: single`. Where a "
                "proxy listens there, give --endpoint the server's own address",
            )


def _last_answer(evidence: Path, launch: int) -> float | None:
    """When an earlier launch was last answered; None where no answer says."""
    if not (evidence / reading.PLAN).is_file():
        return None
    lines = reading.load(Tree(evidence), numbers=False).lines
    times = (
        w.observed_at for (_, k), w in lines.items() if isinstance(k, Tag) and k.launch < launch
    )
    return _seconds(max(times, default=""))


def _seconds(time: str) -> float | None:
    try:
        return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
