"""The seam between what a stage asks and what one server speaks. Sends nothing.

A dialect is a codec with a conversation: :meth:`Dialect.speak` yields wire requests, is sent the
replies, and returns an answer. Most calls take one exchange; a capped log-probability count, or
llama.cpp's forcing of an end token, takes more. Every dialect is therefore tested with recorded
bodies and no server.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from iqaction.calls import Answer, Capability, EngineInfo, FailureKind, WireCall
from iqaction.json_value import JSON


@dataclass(frozen=True)
class WireRequest:
    """One HTTP request, relative to the endpoint's base URL.

    ``path`` starts with ``/``; paths under ``/v1`` are joined so that a base URL with or without
    ``/v1`` works. ``retry`` False forbids a retry on a 5xx (prompt log-probabilities of long
    prompts have killed engines).
    """

    method: str
    path: str
    body: Mapping[str, JSON] | None = None
    retry: bool = True


@dataclass(frozen=True)
class WireReply:
    """What came back. ``body`` is the parsed JSON, None where it is none (then ``text`` holds at
    most the first 2,000 characters). ``failure`` is set where there was no HTTP answer."""

    status: int
    body: JSON = None
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    failure: FailureKind | None = None
    message: str = ""


Speaking = Generator[WireRequest, WireReply, Answer]
Detecting = Generator[WireRequest, WireReply, EngineInfo | None]


class Dialect(Protocol):
    """What one kind of server speaks. One instance serves many threads: it keeps no state."""

    @property
    def name(self) -> str: ...

    def detect(self, model: str) -> Detecting:
        """Ask who is there: EngineInfo where it is this kind of server, else None.

        ``model`` is the name the user gave, "" for whatever is served.
        """
        ...

    def speak(self, call: WireCall, engine: EngineInfo) -> Speaking:
        """Put one call to the engine and read its answer; never raises for what a server says."""
        ...


FULL = frozenset(Capability)
