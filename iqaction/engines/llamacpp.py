"""The dialect of llama.cpp's server: ids in every entry, forcing by token grammar.

Measured on b11549. The server answers any model name with the model it has loaded, ignores
fields it does not know, and leaves incomplete byte sequences out of its log-probability rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from iqaction.calls import (
    Capability,
    Chat,
    Draw,
    EngineInfo,
    Failure,
    Force,
    TokenIds,
    Tokenize,
    WireCall,
)
from iqaction.engines import _chat, _draw, _errors, _llamacpp_force, _models, _tokens
from iqaction.engines._base import Detecting, Speaking, WireReply, WireRequest
from iqaction.engines._chat import Form, Reply, Said
from iqaction.engines._logprobs import Listed
from iqaction.engines._reading import as_count, as_ids, as_list, as_map, as_text
from iqaction.json_value import JSON
from iqaction.rows import Position, Token

_KEPT = ("ftype", "n_vocab", "n_params", "n_ctx_train")  # of the model's own figures
_LOST = "\0"  # no prompt: what the template makes is not known now, and may be
_LONGEST_GAP = 3  # an incomplete UTF-8 character has at most three bytes, so three tokens

UNCONFIRMED = "the prompt's token ids do not have the length that the engine reports"
_DECODE_MODE = (
    "llama.cpp forces tokens in decode mode: its prefill kernels are covered by the prompt only"
)

# Neutral for every sampler in the default chain; what is left out takes the server's defaults
# (top_k 40, top_p 0.95, min_p 0.05) or its command line's.
_NEUTRAL: Mapping[str, JSON] = {
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "dynatemp_range": 0.0,
    "mirostat": 0,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
}

_DEFAULT_CHAIN = ("top_k", "top_p", "min_p", "temperature")
_SWITCHED_OFF = ("penalties", "dry", "top_n_sigma", "typ_p", "xtc", "adaptive_p")  # by _DRAWING


def _rows(reply: Reply) -> Listed | None:
    """One position per generated token.

    The server lists a row only where the text so far ends in a whole character: a byte fragment
    has none. The ids of all tokens come apart (``verbose``), so the missing positions can be put
    back, without a value: a path that is whole can be forced, a number that is not there is not
    made up.
    """
    listed = _chat.read_rows(reply)
    tokens = as_ids(as_map(reply.body.get("__verbose")).get("tokens"))
    if listed is None or not tokens:
        return listed
    if len(tokens) == len(listed.positions):
        ids = tuple(p.chosen.id for p in listed.positions)
        return dataclasses.replace(listed, ids_disagree=ids != tokens)
    positions = spread(listed.positions, tokens)
    return listed if positions is None else Listed(positions)


def spread(positions: Sequence[Position], tokens: Sequence[int]) -> tuple[Position, ...] | None:
    """Rows laid along the generated ids, empty ones for byte fragments; None where unclear.

    A row that ends a character carries the whole character and the id of its last token; the up
    to three tokens before it have no row. Only a placement that is the only one counts.
    """
    ways = {-1: 1}
    steps: list[dict[int, int]] = []
    for position in positions:
        gaps = 1 if position.chosen.text.isascii() else _LONGEST_GAP + 1
        after: dict[int, int] = {}
        back: dict[int, int] = {}
        for at, count in ways.items():
            for here in range(at + 1, min(at + 1 + gaps, len(tokens))):
                if tokens[here] == position.chosen.id:
                    after[here] = min(after.get(here, 0) + count, 2)
                    back[here] = at
        ways = after
        steps.append(back)
    ends = {at: n for at, n in ways.items() if len(tokens) - 1 - at <= _LONGEST_GAP}
    if list(ends.values()) != [1]:
        return None
    (at,) = ends
    placed: dict[int, Position] = {}
    for position, back in zip(reversed(positions), reversed(steps), strict=True):
        placed[at] = position
        at = back[at]
    return tuple(placed.get(i) or Position(Token("", None, t)) for i, t in enumerate(tokens))


def _answered(body: Mapping[str, JSON]) -> str:
    return as_text(as_map(body.get("__verbose")).get("prompt")) or ""


def _rendered(body: Mapping[str, JSON]) -> _llamacpp_force.Asking[str]:
    kept = ("messages", "chat_template_kwargs")
    asked: dict[str, JSON] = {name: body[name] for name in kept if name in body}
    reply = yield WireRequest("POST", "/apply-template", asked)
    if reply.failure is None and (400 <= reply.status < 500 or reply.status == 501):
        return ""  # no such path, or not for us
    return as_text(as_map(reply.body).get("prompt")) or _LOST


_FORM = Form(
    neutral=_NEUTRAL,
    # A cached prefix gives other values than one computed anew (up to .14 nats at Q4_1).
    extra={"cache_prompt": False, "return_tokens": True, "verbose": True},
    rows=_rows,
    answered=_answered,
    rendered=_rendered,
)

# A draw also undoes what a server's command line may set and a greedy text does not feel.
_DRAWING = dataclasses.replace(
    _FORM,
    neutral={**_NEUTRAL, "min_keep": 0, "adaptive_target": -1.0, "ignore_eos": False},
    extra={**_FORM.extra, "seed": -1, "post_sampling_probs": False},
)


@dataclass(frozen=True)
class LlamaCpp:
    """See the module's docstring."""

    name: str = "llamacpp"

    def detect(self, model: str) -> Detecting:
        listing = yield WireRequest("GET", "/v1/models")
        served = _models.read(listing.body, owner="llamacpp")
        props = yield WireRequest("GET", "/props")
        told = as_map(props.body) if props.status == 200 else {}
        if not served and not ("total_slots" in told and "default_generation_settings" in told):
            return None
        alias = as_text(told.get("model_alias")) or ""
        served = served or ((_models.Served(alias),) if alias else ())
        chosen = _models.choose(model, served) if served else _models.Served(model)
        eos_id = yield from _eos(told)
        defaults = as_map(told.get("default_generation_settings"))
        limits: tuple[str, ...] = (_DECODE_MODE,)
        if not told:
            limits += ("/props is not readable: slots, context and end token are not known",)
        return EngineInfo(
            dialect=self.name,
            version=as_text(told.get("build_info")) or "",
            model=chosen.name,
            models=_models.names(served),
            capabilities=frozenset(Capability),
            slots=as_count(told.get("total_slots")) or None,
            max_model_len=as_count(defaults.get("n_ctx")) or None,
            eos_id=eos_id,
            details=_details(told, listing.body),
            limitations=limits,
            filters=_filters(defaults),
        )

    def speak(self, call: WireCall, engine: EngineInfo) -> Speaking:
        match call:
            case Chat():
                said = yield from _chat.chat(call, engine, _FORM)
                return (yield from _with_prompt_ids(said))
            case Tokenize():
                return (yield from _tokenize(call))
            case Force():
                return (yield from _llamacpp_force.force(call, engine))
            case Draw():
                # One sequence a request: of several choices only the first comes with all its
                # token ids and their number, and which of the others lost a row is not told.
                return (yield from _draw.draw(call, engine, _DRAWING, at_once=1))


def _filters(defaults: Mapping[str, JSON]) -> tuple[str, ...]:
    """The filters of the server's chain of samplers in its order; its default chain where it does
    not say. A sampler that no request field switches off stays under its own name."""
    told = as_map(defaults.get("params")) or defaults  # older releases have no `params`
    chain = [name for name in map(as_text, as_list(told.get("samplers"))) if name]
    return tuple(n for n in chain if n not in _SWITCHED_OFF) if chain else _DEFAULT_CHAIN


def _eos(told: Mapping[str, JSON]) -> _llamacpp_force.Asking[int | None]:
    text = as_text(told.get("eos_token"))
    if not text:
        return None
    reply = yield tokenize_request(text, add_special=False)
    ids = _tokens.read_ids(reply.body) if reply.status == 200 else None
    return ids[0] if ids is not None and len(ids) == 1 else None


def tokenize_request(text: str, *, add_special: bool) -> WireRequest:
    """llama.cpp's own form: any other key than ``content`` gives no ids and no error."""
    body: dict[str, JSON] = {
        "content": text,
        "add_special": add_special,
        "parse_special": True,
    }
    return WireRequest("POST", "/tokenize", body)


def _details(told: Mapping[str, JSON], listing: JSON) -> dict[str, str]:
    details: dict[str, str] = {}
    path, template = as_text(told.get("model_path")), as_text(told.get("chat_template"))
    if path:
        details["model_file"] = PurePath(path.replace("\\", "/")).name
    if template:
        details["chat_template_sha256"] = hashlib.sha256(template.encode()).hexdigest()
    first = as_list(as_map(listing).get("data"))[:1]
    meta = as_map(as_map(first[0]).get("meta")) if first else {}
    for key, value in (("ftype", told.get("model_ftype")), *meta.items()):
        told_now = str(value) if isinstance(value, int) else as_text(value)
        if key in _KEPT and told_now:
            details.setdefault(key, told_now[:200])
    return details


def _with_prompt_ids(said: Said) -> Speaking:
    """The answer with the ids of the very prompt that was answered, as the server reports it."""
    answer = said.answer
    prompt = _answered(said.body)
    if isinstance(answer, Failure) or not prompt or answer.prompt_tokens is None:
        return answer
    ids: tuple[int, ...] | None = None
    # The prompt may begin with the token that is added to one; and the ids of another text, which
    # the way mixed up, have another length.
    for add_special in (True, False, True):
        reply = yield tokenize_request(prompt, add_special=add_special)
        ids = _tokens.read_ids(reply.body) if reply.status == 200 else None
        if ids is None:
            return answer
        if len(ids) == answer.prompt_tokens:
            return dataclasses.replace(answer, prompt_ids=ids)
    return dataclasses.replace(answer, flags=(*answer.flags, UNCONFIRMED))


def _tokenize(call: Tokenize) -> Speaking:
    text = call.text
    if text is None:
        templated = yield from _apply_template(call)
        if isinstance(templated, Failure):
            return templated
        text = templated
        reply = yield tokenize_request(text, add_special=True)
    else:
        reply = yield tokenize_request(text, add_special=False)
    answer: TokenIds | Failure = _tokens.token_ids(reply, empty_allowed=text == "")
    return answer


def _apply_template(call: Tokenize) -> _llamacpp_force.Asking[str | Failure]:
    body: dict[str, JSON] = {
        "messages": [{"role": m.role, "content": m.content} for m in call.messages]
    }
    if call.template_kwargs:
        body["chat_template_kwargs"] = _chat.template_kwargs(call.template_kwargs)
    reply: WireReply = yield WireRequest("POST", "/apply-template", body)
    prompt = as_text(as_map(reply.body).get("prompt")) if reply.status == 200 else None
    return prompt if prompt else _errors.failure(reply, "apply-template")


DIALECT = LlamaCpp()
