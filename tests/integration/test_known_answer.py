"""Known answers on a real engine: the same weights PASS, fewer bits FAIL, in the right order.

The figures are printed (``pytest -rA``) and recorded as properties of the tests. What a metric's
row holds is how much worse the candidate is; ``candidate`` is the candidate's own value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from integration.captured import LAUNCHES, UNITS, Capture, Weights, observe, served

from iqaction import cli, session
from iqaction.demo_engine import LlamaServer
from iqaction.report import Check, Report
from iqaction.session import Outcome
from iqaction.verdict import Verdict

pytestmark = pytest.mark.timeout(3600)

QUANTS = ("F16", "Q8_0", "Q5_0", "Q4_0")
LONG = 16  # tokens of the full set's texts
_SHOWN = ("reference.kl", "reference.decisive", "reference.nll", "reference.agreement")
_COUNTED = ("trajectory.real", "reference.broken", "self.faults")

Show = Callable[[str, Report, Mapping[str, float]], None]


def checks(report: Report) -> dict[str, Check]:
    return {c.metric: c for s in report.stages for c in s.checks}


def kl(outcome: Outcome) -> float:
    """The candidate's own mean KL to the reference, in nats a token."""
    value = checks(outcome.report)["reference.kl"].candidate
    assert value is not None
    return value


def told(report: Report) -> str:
    """A candidate's figures in one line."""
    found = checks(report)
    said = []
    for name in (*_SHOWN, *_COUNTED):
        check = found.get(name)
        if check is not None and check.candidate is not None and check.estimate is not None:
            worse = check.estimate.value
            over = f" (worse by {worse:.3g})" if worse is not None and name in _SHOWN else ""
            said.append(f"{name} {check.candidate:.4g}{over} {check.verdict.value}")
    parted = report.stages[0].divergences
    kinds = {k: sum(d.kind == k for d in parted) for k in ("tie", "shift", "real")}
    return f"{report.verdict.value}: {', '.join(said)}; texts that part: {kinds}"


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Show:
    """Print a candidate's verdict and figures, and keep them as properties of the test."""

    def show_one(name: str, report: Report, seconds: Mapping[str, float]) -> None:
        line = f"{told(report)}; {seconds[name.lower()]:.0f} s"
        print(f"{name} {line}")
        record_property(name, line)

    return show_one


def test_reference__captured(
    capture: Capture, record_property: Callable[[str, object], None]
) -> None:
    """Every launch was a server of its own and answered for every prompt."""
    report = session.judge(capture.folder, write=False).report
    print(f"reference: {capture.seconds['reference']:.0f} s")
    record_property("reference seconds", capture.seconds["reference"])

    assert report.verdict is Verdict.UNPROVEN
    assert capture.load().launches == tuple(range(1, LAUNCHES + 1))
    assert [s.coverage.left_out for s in report.stages] == [(), ()]
    assert report.stages[1].coverage.observed == UNITS


def is_the_same_model(report: Report) -> None:
    """Asserts what the same weights must give: PASS, and no difference at all."""
    found = checks(report)

    assert report.verdict is Verdict.PASS
    assert report.problems == ()
    assert {c.verdict for c in found.values() if c.judged} == {Verdict.PASS}
    for metric in _SHOWN:
        estimate = found[metric].estimate
        assert estimate is not None
        assert estimate.value == pytest.approx(0, abs=1e-9), metric
    # The reference was decoded two at a time and is scored alone: batching rounds otherwise.
    assert found["reference.kl"].candidate == pytest.approx(0, abs=1e-5)
    assert found["reference.agreement"].candidate == 0  # the share that does not agree
    assert found["self.faults"].candidate == 0
    assert report.stages[0].divergences == ()


def test_f16__another_launch_passes(f16: Outcome, capture: Capture, show: Show) -> None:
    """The same weights after a restart: nothing differs, and the verdict is PASS."""
    show("F16", f16.report, capture.seconds)

    is_the_same_model(f16.report)


def test_f16__verifies(f16: Outcome) -> None:
    """Its evidence is whole and judges to the same report."""
    found = session.verify(f16.folder, f16.root)

    assert (found.problems, found.ok, found.authenticated) == ((), True, True)


def test_q8_0__does_not_fail(q8_0: Outcome, capture: Capture, show: Show) -> None:
    """Eight bits are no other model: no decisive disagreement, and not FAIL."""
    show("Q8_0", q8_0.report, capture.seconds)

    assert q8_0.report.verdict is not Verdict.FAIL
    assert checks(q8_0.report)["reference.decisive"].candidate == 0


def test_q4_0__fails(q4_0: Outcome, capture: Capture, show: Show) -> None:
    """Four bits are another model, and 24 prompts suffice to say so."""
    show("Q4_0", q4_0.report, capture.seconds)
    found = checks(q4_0.report)

    assert q4_0.report.verdict is Verdict.FAIL
    assert found["reference.kl"].verdict is Verdict.FAIL
    assert found["reference.kl"].estimate is not None
    assert found["reference.kl"].estimate.n_units == 24


def test_kl__ordered_by_bits(f16: Outcome, q8_0: Outcome, q4_0: Outcome) -> None:
    """Fewer bits lie further from the reference."""
    assert kl(f16) < kl(q8_0) / 100
    assert kl(q8_0) < kl(q4_0) / 10


@pytest.fixture(scope="module")
def long_runs(
    weights: Weights, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Capture, dict[str, Outcome]]:
    """Texts of 16 tokens: a reference of its own and all four types, both legs."""
    home: Path = tmp_path_factory.mktemp("long")
    long = observe(Capture(home, tokens=LONG), LAUNCHES, served(weights("F16")))
    outcomes = {}
    for quant in QUANTS:
        with LlamaServer(served(weights(quant))) as server:
            outcomes[quant] = long.compare(quant.lower(), server.url)
    return long, outcomes


def shown(a: Path, b: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `iqaction diff A B --json` says, after what it says to people was printed."""
    page = b.parent / "diff.html"
    assert cli.main(["diff", str(a), str(b), "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert cli.main(["diff", str(a), str(b), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    print(text)
    assert max(map(len, text.splitlines())) <= 100
    assert page.read_text().startswith("<!doctype html>")
    figures = [f for s in body["stages"] for f in s["figures"]]
    return {**body, "by": {f["metric"]: f for f in figures}}


def test_diff__two_candidates(
    f16: Outcome, q8_0: Outcome, capsys: pytest.CaptureFixture[str]
) -> None:
    """More bits beside fewer: KL is paired over all prompts and worse, by the same prompts' texts;
    the other way round it is better by as much."""
    there = shown(f16.folder, q8_0.folder, capsys)
    back = shown(q8_0.folder, f16.folder, capsys)
    kl = there["by"]["reference.kl"]

    assert (kl["direction"], back["by"]["reference.kl"]["direction"]) == ("worse", "better")
    assert (kl["paired"], kl["n"]) == (True, UNITS)
    assert kl["worse_by"] == pytest.approx(-back["by"]["reference.kl"]["worse_by"])
    assert [d["id"] for s in there["stages"] for d in s["divergences"]]
    assert all(m["b_has"] for s in there["stages"] for m in s["movers"])
    # The plans differ: q8_0 was asked without the self leg.
    assert [x.split(" is ")[0] for x in there["question_differs_in"]] == ["score: legs"]
    assert any(c["what"] == "ftype" for c in there["changes"])


def test_diff__from_the_reference(
    capture: Capture, q4_0: Outcome, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the capture to a degraded candidate the difference is the candidate's own judgement."""
    found = shown(capture.folder, q4_0.folder, capsys)
    check = checks(q4_0.report)["reference.kl"]
    kl = found["by"]["reference.kl"]

    assert (found["a"]["is_capture"], found["b"]["verdict"]) == (True, "FAIL")
    assert (kl["direction"], kl["verdict_b"], kl["b"]) == ("worse", "FAIL", check.candidate)
    assert [m["id"] for s in found["stages"] for m in s["movers"]]


@pytest.mark.full
def test_long__known_answers(long_runs: tuple[Capture, dict[str, Outcome]], show: Show) -> None:
    """F16 PASSes, Q8_0 does not FAIL, Q5_0 and Q4_0 FAIL; KL rises with each step."""
    long, outcomes = long_runs
    print(f"reference: {long.seconds['reference']:.0f} s")
    for quant in QUANTS:
        show(quant, outcomes[quant].report, long.seconds)

    is_the_same_model(outcomes["F16"].report)
    assert outcomes["Q8_0"].report.verdict is not Verdict.FAIL
    assert outcomes["Q5_0"].report.verdict is Verdict.FAIL
    assert outcomes["Q4_0"].report.verdict is Verdict.FAIL
    rising = [kl(outcomes[q]) for q in QUANTS]
    assert rising == sorted(rising)


@pytest.mark.full
@pytest.mark.parametrize("quant", QUANTS)
def test_long__decoding_is_sound(quant: str, long_runs: tuple[Capture, dict[str, Outcome]]) -> None:
    """Quantized weights decode as they score: fewer bits are no decode fault."""
    check = checks(long_runs[1][quant].report)["self.faults"]

    assert (check.verdict, check.candidate) == (Verdict.PASS, 0)
