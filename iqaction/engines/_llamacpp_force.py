"""Teacher forcing on llama.cpp, which has no prompt log-probabilities. Sends nothing.

A grammar of single tokens makes the server generate the wanted ids and report, for each, the raw
log-probability and the raw list, all in one request. Two kinds of tokens cannot be in a grammar:

* end-of-generation tokens. As the *last* token the wanted one comes by itself: where the grammar
  ends, only they are allowed. Elsewhere it is forced alone, by a bias.
* byte fragments, which have no row either. Another token is forced in their place, and the
  wanted id is read in the list.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from iqaction.calls import EngineInfo, Failure, FailureKind, Force, Scored
from iqaction.engines import _errors, _forced, _logprobs, _tokens
from iqaction.engines._base import WireReply, WireRequest
from iqaction.engines._logprobs import Asked
from iqaction.engines._reading import as_count, as_ids, as_list, as_map, as_text
from iqaction.json_value import JSON
from iqaction.rows import Position

_T = TypeVar("_T")
Asking = Generator[WireRequest, WireReply, _T]

_BIAS = 10_000.0  # above any logit, so that greedy decoding takes the token
_LIST = 64  # a fragment is sought in a list of this length first
_WHOLE_VOCABULARY = 1_000_000  # the server cuts it to what there is


class _Refused(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class _Kinds:
    """What is known of the continuation's ids before anything is forced."""

    fragments: frozenset[int]
    plain: int | None  # an id that stands for whole characters


def force(call: Force, engine: EngineInfo) -> Asking[Scored | Failure]:
    """Score the continuation; at most about two requests per token, usually one for all."""
    refused = _forced.refusal(call, engine)
    if refused is not None:
        return refused
    try:
        kinds = yield from _kinds(call.continuation_ids)
        return (yield from _Forcing(call, engine.eos_id, kinds).run())
    except _Refused as exc:
        return exc.failure


def _kinds(ids: Sequence[int]) -> Asking[_Kinds]:
    """Find byte fragments: no request more than one where the whole text is ASCII."""
    reply = yield WireRequest("POST", "/detokenize", {"tokens": list(ids)})
    _must_be_there(reply)
    text = as_text(as_map(reply.body).get("content")) if reply.status == 200 else None
    if text is None or text.isascii():
        return _Kinds(frozenset(), None)
    body: dict[str, JSON] = {"content": text, "with_pieces": True, "parse_special": True}
    reply = yield WireRequest("POST", "/tokenize", body)
    _must_be_there(reply)
    pieces = {
        parts.get("id"): parts.get("piece")
        for entry in as_list(as_map(reply.body).get("tokens"))
        if isinstance((parts := as_map(entry)).get("id"), int)
    }
    fragments: set[int] = set()
    plain: int | None = None
    for token_id in dict.fromkeys(ids):
        piece = pieces.get(token_id)
        if piece is None:  # the text does not tokenize back to these ids
            reply = yield WireRequest("POST", "/detokenize", {"tokens": [token_id]})
            _must_be_there(reply)
            piece = as_map(reply.body).get("content")
        if isinstance(piece, str) and piece and "\ufffd" not in piece:
            plain = token_id if plain is None else plain
        else:
            fragments.add(token_id)
    return _Kinds(frozenset(fragments), plain)


def _must_be_there(reply: WireReply) -> None:
    """Refuse to go on without an answer: the tokens would be forced another way than in a run
    that lost none. A server that has no such path is forced as if all were whole."""
    if reply.failure is not None or reply.status >= 500:
        raise _Refused(_errors.failure(reply, "force"))


class _Forcing:
    """One continuation on its way through the server."""

    def __init__(self, call: Force, eos_id: int | None, kinds: _Kinds) -> None:
        self._call = call
        self._ids = call.continuation_ids
        self._eos_id = eos_id
        self._kinds = kinds
        self._plain = kinds.plain
        self._grammar_works = True
        self._alone = 0  # tokens that were forced one by one

    def run(self) -> Asking[Scored | Failure]:
        positions: list[Position] = []
        while len(positions) < len(self._ids):
            at = len(positions)
            stop = at
            while stop < len(self._ids) and not self._is_special(stop):
                stop += 1
            if stop > at:
                positions += yield from self._several(at, stop)
            else:
                positions.append((yield from self._one(at)))
        method = "stepwise" if self._alone else "grammar"
        return _forced.scored(positions, self._call, self._call.top_logprobs, method)

    def _is_special(self, at: int) -> bool:
        return self._ids[at] == self._eos_id or self._ids[at] in self._kinds.fragments

    def _several(self, at: int, stop: int) -> Asking[list[Position]]:
        """Rows of the tokens from ``at`` to ``stop``, and of an end token right after them.

        Where the server refuses the grammar, one of the tokens cannot be in it: halves are
        tried, so that a single bad token costs few requests.
        """
        positions = None
        if self._grammar_works:
            positions = yield from self._by_grammar(at, stop)
        if positions is not None:
            return positions
        if stop - at == 1:
            return [(yield from self._one(at))]
        middle = (at + stop) // 2
        first = yield from self._several(at, middle)
        return first + (yield from self._several(middle, stop))

    def _by_grammar(self, at: int, stop: int) -> Asking[list[Position] | None]:
        wanted = self._ids[at:stop]
        ends = stop == len(self._ids) - 1 and self._ids[stop] == self._eos_id
        rule = " ".join(f"<[{i}]>" for i in wanted)
        body = self._body(at, self._call.top_logprobs)
        body |= {"n_predict": len(wanted) + ends, "grammar": f"root ::= {rule}"}
        reply = yield WireRequest("POST", "/completion", body, retry=False)
        if reply.failure is None and reply.status in (400, 500):
            said = _errors.error_text(reply)
            if "grammar" not in said.lower():
                raise _Refused(_errors.failure(reply, "force"))
            self._grammar_works = reply.status == 500  # 400: this build parses no token grammar
            return None
        positions = _read(reply, at + len(self._call.prompt_ids))
        got = tuple(p.chosen.id for p in positions)
        if ends and got == self._ids[at:]:
            return positions
        return positions[: len(wanted)] if got[: len(wanted)] == wanted else None

    def _one(self, at: int) -> Asking[Position]:
        self._alone += 1
        wanted = self._ids[at]
        if wanted not in self._kinds.fragments:
            positions = yield from self._biased(at, wanted, self._call.top_logprobs)
            if positions and positions[0].chosen.id == wanted:
                return positions[0]
            if positions:
                found = positions[0].chosen.id
                raise _Refused(_malformed(at, f"token {found} came, forced was {wanted}"))
        return (yield from self._in_list(at, wanted))

    def _in_list(self, at: int, wanted: int) -> Asking[Position]:
        """The row of a byte fragment, read where another token was forced in its place."""
        k = self._call.top_logprobs
        for length in (max(k, _LIST), _WHOLE_VOCABULARY):
            stand_in = yield from self._stand_in()
            positions = yield from self._biased(at, stand_in, length)
            listed = positions[0].top if positions else ()
            chosen = next((t for t in listed if t.id == wanted), None)
            if chosen is not None:
                return Position(chosen, listed[:k])
        raise _Refused(_malformed(at, f"token {wanted} is in no list"))

    def _stand_in(self) -> Asking[int]:
        if self._plain is None:
            reply = yield WireRequest("POST", "/tokenize", {"content": "a"})
            ids = _tokens.read_ids(reply.body) if reply.status == 200 else None
            if not ids:
                raise _Refused(_errors.failure(reply, "force"))
            self._plain = ids[-1]
        return self._plain

    def _biased(self, at: int, token_id: int, n_probs: int) -> Asking[list[Position]]:
        body = self._body(at, n_probs)
        body |= {"n_predict": 1, "logit_bias": [[token_id, _BIAS]]}
        reply = yield WireRequest("POST", "/completion", body, retry=False)
        return _read(reply, at + len(self._call.prompt_ids))

    def _body(self, at: int, n_probs: int) -> dict[str, JSON]:
        return {
            "prompt": [*self._call.prompt_ids, *self._ids[:at]],
            "n_probs": n_probs,
            "temperature": 0,
            "cache_prompt": False,  # a cached prefix shifts the values
            "return_tokens": True,
            "stream": False,
        }


def _read(reply: WireReply, asked: int) -> list[Position]:
    """The rows of an answer to a prompt of ``asked`` tokens."""
    if reply.failure is not None or reply.status != 200 or not isinstance(reply.body, dict):
        raise _Refused(_errors.failure(reply, "force"))
    body: Mapping[str, JSON] = reply.body
    evaluated = as_count(body.get("tokens_evaluated"))
    if evaluated is not None and evaluated != asked:
        said = f"an answer to a prompt of {evaluated} tokens, and {asked} were sent"
        raise _Refused(Failure(FailureKind.MALFORMED, f"force: {said}", 200))
    listed = _logprobs.read({"content": body.get("completion_probabilities")}, Asked())
    generated = as_ids(body.get("tokens"))
    if generated is None:
        raise _Refused(Failure(FailureKind.MALFORMED, "force: an answer without token ids", 200))
    return list(listed.positions) if listed else []


def _malformed(at: int, said: str) -> Failure:
    return Failure(FailureKind.MALFORMED, f"force: position {at} of the continuation: {said}")
