"""The client against a real socket that misbehaves on purpose."""

from __future__ import annotations

import gc
import gzip
import inspect
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
import urllib3

from iqaction import http
from iqaction._address import Address
from iqaction.calls import Arm, Chat, EngineInfo, Failure, FailureKind, Message, Tag, digest
from iqaction.engines import openai
from iqaction.engines._base import WireReply, WireRequest
from iqaction.errors import ConfigError
from iqaction.http import Wire, converse, failure_kind

GET = WireRequest("GET", "/v1/models")
POST = WireRequest("POST", "/v1/chat/completions", {"a": 1})
CAREFUL = WireRequest("POST", "/v1/completions", {"a": 1}, retry=False)
Act = bytes | Callable[[socket.socket], None]


def ok(
    body: object = None, status: str = "200 OK", raw: bytes | None = None, **headers: str
) -> bytes:
    data = raw if raw is not None else json.dumps(body if body is not None else {"ok": 1}).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}"]
    lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def html(status: str, text: str = "") -> bytes:
    page = text or f"<html><head><title>{status}</title></head></html>"
    return ok(status=status, raw=page.encode(), Content_Type="text/html")


def hang_up(sock: socket.socket) -> None:
    """Close without a word."""


class Server:
    """Plays its acts in order, one a request; the last one stays. Keeps connections alive."""

    def __init__(self, *acts: Act, port: int = 0) -> None:
        self.acts = list(acts)
        self.requests: list[str] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", port))
        self._threads: list[threading.Thread] = []
        self._clients: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._run(self._accept)

    def _run(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._clients.append(client)
            self._run(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client:
            stream = client.makefile("rb")
            with stream:
                try:
                    while self._one(client, stream):
                        pass
                except OSError:
                    return

    def _one(self, client: socket.socket, stream: Any) -> bool:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline()
            if not line:
                return False
            head += line
        length = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
        body = stream.read(int(length[0].split(b":")[1])) if length else b""
        with self._lock:
            self.requests.append((head + body).decode())
            act = self.acts.pop(0) if len(self.acts) > 1 else self.acts[0]
        if callable(act):
            act(client)
            return False
        client.sendall(act)
        return True

    def stop(self) -> None:
        self._socket.close()
        for client in self._clients:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads[1:]:
            thread.join(2)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(*acts: Act, port: int = 0) -> Server:
        servers.append(Server(*acts, port=port))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


class Slept(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def wire() -> Iterator[Callable[..., Wire]]:
    wires: list[Wire] = []

    def make(url: str, **given: Any) -> Wire:
        given.setdefault("sleep", Slept())
        given.setdefault("read_timeout", 5.0)
        wires.append(Wire(url, **given))
        return wires[-1]

    yield make
    for one in wires:
        one.close()


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("", "/v1/models", "/v1/models"),
        ("/v1", "/v1/models", "/v1/models"),
        ("/v1/", "/tokenize", "/tokenize"),
        ("/llm/v1", "/v1/models", "/llm/v1/models"),
        ("/llm", "/props", "/llm/props"),
        ("/v1?api-version=3", "/v1/models", "/v1/models?api-version=3"),
    ],
)
def test_url__with_and_without_v1(
    serve: Callable[..., Server],
    wire: Callable[..., Wire],
    base: str,
    path: str,
    expected: str,
) -> None:
    """A base URL may end in /v1 or not; root paths go to the root."""
    server = serve(ok())
    wire(server.url + base).send(WireRequest("GET", path))

    assert server.requests[0].startswith(f"GET {expected} HTTP/1.1")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://host/",
        "http://",
        "http://[::1",
        "http://h:99999/",
        "file:///etc",
    ],
)
def test_url__what_cannot_be_a_server_is_a_configuration_error(url: str) -> None:
    """The message does not repeat the address, which may hold a password."""
    with pytest.raises(ConfigError) as caught:
        Wire(url)

    assert caught.value.expected


def test_url__secrets_in_it_are_sent_and_never_shown(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """User and password become a header; they and the query show nowhere."""
    server = serve(hang_up)
    url = server.url.replace("http://", "http://me:pa%40ssword@") + "/v1?token=abcdefgh"
    one = wire(url)
    reply = one.send(POST)

    assert one.shown_url() == server.url + "/v1"
    assert "Authorization: Basic bWU6cGFAc3N3b3Jk" in server.requests[0]
    assert "?token=abcdefgh" in server.requests[0]
    assert reply.failure is FailureKind.RESET
    for secret in ("pa@ssword", "pa%40ssword", "abcdefgh", "bWU6cGFAc3N3b3Jk"):
        assert secret not in repr(reply)


@pytest.mark.parametrize("key", ["sk-secret-1234", "a/b+c==d", 'q"uote'])
def test_key__is_a_header_and_blotted_out_of_every_answer(
    serve: Callable[..., Server], wire: Callable[..., Wire], key: str
) -> None:
    """A server that repeats the key, in an error or a header, does not make us show it."""
    said = {"error": {"message": f"Incorrect API key provided: {key}"}}
    server = serve(ok(said, "401 Unauthorized", Location=f"/?k={key}"))
    one = wire(server.url, api_key=key)
    reply = one.send(GET)

    assert f"Authorization: Bearer {key}\r\n" in server.requests[0]
    assert key not in repr(reply)
    assert json.dumps(key)[1:-1] not in json.dumps(reply.body)
    assert "***" in json.dumps(reply.body)
    assert key not in repr(one.__dict__["_address"].shown)


def test_key__cut_by_a_stream(serve: Callable[..., Server], wire: Callable[..., Wire]) -> None:
    """A model that repeats the key piece by piece shows it in no piece, and in the whole text."""
    pieces = ("your key is sk-sec", "ret-12", "34.")
    chunks = [json.dumps({"choices": [{"delta": {"content": p}}]}) for p in pieces]
    raw = "".join(f"data: {chunk}\n\n" for chunk in chunks).encode()
    reply = wire(serve(ok(raw=raw)).url, api_key="sk-secret-1234").send(POST)

    assert "your key is ***." in json.dumps(reply.body)
    assert "sk-secret-1234" not in repr(reply)


def test_key__a_short_one_does_not_spoil_texts(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Servers without a key are often given "x": a text with an x in it stays."""
    server = serve(ok({"text": "a box"}), ok({"error": "bad key x"}, "401 Unauthorized"))
    one = wire(server.url, api_key="x")

    assert one.send(GET).body == {"text": "a box"}
    assert "x" not in json.dumps(one.send(GET).body)


@pytest.mark.parametrize("key", ["with blank", "line\n", "tab\t", "ümlaut"])
def test_key__one_that_cannot_be_a_header_is_refused(key: str) -> None:
    """A line break in a key would be a header of its own."""
    with pytest.raises(ConfigError) as caught:
        Wire("http://h", api_key=key)

    assert key not in str(caught.value)


def test_send__connections_are_kept(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Many requests need one connection."""
    server = serve(ok())
    one = wire(server.url)
    for _ in range(5):
        assert one.send(POST).body == {"ok": 1}

    assert server.connections == 1


def test_send__many_threads_share_the_pool(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Each thread gets the answer to its own request."""
    server = serve(ok())
    one = wire(server.url, concurrency=8)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: one.send(POST).body, range(64)))

    assert replies == [{"ok": 1}] * 64
    assert server.connections <= 8


def test_send__environment_proxies_are_ignored(
    serve: Callable[..., Server], wire: Callable[..., Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine is spoken to directly, whatever HTTP_PROXY says."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert wire(serve(ok()).url).send(GET).status == 200


@pytest.mark.parametrize(
    ("base", "line"),
    [
        ("", "GET /v1/models HTTP/1.1"),
        ("/v1?key=a%2Fb/c", "GET /v1/models?key=a%2Fb/c HTTP/1.1"),
        ("/a/b%20c/v1", "GET /a/b%20c/v1/models HTTP/1.1"),
    ],
)
def test_send__the_path_on_the_wire(
    serve: Callable[..., Server], wire: Callable[..., Wire], base: str, line: str
) -> None:
    """It is what requests itself would send."""
    server = serve(ok())
    address = Address(server.url + base, "").url("/v1/models")
    requests.get(address, timeout=5)
    wire(server.url + base).send(GET)

    assert [r.partition("\r\n")[0] for r in server.requests] == [line, line]


def test_send__uses_the_adapters_of_a_given_session(serve: Callable[..., Server]) -> None:
    """Tests and callers may bring their own transport."""
    server = serve(ok())
    with requests.Session() as session:
        assert Wire(server.url, session=session).send(GET).status == 200


@pytest.mark.parametrize(
    ("acts", "attempts", "kind"),
    [
        ([hang_up, ok()], 2, None),
        ([hang_up], 2, FailureKind.RESET),
        ([ok({"error": "boom"}, "500 Internal Server Error"), ok()], 2, None),
        ([ok({"error": "boom"}, "424 Failed Dependency"), ok()], 2, None),
        ([html("502 Bad Gateway"), ok()], 2, None),
        ([html("504 Gateway Time-out")], 3, FailureKind.PROXY),
        ([ok({}, "429 Too Many Requests"), ok()], 2, None),
        ([ok({}, "503 Service Unavailable")], 5, FailureKind.BUSY),
        ([ok(raw=b'{"a": [1, 2'), ok()], 2, None),
        ([ok(raw=b'{"a": [1, 2')], 3, FailureKind.TRUNCATED_BODY),
        ([ok(raw=b'{"a": 1, "a": 2}'), ok()], 2, None),
        ([ok(raw=b'{"a": 1, "a": 2}')], 2, FailureKind.MALFORMED),
        ([ok(raw=b" " * 100_000), ok()], 2, None),
        ([ok(raw=b" " * 100_000)], 2, FailureKind.TOO_LARGE),
        ([ok(raw=b"<html>hello</html>")], 1, None),
        ([ok({"error": "no"}, "400 Bad Request")], 1, None),
    ],
)
def test_exchange__what_is_sent_again(
    serve: Callable[..., Server],
    wire: Callable[..., Wire],
    acts: list[Act],
    attempts: int,
    kind: FailureKind | None,
) -> None:
    """Resets, overload, proxies, cut and damaged answers are tried again, so many times."""
    server = serve(*acts)
    reply, sent = wire(server.url, max_body=50_000).exchange(POST)

    assert (reply.failure, sent) == (kind, attempts)
    assert len(server.requests) == attempts


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (ok({"error": "boom"}, "500 Internal Server Error"), None),
        (html("502 Bad Gateway"), FailureKind.PROXY),
        (ok({}, "503 Service Unavailable"), FailureKind.BUSY),
    ],
)
def test_exchange__a_careful_request_is_not_sent_again(
    serve: Callable[..., Server], wire: Callable[..., Wire], act: Act, kind: FailureKind | None
) -> None:
    """A prompt that may have killed the engine is not sent to it twice."""
    server = serve(act)
    reply, sent = wire(server.url).exchange(CAREFUL)

    assert (reply.failure, sent) == (kind, 1)


def test_exchange__a_careful_request_survives_a_stale_connection_only(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """A reset at once is an idle connection; one after a while may be a dying engine."""
    ticks = iter(range(0, 10_000, 10))
    at_once = wire(serve(hang_up, ok()).url)
    late = wire(serve(hang_up, ok()).url, clock=lambda: float(next(ticks)))

    assert at_once.exchange(CAREFUL)[1] == 2
    assert late.exchange(CAREFUL)[0].failure is FailureKind.RESET


def test_exchange__the_second_try_uses_a_fresh_connection(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """A pool of stale connections must not eat the retry."""
    server = serve(ok(), hang_up, ok())
    one = wire(server.url)
    one.send(POST)
    reply, sent = one.exchange(POST)

    assert (reply.status, sent) == (200, 2)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "0.5"}, 0.5),
        ({"Retry_After": "86400"}, 60.0),
        ({"Retry_After": "-5"}, 1.0),
        ({"Retry_After": "soon"}, 1.0),
        ({"Retry_After": "9" * 400}, 1.0),
        ({}, 1.0),
        (
            {
                "Retry_After": "Wed, 21 Oct 2026 07:28:20 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            20.0,
        ),
        (
            {
                "Retry_After": "Wed, 21 Oct 2099 07:28:00 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            60.0,
        ),
        ({"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"Retry_After": "Wed, 99 Foo 2015"}, 1.0),
    ],
)
def test_exchange__retry_after(
    serve: Callable[..., Server],
    wire: Callable[..., Wire],
    headers: dict[str, str],
    expected: float,
) -> None:
    """Seconds and dates are honoured, by the server's own clock, up to a minute."""
    slept = Slept()
    server = serve(ok({}, "429 Too Many Requests", **headers), ok())
    reply = wire(server.url, sleep=slept).send(POST)

    assert reply.status == 200
    assert slept == ([expected] if expected else [])


def test_exchange__waits_grow_without_advice(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """1, 2, 4, 8 seconds, then the endpoint is busy."""
    slept = Slept()
    wire(serve(ok({}, "503 Service Unavailable")).url, sleep=slept).send(POST)

    assert slept == [1.0, 2.0, 4.0, 8.0]


def test_send__nobody_there(wire: Callable[..., Wire]) -> None:
    """A refused connection is not tried again and is told from a broken one."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    reply, sent = wire(f"http://127.0.0.1:{port}").exchange(GET)

    assert (reply.failure, sent) == (FailureKind.CONNECT, 1)
    assert "refused" in reply.message.lower()


def test_exchange__more_tries(serve: Callable[..., Server], wire: Callable[..., Wire]) -> None:
    """Who has much to lose tries longer; a busy server is waited for as long as ever."""
    failing = wire(serve(ok({}, "500 Internal Server Error")).url, more_tries=2)
    busy = wire(serve(ok({}, "503 Service Unavailable")).url, more_tries=2)

    assert failing.exchange(GET)[1] == 4
    assert busy.exchange(GET)[1] == 5


class Away:
    """A port at which nobody listens until so many seconds of its clock are over."""

    def __init__(self, serve: Callable[..., Server], back_after: float, *acts: Act) -> None:
        self._serve, self._back_after, self._acts = serve, back_after, acts
        with socket.create_server(("127.0.0.1", 0)) as unused:
            self.port = unused.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.now = 0.0
        self.server: Server | None = None
        self.said: list[str] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.server is None and self.now >= self._back_after:
            self.server = self._serve(*self._acts, port=self.port)

    def wire(self, make: Callable[..., Wire], **given: Any) -> Wire:
        return make(self.url, sleep=self.sleep, clock=self.clock, note=self.said.append, **given)


def test_absence__an_endpoint_that_comes_back(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """It is waited for, while it loads too; the request was sent once, and that is told once."""
    loading = [ok({}, "503 Service Unavailable")] * 30  # more than a busy server is asked
    away = Away(serve, 5.0, *loading, ok())
    one = away.wire(wire, patience=60.0)

    assert one.exchange(CAREFUL)[0].status == 200
    assert one.absence.ended == 1
    assert away.now == pytest.approx(20.0, abs=1.0)
    assert len(away.said) == 1
    assert "waiting up to 60 s" in away.said[0]
    assert one.exchange(CAREFUL)[1] == 1
    assert one.absence.ended == 1


def test_absence__patience_is_spent_once(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """An endpoint that stays away costs the wait once, not once for each request."""
    away = Away(serve, 1e9, ok())
    one = away.wire(wire, patience=60.0)

    failures = [one.exchange(POST)[0].failure for _ in range(5)]

    assert failures == [FailureKind.CONNECT] * 5
    assert away.now == pytest.approx(60.0)
    assert one.absence.ended == 0


def test_absence__without_patience(serve: Callable[..., Server], wire: Callable[..., Wire]) -> None:
    """Where nothing is to be waited for, a refused connection says so at once."""
    away = Away(serve, 1e9, ok())

    assert away.wire(wire).exchange(POST)[0].failure is FailureKind.CONNECT
    assert (away.now, away.said) == (0.0, [])


def test_absence__not_of_a_run_that_was_stopped(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """What was ended here says nothing of an endpoint, and nobody is told to wait for it."""
    away = Away(serve, 1e9)
    one = away.wire(wire, patience=60.0)
    one.close()

    assert one.exchange(POST)[0].message == "the run was stopped"
    assert (away.now, away.said) == (0.0, [])


def asking(n: int) -> WireRequest:
    return WireRequest("POST", "/v1/chat/completions", {"n": n})


def test_answer_ids__an_answer_to_another_question(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """An id that was there before, to another question, is asked for anew on a new connection."""
    first, second = ok({"id": "chatcmpl-1", "x": 1}), ok({"id": "chatcmpl-2", "x": 2})
    server = serve(first, first, second)
    one = wire(server.url)

    assert one.send(asking(1)).body == {"id": "chatcmpl-1", "x": 1}
    reply, sent = one.exchange(asking(2))
    assert (reply.body, sent) == ({"id": "chatcmpl-2", "x": 2}, 2)
    assert (len(server.requests), server.connections) == (3, 2)


def test_answer_ids__after_a_mix_up(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """One id that was seen twice does not end the looking."""
    acts = [ok({"id": f"chatcmpl-{n}"}) for n in (1, 1, 2, 2, 3)]
    server = serve(*acts)
    one = wire(server.url)

    assert [one.send(asking(n)).body for n in range(3)] == [
        {"id": f"chatcmpl-{n}"} for n in (1, 2, 3)
    ]
    assert len(server.requests) == 5


def test_keep_alive__not(serve: Callable[..., Server], wire: Callable[..., Wire]) -> None:
    """Each request on a connection of its own: what comes late comes to nobody."""
    server = serve(ok())
    one = wire(server.url, keep_alive=False)
    one.send(GET)
    one.send(GET)

    assert server.connections == 2


def test_answer_ids__the_same_question(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """A server that repeats its answer to the same question is believed."""
    server = serve(ok({"id": "chatcmpl-1"}))
    one = wire(server.url)
    one.send(asking(1))
    one.send(asking(1))

    assert len(server.requests) == 2


def test_answer_ids__ids_of_the_same_moment(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """A server whose ids are the time, the same for what it answers at once, costs a few requests
    more, and not one for each answer."""
    server = serve(*(ok({"id": f"chatcmpl-{n // 3}"}) for n in range(300)))
    one = wire(server.url)
    for n in range(100):
        one.send(asking(n))

    assert len(server.requests) <= 100 + 16


@pytest.mark.parametrize("ident", ["chatcmpl-always-the-same", "7", "", None, 12345678])
def test_answer_ids__ids_that_tell_nothing(
    serve: Callable[..., Server], wire: Callable[..., Wire], ident: object
) -> None:
    """A server whose ids are none costs a few requests more, once."""
    server = serve(ok({"id": ident}))
    one = wire(server.url)
    replies = [one.send(asking(n)) for n in range(10)]

    assert all(r.status == 200 for r in replies)
    assert len(server.requests) == 10 + 2 * (ident == "chatcmpl-always-the-same")


def test_send__no_tls_where_tls_was_asked_for(wire: Callable[..., Wire]) -> None:
    """Nothing is sent in the clear to an https address, and nothing is tried again."""
    heard = b""

    def plain(listening: socket.socket) -> None:
        nonlocal heard
        client, _ = listening.accept()
        with client:
            heard = client.recv(4096)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=plain, args=(listening,))
        thread.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        reply, sent = wire(url, api_key="secret-key").exchange(GET)
        thread.join()

    assert (reply.failure, sent) == (FailureKind.CONNECT, 1)
    assert b"secret-key" not in heard


def test_send__a_timeout_is_its_own_answer(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """It is not tried again: the engine may still be at work on it."""
    done = threading.Event()
    server = serve(lambda _: done.wait(5) and None)
    reply, sent = wire(server.url, read_timeout=0.1).exchange(POST)
    done.set()

    assert (reply.failure, sent) == (FailureKind.TIMEOUT, 1)
    assert "0.1 s" in reply.message


def test_send__an_answer_that_trickles_ends(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Bytes that keep coming, each in time, do not hold a run for ever."""

    def trickle(sock: socket.socket) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            sock.sendall(b" ")
            time.sleep(0.001)

    ticks = iter(range(0, 10_000))
    reply = wire(serve(trickle).url, clock=lambda: float(next(ticks))).send(POST)

    assert reply.failure is FailureKind.TIMEOUT


def test_send__a_body_shorter_than_announced(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """A connection cut within the body is no answer, even where the JSON happens to end."""
    cut = ok().replace(b"Content-Length: 9", b"Content-Length: 99")
    assert cut != ok()

    def act(sock: socket.socket) -> None:
        sock.sendall(cut)

    reply, sent = wire(serve(act).url).exchange(POST)

    assert (reply.failure, sent) == (FailureKind.TRUNCATED_BODY, 3)


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)


@pytest.mark.parametrize(
    "act",
    [
        ok(raw=b"[" + b"1," * 5000 + b"1]"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"[" + b" " * 9000),
        ok(raw=gzip.compress(b" " * 50_000_000), Content_Encoding="gzip"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    ],
    ids=["announced", "chunked", "gzip bomb", "absurd length"],
)
def test_send__reading_is_bounded(
    serve: Callable[..., Server], wire: Callable[..., Wire], act: bytes
) -> None:
    """A larger answer is not read to its end, packed or not."""
    reply, sent = wire(serve(act).url, max_body=8000).exchange(POST)

    assert (reply.failure, sent) == (FailureKind.TOO_LARGE, 2)
    assert "8000 bytes" in reply.message


def test_send__packed_and_chunked_answers_are_read(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Not asked for, and yet understood."""
    packed = ok(raw=gzip.compress(b'{"a": "b"}'), Content_Encoding="gzip")
    pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b'{"a": "b"}')
    one = wire(serve(packed, pieces).url)

    assert one.send(GET).body == {"a": "b"}
    assert one.send(GET).body == {"a": "b"}


def test_send__broken_packing_is_malformed(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Bytes that do not unpack are no answer."""
    reply = wire(serve(ok(raw=b"nonsense", Content_Encoding="gzip")).url).send(GET)

    assert reply.failure is FailureKind.MALFORMED


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[" * 200_000 + b"]" * 200_000, "nested"),
        (b'{"a": ' + b"9" * 5000 + b"}", "long number"),
    ],
)
def test_send__json_bombs_are_malformed(
    serve: Callable[..., Server], wire: Callable[..., Wire], raw: bytes, said: str
) -> None:
    """Depth and absurd numbers end in a failure, not in a traceback."""
    reply, sent = wire(serve(ok(raw=raw)).url).exchange(GET)

    if said in reply.message:
        assert (reply.failure, sent) == (FailureKind.MALFORMED, 2)
    else:  # interpreters before 3.11 have no limit on the length of a number
        assert said == "long number"


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"", ""), (b"<p>\xff</p>", "<p>\ufffd</p>"), (b"x" * 9000, "x" * 2000), (b"\xff\xfe", None)],
)
def test_send__what_is_not_json_is_kept_as_text(
    serve: Callable[..., Server], wire: Callable[..., Wire], raw: bytes, text: str | None
) -> None:
    """At most its first 2,000 characters."""
    reply = wire(serve(ok(raw=raw)).url).send(GET)

    assert (reply.status, reply.body, reply.failure) == (200, None, None)
    assert text is None or reply.text == text


def test_send__nan_is_kept_for_the_judge_of_values(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Python writes NaN into JSON: the value is read, and refused where it is used."""
    body = wire(serve(ok(raw=b'{"logprob": NaN}')).url).send(GET).body

    assert isinstance(body, dict)
    assert isinstance(body["logprob"], float)
    assert math.isnan(body["logprob"])
    assert gc.isenabled()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_send__redirects_are_not_followed(
    serve: Callable[..., Server], wire: Callable[..., Wire], status: str
) -> None:
    """A key is never carried to another host; the message names the place."""
    server = serve(ok({}, status, Location="http://u:pw@other.example/v1/x?k=1"))
    reply, sent = wire(server.url).exchange(GET)

    assert (reply.failure, sent) == (FailureKind.STATUS, 1)
    assert "http://other.example/v1/x" in reply.message
    assert "pw" not in reply.message


def test_close__ends_a_request_that_waits(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Ctrl-C closes the wire: workers return at once and nothing is sent again."""
    asked, release = threading.Event(), threading.Event()

    def wait(_: socket.socket) -> None:
        asked.set()
        release.wait(10)

    server = serve(wait)
    one = wire(server.url, read_timeout=60.0)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(one.exchange, POST)
        assert asked.wait(5)
        one.close()
        reply, sent = future.result(5)
    release.set()

    assert (reply.failure, sent) == (FailureKind.CONNECT, 1)
    assert "stopped" in reply.message
    assert one.send(POST).message == reply.message
    assert len(server.requests) == 1


def test_close__ends_a_wait_between_two_tries(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """A server that asks for a minute's patience does not hold up Ctrl-C."""
    one = wire(serve(ok({}, "429 Too Many Requests", Retry_After="60")).url, sleep=None)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(one.send, POST)
        while not one._adapter.poolmanager.pools:  # type: ignore[attr-defined]
            time.sleep(0.001)
        one.close()
        reply = future.result(5)

    assert reply.failure in (FailureKind.CONNECT, FailureKind.BUSY)


def test_failure_kind__covers_every_exception_of_requests() -> None:
    """No exception of the library lands in the catch-all by accident."""
    known = set(http._KINDS)
    found = {
        cls
        for cls in vars(requests.exceptions).values()
        if inspect.isclass(cls) and issubclass(cls, requests.exceptions.RequestException)
    }

    assert len(found) > 15
    assert found - known == set()


def test_failure_kind__covers_what_reading_a_body_can_raise() -> None:
    """urllib3's own exceptions come through where the body is read by hand."""
    assert failure_kind(urllib3.exceptions.IncompleteRead(1, 2)) is FailureKind.TRUNCATED_BODY
    assert failure_kind(urllib3.exceptions.DecodeError()) is FailureKind.MALFORMED
    assert failure_kind(urllib3.exceptions.SSLError()) is FailureKind.RESET
    assert failure_kind(ConnectionResetError()) is FailureKind.RESET
    assert failure_kind(ConnectionRefusedError()) is FailureKind.CONNECT
    assert failure_kind(TimeoutError()) is FailureKind.TIMEOUT


def test_failure_kind__a_programming_error_is_not_a_network_failure() -> None:
    """Only foreign exceptions are mapped."""
    with pytest.raises(KeyError):
        failure_kind(KeyError("x"))


def test_converse__counts_what_was_sent_again(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Two exchanges of which one needed a second try: two attempts."""

    def speaking() -> Any:
        first: WireReply = yield GET
        second: WireReply = yield POST
        return first.status, second.status

    result, attempts = converse(wire(serve(hang_up, ok()).url), speaking())

    assert (result, attempts) == ((200, 200), 2)


def test_call__is_an_observation_of_the_question(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """Digest, time and attempts are recorded; a failure is an answer."""
    ticks = iter([10.0, 12.5])
    asked = Chat(Tag(Arm.CANDIDATE, "t", "p"), (Message("user", "hi"),), 4)
    info = EngineInfo("openai", model="m")
    one = wire(serve(ok({"error": "no"}, "400 Bad Request")).url)
    seen = http.call(one, openai.DIALECT, info, asked, clock=lambda: next(ticks))

    assert isinstance(seen.answer, Failure)
    assert (seen.call_sha256, seen.attempts, seen.elapsed_s) == (digest(asked), 1, 2.5)


def test_address__secret_spelled_in_escapes() -> None:
    """A key is blotted out of a parsed answer, however its JSON spelled it."""
    address = Address("http://127.0.0.1:1", "sk-very-secret-key")
    told = json.loads('{"sk\\u002dvery-secret-key": ["x sk-very\\u002dsecret-key", 1, null]}')

    assert address.blot_json(told, always=False) == {"***": ["x ***", 1, None]}


@pytest.mark.parametrize(
    "said",
    ["sk/canary+key==", "sk/canary%2Bkey%3D%3D", "sk%2Fcanary%2Bkey%3D%3D", "sk\\/canary+key=="],
)
def test_address__secret_spelled_as_in_a_url(said: str) -> None:
    """A server that repeats the key within an address of its own does not make us show it."""
    address = Address("http://127.0.0.1:1", "sk/canary+key==")

    assert address.blot_bytes(f"see /x?key={said}&y".encode(), always=False) == b"see /x?key=***&y"


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://canary-token@h", "canary-token"),
        ("http://h?canary-token", "canary-token"),
        ("http://h?k=canary%2Ftoken+x", "canary/token x"),
        ("http://h?k=canary%2Ftoken+x", "canary%2Ftoken+x"),
    ],
)
def test_address__secrets_without_a_name(url: str, secret: str) -> None:
    """A token may be the user, a query without a name, and be repeated decoded."""
    assert Address(url, "").blot(f"no: {secret}!", always=True) == "no: ***!"


def test_key__repeated_in_sixteen_bits(
    serve: Callable[..., Server], wire: Callable[..., Wire]
) -> None:
    """JSON may be in UTF-16: a key repeated in it is blotted out as in any other."""
    raw = json.dumps({"text": "x sk-canary-key y"}).encode("utf-16")
    reply = wire(serve(ok(raw=raw)).url, api_key="sk-canary-key").send(GET)

    assert reply.body == {"text": "x *** y"}
