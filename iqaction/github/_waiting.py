"""How long to wait before a request goes out again. Pure; knows GitHub's rules, no clock.

On a limit GitHub wants, in this order: ``Retry-After``; the reset of the quota where nothing of it
remains; else a minute, and longer each time. Times are counted from the answer's own ``Date``, so
that a runner whose clock is wrong waits as long as any other.
"""

from __future__ import annotations

import email.utils
from collections.abc import Mapping
from dataclasses import dataclass, field

TRIES = 6  # waits of 1, 2, 4, 8 and 16 s between them: a restart of a server, no outage
_FAILURES = (500, 502, 503, 504)
_MINUTE = 60.0


@dataclass(frozen=True)
class Outcome:
    """What came of sending a request once. ``status`` is 0 where no whole answer came back."""

    status: int
    said: str
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case


def is_limit(outcome: Outcome) -> bool:
    """True where GitHub asks for patience, which a plain 403 does not."""
    if outcome.status == 429:
        return True
    if outcome.status != 403:
        return False
    said = outcome.said.lower()
    told = "retry-after" in outcome.headers or "rate limit" in said or "abuse detection" in said
    return told or outcome.headers.get("x-ratelimit-remaining") == "0"


def is_failure(outcome: Outcome) -> bool:
    """True where nobody knows whether the request was obeyed."""
    return outcome.status == 0 or outcome.status in _FAILURES


def seconds_before_retry(outcome: Outcome, tried: int) -> float | None:
    """Seconds, at least 1; None where another try is of no use. ``tried`` counts from 1."""
    if tried >= TRIES:
        return None
    grown = 2.0 ** (tried - 1)
    if is_limit(outcome):
        return max(1.0, _asked(outcome.headers) or _reset(outcome.headers) or _MINUTE * grown)
    if is_failure(outcome):
        return max(grown, _asked(outcome.headers) or 0.0)
    return None


def _asked(headers: Mapping[str, str]) -> float | None:
    """What Retry-After says: seconds, or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return max(1.0, float(text[:9]))
    until, now = _epoch(text), _epoch(headers.get("date", ""))
    if until is None or now is None:
        return _MINUTE if text else None
    return max(1.0, until - now)


def _reset(headers: Mapping[str, str]) -> float | None:
    text, now = headers.get("x-ratelimit-reset", ""), _epoch(headers.get("date", ""))
    spent = headers.get("x-ratelimit-remaining") == "0"
    if not spent or now is None or not (text.isascii() and text.isdigit()):
        return None
    return max(1.0, float(text[:12]) - now + 1.0)


def _epoch(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
