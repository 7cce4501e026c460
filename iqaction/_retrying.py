"""When a request is sent again, and after which wait. Knows replies and time; sends nothing.

Two things are told apart: a request that was lost on its way, which is sent again a few times, and
an endpoint that has gone away, which is waited for (a crashed engine is started again by what
watches over it), by all threads together and once for so many seconds.
"""

from __future__ import annotations

import email.utils
import hashlib
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping

from iqaction.calls import FailureKind
from iqaction.engines._base import WireReply, WireRequest

_LONGEST_WAIT = 60.0  # seconds before a retry, whatever a server asks for
_STALE = 1.0  # seconds: a reset this soon is an idle connection that the server had closed
_LOOK_S = 0.5  # between two looks whether an endpoint is back
_STARTING = frozenset({502, 503, 504})  # what stands for an engine that is starting again
_MOST_IDS = 1_024
_NO_ID = 4  # times that one came to other questions: then it is none
_SHORTEST_ID = 8  # characters: a counter's or an empty one tells nothing

# How often each kind is tried again. A timeout is its own answer, and so is "nobody there".
_RETRIES: Mapping[FailureKind, int] = {
    FailureKind.RESET: 1,
    FailureKind.TRUNCATED_BODY: 2,
    FailureKind.BUSY: 4,
    FailureKind.PROXY: 2,
    FailureKind.STATUS: 1,
    FailureKind.MALFORMED: 1,
    FailureKind.TOO_LARGE: 1,
}
_AT_ONCE = frozenset(
    {
        FailureKind.RESET,
        FailureKind.TRUNCATED_BODY,
        FailureKind.MALFORMED,
        FailureKind.TOO_LARGE,
    }
)


def most_tries(kind: FailureKind, more: int) -> int:
    """How often a reply of a kind is tried again; ``more``: by one who has much to lose (an
    engine that is busy has told so, and is waited for as long as ever)."""
    return _RETRIES[kind] + (0 if kind is FailureKind.BUSY else more)


def retry_kind(reply: WireReply, request: WireRequest, elapsed: float) -> FailureKind | None:
    """As what a reply may be tried again, None where it must not be.

    A request with ``retry=False`` may have killed the engine: no 5xx and no broken connection is
    tried again, except one so fresh that only an idle connection had been closed.
    """
    careful = not request.retry
    if reply.failure is FailureKind.RESET:
        return None if careful and elapsed > _STALE else FailureKind.RESET
    if careful and reply.status >= 500:
        return None
    if reply.failure is None:
        return FailureKind.STATUS if reply.status in (424, 500) else None
    if reply.failure is FailureKind.STATUS:
        return None  # a redirect
    return reply.failure if reply.failure in _RETRIES else None


def wait(reply: WireReply, tried: int) -> float:
    """Seconds before the next try."""
    if reply.failure in _AT_ONCE:
        return 0.0
    asked = _retry_after(reply.headers) if reply.failure is FailureKind.BUSY else None
    return min(asked if asked is not None else float(2**tried), _LONGEST_WAIT)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks for, as a number or as a date by its own clock."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
        return float(value)
    until, now = _timestamp(value), _timestamp(headers.get("date", ""))
    if until is None:
        return None
    return max(0.0, until - (time.time() if now is None else now))


def _timestamp(value: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):  # the last for years beyond the clock's
        return None


class Absence:
    """An endpoint that refuses connections, as all threads that ask it see it.

    Attributes
    ----------
    ended
        How often it came back: whoever answers then may be somebody else.
    """

    def __init__(
        self, patience: float, clock: Callable[[], float], note: Callable[[str], object]
    ) -> None:
        self._patience, self._clock, self._note = patience, clock, note
        self._lock = threading.Lock()
        self._since: float | None = None
        self.ended = 0

    def pause(self, reply: WireReply) -> float | None:
        """Seconds after which to look again; None where the endpoint is there, or was away for
        too long."""
        refused = reply.failure is FailureKind.CONNECT
        if not refused and not reply.status:
            return None  # broken or silent: neither here nor away
        with self._lock:
            starting = self._since is not None and reply.status in _STARTING
            if not refused and not starting:
                self.ended += self._since is not None
                self._since = None
                return None
            now = self._clock()
            if self._since is None:
                self._since = now
                if self._patience:
                    self._note(f"{reply.message}: waiting up to {self._patience:.0f} s for it")
            left = self._since + self._patience - now
        return min(_LOOK_S, left) if left > 0 else None


class AnswerIds:
    """The ids that answers carry, to know one that was given before, to another question: what
    stands between mixes answers up. Some servers give every answer the same id, or those of one
    second: once one came several times, or most that were asked anew came with a known one again,
    none is looked at any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, bytes] = OrderedDict()
        self._again: Counter[str] = Counter()
        self._tell = True
        self._anew = self._anew_known = 0

    def is_known(self, reply: WireReply, question: object, *, anew: bool = False) -> bool:
        """True where an answer to another question had this id. ``anew``: it was asked for on a
        connection of its own, since the one before was known."""
        found = reply.body.get("id") if isinstance(reply.body, dict) else None
        if not self._tell or not isinstance(found, str) or len(found) < _SHORTEST_ID:
            return False
        asked = hashlib.sha256(repr(question).encode("utf-8", "replace")).digest()
        with self._lock:
            before = self._seen.setdefault(found, asked)
            while len(self._seen) > _MOST_IDS:
                self._seen.popitem(last=False)
            if before != asked:
                self._again[found] += 1
                self._tell = self._again[found] < _NO_ID
            if anew:
                self._anew += 1
                self._anew_known += before != asked
                enough = self._anew_known >= _NO_ID and 2 * self._anew_known > self._anew
                self._tell = self._tell and not enough
        return before != asked
