"""Killed with SIGKILL at random moments, a run continues to the same report and asks nothing twice.

The process is the real command; what it asks is answered by a stand-in that repeats a real
engine's answers, so that fifty runs take minutes. A moment is drawn among the requests, the
writing of an answer and the judging and sealing after the last one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.captured import Small
from integration.stand_in import CHAT, Ask, Said, StandIn

from iqaction import session
from iqaction.calls import Failure
from iqaction.errors import EvidenceError
from iqaction.evidence.store import Folder
from iqaction.stages._paths import SCORE, TRAJECTORY

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parents[2]
MOMENTS = 50
_DEFAULT = 5
_FORCED = "/detokenize"  # asked once for each text that is forced
_AFTER = 0.4  # share of the kills that come when everything was asked
_SPACING_S = 0.03  # after a request: its answer is written down, the next one goes out


class Watched:
    """A stand-in that says when its n-th request comes in."""

    def __init__(self, small: Small) -> None:
        self.between = StandIn(memory=small.memory, hear=self._hear)
        self._lock = threading.Lock()
        self._left = 0
        self._reached = threading.Event()

    def _hear(self, ask: Ask) -> Ask | Said:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._reached.set()
        return ask

    def expect(self, n: int) -> threading.Event:
        """Set when the n-th request from now on comes in."""
        self.between.settle()
        self.between.asked.clear()
        with self._lock:
            self._left = n
            self._reached = threading.Event()
            return self._reached

    def asked(self) -> tuple[int, int]:
        """Texts and forced texts that were asked for since `expect`."""
        self.between.settle()
        return self.between.count(CHAT), self.between.count(_FORCED)


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody killed: what it asked, and what it came to."""

    report: bytes
    files: frozenset[str]
    status: int
    asked: tuple[int, int]
    requests: int
    tail_s: float  # from the last request to the end of the process


@pytest.fixture(scope="module")
def watched(small: Small) -> Iterator[Watched]:
    one = Watched(small)
    with one.between:
        yield one


def begin(small: Small, watched: Watched, kind: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iqaction", "run", "--quiet"]
    command += ["--plan", str(small.capture.plan()), "--endpoint", watched.between.url]
    command += ["--evidence", str(folder)]
    if kind == "candidate":
        command += ["--baseline", str(small.capture.folder)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def names(folder: Path) -> frozenset[str]:
    """The files of a folder; records are named by their content, which has times in it."""
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    return frozenset(n for n in found if not n.startswith("records/"))


def ended(process: subprocess.Popen[str]) -> int:
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said, said
    assert "internal error" not in said, said
    return process.returncode


@pytest.fixture(scope="module")
def undisturbed(
    small: Small, watched: Watched, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Undisturbed]:
    """By kind of run."""
    return {
        kind: _undisturbed(small, watched, kind, tmp_path_factory.mktemp(kind) / "evidence")
        for kind in ("capture", "candidate")
    }


def _undisturbed(small: Small, watched: Watched, kind: str, folder: Path) -> Undisturbed:
    watched.expect(0)
    last = 0.0
    with begin(small, watched, kind, folder) as process:
        seen = 0
        while process.poll() is None:  # every few milliseconds: when was the last request?
            if len(watched.between.asked) > seen:
                seen, last = len(watched.between.asked), time.monotonic()
            try:
                process.wait(0.005)
            except subprocess.TimeoutExpired:
                continue
        tail = time.monotonic() - last
        status = ended(process)
    assert status == 2  # eight prompts prove nothing
    report = (folder / "report.json").read_bytes()
    return Undisturbed(report, names(folder), status, watched.asked(), seen, tail)


def kept(folder: Path) -> tuple[int, int]:
    """Texts and forced texts whose answers a killed run had written down."""
    try:
        with Folder.open(folder) as found:
            seen = found.load().seen
    except EvidenceError:  # killed before there was a plan
        return 0, 0
    count = {
        (stage, leg): sum(
            t.leg == leg and not isinstance(o.answer, Failure)
            for t, o in seen.get(stage, {}).items()
        )
        for stage, leg in ((TRAJECTORY, TRAJECTORY), (SCORE, "reference"), (SCORE, "self"))
    }
    return count[TRAJECTORY, TRAJECTORY], count[SCORE, "reference"] + count[SCORE, "self"]


def kill(process: subprocess.Popen[str], event: threading.Event, delay: float) -> bool:
    """SIGKILL ``delay`` seconds after the event; False where the process had ended before."""
    while not event.wait(0.02):
        if process.poll() is not None:
            break
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def moments() -> list[object]:
    return [
        pytest.param(n, marks=pytest.mark.full) if n >= _DEFAULT else pytest.param(n)
        for n in range(MOMENTS)
    ]


@pytest.mark.parametrize("number", moments())
def test_kill(
    number: int,
    small: Small,
    watched: Watched,
    undisturbed: dict[str, Undisturbed],
    tmp_path: Path,
) -> None:
    """Killed at a random moment and begun again: the same bytes, and no answer asked for twice."""
    rng = random.Random(number)
    kind = ("candidate", "capture")[number % 2]
    whole, folder = undisturbed[kind], tmp_path / "evidence"
    after = rng.random() < _AFTER
    target = whole.requests if after else rng.randint(1, whole.requests)
    delay = rng.random() * (whole.tail_s if after else _SPACING_S)

    event = watched.expect(target)
    with begin(small, watched, kind, folder) as process:
        killed = kill(process, event, delay)
    texts, forced = kept(folder)
    asked = watched.asked()
    print(f"{kind}: killed {killed} at request {target} of {whole.requests} + {delay:.3f} s")
    print(f"  kept {texts}, {forced} of the answers to {asked} of {whole.asked} questions")

    # What was asked and not kept was in flight: at most as many as the plan's concurrency.
    assert 0 <= asked[0] - texts <= 2
    assert 0 <= asked[1] - forced <= 1

    watched.expect(0)
    with begin(small, watched, kind, folder) as process:
        status = ended(process)

    assert status == whole.status
    assert watched.asked() == (whole.asked[0] - texts, whole.asked[1] - forced)
    assert (folder / "report.json").read_bytes() == whole.report
    assert names(folder) == whole.files
    assert session.verify(folder).problems == ()
