"""Ends what a lease names, and nothing else: by stop command, signals and compose.

Knows leases and how things end; not why. Stopping twice is harmless.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from iqaction.boot import lease as leases_of
from iqaction.boot import processes, programs
from iqaction.boot._base import World
from iqaction.boot.environment import scrubbed
from iqaction.boot.lease import Lease
from iqaction.boot.processes import Process
from iqaction.counts import counted
from iqaction.errors import BootError
from iqaction.withheld import mask, secret_words, spelled

_LOOK_S = 0.1
_KILLED_S = 5.0  # the kernel frees tens of GB of a killed server in less
NOTHING = "nothing was left to stop"


@dataclass(frozen=True)
class Patience:
    """Seconds: for the stop command, from SIGTERM to SIGKILL, and for containers likewise.

    A stop command that fails is a problem only where somebody will try again: most fail because
    there is nothing left for them to stop.
    """

    command_s: float = 60.0
    terminate_s: float = 20.0
    containers_s: float = 20.0
    again: bool = False


HURRY = Patience(2.0, 3.0, 2.0, again=True)
"""For a cancelled job: the runner kills us 10 s after its first signal."""


def stop(path: Path, world: World, patience: Patience | None = None) -> str:
    """End what the lease in this file names, forget the lease, and say what was done.

    Raises
    ------
    BootError
        When something is still there. The lease stays, for the next try.
    """
    patience = patience or Patience()
    try:
        lease = leases_of.read(path)
    except FileNotFoundError:
        return NOTHING
    said: list[str] = []
    problems: list[str] = []
    if lease.machine_boot == processes.boot_id():
        if lease.stop_command:
            done = _commanded(lease, world, patience.command_s)
            why = mask(done.why(), spelled(secret_words(lease.stop_command)))
            told = "stop command " + ("done" if done.is_good else f"failed ({why})")
            serious = done.late or (patience.again and not done.is_good)
            (problems if serious else said).append(told)
        said += _ended(lease, world, patience.terminate_s, problems)
    elif not lease.project:
        said.append("the machine was started anew since: there is nothing to stop")
    if lease.project:  # containers may come back after a reboot; the name is ours alone
        done = _down(lease, path.parent, world, patience.containers_s)
        (said if done.is_good else problems).append(
            f"docker compose down of {lease.project}"
            + ("" if done.is_good else f" failed: {done.why()}")
        )
    if problems:
        raise BootError(
            "not all of the endpoint was stopped: " + "; ".join(problems),
            expected="nothing left of what was booted",
            next_step="look at the host; the next boot on this runner tries again",
        )
    leases_of.forget(path)
    return "; ".join(said) or NOTHING


def stop_work(leases: Path, work: Path, world: World) -> str:
    """End all that was booted with this private folder, whether its boot came to an end or not.

    Raises
    ------
    BootError
        When something is still there.
    """
    said, problems = [], []
    for path in leases_of.of_work(leases, work):
        try:
            said.append(stop(path, world))
        except BootError as exc:
            problems.append(exc)
    if problems:
        raise problems[0]
    return "; ".join(said) or NOTHING


def _commanded(lease: Lease, world: World, timeout_s: float) -> programs.Done:
    cwd = Path(lease.cwd)
    if not cwd.is_dir():  # the checkout is gone; the command may still do
        cwd = Path("/")
    return programs.run(
        ["bash", "-eo", "pipefail", "-c", lease.stop_command],
        env=scrubbed(world.environ),
        cwd=cwd,
        timeout_s=timeout_s,
    )


def _ended(lease: Lease, world: World, grace_s: float, problems: list[str]) -> list[str]:
    """SIGTERM to all of ours, SIGKILL to those that stay; children that come meanwhile too."""
    told: dict[tuple[int, int], Process] = {}
    left = _until_gone(lease, world, grace_s, signal.SIGTERM, told)
    killed = len(left)
    if left:
        left = _until_gone(lease, world, _KILLED_S, signal.SIGKILL, {})
    if left:
        ids = ", ".join(str(p.pid) for p in left)
        problems.append(f"processes that do not end or are another user's: {ids}")
    if not told:
        return []
    return [
        f"{counted(len(told), 'process')} ended" + (f", {killed} of them killed" if killed else "")
    ]


def _until_gone(
    lease: Lease,
    world: World,
    within_s: float,
    number: signal.Signals,
    told: dict[tuple[int, int], Process],
) -> list[Process]:
    end = world.clock() + within_s
    while True:
        left = processes.family(lease.mark, lease.leader)
        for process in left:
            if (process.pid, process.started) not in told:
                told[process.pid, process.started] = process
                _tell(process, number)
        if not left or world.clock() >= end:
            return left
        world.sleep(_LOOK_S)


def _tell(process: Process, number: signal.Signals) -> None:
    try:
        processes.send(process, number)
        if number is signal.SIGTERM:
            processes.send(process, signal.SIGCONT)  # a stopped process hears nothing else
    except PermissionError:
        return  # it stays in the list of what is left, and is named there


def _down(lease: Lease, leases: Path, world: World, seconds: float) -> programs.Done:
    """Containers, networks and volumes of the project. Volumes and networks that the file calls
    external are other people's, and stay."""
    base = ["docker", "compose", "-p", lease.project]
    rest = ["down", "--remove-orphans", "--timeout", str(int(seconds))]
    if Path(lease.compose_file).is_file():
        base += ["-f", lease.compose_file]
        rest.append("--volumes")
    env = {k: v for k, v in scrubbed(world.environ).items() if not k.startswith("COMPOSE_")}
    # Without the file compose goes by its labels; it must not find a compose file of others.
    return programs.run([*base, *rest], env=env, cwd=leases, timeout_s=3 * seconds + 10)
