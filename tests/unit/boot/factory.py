"""Specs, owners and small servers for the tests of boot."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from iqaction.boot import lease, processes
from iqaction.boot._base import Booted, Owner, Spec, World
from iqaction.boot.booting import boot
from iqaction.boot.lease import Lease

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def owner(runner="gpu-1", run_id="7", tracking="", place="", **more) -> Owner:
    return Owner(runner, "org/repo", run_id, "1", "quality", **more, tracking=tracking, place=place)


def a_lease(mark="", created=1_000.0, **more) -> Lease:
    known = {
        "mark": mark or lease.new_mark(),
        "owner": owner(),
        "work": "/nowhere",
        "created": created,
        "expires": created + lease.LIFETIME_S,
        "machine_boot": processes.boot_id(),
        **more,
    }
    return Lease(**known)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def asks(endpoint: str) -> str:
    """A stand-in for a generation: "" where the server says 200."""
    address = urlsplit(endpoint)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=5)
    try:
        connection.request("GET", "/generate")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as exc:
        return f"{type(exc).__name__}"
    finally:
        connection.close()
    return "" if status == 200 else f"HTTP {status}"


def serving(port: int, ready_after: float = 0) -> str:
    """A shell command that serves in the foreground."""
    script = shlex.quote(str(HERE / "server.py"))
    return f"exec {shlex.quote(sys.executable)} -I -S {script} {port} {ready_after}"


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": "/nowhere", **more}


@dataclass
class Said:
    """What was said, line by line."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class Host:
    """One host: a folder of leases, and private folders of jobs. What it booted ends with it."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder, self.world = folder, World(environ(**env))
        self.leases = folder / "tools" / "inferquality" / "leases"
        self.said = Said()
        self.jobs = 0

    def spec(self, command: str = "", port: int = 0, **more) -> Spec:
        self.jobs += 1
        known = {
            "mode": "command",
            "endpoint": f"http://127.0.0.1:{port}" if port else "",
            "ready_timeout_s": 20.0,
            "cwd": self.folder,
            "work": self.folder / f"work {self.jobs}",
            "leases": self.leases,
            "owner": owner(),
            "command": command,
        }
        return Spec(**{**known, **more})

    def boot(self, spec: Spec, probe: Callable[[str], str] = asks) -> Booted:
        return boot(spec, probe, say=self.said, world=self.world)

    def held(self) -> list[Lease]:
        paths = sorted(self.leases.glob("*.json")) if self.leases.is_dir() else []
        return [lease.read(p) for p in paths if ".compose" not in p.name]

    def job(self, spec: Spec) -> subprocess.Popen[str]:
        """The same boot in a process of its own, as a step of a job has it."""
        given = {
            **{k: getattr(spec, k) for k in ("mode", "endpoint", "ready_timeout_s", "command")},
            **{k: str(getattr(spec, k)) for k in ("cwd", "work", "leases")},
            "stop_command": spec.stop_command,
            "compose_file": str(spec.compose_file or ""),
            "owner": list(vars(spec.owner).values()),
            "path": [str(ROOT), str(ROOT / "tests")],
        }
        return subprocess.Popen(
            [sys.executable, str(HERE / "boot_once.py"), json.dumps(given)],
            env=dict(self.world.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def alive(held: Lease) -> list[int]:
    """Ids of the processes that a lease is about."""
    return [p.pid for p in processes.family(held.mark, held.leader)]


def until(claim: Callable[[], object], seconds: float = 10.0) -> bool:
    """Whether the claim comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if claim():
            return True
        time.sleep(0.02)
    return bool(claim())
