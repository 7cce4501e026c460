"""A server in a process of its own that says what a real engine once said.

    python -I replay.py MEMORY PORT [--starts FILE] [--delay SECONDS] [--print FILE]

Each start adds a line to FILE. A question that was never asked (is it ready?) gets an answer to
another one. What is to be printed goes to the log first, byte by byte as it is.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from integration.stand_in import CHAT, Ask, Memory, Said, StandIn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("memory", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--starts", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--print", type=Path)
    args = parser.parse_args()
    memory: Memory = pickle.loads(args.memory.read_bytes())
    known = next(s for key, s in memory.said.items() if key.startswith(f"POST {CHAT}"))
    if args.starts:
        with args.starts.open("a") as file:
            file.write("started\n")
    if args.print:
        sys.stdout.buffer.write(args.print.read_bytes())
        sys.stdout.flush()

    def hear(ask: Ask) -> Ask | Said:
        if ask.path == CHAT and ask.key not in memory.said:
            return known
        time.sleep(args.delay)
        return ask

    with StandIn(hear=hear, memory=memory, port=args.port):
        print("listening", flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
