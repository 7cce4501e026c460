"""Shares and differences as they are read. Knows numbers and no stage. Pure."""

from __future__ import annotations

from iqaction.stats.proportions import wilson


def percent(share: float) -> str:
    """A share as "91.2 %"."""
    return f"{100 * share:.1f} %"


def points(share: float) -> str:
    """A difference of shares as "1.3 points"."""
    return f"{100 * share:.3g} points" if abs(share) >= 0.0005 else "0 points"


def share_of(hits: int, n: int) -> str:
    """A share with Wilson's 95 % interval, for display."""
    low, high = wilson(hits, n, 0.95)
    return f"{percent(hits / n)} ({100 * low:.1f} to {100 * high:.1f})" if n else "nothing"
