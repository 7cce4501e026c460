"""Whose lease may be ended, and what becomes of files that are none."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from unit.boot.factory import Said, a_lease, environ, owner, until

from iqaction.boot import lease, processes
from iqaction.boot._base import MARK
from iqaction.boot.processes import Leader
from iqaction.errors import BootError

EXPIRED = lease.LIFETIME_S


def reaped(leases: Path, whose=None, now=2_000.0, fails=()):
    """The marks that a reaping asked to stop, and what it said."""
    asked, said = [], Said()

    def stop(path: Path) -> str:
        asked.append(path.stem)
        if path.stem in fails:
            raise BootError("it does not end")
        return "1 process ended"

    lease.reap(leases, whose or owner(), now, stop, said)
    return asked, said.text


def test_write__is_read_again(tmp_path):
    """A lease comes back as it was, for our eyes only."""
    full = a_lease(
        leader=Leader(123, 456),
        project="iq-0123456789abcdef",
        compose_file="/x.json",
        stop_command="stop 'it'",
        cwd="/work tree",
    )

    path = lease.write(tmp_path / "new" / "leases", full)

    assert lease.read(path) == full
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.parent.iterdir()] == [f"{full.mark}.json"]


@pytest.mark.parametrize(
    ("change", "whose", "now", "expected"),
    [
        ({}, owner(run_id="8"), 2_000, True),
        ({}, owner("gpu-2", run_id="8"), 2_000, False),
        ({}, owner("gpu-2", run_id="8"), 1_000 + 5 * 24 * 3600, False),  # a job may take so long
        ({}, owner("gpu-2", run_id="8"), 1_000 + EXPIRED, True),
        ({"owner": owner("")}, owner("", run_id="8"), 2_000, False),
        ({"owner": owner(tracking="a")}, owner(tracking="a"), 2_000, False),
        ({"owner": owner(tracking="a")}, owner(tracking="b"), 2_000, True),
        ({"owner": owner(tracking="a")}, owner("gpu-2", tracking="b"), 2_000, False),
        ({"owner": owner(tracking="a")}, owner(tracking="a"), 1_000 + EXPIRED, True),
        ({"owner": owner(place="/a/_temp")}, owner(place="/b/_temp"), 2_000, False),
        ({"owner": owner(place="/a/_temp")}, owner(place="/a/_temp"), 2_000, True),
    ],
    ids=[
        "same runner",
        "another runner",
        "another runner, after five days",
        "another runner, expired",
        "no runner's name",
        "this very job",
        "same run, another leg of it",
        "another live job",
        "this job, expired",
        "a runner of the same name, elsewhere on the host",
        "the same runner in the same place",
    ],
)
def test_abandoned(change, whose, now, expected):
    """A runner has one job at a time; those of others are over when their lease is."""
    assert lease.abandoned(a_lease(**change), whose, now) is expected


@pytest.mark.parametrize(
    ("marked", "tracking", "expected"),
    [(False, "github_live", False), (True, "github_live", True), (False, "github_other", True)],
    ids=["a step of its job", "what it booted itself", "a step of another job"],
)
def test_abandoned__its_job_lives(marked, tracking, expected):
    """No date ends what a living job measures; the server that it booted is no sign of life."""
    held = a_lease(owner=owner("gpu-2", tracking="github_live"))
    env = environ(RUNNER_TRACKING_ID=tracking, **({MARK: held.mark} if marked else {}))
    with subprocess.Popen(["sleep", "99"], env=env) as one:
        try:
            assert until(lambda: one.pid in processes.of_job(tracking))
            told = lease.abandoned(held, owner("gpu-1", tracking="github_new"), 1_000 + EXPIRED)
        finally:
            one.kill()

    assert told is expected


def test_reap__ours_only(tmp_path):
    """The leases of this runner's earlier jobs, and no other."""
    ours = lease.write(tmp_path, a_lease())
    lease.write(tmp_path, a_lease(owner=owner("gpu-2")))

    asked, said = reaped(tmp_path)

    assert asked == [ours.stem]
    assert "stopped what an earlier job left behind" in said


def test_reap__one_that_does_not_end(tmp_path):
    """What cannot be stopped is said, and the rest goes on."""
    first, second = (lease.write(tmp_path, a_lease()) for _ in "ab")

    asked, said = reaped(tmp_path, fails=[first.stem])

    assert sorted(asked) == sorted([first.stem, second.stem])
    assert "still there: it does not end" in said


def test_reap__no_folder(tmp_path):
    """A first run finds nothing."""
    assert reaped(tmp_path / "none") == ([], "")


def good() -> dict:
    return {"version": 1, **json.loads(json.dumps(vars(a_lease("0" * 32)), default=vars))}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"\xff\xfe",
        json.dumps({**good(), "version": 2}).encode(),
        json.dumps({**good(), "owner": "me"}).encode(),
        json.dumps({**good(), "mark": "1" * 32}).encode(),
        json.dumps({**good(), "leader": {"pid": 1, "started": 0}}).encode(),
        json.dumps({**good(), "leader": {"pid": True, "started": 0}}).encode(),
        json.dumps({**good(), "leader": {"pid": -1, "started": 0}}).encode(),
        json.dumps({**good(), "project": "production"}).encode(),
        json.dumps({**good(), "expires": "soon"}).encode(),
        json.dumps({**good(), "expires": float("nan")}).encode(),
        json.dumps({**good(), "cwd": "x" * (2 << 20)}).encode(),
    ],
)
def test_reap__broken(tmp_path, data):
    """A file that is no lease stops nothing; it is set aside, once."""
    (tmp_path / f"{'0' * 32}.json").write_bytes(data)

    asked, said = reaped(tmp_path)

    assert asked == []
    assert "set aside" in said
    assert [p.name for p in tmp_path.iterdir()] == [f"{'0' * 32}.broken"]
    assert reaped(tmp_path) == ([], "")


def test_reap__the_broken_ones_base_is_good(tmp_path):
    """The cases above are broken by what they change, and by nothing else."""
    path = tmp_path / f"{'0' * 32}.json"
    path.write_text(json.dumps(good()))

    assert lease.read(path) == a_lease("0" * 32)


def test_reap__a_link(tmp_path):
    """A link in the folder is not followed."""
    held = lease.write(tmp_path / "elsewhere", a_lease("0" * 32))
    (tmp_path / held.name).symlink_to(held)

    asked, said = reaped(tmp_path)

    assert asked == []
    assert "set aside" in said
    assert held.exists()


def test_reap__other_files(tmp_path):
    """Files of others in the folder are left alone."""
    for name in ("notes.json", "x.compose.json", f"{'0' * 32}.json.bak"):
        (tmp_path / name).write_text("{}")

    assert reaped(tmp_path) == ([], "")
    assert len(list(tmp_path.iterdir())) == 3


def test_of_work(tmp_path):
    """A job finds what it booted by its private folder."""
    mine = lease.write(tmp_path, a_lease(work="/w/1"))
    lease.write(tmp_path, a_lease(work="/w/2"))

    assert lease.of_work(tmp_path, Path("/w/1")) == (mine,)


def test_write__replaces(tmp_path):
    """The fuller lease takes the place of the first."""
    first = a_lease()
    lease.write(tmp_path, first)

    path = lease.write(tmp_path, replace(first, leader=Leader(5, 6)))

    assert lease.read(path).leader == Leader(5, 6)
