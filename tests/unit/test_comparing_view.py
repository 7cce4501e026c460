"""Two folders beside each other, for people and for programs."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from comparisons import REFERENCE, poisoned, whole

from iqaction import comparing, comparing_view
from iqaction.report import Change, Contrast, Divergence, Estimate
from iqaction.terminal import width
from iqaction.verdict import Verdict

HOSTILE = json.loads((Path(__file__).parent / "surfaces" / "hostile.json").read_text())


def estimate(low: float, high: float) -> Estimate:
    return Estimate("kl", (low + high) / 2, (low, high), 0.95, "m", 9, "nats")


def test_page__from_top_to_bottom() -> None:
    """Which two, whether they were asked the same, the engines, the stages, and no verdict."""
    page = comparing_view.page(whole(), 100)
    marks = (
        "UNPROVEN → FAIL  iqaction diff",
        "A  good: compared with bbbbbbbbbbbb; vllm 2.0, m; not proven either way",
        "B  bad: ",
        "Both were asked the same, and are held against the same baseline.",
        "  - the same, as far as they are known",
        "trajectory: ",
        "  Where the texts part: ",
        "score: UNPROVEN → FAIL",
        "  reference leg: KL (>=): UNPROVEN → FAIL",
        ", worse: ",
        "  Prompts that changed most:",
        "    and 15 more: --json",
        "This is no verdict",
    )
    places = [page.find(mark) for mark in marks]

    assert -1 not in places, page
    assert places == sorted(places)


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_page__fits(columns: int) -> None:
    """No line is wider than the terminal, and none ends in blanks."""
    lines = comparing_view.page(whole(), columns).split("\n")

    assert max(width(x) for x in lines) <= columns
    assert [x for x in lines if x != x.rstrip()] == []


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_page__hostile(text: str) -> None:
    """No foreign text leaves its line, repaints the screen or commands a runner's log."""
    page = comparing_view.page(poisoned(text), 80)

    assert all(c.isprintable() or unicodedata.category(c) == "Zs" for c in page.replace("\n", ""))
    assert not [x for x in page.split("\n") if x.lstrip().startswith("::")]
    assert "##[" not in page
    # However long or multi-line the texts are, so many lines there are at most.
    assert page.count("\n") < 6000


def test_page__same_evidence() -> None:
    """A folder beside itself is told as such."""
    one = comparing.party("x", replace(REFERENCE), "1")

    assert "Both are the same evidence." in comparing_view.page(comparing.compare(one, one), 80)


def test_page__problems_of_the_evidence() -> None:
    """What is wrong with a folder stands beside its name, three at most."""
    of = whole()
    report = replace(of.b.report, problems=("edited\n  after sealing", "b", "c", "d"))
    page = comparing_view.page(replace(of, b=replace(of.b, report=report)), 80)

    assert "   problem: edited after sealing\n" in page
    assert "   problems in all: 4\n" in page


def test_heading__not_asked_the_same() -> None:
    """What differs is listed under it, a dozen at most."""
    page = comparing_view.page(replace(whole(), asked=("the prompts",) * 15), 80)

    assert "They were not asked the same. What differs:\n  - the prompts\n" in page
    assert "  and 3 more: --json" in page


def test_differing__of_the_engines() -> None:
    """What changed, that nothing did, or that it is not known."""
    of = whole()
    blind = replace(of, a=replace(of.a, observed=replace(of.a.observed, engines={})))

    assert comparing_view.differing(replace(of, changes=(Change("kv", "", "fp8"),))) == [
        "kv `fp8` added"
    ]
    assert comparing_view.differing(of) == ["the same, as far as they are known"]
    assert comparing_view.differing(blind) == ["not known of both"]
    assert "no engine" in comparing_view.who(blind.a)


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (Verdict.PASS, Verdict.FAIL, "PASS → FAIL"),
        (Verdict.PASS, Verdict.PASS, "PASS"),
        (None, Verdict.FAIL, "– → FAIL"),
        (Verdict.FAIL, None, "FAIL → –"),
        (None, None, ""),
    ],
)
def test_verdicts(a: Verdict | None, b: Verdict | None, said: str) -> None:
    """Equal ones are one word; nothing on both sides is nothing."""
    assert comparing_view.verdicts(a, b) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.1, 0.3, "worse: 0.2000 (0.1000 to 0.3000)"),
        (-0.3, -0.1, "better: -0.2000 (-0.3000 to -0.1000)"),
        (-0.1, 0.3, "same within noise: 0.1000 (-0.1000 to 0.3000)"),
    ],
)
def test_by__direction_first(low: float, high: float, said: str) -> None:
    """The word, then B less A with its interval."""
    figure = Contrast("kl", "KL", "nats", 0.1, 0.3, estimate(low, high))

    assert comparing_view.by(figure) == said


def test_by__what_is_not_known() -> None:
    """Without an interval there is a difference and no direction; without a number nothing."""
    bare = Estimate("kl", 0.2, None, 0.95, "m", 9, "nats")
    nothing = replace(bare, value=None)

    assert comparing_view.by(Contrast("kl", "KL", "nats", 0.1, 0.3, bare)) == "difference: 0.2000"
    assert comparing_view.by(Contrast("kl", "KL", "nats", 0.1, 0.3, nothing)) == ""
    assert comparing_view.by(Contrast("kl", "KL", "nats", 0.1, 0.3)) == ""
    assert comparing_view.values(Contrast("kl", "KL", "nats", None, None)) == ""
    assert comparing_view.values(Contrast("kl", "KL", "nats", None, 0.3)) == "– → 0.3000"


def test_counted__gravest_first() -> None:
    """How many of which kind."""
    kinds = ("tie", "real", "tie", "unknown")
    found = [Divergence("p", "", 0, k, None, "", "", "", "", "") for k in kinds]

    assert comparing_view.counted(found) == "1 real, 1 unknown, 2 ties"


def test_json__all_of_it() -> None:
    """One object of plain values, which says that it is no verdict."""
    body = json.loads(json.dumps(comparing_view.as_json(whole()), allow_nan=False))
    score = next(s for s in body["stages"] if s["stage"] == "score")
    kl = next(f for f in score["figures"] if f["metric"] == "reference.kl")

    assert (body["exit_code"], body["is_a_verdict"], body["same_question"]) == (0, False, True)
    assert (body["a"]["folder"], body["b"]["verdict"]) == ("good", "FAIL")
    assert (kl["paired"], kl["direction"], kl["n"], kl["verdict_b"]) == (True, "worse", 24, "FAIL")
    assert kl["interval"][0] <= kl["worse_by"] <= kl["interval"][1]
    assert len(score["movers"]) == 20
    assert set(score["movers"][0]) == {
        *("id", "what", "a", "b", "token", "before", "a_has", "b_has")
    }


def test_json__hostile() -> None:
    """Numbers that are none are null."""
    of = whole()
    stage = of.stages[1]
    nan = Contrast("m", "t", "nats", float("nan"), float("inf"), estimate(0.1, float("inf")))
    broken = replace(stage, lines=(replace(stage.lines[0], contrast=nan),))
    body = comparing_view.as_json(replace(of, stages=(broken,)))

    assert "NaN" not in json.dumps(body, allow_nan=False)
