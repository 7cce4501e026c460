"""What earlier runs of the base branch gave, beside this one."""

from __future__ import annotations

import math
from dataclasses import replace

from report_factory import matrix, passed, report, stage, with_history

from iqaction.report import Past
from iqaction.surfaces import _history
from iqaction.verdict import Verdict


def past(*values: float, key: str = "score:m0") -> tuple[Past, ...]:
    return tuple(Past("a" * 40, "2026-11-26T06:00:00Z", Verdict.PASS, "", {key: v}) for v in values)


def checks(*values: float) -> str:
    return "\n".join(
        f"PASS | m{i} | metric {i} | 0 -> {v} nats | {v} [0, 1] | <= .02 | why"
        for i, v in enumerate(values)
    )


def test_standing__before_and_after() -> None:
    """The last run's verdict, day and commit, then this one's."""
    assert _history.standing(with_history()) == (
        "base branch: PASS (26 Nov, `3333333`) → this change: UNPROVEN"
    )


def test_standing__on_the_branch_itself() -> None:
    """A push is a run, not a change."""
    of = with_history()

    assert _history.standing(replace(of, run=replace(of.run, event="push"))).endswith(
        "→ this run: UNPROVEN"
    )


def test_standing__what_is_not_known_is_not_said() -> None:
    """No history, nothing; a run without day and commit, its verdict alone."""
    nameless = Past("not a sha", "soon", Verdict.FAIL)

    assert _history.standing(passed()) == ""
    assert _history.standing(replace(passed(), history=(nameless,))) == (
        "base branch: FAIL → this change: PASS"
    )


def test_row__largest_changes_first() -> None:
    """Four checks at most, by their change in margins since the last run that has the figure."""
    now = stage("score", checks(0.001, 0.002, 0.019, 0.004, 0.005, 0.006))
    figures = {f"score:m{i}": 0.001 for i in range(6)}
    of = report("x", now, history=(Past("", "", Verdict.PASS, "", figures),))

    assert [t for t, _ in _history.row(of)] == ["metric 2", "metric 5", "metric 4", "metric 3"]
    assert _history.row(of)[0][1] == "0.0010 → 0.0190"


def test_row__last_five() -> None:
    """Of eight runs the last five, and a dash where a run has no such figure."""
    of = report("x", stage("score", checks(0.009)), history=past(*(i / 1000 for i in range(8))))
    gap = replace(of.history[5], figures={})
    of = replace(of, history=(*of.history[:5], gap, *of.history[6:]))

    assert _history.row(of) == [("metric 0", "0.0030 0.0040 – 0.0060 0.0070 → 0.0090")]


def test_courses__what_is_comparable() -> None:
    """No figure of a leg, of a check that carries no verdict, or that is no number."""
    broken = report("x", stage("score", checks(0.01)), history=past(math.nan, math.inf))
    shown = stage("score", also=checks(0.01))

    assert _history.courses(broken) == []
    assert _history.courses(report("x", shown, history=past(0.1))) == []
    assert _history.courses(replace(matrix(), history=past(0.1, key="score:reference.kl"))) == []
    assert len(_history.courses(report("x", stage("score", checks(0.01)), history=past(0.1)))) == 1


def test_courses__eight_runs_at_most() -> None:
    """Of more, the last."""
    of = report("x", stage("score", checks(0.01)), history=past(*(float(i) for i in range(50))))

    assert _history.courses(of)[0].past == tuple(float(i) for i in range(42, 50))


def test_change__without_a_margin() -> None:
    """Measured by the figure itself; equal figures and zeros are no change."""
    course = _history.Course("t", "nats", (0.1, None), 0.2, None, Verdict.PASS)

    assert course.change == 0.5
    assert replace(course, now=0.1).change == 0.0
    assert replace(course, past=(0.0,), now=0.0).change == 0.0
    assert replace(course, past=(None,)).change == 0.0
