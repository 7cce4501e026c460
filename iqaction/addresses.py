"""Where a URL leads: two spellings of one server, and servers of this machine. I/O: resolves names.

Knows URLs and sockets, and nothing of what is asked there.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what is connected to is this machine


def is_same(a: str, b: str) -> bool:
    """True where both URLs lead to one address, port and path; "/v1" at the end says nothing."""
    return _path(a) == _path(b) and bool(_sockets(a) & _sockets(b))


def is_local(url: str) -> bool:
    """True where the URL leads to this machine, by whatever name."""
    return any(_is_ours(ip) for ip, _ in _sockets(url))


def port(url: str) -> int:
    """The port that the URL leads to."""
    parts = urlsplit(url)
    return parts.port or _PORTS.get(parts.scheme.lower(), 0)


def _path(url: str) -> str:
    steps = [x for x in urlsplit(url).path.split("/") if x]
    return "/".join(steps[:-1] if steps[-1:] == ["v1"] else steps)


def _sockets(url: str) -> frozenset[tuple[str, int]]:
    """All that the name stands for; where nothing resolves it, the name itself."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset({(host, port(url))})
    return frozenset((_plain(str(where[4][0])), port(url)) for where in found)


def _plain(ip: str) -> str:
    address = ipaddress.ip_address(ip.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    text = str(mapped or address)
    return _ANY.get(text, text)


def _is_ours(ip: str) -> bool:
    """An address that can be listened at is one of this machine's."""
    try:
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((ip, 0))
    except (OSError, UnicodeError):
        return False
    return True
