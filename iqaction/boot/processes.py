"""The system's processes, read from /proc: finding ours and only ours, and ending them.

A process is ours by a variable in its environment that holds a random name (it is inherited,
also by daemons), by being in the session that we started, or by descending from such a one. A
process id alone proves nothing: ids are used again, so an id counts only together with the
moment of its start and with the boot of the machine.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from iqaction.boot._base import MARK

_PROC = Path("/proc")
_ENVIRON = 4 << 20  # bytes; an environment is at most 2 MiB or so
_LISTENING = "0A"
_TRACKING = "RUNNER_TRACKING_ID"


@dataclass(frozen=True)
class Process:
    """One running process. ``started`` is in clock ticks since the machine's boot."""

    pid: int
    parent: int
    session: int
    started: int


@dataclass(frozen=True)
class Leader:
    """Who leads the session that a boot started; its id is the session's too."""

    pid: int
    started: int


def boot_id() -> str:
    """Names this boot of the machine; "" where the system does not tell."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def find(pid: int) -> Process | None:
    """The process with this id; None where it has ended (a zombie has)."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        # "pid (name) state parent group session ...": the name may hold blanks and brackets.
        fields = text.rpartition(")")[2].split()
        if fields[0] in ("Z", "X", "x"):
            return None
        return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def began(process: Process) -> float | None:
    """When a process was started, in seconds since 1970, up to a second too early; None where the
    system does not tell."""
    try:
        lines = (_PROC / "stat").read_text(encoding="ascii").split("\n")
        booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return booted + process.started / os.sysconf("SC_CLK_TCK")


def every() -> dict[int, Process]:
    """All running processes by id."""
    try:
        names = os.listdir(_PROC)
    except OSError:
        return {}
    found = (find(int(name)) for name in names if name.isascii() and name.isdigit())
    return {p.pid: p for p in found if p is not None}


def mark_of(pid: int) -> str:
    """The lease whose mark a process carries; "" where it has none or is not ours to read."""
    return _variable(pid, MARK)


def of_job(tracking: str) -> set[int]:
    """Ids of the processes that a job's runner has started, by its RUNNER_TRACKING_ID."""
    return {pid for pid in every() if _variable(pid, _TRACKING) == tracking} if tracking else set()


def _variable(pid: int, name: str) -> str:
    """What a process was given at its start; "" where that is nothing, or not ours to read."""
    try:
        with (_PROC / str(pid) / "environ").open("rb") as stream:
            data = stream.read(_ENVIRON)
    except OSError:
        return ""
    wanted = f"{name}=".encode()
    for entry in data.split(b"\0"):
        if entry.startswith(wanted):
            return entry[len(wanted) :].decode("ascii", "replace")
    return ""


def family(mark: str, leader: Leader | None) -> list[Process]:
    """All running processes that a boot started. Never we ourselves, nor those above us."""
    table = every()
    ours = {pid for pid in table if mark_of(pid) == mark}
    if leader is not None:
        head = table.get(leader.pid)
        known = head is not None and head.started == leader.started
        members = {pid for pid, p in table.items() if p.session == leader.pid}
        # The session's number is its leader's id, which is not used again while a member lives;
        # so one member that is known as ours speaks for all of them.
        if known or members & ours:
            ours |= members
    grown = True
    while grown:
        children = {pid for pid, p in table.items() if p.parent in ours} - ours
        ours |= children
        grown = bool(children)
    ours -= _line_of(os.getpid(), table)
    return [table[pid] for pid in sorted(ours)]


def _line_of(pid: int, table: dict[int, Process]) -> set[int]:
    line = set()
    while pid > 0 and pid not in line:
        line.add(pid)
        pid = table[pid].parent if pid in table else 0
    return line | {1}


def send(process: Process, number: signal.Signals) -> None:
    """Signal a process, unless it has ended or its id is another's by now.

    Raises
    ------
    PermissionError
        When it is another user's.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # Linux before 5.3, or no Linux
        descriptor = -1
    try:
        found = find(process.pid)  # through a descriptor, it stays the one that was looked at
        if found is None or found.started != process.started:
            return
        with contextlib.suppress(ProcessLookupError):
            if descriptor < 0:
                os.kill(process.pid, number)
            else:
                signal.pidfd_send_signal(descriptor, number)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def is_contained(pid: int) -> bool:
    """True for a process that sees other processes than we do: one in a container.

    Other files are no sign of that: services of the system have a /tmp of their own.
    """
    try:
        theirs = os.readlink(_PROC / str(pid) / "ns" / "pid")
        return theirs != os.readlink(_PROC / "self" / "ns" / "pid")
    except OSError:
        return False


def name_of(pid: int) -> str:
    """What a process calls itself, at most 15 characters; "" where it is gone."""
    try:
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def listeners(port: int) -> set[int]:
    """Ids of processes that listen on a TCP port, as far as we may see into them."""
    sockets = {socket for socket, listening in _listening().items() if listening == port}
    return {pid for pid in (every() if sockets else ()) if _sockets(pid) & sockets}


def ports(pids: Iterable[int]) -> set[int]:
    """The TCP ports on which these processes listen, as far as we may see into them."""
    listening = _listening()
    held = {socket for pid in pids for socket in _sockets(pid)}
    return {port for socket, port in listening.items() if socket in held}


def _sockets(pid: int) -> set[str]:
    """What a process's descriptors say of its sockets."""
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in list((_PROC / str(pid) / "fd").iterdir()):
            with contextlib.suppress(OSError):
                found.add(os.readlink(descriptor))
    return found


def _listening() -> dict[str, int]:
    """The port of each listening TCP socket, by the socket's name in /proc."""
    found = {}
    for name in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / name).read_text(encoding="ascii").split("\n")[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) <= 9 or fields[3] != _LISTENING:
                continue
            found[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    return found
