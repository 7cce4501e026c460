"""Real commands that are killed with SIGKILL and begun again; what they ask is answered by heart.

Every stage is in the plan, with few and short questions. A real engine answers them once; stand-ins
repeat its answers, draws too, so that a run takes about a second and can be compared with another
one byte by byte.

    ground = Ground(home, memory)
    whole = ground.whole("candidate")             # a run that nobody disturbs
    process = ground.begin("candidate", folder)   # one that somebody does
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from integration.captured import as_lines, demo_prompts, served
from integration.stand_in import CHAT, FORCE, Ask, Memory, Said, StandIn

from iqaction import session
from iqaction.calls import Drawn, Failure, Generation, Observation, Scored, Tag
from iqaction.demo_engine import LlamaServer
from iqaction.errors import EvidenceError
from iqaction.evidence.store import Folder
from iqaction.progress import Quiet
from iqaction.session import RunOptions

ROOT = Path(__file__).parents[2]
KINDS = ("candidate", "capture", "live", "relaunch", "baseline", "judge")
STAGES = ("trajectory", "score", "gsm8k", "niah", "sampling")
PLAN = """\
suite: killed
stages:
  - trajectory: {prompts: prompts.jsonl, limit: 4, max_tokens: 4, concurrency: 2}
  - score: {legs: [reference, self]}
  - gsm8k: {data: problems.jsonl, limit: 4, max_tokens: 8}
  - niah: {lengths: [144], depths: [0.5], trials: 2, max_tokens: 8}
  - sampling: {temperature: 0.8, prompts: 2, draws: 4, tokens: 4}
"""
_DETOKENIZE = "/detokenize"  # asked once for each text that is forced
_COUNTED = (CHAT, FORCE, _DETOKENIZE)  # looking who answers asks none of these
IN_FLIGHT = 2 * 2  # by the plan two calls, each of at most two requests, by each of two servers
Kept = dict[tuple[str, Tag], Observation]


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody killed: what it asked, and what it came to."""

    report: bytes
    files: frozenset[str]
    status: int
    answers: frozenset[tuple[str, Tag]]
    asked: Counter[str]
    requests: int
    took_s: float
    lead_s: float  # from the start of the process to the first request
    tail_s: float  # from the last request to the end of the process
    size: int  # bytes that it leaves


class Ground:
    """A reference, and two servers that say what its engine said and note when they are asked."""

    def __init__(self, home: Path, memory: Memory) -> None:
        self.home, self._memory = home, memory
        self.servers = [StandIn(memory=memory, hear=self._hear) for _ in range(2)]
        self.unknown: list[str] = []
        self._lock = threading.Lock()
        self._times: list[float] = []
        self._left = 0
        self._reached = threading.Event()
        self._whole: dict[str, Undisturbed] = {}

    @property
    def plan(self) -> Path:
        return self.home / "plan.yml"

    @property
    def reference(self) -> Path:
        return self.home / "reference"

    def close(self) -> None:
        for server in self.servers:
            server.__exit__()

    def _hear(self, ask: Ask) -> Ask | Said:
        with self._lock:
            if ask.key not in self._memory.said:
                self.unknown.append(ask.key)
            self._times.append(time.monotonic())
            self._left -= 1
            if self._left == 0:
                self._reached.set()
        return ask

    def expect(self, n: int) -> threading.Event:
        """Set when the n-th request from now on comes in; at once where n is 0."""
        for server in self.servers:
            server.settle()
            server.asked.clear()
        with self._lock:
            self._times, self._left, self._reached = [], n, threading.Event()
            if not n:
                self._reached.set()
            return self._reached

    def asked(self) -> Counter[str]:
        """Requests that answers are made of, since `expect`, by path."""
        for server in self.servers:
            server.settle()
        return Counter(a.path for s in self.servers for a in s.asked if a.path in _COUNTED)

    def whole(self, kind: str) -> Undisturbed:
        if kind not in self._whole:
            self._whole[kind] = self._undisturbed(kind, self.home / f"whole-{kind}")
        return self._whole[kind]

    def _undisturbed(self, kind: str, work: Path) -> Undisturbed:
        self.prepare(kind, work)
        before = kept(work)
        self.expect(0)
        started = time.monotonic()
        status, _ = ended(self.begin(kind, work))
        stopped = time.monotonic()
        times, answers, asked = self._times or [stopped], kept(work), self.asked()
        fresh = {k: o for k, o in answers.items() if k not in before}
        assert not self.unknown, self.unknown
        assert asked == made_of(fresh)  # else what follows from the count says nothing
        return Undisturbed(
            report(work),
            names(work),
            status,
            frozenset(answers),
            asked,
            len(self._times),
            stopped - started,
            times[0] - started,
            stopped - times[-1],
            sum(p.stat().st_size for p in work.rglob("*") if p.is_file()),
        )

    def prepare(self, kind: str, work: Path) -> None:
        """What is there before the command is given."""
        work.mkdir()
        if kind == "relaunch":
            self.whole("capture")
            shutil.copytree(self.home / "whole-capture/evidence", work / "evidence")
        if kind == "judge":  # a folder that another version has judged
            self.whole("candidate")
            shutil.copytree(self.home / "whole-candidate/evidence", work / "evidence")
            path = work / "evidence/report.json"
            said = {**json.loads(path.read_bytes()), "tool_version": "0.0.1"}
            path.write_text(json.dumps(said))

    def command(self, kind: str, work: Path) -> list[str]:
        asks = ["--quiet", "--plan", str(self.plan), "--endpoint", self.servers[0].url]
        into = [*asks, "--evidence", str(work / "evidence")]
        commands = {
            "capture": ["run", *into],
            "candidate": ["run", *into, "--baseline", str(self.reference)],
            "live": ["run", *into, "--baseline", self.servers[1].url],
            "relaunch": ["observe", *into, "--launch", "1"],
            "baseline": ["baseline", "capture", *asks, "--out", str(work / "baseline.tar.gz")],
            "judge": ["judge", str(work / "evidence")],
        }
        more = ["--launches", "3"] if kind == "baseline" else []
        return [sys.executable, "-m", "iqaction", *commands[kind], *more]

    def begin(self, kind: str, work: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(kind, work),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )


def founded(home: Path, model: Path) -> Ground:
    """Everything that an engine says to this plan, asked once; a reference with one relaunch."""
    (home / "plan.yml").write_text(PLAN)
    (home / "prompts.jsonl").write_text(as_lines(demo_prompts(4)))
    shutil.copy(ROOT / "tests/data/gsm8k_problems.jsonl", home / "problems.jsonl")
    memory = Memory()
    with LlamaServer(served(model)) as server, StandIn(server.url, memory=memory) as between:
        for launch in (0, 1):
            options = RunOptions(home / "reference", home / "plan.yml", between.url, launch=launch)
            assert session.observe(options, progress=Quiet()).complete
    return Ground(home, memory)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status, and what it said to standard error."""
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said, said
    assert "internal error" not in said, said
    return process.returncode, said


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


# --- what lies on the disk ------------------------------------------------------------------


def folders(work: Path) -> list[Path]:
    """The evidence folders of a run, those beside which it has others included."""
    places = ("evidence.live/candidate", "evidence.live/baseline", "evidence")
    return [work / p for p in (*places, "baseline.tar.gz.evidence") if (work / p).is_dir()]


def evidence(work: Path) -> Path:
    """The one that holds the report."""
    return folders(work)[-1]


def report(work: Path) -> bytes:
    """The report's bytes. A live baseline is captured in each run anew: its root, and so the
    plan that names it, has times in it, and is left out."""
    data = (evidence(work) / "report.json").read_bytes()
    if (work / "evidence.live").exists():
        said = json.loads(data)
        for name in ("baseline_root", "plan_sha256"):
            assert said[name]
            data = data.replace(said[name].encode(), name.encode())
    return data


def names(work: Path) -> frozenset[str]:
    """The files of a run; records are named by their content, which has times in it."""
    found = [p.relative_to(work) for p in work.rglob("*") if p.is_file()]
    return frozenset(str(n) for n in found if "records" not in n.parts)


def kept(work: Path) -> Kept:
    """The answers that are written down."""
    found: Kept = {}
    for path in folders(work):
        try:
            with Folder.open(path) as folder:
                seen = folder.load(alone=True).seen
        except EvidenceError:  # killed before there was a plan
            continue
        for stage, tags in seen.items():
            whole = {t: o for t, o in tags.items() if not isinstance(o.answer, Failure)}
            found.update({(stage, tag): o for tag, o in whole.items()})
    return found


def made_of(answers: Kept) -> Counter[str]:
    """The requests that these answers took, by path."""
    count: Counter[str] = Counter()
    for said in answers.values():
        if isinstance(said.answer, Generation):
            count[CHAT] += 1
        elif isinstance(said.answer, Drawn):
            count[CHAT] += len(said.answer.lengths)
        elif isinstance(said.answer, Scored):
            count.update((FORCE, _DETOKENIZE))
    return count


def lines(work: Path) -> frozenset[bytes]:
    """Each kept answer as it was written, with its time: one that is asked again is another."""
    found: set[bytes] = set()
    readers: dict[str, Callable[[Path], bytes]] = {
        "journal.jsonl": Path.read_bytes,
        "observations/*.jsonl.gz": lambda path: gzip.decompress(path.read_bytes()),
    }
    for folder in folders(work):
        for pattern, read in readers.items():
            for path in folder.glob(pattern):
                found.update(x for x in read(path).split(b"\n")[:-1] if b'"observation"' in x)
    return frozenset(found)
