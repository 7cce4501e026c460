"""A process that runs one step of the action, in which the step does what the test says.

    python failing_step.py (wait | crash)

The step is called `observe`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from iqaction.action import job as jobs  # noqa: E402 - the path was unknown
from iqaction.action.steps import observe  # noqa: E402


def wait(job: jobs.Job) -> int:
    print("READY", flush=True)
    time.sleep(60)
    return 0


def crash(job: jobs.Job) -> int:
    raise RuntimeError("the server said sk-canary-in-an-exception")


signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
observe.run = {"wait": wait, "crash": crash}[sys.argv[1]]
os.environ.setdefault("GITHUB_ACTIONS", "true")
sys.exit(jobs.run("observe"))
