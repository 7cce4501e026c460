"""How often the stage `score` errs, on synthetic prompts whose truth is known.

    python benchmarks/calibration.py [--trials 150] [--resamples 1999]

Made are the figures of each prompt, one set for the candidate and one for each launch of the
baseline; from there on it is the reference leg's own code: `measure`, `check_metrics`, the broken
prompts' `find` and `check`, and what the checks say together. Only the number of resamples is
lower than the stage's 9,999 unless asked for. For each shape of damage and each number of prompts
the candidate

- is the baseline, started again (A/A): any FAIL is false;
- is worse in KL by exactly the margin: any PASS of the metrics is false;
- is worse in KL by twice the margin: FAIL is the power.

Shapes, per prompt: *diffuse* (lognormal, sigma 0.8: nearly every prompt is a little worse), *heavy*
(lognormal, sigma 1.2: few prompts carry the mean), *rare* (one prompt in twenty carries it all).
Columns: the metrics alone at one look; "free", their PASS were any number of prompts enough (fewer
than 59 never PASS, and then the other columns say nothing of the bound); the metrics where the plan
allows one extension to twice the prompts, both looks counted; and the whole leg, the bound on
broken prompts included, with that extension.

Then: the rule for broken prompts alone, where a share of the prompts is broken by .3 or by .8
nats; the whole judgement of whole observations, A/A and damaged (--whole); and, given the evidence
of a healthy quant against its original (--quant DIR), how often its prompts count as broken when
only their first tokens are looked at.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import made
import numpy as np

from iqaction import judgement
from iqaction.calls import Arm, Observation
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.plan import Margin, Plan, StageSpec
from iqaction.prompts import parse
from iqaction.report import Check
from iqaction.stages import _broken, _reference_leg, _score_metrics
from iqaction.stages._checks import lacks_only_prompts, verdict_of
from iqaction.stages._forced import Leg
from iqaction.stages._lost import Lost
from iqaction.stages._score_metrics import TITLES, Asked, check_metrics, measure
from iqaction.stats.divergence import Compared
from iqaction.verdict import Verdict

MARGINS = {"kl": 0.02, "decisive": 0.005, "nll": 0.05}
UNITS = (16, 32, 64, 96, 128)
HEALTHY = 0.05  # of the margin: what launches of one engine differ by in a prompt, on average
RARE = 0.05
POSITIONS = 16  # of a prompt; its figures are the same at each
LENGTHS = (4, 8, 16, 32, 64, 128, 256)
MEASURED = (
    "SmolLM2-135M in Q8_0 against F16 on llama.cpp, 64 prompts of the demo at 64 tokens: 0 at "
    "first 4, 8, 16, 32 and 64 tokens, the largest mean KL of a prompt .0089, .0075, .0080, .0071 "
    "and .0064 nats"
)


# What is made


def lognormal(sigma: float) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]:
    return lambda rng, shape: np.exp(rng.normal(-sigma * sigma / 2, sigma, shape))


def rare(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.random(shape) < RARE) / RARE


SHAPES = {"diffuse": lognormal(0.8), "heavy": lognormal(1.2), "rare": rare}  # each of mean 1
WORSE = {"A/A": 0.0, "at the margin": 1.0, "twice the margin": 2.0}  # margins, in KL


class Arms(NamedTuple):
    """One value a prompt and metric, larger is worse."""

    candidate: np.ndarray  # (n, m)
    floors: np.ndarray  # (L, n, m): the baseline's launches
    seed: int

    def first(self, n: int) -> Arms:
        return Arms(self.candidate[:n], self.floors[:, :n], self.seed)


def draw(shape: str, worse: float, n: int, options: argparse.Namespace, seed: int) -> Arms:
    rng = np.random.default_rng((options.seed, seed))
    limits = np.array(list(MARGINS.values()))
    make, m = SHAPES[shape], len(MARGINS)
    arms = HEALTHY * make(rng, (options.launches + 1, n, m))
    arms += options.tau * rng.normal(0, 1, (options.launches + 1, 1, m))
    arms[0, :, 0] += worse * make(rng, (n,))
    arms *= limits
    return Arms(arms[0], arms[1:], seed)


# The stage's own judging


def leg(figures: np.ndarray) -> Leg:
    """A leg of which each prompt has these figures at every position: (n, m)."""
    n = len(figures)
    kl, decisive, nll = np.repeat(figures, POSITIONS, axis=0).T
    yes, no = np.ones(kl.size, np.bool_), np.zeros(kl.size, np.bool_)
    flat = np.zeros(kl.size)
    columns = Compared(yes, kl, flat, yes, decisive, flat, nll, flat, flat, no, no)
    return Leg(tuple(f"p-{i:04d}" for i in range(n)), np.arange(n) * POSITIONS, columns)


def plan_of(n: int, looks: int) -> Plan:
    ids = tuple(f"p-{i:04d}" for i in range(n * looks))
    plan = made.Model(n).plan("0" * 64)
    return replace(plan, prompt_ids=ids, looks=tuple(n * (i + 1) for i in range(looks)))


def spec_of(plan: Plan, seed: int, least: int | None) -> StageSpec:
    """The stage as the plan has it; ``least`` prompts may PASS where it is given."""
    spec = plan.stage("score")
    assert spec is not None
    margins = [Margin(name, limit) for name, limit in MARGINS.items()]
    if least is not None:
        margins = [replace(m, min_units=least) for m in margins]
    return replace(spec, margins=tuple(margins), seed=seed)


class Look(NamedTuple):
    metrics: list[Check]
    whole: list[Check]


def look_at(plan: Plan, arms: Arms, least: int | None = None) -> Look:
    """What the reference leg says of these prompts. A prompt that is broken is so again."""
    n = len(arms.candidate)
    candidate, floors = leg(arms.candidate), tuple(leg(f) for f in arms.floors)
    asked = Asked(tuple(TITLES), n, "reference", "reference leg", len(floors), False)
    metrics = check_metrics(
        plan, spec_of(plan, arms.seed, least), measure(candidate, floors, asked)
    )
    found = _broken.find(candidate, floors, lambda units: _some(candidate, units))
    broken = _broken.check(plan, found, Lost(), n, _reference_leg.BROKEN)
    return Look(metrics, [*metrics, broken])


def _some(whole: Leg, units: tuple[str, ...]) -> Leg:
    at = [whole.units.index(u) for u in units]
    rows = (whole.starts[at, None] + np.arange(POSITIONS)).ravel()
    columns = Compared(*(c[rows] for c in whole.compared))
    return Leg(units, np.arange(len(units)) * POSITIONS, columns)


class Found(NamedTuple):
    """Verdicts of one trial, in the order of the columns."""

    metrics: Verdict
    free: Verdict
    extended: Verdict
    leg: Verdict


def trial(shape: str, worse: float, n: int, options: argparse.Namespace, seed: int) -> Found:
    arms = draw(shape, worse, 2 * n, options, seed)
    once, twice = plan_of(n, 1), plan_of(n, 2)
    metrics = verdict_of(look_at(once, arms.first(n)).metrics)
    free = metrics if n >= 59 else verdict_of(look_at(once, arms.first(n), 2).metrics)
    first, second = look_at(twice, arms.first(n)), None
    verdicts = []
    for part in range(2):
        checks = first[part]
        if lacks_only_prompts(checks):
            second = second or look_at(twice, arms)
            checks = second[part]
        verdicts.append(verdict_of(checks))
    return Found(metrics, free, *verdicts)


@dataclass
class Rates:
    """Shares of the trials by column, PASS and FAIL."""

    trials: int
    passed: Counter[str]
    failed: Counter[str]

    def share(self, column: str, verdict: str) -> float:
        return (self.passed if verdict == "PASS" else self.failed)[column] / self.trials


def measure_cell(shape: str, worse: str, n: int, options: argparse.Namespace) -> Rates:
    rates = Rates(options.trials, Counter(), Counter())
    for seed in range(options.trials):
        found = trial(shape, WORSE[worse], n, options, seed)
        rates.passed.update(c for c, v in found._asdict().items() if v is Verdict.PASS)
        rates.failed.update(c for c, v in found._asdict().items() if v is Verdict.FAIL)
    return rates


# Tables


def progress(done: int, total: int, spent: float) -> None:
    """A rewritten line at a terminal, a line every nine cells in a log."""
    said = f"{done}/{total} cells, {spent:.0f} s, {spent / done * (total - done):.0f} s left"
    if sys.stderr.isatty():
        print(f"\r{said}   ", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done % 9 == 0:
        print(said, file=sys.stderr, flush=True)


Table = dict[tuple[str, str, int], Rates]


def table(options: argparse.Namespace) -> Table:
    rates: Table = {}
    cells = [(s, w, n) for s in SHAPES for w in WORSE for n in options.units]
    start = time.monotonic()
    for done, cell in enumerate(cells, start=1):
        rates[cell] = measure_cell(*cell, options)
        progress(done, len(cells), time.monotonic() - start)
    return rates


def show(rates: Table, options: argparse.Namespace) -> None:
    print(
        f"{options.trials} trials, {options.resamples} resamples, {options.launches} launches of "
        f"SD {options.tau:g} margins, {len(MARGINS)} metrics, seed {options.seed}"
    )
    head = f"|{'metrics':^13} {'free':^6} {'extended':^13} {'leg, extended':^13} "
    print(f"{'':12} " + "".join(f"|{w:^49}" for w in WORSE))
    print(f"{'':12} " + head * len(WORSE))
    pair = f"{'PASS':>6} {'FAIL':>6} "
    print(f"{'shape':8} {'n':>3} " + f"|{pair}{'PASS':>6} {pair}{pair}" * len(WORSE))
    for shape in SHAPES:
        for n in options.units:
            cells = []
            for worse in WORSE:
                r = rates[shape, worse, n]
                both = [f"{r.share(c, v):>6.3f}" for c in ("metrics", "free", "extended", "leg")
                        for v in (("PASS",) if c == "free" else ("PASS", "FAIL"))]  # fmt: skip
                cells.append("|" + " ".join(both) + " ")
            print(f"{shape:8} {n:>3} " + "".join(cells))
    error = math.sqrt(0.04 * 0.96 / options.trials)
    print(f"standard error of a rate of .04: {error:.3f}")


class Goal(NamedTuple):
    title: str
    cell: tuple[str, str, int]
    column: str
    verdict: str
    sign: str
    limit: float


GOALS = (
    *(
        Goal(f"false PASS, {s}, n = 64{e}", (s, "at the margin", 64), c, "PASS", "<=", limit)
        for c, e in (("metrics", ""), ("extended", ", extended"))
        for s, limit in (("diffuse", 0.04), ("heavy", 0.04), ("rare", 0.06))
    ),
    *(
        Goal(f"A/A PASS, {s}, n = 96{e}", (s, "A/A", 96), c, "PASS", ">=", 0.995)
        for c, e in (("metrics", ""), ("leg", ", leg extended"))
        for s in SHAPES
    ),
    *(
        Goal(f"A/A FAIL, {s}, n = 96, leg extended", (s, "A/A", 96), "leg", "FAIL", "<=", 0.002)
        for s in SHAPES
    ),
    *(
        Goal(
            f"power, diffuse, n = {n}{e}", ("diffuse", "twice the margin", n), c, "FAIL", ">=", 0.9
        )
        for c, e in (("metrics", ""), ("extended", ", extended"))
        for n in (64, 96)
    ),
)


def targets(rates: Table) -> None:
    for goal in GOALS:
        if goal.cell in rates:
            rate = rates[goal.cell].share(goal.column, goal.verdict)
            met = rate <= goal.limit if goal.sign == "<=" else rate >= goal.limit
            print(
                f"{goal.title:40} {rate:.3f}  target {goal.sign} {goal.limit:g}  "
                f"{'met' if met else 'MISSED'}"
            )


# Broken prompts


def broken_prompts(options: argparse.Namespace) -> None:
    """The rule for broken prompts alone."""
    print(f"\nbroken prompts: PASS and FAIL, {options.trials} trials; all broken when asked again")
    shares = (0.0, 0.02, 0.05, 0.10)
    head = "".join(f"|{f'{share:.0%} broken':^15}" for share in shares)
    print(f"{'by':10} {'n':>4} {'looks':>6} {head}")
    for nats in (0.3, 0.8):
        for n in (64, 96, 128):
            for looks in (1, 2):
                cells = []
                for share in shares:
                    counts = Counter(
                        _broken_trial(nats, share, n, looks, options, seed)
                        for seed in range(options.trials)
                    )
                    both = (counts[v] / options.trials for v in (Verdict.PASS, Verdict.FAIL))
                    cells.append("|" + " ".join(f"{x:>6.3f}" for x in both) + "  ")
                print(f"{nats:.1f} nats   {n:>4} {looks:>6} " + "".join(cells))


def _broken_trial(
    nats: float, share: float, n: int, looks: int, options: argparse.Namespace, seed: int
) -> Verdict:
    arms = draw("heavy", 0.0, looks * n, options, seed)
    hit = np.random.default_rng((options.seed, seed, 1)).random(looks * n) < share
    arms.candidate[hit, 0] += nats
    plan, verdict = plan_of(n, looks), Verdict.UNPROVEN
    for look in range(1, looks + 1):
        part = arms.first(look * n)
        candidate, floors = leg(part.candidate), tuple(leg(f) for f in part.floors)
        found = _broken.find(candidate, floors, lambda units, of=candidate: _some(of, units))
        check = _broken.check(plan, found, Lost(), look * n, _reference_leg.BROKEN)
        verdict = check.verdict
        if not lacks_only_prompts([check]):
            break
    return verdict


# Whole observations


def whole(options: argparse.Namespace) -> None:
    """Verdicts of the whole judgement: every stage and check, from rows."""
    print(f"\nwhole judgement of rows, 96 prompts x 32 tokens, {options.whole} trials")
    for title, noise in (("A/A (noise as between launches)", 0.02), ("damaged, KL about .04", 0.5)):
        counts: Counter[str] = Counter()
        for seed in range(options.whole):
            report = judgement.judge(observed(made.Model(96, 32, seed), noise), "0")
            counts[report.verdict.value] += 1
        said = ", ".join(f"{v} {c / options.whole:.2f}" for v, c in sorted(counts.items()))
        print(f"  {title:34} {said}")


def observed(model: made.Model, noise: float) -> Observed:
    prompts = {p.id: p for p in parse(model.prompts(), "made").prompts}
    engines = {(Arm.BASELINE, 0): made.ENGINE} | {(Arm.REPEAT, i): made.ENGINE for i in range(1, 6)}
    theirs = Observed(
        model.plan(), prompts, by_stage(made.baseline(model, 5, 0.02, made.BOTH)), engines,
        root="b" * 64,
    )  # fmt: skip
    return Observed(
        model.plan("b" * 64), prompts, by_stage(made.candidate(model, noise, made.BOTH)),
        {(Arm.CANDIDATE, 0): replace(made.ENGINE, version="2.0")}, baseline=theirs,
    )  # fmt: skip


def by_stage(found: Iterable[tuple[str, Observation]]) -> dict[str, dict[made.Tag, Observation]]:
    seen: dict[str, dict[made.Tag, Observation]] = {"trajectory": {}, "score": {}}
    for stage, one in found:
        seen[stage][one.tag] = one
    return seen


# A real quant


def quant(path: Path) -> None:
    """The broken rate of a healthy quant when only the first tokens of each prompt count."""
    with Folder.open(path) as folder:
        kept = folder.load()
    spec = kept.plan.stage("score")
    if kept.baseline is None or spec is None:
        raise SystemExit(f"{path}: no evidence of a comparison")
    context = judgement._context(kept, spec, len(kept.plan.looks) - 1)
    seen = _reference_leg._look(context, kept.baseline)
    print(f"\na healthy quant by length: {path}, {len(seen.candidate.units)} prompts")
    print(f"{'first tokens':>13} {'prompts':>8} {'mean KL':>9} {'largest':>9} {'broken':>7}")
    for length in LENGTHS:
        candidate = cut(seen.candidate, length)
        if not candidate.units:
            break
        floors = tuple(cut(f, length) for f in seen.floors)
        found = _broken.find(candidate, floors, lambda units, of=candidate: _some(of, ()))
        kl = candidate.mean(candidate.compared.kl)
        n, share = len(candidate.units), len(found.hits) / len(candidate.units)
        print(f"{length:>13} {n:>8} {kl.mean():>9.5f} {kl.max():>9.4f} {share:>7.3f}")


def cut(one: Leg, length: int) -> Leg:
    """The first ``length`` positions of every prompt that has as many."""
    long = np.flatnonzero(one.lengths() >= length)
    rows = (one.starts[long, None] + np.arange(length)).ravel()
    return Leg(
        tuple(one.units[i] for i in long),
        np.arange(len(long)) * length,
        Compared(*(c[rows] for c in one.compared)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=150, help="per cell of the tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=1999, help="the stage takes 9,999")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--tau", type=float, default=0.1, help="SD over launches, in margins")
    parser.add_argument("--units", type=int, nargs="+", default=list(UNITS))
    parser.add_argument("--whole", type=int, default=10, help="trials of the whole judgement")
    parser.add_argument("--quant", type=Path, help="evidence of a healthy quant")
    options = parser.parse_args()
    _score_metrics.RESAMPLES = options.resamples
    rates = table(options)
    show(rates, options)
    targets(rates)
    broken_prompts(options)
    if options.whole:
        whole(options)
    if options.quant:
        quant(options.quant)
    else:
        print(f"\nbroken rate of a healthy 8-bit quant by length: {MEASURED}; another: --quant")


if __name__ == "__main__":
    main()
