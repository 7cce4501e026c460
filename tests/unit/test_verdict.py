"""The algebra of verdicts: exhaustively, because everything rests on it."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import pytest

from iqaction.verdict import EXIT_CODE, Verdict, cap, combine

PASS, FAIL, UNPROVEN, NOT_RUN = Verdict.PASS, Verdict.FAIL, Verdict.UNPROVEN, Verdict.NOT_RUN
UP_TO_FOUR = [c for n in range(5) for c in combinations_with_replacement(Verdict, n)]


def test_combine__nothing() -> None:
    """No verdict at all proves nothing."""
    assert combine([]) is UNPROVEN


@pytest.mark.parametrize("verdicts", UP_TO_FOUR)
def test_combine__all_combinations(verdicts: tuple[Verdict, ...]) -> None:
    """Any FAIL is FAIL; PASS and NOT RUN only where all are, and there is one; else UNPROVEN."""
    if FAIL in verdicts:
        expected = FAIL
    elif verdicts and all(v is PASS for v in verdicts):
        expected = PASS
    elif verdicts and all(v is NOT_RUN for v in verdicts):
        expected = NOT_RUN
    else:
        expected = UNPROVEN

    assert combine(verdicts) is expected
    assert combine(reversed(verdicts)) is expected


@pytest.mark.parametrize(("verdicts", "worse"), [*product(UP_TO_FOUR, [FAIL, UNPROVEN, NOT_RUN])])
def test_combine__monotonic(verdicts: tuple[Verdict, ...], worse: Verdict) -> None:
    """Replacing any one verdict by a non-PASS never gives PASS."""
    for i in range(len(verdicts)):
        assert combine((*verdicts[:i], worse, *verdicts[i + 1 :])) is not PASS


@pytest.mark.parametrize(("verdict", "at"), [*product(Verdict, [UNPROVEN, FAIL, NOT_RUN])])
def test_cap(verdict: Verdict, at: Verdict) -> None:
    """A cap takes a PASS away and changes nothing else."""
    assert cap(verdict, at) is (at if verdict is PASS else verdict)


def test_exit_code() -> None:
    """Every verdict has its own exit code, and only PASS is 0."""
    assert {v: EXIT_CODE[v] for v in Verdict} == {PASS: 0, FAIL: 1, UNPROVEN: 2, NOT_RUN: 3}
