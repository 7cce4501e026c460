"""Several sampled completions of one prompt as a conversation, put together as one answer.

Knows how many choices a request may ask for and what a sampler must be told; the request itself,
its refusals and the reading of one choice are :mod:`iqaction.engines._chat`'s. Sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.calls import Draw, Drawn, EngineInfo, Failure, FailureKind
from iqaction.engines import _chat
from iqaction.engines._base import Speaking
from iqaction.engines._chat import Choice, Form, Taken, Terms
from iqaction.engines._reading import as_count, as_map
from iqaction.json_value import JSON
from iqaction.rows import pack

GIVEN_UP = "the engine gave a sampled sequence up"
_OFF: Mapping[str, JSON] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}


def draw(call: Draw, engine: EngineInfo, form: Form, at_once: int | None = None) -> Speaking:
    """Ask until there are ``call.n`` sequences, as many in one request as the engine gives.

    A request that fails fails the call, whatever came before it: it is asked again as a whole
    when a run continues. A sequence that the engine gave up is left out and flagged.

    Parameters
    ----------
    at_once
        How many sequences to ask for in one request; None: all that are missing.
    """
    if call.n < 1 or call.top_logprobs < 1:
        missing = "sequence" if call.n < 1 else "list of log-probabilities"
        return Failure(FailureKind.UNSUPPORTED, f"draw: no {missing} is asked for")
    asking, terms = _request(call, engine, form)
    body: Mapping[str, JSON] = asking
    kept = _Kept()
    most = at_once or call.n
    while kept.came < call.n:
        body = _for(body, min(most, call.n - kept.came))
        asked = yield from _chat.ask(body, form, terms)
        if isinstance(asked, Failure):
            return asked
        body = asked.sent
        came = kept.take(call, form, asked)
        if isinstance(came, Failure):
            return came
        most = min(most, max(came, 1))  # a server that does not know `n` answers with one
    return _drawn(engine, kept)


def _request(call: Draw, engine: EngineInfo, form: Form) -> tuple[dict[str, JSON], Terms]:
    """The request for one sequence, and which of its fields must not be left out.

    A filter that is off may be: leaving it out then asks for nothing else, where no default of
    the engine's own applies.
    """
    wanted: Mapping[str, JSON] = {"top_k": call.top_k, "top_p": call.top_p, "min_p": call.min_p}
    on = {name: value for name, value in wanted.items() if value != _OFF[name]}
    required = ("temperature", *on)
    optional = tuple(name for name in form.optional if name not in required)
    return {**_chat.request(call, engine, form), **on}, Terms(optional, required, lists=True)


def _for(body: Mapping[str, JSON], n: int) -> dict[str, JSON]:
    """The request for ``n`` sequences; one is what no field asks for."""
    rest = {name: value for name, value in body.items() if name != "n"}
    return {**rest, "n": n} if n > 1 else rest


@dataclass
class _Kept:
    """What came so far. ``came`` counts the sequences that were given up as well."""

    choices: list[Choice] = field(default_factory=list)
    flags: dict[str, None] = field(default_factory=dict)  # in order, each once
    came: int = 0
    completion: int | None = 0

    def take(self, call: Draw, form: Form, asked: Taken) -> int | Failure:
        """Add the sequences of one answer and return their number; a failure where none is
        usable."""
        answer = as_map(asked.reply.body)
        found = _chat.choices(answer)[: call.n - self.came]
        read = [_chat.read_choice(call, form, asked, choice) for choice in found]
        good = [r for r in read if isinstance(r, Choice)]
        if not good:
            failed = [r for r in read if isinstance(r, Failure)]
            return failed[0] if failed else _chat.no_choice(asked.reply)
        spoken = [r for r in good if r.text or r.reasoning]
        if spoken and not any(r.positions for r in good):
            return Failure(FailureKind.UNSUPPORTED, f"draw: {_chat.NO_LOGPROBS}", 200)
        self.choices += good
        self.came += len(read)
        # Nothing but an end token is no loss, where the engine lists no row for that.
        said = [
            *asked.flags,
            *(flag for r in good if r.positions or r in spoken for flag in r.flags),
        ]
        if len(good) < len(read):
            said.append(GIVEN_UP)
        self.flags |= dict.fromkeys(said)
        tokens = as_count(as_map(answer.get("usage")).get("completion_tokens"))
        known = self.completion is not None and tokens is not None
        self.completion = (self.completion or 0) + (tokens or 0) if known else None
        return len(read)


def _drawn(engine: EngineInfo, kept: _Kept) -> Drawn:
    lengths = tuple(len(c.positions) for c in kept.choices)
    finished = tuple(c.finish for c in kept.choices)
    flags = list(kept.flags)
    completion, n = kept.completion, sum(lengths)
    if completion is not None and completion < n:
        completion = None  # of one choice only, as some servers count
    # Some engines count the end token and list no row for it.
    unlisted = completion - n if completion is not None else 0
    ended = 0 < unlisted == finished.count("stop")
    if unlisted and not ended and _chat.ROWS_LOST not in flags and GIVEN_UP not in flags:
        flags.append(_chat.ROWS_LOST)
    return Drawn(
        pack([p for c in kept.choices for p in c.positions]),
        lengths,
        finished,
        completion,
        min(c.k for c in kept.choices),
        engine.eos_id if ended else None,
        tuple(flags),
    )
