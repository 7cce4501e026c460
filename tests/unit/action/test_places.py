"""Where the action keeps what outlives a job: a folder that can really be written."""

from __future__ import annotations

import os

import pytest

from iqaction.action import places


def folders(tmp_path) -> dict[str, str]:
    (tmp_path / "temp").mkdir()
    return {"RUNNER_TOOL_CACHE": str(tmp_path / "tools"), "RUNNER_TEMP": str(tmp_path / "temp")}


def test_leases__lasting(tmp_path):
    """The folder of tools is taken, also where it must be made first; nothing is left by trying."""
    environ = folders(tmp_path)
    place = tmp_path / "tools" / "inferquality" / "leases"

    assert places.leases(environ) == place
    assert [p.name for p in tmp_path.iterdir()] == ["temp"]

    place.mkdir(parents=True)

    assert places.leases(environ) == place
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("taken", ["tools", "tools/inferquality", "tools/inferquality/leases"])
def test_leases__a_file_in_the_way(tmp_path, taken):
    """Where no folder can be made, though it looks writable, the job's own one is taken."""
    (tmp_path / taken).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / taken).write_text("")

    assert places.leases(folders(tmp_path)) == tmp_path / "temp" / "inferquality" / "leases"


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_leases__a_folder_of_others(tmp_path):
    """Where we may not write, the job's own one is taken."""
    environ = folders(tmp_path)
    (tmp_path / "tools").mkdir(mode=0o500)

    assert places.leases(environ) == tmp_path / "temp" / "inferquality" / "leases"


def test_judged__each_folder_by_itself(tmp_path):
    """Leases that are another user's do not take the evidence with them."""
    environ = folders(tmp_path)
    (tmp_path / "tools" / "inferquality").mkdir(parents=True)
    (tmp_path / "tools" / "inferquality" / "leases").write_text("")

    assert places.judged(environ) == tmp_path / "tools" / "inferquality" / "judged"


def test_leases__no_folder_of_tools(tmp_path):
    """A runner that names none has the job's own one."""
    environ = {"RUNNER_TEMP": str(tmp_path)}

    assert places.leases(environ) == tmp_path / "inferquality" / "leases"
