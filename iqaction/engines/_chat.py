"""One chat completion as a conversation: ask, obey a cap or a refusal, ask again, read.

Knows the OpenAI chat form and what engines make of it; what one engine sends besides stands in
its own module as a :class:`Form`. Sends nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from iqaction.calls import Chat, EngineInfo, Failure, FailureKind, Generation
from iqaction.engines import _errors, _logprobs
from iqaction.engines._base import WireReply, WireRequest
from iqaction.engines._logprobs import Asked, Listed
from iqaction.engines._reading import as_count, as_ids, as_list, as_map, as_text
from iqaction.json_value import JSON
from iqaction.rows import Position, Token, pack, value_fault

PATH = "/v1/chat/completions"
_MOST_TRIES = 8  # exchanges of one call: one, plus a cap, refusals and refused fields
_TIE = 1e-3  # nats: what a tie may look like after an engine's rounding

# Flags: the same words for every prompt, so that a report can count them.
NO_LOGPROBS = "log-probabilities were asked for and not returned"
REFUSED = "the engine refuses log-probabilities: {}"
LEFT_OUT = "the engine refuses the field {}, it was left out"
ALL_ZERO = "every log-probability is exactly 0: not a measurement"
IDS_DISAGREE = "two accounts of the generated token ids disagree"
NOT_GREEDY = (
    "temperature 0, yet a token was chosen that is not the most likely one "
    "(penalties, speculative decoding or another temperature?)"
)
PARSER_FAULT = "the answer is empty and only reasoning came back: a reasoning parser fault"
EMPTY = "an empty text although tokens were generated"
THINKING = "thinking was switched off in chat_template_kwargs and the model still thought"
ROWS_LOST = "the log-probability rows are not one per generated token"

_FINISHED = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "repetition": "repetition",
}


@dataclass(frozen=True)
class Reply:
    """What a dialect's own row reader may look at.

    Attributes
    ----------
    body, choice
        The answer, and its first choice.
    sent
        The request that was answered, without what had been refused.
    text
        The message's content, or its reasoning where there is no content.
    """

    body: Mapping[str, JSON]
    choice: Mapping[str, JSON]
    sent: Mapping[str, JSON]
    text: str


def read_rows(reply: Reply) -> Listed | None:
    """The rows of any OpenAI-style answer."""
    asked = Asked(
        id_strings=bool(reply.sent.get("return_tokens_as_token_ids")),
        token_ids=as_ids(reply.choice.get("token_ids")),
        text=reply.text,
    )
    return _logprobs.read(reply.choice.get("logprobs"), asked)


@dataclass(frozen=True)
class Form:
    """What one engine is sent besides messages, limit and temperature.

    Attributes
    ----------
    neutral
        Sampling fields at their neutral values, in the engine's own encoding: engines apply a
        model's ``generation_config.json`` or defaults of their own to fields that are left out.
    extra
        Other optional fields: ids, caches.
    with_logprobs
        Optional fields sent only with a request for log-probabilities.
    rows
        How the answer's rows are read.
    """

    neutral: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, JSON] = field(default_factory=dict)
    with_logprobs: Mapping[str, JSON] = field(default_factory=dict)
    rows: Callable[[Reply], Listed | None] = read_rows

    @property
    def optional(self) -> tuple[str, ...]:
        """Fields that may be left out: they change what is told, not what is generated."""
        return ("seed", *self.neutral, *self.extra, *self.with_logprobs)


@dataclass(frozen=True)
class Said:
    """A chat's answer, and the whole body it was read from."""

    answer: Generation | Failure
    body: Mapping[str, JSON] = field(default_factory=dict)


Chatting = Generator[WireRequest, WireReply, Said]


def chat(call: Chat, engine: EngineInfo, form: Form) -> Chatting:
    """Ask for one completion until an answer or a failure that asking differently cannot mend.

    A cap on the number of listed tokens is obeyed, log-probabilities that are refused are given
    up, optional fields that are refused are left out; each is asked once more, at most
    eight exchanges in all.
    """
    body, k = _request(call, engine, form), call.top_logprobs
    flags: list[str] = []
    reply = WireReply(0)
    for _ in range(_MOST_TRIES):
        reply = yield WireRequest("POST", PATH, body)
        if reply.failure is None and reply.status == 200:
            return Said(_decode(call, engine, form, body, reply, flags), as_map(reply.body))
        match _errors.objection(reply, k, (n for n in form.optional if n in body)):
            case _errors.Cap(allowed):
                k = allowed
                body = {**body, "top_logprobs": k}
            case _errors.NoLogprobs(said, list_only):
                flag = REFUSED.format(said)
                if flag not in flags:
                    flags.append(flag)
                body = _fewer_logprobs(body, form, list_only)
                k = k if "logprobs" in body else 0
            case _errors.UnknownFields(names):
                flags.extend(LEFT_OUT.format(n) for n in names)
                body = _errors.without(body, names)
            case _:
                renamed = _renamed_limit(body, reply)
                if renamed is None:
                    break
                body = renamed
    return Said(_errors.failure(reply, "chat"))


def _request(call: Chat, engine: EngineInfo, form: Form) -> dict[str, JSON]:
    body: dict[str, JSON] = {
        "model": engine.model,
        "messages": [{"role": m.role, "content": m.content} for m in call.messages],
        "max_tokens": call.max_tokens,
        "temperature": call.temperature,
        "seed": call.seed,
        "stream": False,
        **form.neutral,
        **form.extra,
    }
    if call.template_kwargs:
        body["chat_template_kwargs"] = template_kwargs(call.template_kwargs)
    if call.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": call.top_logprobs, **form.with_logprobs}
    return body


def template_kwargs(canonical: str) -> JSON:
    """The object that ``template_kwargs`` of a call stands for; an empty one for ""."""
    value: JSON = json.loads(canonical) if canonical else {}
    return value


def _fewer_logprobs(body: Mapping[str, JSON], form: Form, list_only: bool) -> dict[str, JSON]:
    if list_only and "top_logprobs" in body:
        return _errors.without(body, ("top_logprobs",))
    return _errors.without(body, ("logprobs", "top_logprobs", *form.with_logprobs))


def _renamed_limit(body: Mapping[str, JSON], reply: WireReply) -> dict[str, JSON] | None:
    """The request with the newer name of ``max_tokens``, where the server insists on it."""
    if "max_tokens" not in body or reply.status != 400:
        return None
    if "max_completion_tokens" not in _errors.error_text(reply):
        return None
    return {("max_completion_tokens" if k == "max_tokens" else k): v for k, v in body.items()}


def _decode(
    call: Chat,
    engine: EngineInfo,
    form: Form,
    sent: Mapping[str, JSON],
    reply: WireReply,
    flags: Sequence[str],
) -> Generation | Failure:
    body = as_map(reply.body)
    choice = _first(body)
    if choice is None:
        if body.get("error"):
            said = _errors.error_text(reply)
            return Failure(FailureKind.ABORTED, f"chat: the engine reports: {said}", 200)
        if reply.body is None:
            return _errors.failure(reply, "chat")
        return Failure(FailureKind.MALFORMED, "chat: an answer without choices", 200)
    told = choice.get("finish_reason")
    finish = _FINISHED.get(told) if isinstance(told, str) else None
    if finish is None:
        said = "no finish_reason" if told is None else f"finish_reason {_shown(told)}"
        return Failure(FailureKind.ABORTED, f"chat: the engine gave the item up: {said}", 200)
    message = choice.get("message")
    if not isinstance(message, dict):
        return Failure(FailureKind.MALFORMED, "chat: a choice without a message", 200)
    parts = _Parts(body, choice, sent, finish, *_reasoning(message))
    seen = Reply(body, choice, sent, parts.text or parts.reasoning)
    listed = form.rows(seen) if "logprobs" in sent else None
    return _generation(call, engine, parts, listed, flags)


@dataclass(frozen=True)
class _Parts:
    body: Mapping[str, JSON]
    choice: Mapping[str, JSON]
    sent: Mapping[str, JSON]
    finish: str
    reasoning: str
    text: str


def _generation(
    call: Chat,
    engine: EngineInfo,
    parts: _Parts,
    listed: Listed | None,
    flags: Sequence[str],
) -> Generation:
    usage = as_map(parts.body.get("usage"))
    completion = as_count(usage.get("completion_tokens"))
    positions = listed.positions if listed else ()
    oddities = list(flags)
    if "logprobs" in parts.sent and not positions:
        oddities.append(NO_LOGPROBS)
    k = as_count(parts.sent.get("top_logprobs")) or 0
    positions = _checked(positions, call, k, oddities)
    if listed is not None and listed.ids_disagree:
        oddities.append(IDS_DISAGREE)
    complete, ended = _coverage(positions, completion, parts)
    if positions and not complete:
        oddities.append(ROWS_LOST)
    _check_text(call, parts, completion, oddities)
    prompt_ids = as_ids(parts.body.get("prompt_token_ids"))
    if prompt_ids is None:
        prompt_ids = as_ids(parts.choice.get("prompt_token_ids"))
    return Generation(
        text=parts.text,
        finish_reason=parts.finish,
        rows=pack(positions) if positions else None,
        rows_complete=complete and not (listed is not None and listed.ids_disagree),
        reasoning=parts.reasoning,
        prompt_ids=prompt_ids or None,
        prompt_tokens=as_count(usage.get("prompt_tokens")),
        completion_tokens=completion,
        top_logprobs=k if positions else 0,
        eos_id=engine.eos_id if ended else None,
        model=as_text(parts.body.get("model")) or "",
        fingerprint=as_text(parts.body.get("system_fingerprint")) or "",
        flags=tuple(oddities),
    )


def _first(body: Mapping[str, JSON]) -> Mapping[str, JSON] | None:
    """The choice with index 0, wherever it stands."""
    choices = [c for c in as_list(body.get("choices")) if isinstance(c, dict)]
    return next((c for c in choices if c.get("index") == 0), choices[0] if choices else None)


def _shown(value: JSON) -> str:
    return repr(value)[:40]


def _reasoning(message: Mapping[str, JSON]) -> tuple[str, str]:
    """Reasoning and answer of a message, whether or not the engine parted them.

    ``<think>`` may be missing (the template wrote it) and ``</think>`` too (the text was cut).
    """
    content = _content(message.get("content"))
    apart = as_text(message.get("reasoning")) or as_text(message.get("reasoning_content")) or ""
    if apart:
        return apart, content
    before, closed, after = content.partition("</think>")
    if closed:
        return before.strip().removeprefix("<think>").strip(), after.lstrip()
    if before.lstrip().startswith("<think>"):
        return before.lstrip().removeprefix("<think>").strip(), ""
    return "", content


def _content(value: JSON) -> str:
    if isinstance(value, list):  # content parts, as some gateways answer
        return "".join(as_text(as_map(part).get("text")) or "" for part in value)
    return as_text(value) or ""


def _checked(
    positions: tuple[Position, ...], call: Chat, k: int, oddities: list[str]
) -> tuple[Position, ...]:
    """The positions, made unusable where they measure nothing; what is odd goes to ``oddities``."""
    if _all_zero(positions, k):
        oddities.append(ALL_ZERO)
        return tuple(
            Position(Token(p.chosen.text, None, p.chosen.id, p.chosen.data), p.top)
            for p in positions
        )
    if call.temperature == 0 and any(map(_beaten, positions)):
        oddities.append(NOT_GREEDY)
    return positions


def _all_zero(positions: Sequence[Position], k: int) -> bool:
    """True where a whole text reads as certain: n-gram speculation is known to report that.

    A single token can be certain, and a list of one is all there is at k = 1.
    """
    if len(positions) < 3 or any(p.chosen.logprob != 0.0 for p in positions):
        return False
    return k > 1 and all(len(p.top) <= 1 for p in positions)


def _beaten(position: Position) -> bool:
    chosen = position.chosen.logprob
    if value_fault(chosen) is not None or chosen is None:
        return False
    return any(
        t.logprob is not None and value_fault(t.logprob) is None and t.logprob > chosen + _TIE
        for t in position.top
    )


def _coverage(
    positions: Sequence[Position], completion: int | None, parts: _Parts
) -> tuple[bool, bool]:
    """Whether the rows cover every generated token, and whether an end token goes unlisted.

    As many rows as tokens is complete; one row fewer is too where the text stopped by itself,
    for some engines count the end token and do not list it.
    """
    n = len(positions)
    if n == 0:
        return False, False
    if completion is None:  # nothing to count against: the tokens must spell the whole text
        return _logprobs.joined(positions) == (parts.reasoning + parts.text).encode(), False
    ended = n == completion - 1 and parts.finish == "stop"
    return n == completion or ended, ended


def _check_text(call: Chat, parts: _Parts, completion: int | None, oddities: list[str]) -> None:
    if not parts.text and parts.finish == "stop":
        if parts.reasoning:
            oddities.append(PARSER_FAULT)
        elif completion is not None and completion > 1:
            oddities.append(EMPTY)
    if parts.reasoning and call.template_kwargs:
        kwargs = as_map(template_kwargs(call.template_kwargs))
        if kwargs.get("enable_thinking") is False or kwargs.get("thinking") is False:
            oddities.append(THINKING)
