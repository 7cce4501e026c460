"""Whether a server was restarted: real processes, and evidence that is older or newer."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from unit.test_session import stored
from world import World

from iqaction import cli, restarts
from iqaction.errors import ConfigError
from iqaction.observed import Observed

SMALL = World(units=64, length=2)
LISTEN = """
import socket, sys
with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    one.listen()
    print(one.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@contextmanager
def server() -> Iterator[str]:
    """A process of its own that listens and answers nothing."""
    command = [sys.executable, "-c", LISTEN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.stdin.close()


def launch_of(observed: Observed, launch: int) -> Observed:
    engines = {k: v for k, v in observed.engines.items() if k[1] == launch}
    seen = {
        stage: {tag: o for tag, o in kept.items() if tag.launch == launch}
        for stage, kept in observed.seen.items()
    }
    return replace(observed, engines=engines, seen=seen)


def test_must_be_new__the_same_server(tmp_path: Path) -> None:
    """A server that runs since before the launch before was answered is refused, from the command
    line too; what to do is said."""
    with server() as url:
        time.sleep(2.1)  # a start is told to the second
        kept = stored(tmp_path / "x", SMALL.capture(launches=1))
        with pytest.raises(ConfigError, match="the server was not restarted") as caught:
            restarts.must_be_new(url, kept, 2)
        flags = ["observe", "--evidence", str(kept), "--endpoint", url, "--launch", "2"]
        status = cli.main(flags)

    assert "--not-restarted" in caught.value.next_step
    assert status == 4


def test_must_be_new__restarted(tmp_path: Path) -> None:
    """One that was started since the launch before is new, also where it has begun to answer this
    one."""
    observed = SMALL.capture(launches=1)
    kept = stored(tmp_path / "x", launch_of(observed, 0))
    with server() as url:
        restarts.must_be_new(url, kept, 1)
        time.sleep(2.1)
        stored(kept, launch_of(observed, 1))
        restarts.must_be_new(url, kept, 1)

        assert restarts.listening(url)
        with pytest.raises(ConfigError):
            restarts.must_be_new(url, kept, 2)


def test_must_be_new__cannot_be_seen(tmp_path: Path) -> None:
    """Nobody there, another machine, or no evidence yet: nothing is refused."""
    kept = stored(tmp_path / "x", SMALL.capture(launches=0))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        restarts.must_be_new(f"http://127.0.0.1:{taken.getsockname()[1]}", kept, 1)
    restarts.must_be_new("http://192.0.2.1:8000", kept, 1)
    with server() as url:
        restarts.must_be_new(url, tmp_path / "none", 1)

    assert restarts.listening("http://192.0.2.1:8000") == frozenset()


@pytest.mark.parametrize("time", ["", "no time", "9999-99-99T00:00:00Z"])
def test_seconds__no_time(time: str) -> None:
    """A time that is none says nothing."""
    assert restarts._seconds(time) is None
