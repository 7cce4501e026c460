"""The stage `niah` on a real llama.cpp server: SmolLM2-135M at F16 against its Q4_0.

The model finds a code in 300 tokens and loses some of them from 500 on, so short texts are a fair
task for it; they are also what one thread can read in a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.conftest import Llama

from iqaction import session
from iqaction.progress import Quiet
from iqaction.report import Check, StageResult
from iqaction.session import Outcome, RunOptions
from iqaction.verdict import Verdict

PLAN = """\
suite: real
stages:
  - niah: {{lengths: {lengths}, depths: {depths}, trials: {trials}, max_tokens: 32}}
"""


@dataclass
class Bench:
    """A plan, and where its evidence lies."""

    home: Path
    llama: Callable[..., Llama]

    def plan(self, lengths: list[int], depths: list[float], trials: int) -> None:
        text = PLAN.format(lengths=lengths, depths=depths, trials=trials)
        (self.home / "plan.yml").write_text(text)

    def run(self, name: str, quant: str, ctx: int, baseline: str = "") -> Outcome:
        server = self.llama(quant, ctx=ctx)
        options = RunOptions(
            evidence=self.home / name,
            plan=self.home / "plan.yml",
            endpoint=server.url,
            baseline=str(self.home / baseline) if baseline else "",
        )
        outcome = session.run(options, progress=Quiet())
        server.stop()
        assert outcome.complete, outcome.problem
        return outcome


def said(result: StageResult, metric: str) -> Check:
    return next(c for c in result.checks if c.metric == metric)


@pytest.fixture(scope="module")
def bench(tmp_path_factory, llama) -> Bench:
    return Bench(tmp_path_factory.mktemp("niah"), llama)


@pytest.fixture(scope="module")
def short(bench: Bench) -> Bench:
    """A reference of eight questions, in a context of 512 tokens."""
    bench.plan([160, 300], [0.1, 0.9], 2)
    bench.run("reference", "F16", 512)
    return bench


def test_niah__shorter_context(short: Bench) -> None:
    """Questions that a candidate's context no longer holds are named and never wrong answers."""
    outcome = short.run("shorter", "Q4_0", 256, "reference")
    (result,) = outcome.report.stages
    fits = said(result, "niah.fits")

    assert outcome.report.verdict in (Verdict.UNPROVEN, Verdict.FAIL)
    assert fits.verdict is Verdict.UNPROVEN
    assert "4 of 8 questions (at 300 tokens) fit into the baseline's context" in fits.reason
    assert "300 tokens do not fit into a context of 256" in fits.reason
    assert (result.coverage.required, result.coverage.observed) == (8, 4)
    assert session.verify(short.home / "shorter").problems == ()


def test_niah__lengths(short: Bench) -> None:
    """As the real tokenizer counts them, questions with their answers nearly fill their length."""
    (result,) = session.judge(short.home / "reference", write=False).report.stages
    table = result.tables[0]
    lengths = {row[0]: row[-1] for row in table.rows}

    assert result.coverage.observed == 8
    assert 160 * 0.75 < lengths[160.0] + 32 <= 160
    assert 300 * 0.87 < lengths[300.0] + 32 <= 300
    assert any(c.startswith("what 8 questions decide: they cannot exclude") for c in result.caveats)


@pytest.mark.full
@pytest.mark.timeout(900)  # three arms of 45 questions on one thread
def test_niah__verdicts(tmp_path: Path, llama: Callable[..., Llama]) -> None:
    """The same weights again PASS, with nothing flipped; what Q4_0 loses is counted and judged."""
    bench = Bench(tmp_path, llama)
    bench.plan([200], [0.1, 0.5, 0.9], 15)
    bench.run("reference", "F16", 512)
    again = bench.run("again", "F16", 512, "reference").report.stages[0]
    q4_0 = bench.run("q4_0", "Q4_0", 512, "reference").report.stages[0]
    found = said(q4_0, "niah.found")

    assert again.verdict is Verdict.PASS
    assert "0 of 45 answers changed" in " ".join(again.caveats)
    assert said(q4_0, "niah.prompts").verdict is Verdict.PASS
    assert said(again, "niah.found").baseline == 1.0  # else the model is no fair judge of itself
    assert found.candidate is not None
    assert found.candidate < 1.0  # on other machines it need not be the same questions
    assert q4_0.verdict in (Verdict.UNPROVEN, Verdict.FAIL)
    assert q4_0.tables[1].title.startswith("Answers that changed")
    assert found.estimate is not None
    assert found.estimate.n_units == 45
    assert any(c.startswith("what 45 questions decide") for c in q4_0.caveats)
