"""When may a growing set of pairs be judged, and how far must it go each time?

Knows counts of pairs and a level. Knows no estimate, margin or verdict.

Judging at a plain 1.96 at each of six looks passes a candidate at the margin 7 % of the time, and
every 30 pairs 12 %. Here the level is spent instead: alpha-spending of Lan and DeMets (Biometrika
1983), with their function of O'Brien and Fleming's type. Next to nothing is spent on the first
looks, so the last one costs little. A boundary depends on the looks up to its own only, so a run
may be cut short anywhere, for a reason that is not the data, and keep its level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_ALPHA = 0.025  # one-sided
_REACH = 8.5  # SDs to either side of 0 beyond which no path is followed: less than 1e-16 lies there
# A look that may spend less, or that comes sooner after the one before it, decides nothing: the
# quadrature would drown in rounding, or in nodes.
_LEAST_SPENT = 1e-15
_LEAST_STEP = 1e-4
_ROWS = 256  # of a matrix of nodes by nodes


@dataclass(frozen=True)
class Look:
    """A point at which the pairs so far are judged.

    Attributes
    ----------
    n, of
        How many pairs it covers, the plan's first ``n``, and how many the plan has.
    alpha
        The one-sided level that is spent when this look is over.
    z
        The boundary in standard errors; infinite where the look can decide nothing.
    """

    n: int
    of: int
    alpha: float
    z: float


def spent(fraction: float, alpha: float = _ALPHA) -> float:
    """How much of a one-sided ``alpha`` is spent when that fraction of the plan is in.

    ``2 - 2 Phi(z(1 - alpha/2) / sqrt(fraction))``, so ``2 - 2 Phi(2.2414 / sqrt t)`` at .025;
    nothing at 0, all of it from 1 on.
    """
    if fraction >= 1:
        return alpha
    if not fraction > 0:
        return 0.0
    # erfc, not 1 - erf: a first look of six spends 4e-8.
    return math.erfc(NormalDist().inv_cdf(1 - alpha / 2) / math.sqrt(2 * fraction))


@lru_cache(maxsize=256)
def boundaries(fractions: tuple[float, ...], alpha: float = _ALPHA) -> tuple[float, ...]:
    """The boundary in standard errors at each look, one-sided, without a boundary for futility.

    The score is a Brownian path seen at the fractions. Its density among the paths that have
    crossed nothing yet is carried from look to look by quadrature (Armitage, McPherson and Rowe
    1969), and each boundary is put where as much crosses as the look may spend.

    Parameters
    ----------
    fractions
        Of the plan, one a look, increasing, above 0 and at most 1. Any spacing.
    alpha
        One-sided, over all looks up to the whole plan.

    Raises
    ------
    ValueError
        Where the fractions do not increase in (0, 1], or alpha is not between 0 and 0.5.
    """
    # Input validation
    if not all(a < b for a, b in zip((0.0, *fractions), (*fractions, math.inf), strict=True)):
        raise ValueError(f"looks at {fractions} do not increase from 0")
    if fractions and not fractions[-1] <= 1:
        raise ValueError(f"a look at {fractions[-1]} of the plan is beyond its end")
    if not 0 < alpha < 0.5:
        raise ValueError(f"`alpha` is {alpha}, not between 0 and 0.5")
    nodes, mass, before = np.zeros(1), np.ones(1), 0.0
    found: list[float] = []
    for now, after in zip(fractions, (*fractions, None)[1:], strict=True):
        share = spent(now, alpha) - spent(before, alpha)
        if not (share > _LEAST_SPENT and now - before > _LEAST_STEP):
            found.append(math.inf)  # what it leaves is the next look's
            continue
        step, least = math.sqrt(now - before), -_REACH * math.sqrt(now)
        edge = _crossing(nodes, mass, step, least, share)
        found.append(edge / math.sqrt(now))
        if after is not None:
            # Both what is carried here and what it is next spread with have to be resolved.
            width = min(step, math.sqrt(max(after - now, _LEAST_STEP)))
            points, weights = _quadrature(least, edge, width)
            mass = weights * _spread(nodes, mass, step, points)
            nodes, before = points, now
    return tuple(found)


def looks_at(counts: Sequence[int], of: int) -> tuple[Look, ...]:
    """The looks of a plan of ``of`` pairs at those counts.

    Raises
    ------
    ValueError
        Where the counts do not increase from above 0 to at most ``of``.
    """
    # Input validation
    if counts and not 0 < counts[-1] <= of:
        raise ValueError(f"a look at {counts[-1]} of {of} pairs")
    fractions = tuple(n / of for n in counts)
    rows = zip(counts, fractions, boundaries(fractions), strict=True)
    return tuple(Look(n, of, spent(fraction), z) for n, fraction, z in rows)


def equal_looks(of: int, count: int = 6) -> tuple[Look, ...]:
    """``count`` looks, as equally spaced as whole pairs are; fewer where the plan has fewer.

    No pairs have no look.
    """
    # Input validation
    if of < 0 or count < 1:
        raise ValueError(f"{count} looks at {of} pairs")
    return looks_at(sorted({-(-of * k // count) for k in range(1, count + 1)} - {0}), of)


def looks_until(planned: Sequence[Look], n: int) -> tuple[Look, ...]:
    """The planned looks that ``n`` pairs reach, and one at ``n`` itself where none was planned.

    For a budget that ran out: what was not spent stays unspent. ``n`` must not be chosen by
    what the pairs say. No pairs have no look, and the last planned look is never passed.
    """
    counts = [look.n for look in planned]
    reached = [count for count in counts if count <= n]
    if len(reached) < len(counts) and n > 0 and n not in counts:
        reached.append(n)
    return looks_at(reached, planned[0].of if planned else 0)


def _crossing(
    nodes: NDArray[np.float64], mass: NDArray[np.float64], step: float, least: float, share: float
) -> float:
    """Above which point ``share`` of all paths lies, one ``step`` (an SD) after the nodes."""
    low, high = least, -least
    for _ in range(60):
        middle = (low + high) / 2
        # `math`, not scipy: that alone would take .4 s to import.
        away = ((middle - nodes) / (step * math.sqrt(2))).tolist()
        beyond = np.fromiter(map(math.erfc, away), np.float64, len(away)) / 2
        if float(beyond @ mass) > share:
            low = middle
        else:
            high = middle
    return high


def _spread(
    nodes: NDArray[np.float64],
    mass: NDArray[np.float64],
    step: float,
    points: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The paths' density at the points, one ``step`` (an SD) after they were at the nodes."""
    density = np.empty_like(points)
    for start in range(0, len(points), _ROWS):
        away = (points[start : start + _ROWS, None] - nodes) / step
        density[start : start + _ROWS] = np.exp(-away * away / 2) @ mass
    return density / (step * math.sqrt(2 * math.pi))


def _quadrature(
    low: float, high: float, width: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gauss-Legendre nodes and weights from low to high, eight to each panel of that width."""
    panels = math.ceil((high - low) / width)
    points, weights = np.polynomial.legendre.leggauss(8)
    half = (high - low) / panels / 2
    centres = low + half * (2 * np.arange(panels) + 1)
    return (centres[:, None] + half * points).ravel(), np.tile(half * weights, panels)
