"""The dialect of SGLang: chat with ids from its meta information, forcing by ``/generate``.

Read in the sources (0.5.x), not run here. Older releases ignore the fields they do not know;
then tokens are matched by their bytes.
"""

from __future__ import annotations

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
)
from iqaction.engines import _chat, _draw, _errors, _forced, _models, _tokens
from iqaction.engines._base import Detecting, Speaking, WireReply, WireRequest
from iqaction.engines._chat import Form, Reply
from iqaction.engines._logprobs import Listed
from iqaction.engines._reading import (
    as_count,
    as_id,
    as_ids,
    as_list,
    as_map,
    as_number,
    as_text,
)
from iqaction.engines.vllm import tokenize_body
from iqaction.json_value import JSON
from iqaction.rows import Position, Token

_NEUTRAL: Mapping[str, JSON] = {
    "top_p": 1.0,
    "top_k": -1,  # off; 0 is refused
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}

# layers/sampler.py: the temperature first; then a token has to pass top_k and a top_p that sums
# over the whole vocabulary. With min_p, the flashinfer kernels renormalise between the two, and
# PyTorch's do not. Lists are taken after the temperature unless the server was started with
# SGLANG_RETURN_ORIGINAL_LOGPROB; no request says which.
_FILTERS = ("temperature", "top_k+top_p", "min_p")


def _rows(reply: Reply) -> Listed | None:
    """Rows with ids from ``meta_info`` where the answer has it, else as any OpenAI answer."""
    meta = as_map(reply.choice.get("meta_info"))
    chosen = as_list(meta.get("output_token_logprobs"))
    if not chosen:
        return _chat.read_rows(reply)
    positions = _positions(chosen, as_list(meta.get("output_top_logprobs")))
    ids = as_ids(reply.choice.get("token_ids"))
    disagree = ids is not None and ids != tuple(p.chosen.id for p in positions)
    return Listed(positions, disagree)


_FORM = Form(
    neutral=_NEUTRAL,
    extra={"return_token_ids": True, "return_prompt_token_ids": True},
    with_logprobs={"return_meta_info": True},
    rows=_rows,
)


def _positions(chosen: list[JSON], tops: list[JSON]) -> tuple[Position, ...]:
    return tuple(
        Position(
            _triple(triple),
            tuple(map(_triple, as_list(tops[i]))) if i < len(tops) else (),
        )
        for i, triple in enumerate(chosen)
    )


def _triple(value: JSON) -> Token:
    """One of SGLang's ``[logprob, id, text]``; the text is null unless asked for."""
    parts = as_list(value)
    if len(parts) < 2:
        return Token("", None)
    token_id = as_id(parts[1])
    text = as_text(parts[2]) if len(parts) > 2 else None
    shown = text if text is not None else f"<{token_id}>"
    return Token(shown, as_number(parts[0]), token_id)


@dataclass(frozen=True)
class SgLang:
    """See the module's docstring."""

    name: str = "sglang"

    def detect(self, model: str) -> Detecting:
        listing = yield WireRequest("GET", "/v1/models")
        served = _models.read(listing.body, owner="sglang")
        if not served:
            return None
        info = yield WireRequest("GET", "/server_info")
        if info.status != 200 or not isinstance(info.body, dict):
            info = yield WireRequest("GET", "/get_server_info")  # the name before 0.5
        told = as_map(info.body) if info.status == 200 else {}
        chosen = _models.choose(model, served)
        return EngineInfo(
            dialect=self.name,
            version=as_text(told.get("version")) or "",
            model=chosen.name,
            models=_models.names(served),
            capabilities=frozenset(Capability),
            slots=_slots(told),
            max_model_len=chosen.max_model_len,
            details=_details(told),
            filters=_FILTERS,
        )

    def speak(self, call: WireCall, engine: EngineInfo) -> Speaking:
        match call:
            case Chat():
                said = yield from _chat.chat(call, engine, _FORM)
                return said.answer
            case Tokenize():
                return (yield from _tokenize(call, engine))
            case Force():
                return (yield from _force(call, engine))
            case Draw():
                return (yield from _draw.draw(call, engine, _FORM))


def _slots(told: Mapping[str, JSON]) -> int | None:
    """How many requests run at once; since 0.4.6 the number stands with the internal states."""
    states = [as_map(s) for s in as_list(told.get("internal_states"))]
    for place in (told, *states[:1]):
        slots = as_count(place.get("max_running_requests"))
        if slots:
            return slots
    return None


def _details(told: Mapping[str, JSON]) -> dict[str, str]:
    kept = (
        "model_path", "quantization", "dtype", "kv_cache_dtype", "attention_backend",
        "speculative_algorithm", "enable_deterministic_inference",
    )  # fmt: skip
    values = {key: told.get(key) for key in kept}
    shown = {
        key: str(value) if isinstance(value, (int, float)) else as_text(value)
        for key, value in values.items()
    }
    return {key: text[:200] for key, text in shown.items() if text is not None}


def _tokenize(call: Tokenize, engine: EngineInfo) -> Speaking:
    body = tokenize_body(call, engine)
    reply = yield WireRequest("POST", "/v1/tokenize", body)
    if _errors.is_missing(reply):
        reply = yield WireRequest("POST", "/tokenize", body)
    if call.text is None and reply.failure is None and reply.status in (400, 422):
        said = _errors.error_text(reply)
        return Failure(
            FailureKind.UNSUPPORTED, f"tokenize: this release takes no chat: {said}", reply.status
        )
    return _tokens.token_ids(reply, empty_allowed=call.text == "")


def _force(call: Force, engine: EngineInfo) -> Speaking:
    refused = _forced.refusal(call, engine)
    if refused is not None:
        return refused
    body: dict[str, JSON] = {
        "input_ids": [*call.prompt_ids, *call.continuation_ids],
        "sampling_params": {"temperature": 0, "max_new_tokens": 1},
        "return_logprob": True,
        # From the prompt's last token on: the first row has no value. The default, -1, gives
        # no row at all.
        "logprob_start_len": len(call.prompt_ids) - 1,
        "top_logprobs_num": call.top_logprobs,
        "return_text_in_logprobs": True,
        "stream": False,
    }
    reply = yield WireRequest("POST", "/generate", body, retry=False)
    if reply.failure is not None or reply.status != 200 or reply.body is None:
        return _errors.failure(reply, "force")
    return _read_forced(reply, call)


def _read_forced(reply: WireReply, call: Force) -> Answer:
    body = reply.body[0] if isinstance(reply.body, list) and reply.body else reply.body
    meta = as_map(as_map(body).get("meta_info"))
    finish = as_map(meta.get("finish_reason"))
    if finish.get("type") == "abort":
        said = as_text(finish.get("message")) or "no reason given"
        return Failure(FailureKind.ABORTED, f"force: the engine gave the item up: {said}", 200)
    rows = as_list(meta.get("input_token_logprobs"))
    tops = as_list(meta.get("input_top_logprobs"))
    n = len(call.continuation_ids)
    if len(rows) < n:
        said = f"{len(rows)} rows for {n} tokens"
        return Failure(FailureKind.MALFORMED, f"force: input_token_logprobs holds {said}", 200)
    if len(tops) != len(rows):
        said = f"{len(tops)} lists for {len(rows)} rows"
        return Failure(FailureKind.MALFORMED, f"force: input_top_logprobs holds {said}", 200)
    # The last n rows belong to the continuation, wherever the server began to count.
    return _forced.scored(_positions(rows[-n:], tops[-n:]), call, call.top_logprobs, "generate")


DIALECT = SgLang()
