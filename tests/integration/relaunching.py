"""Restarts a real llama.cpp server at one address, as a relaunch command: stop, start, return.

Run by path: ``relaunching.py STATE PORT MODEL``. The server's process is in ``STATE/pid``, and each
start adds a line to ``STATE/starts``. It ends by itself after ten minutes.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from iqaction.boot import processes
from iqaction.demo_engine import package_folder

_SERVER = Path(__file__).parents[2] / "iqaction" / "_llama_server.py"


def stop(state: Path) -> None:
    """End the server that was started last, and wait until its address is free."""
    try:
        leader = int((state / "pid").read_text())
    except OSError:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for _ in range(200):
        if not any(p.session == leader for p in processes.every().values()):  # zombies are gone
            return
        time.sleep(0.02)


def start(state: Path, port: int, model: Path) -> None:
    """Start it in the background, with nothing of ours left open."""
    server = [sys.executable, "-I", str(_SERVER), str(model), f"--packages={package_folder()}"]
    server += [f"--port={port}", "--slots=2", "--ctx=512", "--alias=smollm2-135m"]
    process = subprocess.Popen(
        # The server ends when its standard input does.
        ["sh", "-c", f"sleep 600 | {shlex.join(server)}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (state / "pid").write_text(str(process.pid))
    with (state / "starts").open("a") as log:
        log.write(f"{process.pid}\n")
    process.returncode = 0  # it is meant to outlive us


if __name__ == "__main__":
    stop(Path(sys.argv[1]))
    start(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
