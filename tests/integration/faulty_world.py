"""A reference of all five stages and two candidates with remembered answers, for the fault lab.

The reference is SmolLM2-135M at F16; candidates are F16 again, which PASSes what is required, and
Q4_0 over the first 24 prompts, which FAILs. Each question is computed once, so that a run with
faults on the way and one without differ in the faults only.
"""

from __future__ import annotations

import functools
import itertools
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from integration.captured import LAUNCHES, UNITS, Capture, as_lines, demo_prompts, served
from integration.fault_lab import CAP, FaultLab, Faults
from integration.stand_in import CHAT, FORCE, Ask, Memory, StandIn

from iqaction import connecting, http, session
from iqaction.demo_engine import LlamaServer
from iqaction.progress import Quiet
from iqaction.report import NO_RUN, Report
from iqaction.session import Outcome, RunOptions

PROBLEMS = Path(__file__).parents[1] / "data" / "gsm8k_problems.jsonl"
PLAN = """\
suite: lab
stages:
  - trajectory: {{prompts: prompts.jsonl, limit: {units}, max_tokens: 8, concurrency: 2}}
  - score: {{legs: [reference, self]}}
  - gsm8k: {{data: problems.jsonl, limit: 6, max_tokens: 12, required: false}}
  - niah: {{lengths: [128], depths: [0.1, 0.9], trials: 1, max_tokens: 12, required: false}}
  - sampling: {{temperature: 0.8, top_k: 20, top_p: 1.0, prompts: 8, draws: 16, tokens: 4,
               required: false}}
"""
STAGES = ("trajectory", "score", "gsm8k", "niah", "sampling")
FEW = 24  # prompts that Q4_0 is asked
SENT_AGAIN = "sent more than once"  # words of the one caveat that faults may add
_HASTE = 0.01  # of the client's waits between two tries
_AWAY_S = 2.0  # how long it waits for an endpoint that refuses connections


@dataclass
class World:
    """See the module's docstring. ``memories`` are by candidate."""

    home: Path
    engine: str
    ids: Mapping[tuple[int, ...], str]  # prompts by their token ids
    memories: dict[str, Memory]
    number: Iterator[int] = field(default_factory=itertools.count)

    def options(self, model: str, name: str, url: str) -> RunOptions:
        plan = self.home / f"plan-{model}.yml"
        return RunOptions(self.home / name, plan, url, baseline=str(self.home / "reference"))

    def fresh(self, model: str) -> str:
        """The name of a folder that is not there yet."""
        return f"{model}-{next(self.number)}"

    def run(self, model: str, faults: Faults, *, silence: float = 0.05) -> Outcome:
        """One comparison with faults on the way."""
        with (
            StandIn(self.engine, memory=self.memories[model]) as engine,
            FaultLab(engine, faults, silence=silence) as lab,
        ):
            return session.run(self.options(model, self.fresh(model), lab.url), progress=Quiet())

    @functools.cached_property
    def undisturbed(self) -> dict[str, Report]:
        return {model: self.run(model, Faults(rate=0)).report for model in self.memories}

    def asks_about(self, units: frozenset[str]) -> Callable[[Ask], bool]:
        """True for the requests that are about these prompts: texts, draws and forced tokens."""
        texts = {p["messages"][-1]["content"] for p in demo_prompts(UNITS) if p["id"] in units}
        starts = [ids for ids, unit in self.ids.items() if unit in units]

        def about(ask: Ask) -> bool:
            if ask.path == CHAT:
                return ask.body["messages"][-1]["content"] in texts
            if ask.path == FORCE:
                return any(tuple(ask.body["prompt"][: len(s)]) == s for s in starts)
            return False

        return about


@pytest.fixture(scope="session")
def world(
    capture: Capture,
    memory: Memory,
    engine: str,
    weights: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> World:
    home = tmp_path_factory.mktemp("lab")
    (home / "prompts.jsonl").write_text(as_lines(demo_prompts(UNITS)))
    shutil.copy(PROBLEMS, home / "problems.jsonl")
    for model, units in (("F16", UNITS), ("Q4_0", FEW)):
        (home / f"plan-{model}.yml").write_text(PLAN.format(units=units))
    found = World(home, engine, capture.prompt_ids(), {"F16": memory, "Q4_0": Memory()})
    with StandIn(engine, memory=memory) as between:
        for launch in range(LAUNCHES + 1):
            options = replace(found.options("F16", "reference", between.url), baseline="")
            options = replace(options, launch=launch)
            assert session.observe(options, progress=Quiet()).complete
    with (
        LlamaServer(served(weights("Q4_0"))) as server,
        StandIn(server.url, memory=found.memories["Q4_0"]) as between,
    ):
        options = found.options("Q4_0", "first", between.url)
        assert session.run(options, progress=Quiet()).complete
    return found


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that waits less between tries and for a dead endpoint, and takes small answers."""
    client = functools.partial(http.Wire, sleep=lambda s: time.sleep(_HASTE * s), max_body=CAP)
    monkeypatch.setattr(http, "Wire", client)
    monkeypatch.setattr(connecting, "_AWAY_S", _AWAY_S)


def bare(report: Report) -> Report:
    """A report without what may differ between two runs of the same: when, and how often sent."""
    caveats = tuple(c for c in report.caveats if SENT_AGAIN not in c)
    return replace(report, run=NO_RUN, baseline_run=NO_RUN, evidence_root="", caveats=caveats)
