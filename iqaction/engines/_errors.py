"""What an error answer says, and what can be done about it. Knows no engine's success.

Engines word their refusals freely, so one place reads them: a *cap* on the number of listed
tokens can be obeyed, a *refusal* of log-probabilities cannot (asking for fewer is useless), a
field the server does not know can be left out, and everything else is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iqaction.calls import Failure, FailureKind
from iqaction.engines._base import WireReply
from iqaction.engines._reading import as_list, as_map, as_text
from iqaction.json_value import JSON

_LONGEST = 400  # characters of a server's message that are kept
_MOST_WRAPPED = 6  # errors within errors
_SAID_IN = ("error", "message", "msg", "detail", "errors", "description", "reason")
_REFUSED = (400, 422)
# Of log-probabilities: llama-cpp-python and older llama.cpp with a 500, gateways with the others.
_REFUSED_TOO = (403, 404, 500, 501)

_HINTS = {
    FailureKind.PROXY: " (a proxy's time limit is too short, or it lost the engine)",
    FailureKind.TRUNCATED_BODY: " (something between us and the engine cuts long answers)",
}

_LOGPROB_WORDS = re.compile(r"log_?-?prob|top_n_tokens|n_probs", re.IGNORECASE)
_CAPS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"max(?:imum)?(?: value)? allowed(?: is)?:?\s*([0-9]+)",
        r"(?:<=|≤)\s*([0-9]+)",
        r"between [0-9]+ (?:and|to) ([0-9]+)",
        r"(?:at most|no more than|up to|(?:cannot|not|must not) exceed"
        r"|less than or equal(?: to)?|(?:no|not) (?:greater|larger|higher|more) than)\s+([0-9]+)",
        r"\b([0-9]+) or (?:less|fewer)\b",
        r"max(?:imum)?[ _-]?(?:num[ _])?(?:top[ _])?logprobs?\s?(?:is|of|=|:|\()\s*([0-9]+)",
        r"max(?:imum)?(?: value)?(?: of| is| supported is)?:?\s+([0-9]+)",
        r"\[\s*[0-9]+\s*(?:,|\.\.)\s*([0-9]+)\s*\]",
        r"max(?:imum)?\b[^.;0-9]{0,60}?\b(?:is|of)[:=]?\s*([0-9]+)",
        r"(?:limit|maximum)(?: of)?[ (:=]{1,3}([0-9]+)",
        r"(?:range|between|from)\b[^.;0-9]{0,20}[0-9]+\s?(?:to|-|–|\.\.)\s?([0-9]+)(?!.{0,3}exclusive)",
    )
)
# The first number that is too large, of an open range.
_ABOVE_CAPS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"<\s*([0-9]+)",
        r"(?:less|smaller|lower) than\s+([0-9]+)",
        r"to ([0-9]+) \(exclusive\)",
        r"\[\s*[0-9]+\s*(?:,|\.\.)\s*([0-9]+)\s*\)",
    )
)
_NO_LOGPROBS = re.compile(
    r"logprobs[_-]mode|gather_generation_logits|kv-sharing-fast-prefill|stream=true"
    r"|not (?:be )?(?:supported|enabled|available|implemented|allowed)|unsupported|disabled"
    r"|does ?n[o']t support|do not support",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"maximum context length|context (?:size|length|window)|max_model_len"
    r"|exceed_context_size|context_length_exceeded|longer than the (?:model|maximum)"
    r"|(?:prompt|input|inputs) (?:is|are) too long",
    re.IGNORECASE,
)
_UNKNOWN_FIELD = re.compile(
    r"extra_forbidden|extra inputs|unrecogni[sz]ed|unknown|unexpected|not permitted"
    r"|not supported|unsupported|not yet supported|invalid|validation error|must be"
    r"|not (?:implemented|allowed|available)|does ?n[o']t support|no such (?:field|parameter)",
    re.IGNORECASE,
)


def error_text(reply: WireReply) -> str:
    """The server's own words, on one line and cut short; "" where it said nothing."""
    if reply.message:
        return _short(reply.message)
    found = _from_json(reply.body) if reply.body is not None else _from_html(reply.text)
    return _short(found)


def _from_json(body: JSON, depth: int = 0) -> str:
    """The words of an error, wherever servers and gateways put them: one wraps another's."""
    if depth > _MOST_WRAPPED:
        return ""
    if isinstance(body, list):
        said = (_from_json(item, depth + 1) for item in body[:5])
        return "; ".join(s for s in said if s)
    if not isinstance(body, dict):
        return as_text(body) or ""
    for name in _SAID_IN:
        said_there = _from_json(body.get(name), depth + 1)
        if said_there:
            where = _where(body)
            return f"{where}: {said_there}" if where else said_there
    return as_text(body.get("type")) or "" if depth else ""


def _where(entry: Mapping[str, JSON]) -> str:
    """The place that one entry of a validation error names, as ``body.messages``."""
    places = (
        as_text(p) or (str(p) if isinstance(p, int) else "") for p in as_list(entry.get("loc"))
    )
    return ".".join(p for p in places if p)


def _from_html(text: str) -> str:
    title = re.search(r"<title>([^<]{1,200})", text, re.IGNORECASE)
    return title.group(1) if title else re.sub(r"<[^>]{0,200}>", " ", text)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def failure(reply: WireReply, doing: str) -> Failure:
    """The failure that a reply is, ``doing`` naming what was asked ("chat", "tokenize")."""
    said = error_text(reply)
    if reply.failure is not None:
        return Failure(
            reply.failure, f"{doing}: {said or reply.failure.value}", reply.status or None
        )
    if reply.status != 200:
        kind = FailureKind.STATUS
        if reply.status in (400, 413, 422) and _TOO_LONG.search(said):
            kind = FailureKind.UNSUPPORTED
        return Failure(kind, f"{doing}: HTTP {reply.status}: {said or 'no message'}", reply.status)
    if reply.body is None:
        shown = f": {said}" if said else ""
        return Failure(FailureKind.MALFORMED, f"{doing}: the answer is not JSON{shown}", 200)
    return Failure(FailureKind.MALFORMED, f"{doing}: an answer of unknown shape", 200)


def is_missing(reply: WireReply) -> bool:
    """True where the server has no such path, as opposed to no such model."""
    if reply.failure is not None or reply.status not in (404, 405, 501):
        return False
    return "model" not in error_text(reply).lower()


@dataclass(frozen=True)
class Cap:
    """The server lists at most ``k`` tokens; 0 < k < what was asked."""

    k: int


@dataclass(frozen=True)
class NoLogprobs:
    """The server gives no log-probabilities of this kind, whatever their number.

    ``list_only``: a request for the chosen token's value alone may still work.
    """

    said: str
    list_only: bool = False


@dataclass(frozen=True)
class UnknownFields:
    """Optional fields that the server refused by name."""

    names: tuple[str, ...]


Objection = Cap | NoLogprobs | UnknownFields | None


def objection(reply: WireReply, asked: int, optional: Iterable[str]) -> Objection:
    """What a refusal objects to, if it is something that may be asked differently.

    Parameters
    ----------
    asked
        How many listed tokens were asked for; 0 where no log-probabilities were.
    optional
        Names of the fields in the request that may be left out without changing its meaning.
    """
    said = error_text(reply)
    if reply.failure is not None or _TOO_LONG.search(said):
        return None
    said = _with_parameter(said, reply.body)
    refuses = bool(_LOGPROB_WORDS.search(said) and _NO_LOGPROBS.search(said))
    if reply.status in _REFUSED_TOO and asked and refuses:
        return NoLogprobs(said)
    if reply.status not in _REFUSED:
        return None
    fields = UnknownFields(tuple(n for n in optional if names(said, n)))
    if asked and _LOGPROB_WORDS.search(said) and not fields.names:
        if _NO_LOGPROBS.search(said):
            return NoLogprobs(said, "gather_generation_logits" in said)
        k = cap(said)
        if k is None or k == 0:
            return NoLogprobs(said)
        return Cap(k) if k < asked else NoLogprobs(said)
    if fields.names and _UNKNOWN_FIELD.search(said):
        return fields
    return None


def _with_parameter(said: str, body: JSON) -> str:
    """The message, and the field it is about where only `param` names it."""
    parts = as_map(body)
    told = as_text(as_map(parts.get("error")).get("param")) or as_text(parts.get("param")) or ""
    named = _short(told)[:80]
    return said if not named or names(said, named) else f"{said} ({named})"


def cap(said: str) -> int | None:
    """The largest number of listed tokens that a message allows, None where it names none."""
    for patterns, over in ((_CAPS, 0), (_ABOVE_CAPS, 1)):
        for pattern in patterns:
            found = pattern.search(said)
            if found and len(found.group(1)) < 10:
                return max(0, int(found.group(1)) - over)
    return None


def names(said: str, field: str) -> bool:
    """True where a message speaks of that field."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(field)}(?![A-Za-z0-9_])", said) is not None


def without(body: Mapping[str, JSON], names: Iterable[str]) -> dict[str, JSON]:
    """The request without those fields."""
    left_out = set(names)
    return {k: v for k, v in body.items() if k not in left_out}
