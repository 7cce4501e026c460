"""Whole folders of real stages, without an engine: kept answer by answer, sealed and rendered.

    root = captured(path / "b", ("gsm8k", "niah"))
    compared(path / "c", path / "b", ("gsm8k", "niah"))           # PASSes
    compared(path / "c", path / "b", ("gsm8k",), worse=True)      # does not
    journal(path / "c", path / "b", ("gsm8k",))                   # as a killed run leaves it

Every question is asked by the stage itself through the runner, and what is kept is what a run
keeps: engines and concurrency too.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from answered import Exam
from answered import answers as lettered
from fake_engine import FakeEngine
from needles import Server, below
from needles import spec as needles_spec
from sampler_world import SETTINGS, Faulty, SamplerWorld, Sampling
from sampler_world import spec as sampling_spec
from world import ENGINE, World, noisy

from iqaction import judgement, runner, session
from iqaction.calls import Arm, Call, Capability, EngineInfo, Observation, digest
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.progress import Quiet
from iqaction.prompts import Prompt

FORCED = ("trajectory", "score")
ALL = (*FORCED, "gsm8k", "niah", "sampling")
LAUNCHES = 3
EXAM = Exam(300)
WORLD = World(units=64, length=12)
MODEL = SamplerWorld(contexts=60)
CONCURRENCY = 4


def prompts() -> bytes:
    """The prompt file, for every stage that asks prompts."""
    lines = (
        {"id": p.id, "bucket": p.bucket, "messages": [{"role": "user", "content": f"say {p.id}"}]}
        for p in WORLD.prompts().values()
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _specs() -> Mapping[str, StageSpec]:
    found = {s.stage: s for s in WORLD.plan().stages}
    found["gsm8k"] = EXAM.spec
    found["niah"] = needles_spec(lengths=(256,), trials=20)
    found["sampling"] = replace(sampling_spec(**SETTINGS["T .6, top_k 20, top_p .95"]), seed=1)
    return found


def data(stages: Sequence[str]) -> dict[str, bytes]:
    return {"gsm8k": EXAM.data} if "gsm8k" in stages else {}


def plan(stages: Sequence[str], root: str = "") -> Plan:
    specs = _specs()
    return Plan(
        tuple(specs[s] for s in stages),
        hashlib.sha256(prompts()).hexdigest(),
        WORLD.names,
        (WORLD.units,),
        root,
    )


@dataclass
class Together:
    """One server that answers what every stage asks, each by the world that its stage knows."""

    arm: Arm
    launch: int = 0
    worse: bool = False
    forced: FakeEngine = field(init=False)
    needles: Server = field(init=False)
    draws: Sampling = field(init=False)

    def __post_init__(self) -> None:
        candidate = self.arm is Arm.CANDIDATE
        damage = {"damage": noisy(0.5)} if self.worse else {}
        self.forced = FakeEngine(WORLD, seed=7 if candidate else 20 + self.launch, **damage)
        self.needles = Server(finds=below(200)) if self.worse else Server()
        fault = Faulty(temperature=1.1) if self.worse else Faulty()
        params = _specs()["sampling"].params
        self.draws = Sampling(MODEL, params, fault=fault, seed=3 + self.launch + 10 * candidate)

    @cached_property
    def engine(self) -> EngineInfo:
        return replace(
            self.draws.engine,
            version="2.0" if self.arm is Arm.CANDIDATE else "1.0",
            capabilities=frozenset(Capability),
            max_model_len=None,
            dialect=ENGINE.dialect,
            model=ENGINE.model,
        )

    def ask(self, call: Call) -> Observation:
        leg = call.tag.leg
        if leg == "gsm8k":
            right = not self.worse or zlib.crc32(call.tag.unit.encode()) % 5
            (answer,) = lettered("R" if right else "W", int(call.tag.unit[6:]))
            return Observation(call.tag, digest(call), answer)
        if leg in ("niah", "measure"):
            return self.needles(call)
        if leg in ("trajectory", "template", "reference", "self"):
            return self.forced(call)
        return Observation(call.tag, digest(call), self.draws.answer(call))


def observe(
    folder: Folder, stages: Sequence[str], server: Together, baseline: Observed | None, plan: Plan
) -> None:
    """One launch of one arm, kept as a run keeps it."""
    kept = {stage: dict(tags) for stage, tags in folder.load(alone=True).seen.items()}
    asked: dict[str, Prompt] = dict(folder.load(alone=True).prompts)
    folder.keep_engine(server.arm, server.launch, server.engine)

    def traffic() -> int:
        folder.keep_concurrency(server.arm, server.launch, CONCURRENCY, "engine")
        return CONCURRENCY

    job = runner.Job(
        plan, asked, kept, {server.arm: runner.Connection(server.engine, server.ask)}, folder.keep,
        traffic, lambda look: False, server.arm, server.launch, baseline, data(stages),
    )  # fmt: skip
    runner.observe(job, Quiet())


def unsealed_capture(path: Path, stages: Sequence[str] = ALL, *, launches: int = LAUNCHES) -> None:
    """A reference and its relaunches, all in the journal."""
    mine = plan(stages)
    with Folder.create_or_continue(path, mine, prompts(), None, data(stages)) as folder:
        for launch in range(launches + 1):
            arm = Arm.REPEAT if launch else Arm.BASELINE
            observe(folder, stages, Together(arm, launch), None, mine)


def captured(path: Path, stages: Sequence[str] = ALL, *, launches: int = LAUNCHES) -> str:
    """A sealed reference; returns its root."""
    unsealed_capture(path, stages, launches=launches)
    return session.judge(path).root


def journal(
    path: Path, reference: Path, stages: Sequence[str] = ALL, *, worse: bool = False
) -> None:
    """A comparison with everything asked and nothing sealed."""
    with Folder.open(reference) as opened:
        baseline = opened.load()
    mine = plan(stages, baseline.root)
    with Folder.create_or_continue(path, mine, prompts(), reference, data(stages)) as folder:
        observe(folder, stages, Together(Arm.CANDIDATE, worse=worse), baseline, mine)


def compared(
    path: Path, reference: Path, stages: Sequence[str] = ALL, *, worse: bool = False
) -> session.Outcome:
    """A comparison, judged, sealed and rendered."""
    journal(path, reference, stages, worse=worse)
    return session.judge(path)
