"""Judging log-probability lists: arrays against plain Python, and a million positions.

Run as ``python benchmarks/divergence.py``. The peer is the same definition written with one dict
a row, as a reader of the documentation would write it. Both answer the same rows and are checked
against each other. Goals: at least 8 times plain Python at 64 prompts x 256 positions x 4 arms of
20 tokens; 1,000,000 positions x 4 arms within 6 CPU seconds and 1 GiB.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no install

from iqaction.stats.divergence import Compared, Lists, compare

ARMS, K, VOCABULARY = 4, 20, 150_000
TOLERANCE, DECISIVE, ROUNDING = 1e-4, 0.5, 1e-6


def reference(n: int, rng: np.random.Generator) -> Lists:
    """Peaked lists as a chat model gives them: most rows have one likely token."""
    heights = rng.normal(0, 1.5, (n, K)).astype(np.float32)
    heights[:, 0] += rng.gamma(2.0, 4.0, n).astype(np.float32)
    heights = -np.sort(-heights, axis=1)
    heights -= np.log(np.exp(heights).sum(axis=1, keepdims=True) * np.float32(1.02))
    top = np.empty((n, K), np.int64)
    for j in range(K):  # distinct within a row
        top[:, j] = rng.integers(0, VOCABULARY // K, n) * K + j
    return Lists(top[:, 0].copy(), heights[:, 0].copy(), top, heights, np.ones(n, np.bool_))


def candidate(ref: Lists, noise: float, rng: np.random.Generator) -> Lists:
    """The same rows after a small change: values move, ranks swap, some tokens leave the list."""
    n = ref.chosen.size
    value = ref.top_logprob + rng.normal(0, noise, (n, K)).astype(np.float32)
    value -= np.log(np.exp(value).sum(axis=1, keepdims=True) * np.float32(1.01))
    logprob = value[:, 0].copy()
    top = ref.top.copy()
    gone = rng.random((n, K - 1)) < 0.15
    top[:, 1:][gone] += VOCABULARY
    order = np.argsort(-value, axis=1)
    top = np.take_along_axis(top, order, axis=1)
    value = np.take_along_axis(value, order, axis=1)
    return Lists(ref.chosen, np.minimum(logprob, 0), top, np.minimum(value, 0), ref.usable)


Row = tuple[int, float, list[tuple[int, float]]]


def rows_of(lists: Lists) -> list[Row]:
    columns = zip(
        lists.chosen.tolist(),
        lists.logprob.tolist(),
        lists.top.tolist(),
        lists.top_logprob.tolist(),
        strict=True,
    )
    return [(c, lp, list(zip(t, v, strict=True))) for c, lp, t, v in columns]


def plain(ref: list[Row], cand: list[Row]) -> list[tuple[float, float, bool, bool, float, float]]:
    """Plain Python: KL, TV, agreement, decisive, delta p, mass covered; row by row."""
    out = []
    for (chosen, lp_ref, top_ref), (_, lp_cand, top_cand) in zip(ref, cand, strict=True):
        k = min(len(top_ref), len(top_cand))
        p = {t: math.exp(v) for t, v in top_ref[:k]}
        q = {t: math.exp(v) for t, v in top_cand[:k]}
        p[chosen], q[chosen] = math.exp(lp_ref), math.exp(lp_cand)
        kl = tv = mass_p = mass_q = 0.0
        for token, a in p.items():
            b = q.get(token)
            if b is not None:
                kl += a * math.log(a / b)
                tv += abs(a - b)
                mass_p += a
                mass_q += b
        rest_p, rest_q = max(1 - mass_p, 0.0), max(1 - mass_q, 0.0)
        if rest_q <= ROUNDING:
            if rest_p > TOLERANCE:
                kl += rest_p * math.log(rest_p / TOLERANCE)
        elif rest_p > 0:
            kl += rest_p * math.log(rest_p / rest_q)
        tv = (tv + abs(rest_p - rest_q)) / 2
        best_ref, best_cand = max(p, key=p.__getitem__), max(q, key=q.__getitem__)
        rival = p.get(best_cand, math.exp(top_ref[-1][1]))
        gap = math.log(p[best_ref] / rival)
        decisive = best_ref != best_cand and gap > DECISIVE
        delta = q[chosen] - p[chosen]
        out.append((max(kl, 0.0), tv, best_ref == best_cand, decisive, delta, mass_p))
    return out


def cpu(work: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the fastest of ``repeats`` runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def against_plain(prompts: int, positions: int, repeats: int) -> None:
    rng = np.random.default_rng(1)
    ref = reference(prompts * positions, rng)
    arms = [candidate(ref, noise, rng) for noise in (0.3, 0.05, 0.05, 0.05)]
    plain_ref, plain_arms = rows_of(ref), [rows_of(a) for a in arms]
    answers = [compare(ref, a) for a in arms]
    for answer, rows in zip(answers, plain_arms, strict=True):
        check(answer, plain(plain_ref, rows))
    ours = cpu(lambda: [compare(ref, a) for a in arms], repeats)
    theirs = cpu(lambda: [plain(plain_ref, rows) for rows in plain_arms], max(1, repeats // 3))
    print(f"{prompts} x {positions} x {ARMS} arms, top-{K}: CPU ms")
    print(f"  ours          {1e3 * ours:8.1f}")
    print(f"  plain Python  {1e3 * theirs:8.1f}")
    print(f"  ratio         {theirs / ours:8.1f}   (goal >= 8)")


def check(answer: Compared, rows: list[tuple[float, float, bool, bool, float, float]]) -> None:
    expected = np.array(rows, np.float64).T
    for name, column in zip(
        ("kl", "tv", "agree", "decisive", "delta_p", "covered"), expected, strict=True
    ):
        apart = np.abs(getattr(answer, name).astype(np.float64) - column).max()
        if not apart < 2 * TOLERANCE:
            raise SystemExit(f"{name}: arrays and plain Python differ by {apart}")


def million(n: int) -> None:
    """One arm at a time beside the reference, as the judge holds them."""
    rng = np.random.default_rng(2)
    ref = reference(n, rng)
    spent, kl = 0.0, []
    for noise in (0.3, 0.05, 0.05, 0.05):
        arm = candidate(ref, noise, rng)
        before = peak()
        start = time.process_time()
        kl.append(float(np.nanmean(compare(ref, arm).kl)))
        spent += time.process_time() - start
        grown = peak() - before
        del arm
    print(f"{n:,} positions x {ARMS} arms, top-{K}")
    print(f"  ours, CPU s   {spent:8.2f}   (goal <= 6)")
    print(f"  peak, MiB     {peak():8.0f}   (goal <= 1024; data made here included)")
    print(f"  grown, MiB    {grown:8.0f}   (by the last comparison)")
    print("  mean KL       " + " ".join(f"{x:.5f}" for x in kl))


def peak() -> float:
    """MiB of the whole process at its largest (Linux reports KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--many", type=int, default=1_000_000, help="0 leaves this part out")
    options = parser.parse_args()
    against_plain(options.prompts, options.positions, options.repeats)
    if options.many:
        million(options.many)


if __name__ == "__main__":
    main()
