"""Faults of network and server: what can be recovered changes nothing, what is lost proves nothing.

Each test prints its rows of a table: fault, how often injected, answered in spite of it, lost, and
wrong verdicts. A question is lost where the evidence holds no answer to it in the end.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.fault_lab import Fault, FaultLab, Faults
from integration.faulty_world import FEW, PROBLEMS, World, bare, hasty, world
from integration.stand_in import CHAT, Ask, Said, StandIn

from iqaction import http, session
from iqaction.calls import Failure
from iqaction.evidence.store import Folder
from iqaction.progress import Quiet
from iqaction.report import Report, StageResult
from iqaction.session import Outcome
from iqaction.verdict import Verdict

__all__ = ["hasty", "world"]  # fixtures
pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.usefixtures("hasty")]

MODELS = {"F16": Verdict.PASS, "Q4_0": Verdict.FAIL}
"""And their verdicts."""


def lost(outcome: Outcome) -> int:
    """Questions that have no answer in the evidence, asked again too."""
    with Folder.open(outcome.folder) as folder:
        seen = folder.load(alone=True).seen
    answered: dict[tuple[object, ...], bool] = {}
    for stage, kept in seen.items():
        for tag, o in kept.items():
            key = (stage, tag.arm, tag.leg, tag.unit, tag.launch)
            answered[key] = answered.get(key, False) or not isinstance(o.answer, Failure)
    return sum(not x for x in answered.values())


def tell(what: str, faults: Faults, outcome: Outcome, right: tuple[Verdict, ...]) -> None:
    """One row of the table."""
    injected, gone = sum(faults.injected.values()), lost(outcome)
    wrong = int(outcome.report.verdict not in right)
    row = f"{injected:8d} {max(0, injected - gone):8d} {gone:6d} {wrong:6d}"
    print(f"{what:52s} {row}  {outcome.report.verdict.value}")


def same(expected: Report, actual: Report) -> None:
    """Assert that two runs say the same: first what a reader would look at, then everything."""
    assert expected.verdict is actual.verdict
    for before, after in zip(expected.stages, actual.stages, strict=True):
        assert before.coverage == after.coverage
        for one, other in zip(before.checks, after.checks, strict=True):
            assert one == other
        assert before == after
    assert bare(expected) == bare(actual)


# What can be recovered.


@pytest.mark.parametrize("model", MODELS)
def test_recovered__all_kinds_mixed(world: World, model: str) -> None:
    """A tenth of all requests hit by faults of any kind: the report is that of a run without."""
    faults = Faults()
    outcome = world.run(model, faults)
    tell(f"{model}: all kinds mixed", faults, outcome, (MODELS[model],))

    assert world.undisturbed[model].verdict is MODELS[model]
    assert sum(faults.injected.values()) > 0.05 * faults.requests
    assert len(faults.injected) > len(Fault) / 2
    same(world.undisturbed[model], outcome.report)


@pytest.mark.parametrize("fault", Fault, ids=lambda f: f.name.lower())
@pytest.mark.parametrize("model", ["F16", pytest.param("Q4_0", marks=pytest.mark.full)])
def test_recovered__each_kind_alone(world: World, model: str, fault: Fault) -> None:
    """A tenth of all requests hit by one kind of fault: the report is that of a run without."""
    faults = Faults((fault,))
    outcome = world.run(model, faults)
    tell(f"{model}: {fault.value}", faults, outcome, (MODELS[model],))

    assert faults.injected[fault] > 0
    same(world.undisturbed[model], outcome.report)


def test_recovered__late_copy_of_tokens(world: World) -> None:
    """Answers of the tokenizer that come once more before the next one: the same report."""
    faults = Faults((Fault.TWICE_LATE,), among=lambda ask: ask.path == "/tokenize", only={})
    outcome = world.run("F16", faults)
    tell("F16: token ids again before the next ones", faults, outcome, (Verdict.PASS,))

    same(world.undisturbed["F16"], outcome.report)


def test_recovered__exchanged_twice(world: World) -> None:
    """Two texts that are exchanged, and exchanged again when asked anew: the same report."""
    pair = world.asks_about(frozenset({"how_to-01", "writing-01"}))
    faults = Faults((Fault.SWAPPED,), 1.0, among=lambda a: a.path == CHAT and pair(a), exchanges=2)
    outcome = world.run("F16", faults)
    tell("F16: answers exchanged twice in a row", faults, outcome, (Verdict.PASS,))

    assert faults.injected[Fault.SWAPPED] >= 4
    same(world.undisturbed["F16"], outcome.report)


# What cannot be recovered.

WAY = (  # the network or a proxy: nothing is known of the model
    Fault.PAGE_502,
    Fault.BUSY_SECONDS,
    Fault.BUSY_DATE,
    Fault.RESET_BEFORE,
    Fault.RESET_WITHIN,
    Fault.TRUNCATED,
    Fault.TOO_LONG,
    Fault.SURPLUS,
    Fault.HANG,
)
ENGINE = (Fault.ERROR_500, Fault.ABORTED, Fault.BOMB)  # the engine fails, reproducibly
UNITS_LOST = frozenset({"writing-01", "code-04"})
_PATIENCE_S = 0.3


def full_but(few: tuple[Fault, ...], every: tuple[Fault, ...]) -> list[object]:
    marks = {f: () if f in few else (pytest.mark.full,) for f in every}
    return [pytest.param(f, marks=m, id=f.name.lower()) for f, m in marks.items()]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client for which an answer that does not begin soon has timed out."""
    monkeypatch.setattr(http, "Wire", functools.partial(http.Wire, read_timeout=_PATIENCE_S))


def stage(report: Report, name: str) -> StageResult:
    return next(s for s in report.stages if s.stage == name)


def prompts_lost(world: World, model: str, fault: Fault, units: frozenset[str]) -> Outcome:
    faults = Faults((fault,), 1.0, among=world.asks_about(units))
    outcome = world.run(model, faults, silence=2 * _PATIENCE_S)
    tell(f"{model}: always {fault.value}", faults, outcome, (Verdict.UNPROVEN, Verdict.FAIL))
    assert faults.injected[fault] > 0
    return outcome


def names_them(report: Report, units: frozenset[str], name: str) -> None:
    """Assert that a stage counts and names the prompts it lacks."""
    found = stage(report, name)

    assert found.coverage.required - found.coverage.observed == len(units)
    assert units == {*found.coverage.failed, *found.coverage.missing}
    assert units <= {f.unit for f in found.faults}
    assert any(str(len(units)) in c.reason for c in found.checks)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", full_but((Fault.PAGE_502, Fault.RESET_BEFORE, Fault.HANG), WAY))
def test_lost__by_the_way(world: World, fault: Fault) -> None:
    """Prompts whose every request is lost on the way: UNPROVEN, and they are counted and named."""
    outcome = prompts_lost(world, "F16", fault, UNITS_LOST)

    assert outcome.report.verdict is Verdict.UNPROVEN
    for name in ("trajectory", "score"):
        assert stage(outcome.report, name).verdict is Verdict.UNPROVEN
        names_them(outcome.report, UNITS_LOST, name)
    assert "writing-01" in {f.unit for f in stage(outcome.report, "sampling").faults}


@pytest.mark.parametrize("fault", full_but((Fault.ERROR_500,), ENGINE))
def test_lost__by_the_engine(world: World, fault: Fault) -> None:
    """Prompts that the engine fails on again and again: broken ones, never PASS, and named."""
    outcome = prompts_lost(world, "F16", fault, UNITS_LOST)

    assert outcome.report.verdict in (Verdict.UNPROVEN, Verdict.FAIL)
    names_them(outcome.report, UNITS_LOST, "trajectory")
    assert set(stage(outcome.report, "trajectory").coverage.failed) == UNITS_LOST


@pytest.mark.parametrize("fault", full_but((Fault.RESET_WITHIN,), (*WAY, *ENGINE)))
@pytest.mark.usefixtures("impatient")
def test_lost__in_every_stage(world: World, fault: Fault) -> None:
    """One question of gsm8k and one of niah lost: each stage says that it lacks one."""
    problems = [json.loads(line)["question"] for line in PROBLEMS.read_text().splitlines()]
    first: dict[bool, str] = {}

    def one_of_each(ask: Ask) -> bool:
        text = ask.body["messages"][-1]["content"] if ask.path == CHAT else ""
        is_niah = "secret code" in text
        is_ours = is_niah or any(p in text for p in problems)
        return is_ours and first.setdefault(is_niah, text) == text

    faults = Faults((fault,), 1.0, among=one_of_each)
    outcome = world.run("F16", faults, silence=2 * _PATIENCE_S)
    tell(f"gsm8k, niah: always {fault.value}", faults, outcome, (Verdict.PASS,))

    for name in ("gsm8k", "niah"):
        found = stage(outcome.report, name)
        assert found.verdict is not Verdict.PASS
        assert found.coverage.required - found.coverage.observed == 1
        assert len(found.faults) == 1


@pytest.mark.parametrize(
    "size", [1, FEW // 2, FEW, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 4, 8, 16))]
)
@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.ERROR_500], ids=["way", "engine"])
def test_lost__what_speaks_against_the_candidate(world: World, size: int, fault: Fault) -> None:
    """The worst prompts of a candidate that FAILs are lost, few or all: it never PASSes."""
    worst = sorted(
        stage(world.undisturbed["Q4_0"], "score").faults, key=lambda f: (f.kind, f.detail)
    )
    against = list(dict.fromkeys(f.unit for f in worst))
    outcome = prompts_lost(world, "Q4_0", fault, frozenset(against[:size]))

    assert len(against) > FEW / 2
    assert outcome.report.verdict in (Verdict.FAIL, Verdict.UNPROVEN, Verdict.NOT_RUN)
    for name in ("trajectory", "score"):
        assert stage(outcome.report, name).verdict is not Verdict.PASS


# The end of an endpoint.

_ENOUGH = 90  # requests answered before it dies, in the middle of the texts
_MOST_SENT = 100  # requests that one who knocks at a dead door may still send
_SOON_S = 60.0


@pytest.mark.parametrize("death", ["leave", "break_down"])
def test_dead__ends_soon_and_continues(world: World, death: str, tmp_path: Path) -> None:
    """An endpoint that dies for good ends the run soon, with what was measured kept; a live one
    lets it continue to the report of a run that nothing disturbed."""
    seen: list[float] = []

    def hear(ask: Ask) -> Ask | Said:
        seen.append(time.monotonic())
        if len(seen) == _ENOUGH:
            dying: Callable[[], None] = getattr(lab, death)
            dying()
        return ask

    faults = Faults(rate=0)
    name = world.fresh("F16")
    with StandIn(world.engine, hear=hear, memory=world.memories["F16"]) as engine:
        with FaultLab(engine, faults) as lab:
            outcome = session.run(world.options("F16", name, lab.url), progress=Quiet())
        took, knocks = time.monotonic() - seen[_ENOUGH - 1], faults.requests - _ENOUGH
        tell(f"dead for good ({death})", faults, outcome, (Verdict.UNPROVEN,))
        again = Faults(rate=0)
        with FaultLab(engine, again, port=lab.port) as lab:
            whole = session.run(world.options("F16", name, lab.url), progress=Quiet())

    assert not outcome.complete
    assert "the endpoint stopped answering" in outcome.problem
    assert "continues where it stopped" in outcome.problem
    assert outcome.report.verdict is Verdict.UNPROVEN
    assert knocks < _MOST_SENT
    assert took < _SOON_S
    assert 0 < stage(outcome.report, "trajectory").coverage.observed < 64
    assert whole.complete
    assert len(seen) - _ENOUGH < world_size(world)
    same(world.undisturbed["F16"], whole.report)


def world_size(world: World) -> int:
    """Requests of a run that nothing disturbs."""
    faults = Faults(rate=0)
    world.run("F16", faults)
    return faults.requests
