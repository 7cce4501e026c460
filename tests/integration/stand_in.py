"""A real HTTP server between the client and a real engine, which may alter what it passes on.

It listens on the loopback address only. What an engine once said is remembered and said again to
the same question (greedy answers repeat), so that a fault costs only the questions it changes.

    with StandIn(server.url, tell=lambda ask, said: ...) as between:
        session.run(RunOptions(endpoint=between.url, ...))
"""

from __future__ import annotations

import copy
import http.client
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

CHAT = "/v1/chat/completions"
FORCE = "/completion"
_SLOW_S = 300


@dataclass(frozen=True)
class Ask:
    """One request as it came in; ``body`` is parsed JSON, None where there is none."""

    method: str
    path: str
    body: Any = None

    @property
    def key(self) -> str:
        return f"{self.method} {self.path} {json.dumps(self.body, sort_keys=True)}"


@dataclass(frozen=True)
class Said:
    """One answer."""

    status: int
    data: bytes
    type: str = "application/json"

    @property
    def body(self) -> Any:
        return json.loads(self.data)

    def with_body(self, body: object) -> Said:
        return Said(self.status, json.dumps(body).encode(), self.type)


@dataclass
class Memory:
    """What an engine has said, by question. ``fresh`` counts the questions it was really asked."""

    said: dict[str, Said] = field(default_factory=dict)
    fresh: int = 0


Hear = Callable[[Ask], "Ask | Said"]
Tell = Callable[[Ask, Said], Said]


class StandIn:
    """See the module's docstring.

    Parameters
    ----------
    engine
        The real server's URL; "" where every answer is made up by ``hear``.
    hear
        Given each request; may change it, or answer it itself.
    tell
        Given each request (as it came) and the engine's answer; may change the answer.
    memory
        Of the same engine, shared between stand-ins.
    port
        0: a free one.
    """

    def __init__(
        self,
        engine: str = "",
        *,
        hear: Hear | None = None,
        tell: Tell | None = None,
        memory: Memory | None = None,
        port: int = 0,
    ) -> None:
        self.asked: list[Ask] = []
        self.memory = Memory() if memory is None else memory
        self._engine, self._hear, self._tell = engine, hear, tell
        self._lock = threading.Lock()
        self._busy = threading.Condition()
        self._now = 0  # requests being answered
        self._server = _Server(("127.0.0.1", port), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, path: str) -> int:
        """How often a path was asked."""
        return sum(a.path == path for a in list(self.asked))

    def answer(self, ask: Ask) -> Said:
        """The answer to a request, altered as it is to be."""
        with self._busy:
            self.asked.append(ask)
            self._now += 1
        try:
            passed = self._hear(ask) if self._hear else ask
            said = passed if isinstance(passed, Said) else self.of_engine(passed)
            return self._tell(ask, said) if self._tell and said.status == 200 else said
        finally:
            with self._busy:
                self._now -= 1
                self._busy.notify_all()

    def turn_to(self, engine: str) -> None:
        """From now on ask that server."""
        self._engine = engine

    def settle(self) -> None:
        """Wait until no request is being answered."""
        with self._busy:
            assert self._busy.wait_for(lambda: self._now == 0, _SLOW_S)

    def of_engine(self, ask: Ask) -> Said:
        """The engine's own answer: remembered where it was asked this before."""
        known = self.memory.said.get(ask.key)
        if known is not None:
            return known
        if not self._engine:
            return Said(404, b'{"error": {"message": "nobody to ask"}}')
        address = urlsplit(self._engine)
        wire = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_SLOW_S)
        try:
            data = None if ask.body is None else json.dumps(ask.body)
            wire.request(ask.method, ask.path, data, {"Content-Type": "application/json"})
            reply = wire.getresponse()
            said = Said(reply.status, reply.read(), reply.headers.get("Content-Type", ""))
        finally:
            wire.close()
        with self._lock:
            self.memory.fresh += 1
            if said.status == 200:
                self.memory.said[ask.key] = said
        return said


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # else a client was killed
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _handler(between: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on(None)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            data = self.rfile.read(length)
            if len(data) < length:  # the client was killed
                self.close_connection = True
                return
            self._pass_on(json.loads(data))

        def _pass_on(self, body: object) -> None:
            said = between.answer(Ask(self.command, self.path, body))
            head = f"HTTP/1.1 {said.status} X\r\nContent-Type: {said.type}\r\n"
            head += f"Content-Length: {len(said.data)}\r\n\r\n"
            try:  # in one piece: two would wait for each other's acknowledgement
                self.wfile.write(head.encode() + said.data)
            except ConnectionError:  # the client was killed
                self.close_connection = True

        def log_message(self, *args: object) -> None: ...

    return Handler


def swapped(row: Mapping[str, Any], place: int) -> dict[str, Any]:
    """A row in which the first listed token and the one at ``place`` have changed places.

    The values stay where they are; the row's own token takes the value of its new place.
    """
    new: dict[str, Any] = copy.deepcopy(dict(row))
    top = new["top_logprobs"]
    first, other = top[0], top[min(place, len(top) - 1)]
    first["logprob"], other["logprob"] = other["logprob"], first["logprob"]
    top.sort(key=lambda t: -t["logprob"])
    new["logprob"] = next((t["logprob"] for t in top if t["id"] == new["id"]), new["logprob"])
    return new
