"""Connections that can be ended while a request waits on them. Knows requests and urllib3 only."""

from __future__ import annotations

import socket
import threading
import weakref

import urllib3
from requests.adapters import HTTPAdapter


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
    """requests' adapter with a pool as large as the concurrency, which knows its sockets."""

    def __init__(self, connections: Connections, size: int) -> None:
        self._connections = connections
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
