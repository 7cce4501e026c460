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


def poison(clone: Path, named: str, content: str) -> None:
    """Put the object ``content`` under the name of the object ``named``."""
    objects = clone / ".git" / "objects"
    there = objects / named[:2] / named[2:]
    there.chmod(0o600)
    there.write_bytes((objects / content[:2] / content[2:]).read_bytes())


def test_unpack(tmp_path: Path) -> None:
    """The files as they are committed: of an older commit, links among them, whatever their names;
    nothing is left out, put in or converted, and nothing of the clone's is run."""
    clone, ran = tmp_path / "clone", tmp_path / "ran"
    attributes = "* filter=evil\n*.v ident export-subst\nserve export-ignore\nx.sh eol=crlf\n"
    files = {
        ".gitattributes": attributes, "serve/start.sh": "exec vllm\n", "x.sh": "a\n",
        "a.v": "$Id$ $Format:%H$", "new\nline \"ü": "named", "-n": "dash",
    }  # fmt: skip
    clone.mkdir()
    (clone / "link").symlink_to("serve/start.sh")
    sha = committed(clone, dict(files))
    committed(clone, {"x.sh": "changed\n"})
    for what in ("smudge", "clean", "process"):
        git(clone, "config", f"filter.evil.{what}", f"touch {ran}; cat")
    (clone / ".git/info/attributes").write_text("*.sh export-ignore\n")

    base_tree.unpack(clone, sha, tmp_path / "base")

    found = {
        str(p.relative_to(tmp_path / "base")): p.read_text()
        for p in (tmp_path / "base").rglob("*")
        if p.is_file() and not p.is_symlink()
    }
    assert found == files
    assert (tmp_path / "base/link").readlink() == Path("serve/start.sh")
    assert not ran.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["base", "clone"]


@pytest.mark.parametrize("what", ["a file", "a folder", "the commit"])
def test_unpack__the_clone_lies(tmp_path: Path, what: str) -> None:
    """What an earlier job put into the clone under another object's name is not started as the
    merge-base."""
    clone = tmp_path / "clone"
    sha = committed(clone, {"serve/start.sh": "the base"})
    other = committed(clone, {"serve/start.sh": "the change"})
    of = {"a file": ":serve/start.sh", "a folder": ":serve", "the commit": ""}[what]
    poison(clone, *(git(clone, "rev-parse", f"{x}{of}") for x in (sha, other)))

    with pytest.raises(GithubError, match="cannot give the files"):
        base_tree.unpack(clone, sha, tmp_path / "base")

    assert list((tmp_path / "base").iterdir()) == []


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside"])
def test_unpack__a_link_that_leads_out(tmp_path: Path, target: str) -> None:
    """A committed link to elsewhere is not made."""
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "link").symlink_to(target)
    sha = committed(clone, {})

    with pytest.raises(GithubError, match="cannot be unpacked"):
        base_tree.unpack(clone, sha, tmp_path / "base")


def test_unpack__a_submodule(tmp_path: Path) -> None:
    """A submodule is an empty folder: its commit is in another repository."""
    clone = tmp_path / "clone"
    committed(clone, {"a": "1"})
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'b' * 40},vendor")
    git(clone, "commit", "-q", "-m", "x")

    base_tree.unpack(clone, git(clone, "rev-parse", "HEAD"), tmp_path / "base")

    assert (tmp_path / "base/a").read_text() == "1"
    assert list((tmp_path / "base/vendor").iterdir()) == []
