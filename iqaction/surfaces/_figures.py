"""Numbers as a maintainer reads them. Knows units and estimates; no markup, no layout.

"Not computed" is a dash, never 0; a NaN or an infinity in a report is read as not computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iqaction.report import Check, Estimate, Table

DASH = "–"
_COUNTED = ("count", "prompts", "tokens")


def known(value: float | None) -> bool:
    """True where ``value`` is a finite number."""
    return value is not None and math.isfinite(value)


def value(number: float | None, unit: str) -> str:
    """A figure with its unit where the unit is a sign: a share of .0004 is "0.04 %"."""
    if number is None or not math.isfinite(number):
        return DASH
    if unit == "share":
        return f"{_percent(number)} %"
    return _bare(number, unit)


def arm(number: float | None, check: Check) -> str:
    """What one arm measured: a share reads "6 of 64" where the check itself speaks of counts."""
    estimate = check.estimate
    if estimate is None or number is None or not math.isfinite(number):
        return DASH if number is None or not math.isfinite(number) else _general(number)
    if estimate.unit == "share" and _speaks_of_counts(check, estimate):
        count = number * estimate.n_units
        if abs(count - round(count)) < 1e-6:
            return f"{round(count):,} of {estimate.n_units:,}"
    if estimate.unit == "prompts" and estimate.n_units:
        return f"{_bare(number, 'prompts')} of {estimate.n_units:,}"
    return value(number, estimate.unit)


def _speaks_of_counts(check: Check, estimate: Estimate) -> bool:
    shares = [x for x in (check.candidate, check.baseline, estimate.value) if x is not None]
    said = f"{check.title} {check.reason}"
    return any(
        f"{round(x * estimate.n_units)} of {estimate.n_units}" in said
        for x in shares
        if math.isfinite(x)
    )


def worse_by(estimate: Estimate, level: float | None = None) -> str:
    """Estimate and interval in one cell, as "0.0021 (0.0012 to 0.0030)" or "up to 17.6 %".

    ``level`` is the one the table's head already names; another level is written out.
    """
    low, high = estimate.interval or (None, None)
    unit = estimate.unit
    said = "" if level is not None and estimate.level == level else f" at {_level(estimate.level)}"
    if not known(estimate.value) and not known(low) and not known(high):
        return DASH
    if known(high) and not known(low):
        text = f"up to {value(high, unit)}{said}"
        return text if _says_nothing(estimate) else f"{value(estimate.value, unit)}, {text}"
    if known(low) and not known(high):
        text = f"at least {value(low, unit)}{said}"
        return text if _says_nothing(estimate) else f"{value(estimate.value, unit)}, {text}"
    if not known(low):
        return value(estimate.value, unit)
    between = f"({_inner(low, unit)} to {_inner(high, unit)})"
    points = " points" if unit == "share" else ""
    return f"{_inner(estimate.value, unit)} {between}{points}{said}"


def _says_nothing(estimate: Estimate) -> bool:
    """A share with a one-sided bound: the arms' own columns already show it."""
    return estimate.unit == "share" or not known(estimate.value)


def levels(estimates: Sequence[Estimate]) -> float | None:
    """The one confidence level of all these intervals, None where they differ or none has one."""
    found = {e.level for e in estimates if e.interval is not None}
    return found.pop() if len(found) == 1 else None


def worse_by_head(level: float | None) -> str:
    """The column's head, naming the level that all its intervals share."""
    return "worse by (CI)" if level is None else f"worse by ({_level(level)})"


def _level(level: float) -> str:
    return f"{level * 100:.4g} % CI"


def margin(limit: float | None, estimate: Estimate | None) -> str:
    """A limit, without trailing zeros: "0.02", "0.5 %"."""
    if limit is None or not math.isfinite(limit):
        return ""
    if estimate is not None and estimate.unit == "share":
        return f"{limit * 100:.4g} %"
    return f"{limit:.4g}"


def number(x: float) -> str:
    """A figure of unknown unit, four decimals at most."""
    return _general(x) if math.isfinite(x) else DASH


def column(cells: Sequence[str | float | None]) -> list[str]:
    """The numbers of one table column in one format; None is a dash, text stays text."""
    numbers = [c for c in cells if isinstance(c, (int, float)) and math.isfinite(c)]
    whole = all(float(x).is_integer() for x in numbers)
    places = 0 if whole else 4 if max((abs(x) for x in numbers), default=0) < 100 else 1
    out = []
    for cell in cells:
        if isinstance(cell, str):
            out.append(cell)
        elif cell is None or not math.isfinite(cell):
            out.append(DASH)
        else:
            out.append(_fixed(cell, places))
    return out


def grid(table: Table, most: int) -> tuple[list[tuple[str, ...]], str]:
    """At most ``most`` rows as text, each as wide as the head, and l or r for each column."""
    width = len(table.columns)
    kept = [(*row[:width], *([None] * (width - len(row)))) for row in table.rows[:most]]
    by_column = list(zip(*kept, strict=True))
    aligns = ["l" if any(isinstance(c, str) for c in cells) else "r" for cells in by_column]
    rows = list(zip(*(column(cells) for cells in by_column), strict=True))
    return rows, "".join(aligns) or "l" * width


def _inner(x: float | None, unit: str) -> str:
    if x is None or not math.isfinite(x):
        return DASH
    return _percent(x) if unit == "share" else _bare(x, unit)


def _percent(share: float) -> str:
    percent = share * 100
    return _fixed(percent, 2 if abs(percent) < 9.995 else 1)


def _bare(x: float, unit: str) -> str:
    if unit in _COUNTED:
        return _fixed(x, 0 if float(x).is_integer() else 1)
    if unit == "perplexity":
        return _fixed(x, 3)
    return _fixed(x, 4 if abs(x) < 100 else 1)


def _general(x: float) -> str:
    return _fixed(x, 0 if float(x).is_integer() else 4 if abs(x) < 100 else 1)


def _fixed(x: float, places: int) -> str:
    """Fixed decimals; a number that would read 0 and is none is shown as below the last one."""
    if abs(x) >= 1e12:
        return f"{x:.3e}"
    smallest = 10.0**-places
    if x and abs(x) < smallest / 2:
        return f"{'<' if x > 0 else '>-'}{smallest:.{places}f}"
    return f"{x + 0.0:,.{places}f}"  # + 0.0: no minus zero
