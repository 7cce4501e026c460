"""A real llama.cpp server booted by its command line: ready by a generation, and gone when stopped.

The server reads its standard input and ends with it, so the command keeps that open, as a person
who starts a server by a script would keep a terminal.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from unit.boot.factory import Host, alive, asks, environ, free_port, owner, until

from iqaction import _llama_server, demo_engine
from iqaction.boot import readiness, stopping
from iqaction.boot._base import World
from iqaction.errors import BootError, IqError

pytestmark = pytest.mark.timeout(300)

MODEL = "smollm2-135m"
FAST_S = 20.0  # Python and the engine start in 2 s; the deadlines of these tests are 120 s

Serving = Callable[..., str]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host whose servers end with the test."""
    one = Host(tmp_path)
    one.world = World(environ(LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH", "")))
    yield one
    for path in one.leases.glob("*.json") if one.leases.is_dir() else ():
        with suppress(IqError):
            stopping.stop(path, one.world, stopping.HURRY)


@pytest.fixture
def serving(weights) -> Serving:
    """Factory: the command that serves the demo's model on a port."""

    def command(port: int, model: Path | None = None) -> str:
        argv = [sys.executable, "-I", str(_llama_server.__file__), str(model or weights("Q4_1"))]
        argv += [f"--packages={demo_engine.package_folder()}", f"--port={port}"]
        argv += [f"--alias={MODEL}", "--threads=1", "--ctx=512"]
        return f"exec {shlex.join(argv)} < <(sleep infinity)"

    return command


def generates(endpoint: str) -> str:
    return readiness.probe(endpoint, MODEL, "auto", "")


def test_boot_real__generates_and_stops(host: Host, serving: Serving) -> None:
    """Booted is ready: a generation succeeds at once; stopped is gone, to the last process."""
    port = free_port()

    booted = host.boot(host.spec(serving(port), port, ready_timeout_s=120), generates)

    assert generates(booted.endpoint) == ""
    [held] = host.held()
    assert len(alive(held)) == 2  # the server, and what holds its input
    assert "model loaded" in booted.log.read_text()
    assert any("model loaded" in line for line in host.said.lines)

    stopping.stop(booted.lease, host.world)

    assert alive(held) == []
    assert "nobody answers" in generates(booted.endpoint)
    assert host.held() == []


def test_boot_real__outlives_its_step(host: Host, serving: Serving) -> None:
    """A killed job's server goes on generating until the runner's next boot, which ends it and
    gets its port."""
    port = free_port()
    spec = host.spec(serving(port), port, ready_timeout_s=120)
    with host.job(spec) as job:  # it asks for what this server has not: never ready
        assert until(lambda: generates(spec.endpoint) == "", 60)
        job.kill()
        job.communicate()
    [left] = host.held()
    assert generates(spec.endpoint) == ""

    booted = host.boot(
        host.spec(serving(port), port, owner=owner(run_id="8"), ready_timeout_s=120), generates
    )

    assert alive(left) == []
    assert generates(booted.endpoint) == ""
    assert "stopped what an earlier job left behind" in host.said.text


def test_boot_real__killed_while_booting(host: Host, serving: Serving) -> None:
    """A server that is killed while it loads is told at once, and not at the deadline."""
    port = free_port()
    killed: list[float] = []

    def probe(endpoint: str) -> str:
        [held] = host.held()
        if not killed and held.leader is not None:
            os.kill(held.leader.pid, signal.SIGKILL)
            killed.append(time.monotonic())
        return "" if not killed else generates(endpoint)

    with pytest.raises(BootError, match="ended by SIGKILL"):
        host.boot(host.spec(serving(port), port, ready_timeout_s=120), probe)

    assert time.monotonic() - killed[0] < 5
    assert host.held() == []


def test_boot_real__no_model(host: Host, serving: Serving, tmp_path: Path) -> None:
    """An engine that cannot load its model is told at once, in the engine's own words."""
    port = free_port()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but not for long")
    begun = time.monotonic()

    with pytest.raises(BootError, match=r"ended with exit code 1[\s\S]*  \| cannot start"):
        host.boot(host.spec(serving(port, broken), port, ready_timeout_s=120), generates)

    assert time.monotonic() - begun < FAST_S


def test_boot_real__two_at_once(host: Host, serving: Serving) -> None:
    """Two runners on one host: the boot and the stop of one do not touch the other's server."""
    ports = [free_port(), free_port()]
    specs = [host.spec(serving(p), p, owner=owner(f"gpu-{p}"), ready_timeout_s=120) for p in ports]
    first, second = (host.boot(spec, generates) for spec in specs)

    stopping.stop_work(host.leases, specs[0].work, host.world)

    assert generates(first.endpoint) != ""
    assert generates(second.endpoint) == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_boot_real__cancelled(host: Host, serving: Serving, number: signal.Signals) -> None:
    """A cancelled step ends the server before the runner's patience does (7.5 s)."""
    port = free_port()
    spec = host.spec(serving(port), port, ready_timeout_s=120)
    with host.job(spec) as job:
        assert until(lambda: asks(spec.endpoint).startswith("HTTP"), 60)
        [held] = host.held()
        begun = time.monotonic()
        job.send_signal(number)
        said, _ = job.communicate(timeout=30)

    assert job.returncode == 130, said
    assert time.monotonic() - begun < 7.5
    assert alive(held) == []
    assert host.held() == []
