"""What sending a request costs: our client against its peers, on one stub server.

    python benchmarks/client.py [--requests 1319] [--in-flight 32] [--rounds 5] [--lm-eval PYTHON]

The stub is a process of its own that answers every chat with the same 1 kB after a fixed time.
CPU: this process's, per request, at 5 ms; ours is ``Wire.send`` at the boundary of http.py (a
request of a dialect in, a parsed answer out), the peer ``requests.Session.post`` with its answer
parsed, both on one pool for all threads. Wall: of all requests at 50 ms, against threads that
write to raw sockets, one each, the bytes that are needed and no more. All sides run in turns, so
that a slow minute hits all alike.

Where PYTHON (or this Python) has lm-evaluation-harness, a whole gsm8k run of it is measured against
a whole one of ours, journal, judgement and report included, on the same made problems at 5 ms: CPU
time to the end and to the first request, and peak memory, of one process each.

Exit status 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import queue
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout needs no install

import requests
from requests.adapters import HTTPAdapter

from iqaction.engines._base import WireRequest
from iqaction.http import Wire

ROOT = Path(__file__).resolve().parent.parent
CPU_GOAL, WALL_GOAL = 0.55, 1.05
WHOLE_GOAL, MEMORY_GOAL, FIRST_GOAL = 1 / 8, 1 / 6, 0.37  # the last in CPU seconds
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


LISTING = {"object": "list", "data": [{"id": "m", "owned_by": "vllm", "max_model_len": 8192}]}


def packed(body: object) -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    return f"{head}\r\n\r\n".encode() + data


class Stub(asyncio.Protocol):
    """One connection of the stub: reads a request, answers a chat ``delay`` seconds later."""

    delay = 0.0
    first: Connection | None  # is told of the first chat
    chat, listing = packed(ANSWER), packed(LISTING)
    missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

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
            if head.startswith(b"post"):
                if Stub.first is not None:
                    Stub.first.send(True)
                    Stub.first = None
                asyncio.get_running_loop().call_later(self.delay, self.answer, self.chat)
            else:
                self.answer(self.listing if b" /v1/models " in head else self.missing)

    def answer(self, reply: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(reply)


def serve(told: Connection, delay: float) -> None:
    """Serve until the process is ended; tells its port, then when the first chat has come."""
    Stub.delay, Stub.first = delay, told

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class Server:
    """The stub in its own process."""

    def __init__(self, delay: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.told, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there, delay), daemon=True)
        self.process.start()
        self.url = f"http://127.0.0.1:{self.told.recv()}"

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


PLAN = """\
stages:
  - gsm8k: {{data: problems.jsonl, limit: {count}, concurrency: {threads}}}
"""
TASK = """\
task: made
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "{{{{answer.split('####')[-1].strip()}}}}"
num_fewshot: 0
generation_kwargs: {{until: ["Question:"], do_sample: false, temperature: 0.0}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
filter_list:
  - name: flexible-extract
    filter:
      - {{function: regex, group_select: -1, regex_pattern: "(-?[0-9.,]{{2,}})|(-?[0-9]+)"}}
      - {{function: take_first}}
"""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a process to its end and to its first chat, and its peak memory in MiB."""

    cpu: float
    first: float
    memory: float


def cost(command: list[str], server: Server, folder: Path) -> Cost:
    """What a command costs that asks the server; its exit status may say anything but a crash."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": "none"}
    env = {**os.environ, **offline, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
        came = server.told.poll(300)
        first = _cpu_so_far(process.pid)
        _, status, used = os.wait4(process.pid, 0)
    if not came or os.waitstatus_to_exitcode(status) not in (0, 2):  # 2: nothing to compare with
        sys.exit(f"{command[:4]} failed:\n{(folder / 'log').read_text()[-2000:]}")
    return Cost(used.ru_utime + used.ru_stime, first, used.ru_maxrss / 1024)


def _cpu_so_far(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def whole(python: str, count: int, threads: int) -> dict[str, Cost]:
    """A whole gsm8k run of ours and of lm-evaluation-harness; empty where that is not there."""
    has = [python, "-c", "import lm_eval"]
    if (
        not Path("/proc/self/stat").is_file()
        or subprocess.run(has, check=False, stderr=subprocess.DEVNULL).returncode
    ):
        return {}
    # As an installer leaves a package; a checkout may never have been compiled.
    subprocess.run([sys.executable, "-m", "compileall", "-q", ROOT / "iqaction"], check=True)
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problems = "".join(
            json.dumps({"question": f"{i}. {QUESTION}", "answer": f"So many.\n#### {i % 90}"})
            + "\n"
            for i in range(count)
        )
        (folder / "problems.jsonl").write_text(problems)
        (folder / "plan.yml").write_text(PLAN.format(count=count, threads=threads))
        (folder / "made.yaml").write_text(TASK.format(data=folder / "problems.jsonl"))
        with Server(0.005) as server:
            run = [sys.executable, "-m", "iqaction", "run", "--plan", "plan.yml"]
            run += ["--endpoint", server.url, "--evidence", "evidence"]
            found["ours"] = cost(run, server, folder)
        with Server(0.005) as server:
            chat = f"model=m,base_url={server.url}{PATH},num_concurrent={threads}"
            run = [python, "-m", "lm_eval", "--model", "local-chat-completions"]
            run += ["--model_args", f"{chat},tokenized_requests=False", "--tasks", "made"]
            run += ["--include_path", name, "--apply_chat_template"]
            found["lm_eval"] = cost(run, server, folder)
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1319)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lm-eval", default=sys.executable, metavar="PYTHON")
    args = parser.parse_args()
    count, threads, rounds = args.requests, args.in_flight, args.rounds

    print(f"{count} requests, {threads} in flight, median of {rounds}")
    cpu = {n: c for n, (c, _) in medians(0.005, count, threads, rounds).items()}
    wall = {n: w for n, (_, w) in medians(0.050, count, threads, rounds).items()}
    for name in SIDES:
        each = cpu[name] / count * 1e6
        print(f"{name:14} {each:7.0f} us CPU a request at 5 ms  {wall[name]:6.2f} s wall at 50 ms")
    goals = [
        ("CPU a request", cpu["ours"] / cpu["Session.post"], "x Session.post", CPU_GOAL),
        ("wall at 50 ms", wall["ours"] / wall["raw sockets"], "x raw sockets", WALL_GOAL),
    ]
    runs = whole(args.lm_eval, count, threads)
    for name, run in runs.items():
        print(f"whole run, {name:8} {run.cpu:6.2f} s CPU, {run.first:.2f} s of it before the first"
              f" request, {run.memory:.0f} MiB")  # fmt: skip
    if runs:
        mine, theirs = runs["ours"], runs["lm_eval"]
        goals += [
            ("CPU of a whole run", mine.cpu / theirs.cpu, "x lm_eval", WHOLE_GOAL),
            ("memory of a whole run", mine.memory / theirs.memory, "x lm_eval", MEMORY_GOAL),
            ("CPU to the first request", mine.first, "s", FIRST_GOAL),
        ]
    else:
        print("whole run: not measured, lm-evaluation-harness is not installed (--lm-eval PYTHON)")
    for what, figure, unit, goal in goals:
        verdict = "met" if figure <= goal else "MISSED"
        print(f"{what}: {figure:.3f} {unit}, goal {goal:.3f}: {verdict}")
    return 0 if all(figure <= goal for _, figure, _, goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
