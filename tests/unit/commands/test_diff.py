"""`iqaction diff` on folders on the disk."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from world import World, noisy

from iqaction import cli, session
from iqaction.evidence import bundle
from iqaction.evidence.store import Folder, load_baseline
from iqaction.observed import Observed

WORLD = World(units=6, length=4)


def _prompts() -> bytes:
    lines = (
        {"id": p.id, "bucket": p.bucket, "messages": [{"role": "user", "content": f"say {p.id}"}]}
        for p in WORLD.prompts().values()
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _stored(path: Path, observed: Observed, baseline: Path | None = None) -> Path:
    prompts = _prompts()
    root = load_baseline(baseline).root if baseline else ""
    sha256 = hashlib.sha256(prompts).hexdigest()
    plan = replace(observed.plan, prompts_sha256=sha256, baseline_root=root)
    with Folder.create_or_continue(path, plan, prompts, baseline) as folder:
        for (arm, launch), engine in observed.engines.items():
            folder.keep_engine(arm, launch, engine)
        for stage, kept in observed.seen.items():
            for observation in kept.values():
                folder.keep(stage, observation)
    session.judge(path)
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A captured reference, a good candidate and a bad one."""
    home = tmp_path_factory.mktemp("diff")
    capture = WORLD.capture(launches=3)
    reference = _stored(home / "reference", capture)
    good = _stored(home / "good", WORLD.compare(capture), reference)
    return reference, good, _stored(home / "bad", WORLD.compare(capture, noisy(1.0)), reference)


def test_diff__a_packed_reference(
    folders: tuple[Path, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A baseline may stay packed: the same is said of it as of its folder."""
    packed = tmp_path / "reference.tar.gz"
    bundle.pack(folders[0], packed)
    said = []
    for first in (folders[0], packed):
        assert cli.main(["diff", str(first), str(folders[1]), "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out)["stages"])

    assert said[0] == said[1]


@pytest.mark.parametrize("pair", [(0, 2), (2, 0), (1, 2), (2, 1), (0, 0), (1, 1)])
def test_diff__any_two(
    folders: tuple[Path, ...], pair: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Candidates and captures in any order: exit 0, whatever differs, and nothing is written."""
    a, b = (folders[i] for i in pair)
    before = {p: p.stat().st_mtime_ns for f in folders for p in f.rglob("*")}
    status = cli.main(["diff", str(a), str(b)])
    shown = capsys.readouterr()

    assert status == 0
    assert "Both were asked the same" in shown.out
    assert "no verdict" in shown.out
    assert shown.err == ""
    assert before == {p: p.stat().st_mtime_ns for f in folders for p in f.rglob("*")}


def test_diff__json(folders: tuple[Path, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """One object on stdout."""
    status = cli.main(["diff", str(folders[1]), str(folders[2]), "--json"])
    body = json.loads(capsys.readouterr().out)

    assert status == body["exit_code"] == 0
    assert body["same_question"] is True
    assert body["a"]["root"] != body["b"]["root"]


def test_diff__page(
    folders: tuple[Path, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page is written beside what is printed, and never into the evidence."""
    page = tmp_path / "diff.html"
    status = cli.main(["diff", str(folders[1]), str(folders[2]), "--html", str(page)])
    inside = cli.main(["diff", str(folders[1]), str(folders[2]), "--html", str(folders[2] / "x")])
    shown = capsys.readouterr()

    assert (status, inside) == (0, 4)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "no verdict" in shown.out
    assert "is in the evidence folder" in shown.err
    assert not (folders[2] / "x").exists()


def test_diff__unreadable(
    folders: tuple[Path, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is no evidence exits 3, and says what was expected."""
    status = cli.main(["diff", str(folders[1]), str(tmp_path)])

    assert status == 3
    assert "Traceback" not in capsys.readouterr().err


def test_diff__page_cannot_be_written(
    folders: tuple[Path, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page in a folder that is not there is the user's to mend."""
    page = tmp_path / "no" / "diff.html"
    status = cli.main(["diff", str(folders[1]), str(folders[2]), "--html", str(page)])

    assert status == 3
    assert "No such file" in capsys.readouterr().err


def test_diff__what_html_replaces(
    folders: tuple[Path, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier page is replaced; any other file, and a pipe, is refused and stays."""
    page, notes, pipe = (tmp_path / name for name in ("page.html", "notes.md", "pipe"))
    notes.write_text("my notes")
    os.mkfifo(pipe)
    two = [str(x) for x in folders[1:]]

    for _ in range(2):
        assert cli.main(["diff", *two, "--html", str(page)]) == 0
        assert page.read_text().startswith("<!doctype html")
    for other in (notes, pipe):
        capsys.readouterr()
        assert cli.main(["diff", *two, "--html", str(other)]) == 4
        assert "is there already, and is no page" in capsys.readouterr().err
    assert notes.read_text() == "my notes"
