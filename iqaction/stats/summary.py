"""Figures for display: percentiles and root mean square. Judges nothing.

A value that is not finite was not measured: it is left out, and nothing measured gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def percentiles(
    values: ArrayLike, levels: Sequence[float] = (50, 95, 99, 99.9, 100)
) -> tuple[float, ...]:
    """The percentiles of the finite ``values``, one for each of ``levels`` (0 to 100).

    Linear between order statistics, as in llama.cpp's perplexity tool, so that tables compare.
    No finite value gives NaN at every level.

    Raises
    ------
    ValueError
        Where a level is not within 0 to 100.
    """
    if not all(0 <= level <= 100 for level in levels):
        raise ValueError(f"percentile levels {tuple(levels)} are not all within 0 to 100")
    finite = _finite(values)
    if not finite.size:
        return (math.nan,) * len(levels)
    return tuple(float(x) for x in np.percentile(finite, list(levels)))


def rms(values: ArrayLike) -> float:
    """The root mean square of the finite ``values``; NaN where there are none."""
    finite = _finite(values)
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else math.nan


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    return array[np.isfinite(array)]
