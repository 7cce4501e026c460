"""Unit tests of how a report stands: green for PASS and for what was accepted, nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from report_factory import ACCEPTED, accepted, passed, report, stage

from iqaction.report import Difference, Report
from iqaction.surfaces import _standing
from iqaction.verdict import Verdict

FAILS = "FAIL|a|A||||why"


def said(of: Report) -> tuple[bool, str, str]:
    return _standing.passes(of), _standing.word(of), _standing.output(of)


def test_standing__accepted() -> None:
    """What is accepted is green and keeps its verdict, in words and beside the word ACCEPTED."""
    unproven = replace(
        passed(),
        verdict=Verdict.UNPROVEN,
        differences=(Difference("plan", "plan.yml", "", ACCEPTED),),
    )

    assert said(accepted()) == (True, "FAIL, ACCEPTED", "ACCEPTED")
    assert said(unproven) == (True, "UNPROVEN, ACCEPTED", "ACCEPTED")
    assert said(passed()) == (True, "PASS", "PASS")


def test_standing__accepted_in_part() -> None:
    """One accepted check beside one that is not leaves the report as it was."""
    part = replace(accepted(), gate=Verdict.UNPROVEN)

    assert said(part) == (False, "FAIL", "FAIL")


@pytest.mark.parametrize(
    ("verdict", "gate"),
    [(v, g) for v, g in itertools.product(Verdict, Verdict) if v is not g],
)
def test_standing__what_cannot_be_is_not_green(verdict: Verdict, gate: Verdict) -> None:
    """Where gate and verdict differ and nothing is accepted, the job is red and says no PASS."""
    passes, word, output = said(report("x", stage("s", FAILS), verdict=verdict, gate=gate))

    assert not passes
    assert word == output == ("UNPROVEN" if verdict is Verdict.PASS else verdict.value)


@pytest.mark.parametrize("gate", Verdict)
def test_standing__not_run_is_never_accepted(gate: Verdict) -> None:
    """Nothing that did not run is green."""
    of = replace(accepted(), verdict=Verdict.NOT_RUN, gate=gate)

    assert said(of) == (False, "NOT RUN", "NOT RUN")
