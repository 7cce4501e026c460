"""Where fetched files are kept in a workflow; the rest of the order is tested with the weights."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from iqaction.cache import cache_folder


def runner(tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "xdg"),
        "RUNNER_TOOL_CACHE": str(tmp_path / "tools"),
        **more,
    }


def test_cache_folder__workflow(tmp_path: Path) -> None:
    """In a workflow the runner's folder of tools is used, and nothing is made in the home."""
    assert cache_folder(runner(tmp_path)) == tmp_path / "tools" / "inferquality"
    assert [p.name for p in tmp_path.iterdir()] == ["tools"]


def test_cache_folder__named_in_a_workflow(tmp_path: Path) -> None:
    """A folder that is named goes before the runner's."""
    own = str(tmp_path / "own")

    assert cache_folder(runner(tmp_path, IQACTION_CACHE=own)) == Path(own)


@pytest.mark.parametrize("tools", ["", "relative", "file"])
def test_cache_folder__workflow_without_tools(
    tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the runner's folder is none, a temporary one serves, and the home stays as it is."""
    (tmp_path / "file").write_text("")
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    place = str(tmp_path / tools) if tools == "file" else tools

    folder = cache_folder(runner(tmp_path, RUNNER_TOOL_CACHE=place))

    assert folder.parent == tmp_path / "temp"
    assert not (tmp_path / "home").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_cache_folder__desk_with_tools(tmp_path: Path) -> None:
    """Outside a workflow that variable means nothing."""
    environ = runner(tmp_path, GITHUB_ACTIONS="")

    assert cache_folder(environ) == tmp_path / "xdg" / "inferquality"
