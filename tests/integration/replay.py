"""A server in a process of its own that says what a real engine once said.

    python -I replay.py MEMORY PORT [--starts FILE] [--delay SECONDS] [--print FILE] [--say FILE]

Each start adds a line to FILE. A question that was never asked (is it ready?) gets an answer to
another one. What is to be printed goes to the log first, byte by byte as it is. What is to be said
takes the place of the model's texts and of its name, so that all candidate texts differ.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from integration.stand_in import CHAT, Ask, Memory, Said, StandIn, swapped


def altered(body: Any, said: str) -> Any:
    """An answer with ``said`` for the model's name and for the first token of each text."""
    if isinstance(body, list):
        return [altered(x, said) for x in body]
    if not isinstance(body, dict):
        return body
    new = {k: altered(v, said) for k, v in body.items()}
    for name in ("model", "model_alias", "name", "id", "content"):
        if isinstance(new.get(name), str) and not new[name].startswith("chatcmpl"):
            new[name] = said
    rows = (new.get("logprobs") or {}).get("content") if "logprobs" in new else None
    if rows:
        rows[0] = {**swapped(rows[0], 4), "token": said, "id": rows[0]["top_logprobs"][4]["id"]}
    return new


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("memory", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--starts", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--print", type=Path)
    parser.add_argument("--say", type=Path)
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

    said = args.say.read_text() if args.say else ""

    def tell(ask: Ask, answer: Said) -> Said:
        return answer.with_body(altered(answer.body, said)) if said else answer

    with StandIn(hear=hear, tell=tell, memory=memory, port=args.port):
        print("listening", flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
