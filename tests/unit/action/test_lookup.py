"""What is uploaded or kept somewhere is a baseline only where it is a sound one of that commit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import BASE_SHA, Fault
from unit.action.desk import Desk, pull_request
from unit.action.evidence import Evidence
from unit.action.on_github import compared, ran, zipped
from world import World

from iqaction.action import lookup, places, shelf, tokens
from iqaction.action.ancestry import Ancestry
from iqaction.action.lookup import Asked, Found
from iqaction.errors import EvidenceError
from iqaction.evidence import bundle

OLD = "a" * 39 + "1"
NAME = "inferquality-baseline-default"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(tmp_path_factory.mktemp("lookup"), World(units=8, length=6))


@pytest.fixture(scope="module")
def captured(made: Evidence) -> Path:
    return made.captured("captured", BASE_SHA)


@pytest.fixture
def github() -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        yield running

    assert running.state.violations == []


def to_main() -> dict[str, object]:
    payload = pull_request()
    payload["pull_request"]["base"]["ref"] = "main"
    return payload


def asked(desk: Desk) -> Asked:
    job = desk.job
    client = tokens.client(job)[0]
    event = job.event()
    ancestry = Ancestry(desk.workspace, event.repository, BASE_SHA, lambda path: True, client)
    return Asked(job, job.settings(), event, "default", ancestry)


def among_artifacts(home: Path, github: FakeGithub, **more: str) -> Found:
    desk = Desk(home, github, payload=to_main(), **more)
    return lookup.among_artifacts(asked(desk), tokens.client(desk.job)[0])


def test_among_artifacts(tmp_path, github, captured):
    """An artifact of the merge-base is unpacked into the job's own folder, and it is said which."""
    ran(github, 3, BASE_SHA, zipped(captured), NAME)

    found = among_artifacts(tmp_path, github)

    assert found.folder is not None
    assert (found.folder / "manifest.json").read_bytes() == (
        captured / "manifest.json"
    ).read_bytes()
    assert found.searched == (
        f"artifact {NAME} of run 3 (push, {BASE_SHA[:12]}): taken, of the merge-base",
    )


def test_among_artifacts__packed(tmp_path, github, captured):
    """An artifact may hold the one packed file instead."""
    folder = tmp_path / "packed"
    folder.mkdir()
    bundle.pack(captured, folder / "baseline.tar.gz")
    ran(github, 3, BASE_SHA, zipped(folder), NAME)

    found = among_artifacts(tmp_path, github)

    assert found.folder is not None
    assert bundle.root_of(found.folder) == bundle.root_of(captured)


def test_among_artifacts__of_an_ancestor(tmp_path, github, made):
    """One of an older commit is taken where nothing has changed since, and not where something
    has."""
    ran(github, 3, OLD, zipped(made.captured("older", OLD)), NAME)
    compared(github, OLD, BASE_SHA)
    taken = among_artifacts(tmp_path / "a", github)
    compared(github, OLD, BASE_SHA, "compose.yml")
    left = among_artifacts(tmp_path / "b", github)

    assert taken.folder is not None
    assert "of an ancestor of the merge-base" in taken.searched[0]
    assert left.folder is None
    assert "files that matter have changed: compose.yml" in left.searched[0]


def test_among_artifacts__goes_on(tmp_path, github, captured, made):
    """What is no sound baseline of that commit is told and passed over, whatever it is."""
    other = made.captured("other", OLD)
    whole = zipped(captured)
    altered = tmp_path / "altered"
    shutil.copytree(captured, altered)
    (altered / "prompts.jsonl").write_bytes(b"")
    ran(github, 1, BASE_SHA, whole, NAME)
    for number, data in enumerate(
        (
            b"no archive",
            whole[:-300],
            zipped(made.leg("candidate")),
            zipped(other),
            zipped(altered),
            zipped(tmp_path / "nothing"),
        ),
        2,
    ):
        ran(github, number, BASE_SHA, data, NAME)

    found = among_artifacts(tmp_path, github)

    assert found.folder is not None
    assert ["not taken" in line for line in found.searched] == [True] * 6 + [False]
    assert "no baseline" in found.searched[0]
    assert f"captured from {OLD[:12]}" in found.searched[2]
    assert "compared with one" in found.searched[3]
    assert "no whole archive" in found.searched[4]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"event": "pull_request"}, "it ran on pull_request"),
        ({"event": "::error::x\ny"}, "it ran on ::error::x\\ny"),
        ({"head_branch": "topic"}, "the branch topic, not on main"),
        ({"head_branch": "main\n::set-output"}, "the branch (unknown)"),
        ({"conclusion": "cancelled"}, "cancelled"),
        ({"head_repository": "stranger/serve"}, "another repository's"),
        ({"head_sha": OLD}, "its commit is not known"),
    ],
)
def test_among_artifacts__another_run(tmp_path, github, captured, run, said):
    """A run of something else is not downloaded."""
    artifact = ran(github, 3, BASE_SHA, zipped(captured), NAME)
    github.state.runs[3] |= run

    found = among_artifacts(tmp_path, github)

    assert found.folder is None
    assert said in found.searched[0]
    assert "\n" not in found.searched[0]
    assert not [x for x in github.state.log if f"artifacts/{artifact['id']}/zip" in x["path"]]


def test_among_artifacts__a_fork_of_the_same_branch(tmp_path, github, captured):
    """A fork's commit on a branch called main is a fork's."""
    artifact = ran(github, 3, BASE_SHA, zipped(captured), NAME)
    artifact["workflow_run"]["head_repository_id"] = 666

    assert among_artifacts(tmp_path, github) == Found(
        None, (f"artifacts: there is none named {NAME}",)
    )


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (r"/actions/artifacts\?", "artifacts: GitHub failed"),
        (r"/actions/runs/3$", "the run cannot be read"),
        (r"/zip$", "not taken, GitHub failed to download"),
    ],
)
def test_among_artifacts__github_fails(tmp_path, github, captured, path, said):
    """What GitHub does not give is told, and nothing is taken."""
    ran(github, 3, BASE_SHA, zipped(captured), NAME)
    github.state.faults = [Fault("GET", path, times=99, status=502)]

    found = among_artifacts(tmp_path, github)

    assert found.folder is None
    assert said in found.searched[0]


def test_among_artifacts__nobody_to_ask(tmp_path):
    """Without a token there is a reason, and no request."""
    found = lookup.among_artifacts(asked(Desk(tmp_path)), None)

    assert found == Found(None, ("artifacts: there is no token to ask GitHub with",))


def test_among_artifacts__many(tmp_path, github):
    """There is an end to looking."""
    for number in range(1, 21):
        ran(github, number, BASE_SHA, b"", NAME, conclusion="failure")

    found = among_artifacts(tmp_path, github)

    assert len(found.searched) == 13
    assert found.searched[-1] == "artifacts: 8 older ones are not looked at"


# --- the runner's own -----------------------------------------------------------------------


def keep(desk: Desk, folder: Path, sha: str, suite: str = "default") -> None:
    shelf.keep(desk.job, desk.job.settings(), suite, sha, folder)


def test_on_the_runner(tmp_path, captured):
    """What an earlier job of this suite kept is found, as a copy, without GitHub."""
    desk = Desk(tmp_path)
    keep(desk, captured, BASE_SHA)

    found = lookup.on_the_runner(asked(desk))

    assert found.folder is not None
    assert found.folder.is_relative_to(desk.work.path)
    assert bundle.root_of(found.folder) == bundle.root_of(captured)
    assert "taken, of the merge-base; any earlier job on this runner could" in found.searched[0]


def test_on_the_runner__another_suites(tmp_path, captured):
    """Another suite's, another command's and another environment's are none."""
    desk = Desk(tmp_path)
    keep(desk, captured, BASE_SHA, "other")
    keep(Desk(tmp_path, attempt=2, MODEL="q4"), captured, BASE_SHA)
    keep(Desk(tmp_path, attempt=3).inputs(model="x"), captured, BASE_SHA)

    found = lookup.on_the_runner(asked(Desk(tmp_path, attempt=4)))

    assert len(list(places.baselines(desk.environ).iterdir())) == 3
    assert found == Found(
        None, ("this runner keeps no baseline of this suite that was started in the same way",)
    )


def test_on_the_runner__damaged(tmp_path, captured):
    """One that is damaged, and one of another commit than it is kept under, is not taken."""
    desk = Desk(tmp_path)
    keep(desk, captured, BASE_SHA)
    (kept,) = shelf.kept(desk.job, desk.job.settings(), "default")
    (kept.path / "plan.json").unlink()
    damaged = lookup.on_the_runner(asked(desk))
    keep(desk, captured, OLD)
    compared_as = replace(asked(desk), ancestry=Ancestry(desk.workspace, "", OLD, bool))
    of_another = lookup.on_the_runner(compared_as)

    assert damaged.folder is None
    assert "not taken, " in damaged.searched[0]
    assert of_another.folder is None
    assert any(f"captured from {BASE_SHA[:12]}" in line for line in of_another.searched)


def test_must_be_sound(made, captured):
    """The commit that the evidence names is the one that must be."""
    lookup.must_be_sound(captured, BASE_SHA)

    with pytest.raises(EvidenceError, match="captured from b"):
        lookup.must_be_sound(captured, OLD)
    with pytest.raises(EvidenceError, match="an unknown commit"):
        lookup.must_be_sound(made.reference, OLD)
