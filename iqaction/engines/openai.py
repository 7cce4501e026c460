"""The plain OpenAI dialect: chat and nothing else, for every server that no other dialect knows.

Gateways, llama-cpp-python, LMDeploy, TGI, Ollama and others differ in what they add; nothing is
sent here that the OpenAI API does not define, and nothing is assumed of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from iqaction.calls import Capability, Chat, Draw, EngineInfo, Failure, FailureKind, Force, WireCall
from iqaction.engines import _chat, _draw, _models
from iqaction.engines._base import Detecting, Speaking, WireRequest
from iqaction.engines._chat import Form

# presence_penalty and frequency_penalty stay out: TGI reads an explicit 0 as a repetition
# penalty of 2. Neutral is what the API defines for them.
_FORM = Form(neutral={"top_p": 1.0})

_NO_CHECK = "the endpoint lists no models: the model's name could not be checked"
_UNKNOWN_DEFAULTS = (
    "unknown engine: sampling defaults that the OpenAI API does not define (top_k, min_p, "
    "repetition penalty) are whatever the server applies"
)


@dataclass(frozen=True)
class OpenAI:
    """See the module's docstring."""

    name: str = "openai"

    def detect(self, model: str) -> Detecting:
        listing = yield WireRequest("GET", "/v1/models")
        served = _models.read(listing.body)
        # Log-probabilities are assumed until a chat is refused them: only asking tells.
        can = frozenset({Capability.CHAT, Capability.TOP_LOGPROBS})
        if served:
            chosen = _models.choose(model, served)
            return EngineInfo(
                self.name,
                model=chosen.name,
                models=_models.names(served),
                capabilities=can,
                max_model_len=chosen.max_model_len,
                details={"owned_by": chosen.owner} if chosen.owner else {},
                limitations=(_UNKNOWN_DEFAULTS,),
            )
        if listing.failure is not None or listing.body is None:
            return None
        # A chat-only server answers in JSON that it has no listing.
        if model and listing.status in (404, 405, 501):
            limits = (_UNKNOWN_DEFAULTS, _NO_CHECK)
            return EngineInfo(self.name, model=model, capabilities=can, limitations=limits)
        return None

    def speak(self, call: WireCall, engine: EngineInfo) -> Speaking:
        if isinstance(call, Chat):
            said = yield from _chat.chat(call, engine, _FORM)
            return said.answer
        if isinstance(call, Draw):
            return (yield from _draw.draw(call, engine, _FORM))
        what = "teacher forcing" if isinstance(call, Force) else "a tokenizer endpoint"
        return Failure(
            FailureKind.UNSUPPORTED,
            f"an OpenAI-compatible server of unknown kind offers no {what}; "
            "vLLM, SGLang and llama.cpp do",
        )


DIALECT = OpenAI()
