"""How an older commit stands to the merge-base: GitHub's word first, the clone's where it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import Fault
from unit.action.clones import committed, git
from unit.action.desk import Desk

from iqaction.action import tokens
from iqaction.action.ancestry import Ancestry
from iqaction.action.choosing import ANCESTOR, OTHER, SAME, UNKNOWN, Standing

OLD, BASE = "a" * 40, "b" * 40
REPOSITORY = "acme/serve"


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        yield running

    assert running.state.violations == []


def relevant(path: str) -> bool:
    return path.startswith("serve/")


def asked(home: Path, github: FakeGithub | None, root: Path | None = None) -> Ancestry:
    client = tokens.client(Desk(home, github).job)[0] if github else None
    return Ancestry(root or home, REPOSITORY, BASE, relevant, client)


def files(*names: str) -> list[dict[str, str]]:
    return [{"filename": name} for name in names]


def test_of__the_base_itself(tmp_path, github):
    """Nobody is asked whether a commit is itself."""
    assert asked(tmp_path, github).of(BASE) == Standing(SAME)
    assert github.state.log == []


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"status": "ahead", "files": files("README")}, Standing(ANCESTOR)),
        ({"status": "ahead", "files": []}, Standing(ANCESTOR)),
        ({"status": "ahead", "files": files("x", "serve/a")}, Standing(ANCESTOR, ("serve/a",))),
        (
            {"status": "ahead", "files": [{"filename": "x", "previous_filename": "serve/a",
                                           "status": "renamed"}]},
            Standing(ANCESTOR, ("serve/a",)),
        ),
        ({"status": "behind", "merge_base": BASE}, Standing(OTHER)),
        ({"status": "diverged", "merge_base": "c" * 40}, Standing(OTHER)),
        ({"status": "ahead", "merge_base": "c" * 40}, Standing(OTHER)),
    ],
)  # fmt: skip
def test_of__github(tmp_path, github, told, expected):
    """An ancestor, with the files that matter and that have changed since; or none."""
    github.state.compares = {f"{OLD}...{BASE}": told}

    assert asked(tmp_path, github).of(OLD) == expected


def test_of__github_lists_no_more(tmp_path, github):
    """A list as long as GitHub's bound may lack the file that matters: not known."""
    many = files(*(f"docs/{n}" for n in range(300)))
    github.state.compares = {f"{OLD}...{BASE}": {"status": "ahead", "files": many}}

    found = asked(tmp_path, github).of(OLD)

    assert (found.relation, found.changed) == (UNKNOWN, None)
    assert "lists no more" in found.reason


def test_of__github_fails(tmp_path, github):
    """Without an answer nothing is known."""
    github.state.faults = [Fault("GET", "/compare/", times=99, status=404)]

    found = asked(tmp_path, github).of(OLD)

    assert (found.relation, found.changed) == (UNKNOWN, None)
    assert "404" in found.reason


def test_of__asked_once(tmp_path, github):
    """Two artifacts of one commit cost one question; and there is an end to questions."""
    ancestry = asked(tmp_path, github)
    github.state.compares = {f"{n:040x}...{BASE}": {"status": "ahead"} for n in range(1, 20)}

    relations = [ancestry.of(f"{n:040x}").relation for n in (1, 1, *range(1, 20))]

    assert relations.count(ANCESTOR) == 14
    assert len(github.state.log) == 12


# --- the clone ------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, list[str]]:
    """Four commits in a row."""
    root = tmp_path / "clone"
    made = [
        committed(root, {"serve/a": "1", "old name": "same", "x": "1"}),
        committed(root, {"serve/a": "2"}),
        committed(root, {"x": "2", "old name": None, "serve/new": "same"}),
        committed(root, {"y\nz": "3"}),
    ]
    return root, made


def of_clone(root: Path, old: str, base: str) -> Standing:
    return Ancestry(root, REPOSITORY, base, relevant).of(old)


def test_of__clone(clone):
    """Without a token the clone tells, renames under both names."""
    root, (first, second, third, fourth) = clone

    assert of_clone(root, first, second) == Standing(ANCESTOR, ("serve/a",))
    assert of_clone(root, second, third) == Standing(ANCESTOR, ("serve/new",))
    assert of_clone(root, third, fourth) == Standing(ANCESTOR)
    assert of_clone(root, fourth, third) == Standing(OTHER)


def test_of__shallow_clone(clone, tmp_path):
    """A clone that was cut off tells nothing."""
    root, (_, _, third, fourth) = clone
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{root}", "cut")

    assert of_clone(tmp_path / "cut", third, fourth).relation == UNKNOWN
    assert of_clone(tmp_path / "nowhere", third, fourth).relation == UNKNOWN
    assert of_clone(root, "f" * 40, fourth).relation == UNKNOWN


def test_of__clone_where_github_does_not_tell(clone, tmp_path, github):
    """Where GitHub's list is not whole, the clone's is."""
    root, (_, _, third, fourth) = clone
    many = files(*(f"docs/{n}" for n in range(300)))
    github.state.compares = {f"{third}...{fourth}": {"status": "ahead", "files": many}}
    client = tokens.client(Desk(tmp_path / "desk", github).job)[0]

    found = Ancestry(root, REPOSITORY, fourth, relevant, client).of(third)

    assert found == Standing(ANCESTOR)


def test_of__github_goes_before_the_clone(clone, tmp_path, github):
    """A step of the job may have written into the clone."""
    root, (_, _, third, fourth) = clone
    github.state.compares = {f"{third}...{fourth}": {"status": "diverged"}}
    client = tokens.client(Desk(tmp_path / "desk", github).job)[0]

    assert Ancestry(root, REPOSITORY, fourth, relevant, client).of(third) == Standing(OTHER)
