"""For all tests: nothing but this machine is reached, and examples are the same in every CI run."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from hypothesis import settings

# Found examples belong into a test, not into luck: CI draws the same ones each time. No deadline,
# since a shared machine is slow for reasons of its own.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def is_loopback(host: object) -> bool:
    """True for what stays on this machine."""
    if not isinstance(host, str):
        return False
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in ("", "localhost")


def pytest_configure() -> None:
    """Refuse connections and name look-ups that leave this machine; hear Ctrl-C."""
    # A shell ignores it for what it starts in the background, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    socket.socket.connect = _guarded(socket.socket.connect)  # type: ignore[method-assign]
    socket.socket.connect_ex = _guarded(socket.socket.connect_ex)  # type: ignore[method-assign]
    look_up = socket.getaddrinfo

    def is_number(host: Any) -> bool:
        """An address needs no looking up: nobody is asked."""
        try:
            return bool(look_up(host, None, flags=socket.AI_NUMERICHOST))
        except OSError:
            return False

    def local(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host is not None and not is_loopback(host) and not is_number(host):
            raise socket.gaierror(socket.EAI_NONAME, f"tests look up no name: {host!r}")
        return look_up(host, *args, **kwargs)

    socket.getaddrinfo = local


def _guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
    def guard(self: socket.socket, address: Any) -> Any:
        inet = self.family in (socket.AF_INET, socket.AF_INET6)
        if inet and not is_loopback(address[0]):
            raise ConnectionRefusedError(f"tests reach this machine only, not {address[0]!r}")
        return connect(self, address)

    return guard
