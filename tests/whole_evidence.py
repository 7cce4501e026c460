"""Whole folders of real stages, without an engine: kept answer by answer, sealed and rendered.

    whole = Whole(("gsm8k", "niah"))
    root = whole.captured(path / "b")
    whole.compared(path / "c", path / "b")                     # PASSes
    whole.compared(path / "d", path / "b", worse=True)         # does not
    whole.observed(path / "e", path / "b")                     # as a killed run leaves it

Every question is asked by the stage itself through the runner, and what is kept is what a run
keeps: engines and concurrency too.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from answered import Exam
from answered import answers as lettered
from fake_engine import FakeEngine
from needles import Server
from needles import spec as needles_spec
from sampler_world import SETTINGS, Faulty, SamplerWorld, Sampling
from sampler_world import spec as sampling_spec
from world import ENGINE, World, noisy, only

from iqaction import runner, session
from iqaction.calls import Arm, Call, Capability, EngineInfo, Observation, digest
from iqaction.circumstances import Circumstances
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.progress import Quiet

FORCED = ("trajectory", "score")
ALL = (*FORCED, "gsm8k", "niah", "sampling")
WORLD = World(units=64, length=12)
MODEL = SamplerWorld(contexts=60)
CONCURRENCY = 4
PROMPTS = "".join(
    json.dumps({"id": n, "bucket": "code", "messages": [{"role": "user", "content": f"say {n}"}]})
    + "\n"
    for n in WORLD.names
).encode()
AROUND = Circumstances(machine={"gpu": "none"})
BAD = 8  # one prompt, problem or needle in so many is answered wrongly by the worse engine
BAD_UNITS = tuple(n for n in WORLD.names if zlib.crc32(n.encode()) % BAD == 0)


def is_bad(unit: str) -> bool:
    return zlib.crc32(unit.encode()) % BAD == 0


@dataclass(frozen=True)
class Whole:
    """Plans of these stages, and the folders of who was asked them.

    Attributes
    ----------
    optional
        Stages whose verdict does not count.
    launches
        Relaunches of the reference.
    """

    stages: tuple[str, ...] = ALL
    optional: tuple[str, ...] = ()
    problems: int = 300
    launches: int = 3

    @cached_property
    def exam(self) -> Exam:
        return Exam(self.problems)

    @cached_property
    def specs(self) -> Mapping[str, StageSpec]:
        found = {s.stage: s for s in WORLD.plan().stages}
        found["gsm8k"] = self.exam.spec
        found["niah"] = needles_spec(lengths=(256,), trials=20)
        found["sampling"] = replace(sampling_spec(**SETTINGS["T .6, top_k 20, top_p .95"]), seed=1)
        return {k: replace(v, required=k not in self.optional) for k, v in found.items()}

    @property
    def data(self) -> dict[str, bytes]:
        return {"gsm8k": self.exam.data} if "gsm8k" in self.stages else {}

    def plan(self, root: str = "") -> Plan:
        stages = tuple(self.specs[s] for s in self.stages)
        sha256 = hashlib.sha256(PROMPTS).hexdigest()
        return Plan(stages, sha256, WORLD.names, (WORLD.units,), root)

    def open(self, path: Path, baseline: Path | None = None) -> Folder:
        """The folder of a run, new or continued."""
        root = ""
        if baseline is not None:
            with Folder.open(baseline) as opened:
                root = opened.load(alone=True).root
        return Folder.create_or_continue(path, self.plan(root), PROMPTS, baseline, self.data)

    def captured(self, path: Path) -> str:
        """A sealed reference with its relaunches; returns its root."""
        with self.open(path) as folder:
            for launch in range(self.launches + 1):
                arm = Arm.REPEAT if launch else Arm.BASELINE
                self.ask(folder, Together(self, arm, launch), None)
        return session.judge(path).root

    def observed(self, path: Path, reference: Path, *, worse: bool = False) -> None:
        """A comparison with everything asked and nothing sealed."""
        with Folder.open(reference) as opened:
            baseline = opened.load()
        with self.open(path, reference) as folder:
            folder.keep_circumstances(AROUND)
            self.ask(folder, Together(self, Arm.CANDIDATE, worse=worse), baseline)

    def compared(self, path: Path, reference: Path, *, worse: bool = False) -> session.Outcome:
        """A comparison, judged, sealed and rendered."""
        self.observed(path, reference, worse=worse)
        return session.judge(path)

    def ask(self, folder: Folder, server: Together, baseline: Observed | None) -> None:
        """One launch of one arm, kept as a run keeps it."""
        found = folder.load(alone=True)
        kept = {stage: dict(tags) for stage, tags in found.seen.items()}
        folder.keep_engine(server.arm, server.launch, server.engine)

        def traffic() -> int:
            folder.keep_concurrency(server.arm, server.launch, CONCURRENCY, "engine")
            return CONCURRENCY

        job = runner.Job(
            found.plan, found.prompts, kept,
            {server.arm: runner.Connection(server.engine, server.ask)}, folder.keep, traffic,
            lambda look: False, server.arm, server.launch, baseline, self.data,
        )  # fmt: skip
        runner.observe(job, Quiet())


@dataclass
class Together:
    """One server that answers what every stage asks, each by the world that its stage knows."""

    whole: Whole
    arm: Arm
    launch: int = 0
    worse: bool = False
    forced: FakeEngine = field(init=False)
    needles: Server = field(init=False)
    draws: Sampling = field(init=False)

    def __post_init__(self) -> None:
        candidate = self.arm is Arm.CANDIDATE
        damage = {"damage": only(BAD_UNITS, noisy(2.0))} if self.worse else {}
        self.forced = FakeEngine(WORLD, seed=7 if candidate else 20 + self.launch, **damage)
        self.needles = Server()
        if self.worse:
            self.needles.finds = lambda n, at, unit: not is_bad(unit)
        fault = Faulty(temperature=1.1) if self.worse else Faulty()
        params = self.whole.specs["sampling"].params
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
        leg, unit = call.tag.leg, call.tag.unit
        if leg == "gsm8k":
            wrong = self.worse and is_bad(unit)
            (answer,) = lettered("W" if wrong else "R", int(unit[6:]))
            return Observation(call.tag, digest(call), answer)
        if leg in ("niah", "measure"):
            return self.needles(call)
        if leg in ("trajectory", "template", "reference", "self"):
            return self.forced(call)
        return Observation(call.tag, digest(call), self.draws.answer(call))
