"""Faults of network and server: what can be recovered changes nothing, what is lost proves nothing.

The reference is SmolLM2-135M at F16, asked for all five stages; the candidates are F16 again, which
PASSes what is required, and Q4_0, which FAILs. Each question is computed once and then answered
from memory, so that a run with faults and one without differ in the faults only.
"""

from __future__ import annotations

import functools
import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from integration.captured import LAUNCHES, Capture, as_lines, demo_prompts, served
from integration.fault_lab import CAP, Fault, FaultLab, Faults
from integration.stand_in import CHAT, FORCE, Ask, Memory, StandIn

from iqaction import http, session
from iqaction.calls import Failure
from iqaction.demo_engine import LlamaServer
from iqaction.evidence.store import Folder
from iqaction.progress import Quiet
from iqaction.report import NO_RUN, Report
from iqaction.session import Outcome, RunOptions
from iqaction.verdict import Verdict

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

PROBLEMS = Path(__file__).parents[1] / "data" / "gsm8k_problems.jsonl"
PLAN = """\
suite: lab
stages:
  - trajectory: {prompts: prompts.jsonl, limit: 64, max_tokens: 8, concurrency: 2}
  - score: {legs: [reference, self]}
  - gsm8k: {data: problems.jsonl, limit: 8, max_tokens: 24, required: false}
  - niah: {lengths: [160], depths: [0.1, 0.9], trials: 2, max_tokens: 16, required: false}
  - sampling: {temperature: 0.8, top_k: 20, top_p: 1.0, prompts: 8, draws: 16, tokens: 8,
               required: false}
"""
RATE = 0.1
_HASTE = 0.05  # of the client's waits between two tries


@dataclass
class World:
    """A reference of all stages, and what two candidates answered."""

    home: Path
    engine: str
    memories: dict[str, Memory]
    number: Iterator[int] = field(default_factory=itertools.count)

    @property
    def plan(self) -> Path:
        return self.home / "plan.yml"

    def options(self, name: str, url: str) -> RunOptions:
        return RunOptions(
            self.home / name, self.plan, url, baseline=str(self.home / "reference")
        )

    def run(self, model: str, faults: Faults, *, silence: float = 0.2) -> Outcome:
        """One comparison with faults on the way."""
        name = f"{model}-{next(self.number)}"
        with (
            StandIn(self.engine, memory=self.memories[model]) as engine,
            FaultLab(engine, faults, silence=silence) as lab,
        ):
            return session.run(self.options(name, lab.url), progress=Quiet())


@pytest.fixture(scope="module")
def world(capture: Capture, memory: Memory, engine: str, weights, tmp_path_factory) -> World:
    home = tmp_path_factory.mktemp("lab")
    (home / "prompts.jsonl").write_text(as_lines(demo_prompts(64)))
    (home / "plan.yml").write_text(PLAN)
    shutil.copy(PROBLEMS, home / "problems.jsonl")
    found = World(home, engine, {"F16": memory, "Q4_0": Memory()})
    t=time.time()
    with StandIn(engine, memory=memory) as between:
        for launch in range(LAUNCHES + 1):
            options = RunOptions(home / "reference", found.plan, between.url, launch=launch)
            assert session.observe(options, progress=Quiet()).complete
    print("capture", time.time()-t); t=time.time()
    with (
        LlamaServer(served(weights("Q4_0"))) as server,
        StandIn(server.url, memory=found.memories["Q4_0"]) as between,
    ):
        assert session.run(found.options("q4_0", between.url), progress=Quiet()).complete
    print("q4_0", time.time()-t); t=time.time()
    return found


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that waits less between two tries, and takes answers of one megabyte at most."""
    wire = functools.partial(
        http.Wire, sleep=lambda s: time.sleep(_HASTE * s), max_body=CAP
    )
    monkeypatch.setattr(http, "Wire", wire)


def test_probe(world: World, hasty: None) -> None:
    for model in ("F16", "Q4_0"):
        for kinds in ((), *((k,) for k in Fault), tuple(Fault)):
            faults = Faults(kinds or tuple(Fault), rate=RATE if kinds else 0)
            t = time.time()
            out = world.run(model, faults)
            if not kinds:
                plain = out.report
                print(model, out.report.verdict, [(s.stage, s.verdict, s.coverage) for s in out.report.stages])
                for s in out.report.stages:
                    for c in s.checks: print("   ", c.metric, c.verdict.value, c.reason[:150])
                print(faults.requests, time.time() - t, world.memories[model].fresh)
                continue
            bare = lambda r: replace(r, run=NO_RUN, baseline_run=NO_RUN, evidence_root="", caveats=())
            same = bare(out.report) == bare(plain)
            print(kinds[0].name if len(kinds) == 1 else "ALL", out.report.verdict.value, dict(faults.injected), faults.requests, f"{time.time()-t:.1f}", "SAME" if same else "DIFFERENT", out.problem[:100])
            if not same:
                a, b = bare(out.report), bare(plain)
                for f in vars(a):
                    if f != "stages" and getattr(a, f) != getattr(b, f): print("   ", f, getattr(a, f), getattr(b, f))
                for s, p in zip(a.stages, b.stages):
                    for f in vars(s):
                        if getattr(s, f) != getattr(p, f):
                            x = getattr(s, f)
                            print("   ", s.stage, f, str(x)[:300])
