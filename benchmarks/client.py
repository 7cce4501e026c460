"""What sending a request costs: our client against its peers, on one stub server.

    python benchmarks/client.py [--requests 1319] [--in-flight 32] [--rounds 5]

The stub is a process of its own that answers every chat with the same 1 kB after a fixed time.
CPU: this process's, per request, at 5 ms; ours is ``Wire.send`` at the boundary of http.py (a
request of a dialect in, a parsed answer out), the peer ``requests.Session.post`` with its answer
parsed, both on one pool for all threads. Wall: of all requests at 50 ms, against threads that
write to raw sockets, one each, the bytes that are needed and no more. All sides run in turns, so
that a slow minute hits all alike. Where lm-evaluation-harness is installed, its whole gsm8k run is
measured against ours on the same stub: CPU time and peak memory of one process each.

Exit status 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import multiprocessing
import queue
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no install

import requests
from requests.adapters import HTTPAdapter

from iqaction.engines._base import WireRequest
from iqaction.http import Wire

CPU_GOAL, WALL_GOAL = 0.55, 1.05
PATH = "/v1/chat/completions"
QUESTION = "A baker sells 48 loaves in the morning and half as many in the afternoon. " * 4
BODY = {
    "model": "m", "max_tokens": 1024, "temperature": 0.0, "seed": 0, "stream": False,
    "messages": [{"role": "user", "content": QUESTION}],
    "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True,
}  # fmt: skip
ANSWER = {
    "id": "chatcmpl-0", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{
        "index": 0, "finish_reason": "stop", "logprobs": None,
        "message": {"role": "assistant", "content": "48 + 24 = 72 loaves. " * 40 + "#### 72"},
    }],
    "usage": {"prompt_tokens": 90, "completion_tokens": 300, "total_tokens": 390},
}  # fmt: skip


class Stub(asyncio.Protocol):
    """One connection of the stub: reads a request, answers it ``delay`` seconds later."""

    delay = 0.0
    reply = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.kept = transport, b""

    def data_received(self, data: bytes) -> None:
        self.kept += data
        while (end := self.kept.find(b"\r\n\r\n")) >= 0:
            head = self.kept[:end].lower()
            _, _, rest = head.partition(b"content-length:")
            size = end + 4 + int(rest.partition(b"\r\n")[0] or 0)
            if len(self.kept) < size:
                return
            self.kept = self.kept[size:]
            asyncio.get_running_loop().call_later(self.delay, self.answer)

    def answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self.reply)


def serve(told: Connection, delay: float) -> None:
    """Serve until the process is ended; tells its port first."""
    body = json.dumps(ANSWER).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    Stub.delay, Stub.reply = delay, f"{head}\r\n\r\n".encode() + body

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class Server:
    """The stub in its own process."""

    def __init__(self, delay: float) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there, delay), daemon=True)
        self.process.start()
        self.port: int = here.recv()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.join()


Ask = Callable[[], object]
Make = Callable[[], Ask]  # one thread's way to ask


def in_flight(make: Make, count: int, threads: int) -> tuple[float, float]:
    """CPU and wall seconds of ``count`` requests by so many threads, connections made before."""
    work: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(count):
        work.put(i)
    ready, go = threading.Barrier(threads + 1), threading.Event()

    def thread() -> None:
        ask = make()
        ask()
        ready.wait()
        go.wait()
        try:
            while True:
                work.get_nowait()
                ask()
        except queue.Empty:
            return

    running = [threading.Thread(target=thread) for _ in range(threads)]
    for one in running:
        one.start()
    ready.wait()
    cpu, wall = time.process_time(), time.perf_counter()
    go.set()
    for one in running:
        one.join()
    return time.process_time() - cpu, time.perf_counter() - wall


def ours(url: str, threads: int) -> Make:
    wire = Wire(url, concurrency=threads)

    def ask() -> None:
        reply = wire.send(WireRequest("POST", PATH, BODY))
        assert reply.status == 200 and reply.body is not None, reply

    return lambda: ask


def session_post(url: str, threads: int) -> Make:
    session = requests.Session()
    session.mount("http://", HTTPAdapter(pool_maxsize=threads))

    def ask() -> None:
        reply = session.post(url + PATH, json=BODY, timeout=600)
        assert reply.status_code == 200 and reply.json()

    return lambda: ask


def raw_socket(url: str, _: int) -> Make:
    host, _, port = url.removeprefix("http://").partition(":")

    def make() -> Ask:
        sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask() -> None:
            body = json.dumps(BODY).encode()
            head = f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            sock.sendall(head.encode() + body)
            data = b""
            while b"\r\n\r\n" not in data:
                data += sock.recv(65536)
            head_, _, got = data.partition(b"\r\n\r\n")
            size = int(head_.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            while len(got) < size:
                got += sock.recv(65536)
            assert json.loads(got)

        return ask

    return make


SIDES = {"ours": ours, "Session.post": session_post, "raw sockets": raw_socket}


def medians(delay: float, count: int, threads: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median CPU and wall seconds by side, the sides in turns."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SIDES}
    with Server(delay) as server:
        for _ in range(rounds):
            for name, side in SIDES.items():
                found[name].append(in_flight(side(server.url, threads), count, threads))
    return {
        name: (statistics.median(c for c, _ in times), statistics.median(w for _, w in times))
        for name, times in found.items()
    }


def whole() -> str:
    """Why the whole run was not measured."""
    if importlib.util.find_spec("lm_eval") is None:
        return "whole gsm8k run: not measured, lm-evaluation-harness is not installed here"
    return "whole gsm8k run: not measured"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1319)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    count, threads, rounds = args.requests, args.in_flight, args.rounds

    print(f"{count} requests, {threads} in flight, median of {rounds}")
    cpu = {n: c for n, (c, _) in medians(0.005, count, threads, rounds).items()}
    wall = {n: w for n, (_, w) in medians(0.050, count, threads, rounds).items()}
    for name in SIDES:
        each = cpu[name] / count * 1e6
        print(f"{name:14} {each:7.0f} us CPU a request at 5 ms  {wall[name]:6.2f} s wall at 50 ms")
    ratios = (
        ("CPU a request", cpu["ours"] / cpu["Session.post"], "Session.post", CPU_GOAL),
        ("wall at 50 ms", wall["ours"] / wall["raw sockets"], "raw sockets", WALL_GOAL),
    )
    for what, ratio, peer, goal in ratios:
        verdict = "met" if ratio <= goal else "MISSED"
        print(f"{what}: {ratio:.2f} x {peer}, goal {goal}: {verdict}")
    print(whole())
    return 0 if all(ratio <= goal for _, ratio, _, goal in ratios) else 1


if __name__ == "__main__":
    sys.exit(main())
