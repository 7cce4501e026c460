"""The dialect of vLLM: chat with token ids, ``/tokenize``, teacher forcing by ``prompt_logprobs``.

Measured on 0.32.0 and read in the sources of 0.33.0. Root paths (``/version``, ``/tokenize``)
do not stand under ``/v1``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from iqaction.calls import (
    Answer,
    Capability,
    Chat,
    Draw,
    EngineInfo,
    Failure,
    FailureKind,
    Force,
    Tokenize,
    WireCall,
    digest,
)
from iqaction.engines import _chat, _draw, _errors, _forced, _models, _tokens
from iqaction.engines._base import Detecting, Speaking, WireReply, WireRequest
from iqaction.engines._chat import Form, Reply
from iqaction.engines._logprobs import Listed
from iqaction.engines._reading import as_id, as_list, as_map, as_number, as_text
from iqaction.json_value import JSON
from iqaction.rows import Position, Token, value_fault

_FORM = Form(
    # generation_config.json applies to what is left out. 0 and -1 both switch top_k off;
    # releases before 0.9 know only -1.
    neutral={
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    },
    extra={"return_token_ids": True},
    # Ids of the listed tokens come in no other way; the chosen token keeps its bytes.
    with_logprobs={"return_tokens_as_token_ids": True},
)

# The sampler's order (v1/sample/sampler.py, 0.9 to 0.33): top_k and top_p come last together, and
# top_p sums over what top_k left, renormalised.
_FILTERS = ("temperature", "min_p", "top_k", "top_p")


def _rows(reply: Reply) -> Listed | None:
    """Rows without the sampled token's extra slot.

    vLLM lists the sampled token first and drops the last of the k for it where it is not among
    them. A sampled token that is the list's least likely may be such a guest, so it leaves the
    list: what stays is the head of the true list.
    """
    listed = _chat.read_rows(reply)
    if listed is None:
        return None
    return dataclasses.replace(listed, positions=tuple(map(_without_guest, listed.positions)))


def _without_guest(position: Position) -> Position:
    chosen, others = position.chosen, [t for t in position.top if t.id != position.chosen.id]
    if chosen.id is None or not others or len(others) == len(position.top):
        return position
    values = [t.logprob for t in (chosen, *others)]
    if any(v is None or value_fault(v) is not None for v in values):
        return position
    if min(v for v in values if v is not None) < (chosen.logprob or 0.0):
        return position
    return Position(chosen, tuple(others))


@dataclass(frozen=True)
class Vllm:
    """See the module's docstring."""

    name: str = "vllm"

    def detect(self, model: str) -> Detecting:
        listing = yield WireRequest("GET", "/v1/models")
        served = _models.read(listing.body, owner="vllm")
        if not served:
            return None
        version = yield WireRequest("GET", "/version")
        chosen = _models.choose(model, served)
        return EngineInfo(
            dialect=self.name,
            version=as_text(as_map(version.body).get("version")) or "",
            model=chosen.name,
            models=_models.names(served),
            capabilities=frozenset(Capability),
            max_model_len=chosen.max_model_len,
            details={"root": chosen.root} if chosen.root else {},
            filters=_FILTERS,
        )

    def speak(self, call: WireCall, engine: EngineInfo) -> Speaking:
        match call:
            case Chat():
                said = yield from _chat.chat(call, engine, dataclasses.replace(_FORM, rows=_rows))
                return said.answer
            case Tokenize():
                reply = yield WireRequest("POST", "/tokenize", tokenize_body(call, engine))
                return _tokens.token_ids(reply, empty_allowed=call.text == "")
            case Force():
                return (yield from _force(call, engine))
            case Draw():
                form = dataclasses.replace(_FORM, rows=_rows)
                return (yield from _draw.draw(call, engine, form))


def tokenize_body(call: Tokenize, engine: EngineInfo) -> Mapping[str, JSON]:
    """The request for token ids: no special tokens are added to a text, which may continue one.

    A chat gets those its template writes, and no others: that is what the chat endpoint does.
    """
    if call.text is not None:
        return {"model": engine.model, "prompt": call.text, "add_special_tokens": False}
    body: dict[str, JSON] = {
        "model": engine.model,
        "messages": [{"role": m.role, "content": m.content} for m in call.messages],
        "add_generation_prompt": True,
        "add_special_tokens": False,
    }
    if call.template_kwargs:
        body["chat_template_kwargs"] = _chat.template_kwargs(call.template_kwargs)
    return body


def _force(call: Force, engine: EngineInfo) -> Speaking:
    refused = _forced.refusal(call, engine)
    if refused is not None:
        return refused
    body: dict[str, JSON] = {
        "model": engine.model,
        "prompt": [*call.prompt_ids, *call.continuation_ids],
        "max_tokens": 1,
        "temperature": 0,
        "stream": False,
        "prompt_logprobs": call.top_logprobs,
        # A salt of its own keeps a cached prefix out: cached blocks have no log-probabilities,
        # and their values depend on what was computed before.
        "cache_salt": digest(call),
    }
    flags: list[str] = []
    asked = call.top_logprobs
    reply = WireReply(0)
    for _ in range(4):
        # Never at once again after a 500: prompt log-probabilities of long prompts have killed
        # engines, and a second try kills the next one.
        reply = yield WireRequest("POST", "/v1/completions", body, retry=False)
        if reply.failure is None and reply.status == 200:
            return _read_forced(reply, call, asked, tuple(flags))
        match _errors.objection(reply, asked, (n for n in ("cache_salt",) if n in body)):
            case _errors.Cap(asked):
                body = {**body, "prompt_logprobs": asked}
            case _errors.UnknownFields(names):
                flags.extend(_chat.LEFT_OUT.format(n) for n in names)
                body = _errors.without(body, names)
            case _errors.NoLogprobs(said):
                return Failure(
                    FailureKind.UNSUPPORTED, f"force: the engine refuses: {said}", reply.status
                )
            case _:
                break
    return _errors.failure(reply, "force")


def _read_forced(reply: WireReply, call: Force, k: int, flags: tuple[str, ...]) -> Answer:
    body = as_map(reply.body)
    choices = as_list(body.get("choices"))
    choice = as_map(choices[0]) if choices else {}
    rows = choice.get("prompt_logprobs")
    if rows is None:
        rows = body.get("prompt_logprobs")  # where the chat endpoint puts them
    if reply.body is None or (not choices and rows is None):
        return _errors.failure(reply, "force")
    if not isinstance(rows, list):
        return Failure(FailureKind.UNSUPPORTED, "force: the engine ignores prompt_logprobs", 200)
    start, wanted = len(call.prompt_ids), call.continuation_ids
    if len(rows) != start + len(wanted):
        said = f"{len(rows)} rows for {start + len(wanted)} tokens"
        return Failure(FailureKind.MALFORMED, f"force: prompt_logprobs holds {said}", 200)
    positions = [
        _position(as_map(row), token_id) for row, token_id in zip(rows[start:], wanted, strict=True)
    ]
    return _forced.scored(positions, call, k, "prompt_logprobs", flags)


def _position(row: Mapping[str, JSON], wanted: int) -> Position:
    # A key that is no id stays, without one: `scored` refuses such a row, by its position.
    tokens = tuple(_token(key, as_map(entry)) for key, entry in row.items())
    chosen = next((t for t in tokens if t.id == wanted), Token("", None))
    return Position(chosen, tokens)


def _token(key: str, entry: Mapping[str, JSON]) -> Token:
    token_id = as_id(int(key)) if key.isascii() and key.isdigit() and len(key) < 11 else None
    text = as_text(entry.get("decoded_token")) or ""
    return Token(text, as_number(entry.get("logprob")), token_id)


DIALECT = Vllm()
