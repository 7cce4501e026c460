"""Bad input through the whole command line: one clear error, exit 4 or 3, nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from iqaction import cli

PROMPT = '{"id": "%s", "messages": [{"role": "user", "content": "x"}]}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


PLANS = {
    "broken YAML": ("stages: [trajectory\n", "plan.yml:2: not YAML"),
    "no YAML at all": ("\x00\x01", "plan.yml: not YAML"),
    "empty file": ("", "plan.yml:1: found nothing"),
    "unknown stage": ("stages:\n  - trajektory\n", "did you mean 'trajectory'?"),
    "misspelt key": ("stages:\n  - trajectory: {limt: 5}\n", "did you mean 'limit'?"),
    "misspelt margin": (
        "stages:\n  - trajectory\n  - score:\n      margins: {decisve: 1}\n",
        "plan.yml:4: score.margins: unknown margin 'decisve'; did you mean 'decisive'?",
    ),
    "misspelt top key": ("stages: [trajectory]\nbasline: x\n", "did you mean 'baseline'?"),
    "wrong type": (
        "stages:\n  - trajectory: {limit: true}\n",
        "plan.yml:2: trajectory.limit: found the truth value true",
    ),
    "key twice": ("stages: [trajectory]\nmodel: a\nmodel: b\n", "plan.yml:3: model"),
    "missing prompts": (
        "stages:\n  - trajectory: {prompts: nowhere.jsonl}\n",
        "nowhere.jsonl: no such file",
    ),
    "duplicate ids": (
        "stages:\n  - trajectory: {prompts: twice.jsonl}\n",
        "twice.jsonl:2: the id 'a' is used twice (first on line 1)",
    ),
    "prompts that are none": (
        "stages:\n  - trajectory: {prompts: plan.yml}\n",
        "plan.yml:1: not JSON",
    ),
    "impossible plan": ("stages: [score]\n", "plan.yml:1: score: "),
}


@pytest.mark.parametrize(("text", "said"), PLANS.values(), ids=list(PLANS))
def test_plan(text: str, said: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake in plan or prompts is told with its place, and nothing is begun."""
    Path("plan.yml").write_text(text)
    Path("twice.jsonl").write_text(PROMPT % "a" + PROMPT % "a")
    status = cli.main(
        ["run", "--plan", "plan.yml", "--endpoint", "http://127.0.0.1:1", "--evidence", "ev"]
    )
    shown = capsys.readouterr()

    assert status == 4
    assert said in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""
    assert not Path("ev").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--plan", "nowhere.yml"], "nowhere.yml: no such file"),
        (["--plan", "."], "it is a folder"),
        (["--dialect", "vlm"], "did you mean 'vllm'?"),
        (["--endpoint", "localhost:8000"], "--endpoint"),
        (["--endpoint", "http://key:hunter2@localhost"], "--endpoint"),
        (["--api-key-env", "sk-hunter2"], "--api-key-env"),
        (["--suite", "../x"], "--suite"),
        (["--baseline", "nowhere"], "nowhere"),
    ],
)
def test_flag(flags: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong flag is told by its name, never with a key that was pasted into it."""
    status = cli.main(["run", "--endpoint", "http://127.0.0.1:1", "--evidence", "ev", *flags])
    shown = capsys.readouterr()

    assert status in (3, 4)
    assert said in shown.err
    assert "hunter2" not in shown.err
    assert "Traceback" not in shown.err
    assert not Path("ev").exists()


def test_process(here: Path) -> None:
    """The same from a process of its own: exit 4, JSON on stdout, the error on stderr."""
    Path("plan.yml").write_text(PLANS["misspelt key"][0])
    flags = ["--plan", "plan.yml", "--evidence", "ev", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "iqaction", "run", *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])},
    )
    body = json.loads(done.stdout)

    assert done.returncode == body["exit_code"] == 4
    assert body["error"]["happened"] in done.stderr
    assert "Traceback" not in done.stderr


def test_unreachable(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An endpoint where nobody answers is NOT RUN, through a written report."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    status = cli.main(
        ["run", "--endpoint", f"http://127.0.0.1:{port}", "--evidence", "ev", "--json"]
    )
    shown = capsys.readouterr()
    body = json.loads(shown.out)

    assert status == body["exit_code"] == 3
    assert body["verdict"] == json.loads(Path("ev/report.json").read_text())["verdict"] == "NOT RUN"
    assert f"127.0.0.1:{port}" in body["problem"]
    assert "Traceback" not in shown.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evidence folder of a run that nobody answered."""
    path = tmp_path_factory.mktemp("run") / "ev"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert (
        cli.main(
            ["run", "--quiet", "--endpoint", f"http://127.0.0.1:{port}", "--evidence", str(path)]
        )
        == 3
    )
    return path


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["judge"], 3, "NOT RUN  inferquality / default"),
        (["render"], 3, "NOT RUN  inferquality / default"),
        (["verify"], 0, "consistent, not authenticated"),
        (["verify", "--root", "0" * 64], 3, "NOT WHOLE"),
        (["inspect"], 0, "No texts part."),
        (["inspect", "--failures"], 0, "No request failed."),
        (["inspect", "--prompt", "code-001"], 0, "baseline was not asked"),
    ],
)
def test_folder(
    argv: list[str], status: int, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command that reads a folder reads one without answers, for people and for programs."""
    assert cli.main([argv[0], str(folder), *argv[1:]]) == status
    assert said in capsys.readouterr().out

    assert cli.main([argv[0], str(folder), *argv[1:], "--json"]) == status
    json.loads(capsys.readouterr().out)


def test_folder__root(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The root that `judge` prints authenticates the folder; one altered byte does not pass."""
    cli.main(["judge", str(folder), "--json"])
    root = json.loads(capsys.readouterr().out)["root"]
    assert cli.main(["verify", str(folder), "--root", f"sha256:{root.upper()}"]) == 0
    assert capsys.readouterr().out.startswith("authenticated\n")

    summary = folder / "summary.md"
    kept = summary.read_bytes()
    summary.write_bytes(kept + b"x")
    status = cli.main(["verify", str(folder), "--root", root])
    summary.write_bytes(kept)

    assert status == 3
    assert "summary.md" in capsys.readouterr().out


@pytest.mark.parametrize("unit", ["code-01", "../x", "a\x1b[2J"])
def test_folder__unknown_prompt(
    unit: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prompt that is not there is refused."""
    assert cli.main(["inspect", str(folder), "--prompt", unit]) == 4
    shown = capsys.readouterr().err

    assert "no prompt" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("command", ["judge", "render", "verify", "inspect"])
def test_no_evidence(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that holds no evidence is told as that."""
    Path("empty").mkdir()
    status = cli.main([command, "empty"])
    shown = capsys.readouterr()

    assert status == 3
    assert "Traceback" not in shown.err
    assert "internal error" not in shown.err
    assert not list(Path("empty").iterdir())


def test_evidence_in_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An evidence folder that cannot be made is told with its path."""
    Path("file").write_text("")
    status = cli.main(["run", "--endpoint", "http://127.0.0.1:1", "--evidence", "file/ev"])

    assert status in (3, 4)
    assert "file" in capsys.readouterr().err
