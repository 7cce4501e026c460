"""How often the stage `gsm8k` errs, on sittings whose truth is known.

    python benchmarks/gsm8k_calibration.py [--trials 2000] [--problems 1319] [--margin 0.02]

Made are whole observations, answers as text included; from there on it is the stage's own judge.
Rows: the candidate that is the baseline, started again, at several shares of flips (its PASS is
right, any FAIL is false); one that is worse by exactly the margin (any PASS is false), whole and
cut by a time budget at a random fraction of the plan; one that is worse by twice the margin; one
that dies on 3 % of what the baseline solves. Each with the 95 % interval of the shares, and the
median number of problems after which asking ends.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / x) for x in ("", "tests")]

from answered import Exam  # noqa: E402 - found by the line above
from sitting import Sitting, decided_at, generators  # noqa: E402

from iqaction.stats.proportions import wilson  # noqa: E402
from iqaction.verdict import Verdict  # noqa: E402


def rows(exam: Exam, margin: float) -> list[tuple[str, Sitting]]:
    """What is asked of the judge, by name."""
    return [
        ("A/A, 1 % flips", Sitting(exam, 0.005, 0.005)),
        ("A/A, 3 % flips", Sitting(exam, 0.015, 0.015)),
        ("A/A, 6 % flips", Sitting(exam, 0.03, 0.03)),
        ("at the margin, 4 % flips", Sitting(exam, 0.01 + margin, 0.01)),
        ("at the margin, no gains", Sitting(exam, margin, 0.0)),
        ("at the margin, 8 % flips", Sitting(exam, 0.03 + margin, 0.03)),
        ("at the margin, cut anywhere", Sitting(exam, 0.01 + margin, 0.01, cut=(0.1, 1.0))),
        ("twice the margin, 5 % flips", Sitting(exam, 0.005 + 2 * margin, 0.005)),
        ("dies on 3 % (the way)", Sitting(exam, 0.005, 0.005, dying=0.03)),
        ("dies on 3 % (the engine)", Sitting(exam, 0.005, 0.005, dying=0.03, deaths="F")),
        ("dies on 3 % (parser)", Sitting(exam, 0.005, 0.005, dying=0.03, deaths="P")),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--problems", type=int, default=1319)
    parser.add_argument("--margin", type=float, default=0.02)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    given = parser.parse_args()
    exam = Exam(given.problems, {"margin": given.margin})
    print(f"{given.problems} problems, margin {given.margin:.1%}, {given.trials} trials a row")
    for number, (name, sitting) in enumerate(rows(exam, given.margin)):
        if given.only not in name:
            continue
        begun = time.monotonic()
        results = [sitting.judge(rng) for rng in generators(number, given.trials)]
        seen = Counter(r.verdict for r in results)
        shares = []
        for verdict in (Verdict.PASS, Verdict.FAIL):
            low, high = wilson(seen[verdict], given.trials, 0.95)
            share = seen[verdict] / given.trials
            shares.append(f"{verdict.value} {share:.2%} ({low:.2%} to {high:.2%})")
        median = statistics.median(decided_at(r) for r in results)
        took = time.monotonic() - begun
        print(f"{name:30} {'  '.join(shares)}  median n {median:.0f}  {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
