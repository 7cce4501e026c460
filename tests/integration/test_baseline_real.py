"""A baseline of a real engine: captured with restarts, interrupted, packed, compared, pinned.

The command is the real one in a process of its own, and so is each launch of the engine.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from integration import relaunching
from integration.captured import REFERENCE, Capture, as_lines, demo_prompts, served

from iqaction import baseline, capture, session
from iqaction.boot._base import World
from iqaction.boot.readiness import probe
from iqaction.calls import Arm
from iqaction.demo_engine import LlamaServer
from iqaction.errors import BootError
from iqaction.evidence.store import Folder
from iqaction.progress import Quiet
from iqaction.verdict import Verdict

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
UNITS, TOKENS, LAUNCHES = 16, 2, 3


@dataclass
class Shop:
    """A place to capture in, with an engine at one address that a command restarts."""

    home: Path
    model: Path
    units: int = UNITS
    tokens: int = TOKENS
    port: int = field(init=False)

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (self.home / "prompts.jsonl").write_text(as_lines(demo_prompts(self.units)))

    @property
    def out(self) -> Path:
        return self.home / "baseline.tar.gz"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def plan(self) -> Path:
        return Capture(self.home, self.units, self.tokens).plan(REFERENCE)

    @property
    def starts(self) -> int:
        return len((self.home / "starts").read_text().splitlines())

    def command(self, *more: str) -> list[str]:
        script = str(Path(relaunching.__file__))
        relaunch = [sys.executable, script, str(self.home), str(self.port), str(self.model)]
        command = [sys.executable, "-m", "iqaction", "baseline", "capture", "--json"]
        command += ["--plan", str(self.plan), "--endpoint", self.url, "--out", str(self.out)]
        command += ["--relaunch-command", shlex.join(relaunch), *more]
        return command

    def begin(self, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*more),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answered(self) -> dict[tuple[str, int], dict[str, str]]:
        """The call of each answer, by arm and launch, by leg and prompt."""
        with Folder.open(self.home / "baseline.tar.gz.evidence") as folder:
            seen = folder.load().seen
        found: dict[tuple[str, int], dict[str, str]] = {}
        for stage, kept in seen.items():
            for tag, observation in kept.items():
                key = f"{stage} {tag.leg} {tag.unit} {tag.attempt}"
                found.setdefault((tag.arm.value, tag.launch), {})[key] = str(observation.elapsed_s)
        return found


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    said, notes = process.communicate(timeout=900)
    assert "Traceback" not in notes, notes
    assert "internal error" not in notes, notes
    return process.returncode, json.loads(said), notes


@dataclass
class Done:
    """A capture that was killed in its second relaunch and continued."""

    shop: Shop
    before: dict[tuple[str, int], dict[str, str]]
    starts_before: int
    status: int
    said: dict[str, Any]
    notes: str


@pytest.fixture(scope="module")
def shop(weights, tmp_path_factory) -> Iterator[Shop]:
    one = Shop(tmp_path_factory.mktemp("baseline"), weights("F16"))
    relaunching.start(one.home, one.port, one.model)
    yield one
    relaunching.stop(one.home)


def wait_for(shop: Shop) -> None:
    end = time.monotonic() + 120
    while probe(shop.url, "", "auto", "") != "":
        assert time.monotonic() < end, "the real engine does not start"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def done(shop: Shop) -> Done:
    """Killed with SIGKILL when relaunch 2 has answers, then the same command again."""
    wait_for(shop)
    process = shop.begin("--launches", str(LAUNCHES))
    journal = shop.home / "baseline.tar.gz.evidence" / "journal.jsonl"
    marks = (b'"launch":2,', b'"observation"')
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end:
        lines = journal.read_bytes().splitlines() if journal.exists() else []
        if any(all(m in line for m in marks) for line in lines):
            break
        time.sleep(0.005)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before, starts = shop.answered(), shop.starts
    status, said, notes = ended(shop.begin("--launches", str(LAUNCHES)))
    return Done(shop, before, starts, status, said, notes)


def test_capture__continues(done: Done) -> None:
    """Killed in its second relaunch and run again, it is complete, and asked nothing twice."""
    after = done.shop.answered()

    assert (done.status, done.said["complete"], done.said["refused"]) == (0, True, False)
    assert set(after) == {("baseline", 0), *(("repeat", n) for n in range(1, LAUNCHES + 1))}
    for key, answers in done.before.items():
        assert answers.items() <= after[key].items(), key
    assert 0 < len(done.before["repeat", 2]) < UNITS
    assert {len(after["repeat", n]) for n in range(1, LAUNCHES + 1)} == {UNITS}
    # The interrupted launch goes on with its server: 1 + 2 starts before, 1 after.
    assert (done.starts_before, done.shop.starts) == (3, 4)
    assert "launch 2 of 3" in done.notes
    assert "launch 1 of 3" not in done.notes


def test_capture__again_is_byte_identical(done: Done) -> None:
    """Once more it asks nobody, restarts nothing and writes the same bytes."""
    first = done.shop.out.read_bytes()
    done.shop.out.unlink()
    status, said, _ = ended(done.shop.begin("--launches", str(LAUNCHES)))

    assert (status, said["root"]) == (0, done.said["root"])
    assert done.shop.out.read_bytes() == first
    assert done.said["sha256"] == hashlib.sha256(first).hexdigest()
    assert done.shop.starts == 4


def compare(shop: Shop, name: str, url: str, sha256: str, units: int = 0) -> session.Outcome:
    options = session.RunOptions(
        evidence=shop.home / name,
        plan=Capture(shop.home, shop.units, shop.tokens).plan(REFERENCE, units or None),
        endpoint=url,
        baseline=str(shop.out),
        baseline_sha256=sha256,
    )
    return session.run(options, progress=Quiet())


def test_candidate__packed_baseline(done: Done, weights) -> None:
    """Four bits are another model, against a packed baseline that is pinned by its root."""
    with LlamaServer(served(weights("Q4_0"))) as server:
        worse = compare(done.shop, "q4_0", server.url, done.said["root"])
    checks = {c.metric: c for s in worse.report.stages for c in s.checks}

    assert worse.report.baseline_root == done.said["root"]
    assert (worse.report.problems, checks["reference.kl"].verdict) == ((), Verdict.FAIL)
    assert session.verify(worse.folder, worse.root).authenticated


def test_candidate__the_same_engine(done: Done) -> None:
    """The captured engine itself differs in nothing; four prompts are too few to PASS."""
    wait_for(done.shop)
    same = compare(done.shop, "f16", done.shop.url, done.said["sha256"], 4)
    checks = {c.metric: c for s in same.report.stages for c in s.checks}

    assert same.report.verdict is Verdict.UNPROVEN
    assert checks["reference.kl"].estimate is not None
    assert checks["reference.kl"].estimate.value == pytest.approx(0, abs=1e-5)


def test_check__endpoint(done: Done) -> None:
    """It is usable against its own engine and plan, and not where nobody answers."""
    wait_for(done.shop)
    asked = {"endpoint": done.shop.url, "model": "", "dialect": "", "api_key_env": ""}
    found = baseline.check(done.shop.out, done.shop.plan, asked)
    gone = baseline.check(done.shop.out, None, {**asked, "endpoint": "http://127.0.0.1:9/v1"})

    assert (found.damage, found.problems) == ((), ())
    assert [p.startswith("the endpoint cannot be asked") for p in gone.problems] == [True]


def test_capture__not_restarted(done: Done, tmp_path: Path) -> None:
    """Repeats on one launch are recorded as that, and a score against them never PASSes."""
    wait_for(done.shop)
    url, plan = done.shop.url, Shop(tmp_path, done.shop.model, 2, 2).plan
    run = session.RunOptions(evidence=tmp_path / "ref", plan=plan, endpoint=url)
    made = capture.capture(capture.Options(run, 3), World(os.environ), Quiet())
    options = session.RunOptions(tmp_path / "cand", plan, url, baseline=str(tmp_path / "ref"))
    same = session.run(options, progress=Quiet())
    with Folder.open(tmp_path / "ref") as folder:
        kept = folder.load()
    score = next(s for s in same.report.stages if s.stage == "score")

    assert (made.refused, kept.not_restarted) == (False, (1, 2, 3))
    assert kept.engines[Arm.BASELINE, 0].not_restarted is False
    assert all("not restarted" in c.reason for c in score.checks if c.judged)
    assert any("not restarted between launches" in c for c in same.report.caveats)


def test_capture__command_that_restarts_nothing(done: Done, tmp_path: Path) -> None:
    """A relaunch command after which the same process answers is an error, not a floor."""
    wait_for(done.shop)
    plan = Shop(tmp_path, done.shop.model, 1, 2).plan
    run = session.RunOptions(evidence=tmp_path / "ref", plan=plan, endpoint=done.shop.url)
    with pytest.raises(BootError, match="the server was not restarted: process"):
        capture.capture(capture.Options(run, 3, "true"), World(os.environ), Quiet())
    with Folder.open(tmp_path / "ref") as folder:
        assert folder.load().launches == ()


@pytest.mark.full
def test_capture__five_relaunches(weights, tmp_path: Path) -> None:
    """64 prompts, five relaunches: F16 PASSes, Q8_0 does not FAIL, Q4_0 FAILs."""
    shop = Shop(tmp_path, weights("F16"), 64, 8)
    relaunching.start(shop.home, shop.port, shop.model)
    try:
        wait_for(shop)
        status, said, _ = ended(shop.begin())
    finally:
        relaunching.stop(shop.home)
    verdicts = {}
    for quant in ("F16", "Q8_0", "Q4_0"):
        with LlamaServer(served(weights(quant))) as server:
            verdicts[quant] = compare(shop, quant, server.url, said["root"]).report.verdict
    print(f"{said['size']} bytes, {verdicts}")

    assert status == 0
    assert verdicts["F16"] is Verdict.PASS
    assert verdicts["Q8_0"] is not Verdict.FAIL
    assert verdicts["Q4_0"] is Verdict.FAIL
