"""How often the stage `sampling` errs, on synthetic samplers whose faults are known.

    python benchmarks/sampling_calibration.py [--runs 200] [--only right] [--vocabulary 1000]

Each run is the stage's own: its questions are answered by a made engine (tests/sampler_world.py,
which shares no code with what is tested), fresh draws are asked where it asks for them, and its
result is judged. The model is as flat, and as often sure, as SmolLM2-135M over the default
prompts; 256 texts of 64 tokens over 32 prompts. A correct sampler should PASS 95 times of 100 and
FAIL at most twice in 10,000; a temperature 5 % off should never PASS; a fault should be flagged
(not PASS, a test struck) 90 times of 100, a temperature 95.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: CPU time of one thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a checkout needs no install
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from sampler_world import (
    FAULTS,
    ORDERS,
    RIGHT,
    SETTINGS,
    Faulty,
    Listing,
    SamplerWorld,
    Sampling,
    run,
    spec,
)

from iqaction.stages.sampling import STAGE

LISTINGS = {
    "plain": Listing(),
    "guests leave": Listing(guest=True),
    "fragments": Listing(fragments=True),
    "ends without rows": Listing(ends=True),
    "noise .1": Listing(noise=0.1),
    "ties": Listing(tie=0.125),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--listing", choices=LISTINGS, default="plain")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'settings':26} {'order':9} {'sampler':28} runs  PASS  FAIL  open  flagged  s a run")
    for settings in SETTINGS:
        for order in ORDERS:
            for name, fault in {"right": RIGHT, **FAULTS}.items():
                idle = name == "top_p ignored" and "top_p" not in settings
                if options.only in f"{settings} {order} {name}" and not idle:
                    line(settings, order, name, fault, options)


def line(settings: str, order: str, name: str, fault: Faulty, options: argparse.Namespace) -> None:
    asked = spec(**SETTINGS[settings])
    world = SamplerWorld(vocabulary=options.vocabulary)
    verdicts: Counter[str] = Counter()
    flagged, begun = 0, time.perf_counter()
    for number in range(options.runs):
        server = Sampling(
            world,
            asked.params,
            ORDERS[order],
            fault,
            LISTINGS[options.listing],
            options.seed + number,
        )
        result = STAGE.judge(run(asked, server))
        verdicts[result.verdict.value] += 1
        flagged += any("p = " in c.reason or "p < " in c.reason for c in result.checks)
    seconds, n = time.perf_counter() - begun, options.runs
    passed, failed, open_ = (verdicts[v] for v in ("PASS", "FAIL", "UNPROVEN"))
    print(
        f"{settings:26} {order:9} {name:28} {n:4} {passed:5} {failed:5} {open_:5} "
        f"{flagged / n:8.3f} {seconds / n:8.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
