"""A real llama.cpp server for the self-test: ``serve.py QUANT PORT``, in the foreground.

Run by the environment that holds iqaction with its extra ``demo``; the weights are the demo's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import iqaction
from iqaction import demo_engine, demo_weights
from iqaction.cache import cache_folder


def main(quant: str, port: str) -> None:
    """Becomes the server. It ends with its standard input, whose other end it holds itself."""
    weights = demo_weights.weights(cache_folder(os.environ), None, quant)
    read_end, write_end = os.pipe()
    os.dup2(read_end, 0)
    os.set_inheritable(write_end, True)
    program = Path(iqaction.__file__).with_name("_llama_server.py")
    command = [sys.executable, "-I", str(program), str(weights), f"--port={int(port)}"]
    command += [f"--packages={demo_engine.package_folder()}", "--alias=SmolLM2-135M-Instruct"]
    command += ["--ctx=1024", f"--threads={min(2, demo_engine.cores())}"]
    os.execv(command[0], command)  # noqa: S606 - our own program, no shell wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
