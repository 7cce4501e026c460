"""A real llama.cpp sampler: at its own settings it is never blamed, at another temperature it is.

Ruling out a temperature 5 % off takes some 10,000 positions, a hundred seconds and more of one
thread: the quick test shows everything but the PASS, which the full one reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from integration.captured import as_lines, demo_prompts, served
from integration.stand_in import CHAT, Ask, StandIn

from iqaction import session
from iqaction.calls import Arm, Drawn
from iqaction.demo_engine import LlamaServer
from iqaction.evidence.store import Folder
from iqaction.progress import Quiet
from iqaction.report import Check, StageResult
from iqaction.session import Outcome, RunOptions
from iqaction.verdict import Verdict

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800), pytest.mark.full]

PLAN = """\
suite: sampling
stages:
  - trajectory: {{prompts: prompts.jsonl, limit: 8, max_tokens: 1}}
  - sampling: {{temperature: 0.8, top_k: 20, top_p: 1.0, prompts: 8, {size}}}
"""
QUICK = "draws: 24, tokens: 24"
WHOLE = "draws: 256, tokens: 64"
_SLOTS = 4


def hotter(factor: float) -> Callable[[Ask], Ask]:
    """Another temperature behind the API. Each question is one of its own: a stand-in would
    answer the same question from memory, and draws must differ."""
    number = itertools.count()

    def hear(ask: Ask) -> Ask:
        if ask.path != CHAT:
            return ask
        body = {**ask.body, "temperature": factor * ask.body["temperature"], "salt": next(number)}
        return replace(ask, body=body)

    return hear


def result(outcome: Outcome) -> StageResult:
    return outcome.report.stages[-1]


def checks(stage: StageResult) -> dict[str, Check]:
    return {c.metric: c for c in stage.checks}


def told(stage: StageResult) -> str:
    """Its figures, for the log."""
    said = [f"{c.title}: {c.verdict.value}: {c.reason} {c.power}" for c in stage.checks]
    return "\n".join([stage.verdict.value, *said, *(str(t) for t in stage.tables)])


def ask(home: Path, name: str, url: str, size: str) -> StageResult:
    """Ask the server at ``url``: the reference first, everything else compared with it."""
    (home / "prompts.jsonl").write_text(as_lines(demo_prompts(8)))
    plan = home / "plan.yml"
    plan.write_text(PLAN.format(size=size))
    baseline = "" if name == "reference" else str(home / "reference")
    options = RunOptions(home / name, plan, url, baseline=baseline)
    outcome = session.run(options, progress=Quiet())
    assert outcome.complete, outcome.problem
    print(name, told(result(outcome)))
    return result(outcome)


def test_sampling__a_real_sampler(weights, tmp_path: Path) -> None:
    """At its own settings nothing strikes, and what is lacking is said in draws; much hotter
    behind the same plan is a FAIL with the temperature named. Both arms' figures are shown."""
    launch = replace(served(weights("Q4_1")), slots=_SLOTS, ctx=2048)
    with LlamaServer(launch) as server, StandIn(server.url, hear=hotter(1.6)) as between:
        reference = ask(tmp_path, "reference", server.url, QUICK)
        right = ask(tmp_path, "right", server.url, QUICK)
        hot = ask(tmp_path, "hot", between.url, QUICK)
    fitted = checks(right)["sampling.temperature"]

    assert reference.verdict is Verdict.UNPROVEN
    assert right.verdict is Verdict.UNPROVEN
    assert checks(right)["sampling.lists"].verdict is Verdict.PASS
    assert "draws" in fitted.power
    assert fitted.candidate is not None
    assert 0.6 < fitted.candidate < 1.1
    assert fitted.baseline is not None
    assert hot.verdict is Verdict.FAIL
    assert checks(hot)["sampling.temperature"].verdict is Verdict.FAIL
    assert 1.0 < (checks(hot)["sampling.temperature"].candidate or 0) < 1.8
    assert between.count(CHAT) < 8192 / 10


def test_sampling__draws_are_kept(weights, tmp_path: Path) -> None:
    """Draws of one prompt differ, each position has its list, and the folder is whole."""
    launch = replace(served(weights("Q4_1")), slots=_SLOTS, ctx=2048)
    with LlamaServer(launch) as server:
        ask(tmp_path, "reference", server.url, "draws: 16, tokens: 8")
    with Folder.open(tmp_path / "reference") as folder:
        kept = folder.load()
    drawn = [o.answer for o in kept.seen["sampling"].values() if isinstance(o.answer, Drawn)]
    texts = {tuple(a.rows.chosen.tolist()) for a in drawn if len(a.lengths) > 1}

    assert session.verify(tmp_path / "reference").ok
    assert kept.engines[(Arm.BASELINE, 0)].filters == ("top_k", "top_p", "min_p", "temperature")
    assert len(texts) == 16
    assert all(a.top_logprobs == 20 for a in drawn)


@pytest.mark.full
def test_sampling__verdicts(weights, tmp_path: Path) -> None:
    """With the default number of draws a correct sampler PASSes, and one 15 % hotter FAILs."""
    launch = replace(served(weights("Q4_1")), slots=_SLOTS, ctx=2048)
    with LlamaServer(launch) as server, StandIn(server.url, hear=hotter(1.15)) as between:
        ask(tmp_path, "reference", server.url, QUICK)
        right = ask(tmp_path, "right", server.url, WHOLE)
        hot = ask(tmp_path, "hot", between.url, WHOLE)

    assert right.verdict is Verdict.PASS
    assert hot.verdict is Verdict.FAIL
