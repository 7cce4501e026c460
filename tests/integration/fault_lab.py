"""A proxy that loses, damages, delays and mixes up what passes between the client and an engine.

It owns the sockets: it can cut an answer at any byte, reset a connection, keep silent, and stop
listening. What the engine says comes from a stand-in, so that each question is really computed
once, and a run with faults can be compared with one without.

    faults = Faults(tuple(Fault), rate=0.1)
    with StandIn(server.url, memory=memory) as engine, FaultLab(engine, faults) as lab:
        session.run(RunOptions(endpoint=lab.url, ...))
    print(faults.injected)
"""

from __future__ import annotations

import contextlib
import email.utils
import enum
import gzip
import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, BinaryIO

from integration.stand_in import CHAT, FORCE, Ask, Said, StandIn

CAP = 1 << 20  # bytes: the client's limit for an answer in these tests
_PIECES = 12  # of a trickle
_PARTNER_S = 0.1  # how long an answer waits for another one to be exchanged with


class Fault(str, enum.Enum):
    """What happens to one request or its answer."""

    ERROR_500 = "500 with a JSON error"
    PAGE_502 = "502 with an HTML page"
    BUSY_SECONDS = "429, Retry-After in seconds"
    BUSY_DATE = "429, Retry-After as a date"
    RESET_BEFORE = "reset before the answer"
    RESET_WITHIN = "reset within the body"
    TRUNCATED = "truncated JSON of the length told"
    HANG = "silence, then the answer"
    TRICKLE = "bytes that trickle in"
    TOO_LONG = "longer length told than sent"
    SURPLUS = "shorter length told than sent"
    BOMB = "gzip bomb"
    TWICE = "answer twice at once"
    TWICE_LATE = "answer again before the next one"
    SWAPPED = "answers of two requests exchanged"
    RESTART = "endpoint gone, and back"
    ABORTED = "200 with finish_reason abort"


# Token ids that come late or to another text of that length are not tried with the others: they
# have nothing by which they could be told from an answer. An abort is a matter of texts.
ONLY: Mapping[Fault, tuple[str, ...]] = {
    Fault.ABORTED: (CHAT,),
    Fault.TWICE_LATE: (CHAT, FORCE),
    Fault.SWAPPED: (CHAT, FORCE),
}


@dataclass
class Faults:
    """Which requests are hit, and by what; counts what was done.

    Attributes
    ----------
    rate
        Share of the requests, decided for each by itself: one that is sent again is one more.
    among
        Which requests may be hit at all.
    only
        The paths on which a kind is injected, where that is not all.
    exchanges
        How often the answer to one question is exchanged at most. Draws (a temperature) never are:
        one is as good as another, and repeated from memory it is not independent of it.
    most
        How often a kind that takes long is injected at most.
    """

    kinds: tuple[Fault, ...] = tuple(Fault)
    rate: float = 0.1
    seed: int = 1
    among: Callable[[Ask], bool] = lambda ask: True
    most: Mapping[Fault, int] = field(default_factory=lambda: {Fault.RESTART: 3})
    exchanges: int = 1
    only: Mapping[Fault, tuple[str, ...]] = field(default_factory=lambda: ONLY)
    injected: Counter[Fault] = field(default_factory=Counter)
    requests: int = 0
    _nth: Counter[str] = field(default_factory=Counter)
    _exchanged: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, ask: Ask) -> Fault | None:
        """What befalls a request. The same question asked for the nth time meets the same, in
        whatever order threads ask."""
        with self._lock:
            self.requests += 1
            self._nth[ask.key] += 1
            rng = random.Random(f"{self.seed} {self._nth[ask.key]} {ask.key}")
        hit, fault = rng.random() < self.rate, rng.choice(self.kinds)
        if not hit or not self.among(ask) or ask.path not in self.only.get(fault, (ask.path,)):
            return None
        with self._lock:
            return None if self.injected[fault] >= self.most.get(fault, 1 << 30) else fault

    def count(self, fault: Fault) -> None:
        with self._lock:
            self.injected[fault] += 1

    def may_be_exchanged(self, ask: Ask) -> bool:
        if ask.path not in self.only.get(Fault.SWAPPED, (ask.path,)):
            return False
        is_draw = isinstance(ask.body, dict) and bool(ask.body.get("temperature"))
        return not is_draw and self._exchanged[ask.key] < self.exchanges

    def exchanged(self, ask: Ask) -> None:
        self.count(Fault.SWAPPED)
        with self._lock:
            self._exchanged[ask.key] += 1


@dataclass(frozen=True)
class Sent:
    """Bytes for a socket, and what becomes of the connection then."""

    data: bytes
    then: str = "open"  # or "close", or "reset"


def http(said: Said, *, length: int | None = None, more: Mapping[str, str] | None = None) -> bytes:
    """An answer as it goes over the wire."""
    told = len(said.data) if length is None else length
    head = {"Content-Type": said.type, "Content-Length": str(told), **(more or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {said.status} X\r\n{lines}\r\n".encode() + said.data


def aborted(said: Said) -> Said:
    """A chat answer that the engine gave up half-way, and yet calls a success."""
    body: dict[str, Any] = json.loads(said.data)
    choice = body["choices"][0]
    text = choice["message"].get("content") or ""
    choice["message"]["content"] = text[: len(text) // 2]
    choice["finish_reason"] = "abort"
    return said.with_body(body)


def _error(status: int, message: str) -> Said:
    body = {"error": {"code": status, "message": message, "type": "server_error"}}
    return Said(status, json.dumps(body).encode())


def damaged(fault: Fault, said: Said) -> Sent:
    """What goes over the wire in place of an answer, for faults that are a matter of bytes."""
    whole, half = http(said), len(said.data) // 2
    now = time.time()
    dates = {
        "Date": email.utils.formatdate(now, usegmt=True),
        "Retry-After": email.utils.formatdate(now + 1, usegmt=True),
    }
    bomb = Said(200, gzip.compress(bytes(2 * CAP)))
    forms: Mapping[Fault, Callable[[], Sent]] = {
        Fault.ERROR_500: lambda: Sent(http(_error(500, "internal error of the lab"))),
        Fault.PAGE_502: lambda: Sent(
            http(Said(502, b"<html><title>502 Bad Gateway</title></html>", "text/html"))
        ),
        Fault.BUSY_SECONDS: lambda: Sent(http(_error(429, "slow down"), more={"Retry-After": "1"})),
        Fault.BUSY_DATE: lambda: Sent(http(_error(429, "slow down"), more=dates)),
        Fault.RESET_BEFORE: lambda: Sent(b"", "reset"),
        Fault.RESET_WITHIN: lambda: Sent(whole[: len(whole) - half - 1], "reset"),
        Fault.TRUNCATED: lambda: Sent(http(Said(said.status, said.data[:half], said.type))),
        Fault.TOO_LONG: lambda: Sent(http(said, length=len(said.data) + 100), "close"),
        Fault.SURPLUS: lambda: Sent(http(said, length=half)),
        Fault.BOMB: lambda: Sent(http(bomb, more={"Content-Encoding": "gzip"})),
        Fault.TWICE: lambda: Sent(whole + whole),
        Fault.ABORTED: lambda: Sent(http(aborted(said))),
    }
    return forms[fault]()


def reset(sock: socket.socket) -> None:
    """Close without a farewell: the other side reads a reset, and not an end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RD)  # wakes the thread that reads, and sends nothing
    sock.close()


@dataclass
class _Offer:
    """An answer that waits to be exchanged with another one."""

    mine: Said
    theirs: Said | None = None


class FaultLab:
    """See the module's docstring.

    Parameters
    ----------
    engine
        Answers what is asked.
    silence
        Seconds of a hang, and of a trickle in all.
    absence
        Seconds for which a restart takes the endpoint away.
    port
        0: a free one.
    """

    def __init__(
        self,
        engine: StandIn,
        faults: Faults,
        *,
        silence: float = 0.2,
        absence: float = 0.5,
        port: int = 0,
    ) -> None:
        self.engine, self.faults = engine, faults
        self._silence, self._absence = silence, absence
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._meeting = threading.Condition()
        self._offer: _Offer | None = None
        self._refuses = False
        self._listener: socket.socket | None = None
        self.port = port
        self.listen()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FaultLab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.leave()

    def listen(self) -> None:
        """Begin to accept connections, at the same port each time."""
        listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self.port = listener.getsockname()[1]
        with self._lock:
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def leave(self) -> None:
        """Refuse connections from now on, and reset those that are open."""
        with self._lock:
            listener, self._listener = self._listener, None
            connections, self._open = self._open, set()
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        for sock in connections:
            reset(sock)

    def restart(self) -> None:
        """Leave, and come back after a while; does nothing while it is away."""
        with self._lock:
            if self._listener is None:
                return
        self.leave()
        time.sleep(self._absence)
        self.listen()

    def break_down(self) -> None:
        """From now on accept every connection and reset it at its first request."""
        self._refuses = True

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                gone = self._listener is not listener
                if not gone:
                    self._open.add(sock)
            if gone:
                reset(sock)
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with sock.makefile("rb") as stream:
                self._answer_all(sock, stream)
        except (OSError, ValueError):
            pass  # the client, or the lab itself, ended it
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()

    def _answer_all(self, sock: socket.socket, stream: BinaryIO) -> None:
        then, late = "open", b""
        for ask in _asks(stream):
            then, late = self._answer(sock, ask, late)
            if then != "open":
                break
        if then == "reset":
            reset(sock)

    def _answer(self, sock: socket.socket, ask: Ask, late: bytes) -> tuple[str, bytes]:
        """Answer one request: what becomes of the connection, and what is left for the next one."""
        fault = self.faults.of(ask)
        if self._refuses:
            return "reset", b""
        if fault is Fault.RESTART:
            self.faults.count(fault)
            self.restart()
            return "reset", b""
        try:
            said = self.engine.answer(ask)
        except (OSError, HTTPException):  # the engine itself has gone
            return "reset", b""
        if late:
            self.faults.count(Fault.TWICE_LATE)
        sent = self._sent(ask, fault, said, late)
        if sock not in self._open:  # the endpoint left meanwhile
            return "reset", b""
        self._write(sock, sent, slowly=fault is Fault.TRICKLE)
        return sent.then, http(said) if fault is Fault.TWICE_LATE else b""

    def _sent(self, ask: Ask, fault: Fault | None, said: Said, late: bytes) -> Sent:
        """What is sent to one request: ``late`` is what an earlier one left over."""
        if self.faults.may_be_exchanged(ask):
            exchanged = self._exchanged(said, begin=fault is Fault.SWAPPED)
            if exchanged is not None:
                self.faults.exchanged(ask)
                return Sent(late + http(exchanged))
        if fault is None or fault in (Fault.SWAPPED, Fault.TWICE_LATE):
            return Sent(late + http(said))
        self.faults.count(fault)
        if fault is Fault.HANG:
            time.sleep(self._silence)
        if fault in (Fault.HANG, Fault.TRICKLE):
            return Sent(late + http(said))
        sent = damaged(fault, said)
        return Sent(late + sent.data, sent.then)

    def _write(self, sock: socket.socket, sent: Sent, *, slowly: bool) -> None:
        size = max(1, -(-len(sent.data) // _PIECES)) if slowly else max(1, len(sent.data))
        for at in range(0, len(sent.data), size):
            sock.sendall(sent.data[at : at + size])
            if slowly:
                time.sleep(self._silence / _PIECES)

    def _exchanged(self, said: Said, *, begin: bool) -> Said | None:
        """The answer of another request, which gets this one's; None where there is none."""
        with self._meeting:
            if self._offer is not None:
                other, self._offer = self._offer, None
                other.theirs = said
                self._meeting.notify_all()
                return other.mine
            if not begin:
                return None
            mine = self._offer = _Offer(said)
            self._meeting.wait_for(lambda: mine.theirs is not None, _PARTNER_S)
            if self._offer is mine:
                self._offer = None
            return mine.theirs


def _asks(stream: BinaryIO) -> Iterator[Ask]:
    """The requests of one connection."""
    while line := stream.readline(1 << 16):
        method, path, _ = line.decode("latin-1").split(" ", 2)
        length = 0
        while (header := stream.readline(1 << 16)).strip():
            name, _, value = header.decode("latin-1").partition(":")
            if name.lower() == "content-length":
                length = int(value)
        data = stream.read(length)
        if len(data) < length:
            return
        yield Ask(method, path, json.loads(data) if data else None)
