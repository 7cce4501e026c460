"""Bounds of means by resampling: ours against ``scipy.stats.bootstrap`` (BCa).

Run as ``python benchmarks/bootstrap.py``. Both bound the mean of 24 cells (metrics by bucket) over
the same units with the same number of resamples. Goals: at least 10 times SciPy at 64 units, 40
times at 4,000, one SciPy call a cell. SciPy can also take all cells in one call and then shares
the resamples as we do; that is shown beside it and is faster.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: CPU time of one thread each

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no install

from iqaction.stats.noninferiority import judge_means

CELLS = 24
MARGIN = 0.02
GOALS = {64: 10, 4000: 40}
_ELEMENTS = 8_000_000  # of one batch of SciPy's resamples: 64 MB


def ours(delta: np.ndarray, resamples: int) -> np.ndarray:
    judged = judge_means(
        delta,
        [MARGIN] * CELLS,
        launch_means=None,
        resamples=resamples,
        rng=np.random.default_rng(1),
    )
    return np.array([j.upper for j in judged])


def scipy_by_cell(delta: np.ndarray, resamples: int) -> np.ndarray:
    return np.array([bca(column, resamples) for column in delta.T])


def scipy_at_once(delta: np.ndarray, resamples: int) -> np.ndarray:
    return bca(np.ascontiguousarray(delta.T), resamples)


def bca(values: np.ndarray, resamples: int) -> np.ndarray:
    result = stats.bootstrap(
        (values,),
        np.mean,
        axis=-1,
        vectorized=True,
        n_resamples=resamples,
        batch=min(resamples, max(1, _ELEMENTS // values.size)),
        confidence_level=0.95,
        method="BCa",
        rng=np.random.default_rng(1),
    )
    return result.confidence_interval.high


def seconds(work: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the fastest of ``repeats`` runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, nargs="+", default=[64, 4000])
    parser.add_argument("--resamples", type=int, default=2000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{CELLS} cells, {options.resamples} resamples; CPU ms of the fastest run, one thread")
    print("  units     ours   scipy, a call a cell (ratio; goal)   scipy, one call (ratio)  apart")
    for n in options.units:
        delta = rng.gamma(0.5, MARGIN, (n, CELLS)) - MARGIN / 4
        apart = ours(delta, options.resamples) - scipy_by_cell(delta, options.resamples)
        repeats = 9 if n < 1000 else 1
        fast, cells, once = (
            1e3 * seconds(lambda d=delta, w=work: w(d, options.resamples), count)
            for work, count in ((ours, 9), (scipy_by_cell, repeats), (scipy_at_once, repeats))
        )
        print(
            f"{n:>7} {fast:>8.1f} {cells:>12.1f} ({cells / fast:>5.1f}; >= {GOALS.get(n, 0)})"
            f" {once:>20.1f} ({once / fast:>5.1f})"
            f"  {100 * np.abs(apart).max() / MARGIN:>10.1f} % of the margin"
        )


if __name__ == "__main__":
    main()
