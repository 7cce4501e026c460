"""An endpoint started by a shell command: a server in the foreground, or a script that starts one.

Knows bash and one session of processes. The server outlives us: its output goes to the log, and
what is needed to find it again is in the lease.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from iqaction.boot import processes
from iqaction.boot._base import MARK, Spec, World
from iqaction.boot.environment import scrubbed
from iqaction.boot.files import append_private
from iqaction.boot.processes import Leader
from iqaction.errors import BootError

_HINTS = {
    126: "it is not executable",
    127: "a program was not found",
    137: "it was killed: the machine may be out of memory",
}


class Command:
    """A started command. See :class:`iqaction.boot._base.Started`."""

    def __init__(self, spec: Spec, mark: str, process: subprocess.Popen[bytes]) -> None:
        self._spec, self._mark, self._process = spec, mark, process
        found = processes.find(process.pid)
        self.leader = Leader(process.pid, found.started) if found is not None else None

    def alive(self) -> str:
        code = self._process.poll()
        # 0 before an answer: a script that started a server or a container, and is done.
        return f"the boot command {how_ended(code)}" if code else ""

    def endpoint(self) -> str:
        return self._spec.endpoint

    def remark(self) -> str:
        family = processes.family(self._mark, self.leader)
        if not family:
            if self._process.poll() is None:
                return ""
            return "the boot command ended with 0, and no process that it started is left"
        ports = processes.ports(p.pid for p in family)
        if not ports or urlsplit(self._spec.endpoint).port in ports:
            return ""
        return f"what it started listens on port {', '.join(map(str, sorted(ports)))}"

    def facts(self) -> Mapping[str, str]:
        # Its text may hold a key, which no mask knows, and this is published.
        data = self._spec.command.encode("utf-8", "surrogatepass")
        return {
            "started by": "command",
            "command sha256": hashlib.sha256(data).hexdigest(),
            "command bytes": str(len(data)),
        }

    def release(self) -> None:
        release(self._process)


def start(spec: Spec, mark: str, world: World) -> Command:
    """Start the command in a session of its own.

    Raises
    ------
    BootError
        When there is no bash or no such folder.
    """
    argv = ["bash", "-eo", "pipefail", "-c", spec.command]
    env = {**scrubbed(world.environ), MARK: mark}
    return Command(spec, mark, detached(argv, env, spec.cwd, spec.log))


def detached(
    argv: list[str], env: Mapping[str, str], cwd: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Start a program that outlives us, in its own session, with its output in the log.

    Raises
    ------
    BootError
        When it cannot be started.
    """
    try:
        descriptor = append_private(log)
        try:
            return subprocess.Popen(  # noqa: S603 - what the workflow's author asked to run
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
    except OSError as exc:
        raise BootError(
            f"cannot start {argv[0]} in {cwd}: {exc.strerror or exc}",
            expected=f"{argv[0]} on the runner's PATH, and that folder",
        ) from exc


def how_ended(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"
    hint = f" ({_HINTS[code]})" if code in _HINTS else ""
    return f"ended with exit code {code}{hint}"


def release(process: subprocess.Popen[bytes]) -> None:
    """Let go of a process that is meant to outlive us, or collect it where it has ended."""
    if process.poll() is None:
        process.returncode = 0  # else Popen warns of a child that it is dropped before
