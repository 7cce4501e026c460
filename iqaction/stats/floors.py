"""What can a noise floor decide? The smallest margin at which an unchanged engine would PASS.

Knows the spread of units and of launches. Knows no metric, prompt or verdict.

The rule of :func:`iqaction.stats.noninferiority.judge_means` is inverted for a candidate that is
one more launch of the same engine. Given the L launches of the floor, the mean of a new one lies
around theirs as Student's t with L-1 degrees of freedom, scaled by tau sqrt(1 + 1/L): the
prediction interval for one further observation (Hahn and Meeker 1991, ch. 4.7).
"""

from __future__ import annotations

import math

_SE_SHARE = 0.01  # of the margin: the smallest standard error that the rule believes


def smallest_margin(
    sd: float, n: int, tau: float, launches: int, *, power: float = 0.9, alpha: float = 0.025
) -> float | None:
    """The margin M at which one more launch of the same engine PASSes with probability ``power``.

    ``M = hypot(t(1-alpha, n-1) max(se, M/100), t(1-alpha, L-1) r) + t(power, L-1) max(r, se)``
    with ``se = sd / sqrt(n)`` and ``r = tau sqrt(1 + 1/L)``: the first term is how far the bound
    lies above the mean, the second how far a healthy mean may lie above the floor. The resampled
    bound is taken for Student's; it is wider where the differences are skewed.

    Parameters
    ----------
    sd
        Over units, of the difference between a launch and the floor, in the metric's unit.
    n
        Units.
    tau
        SD of the launches' means, in the same unit.
    launches
        L, at least 2.

    Returns
    -------
    float or None
        In the metric's unit; 0 where nothing differs at all; None where it is not known: fewer
        than two units or launches, or a spread that is no number.
    """
    if n < 2 or launches < 2 or not (_is_spread(sd) and _is_spread(tau)):
        return None
    from scipy.special import stdtrit  # noqa: PLC0415 - 0.4 s to import

    se, reach = sd / math.sqrt(n), tau * math.sqrt(1 + 1 / launches)
    student = float(stdtrit(n - 1, 1 - alpha))
    noise = float(stdtrit(launches - 1, 1 - alpha)) * reach
    away = float(stdtrit(launches - 1, power)) * max(reach, se)
    margin = math.hypot(student * se, noise) + away
    if _SE_SHARE * margin <= se:
        return margin
    # Here M/100 is the standard error: (M - away)^2 = (q M)^2 + noise^2, the larger root.
    q = student * _SE_SHARE  # at most .13, with two units
    rest = away * away - (1 - q * q) * (away * away - noise * noise)
    return (away + math.sqrt(rest)) / (1 - q * q)


def _is_spread(value: float) -> bool:
    return math.isfinite(value) and value >= 0
