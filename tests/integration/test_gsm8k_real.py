"""`gsm8k` on a real llama.cpp server: SmolLM2-135M at F16 against itself and against Q4_0.

The problems are the tests' own, easier than the public split. The model solves a few: too few to
lose, so that what can be defended of any candidate is UNPROVEN, and the report says why.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from integration.captured import served
from integration.stand_in import Memory, StandIn

from iqaction import session
from iqaction.calls import Arm, Generation
from iqaction.demo_engine import LlamaServer
from iqaction.evidence.store import Folder
from iqaction.progress import Quiet
from iqaction.report import Check, StageResult
from iqaction.session import Outcome, RunOptions
from iqaction.verdict import Verdict

pytestmark = [pytest.mark.timeout(1800), pytest.mark.full]

ROOT = Path(__file__).parents[2]
PROBLEMS = ROOT / "tests" / "data" / "gsm8k_problems.jsonl"
LIMIT, TOKENS = 24, 64
PLAN = "stages:\n  - gsm8k: {{data: problems.jsonl, limit: {limit}, max_tokens: {tokens}}}\n"


@dataclass
class School:
    """A captured reference with one relaunch, and what its engine said."""

    home: Path
    limit: int = LIMIT
    tokens: int = TOKENS
    memory: Memory = field(default_factory=Memory)

    @property
    def plan(self) -> Path:
        shutil.copy(PROBLEMS, self.home / "problems.jsonl")
        path = self.home / "plan.yml"
        path.write_text(PLAN.format(limit=self.limit, tokens=self.tokens))
        return path

    @property
    def reference(self) -> Path:
        return self.home / "reference"

    def capture(self, url: str, launch: int = 0) -> Outcome:
        options = RunOptions(self.reference, self.plan, url, launch=launch)
        return session.observe(options, progress=Quiet())

    def compare(self, name: str, url: str) -> StageResult:
        options = RunOptions(self.home / name, self.plan, url, baseline=str(self.reference))
        outcome = session.run(options, progress=Quiet())
        assert outcome.complete, outcome.problem
        (stage,) = outcome.report.stages
        return stage

    def generations(self, name: str) -> list[Generation]:
        with Folder.open(self.home / name) as folder:
            kept = folder.load().seen["gsm8k"]
        return [o.answer for o in kept.values() if isinstance(o.answer, Generation)]


def at_school(weights: Callable[[str], Path], school: School) -> School:
    with (
        LlamaServer(served(weights("F16"))) as server,
        StandIn(server.url, memory=school.memory) as between,
    ):
        for launch in (0, 1):
            assert school.capture(between.url, launch).complete
    return school


@pytest.fixture(scope="module")
def school(weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> School:
    return at_school(weights, School(tmp_path_factory.mktemp("school")))


def check(stage: StageResult, name: str) -> Check:
    return next(c for c in stage.checks if c.metric == f"gsm8k.{name}")


def test_reference(school: School) -> None:
    """The capture holds every answer, and says what it solved and what it can decide."""
    with Folder.open(school.reference) as folder:
        observed = folder.load()
        report, _ = folder.report()
    kept = observed.seen["gsm8k"]
    (stage,) = report.stages

    assert sum(t.arm is Arm.BASELINE for t in kept) == LIMIT
    assert sum(t.arm is Arm.REPEAT for t in kept) == LIMIT
    assert observed.data["gsm8k"] == PROBLEMS.read_bytes()
    assert f"of {LIMIT} problems right" in stage.checks[0].reason
    assert any("can decide" in t.title for t in stage.tables)


def test_same_weights(school: School) -> None:
    """The same answers prove nothing where so few are solved; nothing flips, nothing fails."""
    with StandIn(memory=school.memory) as between:
        stage = school.compare("same", between.url)
    one = check(stage, "accuracy")

    assert stage.verdict is Verdict.UNPROVEN
    assert one.estimate is not None
    assert one.estimate.value == 0
    assert one.baseline == one.candidate
    assert check(stage, "template").verdict is Verdict.PASS
    assert not any("flipped between" in c for c in stage.caveats)


def test_quantized(school: School, weights: Callable[[str], Path]) -> None:
    """Q4_0 against F16: never PASS, and what so few problems can decide is printed."""
    with LlamaServer(served(weights("Q4_0"))) as server:
        stage = school.compare("q4_0", server.url)
    print(*(f"{c.metric}: {c.verdict.value}: {c.reason}" for c in stage.checks), sep="\n")

    assert stage.verdict in (Verdict.UNPROVEN, Verdict.FAIL)
    assert check(stage, "accuracy").verdict is Verdict.UNPROVEN
    assert stage.coverage.required == stage.coverage.observed
    assert any(f"what {LIMIT} items can decide" in t.title for t in stage.tables)
    texts = {g.text for g in school.generations("reference")}
    assert {g.text for g in school.generations("q4_0")} - texts


def test_out_of_reach_is_said(school: School) -> None:
    """That 24 problems cannot PASS is said before the first is asked."""
    said: list[str] = []

    class Heard(Quiet):
        def note(self, text: str) -> None:
            said.append(text)

    with StandIn(memory=school.memory) as between:
        options = RunOptions(
            school.home / "heard", school.plan, between.url, baseline=str(school.reference)
        )
        session.run(options, progress=Heard())

    assert any("cannot PASS: 24 problems" in s for s in said)


@pytest.mark.full
def test_quantized__long(
    weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """More problems, and room to answer: Q4_0 does not PASS, F16 neither loses nor gains."""
    school = at_school(weights, School(tmp_path_factory.mktemp("long"), 48, 160))
    with LlamaServer(served(weights("Q4_0"))) as server:
        q4_0 = school.compare("q4_0", server.url)
    with LlamaServer(served(weights("F16"))) as server:
        again = school.compare("f16", server.url)
    for stage in (q4_0, again):
        print(*(f"{c.metric}: {c.verdict.value}: {c.reason}" for c in stage.checks), sep="\n")

    assert q4_0.verdict is not Verdict.PASS
    assert again.verdict is Verdict.UNPROVEN
    assert again.checks[0].estimate is not None
    assert again.checks[0].estimate.value == 0
