"""Real llama.cpp servers for tests: started once per set of parameters, ended with the session.

They are not optional: without the engine or its weights these tests fail and say why.
``IQACTION_ENGINE=off`` skips them by name; ``IQACTION_WEIGHTS=PATH`` gives the model offline.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from iqaction import demo_weights
from iqaction.cache import cache_folder
from iqaction.demo_engine import Launch, LlamaServer
from iqaction.errors import IqError

OFF = os.environ.get("IQACTION_ENGINE", "") == "off"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs an engine, so that ``-m 'not engine'`` leaves it out."""
    for item in items:
        if {"llama", "weights"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.engine)
            if OFF:
                item.add_marker(pytest.mark.skip(reason="IQACTION_ENGINE=off: no real engine"))


class Weights(Protocol):
    """``weights("Q4_0")`` is the path of the demo's model in that type."""

    def __call__(self, quant: str) -> Path: ...


@dataclass
class Llama:
    """One real server. ``restart`` gives a new process with the same weights, and a new ``url``."""

    launch: Launch
    server: LlamaServer | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        assert self.server is not None, "this server was stopped"
        return self.server.url

    @property
    def pid(self) -> int:
        assert self.server is not None, "this server was stopped"
        return self.server.pid

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def restart(self) -> Llama:
        self.stop()
        self.server = LlamaServer(self.launch)
        return self


@pytest.fixture(scope="session")
def weights() -> Weights:
    """Factory: the demo's model in the type asked for, from the cache where it is there."""

    def get(quant: str) -> Path:
        given = os.environ.get("IQACTION_WEIGHTS", "")
        try:
            cache = cache_folder(os.environ)
            return demo_weights.weights(cache, Path(given) if given else None, quant, note=print)
        except IqError as exc:
            pytest.fail(f"no weights for the real engine: {exc}", pytrace=False)

    return get


@pytest.fixture(scope="session")
def llama(weights: Weights) -> Iterator[Callable[..., Llama]]:
    """Factory: ``llama("Q4_0", slots=1, ctx=4096, threads=1)`` is a running server.

    The same parameters give the same server again (started anew where a test stopped it).
    """
    started: dict[Launch, Llama] = {}

    def start(quant: str = "Q4_1", *, slots: int = 1, ctx: int = 4096, threads: int = 1) -> Llama:
        launch = Launch(weights(quant), slots, ctx, threads, alias="smollm2-135m")
        server = started.setdefault(launch, Llama(launch))
        if server.server is None or not server.server.is_running:
            try:
                server.restart()
            except IqError as exc:
                pytest.fail(f"the real engine does not start: {exc}", pytrace=False)
        return server

    yield start
    for server in started.values():
        server.stop()


# Fixtures that every module here may ask for; imported, since a plug-in list belongs to the root.
from integration.acting import candidate, github, runner_cache, staged  # noqa: E402,F401
from integration.captured import (  # noqa: E402,F401
    capture,
    engine,
    f16,
    memory,
    other_template,
    q4_0,
    q8_0,
    runs,
    small,
    system_prompt,
)
from integration.disks import disk  # noqa: E402,F401
