"""Evidence for tests: plans, prompts, rows, observations, and whole folders of them."""

from __future__ import annotations

import gzip
import hashlib
import json
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from iqaction.calls import (
    Answer,
    Arm,
    Capability,
    EngineInfo,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Scored,
    Tag,
    TokenIds,
)
from iqaction.evidence.store import Folder
from iqaction.plan import Margin, Plan, StageSpec
from iqaction.report import Check, Coverage, Estimate, Report, StageResult
from iqaction.rows import PAD, Match, Rows
from iqaction.verdict import Verdict

UNITS = ("p-0", "p-1", "p-2")
ENGINE = EngineInfo(
    "vllm",
    "0.32.0",
    "m",
    ("m", "n"),
    frozenset({Capability.CHAT, Capability.FORCE}),
    "fp",
    8,
    4096,
    2,
    "http://127.0.0.1:8000/v1",
    {"gpu": "none"},
    ("prefill only",),
)


def prompts(units: Iterable[str] = UNITS) -> bytes:
    """A prompt file."""
    lines = [{"id": u, "messages": [{"role": "user", "content": f"say {u} é"}]} for u in units]
    return "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in lines).encode()


def plan(root: str = "", *, limit: float = 0.02, data: bytes | None = None) -> Plan:
    """Two stages over the prompts above; a capture where no baseline's root is given."""
    return Plan(
        (
            StageSpec("trajectory", {"max_tokens": 16, "stop": None, "legs": ("a", "b")}),
            StageSpec("score", {"top": 20, "x": 0.5}, (Margin("kl", limit),), seed=3),
        ),
        hashlib.sha256(prompts() if data is None else data).hexdigest(),
        UNITS,
        (3,),
        root,
    )


def rows(n: int = 4, k: int = 3, *, seed: int = 0, faulty: int = 0) -> Rows:
    """Rows of ids, the first ``faulty`` of them unusable, the last list shorter by one."""
    rng = np.random.default_rng(seed)
    top = np.array([rng.permutation(50)[:k] for _ in range(n)], np.int32).reshape(n, k)
    values = -np.sort(rng.exponential(2, (n, k)).astype(np.float32), axis=1)
    chosen = rng.integers(0, 50, n, dtype=np.int32)
    logprob = -rng.exponential(1, n).astype(np.float32)
    usable = np.arange(n) >= faulty
    top[~usable], values[~usable], logprob[~usable] = PAD, -np.inf, np.nan
    if n and k:
        top[-1, -1], values[-1, -1] = PAD, -np.inf
    faults = {"no log-probability": faulty} if faulty else {}
    return Rows(
        chosen, logprob, top, values, usable, Match.ID, {int(c): f"«{c}» " for c in chosen}, faults
    )


def observation(unit: str, answer: Answer, leg: str = "trajectory", **tag: object) -> Observation:
    arm = tag.pop("arm", Arm.CANDIDATE)
    call = hashlib.sha256(f"{unit}{leg}{tag}".encode()).hexdigest()
    return Observation(Tag(arm, leg, unit, **tag), call, answer, 1, 0.25)


def generation(seed: int = 0) -> Generation:
    found = rows(seed=seed)
    return Generation("Hello é", "stop", found, True, "", (1, 2, 3), 3, 4, 20, 2, "m", "fp", ("x",))


def answers(arm: Arm = Arm.CANDIDATE) -> list[tuple[str, Observation]]:
    """Every kind of answer, over both stages."""
    failure = Failure(FailureKind.TIMEOUT, "nothing came", None)
    return [
        ("trajectory", observation("p-1", generation(1), arm=arm)),
        ("trajectory", observation("p-0", generation(2), arm=arm)),
        ("trajectory", observation("p-2", failure, arm=arm)),
        ("trajectory", observation("p-2", TokenIds((5, 6)), "template", arm=arm)),
        ("score", observation("p-0", Scored(rows(seed=3, faulty=1), "grammar"), "self", arm=arm)),
        ("score", observation("p-1", Scored(rows(0, 0), "grammar"), "self", arm=arm)),
    ]


def report(verdict: Verdict = Verdict.PASS, **more: object) -> Report:
    estimate = Estimate("kl", 0.001, (0.0, 0.002), 0.95, "t", 3, "nats", 1)
    check = Check("reference.kl", "reference leg: KL (>=)", verdict, "why", estimate, 0.02)
    result = StageResult("score", verdict, (check,), Coverage(3, 2, ("p-2",)))
    return Report(verdict, (result,), "this is so", **more)


def fill(folder: Folder, arm: Arm = Arm.CANDIDATE) -> None:
    """All of :func:`answers`, an engine and a concurrency."""
    folder.keep_engine(arm, 0, ENGINE)
    folder.keep_concurrency(arm, 0, 8, "plan")
    for stage, one in answers(arm):
        folder.keep(stage, one)


def capture(path: Path) -> str:
    """A sealed capture; returns its root."""
    with Folder.create_or_continue(path, plan(), prompts(), None) as folder:
        fill(folder, Arm.BASELINE)
        folder.keep_engine(Arm.REPEAT, 1, ENGINE)
        return folder.seal(report(Verdict.UNPROVEN, plan_sha256=plan().sha256))


def compare(path: Path, baseline: Path, root: str) -> str:
    """A sealed comparison with that capture; returns its root."""
    mine = plan(root)
    with Folder.create_or_continue(path, mine, prompts(), baseline) as folder:
        fill(folder)
        return folder.seal(judged(mine))


def judged(mine: Plan, verdict: Verdict = Verdict.PASS) -> Report:
    return report(verdict, plan_sha256=mine.sha256, baseline_root=mine.baseline_root)


def packed_lines(path: Path) -> list[dict[str, object]]:
    """What a sealed observation file holds."""
    return [json.loads(x) for x in gzip.decompress(path.read_bytes()).splitlines()]


def files(path: Path) -> dict[str, bytes]:
    """Every file below ``path`` but the lock, by name."""
    found = sorted(p for p in path.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p.relative_to(path)): p.read_bytes() for p in found}


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
