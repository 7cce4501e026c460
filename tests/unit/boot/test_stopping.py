"""What is ended, and above all what is not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from unit.boot.factory import a_lease, environ, until

from iqaction.boot import lease, processes, stopping
from iqaction.boot._base import World
from iqaction.boot.processes import Leader
from iqaction.errors import BootError

WORLD = World(environ())
HURRY = stopping.Patience(1, 1, 1)


@contextmanager
def sleeper(mark="", session=True, command=("sleep", "97")) -> Iterator[subprocess.Popen[bytes]]:
    env = environ(IQ_LEASE=mark) if mark else environ()
    with subprocess.Popen(command, env=env, start_new_session=session) as process:
        try:
            yield process
        finally:
            process.kill()


def started(process) -> int:
    found = processes.find(process.pid)
    assert found is not None
    return found.started


def test_stop__recycled_pid(tmp_path):
    """A process that has the id of ours, but not its start, is somebody else's."""
    with sleeper() as other:
        leader = Leader(other.pid, started(other) - 1)
        path = lease.write(tmp_path, a_lease(leader=leader))

        assert stopping.stop(path, WORLD, HURRY) == stopping.NOTHING
        assert other.poll() is None
    assert not path.exists()


def test_stop__another_boot(tmp_path):
    """Ids of before a restart of the machine mean nothing now: forgotten, nothing is run."""
    with sleeper("f" * 32) as other:
        held = a_lease(
            "f" * 32,
            machine_boot="another",
            leader=Leader(other.pid, started(other)),
            stop_command=f"touch {tmp_path}/ran",
        )
        path = lease.write(tmp_path, held)

        assert "started anew" in stopping.stop(path, WORLD, HURRY)
        assert other.poll() is None
    assert not path.exists()
    assert not (tmp_path / "ran").exists()


def test_stop__another_mark(tmp_path):
    """The processes of another boot are not ours, on the same host."""
    held = a_lease()
    path = lease.write(tmp_path, held)
    with sleeper(held.mark) as ours, sleeper("e" * 32) as other, sleeper() as unmarked:
        assert stopping.stop(path, WORLD, HURRY) == "1 process ended"
        assert ours.wait(5) == -signal.SIGTERM
        assert other.poll() is None
        assert unmarked.poll() is None


def test_stop__never_ourselves(tmp_path):
    """A lease that names the stopping process's own session ends nothing of it."""
    me = processes.find(os.getpid())
    assert me is not None
    head = processes.find(me.session)
    leader = Leader(me.session, head.started if head else 0)
    held = a_lease(leader=leader)

    assert os.getpid() not in [p.pid for p in processes.family(held.mark, held.leader)]


def test_stop__children_without_the_mark(tmp_path):
    """A child that dropped its environment and its session is still ours."""
    held = a_lease()
    command = ("bash", "-c", "env -i setsid sleep 96 & wait")
    with sleeper(held.mark, command=command) as parent:
        leader = Leader(parent.pid, started(parent))
        path = lease.write(tmp_path, a_lease(held.mark, leader=leader))
        assert until(lambda: len(processes.family(held.mark, leader)) == 2)

        assert stopping.stop(path, WORLD, HURRY) == "2 processes ended"


def test_stop__a_stopped_process(tmp_path):
    """A process under SIGSTOP hears SIGTERM too."""
    held = a_lease()
    path = lease.write(tmp_path, held)
    with sleeper(held.mark) as ours:
        os.kill(ours.pid, signal.SIGSTOP)

        assert stopping.stop(path, WORLD) == "1 process ended"


def test_stop__gone_already(tmp_path):
    """A lease whose server has crashed long ago is simply forgotten."""
    held = a_lease(leader=Leader(2**22 - 1, 1))
    path = lease.write(tmp_path, held)

    assert stopping.stop(path, WORLD) == stopping.NOTHING
    assert stopping.stop(path, WORLD) == stopping.NOTHING
    assert not path.exists()


def test_stop__the_checkout_is_gone(tmp_path):
    """A stop command runs all the same, and sees no token."""
    seen = tmp_path / "seen"
    held = a_lease(cwd=str(tmp_path / "gone"), stop_command=f"env > {seen}; pwd >> {seen}")
    path = lease.write(tmp_path, held)

    said = stopping.stop(path, World(environ(GITHUB_TOKEN="planted")))

    assert said == "stop command done"
    assert seen.read_text().endswith("\n/\n")
    assert "planted" not in seen.read_text()


def test_stop_work__goes_on_after_a_problem(tmp_path):
    """One thing that does not end is told after everything else has ended."""
    work = tmp_path / "work"
    broken = a_lease("0" * 32, work=str(work), project="iq-" + "0" * 16)
    held = a_lease("1" * 32, work=str(work))
    lease.write(tmp_path, broken)
    lease.write(tmp_path, held)
    world = World(environ(PATH="/nowhere"))  # no docker
    with sleeper(held.mark) as ours:
        with pytest.raises(BootError, match="docker compose down"):
            stopping.stop_work(tmp_path, work, world)

        assert ours.wait(5) == -signal.SIGTERM


def test_stop_work__nothing(tmp_path):
    """Where nothing was booted there is nothing to stop."""
    assert stopping.stop_work(tmp_path / "none", tmp_path, WORLD) == stopping.NOTHING


def test_find__odd_names(tmp_path):
    """A program's name may hold blanks and brackets."""
    odd = tmp_path / "a) S 1 (b"
    odd.symlink_to("/bin/sleep")
    with sleeper(command=(str(odd), "95")) as process:
        found = processes.find(process.pid)

        assert found is not None
        assert (found.parent, found.session) == (os.getpid(), process.pid)


def test_send__a_recycled_id():
    """A signal goes to the process that was meant, or to none."""
    with sleeper() as other:
        found = processes.find(other.pid)
        assert found is not None
        stale = processes.Process(other.pid, found.parent, found.session, found.started + 1)

        processes.send(stale, signal.SIGKILL)

        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.3)
