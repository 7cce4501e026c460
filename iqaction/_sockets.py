"""Connections that can be ended while a request waits on them. Knows requests and urllib3 only."""

from __future__ import annotations

import socket
import threading
import weakref

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import ConnectionPool


class Connections:
    """The open sockets, so that closing the pool also ends requests that wait for an answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[urllib3.connection.HTTPConnection] = weakref.WeakSet()

    def add(self, connection: urllib3.connection.HTTPConnection) -> None:
        with self._lock:
            self._open.add(connection)

    def shut(self) -> None:
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            sock = connection.sock
            if sock is not None:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # already closed by the other side


class Adapter(HTTPAdapter):
    """requests' adapter for one server, which knows its sockets.

    Its pool is as large as the concurrency. What it does for every request and here is always the
    same is done once, or not at all: the pool, the path, cookies and encodings of an answer whose
    body is read raw. That is a fifth of a request's CPU time.
    """

    def __init__(self, connections: Connections, size: int) -> None:
        self._connections = connections
        self._pools: dict[str, ConnectionPool] = {}
        super().__init__(pool_connections=2, pool_maxsize=size, max_retries=0)

    def init_poolmanager(self, *args: object, **kwargs: object) -> None:
        super().init_poolmanager(*args, **kwargs)  # type: ignore[arg-type] # passed through
        connections = self._connections

        class Plain(urllib3.connection.HTTPConnection):
            def connect(self) -> None:
                super().connect()
                connections.add(self)

        class Secure(urllib3.connection.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                connections.add(self)

        class PlainPool(urllib3.HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(urllib3.HTTPSConnectionPool):
            ConnectionCls = Secure

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}

    def get_connection_with_tls_context(
        self, request: requests.PreparedRequest, *args: object, **kwargs: object
    ) -> ConnectionPool:
        origin, _ = _parts(request)
        if origin not in self._pools:
            pool = super().get_connection_with_tls_context(request, *args, **kwargs)  # type: ignore[arg-type] # passed through
            self._pools[origin] = pool
        return self._pools[origin]

    def request_url(self, request: requests.PreparedRequest, _proxies: object) -> str:
        return _parts(request)[1]

    def build_response(
        self, request: requests.PreparedRequest, raw: urllib3.BaseHTTPResponse
    ) -> requests.Response:
        response = requests.Response()
        response.status_code, response.raw, response.request = raw.status, raw, request
        response.headers.update(raw.headers)
        return response


def _parts(request: requests.PreparedRequest) -> tuple[str, str]:
    """Scheme and place of a URL with a path, and its path and query."""
    scheme, _, place, path = (request.url or "").split("/", 3)
    return f"{scheme}//{place}", f"/{path}"
