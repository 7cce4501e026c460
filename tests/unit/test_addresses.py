"""Two spellings of one server, and servers of this machine."""

from __future__ import annotations

import socket

import pytest

from iqaction import addresses


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("http://127.0.0.1:8000", "http://localhost:8000/v1", True),
        ("http://127.0.0.1:8000/", "HTTP://127.0.0.1:8000//v1/", True),
        ("http://127.0.0.1:8000", "http://127.1:8000", True),
        ("http://127.0.0.1:8000", "http://[::ffff:127.0.0.1]:8000/v1", True),
        ("http://127.0.0.1:8000", "http://0.0.0.0:8000", True),
        ("http://127.0.0.1", "http://127.0.0.1:80/v1", True),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8001", False),
        ("http://127.0.0.1:8000/a/v1", "http://127.0.0.1:8000/b/v1", False),
        ("http://127.0.0.1:8000", "http://192.0.2.1:8000", False),
        ("http://no-such.invalid:1", "http://no-such.invalid:1/v1", True),
        ("http://no-such.invalid:1", "http://neither.invalid:1", False),
    ],
)
def test_is_same(a: str, b: str, same: bool) -> None:
    """By where they lead, not by how they are written; gateways tell servers apart by the path."""
    assert same is addresses.is_same(a, b)
    assert same is addresses.is_same(b, a)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("[::ffff:127.0.0.1]", True),
        ("0.0.0.0", True),
        ("2130706433", True),
        ("192.0.2.1", False),
        ("no-such.invalid", False),
    ],
)
def test_is_local(host: str, local: bool) -> None:
    """Whatever name this machine goes by."""
    assert local is addresses.is_local(f"http://{host}:8000/v1")


def test_is_local__by_its_own_name() -> None:
    """The machine's own name, where it resolves to an address that can be listened at."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        pytest.skip("this machine's name does not resolve")

    assert addresses.is_local(f"http://{name}:8000")


@pytest.mark.parametrize(
    ("url", "port"), [("http://x", 80), ("https://x/v1", 443), ("http://x:9", 9)]
)
def test_port(url: str, port: int) -> None:
    """The scheme's where none is written."""
    assert port == addresses.port(url)
