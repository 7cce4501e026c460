"""What the checks of a stage conclude together. Knows no metric. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iqaction.report import Check
from iqaction.verdict import Verdict, combine


def verdict_of(checks: Iterable[Check]) -> Verdict:
    """The verdict of those checks that carry one; UNPROVEN where none does."""
    return combine(c.verdict for c in checks if c.judged)


def lacks_only_prompts(checks: Iterable[Check]) -> bool:
    """True where the checks are UNPROVEN together and more prompts may decide each open one."""
    judged = [c for c in checks if c.judged]
    open_ = [c for c in judged if c.verdict is Verdict.UNPROVEN]
    if not open_ or verdict_of(judged) is not Verdict.UNPROVEN:
        return False
    return all(c.more_would_help for c in open_)


def unproven(check: Check, reason: str) -> Check:
    """The check with its verdict taken away, FAIL too, because what it rests on is not sound."""
    if not check.judged:
        return check
    return replace(
        check,
        verdict=Verdict.UNPROVEN,
        reason=f"{reason}; {check.reason}",
        power="",
        more_would_help=False,
    )
