"""Judging evidence: from a folder, against plain Python, and a million positions.

    python benchmarks/judge.py [--many 1000000] [--repeats 5]

1. A sealed folder of 64 prompts x 256 positions x top 20 with four arms' rows: the reference (its
   text and its own scores), its relaunches, the candidate forced, and the candidate's own text
   with its self leg. Goal: `iqaction.judge(folder)` within one CPU second, what it imports on the
   way included. Importing NumPy and the package comes before that and is shown apart.
2. The same observations judged in plain Python: dicts and loops, the same definitions, the same
   bootstrap. Goal: ours at least 8 times as fast. What the two say must agree.
3. 1,000,000 positions x 4 arms (a candidate and three relaunches against the reference) through
   the reference leg's own code, rows made as they are needed. Goals: 6 CPU seconds, 1 GiB of peak
   memory for the whole process. With --folder, the million is also written to a real folder of
   four sets of rows (the reference, one relaunch, the candidate's text, the candidate forced) and
   `iqaction.judge` reads it whole; writing that takes minutes.

CPU times, one thread; the best of several where it can be repeated.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import made
from made import Model

import iqaction
from iqaction import judgement
from iqaction.calls import Arm, Generation, Scored
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.report import Check, Report
from iqaction.rows import Rows
from iqaction.stages import _broken, _score_tables
from iqaction.stages._forced import Leg, Pairing, leg
from iqaction.stages._lost import Lost
from iqaction.stages._reference_leg import BROKEN
from iqaction.stages._score_metrics import RESAMPLES, TITLES, Asked, check_metrics, measure
from iqaction.verdict import Verdict

FOLDER_S, RATIO, MANY_S, MANY_MIB = 1.0, 8.0, 6.0, 1024.0
LAUNCHES = 3
TOLERANCE, DECISIVE, ROUNDING = 1e-4, 0.5, 1e-6


def cpu(work: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the fastest of ``repeats`` runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def say(title: str, ours: str, peer: str = "", ratio: str = "", goal: str = "") -> None:
    print(f"{title:<50}{ours:>12}{peer:>14}{ratio:>8}  {goal}", flush=True)


def met(holds: bool, goal: str) -> str:
    return f"{goal}  {'met' if holds else 'MISSED'}"


# Part 1: from the folder


def child(code: str, *arguments: str) -> dict[str, float]:
    """What a fresh Python prints as JSON."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(made.ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return {k: float(v) for k, v in json.loads(done.stdout).items()}


COLD = """
import json, sys, time
at = [time.process_time()]
import numpy
at.append(time.process_time())
import iqaction, iqaction.session, iqaction.stages.score, iqaction.stages.trajectory
at.append(time.process_time())
iqaction.judge(sys.argv[1])
at.append(time.process_time())
names = ("python", "numpy", "package", "judge")
spent = dict(zip(names, (b - a for a, b in zip([0.0, *at], at))))
from iqaction.evidence.store import Folder
from pathlib import Path
spent["heavy"] = sum(m in sys.modules for m in ("scipy.stats", "requests", "jsonschema"))
print(json.dumps(spent))
"""
SPECIAL = """
import json, time
import numpy
start = time.process_time()
import scipy.special
print(json.dumps({"special": time.process_time() - start}))
"""


def from_folder(path: Path, repeats: int) -> bool:
    runs = [child(COLD, str(path)) for _ in range(repeats)]
    cold = min(r["judge"] for r in runs)
    warm = cpu(lambda: iqaction.judge(path), repeats)
    load = cpu(lambda: Folder.open(path).load(), repeats)
    special = min(child(SPECIAL)["special"] for _ in range(repeats))
    good = cold <= FOLDER_S
    say("judge(folder) in a fresh Python, CPU s", f"{cold:.2f}", "", "", met(good, "<= 1"))
    say("  of that, scipy.special imported", f"{special:.2f}")
    say("judge(folder) again, CPU s", f"{warm:.2f}")
    say("  of that, reading the folder", f"{load:.2f}")
    for name in ("python", "numpy", "package"):
        say(f"before it: {name} started, CPU s", f"{min(r[name] for r in runs):.2f}")
    if any(r["heavy"] for r in runs):
        print("  scipy.stats, requests or jsonschema was imported, and need not be")
    return good


# Part 2: plain Python

Row = tuple[int, float, list[tuple[int, float]]]


def plain_rows(rows: Rows) -> list[Row]:
    columns = (rows.chosen, rows.logprob, rows.top, rows.top_logprob)
    lists = zip(*(c.tolist() for c in columns), strict=True)
    return [(c, lp, list(zip(t, v, strict=True))) for c, lp, t, v in lists]


def plain_position(ref: Row, cand: Row) -> tuple[float, float, bool, float, float, bool]:
    """KL, TV, decisive, NLL, change of the token's probability, agreement."""
    (chosen, lp_ref, top_ref), (_, lp_cand, top_cand) = ref, cand
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
    decisive = best_ref != best_cand and math.log(p[best_ref] / rival) > DECISIVE
    return max(kl, 0.0), tv, decisive, -lp_cand, q[chosen] - p[chosen], best_ref == best_cand


Positions = list[tuple[float, float, bool, float, float, bool]]


def plain_leg(ref: list[list[Row]], cand: list[list[Row]]) -> list[Positions]:
    """The figures of each position, prompt by prompt."""
    return [
        [plain_position(x, y) for x, y in zip(a, b, strict=True)]
        for a, b in zip(ref, cand, strict=True)
    ]


def plain_means(one: list[Positions]) -> list[tuple[float, ...]]:
    """Means over each prompt's positions."""
    return [tuple(sum(c) / len(c) for c in zip(*prompt, strict=True)) for prompt in one]


def plain_tables(one: list[Positions]) -> dict[str, list[float]]:
    """Means by position bucket and by input bucket, and percentiles of KL."""
    sums: dict[str, list[float]] = {}
    for i, prompt in enumerate(one):
        for at, figures in enumerate(prompt):
            place = "0-15" if at < 16 else "16-63" if at < 64 else "64-255" if at < 256 else "256+"
            for name in (place, ("code", "short")[i % 2]):
                row = sums.setdefault(name, [0.0] * 6)
                for j, figure in enumerate(figures):
                    row[j] += figure
    kl = sorted(figures[0] for prompt in one for figures in prompt)
    sums["percentiles"] = [kl[int(p * (len(kl) - 1))] for p in (0.5, 0.95, 0.99, 0.999, 1)]
    return sums


def plain_tie_floor(ref: list[list[Row]], again: list[list[Row]]) -> float:
    """The largest change of the difference between the two most likely tokens."""
    largest = 0.0
    for a, b in zip(ref, again, strict=True):
        for (_, _, first), (_, _, second) in zip(a, b, strict=True):
            (top, x), (next_, y) = first[:2]
            now = dict(second)
            if top in now and next_ in now:
                largest = max(largest, abs((x - y) - (now[top] - now[next_])))
    return largest


def plain_bounds(delta: list[float], margin: float, draws: list[list[int]]) -> tuple[float, float]:
    """Mean and bootstrap-t upper bound."""
    n = len(delta)

    def studentised(values: list[float], centre: float) -> tuple[float, float]:
        mean = sum(values) / n
        square = sum(v * v for v in values) / n - mean * mean
        se = max(math.sqrt(max(square, 0.0) / (n - 1)), margin / 100)
        return (mean - centre) / se, se

    mean = sum(delta) / n
    se = studentised(delta, mean)[1]
    t = sorted(studentised([delta[i] for i in draw], mean)[0] for draw in draws)
    return mean, mean - t[int(0.025 * (len(t) + 1)) - 1] * se


def plain_faults(texts: list[list[Row]], forced: list[list[Row]]) -> int:
    """Prompts of a self leg with a decode fault."""
    count = 0
    for decoded, again in zip(texts, forced, strict=True):
        for (_, lp, top), (_, lp_again, _) in zip(decoded, again, strict=True):
            if abs(lp - lp_again) > 0.5 or max(v for _, v in top) - lp > 0.25:
                count += 1
                break
    return count


def plain_judge(sets: dict[str, list[list[Row]]]) -> dict[str, tuple[float, float]]:
    """The judgement's numbers: mean and upper bound by metric, and decode faults."""
    ref = sets["reference"]
    arms = [sets[f"relaunch {i}"] for i in range(1, LAUNCHES + 1)]
    legs = [plain_leg(ref, arm) for arm in (sets["forced"], *arms)]
    candidate, *floors = map(plain_means, legs)
    for one in legs:
        plain_tables(one)
    max(plain_tie_floor(ref, arm) for arm in arms)
    rng = random.Random(0)
    n = len(candidate)
    draws = [rng.choices(range(n), k=n) for _ in range(RESAMPLES)]
    found = {}
    for metric, column, margin in (("kl", 0, 0.02), ("decisive", 2, 0.005), ("nll", 3, 0.05)):
        delta = [
            c[column] - sum(f[i][column] for f in floors) / len(floors)
            for i, c in enumerate(candidate)
        ]
        found[metric] = plain_bounds(delta, margin, draws)
    parted = sum(
        any(a[0] != b[0] for a, b in zip(x, y, strict=True))
        for x, y in zip(ref, sets["text"], strict=True)
    )
    found["parted"] = float(parted), 0.0
    theirs = plain_faults(ref, sets["own"])
    found["faults"] = float(plain_faults(sets["text"], sets["self"])), float(theirs)
    return found


def plain_sets(observed: Observed) -> dict[str, list[list[Row]]]:
    """Every arm's rows as lists, by name, prompt by prompt: not timed."""
    assert observed.baseline is not None
    names = {
        ("baseline", "trajectory", 0): "reference",
        ("baseline", "self", 0): "own",
        ("candidate", "trajectory", 0): "text",
        ("candidate", "reference", 0): "forced",
        ("candidate", "self", 0): "self",
        **{("repeat", "reference", i): f"relaunch {i}" for i in range(1, LAUNCHES + 1)},
    }
    sets: dict[str, list[list[Row]]] = {name: [] for name in names.values()}
    for kept in (observed.baseline.seen, observed.seen):
        for stage in ("trajectory", "score"):
            for tag, one in sorted(kept[stage].items()):
                answer = one.answer
                assert isinstance(answer, (Generation, Scored)) and answer.rows is not None
                if tag.attempt == 0:
                    name = names[tag.arm.value, tag.leg, tag.launch]
                    sets[name].append(plain_rows(answer.rows))
    return sets


def against_plain(path: Path, repeats: int) -> bool:
    observed = Folder.open(path).load()
    sets = plain_sets(observed)
    report = judgement.judge(observed, "0")
    agree(report, plain_judge(sets))
    gc.freeze()  # some million tuples of the peer's, which collecting would go through in both
    ours = cpu(lambda: judgement.judge(observed, "0"), repeats)
    theirs = cpu(lambda: plain_judge(sets), max(1, repeats // 2))
    ratio = theirs / ours
    good = ratio >= RATIO
    goal = met(good, f">= {RATIO:g}")
    say("judging the same in memory, CPU ms", f"{1e3 * ours:.0f}", f"{1e3 * theirs:.0f}",
        f"{ratio:.1f}", goal)  # fmt: skip
    arms = ["forced", *(f"relaunch {i}" for i in range(1, LAUNCHES + 1))]
    pairs = [_pairings(observed, arm) for arm in arms]
    ours = cpu(lambda: [leg(iter(p)) for p in pairs], repeats)
    ref = sets["reference"]
    theirs = cpu(lambda: [plain_leg(ref, sets[a]) for a in arms], max(1, repeats // 2))
    say("  comparing 4 arms' lists alone, CPU ms", f"{1e3 * ours:.0f}", f"{1e3 * theirs:.0f}",
        f"{theirs / ours:.1f}")  # fmt: skip
    return good


def _pairings(observed: Observed, arm: str) -> list[Pairing]:
    assert observed.baseline is not None
    launch = int(arm.removeprefix("relaunch ")) if arm != "forced" else 0
    kept = observed.baseline.seen if launch else observed.seen
    of = Arm.REPEAT if launch else Arm.CANDIDATE
    found = []
    for tag, one in observed.baseline.seen["trajectory"].items():
        forced = kept["score"][made.Tag(of, "reference", tag.unit, launch)].answer
        assert isinstance(one.answer, Generation) and isinstance(forced, Scored)
        assert one.answer.rows is not None
        found.append(Pairing(tag.unit, one.answer.rows, forced.rows))
    return found


def agree(report: Report, plain: dict[str, tuple[float, float]]) -> None:
    """Both must have found the same, or their times mean nothing."""
    checks = {c.metric: c for s in report.stages for c in s.checks}
    for metric, margin in (("kl", 0.02), ("decisive", 0.005), ("nll", 0.05)):
        estimate = checks[f"reference.{metric}"].estimate
        assert estimate is not None and estimate.value is not None
        assert abs(estimate.value - plain[metric][0]) < 1e-3 * margin, metric
        assert estimate.interval is not None and estimate.interval[1] is not None
        # Ours adds the noise of launches and takes the larger of two bounds.
        assert estimate.interval[1] > plain[metric][1] - 0.05 * margin, metric
    faults = checks["self.faults"].estimate
    assert faults is not None and faults.value == plain["faults"][0] == 0
    parted = sum(len(s.divergences) for s in report.stages)
    assert parted == plain["parted"][0], (parted, plain["parted"])


# Part 3: a million positions


def peak() -> float:
    """MiB of the whole process at its largest (Linux reports KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def many(positions: int) -> dict[str, float]:
    """The reference leg over ``positions``, in this process; CPU seconds and peak MiB."""
    model = Model(units=-(-positions // 256))
    making, names = 0.0, model.names

    def made_for(arm: int, noise: float) -> Iterator[Pairing]:
        nonlocal making
        for first in range(0, model.units, 128):
            start = time.process_time()
            found = []
            for unit in range(first, min(first + 128, model.units)):
                ref = model.rows(unit, 0, 0, named=False)
                other = model.rows(unit, arm, noise, ref.chosen, named=False)
                found.append(Pairing(names[unit], ref, other))
            making += time.process_time() - start
            yield from found

    start = time.process_time()
    candidate = leg(made_for(2, 0.05))
    floors = tuple(leg(made_for(10 + i, 0.02)) for i in range(1, LAUNCHES + 1))
    checks = judged(model, candidate, floors)
    spent = time.process_time() - start - making
    assert len(candidate.compared.kl) >= positions
    assert all(c.verdict is Verdict.PASS for c in checks if c.judged), checks
    return {"seconds": spent, "making": making, "peak": peak()}


def judged(model: Model, candidate: Leg, floors: tuple[Leg, ...]) -> list[Check]:
    """What the reference leg makes of its legs, figures for display included."""
    plan = model.plan("0" * 64)
    spec = plan.stage("score")
    assert spec is not None
    asked = Asked(tuple(TITLES), model.units, "reference", "reference leg", len(floors), False)
    measured = measure(candidate, floors, asked)
    found = _broken.find(candidate, floors, lambda units: leg(iter(())))
    checks = [
        *check_metrics(plan, spec, measured),
        _broken.check(plan, found, Lost(), model.units, BROKEN),
    ]
    _score_tables.tables(candidate, floors, {})
    _score_tables.series(candidate, measured.floor[:, 0], measured.candidate[:, 0], 0.02)
    return checks


def in_a_child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {k: float(v) for k, v in json.loads(done.stdout).items()}


def a_million(positions: int, folder: Path | None) -> bool:
    found = in_a_child("--child-many", str(positions))
    fast, small = found["seconds"] <= MANY_S, found["peak"] <= MANY_MIB
    title = f"{positions:,} positions x 4 arms"
    say(f"{title}, CPU s", f"{found['seconds']:.1f}", "", "", met(fast, f"<= {MANY_S:g}"))
    say("  peak MiB of the process", f"{found['peak']:.0f}", "", "",
        met(small, f"<= {MANY_MIB:g}"))  # fmt: skip
    if folder is None:
        return fast and small
    path = made.folders(folder, Model(units=-(-positions // 256)), 1, legs=("reference",))
    found = in_a_child("--child-folder", str(path))
    whole = found["peak"] <= MANY_MIB
    say("  as a folder of 4 sets of rows, CPU s", f"{found['seconds']:.1f}")
    say("  peak MiB of the process", f"{found['peak']:.0f}", "", "",
        met(whole, f"<= {MANY_MIB:g}"))  # fmt: skip
    return fast and small and whole


def whole_folder(path: Path) -> dict[str, float]:
    start = time.process_time()
    report = iqaction.judge(path)
    assert not report.problems, report.problems
    return {"seconds": time.process_time() - start, "peak": peak()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--positions", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--many", type=int, default=1_000_000, help="0 leaves this part out")
    parser.add_argument("--folder", action="store_true", help="part 3 from a real folder, too")
    parser.add_argument("--child-many", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--child-folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child_many:
        print(json.dumps(many(options.child_many)))
        return 0
    if options.child_folder:
        print(json.dumps(whole_folder(options.child_folder)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        model = Model(options.prompts, options.positions)
        folder = made.folders(Path(name), model, LAUNCHES)
        print(f"{options.prompts} prompts x {options.positions} positions x top {made.K}")
        say("", "ours", "plain Python", "ratio", "goal")
        good = from_folder(folder, options.repeats)
        good &= against_plain(folder, options.repeats)
        if options.many:
            good &= a_million(options.many, Path(name) / "many" if options.folder else None)
    print("goals met" if good else "GOALS MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
