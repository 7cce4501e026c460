"""What a runner keeps: by suite, start and commit, and not for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.action.desk import Desk

from iqaction.action import places, shelf
from iqaction.action.shelf import Kept

SHA = "a" * 40


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    folder = tmp_path / "evidence"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    (folder / ".lock").write_text("1")
    return folder


def keep(desk: Desk, folder: Path, sha: str = SHA, suite: str = "default") -> None:
    shelf.keep(desk.job, desk.job.settings(), suite, sha, folder)


def kept(desk: Desk, suite: str = "default") -> tuple[Kept, ...]:
    return shelf.kept(desk.job, desk.job.settings(), suite)


def test_keep(tmp_path, evidence):
    """What is kept is found again, once, whole, with the time it was put there."""
    desk = Desk(tmp_path)
    keep(desk, evidence)
    keep(desk, evidence)

    (found,) = kept(desk)

    assert found.head_sha == SHA
    assert [p.name for p in found.path.iterdir()] == ["plan.json"]
    assert kept(desk, "other") == ()


def test_keep__the_newest_first(tmp_path, evidence):
    """Two commits' lie beside one another."""
    desk = Desk(tmp_path)
    for n, day in ((1, "02"), (2, "03"), (3, "01")):
        keep(desk, evidence, f"{n:040x}")
        (one,) = (k for k in kept(desk) if k.head_sha == f"{n:040x}")
        origin = {"head_sha": one.head_sha, "kept_at": f"2026-11-{day}T00:00:00Z"}
        (one.path.parent / "origin.json").write_text(json.dumps(origin))

    assert [int(k.head_sha, 16) for k in kept(desk)] == [2, 1, 3]


def test_keep__not_for_ever(tmp_path, evidence):
    """There is an end to what a runner keeps."""
    desk = Desk(tmp_path)
    for n in range(15):
        keep(desk, evidence, f"{n:040x}")

    assert len(kept(desk)) == 12


def test_keep__links_are_not_kept(tmp_path, evidence):
    """A link in the evidence would be read from elsewhere later: nothing is kept, and said."""
    (evidence / "link").symlink_to("/etc/passwd")
    desk = Desk(tmp_path)
    keep(desk, evidence)

    assert kept(desk) == ()
    assert "not kept on this runner" in desk.log
    assert list(places.baselines(desk.environ).iterdir()) == []


@pytest.mark.parametrize(
    "origin",
    ["", "{", "[]", "{}", '{"head_sha": 1}', f'{{"head_sha": "{SHA}"}}',
     f'{{"head_sha": "{SHA}", "kept_at": "soon\\n"}}',
     '{"head_sha": "../../x", "kept_at": "2026-11-30T12:00:00Z"}',
     f'{{"head_sha": "{"b" * 40}", "kept_at": "2026-11-30T12:00:00Z"}}', "[" * 70_000],
)  # fmt: skip
def test_kept__altered(tmp_path, evidence, origin):
    """What does not say of which commit it is, is as if it were not there."""
    desk = Desk(tmp_path)
    keep(desk, evidence)
    (found,) = kept(desk)
    (found.path.parent / "origin.json").write_text(origin)

    assert kept(desk) == ()


def test_kept__linked(tmp_path, evidence):
    """A link in the shelf is not followed."""
    desk = Desk(tmp_path)
    keep(desk, evidence)
    (found,) = kept(desk)
    place = found.path.parent
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")

    assert kept(desk) == ()


def test_key__depends_on_the_start(tmp_path):
    """Whatever changes what is served changes the key; what does not, does not."""

    def key(attempt: int, suite: str = "default", model: str = "", **env: str) -> str:
        desk = Desk(tmp_path, attempt=attempt, **env).inputs(model=model, paths=f"{attempt}/**")
        return shelf.key(desk.job, desk.job.settings(), suite)

    first = key(1)

    assert first == key(2, RUNNER_TEMP="/elsewhere", GITHUB_RUN_ID="9", IQ_TOKEN="other")
    others = [key(3, "suite"), key(4, model="x"), key(5, CUDA_VISIBLE_DEVICES="1")]
    assert len({first, *others}) == 4
