"""Reading JSON of unknown origin: what is absent or of another kind is empty, never an exception.

Identifiers are handed out only where they fit their pattern, for they become parts of URLs, of
file names and of comments.
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

from iqaction.json_value import JSON

_SHA = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REPOSITORY = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9_.-]{1,100}/(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,100}\Z")
_DIGITS = re.compile(r"[1-9][0-9]{0,18}\Z")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
_BRANCH = re.compile(r"(?![-/])[^\x00-\x20\x7f-\x9f~^:?*\[\\]{1,255}\Z")
_URL = re.compile(r"[!-~]{1,4000}\Z")
_BEYOND_URLS = re.compile(r"""[\\"'<>`{}|^]""")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def parsed(data: bytes) -> JSON:
    """The JSON in ``data``.

    Raises
    ------
    ValueError
        When it is none, nests too deeply, or holds a number that nobody means.
    """
    try:
        value: JSON = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def field(node: JSON, *keys: str) -> JSON:
    """What lies below ``keys``; None where any of them is absent."""
    for key in keys:
        if not isinstance(node, dict):
            return None
        node = node.get(key)
    return node


def text(node: JSON, *keys: str) -> str:
    """A text, else ""."""
    found = field(node, *keys)
    return found if isinstance(found, str) else ""


def number(node: JSON, *keys: str) -> int:
    """A whole number from 0 on, else 0."""
    found = field(node, *keys)
    whole = isinstance(found, int) and not isinstance(found, bool)
    return found if whole and isinstance(found, int) and 0 < found < 2**63 else 0


def items(node: JSON, *keys: str) -> list[JSON]:
    """A list, else an empty one."""
    found = field(node, *keys)
    return found if isinstance(found, list) else []


def sha(found: str) -> str:
    """``found`` where it is a commit's name in full, else ""."""
    return found if _SHA.match(found) else ""


def repository(found: str) -> str:
    """``found`` where it is an owner and a name, else ""."""
    return found if _REPOSITORY.match(found) else ""


def branch(found: str) -> str:
    """``found`` where it can be a branch's name, as "main", else ""."""
    return found if _BRANCH.match(found) and found.isprintable() else ""


def digits(found: str) -> str:
    """``found`` where it is an identifier of GitHub's, else ""."""
    return found if _DIGITS.match(found) else ""


def instant(found: str) -> str:
    """``found`` where it is a time of UTC to the second, else "". Such times sort as text."""
    return found if _INSTANT.match(found) else ""


def address(found: str) -> str:
    """``found`` where it is an https URL, or an http one of this machine, without user, password
    or anything that ends a link in Markdown; else ""."""
    if not _URL.match(found) or _BEYOND_URLS.search(found):
        return ""
    try:
        parts = urlsplit(found)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return ""
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    return found if safe and host and "@" not in parts.netloc else ""
