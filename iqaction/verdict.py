"""What the action may conclude, and how conclusions combine. Knows no stage and no number.

The rules are monotonic: losing an observation can turn PASS into UNPROVEN, never FAIL or
UNPROVEN into PASS. An absent check is not a passed check.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Verdict(str, enum.Enum):
    """One of the four words the tool ever says."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    UNPROVEN = "UNPROVEN"
    NOT_RUN = "NOT RUN"


EXIT_CODE = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.UNPROVEN: 2, Verdict.NOT_RUN: 3}


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict for many.

    Any FAIL is FAIL; all PASS (at least one) is PASS; all NOT RUN (at least one) is NOT RUN;
    anything else, no verdict at all included, is UNPROVEN.
    """
    seen = set(verdicts)
    if Verdict.FAIL in seen:
        return Verdict.FAIL
    if seen == {Verdict.PASS}:
        return Verdict.PASS
    if seen == {Verdict.NOT_RUN}:
        return Verdict.NOT_RUN
    return Verdict.UNPROVEN


def cap(verdict: Verdict, at: Verdict) -> Verdict:
    """``verdict``, or ``at`` where ``verdict`` is PASS: a problem may take a PASS away, only."""
    return at if verdict is Verdict.PASS else verdict
