"""How often the rule for means errs, on synthetic prompts whose truth is known.

Run as ``python benchmarks/calibration.py``. For each shape of damage and each number of prompts it
prints how often the rule PASSes and FAILs when the candidate

- is the baseline, started again (A/A): any FAIL is false;
- is worse in one metric by exactly the margin: any PASS is false;
- is worse in one metric by twice the margin: FAIL is the power.

Shapes, per prompt: *diffuse* (lognormal, sigma 0.8: nearly every prompt is a little worse), *heavy*
(lognormal, sigma 1.2: few prompts carry the mean), *rare* (one prompt in twenty carries it all).
Fewer than 59 prompts never PASS; the column "no guard" shows the bound alone, for then the other
columns say nothing of it.

The rule is one function, :data:`RULE`: what it is given is what a stage has.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no install

from iqaction.stats.noninferiority import holm, judge_means

MARGINS = {"kl": 0.02, "decisive": 0.005, "nll": 0.05}
UNITS = (16, 32, 64, 96, 128)
LEAST_TO_PASS, LEAST_TO_FAIL, ALPHA = 59, 16, 0.025
HEALTHY = 0.05  # of the margin: what launches of one engine differ by in a prompt, on average
RARE = 0.05


class Trial(NamedTuple):
    """What was measured: one value a prompt and metric, larger is worse."""

    candidate: np.ndarray  # (n, m)
    floors: np.ndarray  # (L, n, m): the baseline's launches
    margins: tuple[float, ...]
    resamples: int
    seed: int


Rule = Callable[[Trial, int], str]
"""From a trial and the fewest prompts that may PASS to "PASS", "FAIL" or "UNPROVEN"."""


def means_rule(trial: Trial, least_to_pass: int) -> str:
    delta = trial.candidate - trial.floors.mean(axis=0)
    judged = judge_means(
        delta,
        trial.margins,
        launch_means=trial.floors.mean(axis=1),
        alpha=ALPHA,
        resamples=trial.resamples,
        rng=np.random.default_rng(trial.seed),
    )
    n = delta.shape[0]
    if n >= LEAST_TO_FAIL and any(p < ALPHA for p in holm([j.p_worse for j in judged])):
        return "FAIL"
    within = all(j.upper <= limit for j, limit in zip(judged, trial.margins, strict=True))
    return "PASS" if within and n >= least_to_pass else "UNPROVEN"


RULE: Rule = means_rule


def lognormal(sigma: float) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]:
    return lambda rng, shape: np.exp(rng.normal(-sigma * sigma / 2, sigma, shape))


def rare(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.random(shape) < RARE) / RARE


SHAPES = {"diffuse": lognormal(0.8), "heavy": lognormal(1.2), "rare": rare}  # each of mean 1
WORSE = {"A/A": 0.0, "at the margin": 1.0, "twice the margin": 2.0}  # margins, in the first metric


def draw(shape: str, worse: float, n: int, options: argparse.Namespace, seed: int) -> Trial:
    rng = np.random.default_rng((options.seed, seed))
    limits = np.array(list(MARGINS.values()))
    make, m = SHAPES[shape], len(MARGINS)
    arms = HEALTHY * make(rng, (options.launches + 1, n, m))
    arms += options.tau * rng.normal(0, 1, (options.launches + 1, 1, m))
    arms[0, :, 0] += worse * make(rng, (n,))
    arms *= limits
    return Trial(arms[0], arms[1:], tuple(limits.tolist()), options.resamples, seed)


class Rates(NamedTuple):
    """Shares of the trials."""

    passed: float
    failed: float
    unguarded: float  # passed, were any number of prompts enough


def measure(rule: Rule, shape: str, worse: float, n: int, options: argparse.Namespace) -> Rates:
    counts = np.zeros(3)
    for seed in range(options.trials):
        trial = draw(shape, worse, n, options, seed)
        verdict = rule(trial, LEAST_TO_PASS)
        free = verdict if n >= LEAST_TO_PASS else rule(trial, 2)
        counts += (verdict == "PASS", verdict == "FAIL", free == "PASS")
    return Rates(*(counts / options.trials))


def progress(done: int, total: int, spent: float) -> None:
    """A rewritten line at a terminal, a line every nine cells in a log."""
    said = f"{done}/{total} cells, {spent:.0f} s, {spent / done * (total - done):.0f} s left"
    if sys.stderr.isatty():
        print(f"\r{said}   ", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done % 9 == 0:
        print(said, file=sys.stderr, flush=True)


def table(rule: Rule, options: argparse.Namespace) -> dict[tuple[str, str, int], Rates]:
    rates: dict[tuple[str, str, int], Rates] = {}
    cells = [(s, w, n) for s in SHAPES for w in WORSE for n in options.units]
    start = time.monotonic()
    for done, (shape, worse, n) in enumerate(cells, start=1):
        rates[shape, worse, n] = measure(rule, shape, WORSE[worse], n, options)
        progress(done, len(cells), time.monotonic() - start)
    return rates


def show(rates: dict[tuple[str, str, int], Rates], options: argparse.Namespace) -> None:
    print(
        f"{options.trials} trials, {options.resamples} resamples, {options.launches} launches of "
        f"SD {options.tau:g} margins, {len(MARGINS)} metrics, seed {options.seed}"
    )
    print(f"{'':8} {'':4} |{'A/A':^27}|{'at the margin':^27}|{'twice the margin':^27}")
    print(f"{'shape':8} {'n':>4} " + f"|{'PASS':>7} {'no guard':>10} {'FAIL':>7} " * 3)
    for shape in SHAPES:
        for n in options.units:
            cells = "".join(
                f"|{r.passed:>7.3f} {r.unguarded:>10.3f} {r.failed:>7.3f} "
                for r in (rates[shape, worse, n] for worse in WORSE)
            )
            print(f"{shape:8} {n:>4} {cells}")
    error = math.sqrt(0.04 * 0.96 / options.trials)
    print(f"standard error of a rate of .04: {error:.3f}")


def targets(rates: dict[tuple[str, str, int], Rates], options: argparse.Namespace) -> None:
    goals = [
        ("false PASS, diffuse, n = 64", ("diffuse", "at the margin", 64), "passed", "<=", 0.04),
        ("false PASS, rare, n = 64", ("rare", "at the margin", 64), "passed", "<=", 0.06),
        ("A/A PASS, diffuse, n = 96", ("diffuse", "A/A", 96), "passed", ">=", 0.995),
        ("power, diffuse, n = 64", ("diffuse", "twice the margin", 64), "failed", ">=", 0.9),
        ("power, diffuse, n = 96", ("diffuse", "twice the margin", 96), "failed", ">=", 0.9),
    ]
    for title, cell, field, sign, goal in goals:
        if cell in rates:
            rate = getattr(rates[cell], field)
            met = rate <= goal if sign == "<=" else rate >= goal
            print(f"{title:32} {rate:.3f}  target {sign} {goal:g}  {'met' if met else 'MISSED'}")


def main(rule: Rule = RULE) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=500, help="per cell of the table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=1999, help="the stage takes 9,999")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--tau", type=float, default=0.1, help="SD over launches, in margins")
    parser.add_argument("--units", type=int, nargs="+", default=list(UNITS))
    options = parser.parse_args()
    rates = table(rule, options)
    show(rates, options)
    targets(rates, options)


if __name__ == "__main__":
    main()
