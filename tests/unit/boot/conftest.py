"""Hosts whose leases are all ended when a test is over, however it went."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.boot.factory import Host

from iqaction.boot import stopping
from iqaction.errors import IqError


@pytest.fixture
def new_host(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """Factory: a host with an environment."""
    hosts: list[Host] = []

    def make(**env: str) -> Host:
        folder = tmp_path / f"host {len(hosts)}"
        folder.mkdir()
        hosts.append(Host(folder, **env))
        return hosts[-1]

    yield make
    hurry = stopping.Patience(1, 0.5, 1)
    for one in hosts:
        for path in one.leases.glob("*.json") if one.leases.is_dir() else ():
            with contextlib.suppress(IqError):
                stopping.stop(path, one.world, hurry)


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    return new_host()


class Docker:
    """The stub's state, and what it is told to do."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def does(self, **behaviour: Any) -> None:
        (self.home / "behaviour.json").write_text(json.dumps(behaviour))

    @property
    def state(self) -> dict[str, Any]:
        path = self.home / "state.json"
        return json.loads(path.read_text()) if path.exists() else {"projects": {}, "calls": []}


@pytest.fixture
def docker(tmp_path: Path) -> Docker:
    """A docker on a PATH of its own: see ``docker_stub.py``."""
    home, tools = tmp_path / "docker", tmp_path / "bin"
    home.mkdir()
    tools.mkdir()
    script = Path(__file__).with_name("docker_stub.py")
    program = tools / "docker"
    run = f'exec "{sys.executable}" -I -S "{script}" "$@"'
    program.write_text(f"#!/bin/sh\nexport STUB_DOCKER='{home}'\n{run}\n")
    program.chmod(0o755)
    return Docker(home)


@pytest.fixture
def compose_host(new_host: Callable[..., Host], docker: Docker) -> Host:
    """A host with that docker."""
    path = f"{docker.home.parent / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    return new_host(PATH=path)
