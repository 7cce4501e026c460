"""The power goes at any moment: what was kept is there, and going on gives the same folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from evidence_factory import answers, capture, files, plan, prompts, report
from kill_points import STEPS, state
from power_loss import Crash, Disk
from unit.evidence.test_sealing import prepared

from iqaction.calls import Arm
from iqaction.evidence.canon import identify
from iqaction.evidence.store import Folder

EVERY = [pytest.param(4, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]


def digests(path: Path) -> dict[str, str]:
    return {n: identify(d) for n, d in files(path).items()}


def at_any_moment(place: Path, act: Callable[[Path], None], every: int) -> list[Crash]:
    """What was left of ``place/e`` (``act`` is run on it) at every so many changes, and more."""
    with Disk(place, every) as disk:
        act(place / "e")
    return disk.crashes


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("step", ["seal", "reseal", "seal again"])
def test_seal(tmp_path: Path, step: str, every: int) -> None:
    """Sealing: every answer is there after the cut, and sealing again makes the same folder."""
    place, act = tmp_path / "disk", STEPS[step.partition(" ")[0]]
    place.mkdir()
    prepared(place / "e", step)
    before = state(place / "e")
    shutil.copytree(place / "e", tmp_path / "whole")
    act(tmp_path / "whole")
    crashes = at_any_moment(place, act, every)

    assert len(crashes) > 60 / every
    for i, crash in enumerate(crashes):
        left = crash.put(tmp_path / str(i)) / "e"
        found = state(left)
        roots = {"", before["root"], digests(tmp_path / "whole")["manifest.json"]}
        assert found.pop("root", "") in roots, crash
        assert found == {k: v for k, v in before.items() if k != "root"}, crash
        act(left)
        assert digests(left) == digests(tmp_path / "whole"), crash


@pytest.mark.parametrize("every", EVERY)
def test_adopt(tmp_path: Path, every: int) -> None:
    """Founding beside a baseline: what is left is founded by the same command, or it is nothing."""
    place = tmp_path / "disk"
    place.mkdir()
    capture(tmp_path / "baseline")
    shutil.copytree(tmp_path / "baseline", place / "baseline")
    crashes = at_any_moment(place, STEPS["adopt"], every)

    assert len(crashes) > 60 / every
    for i, crash in enumerate(crashes):
        left = crash.put(tmp_path / str(i)) / "e"
        found = state(left) if left.is_dir() else {"error": "no evidence folder"}
        assert found.get("problems") == [] or "no evidence folder" in str(found["error"]), crash
        STEPS["adopt"](left)
        assert digests(left) == digests(place / "e"), crash


@pytest.mark.parametrize("every", EVERY)
def test_keep(tmp_path: Path, every: int) -> None:
    """A whole run from an empty disk: what `keep` had returned from is there, to the last line
    before the cut; a torn one is dropped; continued, the report is that of an undisturbed run."""
    place = tmp_path / "disk"
    place.mkdir()
    with Disk(place, every) as disk:
        run(place / "e", disk)

    assert len(disk.crashes) > 60 / every
    for i, crash in enumerate(disk.crashes):
        left = crash.put(tmp_path / str(i)) / "e"
        found = state(left) if left.is_dir() else {"seen": [], "problems": []}
        assert len(found.get("seen", [])) >= crash.acknowledged, crash
        assert found.get("problems", []) == [], crash
        run(left)
        again, whole = state(left), state(place / "e")
        assert again.pop("root"), crash
        assert again == {k: v for k, v in whole.items() if k != "root"}, crash
        assert (left / "report.json").read_bytes() == (place / "e/report.json").read_bytes()


def run(path: Path, disk: Disk | None = None) -> None:
    """Ask what is not there yet, and seal."""
    with Folder.create_or_continue(path, plan(), prompts(), None) as folder:
        known = {(s, t) for s, tags in folder.load().seen.items() for t in tags}
        for count, (stage, one) in enumerate(answers(Arm.BASELINE), 1):
            if (stage, one.tag) not in known:
                folder.keep(stage, one)
            if disk is not None:
                disk.acknowledged = count
        folder.seal(report(plan_sha256=plan().sha256))


def test_disk__loses_what_was_not_synced(tmp_path: Path) -> None:
    """The model itself: a renamed file that was never synced is empty, or not there."""
    (tmp_path / "old").write_bytes(b"old")

    def careless(path: Path) -> None:
        (tmp_path / "new").write_bytes(b"new")
        os_rename(tmp_path / "new", tmp_path / "old")
        path.mkdir()

    crashes = at_any_moment(tmp_path, careless, 1)
    last = {c.how: c.files for c in crashes if c.before == "mkdir"}

    assert last["only what was synced"] == {"old": b"old"}
    assert last["all names, synced bytes"] == {"old": b""}


def os_rename(a: Path, b: Path) -> None:
    import os  # noqa: PLC0415 - looked up when it is watched

    os.rename(a, b)
