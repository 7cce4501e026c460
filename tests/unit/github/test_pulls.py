"""Which pull request a commit belongs to: only open ones with that very head."""

from __future__ import annotations

from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import SHA, Fault
from unit.github.conftest import Connect

from iqaction.errors import GithubError
from iqaction.github.pulls import find_pull_requests, head_of

FORK = "eve/serve"


@pytest.mark.parametrize("known", [True, False], ids=["by commit", "by list"])
def test_find_pull_requests(fake: FakeGithub, connect: Connect, known: bool) -> None:
    """Found through the commit, and where GitHub does not know it, among the open ones."""
    fake.state.pulls = {
        3: {"head_repository": FORK},
        4: {"head_repository": "Eve/Serve"},
        5: {"head_repository": FORK, "state": "closed"},
        6: {"head_repository": FORK, "head_sha": "d" * 40},
        7: {},
        8: {"head_repository": ""},
    }
    fake.state.commit_pulls = {SHA: [3, 4, 5, 6, 7, 8]} if known else {}

    assert find_pull_requests(connect(), "acme/serve", SHA, FORK) == (3, 4)


def test_find_pull_requests__unknown_commit(fake: FakeGithub, connect: Connect) -> None:
    """GitHub refuses a commit that it does not know here; the open ones are then looked at."""
    fake.state.faults = [Fault(path_re="/commits/", status=422)]

    assert find_pull_requests(connect(), "acme/serve", SHA, "acme/serve") == (7,)


def test_find_pull_requests__none(fake: FakeGithub, connect: Connect) -> None:
    """No pull request is no pull request; a head that is not known belongs to none."""
    fake.state.pulls = {7: {"head_repository": ""}}

    assert find_pull_requests(connect(), "acme/serve", SHA, "") == ()


def test_find_pull_requests__failed(fake: FakeGithub, connect: Connect) -> None:
    """That it could not be told is an error."""
    fake.state.faults = [Fault(path_re="/commits/", status=403)]

    with pytest.raises(GithubError, match="find the pull request"):
        find_pull_requests(connect(), "acme/serve", SHA, FORK)


@pytest.mark.parametrize(("pull", "head"), [({}, SHA), ({"head_sha": "x"}, "")])
def test_head_of(fake: FakeGithub, connect: Connect, pull: dict[str, Any], head: str) -> None:
    """The head as it is now."""
    fake.state.pulls = {7: pull}

    assert head_of(connect(), "acme/serve", 7) == head
