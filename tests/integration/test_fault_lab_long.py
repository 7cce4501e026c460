"""The fault lab where it takes more: a stage that can PASS by its items, a real server that is
killed, and waits in full."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from integration.captured import served
from integration.fault_lab import Fault, FaultLab, Faults
from integration.faulty_world import PROBLEMS, World, bare, hasty, world
from integration.stand_in import CHAT, Ask, Memory, Said, StandIn

from iqaction import session
from iqaction.demo_engine import LlamaServer
from iqaction.progress import Quiet
from iqaction.report import StageResult
from iqaction.session import Outcome, RunOptions
from iqaction.verdict import Verdict

__all__ = ["hasty", "world"]  # fixtures
pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

LIMIT = 48  # problems: enough to PASS at a margin of nine points
PLAN = (
    f"stages:\n  - gsm8k: {{data: problems.jsonl, limit: {LIMIT}, max_tokens: 64, margin: 9pp}}\n"
)


@dataclass
class School:
    """A reference that solves every problem, on answers that are made up: the demo's model solves
    none, and that a loss is not a gain shows only where there is something to lose."""

    home: Path
    engine: StandIn
    form: Said  # a real answer, for all but its words
    golds: dict[str, str]
    number: Iterator[int] = field(default_factory=itertools.count)

    def question(self, ask: Ask) -> str:
        """The problem that a request is about, "" for none."""
        text = ask.body["messages"][-1]["content"] if ask.path == CHAT else ""
        return next((q for q in self.golds if q in text), "")

    def answering(self, wrong: Iterable[str] = ()) -> Callable[[Ask], Ask | Said]:
        """An engine that solves all problems but those."""
        unsolved = frozenset(wrong)

        def hear(ask: Ask) -> Ask | Said:
            if not (question := self.question(ask)):
                return ask
            return self._said(ask, "0" if question in unsolved else self.golds[question])

        return hear

    def _said(self, ask: Ask, number: str) -> Said:
        body: dict[str, Any] = json.loads(self.form.data)
        prompt = f"<|im_start|>user\n{ask.body['messages'][-1]['content']}<|im_end|>\n"
        asked = {"content": prompt, "add_special": True, "parse_special": True}
        ids = self.engine.of_engine(Ask("POST", "/tokenize", asked)).body["tokens"]
        message = {"role": "assistant", "content": f"#### {number}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        verbose = {"prompt": prompt, "tokens": [1, 2, 3]}
        usage = {"prompt_tokens": len(ids), "completion_tokens": 3}
        name = f"chatcmpl-{next(self.number):032d}"
        return self.form.with_body(
            {**body, "id": name, "choices": [choice], "usage": usage, "__verbose": verbose}
        )

    def options(self, name: str, url: str, *, capture: bool = False) -> RunOptions:
        baseline = "" if capture else str(self.home / "reference")
        return RunOptions(self.home / name, self.home / "plan.yml", url, baseline=baseline)

    def compare(self, wrong: Iterable[str], lost: Iterable[str], fault: Fault) -> StageResult:
        """A candidate that does not solve some problems, and whose answers to some get lost."""
        gone = frozenset(lost)
        faults = Faults((fault,), 1.0, among=lambda ask: self.question(ask) in gone)
        with (
            StandIn("", hear=self.answering(wrong), memory=self.engine.memory) as engine,
            FaultLab(engine, faults) as lab,
        ):
            options = self.options(f"run-{next(self.number)}", lab.url)
            (stage,) = session.run(options, progress=Quiet()).report.stages
        return stage


@pytest.fixture(scope="module")
def school(
    memory: Memory, engine: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[School]:
    home = tmp_path_factory.mktemp("school")
    (home / "plan.yml").write_text(PLAN)
    shutil.copy(PROBLEMS, home / "problems.jsonl")
    rows = [json.loads(line) for line in PROBLEMS.read_text().splitlines()]
    golds = {r["question"]: r["answer"].rpartition("#### ")[2] for r in rows}
    form = next(s for key, s in memory.said.items() if key.startswith(f"POST {CHAT}"))
    with StandIn(engine, memory=memory) as honest:
        found = School(home, honest, form, golds)
        with StandIn(engine, hear=found.answering(), memory=memory) as between:
            options = found.options("reference", between.url, capture=True)
            assert session.observe(options, progress=Quiet()).complete
        yield found


def asked(school: School) -> list[str]:
    """The problems that the plan asks, in the order of the file."""
    seen: list[str] = []

    def hear(ask: Ask) -> Ask | Said:
        seen.append(school.question(ask))
        return school.answering()(ask)

    with StandIn("", hear=hear, memory=school.engine.memory) as between:
        options = school.options(f"run-{next(school.number)}", between.url)
        (stage,) = session.run(options, progress=Quiet()).report.stages
    assert stage.verdict is Verdict.PASS
    return [q for q in school.golds if q in seen]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.ERROR_500], ids=["way", "engine"])
@pytest.mark.parametrize(
    ("wrong", "sizes"),
    [
        (12, (0, 1, 6, 12)),
        (5, (1, 5)),
        pytest.param(12, range(13), marks=pytest.mark.full, id="12-every-size"),
        pytest.param(5, range(6), marks=pytest.mark.full, id="5-every-size"),
    ],
)
def test_items__lost_ones_prove_nothing(
    school: School, wrong: int, sizes: Iterable[int], fault: Fault
) -> None:
    """A candidate that solves all problems PASSes; one that does not solve some never does, however
    many of just these are lost, and each one lost is named (a FAIL may come before it is asked)."""
    questions = asked(school)
    unsolved = random.Random(wrong).sample(questions, wrong)
    for size in sizes:
        stage = school.compare(unsolved, unsolved[:size], fault)
        print(f"{wrong} unsolved, {size} of them lost: {stage.verdict.value}")

        assert len(questions) == LIMIT
        assert stage.verdict in (Verdict.FAIL, Verdict.UNPROVEN)
        assert len(stage.faults) >= size or stage.verdict is Verdict.FAIL


@pytest.mark.full
@pytest.mark.usefixtures("hasty")
def test_items__any_lost_ones(school: School) -> None:
    """The same for losses of any problems, solved ones too."""
    questions, rng = asked(school), random.Random(1)
    for _ in range(12):
        unsolved, gone = rng.sample(questions, 6), rng.sample(questions, rng.randrange(1, 40))
        stage = school.compare(unsolved, gone, Fault.ERROR_500)

        assert stage.verdict in (Verdict.FAIL, Verdict.UNPROVEN)


def compared(world: World, engine: StandIn, faults: Faults, silence: float) -> Outcome:
    with FaultLab(engine, faults, silence=silence) as lab:
        options = world.options("F16", world.fresh("F16"), lab.url)
        return session.run(options, progress=Quiet())


@pytest.mark.full
def test_recovered__all_kinds_mixed_in_real_time(world: World) -> None:
    """The client's own waits, and thirty seconds of silence now and then: the same report."""
    kinds = tuple(f for f in Fault if f is not Fault.BOMB)  # it takes 256 MB to be one
    faults = Faults(kinds, seed=7, most={Fault.HANG: 2, Fault.TRICKLE: 2, Fault.RESTART: 2})
    with StandIn(world.engine, memory=world.memories["F16"]) as engine:
        outcome = compared(world, engine, faults, 30.0)
    print(dict(faults.injected))

    assert faults.injected[Fault.HANG] >= 1
    assert bare(world.undisturbed["F16"]) == bare(outcome.report)


@pytest.mark.full
def test_recovered__engine_killed(world: World, weights: Callable[[str], Path]) -> None:
    """The engine's process is killed in the middle of the texts and another one started: the client
    waits for it, and the report is that of a run without."""
    launch, count = served(weights("F16")), itertools.count()
    servers = [LlamaServer(launch)]

    def again() -> None:
        os.kill(servers[0].pid, signal.SIGKILL)
        lab.leave()
        servers.append(LlamaServer(launch))
        engine.turn_to(servers[-1].url)
        lab.listen()

    def hear(ask: Ask) -> Ask | Said:
        if next(count) == 60:
            threading.Thread(target=again).start()
        return ask

    try:
        with StandIn(servers[0].url, hear=hear) as engine, FaultLab(engine, Faults(rate=0)) as lab:
            options = world.options("F16", world.fresh("F16"), lab.url)
            outcome = session.run(options, progress=Quiet())
    finally:
        for server in servers:
            server.stop()

    assert len(servers) == 2
    assert outcome.complete, outcome.problem
    assert outcome.report.verdict is Verdict.PASS
    for before, after in zip(
        world.undisturbed["F16"].stages[:2], outcome.report.stages, strict=False
    ):
        assert before.coverage == after.coverage
        assert before.verdict is after.verdict
