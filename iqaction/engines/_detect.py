"""Finds out who answers at an endpoint. Asks each dialect in turn; sends nothing itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator

from iqaction import engines
from iqaction.calls import EngineInfo, FailureKind
from iqaction.engines import _errors
from iqaction.engines._base import FULL, Detecting, WireReply, WireRequest
from iqaction.errors import EngineError

AUTO = "auto"
_ORDER = ("vllm", "llamacpp", "sglang", "openai")  # from the most to the least particular

Discovering = Generator[WireRequest, WireReply, EngineInfo]


def discover(model: str, dialect: str) -> Discovering:
    """Who answers, and with which model.

    Parameters
    ----------
    model
        The name the user gave, "" for whatever is served.
    dialect
        The name of a dialect, or "auto". A named one is believed, also where the server does not
        confirm it (a gateway may stand before it); that is then recorded as a limitation.

    Raises
    ------
    EngineError
        When nobody answers, a key is needed, the model is not served, or this is no such server.
    """
    kept: dict[str, WireReply] = {}
    for name in _candidates(dialect):
        info = yield from _with_kept(engines.load(name).detect(model), kept)
        if info is not None:
            return info if dialect in (AUTO, name) else _as_told(info, dialect)
    raise _nobody(kept)


def _candidates(dialect: str) -> tuple[str, ...]:
    if dialect != AUTO:
        return tuple(dict.fromkeys((dialect, "openai")))
    others = [n for n in engines.names() if n not in _ORDER]
    return (*_ORDER[:-1], *others, _ORDER[-1])


def _as_told(info: EngineInfo, dialect: str) -> EngineInfo:
    unconfirmed = f"the endpoint does not say that it is {dialect}: it is spoken to as one"
    return dataclasses.replace(info, dialect=dialect, capabilities=FULL, limitations=(unconfirmed,))


def _with_kept(detecting: Detecting, kept: dict[str, WireReply]) -> Detecting:
    """Answer a question that was asked before from ``kept``; stop where asking is hopeless."""
    try:
        request = next(detecting)
        while True:
            key = f"{request.method} {request.path}" if request.body is None else ""
            reply = kept.get(key)
            if reply is None:
                reply = yield request
                if key:
                    kept[key] = reply
            if request.path == "/v1/models":
                _usable(reply)
            request = detecting.send(reply)
    except StopIteration as stop:
        info: EngineInfo | None = stop.value
        return info


def _usable(reply: WireReply) -> None:
    """Raise where the first answer already says that nothing can be asked here."""
    if reply.status in (401, 403):
        raise EngineError(
            f"the endpoint refuses us: HTTP {reply.status}: {_errors.error_text(reply)}",
            expected="a key that the server accepts",
            next_step="set api_key_env to the name of the environment variable that holds it",
        )
    if reply.failure is FailureKind.BUSY:
        raise EngineError(
            f"the endpoint is not ready: {_errors.error_text(reply)}",
            expected="a server that has loaded its model",
            next_step="wait until it answers, or read its log",
        )
    if reply.failure is not None:
        raise EngineError(
            f"nobody answers at the endpoint: {_errors.error_text(reply)}",
            expected="an OpenAI-compatible server",
            next_step="check the address and that the server runs",
        )


def _nobody(kept: dict[str, WireReply]) -> EngineError:
    listing = kept.get("GET /v1/models", WireReply(0))
    said = _errors.error_text(listing)[:120]
    shown = f"GET /v1/models: HTTP {listing.status}" + (f": {said}" if said else "")
    if listing.status >= 500:
        return EngineError(
            f"the endpoint fails ({shown})",
            expected="a healthy server",
            next_step="read the server's log",
        )
    if listing.status == 200 and isinstance(listing.body, dict) and "data" in listing.body:
        return EngineError(
            "the endpoint lists no model",
            expected="a server that has a model to serve",
            next_step="load a model in that server, or give the address of one that has",
        )
    return EngineError(
        f"this is no OpenAI-compatible server ({shown})",
        expected="a list of models at /v1/models, in JSON",
        next_step="check the address (with or without /v1), or name the model if it has no list",
    )
