"""What the action costs apart from the engine: each step's own process, on a warm runner.

    python benchmarks/action_overhead.py [--runs 5] [--units 64]

The steps run as action.yml starts them, from a copy of the action without compiled modules (as a
runner downloads it), against a stand-in for GitHub on this machine, and ask an engine that gives a
real one's remembered answers at once: nothing is subtracted. Their peer in the same round is a bare
`python -I -c pass` of the same environment. The first job makes the environment, with nothing in
pip's cache. Exit status 1 where a warm job's steps take more than the goal together.

The engine's answers are taken from a llama.cpp server once, by the demo's model (about a minute).
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a checkout needs no install
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fake_github.fake import FakeGithub
from integration.acting import JUDGE, Acting, Scene, downloaded, scene
from integration.captured import (
    PLAN,
    REFERENCE,
    TOKENS,
    Capture,
    as_lines,
    demo_prompts,
    served,
)
from integration.stand_in import Memory, StandIn
from integration.stepping import ORDER, Steps

from iqaction import demo_weights, session
from iqaction.cache import cache_folder
from iqaction.demo_engine import LlamaServer
from iqaction.progress import Quiet
from iqaction.session import RunOptions

GOAL_S = 3.0


def remembered(home: Path, units: int) -> tuple[Capture, Memory]:
    """A reference with one relaunch, and all that its engine said to it and to a candidate."""
    capture, memory = Capture(home, units), Memory()
    (home / "prompts.jsonl").write_text(as_lines(demo_prompts(units)))
    model = demo_weights.weights(cache_folder(os.environ), None, "F16", note=print)
    with LlamaServer(served(model)) as server, StandIn(server.url, memory=memory) as between:
        for launch in (0, 1):
            options = RunOptions(
                capture.folder, capture.plan(REFERENCE), between.url, launch=launch
            )
            assert session.observe(options, progress=Quiet()).complete
        capture.compare("first", between.url, plan=capture.plan(REFERENCE))
    return capture, memory


def bare(steps: Steps) -> float:
    """Seconds of a Python that does nothing, of the same environment."""
    begun = time.perf_counter()
    subprocess.run(
        [steps.outputs["python"], "-I", "-B", "-c", "pass"], check=True, cwd=steps.checkout
    )
    return time.perf_counter() - begun


def job(home: Path, pr: Scene, cache: Path, engine: str, action: Path) -> tuple[Steps, list[float]]:
    """One job's steps, and the peer's seconds after each."""
    pr.acting.github.state.comments.clear()
    pr.acting.github.state.checks.clear()
    inputs = {"endpoint": engine, **JUDGE}
    url = pr.acting.github.url
    steps = Steps(home, pr.acting.checkout, cache, inputs, pr.payload(), url, action=action)
    peers = []
    for step in ORDER:
        if steps.wanted(step):
            _, said = steps.run(step)
            peers.append(bare(steps))
    assert steps.outputs["published"] == "true", said
    return steps, peers


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--kept", type=Path, help="a folder with reference/ and memory.pickle")
    options = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if options.kept:
            capture = Capture(options.kept, options.units)
            memory = pickle.loads((options.kept / "memory.pickle").read_bytes())
        else:
            capture, memory = remembered(home, options.units)
        github = stack.enter_context(FakeGithub())
        engine = stack.enter_context(StandIn(memory=memory))
        plan = PLAN.format(suite="real", units=options.units, tokens=TOKENS, legs=REFERENCE)
        pr = scene(Acting(home / "pr", github, home / "act"), capture.home, plan)
        given = (pr, home / "tools", engine.url, downloaded())
        first, _ = job(home / "first", *given)
        found = [job(home / f"job {n}", *given) for n in range(options.runs)]
    return told(found, first, options.units)


def told(found: list[tuple[Steps, list[float]]], first: Steps, units: int) -> int:
    """Print the table; 1 where the goal is missed."""
    jobs = [steps for steps, _ in found]
    peer = statistics.median(x for _, peers in found for x in peers)
    print(f"each step's process, median of {len(jobs)} jobs of {units} prompts")
    print(f"{'step':10} {'wall s':>8} {'CPU s':>8}   against a bare Python")
    for step in jobs[0].seconds:
        wall = statistics.median(j.seconds[step] for j in jobs)
        cpu = statistics.median(j.cpu[step] for j in jobs)
        print(f"{step:10} {wall:8.3f} {cpu:8.3f} {wall / peer:8.1f} x")
    total = statistics.median(sum(j.seconds.values()) for j in jobs)
    cpu = statistics.median(sum(j.cpu.values()) for j in jobs)
    ratio = total / (peer * len(jobs[0].seconds))
    print(f"{'together':10} {total:8.3f} {cpu:8.3f} {ratio:8.1f} x as many bare Pythons")
    print(f"{'bare':10} {peer:8.3f}            python -I -B -c pass")
    print(f"set-up of this runner's first job, all downloaded: {first.seconds['setup']:.1f} s")
    print(f"goal: at most {GOAL_S} s: {'met' if total <= GOAL_S else 'MISSED'}")
    return int(total > GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
