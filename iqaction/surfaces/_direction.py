"""Which way a figure went, in words. Knows estimates; no metric, no verdict and no markup.

A direction is no verdict: a figure may be worse, surely, and within its margin.
"""

from __future__ import annotations

from iqaction.report import Estimate
from iqaction.surfaces import _figures

WORSE, BETTER, SAME, UNKNOWN = "worse", "better", "same within noise", "not known"
_ABSOLUTE = ("temperature",)  # units of an arm's own value, which is no difference


def of(estimate: Estimate | None) -> str:
    """ "worse" where the whole interval lies above 0, "better" where it lies below, "same within
    noise" where it holds 0; "not known" without an interval.

    An open side reaches to infinity: "at most 4.6 %" tells neither a change nor its absence.
    """
    if estimate is None or estimate.interval is None or estimate.unit in _ABSOLUTE:
        return UNKNOWN
    low, high = (x if _figures.known(x) else None for x in estimate.interval)
    if low is not None and high is not None and low > high:
        return UNKNOWN
    if low is not None and low > 0:
        return WORSE
    if high is not None and high < 0:
        return BETTER
    return SAME if low is not None and high is not None else UNKNOWN


def after(figure: str, estimate: Estimate | None) -> str:
    """A cell of figures with its direction behind it, where that is known."""
    word = of(estimate)
    return figure if word == UNKNOWN else f"{figure}, {word}"
