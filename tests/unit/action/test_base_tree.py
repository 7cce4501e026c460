"""Where a pull request starts from: the clone's word, as long as GitHub says nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import Fault
from unit.action.clones import committed, git
from unit.github.factory import event

from iqaction.action import base_tree
from iqaction.action.base_tree import MergeBase
from iqaction.errors import GithubError
from iqaction.github.client import Client, open_session


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        yield running

    assert running.state.violations == []


@pytest.fixture
def client(github: FakeGithub) -> Iterator[Client]:
    with open_session() as session:
        yield Client(github.url, "ghs_rw", session=session, clock=lambda: 0.0, sleep=lambda _: None)


def test_merge_base(tmp_path: Path, github: FakeGithub, client: Client) -> None:
    """Both say the same; or GitHub's holds, and it is told; or one alone is asked."""
    old = committed(tmp_path, {"a": "0"})
    start = committed(tmp_path, {"a": "1"})
    head = committed(tmp_path, {"a": "2"})
    pull = replace(event(), base_sha=start, head_sha=head)
    pair = f"{start}...{head}"

    github.state.compares = {pair: {"merge_base": start}}
    assert base_tree.merge_base(tmp_path, pull, client) == MergeBase(start, True)
    assert base_tree.merge_base(tmp_path, pull, None) == MergeBase(start, True)

    github.state.compares = {pair: {"merge_base": old}}
    found = base_tree.merge_base(tmp_path, pull, client)
    assert (found.sha, found.is_cloned) == (old, False)
    assert start[:12] in found.note
    assert old[:12] in found.note
    assert base_tree.commit(tmp_path, pull, client) == old

    github.state.compares = {pair: {"merge_base": "e" * 40}}
    assert base_tree.commit(tmp_path, pull, client) == ""


def test_merge_base__github_cannot_be_asked(
    tmp_path: Path, github: FakeGithub, client: Client
) -> None:
    """An outage is no contradiction; without a clone either, nothing is known."""
    start = committed(tmp_path / "clone", {"a": "1"})
    pull = replace(event(), base_sha=start, head_sha=start)
    github.state.faults = [Fault("GET", "/compare/", times=99)]

    assert base_tree.merge_base(tmp_path / "clone", pull, client) == MergeBase(start, True)
    with pytest.raises(GithubError):
        base_tree.merge_base(tmp_path, pull, client)
    with pytest.raises(GithubError, match="no token"):
        base_tree.merge_base(tmp_path, pull, None)


def test_merge_base__a_graft_in_the_clone(tmp_path: Path) -> None:
    """A file that says another history is not read."""
    old = committed(tmp_path, {"a": "0"})
    start = committed(tmp_path, {"a": "1"})
    head = committed(tmp_path, {"a": "2"})
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/grafts").write_text(f"{head} {old}\n")
    git(tmp_path, "commit-graph", "write", "--reachable")

    pull = replace(event(), base_sha=start, head_sha=head)

    assert base_tree.merge_base(tmp_path, pull, None) == MergeBase(start, True)
