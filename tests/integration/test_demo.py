"""The demo as a newcomer runs it: real servers, right verdicts, interrupted once on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def start(out: Path, source: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iqaction", "demo", "--out", str(out)]
    return subprocess.Popen(
        [*command, "--weights", str(source), *flags],
        cwd=ROOT,
        env={**os.environ, "CI": "true"},  # progress in lines
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def out(weights, tmp_path_factory) -> Path:
    """A finished demo that was interrupted once."""
    for quant in ("F16", "Q4_0"):
        weights(quant)  # the cache, so that the demo finds it
    folder = tmp_path_factory.mktemp("demo") / "out"
    with start(folder, weights("Q4_1")) as first:
        for line in first.stderr:
            if re.search(r"trajectory: texts .*\([2-9]\d %\)", line):
                first.send_signal(signal.SIGINT)
                break
        rest = first.stderr.read()
        assert first.wait() == 130, rest
        assert "What was answered is kept" in rest
        assert "Traceback" not in rest
    with start(folder, weights("Q4_1")) as second:
        text, progress = second.communicate()
        assert second.returncode == 0, text + progress
    (folder.parent / "text").write_text(text)
    (folder.parent / "progress").write_text(progress)
    return folder


@pytest.mark.timeout(1200)
def test_demo__both_verdicts_are_right(out):
    """The same weights PASS, four bits FAIL, and the exit code says that this is right."""
    body = json.loads((out / "demo.json").read_text())

    assert body["right"] is True
    assert {n: c["verdict"] for n, c in body["candidates"].items()} == {
        "healthy": "PASS",
        "degraded": "FAIL",
    }
    for name in ("healthy", "degraded"):
        report = json.loads((out / name / "report.json").read_text())
        assert report["verdict"] == body["candidates"][name]["verdict"]


def test_demo__text(out):
    """What is printed has verdicts, reasons, the divergences and the pages."""
    text = (out.parent / "text").read_text()

    assert "healthy: PASS" in text
    assert "degraded: FAIL" in text
    assert re.search(r"Where the texts part, degraded: \d+ of 64 prompts", text)
    assert f"{out}/degraded/report.html" in text
    assert "decides less than a default run" in text


def test_demo__continued(out):
    """The second start asked nothing again that the first had an answer to."""
    kept = re.findall(r"(\d+) kept from before", (out.parent / "progress").read_text())

    assert kept
    assert int(kept[0]) > 0


def test_demo__folder(out):
    """The folder holds three evidence folders and demo.json; no log is left of a good run."""
    names = {p.name for p in out.iterdir()}

    assert names == {"reference", "healthy", "degraded", "demo.json"}


@pytest.mark.parametrize("name", ["reference", "healthy", "degraded"])
def test_demo__evidence_verifies(out, name):
    """Each folder is whole, judges to what it says, and is the one whose root was printed."""
    command = [sys.executable, "-m", "iqaction", "verify", str(out / name)]
    if name != "reference":
        body = json.loads((out / "demo.json").read_text())
        command += ["--root", body["candidates"][name]["root"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_demo__page_needs_no_network(out):
    """The page loads nothing from anywhere."""
    page = (out / "degraded" / "report.html").read_text(encoding="utf-8")

    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page)
    assert "@import" not in page
