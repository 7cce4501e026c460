"""The only module that talks to engines: one pool of connections to one endpoint.

Knows HTTP, retries and what may be shown of a URL or a key. Knows no engine: what is asked and
how an answer reads are the dialects' business, spoken through :class:`WireRequest` and
:class:`WireReply`. Nothing here raises for what a network or a server does.
"""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from typing import TypeVar

import requests
import urllib3
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from iqaction._address import Address
from iqaction._replies import is_assembled, read_reply
from iqaction._retrying import Absence, AnswerIds, most_tries, retry_kind, wait
from iqaction._sockets import Adapter, Connections
from iqaction.calls import (
    TRANSPORT,
    Answer,
    EngineInfo,
    FailureKind,
    Observation,
    WireCall,
    digest,
)
from iqaction.engines._base import Dialect, WireReply, WireRequest

_T = TypeVar("_T")

_MAX_BODY = 256 << 20
_CHUNK = 1 << 16
_HEADERS = ("content-type", "server", "retry-after", "date", "location")
_STOPPED = WireReply(0, failure=FailureKind.CONNECT, message="the run was stopped")

_E = requests.exceptions
_KINDS: Mapping[type[Exception], FailureKind] = {
    _E.ConnectTimeout: FailureKind.CONNECT,
    _E.ReadTimeout: FailureKind.TIMEOUT,
    _E.Timeout: FailureKind.TIMEOUT,
    _E.SSLError: FailureKind.CONNECT,
    _E.ProxyError: FailureKind.PROXY,
    _E.ConnectionError: FailureKind.RESET,  # or CONNECT: see `failure_kind`
    _E.ChunkedEncodingError: FailureKind.TRUNCATED_BODY,
    _E.ContentDecodingError: FailureKind.MALFORMED,
    _E.StreamConsumedError: FailureKind.TRUNCATED_BODY,
    _E.UnrewindableBodyError: FailureKind.RESET,
    _E.RetryError: FailureKind.BUSY,
    _E.HTTPError: FailureKind.STATUS,
    _E.TooManyRedirects: FailureKind.STATUS,
    _E.JSONDecodeError: FailureKind.MALFORMED,
    _E.InvalidJSONError: FailureKind.MALFORMED,
    _E.URLRequired: FailureKind.CONNECT,
    _E.MissingSchema: FailureKind.CONNECT,
    _E.InvalidSchema: FailureKind.CONNECT,
    _E.InvalidURL: FailureKind.CONNECT,
    _E.InvalidProxyURL: FailureKind.CONNECT,
    _E.InvalidHeader: FailureKind.CONNECT,
    urllib3.exceptions.ReadTimeoutError: FailureKind.TIMEOUT,
    urllib3.exceptions.DecodeError: FailureKind.MALFORMED,
    urllib3.exceptions.ProtocolError: FailureKind.TRUNCATED_BODY,
    urllib3.exceptions.IncompleteRead: FailureKind.TRUNCATED_BODY,
    urllib3.exceptions.InvalidChunkLength: FailureKind.TRUNCATED_BODY,
    TimeoutError: FailureKind.TIMEOUT,
    _E.RequestException: FailureKind.RESET,
    urllib3.exceptions.HTTPError: FailureKind.RESET,
    OSError: FailureKind.RESET,
}


def failure_kind(exc: Exception) -> FailureKind:
    """The kind of failure that an exception of requests, urllib3 or the socket stands for."""
    for cls in type(exc).__mro__:
        if cls in _KINDS:
            kind = _KINDS[cls]
            break
    else:
        raise exc
    if kind is FailureKind.RESET and _never_connected(exc):
        return FailureKind.CONNECT
    return kind


def _never_connected(exc: BaseException | None) -> bool:
    seen = exc
    for _ in range(5):
        if isinstance(seen, (urllib3.exceptions.NewConnectionError, ConnectionRefusedError)):
            return True
        inner = getattr(seen, "reason", None) or (seen.args[0] if seen and seen.args else None)
        if not isinstance(inner, BaseException):
            return False
        seen = inner
    return False


class Wire:
    """A pool of connections to one endpoint. Safe to use from many threads.

    Parameters
    ----------
    base_url
        With or without ``/v1``. User and password in it are sent as basic authentication, a
        query is sent with every request; neither is ever shown.
    api_key
        Sent as a bearer token, and blotted out wherever a server repeats it.
    concurrency
        How many connections are kept.
    connect_timeout, read_timeout
        Seconds: for the connection, and between two pieces of an answer.
    session
        Whose adapters are used instead of an own one (tests).
    max_body
        Bytes of an answer, unpacked, beyond which it is not read on.
    patience
        Seconds for which an endpoint that refuses connections is waited for: it may be started
        again. ``note`` is told when that begins.
    more_tries
        Beyond those that any request gets.
    keep_alive
        False: each request has a connection of its own, so that no answer can come to another.

    Attributes
    ----------
    absence
        Whether the endpoint went away, and came back.
    has_lost
        Whether any request has no answer in the end.

    Raises
    ------
    ConfigError
        When the URL cannot be one of an HTTP server.
    """

    def __init__(  # noqa: PLR0913 - one place wires it, every test varies one of them
        self,
        base_url: str,
        *,
        api_key: str = "",
        concurrency: int = 1,
        connect_timeout: float = 10.0,
        read_timeout: float = 600.0,
        sleep: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        session: requests.Session | None = None,
        max_body: int = _MAX_BODY,
        patience: float = 0.0,
        more_tries: int = 0,
        keep_alive: bool = True,
        note: Callable[[str], object] = lambda said: None,
    ) -> None:
        self._address = Address(base_url, api_key)
        self._size = max(1, concurrency)
        self._timeout = (connect_timeout, read_timeout)
        self._max_body = max_body
        self._closed = threading.Event()
        self._clock = clock
        # Closing ends a wait between two tries.
        self._sleep = self._closed.wait if sleep is None else sleep
        self.absence = Absence(patience, clock, note)
        self.has_lost = False
        self._more_tries, self._keep_alive = more_tries, keep_alive
        self._ids = AnswerIds()
        self._connections = Connections()
        self._adapter: BaseAdapter
        if session is None:
            self._adapter = Adapter(self._connections, self._size)
        else:
            self._adapter = session.get_adapter(self._address.url("/"))

    def shown_url(self) -> str:
        """The base URL without user, password and query."""
        return self._address.shown

    def close(self) -> None:
        """End every request, also those that wait for an answer; later ones fail at once."""
        self._closed.set()
        self._connections.shut()
        self._adapter.close()

    def send(self, request: WireRequest) -> WireReply:
        """Send one request, again where that is safe and useful, and return what came back."""
        return self.exchange(request)[0]

    def exchange(self, request: WireRequest) -> tuple[WireReply, int]:
        """As :meth:`send`, with the number of times the request went out."""
        reply, sent = self._exchanged(request)
        if reply.failure in TRANSPORT:
            self.has_lost = True
        return reply, max(1, sent)

    def _exchanged(self, request: WireRequest) -> tuple[WireReply, int]:
        tries: Counter[FailureKind] = Counter()
        fresh, sent = False, 0
        while True:
            started = self._clock()
            reply = self._once(request, fresh)
            sent += reply.failure is not FailureKind.CONNECT
            if self._is_foreign(reply, request):  # asked for anew
                reply = self._once(request, fresh=True)
                sent += reply.failure is not FailureKind.CONNECT
                self._is_foreign(reply, request, anew=True)  # known from now on
            if self._closed.is_set():
                return reply, sent
            pause = self.absence.pause(reply)
            if pause is None:
                kind = retry_kind(reply, request, self._clock() - started)
                if kind is None or tries[kind] >= most_tries(kind, self._more_tries):
                    return reply, sent
                pause = wait(reply, tries[kind])
                tries[kind] += 1
                fresh = kind in (FailureKind.RESET, FailureKind.MALFORMED)
            if self._closed.is_set():
                return reply, sent
            if pause:
                self._sleep(pause)

    def _is_foreign(self, reply: WireReply, request: WireRequest, *, anew: bool = False) -> bool:
        """True for what was said before, to another question."""
        question = (request.path, request.body)
        return reply.status == 200 and self._ids.is_known(reply, question, anew=anew)

    def _once(self, request: WireRequest, fresh: bool) -> WireReply:
        if self._closed.is_set():
            return _STOPPED
        adapter: BaseAdapter = self._adapter
        if (fresh or not self._keep_alive) and isinstance(adapter, Adapter):
            adapter = Adapter(self._connections, 1)
        try:
            response = adapter.send(
                self._prepared(request), stream=True, timeout=self._timeout, verify=True
            )
            return self._received(response)
        except (_E.RequestException, urllib3.exceptions.HTTPError, OSError) as exc:
            if self._closed.is_set():
                return _STOPPED
            return WireReply(0, failure=failure_kind(exc), message=self._why(exc))
        finally:
            if adapter is not self._adapter:
                adapter.close()

    def _prepared(self, request: WireRequest) -> requests.PreparedRequest:
        """The request, put together by hand: ``Session.request`` costs twice the CPU time."""
        prepared = requests.PreparedRequest()
        prepared.method = request.method
        prepared.url = self._address.url(request.path)
        headers = CaseInsensitiveDict(self._address.headers)
        if request.body is not None:
            prepared.body = json.dumps(request.body, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
            headers["Content-Length"] = str(len(prepared.body))
        prepared.headers = headers
        prepared.hooks = {"response": []}
        return prepared

    def _received(self, response: requests.Response) -> WireReply:
        status = response.status_code
        told = {
            name: self._address.blot(response.headers[name], always=True)[:200]
            for name in _HEADERS
            if name in response.headers
        }
        data = self._body(response)
        if data is None:
            said = f"the answer is larger than {self._max_body} bytes"
            return WireReply(status, headers=told, failure=FailureKind.TOO_LARGE, message=said)
        data = self._address.blot_bytes(data, always=status >= 400)
        reply = read_reply(status, data, told)
        # JSON may spell any character as an escape and be in 16 or 32 bits a character, and a
        # stream may cut anywhere.
        odd = any(x in data for x in (b"\\u00", b"\\/", b"\0"))
        if odd or is_assembled(data, told):
            try:
                body = self._address.blot_json(reply.body, always=status >= 400)
            except RecursionError:
                said = "the answer is nested too deeply"
                return WireReply(status, None, "", told, FailureKind.MALFORMED, said)
            reply = dataclasses.replace(reply, body=body)
        return reply

    def _body(self, response: requests.Response) -> bytes | None:
        """The whole body, unpacked; None where it is over the limit."""
        raw = response.raw
        deadline = self._clock() + 2 * self._timeout[1]
        pieces: list[bytes] = []
        size, complete = 0, False
        try:
            told = response.headers.get("Content-Length", "")
            if told.isascii() and told.isdigit() and int(told[:20]) > self._max_body:
                return None
            # `read1` returns what is there; `read` (urllib3 1.x) waits for a whole chunk.
            read = getattr(raw, "read1", raw.read)
            while piece := read(_CHUNK, decode_content=True):
                size += len(piece)
                if size > self._max_body:
                    return None
                if self._clock() > deadline:  # bytes trickle in, each within the read timeout
                    raise TimeoutError("the answer did not end in time")
                pieces.append(piece)
            complete = True
        finally:
            # A body that was not read to its end makes the connection useless.
            if complete:
                raw.release_conn()
            else:
                raw.close()
        return b"".join(pieces)

    def _why(self, exc: Exception) -> str:
        match failure_kind(exc):
            case FailureKind.TIMEOUT:
                said = f"no answer within {self._timeout[1]:g} s"
            case FailureKind.CONNECT:
                said = f"no connection ({_innermost(exc)})"
            case FailureKind.RESET:
                said = f"the connection broke ({_innermost(exc)})"
            case FailureKind.TRUNCATED_BODY:
                said = f"the answer broke off ({_innermost(exc)})"
            case _:
                said = _innermost(exc)
        return self._address.blot(f"{self.shown_url()}: {said}", always=True)


def _innermost(exc: BaseException) -> str:
    """What broke, in a few words and without a URL: these exceptions quote the whole of it."""
    seen: BaseException = exc
    for _ in range(6):
        inner = getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((a for a in seen.args if isinstance(a, BaseException)), None)
        if inner is None:
            break
        seen = inner
    cause = seen.__cause__ or seen
    if isinstance(cause, OSError) and cause.strerror:
        return str(cause.strerror)
    return re.sub(r"(?<!^)(?=[A-Z][a-z])", " ", type(cause).__name__).lower()


def converse(wire: Wire, speaking: Generator[WireRequest, WireReply, _T]) -> tuple[_T, int]:
    """Hold a dialect's conversation and return its result.

    Returns
    -------
    result, attempts
        ``attempts`` is 1 plus the number of requests that had to be sent again.
    """
    again = 0
    try:
        request = next(speaking)
        while True:
            reply, sent = wire.exchange(request)
            again += sent - 1
            request = speaking.send(reply)
    except StopIteration as stop:
        result: _T = stop.value
        return result, 1 + again
    finally:
        speaking.close()


def call(
    wire: Wire,
    dialect: Dialect,
    engine: EngineInfo,
    asked: WireCall,
    clock: Callable[[], float] = time.monotonic,
) -> Observation:
    """Put one call to an engine; a failure is an answer, so this never raises for one."""
    started = clock()
    answer: Answer
    answer, attempts = converse(wire, dialect.speak(asked, engine))
    return Observation(asked.tag, digest(asked), answer, attempts, clock() - started)
