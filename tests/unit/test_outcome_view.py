"""What `run` and `judge` print: the verdict first, every reason, and the same in JSON."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from report_factory import CASES

from iqaction.outcome_view import as_json, page
from iqaction.report import Report, StageResult
from iqaction.surfaces import _standing
from iqaction.terminal import width
from iqaction.verdict import EXIT_CODE, Verdict


@dataclass(frozen=True)
class Ended:
    """An outcome of a test."""

    report: Report
    folder: Path = Path("evidence/candidate")
    root: str = "ab" * 32
    complete: bool = True
    problem: str = ""


REPORTS = pytest.mark.parametrize("report", [case() for case in CASES.values()], ids=list(CASES))


@REPORTS
def test_page__says_all(report: Report) -> None:
    """Verdict and suite in the first line; then every check, problem, caveat and next step."""
    shown = page(Ended(report), 100)
    words = " ".join(shown.split())

    assert shown.startswith(f"{_standing.word(report)}  inferquality / {report.suite}\n")
    assert report.headline in words
    for stage in report.stages:
        for check in stage.checks:
            if check.judged:
                assert check.title in shown
                if check.verdict is not Verdict.PASS:
                    assert " ".join(check.reason.split()) in words
        for caveat in stage.caveats:
            assert caveat in words
    for sentence in (*report.problems, *report.next_steps):
        assert sentence.rstrip(".") in words
    assert "evidence/candidate/report.html" in shown
    assert "ab" * 32 in shown


@REPORTS
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_page__width(report: Report, columns: int) -> None:
    """Prose keeps within the width; only tables and names may be wider."""
    shown = page(Ended(report), columns)
    prose = [x for x in shown.splitlines() if x.startswith(("  - ", "    "))]

    assert all(width(x) <= columns for x in prose)


def test_page__no_reasons_for_a_pass() -> None:
    """A PASS has nothing to explain."""
    assert "Why it is not a PASS" not in page(Ended(CASES["pass"]()), 100)


def test_page__capture() -> None:
    """A capture has nothing to compare with: what it holds is told, not why it failed to PASS."""
    shown = page(Ended(replace(CASES["unproven"](), baseline_root="")), 100)

    assert "What was captured\n  - reference leg" in shown
    assert "Why it is not a PASS" not in shown


def test_page__incomplete() -> None:
    """What was left unasked is said, with its reason and the way on."""
    ended = Ended(CASES["unproven"](), complete=False, problem="the endpoint stopped answering")
    shown = page(ended, 100)

    assert "Not everything was asked\n  - the endpoint stopped answering" in shown
    assert "the same command continues where it stopped" in shown


def test_page__unsealed() -> None:
    """Without a root no root is shown."""
    assert "\nroot" not in page(Ended(CASES["pass"](), root=""), 100)


def test_page__empty_report() -> None:
    """A report without a stage is still a page."""
    shown = page(Ended(Report(Verdict.UNPROVEN, (), "nothing was judged")), 80)

    assert shown.startswith("UNPROVEN  inferquality / default\nnothing was judged\n")


def test_page__many_sentences() -> None:
    """A long list is cut, and the cut is told."""
    report = replace(CASES["pass"](), caveats=tuple(f"caveat {i}" for i in range(40)))

    assert "see report.html" in page(Ended(report), 80)


def test_page__hostile() -> None:
    """What a server says in a report is shown, not obeyed."""
    text = "\x1b[2J::error::x \u202e ##[group] " + "x" * 70 + " ::error::y"
    report = replace(
        CASES["unproven"](), headline=text, problems=(text,), caveats=(text,), next_steps=(text,)
    )
    shown = page(Ended(report, problem=text), 80)

    bad = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not [c for c in shown if c != "\n" and unicodedata.category(c) in bad]
    assert "##[" not in shown
    assert not [line for line in shown.splitlines() if line.lstrip().startswith("::")]


@REPORTS
def test_as_json(report: Report) -> None:
    """One strict JSON object with verdict, status, places and every check."""
    body = json.loads(json.dumps(as_json(Ended(report)), allow_nan=False))

    assert body["verdict"] == report.verdict.value
    passes = report.gate is Verdict.PASS
    assert body["exit_code"] == (0 if passes else EXIT_CODE[report.verdict])
    assert body["evidence"] == "evidence/candidate"
    assert body["report"] == "evidence/candidate/report.json"
    assert body["root"] == "ab" * 32
    assert [c["metric"] for s in body["stages"] for c in s["checks"]] == [
        c.metric for s in report.stages for c in s.checks
    ]


def test_as_json__not_a_number() -> None:
    """NaN and infinity are null in JSON, never a number."""
    report = CASES["pass"]()
    stage = report.stages[0]
    check = stage.checks[0]
    assert check.estimate is not None
    bad = replace(check, estimate=replace(check.estimate, value=float("nan"), interval=None))
    worse = replace(check, estimate=None, limit=float("inf"))
    changed: StageResult = replace(stage, checks=(bad, worse))
    body = as_json(Ended(replace(report, stages=(changed,))))

    json.dumps(body, allow_nan=False)
    (shown,) = body["stages"]  # type: ignore[misc]
    assert [c["worse_by"] for c in shown["checks"]] == [None, None]  # type: ignore[index,call-overload]
    assert shown["checks"][1]["limit"] is None  # type: ignore[index,call-overload]
