"""Booting by a command: real processes, a real port, a stand-in for the generation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from unit.boot.factory import alive, asks, environ, free_port, owner, serving, until

from iqaction.boot import lease, processes, stopping
from iqaction.boot._base import World
from iqaction.boot.compose import hidden
from iqaction.boot.logs import tail_text
from iqaction.errors import BootError, ConfigError

FAST_S = 8.0  # far below the deadlines of these tests


def test_boot__answers_and_stops(host):
    """A booted server answers, its lease names it, and stopping leaves nothing."""
    port = free_port()

    booted = host.boot(host.spec(serving(port, 0.5), port))

    assert booted.endpoint == f"http://127.0.0.1:{port}"
    assert asks(booted.endpoint) == ""
    [held] = host.held()
    assert held.leader is not None
    assert alive(held) == [held.leader.pid]
    assert booted.machine["started by"] == "command"
    assert len(booted.machine["command sha256"]) == 64
    assert booted.machine["command bytes"] == str(len(serving(port, 0.5).encode()))
    assert "server.py" not in str(booted.machine)
    assert "listening" in booted.log.read_text()
    assert booted.log.stat().st_mode & 0o777 == 0o600
    assert booted.lease.stat().st_mode & 0o777 == 0o600

    assert stopping.stop(booted.lease, host.world) == "1 process ended"
    assert asks(booted.endpoint) != ""
    assert not booted.lease.exists()
    assert stopping.stop(booted.lease, host.world) == stopping.NOTHING


def test_boot__survives_the_step(host):
    """The server outlives the process that booted it, and another one stops it."""
    port = free_port()
    spec = host.spec(serving(port), port)
    with host.job(spec) as job:
        said, _ = job.communicate(timeout=30)

    assert job.returncode == 0, said
    assert asks(spec.endpoint) == ""
    assert stopping.stop_work(host.leases, spec.work, host.world) == "1 process ended"
    assert asks(spec.endpoint) != ""


def test_boot__log_is_shown(host):
    """What the server says while it starts is on the job's log, line by line and prefixed."""
    port = free_port()

    host.boot(host.spec("echo '::error::no' ; echo '##[group]x'; " + serving(port, 1), port))

    assert "  | \\x3a:error::no" in host.said.lines
    assert "  | ##\\x5bgroup]x" in host.said.lines
    assert "  | listening" in host.said.lines


def test_boot__exit_1(host):
    """A command that fails is told at once, with its exit code and the end of its log."""
    spec = host.spec("echo 'CUDA out of memory' >&2; exit 1", free_port(), ready_timeout_s=60)
    begun = time.monotonic()

    with pytest.raises(BootError, match="ended with exit code 1") as told:
        host.boot(spec)

    assert time.monotonic() - begun < FAST_S
    assert "  | CUDA out of memory" in str(told.value)
    assert host.held() == []
    assert "CUDA" in spec.log.read_text()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-engine --serve", r"exit code 127 \(a program was not found\)"),
        ("false | true", "exit code 1"),
        ("kill -9 $$", "ended by SIGKILL"),
        ("sleep 0.3; exit 137", "out of memory"),
    ],
)
def test_boot__fails_fast(host, command, said):
    """However a command dies, it is told at once."""
    begun = time.monotonic()

    with pytest.raises(BootError, match=said):
        host.boot(host.spec(command, free_port(), ready_timeout_s=60))

    assert time.monotonic() - begun < FAST_S


def test_boot__never_ready(host):
    """A server that never generates is given up at the deadline, and ended."""
    port = free_port()
    spec = host.spec(serving(port, 3600), port, ready_timeout_s=2)

    with pytest.raises(BootError, match=r"generated nothing within 2 s[\s\S]*HTTP 503"):
        host.boot(spec)

    assert asks(spec.endpoint) == "ConnectionRefusedError"
    assert host.held() == []


def test_boot__on_another_port(host):
    """Where the server listens on another port than the endpoint names, that is said."""
    port = free_port()
    spec = host.spec(serving(port), free_port(), ready_timeout_s=2)

    with pytest.raises(BootError, match=rf"what it started listens on port {port}\)"):
        host.boot(spec)


def test_boot__hangs(host):
    """A server that takes a request and never answers does not hold the boot past its deadline."""
    port = free_port()
    code = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(99)"
    spec = host.spec(f'exec {sys.executable} -I -S -c "{code}"', port, ready_timeout_s=2)
    begun = time.monotonic()

    with pytest.raises(BootError, match="generated nothing within 2 s"):
        host.boot(spec)

    assert time.monotonic() - begun < FAST_S


def test_boot__killed_while_booting(host):
    """A server that is killed while it loads is told at once."""
    port = free_port()
    spec = host.spec(serving(port, 3600), port, ready_timeout_s=60)
    begun = time.monotonic()
    killed = []

    def probe(endpoint: str) -> str:
        said = asks(endpoint)
        if said == "HTTP 503" and not killed:
            killed.append(host.held()[0].leader.pid)
            os.kill(killed[0], signal.SIGKILL)
        return said

    with pytest.raises(BootError, match="ended by SIGKILL"):
        host.boot(spec, probe)

    assert killed
    assert time.monotonic() - begun < FAST_S


def test_boot__command_starts_a_daemon(host):
    """A script that starts a server and ends with 0 is good; its server is found and stopped,
    also one that has left the session."""
    port = free_port()
    quoted = serving(port, 0.5).removeprefix("exec ")

    booted = host.boot(host.spec(f"setsid {quoted} &\ndisown; sleep 0.1; exit 0", port))

    [held] = host.held()
    [pid] = alive(held)
    assert held.leader is not None
    assert processes.find(pid).session != held.leader.pid
    assert stopping.stop(booted.lease, host.world) == "1 process ended"
    assert asks(booted.endpoint) != ""


def test_boot__daemon_that_dies(host):
    """A script that ended with 0 and left nothing: said at the deadline, since a container that
    it started would not be seen either."""
    spec = host.spec("exit 0", free_port(), ready_timeout_s=1.5)

    with pytest.raises(BootError, match="no process that it started is left"):
        host.boot(spec)


def test_boot__stop_command_goes_first(host):
    """The user's stop command is asked before anything is killed, and what it says is kept."""
    port = free_port()
    spec = host.spec(serving(port), port, stop_command="touch stopped; exit 3")
    booted = host.boot(spec)

    said = stopping.stop(booted.lease, host.world)

    assert said == "stop command failed (exit code 3); 1 process ended"
    assert (host.folder / "stopped").exists()


def test_boot__stop_command_that_hangs(host):
    """It has its time and no more; the rest is stopped, and the lease stays: who knows what only
    that command would have ended."""
    port = free_port()
    booted = host.boot(host.spec(serving(port), port, stop_command="sleep 99"))

    with pytest.raises(BootError, match="took too long"):
        stopping.stop(booted.lease, host.world, stopping.Patience(command_s=0.5))

    assert asks(booted.endpoint) != ""
    assert booted.lease.exists()


def test_boot__cancelled_with_a_stop_command(host):
    """A stop command that had no time in the cancelled step is run again by the stop step."""
    port = free_port()
    command = "touch begun; sleep 4; touch stopped"
    spec = host.spec(serving(port, 3600), port, ready_timeout_s=60, stop_command=command)
    with host.job(spec) as job:
        assert until(lambda: asks(spec.endpoint) == "HTTP 503")
        job.send_signal(signal.SIGINT)
        said, _ = job.communicate(timeout=20)
    assert job.returncode == 130, said
    assert (host.folder / "begun").exists()
    assert not (host.folder / "stopped").exists()

    assert stopping.stop_work(host.leases, spec.work, host.world) == "stop command done"
    assert (host.folder / "stopped").exists()


def test_boot__deaf_to_sigterm(host):
    """Who does not hear SIGTERM, children included, is killed."""
    port = free_port()
    command = f"trap '' TERM; sleep 98 & {serving(port).removeprefix('exec ')}"
    booted = host.boot(host.spec(command, port))
    [held] = host.held()
    assert len(alive(held)) == 3

    said = stopping.stop(booted.lease, host.world, stopping.Patience(terminate_s=0.5))

    assert said == "3 processes ended, 3 of them killed"
    assert alive(held) == []


def test_boot__environment(new_host):
    """The job's tokens and the step's files do not reach what is booted; the runner's mark does."""
    port = free_port()
    host = new_host(
        GITHUB_TOKEN="t1", ACTIONS_RUNTIME_TOKEN="t2", IQ_WORK="w", RUNNER_TRACKING_ID="github_1"
    )
    spec = host.spec("env; " + serving(port), port)

    host.boot(spec)

    seen = dict(line.split("=", 1) for line in spec.log.read_text().split("\n") if "=" in line)
    assert seen["RUNNER_TRACKING_ID"] == "github_1"
    assert {"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "IQ_WORK"} & set(seen) == set()
    assert seen["IQ_LEASE"] == host.held()[0].mark


def test_boot__stdin_is_empty(host):
    """A command that reads is not stuck."""
    port = free_port()

    host.boot(host.spec(f"cat; {serving(port)}", port))

    assert host.held()


def test_boot__secrets_are_masked(host):
    """A given secret is in no line, no error and no fact."""
    spec = host.spec("echo key sesame-open; exit 1 # sesame-open", free_port())
    spec = type(spec)(**{**vars(spec), "secrets": ("sesame-open",)})

    with pytest.raises(BootError) as told:
        host.boot(spec)

    assert "key ***" in str(told.value)
    assert "sesame" not in str(told.value) + host.said.text
    assert "sesame" not in repr(spec).replace(spec.command, "")


@pytest.mark.parametrize(
    "command",
    [
        "set -x; true --api-key sesame-open; exit 1",
        "set -x; API_KEY='sesame-open' true; exit 1",
        "set -x; true http://me:sesame-open@host/; exit 1",
        "set -x; true -H 'Authorization: Bearer sesame-open'; exit 1",
        "set -v\n  open-the-door with sesame-open  ",
    ],
)
def test_boot__commands_are_not_quoted(host, command):
    """What a command holds is in no line, no error and no fact, though bash repeats it."""
    spec = host.spec(command, free_port())

    with pytest.raises(BootError) as told:
        host.boot(spec)

    assert "sesame" in spec.log.read_text()  # bash has repeated it, for us alone
    assert "***" in str(told.value)
    assert "sesame" not in str(told.value) + host.said.text + tail_text(spec.log, hidden(spec))
    assert spec.log.stat().st_mode & 0o777 == 0o600


def test_boot__stop_command_is_not_quoted(host):
    """Nor is a stop command that fails."""
    port = free_port()
    booted = host.boot(
        host.spec(serving(port), port, stop_command="set -x; end --token sesame-open")
    )

    said = stopping.stop(booted.lease, host.world)

    assert "stop command failed" in said
    assert "***" in said
    assert "sesame" not in said + str(booted.machine)


def test_boot__port_taken(host):
    """Another server on the port would be judged in its place: refused before the start."""
    port = free_port()
    host.boot(host.spec(serving(port), port))

    with pytest.raises(BootError, match=f"answers at 127.0.0.1:{port} already"):
        host.boot(host.spec("touch started", port, owner=owner("gpu-2")))

    assert not (host.folder / "started").exists()
    assert len(host.held()) == 1


def test_boot__port_lost_in_a_race(host):
    """Two boots with one port, both free when they looked: who got no port is not ready."""
    port = free_port()
    other = host.spec(serving(port), port, owner=owner("gpu-2"))

    def probe(endpoint: str) -> str:
        if len(host.held()) == 1:  # ours is started; the other one is faster
            host.boot(other)
        return asks(endpoint)

    with pytest.raises(BootError, match="taken by another boot on this host"):
        host.boot(host.spec("sleep 99", port), probe)

    [held] = host.held()
    assert held.owner.runner == "gpu-2"


@pytest.mark.parametrize("is_led", [True, False], ids=["ours loads", "ours has no leader any more"])
def test_boot__a_stranger_on_the_port(host, is_led):
    """What somebody else starts while ours still loads is not judged in its place."""
    port = free_port()
    strangers = []

    def probe(endpoint: str) -> str:
        if not strangers:
            command = ["bash", "-c", serving(port)]
            strangers.append(subprocess.Popen(command, cwd=host.folder))
            [held] = host.held()
            lease.write(host.leases, replace(held, leader=held.leader if is_led else None))
        return asks(endpoint)

    try:
        with pytest.raises(BootError, match="which was not started here") as told:
            host.boot(host.spec("sleep 99", port), probe)
        assert f"(process {strangers[0].pid})" in told.value.happened
        assert "start it in boot_command" in str(told.value)
        assert "`boot: none`" in str(told.value)
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()

    assert host.held() == []


def test_boot__two_at_once(host):
    """Two runners on one host boot and stop, and neither disturbs the other."""
    ports = [free_port(), free_port()]
    first, second = (host.boot(host.spec(serving(p), p, owner=owner(f"gpu-{p}"))) for p in ports)

    stopping.stop(first.lease, host.world)

    assert [asks(first.endpoint) == "", asks(second.endpoint) == ""] == [False, True]


def test_boot__killed_job_is_reaped(host):
    """What a job that was killed with -9 leaves behind is stopped by the runner's next boot."""
    port = free_port()
    seen = host.folder / "seen"
    spec = host.spec(serving(port, 3600), port, ready_timeout_s=60, stop_command=f"env > '{seen}'")
    with host.job(spec) as job:
        assert until(lambda: asks(spec.endpoint) == "HTTP 503")
        job.kill()
        job.communicate()
    [held] = host.held()
    assert alive(held)

    host.world = World(environ(NEW_JOBS_KEY="planted"))
    booted = host.boot(host.spec(serving(port), port, owner=owner(run_id="8")))

    assert "PATH=" in seen.read_text()
    assert "planted" not in seen.read_text()

    assert alive(held) == []
    assert booted.lease.stem != held.mark
    assert "stopped what an earlier job left behind (run 7, job quality)" in host.said.text


def test_boot__killed_before_the_lease_was_complete(host):
    """A lease that only says what was to be started is enough to find what was."""
    port = free_port()
    booted = host.boot(host.spec(serving(port), port))
    [held] = host.held()
    lease.write(host.leases, type(held)(**{**vars(held), "leader": None}))

    assert stopping.stop(booted.lease, host.world) == "1 process ended"
    assert asks(booted.endpoint) != ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["starting", "loading"])
def test_boot__signal(host, number, moment):
    """A signal to the booting step ends the server, well within the time that a runner gives."""
    port = free_port()
    spec = host.spec(serving(port, 3600), port, ready_timeout_s=60)
    seen = {
        "starting": host.held,
        "loading": lambda: asks(spec.endpoint) == "HTTP 503",
    }
    with host.job(spec) as job:
        assert until(seen[moment])
        begun = time.monotonic()
        job.send_signal(number)
        said, _ = job.communicate(timeout=20)

    assert job.returncode == 130, said
    assert time.monotonic() - begun < 7.5
    assert asks(spec.endpoint) == "ConnectionRefusedError"
    assert host.held() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mode": "magic"}, "boot: 'magic'"),
        ({"command": " "}, "without boot_command"),
        ({"endpoint": ""}, "without endpoint"),
        ({"command": "a\0b"}, "NUL"),
        ({"ready_timeout_s": 0.0}, "ready_timeout"),
        ({"ready_timeout_s": float("nan")}, "ready_timeout"),
        ({"mode": "compose"}, "no such file"),
        ({"compose_env": {"A=B": "c"}}, "the name of a variable"),
    ],
)
def test_boot__options_that_do_not_fit(host, change, said):
    """A mistake is told before anything is started."""
    spec = host.spec("touch started", free_port())

    with pytest.raises(ConfigError) as told:
        host.boot(type(spec)(**{**vars(spec), **change}))

    assert said in str(told.value)
    assert not (host.folder / "started").exists()


def test_boot__no_such_folder(host):
    """A folder that is not there is told, and nothing stays."""
    with pytest.raises(BootError, match="cannot start bash"):
        host.boot(host.spec("true", free_port(), cwd=host.folder / "gone"))

    assert host.held() == []


def test_boot__leases_cannot_be_written(host):
    """Nothing is started that could not be stopped."""
    blocked = host.folder / "file"
    blocked.write_text("")

    with pytest.raises(BootError, match="cannot write the lease"):
        host.boot(host.spec("touch started", free_port(), leases=blocked / "leases"))

    assert not (host.folder / "started").exists()


def test_detached__no_zombie_warning(host):
    """Python says nothing about a child that outlives it."""
    port = free_port()
    spec = host.spec(serving(port), port)
    with host.job(spec) as job:
        said, _ = job.communicate(timeout=30)

    assert "Warning" not in said
    assert subprocess.run(["true"], check=True).returncode == 0
