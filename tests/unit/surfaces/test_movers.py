"""The prompts that changed most, of all stages."""

from __future__ import annotations

import math
from dataclasses import replace

from report_factory import report, stage, with_history

from iqaction.report import Mover, StageResult
from iqaction.surfaces import _movers


def mover(unit: str, before: float | None = 0.1, after: float | None = 0.2) -> Mover:
    return Mover(unit, "code", "KL", before, after, 3, "x", "a", "b")


def with_movers(name: str, n: int) -> StageResult:
    return stage(name, movers=tuple(mover(f"{name}-{i}") for i in range(n)))


def test_chosen__each_stage_has_its_turn() -> None:
    """A stage with many does not push out the first of another."""
    of = report("x", with_movers("score", 9), with_movers("gsm8k", 2))

    assert [m.unit for _, m in _movers.chosen(of, 5)] == [
        *("score-0", "score-1", "score-2", "gsm8k-0", "gsm8k-1"),
    ]
    assert _movers.chosen(of, 0) == []
    assert _movers.total(of) == 11


def test_chosen__equal_movers_of_two_stages() -> None:
    """Which ones are shown is told by place, not by equality."""
    twice = (mover("same"), mover("same"))
    of = report("x", stage("score", movers=twice), stage("niah", movers=twice))

    assert [s.stage for s, _ in _movers.chosen(of, 3)] == ["score", "score", "niah"]


def test_said__figures_where_there_are_two() -> None:
    """A figure before and after, or the words alone."""
    assert _movers.said(mover("p")) == "KL 0.1000 → 0.2000"
    assert _movers.said(mover("p", None)) == "KL"
    assert _movers.said(mover("p", math.nan)) == "KL"


def test_place__a_dash_for_whole_answers() -> None:
    """Tokens are counted from 0."""
    assert _movers.place(mover("p")) == "3"
    assert _movers.place(replace(mover("p"), position=-1)) == "–"


def test_where__only_with_several_stages() -> None:
    """One stage needs no name; a leg has one."""
    of = with_history()
    alone = report("x", of.stages[0])
    leg = replace(of.stages[0], leg="h200")

    assert _movers.where(of, of.stages[1]) == "gsm8k"
    assert _movers.where(alone, of.stages[0]) == ""
    assert _movers.where(report("x", leg), leg) == "h200: score"
