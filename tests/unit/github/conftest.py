"""A stand-in for GitHub that is asked over real HTTP, and a clock that nobody waits for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from fake_github.fake import FakeGithub

from iqaction.github.client import Client, open_session


class Clock:
    """Time passes when somebody sleeps, and at no other time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


Connect = Callable[..., Client]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["", "/api/v3"], ids=["github.com", "ghes"])
def fake(request: pytest.FixtureRequest) -> Iterator[FakeGithub]:
    """Asserts at the end that every request fitted GitHub's own description."""
    with FakeGithub(request.param) as running:
        yield running

    assert running.state.violations == []


@pytest.fixture
def connect(fake: FakeGithub, clock: Clock) -> Iterator[Connect]:
    """A factory of clients: ``connect(token=..., deadline_s=...)``."""
    with contextlib.ExitStack() as stack:

        def make(token: str = "ghs_rw", deadline_s: float = 120.0) -> Client:
            session = stack.enter_context(open_session())
            return Client(
                fake.url,
                token,
                session=session,
                clock=clock,
                sleep=clock.sleep,
                deadline_s=deadline_s,
            )

        yield make
