"""What the bytes of an HTTP answer are to a dialect: parsed, or why they cannot be. Pure.

Knows statuses, JSON and event streams. Knows no connection, and no engine.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from iqaction import _event_stream
from iqaction.calls import FailureKind
from iqaction.engines._base import WireReply
from iqaction.json_value import JSON

_TEXT = 2_000  # characters kept of an answer that is not JSON
# 408: an idle connection that a proxy has given up; 520 to 527: Cloudflare, of the server behind.
_PROXY = frozenset({408, 502, 504, *range(520, 528)})
_BUSY = frozenset({429, 503, 529})
_NEAR_THE_END = 9  # characters: as long as "-Infinity", the longest word that may be cut
_BREAKS_OFF = "the answer breaks off within its JSON"


class _Twice(ValueError):
    """One name with two values in one object: which one is meant is not told."""


def read_reply(status: int, data: bytes, headers: Mapping[str, str]) -> WireReply:
    """What an answer with that status, body and (lower-case) headers is to a dialect."""
    body, failure, said = _parsed(data, headers.get("content-type", ""))
    text = "" if body is not None else data[: 4 * _TEXT].decode("utf-8", "replace")[:_TEXT]
    if 300 <= status < 400:
        failure, said = FailureKind.STATUS, _redirected(status, headers.get("location", ""))
    elif status in _BUSY:
        failure, said = FailureKind.BUSY, ""
    elif status in _PROXY:
        failure, said = FailureKind.PROXY, ""
    elif status != 200:
        failure, said = None, ""
    return WireReply(status, body, text, headers, failure, said)


def is_assembled(data: bytes, headers: Mapping[str, str]) -> bool:
    """True where an answer's texts were put together from pieces: what no piece shows, they may."""
    return _event_stream.is_stream(data, headers.get("content-type", ""))


def _parsed(data: bytes, content_type: str) -> tuple[JSON, FailureKind | None, str]:
    """The JSON value; or None, and where it is JSON that cannot be read, what kind of failure that
    is and why."""
    collecting = gc.isenabled()
    gc.disable()  # a large answer is parsed in less than half the time
    try:
        if _event_stream.is_stream(data, content_type):
            return _event_stream.assembled(data.decode(), _loads), None, ""
        return _loads(data), None, ""
    except RecursionError:
        return None, FailureKind.MALFORMED, "the answer is nested too deeply"
    except ValueError as exc:  # of JSON, of UTF-8 and of numbers
        kind, said = _why(data, exc)
        return None, kind, said
    finally:
        if collecting:
            gc.enable()


def _loads(data: bytes | str) -> JSON:
    value: JSON = json.loads(data, object_pairs_hook=_object)
    return value


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) != len(pairs):
        for name, value in pairs:
            if found[name] != value:
                raise _Twice(name)
    return found


def _why(data: bytes, exc: ValueError) -> tuple[FailureKind | None, str]:
    """What a body is that is no JSON: none at all, cut, or with a mistake in it."""
    if isinstance(exc, _Twice):
        return FailureKind.MALFORMED, f"the answer names {str(exc)[:80]!a} twice, with two values"
    if "integer string conversion" in str(exc):
        return FailureKind.MALFORMED, "the answer holds an absurdly long number"
    if isinstance(exc, UnicodeDecodeError):
        if data.lstrip()[:1] not in (b"{", b"["):
            return None, ""
        if exc.end >= len(data) and exc.reason == "unexpected end of data":
            return FailureKind.TRUNCATED_BODY, _BREAKS_OFF
        return FailureKind.MALFORMED, f"the answer is not UTF-8 (byte {exc.start})"
    if not isinstance(exc, json.JSONDecodeError) or exc.doc.lstrip()[:1] not in ("{", "["):
        return None, ""
    end = len(exc.doc.rstrip()) - _NEAR_THE_END
    if exc.msg.startswith("Unterminated string") or exc.pos >= end:
        return FailureKind.TRUNCATED_BODY, _BREAKS_OFF
    return FailureKind.MALFORMED, f"the answer is no valid JSON ({exc.msg}, character {exc.pos})"


def _redirected(status: int, location: str) -> str:
    try:
        parts = urlsplit(location)
        where = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        where = ""
    return f"HTTP {status}: redirected to {where[:100]!r}; give that server's own address"
