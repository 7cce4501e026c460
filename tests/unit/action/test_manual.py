"""Publishing by hand: what is posted is what was sealed, or it is said that nobody vouches."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import SHA
from whole_evidence import Whole

from iqaction import cli, session
from iqaction.action import manual, reports
from iqaction.errors import EvidenceError
from iqaction.verdict import Verdict

SMALL = Whole(("niah",), launches=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder ``good`` that PASSes and a folder ``bad`` that does not."""
    home = tmp_path_factory.mktemp("manual")
    SMALL.captured(home / "reference")
    good = SMALL.compared(home / "good", home / "reference").report
    bad = SMALL.compared(home / "bad", home / "reference", worse=True).report
    assert good.verdict is Verdict.PASS
    assert bad.verdict is not Verdict.PASS
    return home


def linked(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to("/dev/null")


BREAKS: dict[str, Callable[[Path], object]] = {
    "the seal stays": lambda folder: None,
    "the seal is gone": lambda folder: (folder / "manifest.json").unlink(),
    "the seal is none": lambda folder: (folder / "manifest.json").write_bytes(b"{}"),
    "the seal is a link": linked,
    "answers after the seal": lambda folder: (folder / "journal.jsonl").write_bytes(b"\n"),
    "no answers": lambda folder: shutil.rmtree(folder / "observations"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_stored__another_report(tmp_path: Path, made: Path, name: str) -> None:
    """The report of a run that PASSed, laid into the evidence of one that did not, is neither
    posted nor rendered, whatever became of the seal."""
    folder = tmp_path / "evidence"
    shutil.copytree(made / "bad", folder)
    shutil.copy(made / "good/report.json", folder)
    BREAKS[name](folder)

    for read in (manual.stored, session.render):
        with pytest.raises(
            EvidenceError, match=r"report\.json (was altered|is covered by no seal)"
        ):
            read(folder)


def test_stored(tmp_path: Path, made: Path) -> None:
    """What was sealed is read with its root, which may be asked for; a report without evidence, as
    of a run that was refused, has none."""
    report = manual.stored(made / "good")
    alone = tmp_path / "alone"
    reports.write(alone, report)

    assert report.verdict is Verdict.PASS
    assert manual.stored(made / "good", report.evidence_root) == report
    assert manual.stored(alone).evidence_root == ""
    for folder in (made / "bad", alone):
        with pytest.raises(EvidenceError, match="its evidence root is"):
            manual.stored(folder, report.evidence_root)


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGithub]:
    with FakeGithub() as running:
        monkeypatch.setenv("GITHUB_API_URL", running.url)
        monkeypatch.setenv("GITHUB_TOKEN", "ghs_rw")
        yield running


def test_publish__nobody_vouches(
    tmp_path: Path, made: Path, github: FakeGithub, capsys: pytest.CaptureFixture[str]
) -> None:
    """Evidence that was edited and sealed anew cannot be told from another run's: without the
    run's root it is said, and with it nothing is posted."""
    root = manual.stored(made / "bad").evidence_root
    alone = tmp_path / "alone"
    reports.write(alone, manual.stored(made / "good"))
    to = ["--repository", "acme/serve", "--sha", SHA, "--pull-request", "7"]

    assert cli.main(["publish", str(made / "good"), *to, "--root", root]) == 3
    assert github.state.checks == {}
    assert cli.main(["publish", str(made / "good"), *to]) == 0
    assert "was not compared with the run's: see --root" in capsys.readouterr().err
    assert cli.main(["publish", str(alone), *to]) == 0
    assert "the file's own word" in capsys.readouterr().err
    own = manual.stored(made / "good").evidence_root.upper()
    assert cli.main(["publish", str(made / "good"), *to, "--root", own]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["judge", "render"])
def test_judge__nobody_vouches(
    made: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """A PASS of a folder that may be anybody's says how to find out whose it is."""
    assert cli.main([command, str(made / "good")]) == 0
    assert "whether the run wrote it: iqaction verify DIR --root ROOT" in capsys.readouterr().out
