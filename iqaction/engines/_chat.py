"""One chat completion as a conversation: ask, obey a cap or a refusal, ask again, read.

Knows the OpenAI chat form and what engines make of it; what one engine sends besides stands in
its own module as a :class:`Form`. Sends nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

from iqaction.calls import Chat, Draw, EngineInfo, Failure, FailureKind, Generation
from iqaction.engines import _errors, _logprobs, _message
from iqaction.engines._base import WireReply, WireRequest
from iqaction.engines._logprobs import Asked, Listed
from iqaction.engines._reading import as_count, as_ids, as_list, as_map, as_text
from iqaction.json_value import JSON
from iqaction.rows import Position, Token, pack, value_fault

PATH = "/v1/chat/completions"
_MOST_FOREIGN = 4  # answers to other prompts in a row
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
OTHER_TEXT = "the listed tokens do not spell the text"
NO_VOCABULARY = "a generated token has an id that no vocabulary holds"
_MOST_ROWS = 1_000_000  # of one text; evidence holds no more
_MOST_LISTED = 256  # at one position, likewise

_FINISHED = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
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


def _not_told(body: Mapping[str, JSON]) -> str:
    return ""


def _not_asked(body: Mapping[str, JSON]) -> Generator[WireRequest, WireReply, str]:
    yield from ()
    return ""


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
    answered
        The prompt that an answer says it is to, "" where it does not say.
    rendered
        Asks for the prompt that the engine's template makes of a request; "" where it cannot tell.
    """

    neutral: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, JSON] = field(default_factory=dict)
    with_logprobs: Mapping[str, JSON] = field(default_factory=dict)
    rows: Callable[[Reply], Listed | None] = read_rows
    answered: Callable[[Mapping[str, JSON]], str] = _not_told
    rendered: Callable[[Mapping[str, JSON]], Generator[WireRequest, WireReply, str]] = _not_asked

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
    """Ask for one completion until an answer or a failure that asking differently cannot mend."""
    body = {**request(call, engine, form), "seed": call.seed}
    taken = yield from ask(body, form, Terms(form.optional))
    if isinstance(taken, Failure):
        return Said(taken)
    return Said(_decode(call, engine, form, taken), as_map(taken.reply.body))


@dataclass(frozen=True)
class Terms:
    """What of a request may be given up where the engine refuses it.

    Attributes
    ----------
    optional
        Fields that are left out, and flagged, where they are refused.
    required
        Fields without which the answer would be to another question: a refusal of one is a
        failure that names it.
    lists
        Log-probabilities are required too.
    """

    optional: tuple[str, ...]
    required: tuple[str, ...] = ()
    lists: bool = False


@dataclass(frozen=True)
class Taken:
    """An answer with HTTP 200, what had been sent for it in the end, and what was given up."""

    reply: WireReply
    sent: Mapping[str, JSON]
    flags: tuple[str, ...] = ()


Asking = Generator[WireRequest, WireReply, Taken | Failure]


def ask(body: Mapping[str, JSON], form: Form, terms: Terms) -> Asking:
    """Send a request, and again as the engine's refusals demand and ``terms`` allow.

    A cap on the number of listed tokens or of choices is obeyed, log-probabilities that are
    refused are given up, optional fields that are refused are left out; each is asked once more,
    at most eight exchanges in all.
    """
    flags: list[str] = []
    reply = WireReply(0)
    for _ in range(_MOST_TRIES):
        reply = yield from _own_answer(body, form)
        if reply.failure is None and reply.status == 200:
            return Taken(reply, body, tuple(flags))
        k = as_count(body.get("top_logprobs")) or int("logprobs" in body)
        named = (n for n in (*terms.required, *terms.optional) if n in body)
        match _errors.objection(reply, k, named):
            case _errors.Cap(allowed):
                body = {**body, "top_logprobs": allowed}
            case _errors.NoLogprobs(said, list_only):
                if terms.lists:
                    return _refused(REFUSED.format(said), reply)
                if REFUSED.format(said) not in flags:
                    flags.append(REFUSED.format(said))
                body = _fewer_logprobs(body, form, list_only)
            case _errors.UnknownFields(names):
                needed = [n for n in names if n in terms.required]
                if needed:
                    said = f"{', '.join(needed)}: {_errors.error_text(reply)}"
                    return _refused(f"the engine refuses {said}", reply)
                flags.extend(LEFT_OUT.format(n) for n in names)
                body = _errors.without(body, names)
            case _:
                other = _renamed_limit(body, reply) or _fewer_choices(body, reply)
                if other is None:
                    break
                body = other
    return _errors.failure(reply, "chat")


def _own_answer(
    body: Mapping[str, JSON], form: Form
) -> Generator[WireRequest, WireReply, WireReply]:
    """The answer to this request, where an answer says to which prompt it is: what stands between
    may mix answers up. A prompt without the question is right where the template rewrites it."""
    reply = WireReply(0)
    for _ in range(_MOST_FOREIGN):
        reply = yield WireRequest("POST", PATH, body)
        told = form.answered(as_map(reply.body))
        if not told:  # most engines do not say
            return reply
        prompt = _without_blanks(told)
        question = as_text(as_map(as_list(body.get("messages"))[-1]).get("content"))
        if _without_blanks(question) in prompt:
            return reply
        own = yield from form.rendered(body)
        # An engine that adds a token before the text tells it too, and the template does not.
        if prompt.endswith(_without_blanks(own)):
            return reply
    said = "answers to other prompts came"
    return dataclasses.replace(reply, body=None, failure=FailureKind.MALFORMED, message=said)


def _without_blanks(text: str | None) -> str:
    return "".join((text or "").split())


def _refused(said: str, reply: WireReply) -> Failure:
    return Failure(FailureKind.UNSUPPORTED, f"chat: {said}", reply.status)


def request(call: Chat | Draw, engine: EngineInfo, form: Form) -> dict[str, JSON]:
    """What a call for chat completions sends to this kind of engine, all but seed and number."""
    body: dict[str, JSON] = {
        "model": engine.model,
        "messages": [{"role": m.role, "content": m.content} for m in call.messages],
        "max_tokens": call.max_tokens,
        "temperature": call.temperature,
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


def _fewer_choices(body: Mapping[str, JSON], reply: WireReply) -> dict[str, JSON] | None:
    """The request for as many choices as the server allows, where it refuses their number."""
    n, said = as_count(body.get("n")) or 1, _errors.error_text(reply)
    if n < 2 or reply.status not in (400, 422, 501) or not _errors.names(said, "n"):
        return None
    allowed = _errors.cap(said) or 1
    return {**body, "n": allowed} if 1 < allowed < n else _errors.without(body, ("n",))


def _decode(call: Chat, engine: EngineInfo, form: Form, taken: Taken) -> Generation | Failure:
    found = choices(as_map(taken.reply.body))
    if not found:
        return no_choice(taken.reply)
    read = read_choice(call, form, taken, found[0])
    if isinstance(read, Failure):
        return read
    return _generation(call, engine, read, taken.flags)


def choices(body: Mapping[str, JSON]) -> tuple[Mapping[str, JSON], ...]:
    """The choices of an answer, in the order of their indices where they have any."""
    found = [c for c in as_list(body.get("choices")) if isinstance(c, dict)]
    found.sort(key=lambda c: n if (n := as_count(c.get("index"))) is not None else len(found))
    return tuple(found)


def no_choice(reply: WireReply) -> Failure:
    """The failure that an answer without choices is."""
    if as_map(reply.body).get("error"):
        said = _errors.error_text(reply)
        return Failure(FailureKind.ABORTED, f"chat: the engine reports: {said}", 200)
    if reply.body is None:
        return _errors.failure(reply, "chat")
    return Failure(FailureKind.MALFORMED, "chat: an answer without choices", 200)


@dataclass(frozen=True)
class Choice:
    """One choice of an answer as it was read.

    Attributes
    ----------
    ids_in_doubt
        Two accounts of its token ids disagree, or one is no id.
    k
        The list length that was asked for in the end.
    flags
        What is odd about its rows.
    """

    body: Mapping[str, JSON]
    choice: Mapping[str, JSON]
    finish: str
    reasoning: str
    text: str
    positions: tuple[Position, ...] = ()
    ids_in_doubt: bool = False
    k: int = 0
    flags: tuple[str, ...] = ()


def read_choice(
    call: Chat | Draw, form: Form, taken: Taken, choice: Mapping[str, JSON]
) -> Choice | Failure:
    """One choice; a failure where the engine gave it up or it cannot be read."""
    body = as_map(taken.reply.body)
    finish = _finished(body, choice)
    if isinstance(finish, Failure):
        return finish
    message = choice.get("message")
    if not isinstance(message, dict):
        return Failure(FailureKind.MALFORMED, "chat: a choice without a message", 200)
    said_in = _message.reasoning_and_text(message)
    if said_in is None:
        return Failure(FailureKind.MALFORMED, "chat: a message whose content is no text", 200)
    reasoning, text = said_in
    seen = Reply(body, choice, taken.sent, text or reasoning)
    listed = form.rows(seen) if "logprobs" in taken.sent else None
    oddities: list[str] = []
    positions = listed.positions if listed else ()
    if len(positions) > _MOST_ROWS:
        said = f"{len(positions)} log-probability rows in one answer"
        return Failure(FailureKind.MALFORMED, f"chat: {said}", 200)
    if "logprobs" in taken.sent and not positions:
        oddities.append(NO_LOGPROBS)
    k = as_count(taken.sent.get("top_logprobs")) or 0
    positions = _checked(positions, call, k, oddities)
    impossible = _logprobs.is_beyond_vocabulary(choice)
    disagree = listed is not None and listed.ids_disagree
    oddities += [IDS_DISAGREE] * disagree + [NO_VOCABULARY] * impossible
    doubt = disagree or impossible
    return Choice(body, choice, finish, reasoning, text, positions, doubt, k, tuple(oddities))


def _finished(body: Mapping[str, JSON], choice: Mapping[str, JSON]) -> str | Failure:
    """How a choice ended; a failure where it did not end, or ended in an error."""
    reported = body.get("error") or choice.get("error")
    if reported:
        said = _errors.error_text(WireReply(200, {"error": reported})) or "an error without words"
        return Failure(FailureKind.ABORTED, f"chat: the engine reports: {said}", 200)
    told = choice.get("finish_reason")
    finish = _FINISHED.get(told.lower()) if isinstance(told, str) else None
    if finish is None:
        said = "no finish_reason" if told is None else f"finish_reason {_shown(told)}"
        return Failure(FailureKind.ABORTED, f"chat: the engine gave the item up: {said}", 200)
    return finish


def _generation(call: Chat, engine: EngineInfo, read: Choice, flags: Sequence[str]) -> Generation:
    usage = as_map(read.body.get("usage"))
    completion = as_count(usage.get("completion_tokens"))
    positions, oddities = read.positions, [*flags, *read.flags]
    complete, ended = _coverage(completion, read)
    if positions and not complete:
        oddities.append(ROWS_LOST)
    of_the_text = read.finish == "tool_calls" or _logprobs.spells(positions, read.text)
    if positions and not of_the_text:
        oddities.append(OTHER_TEXT)
    _check_text(call, read, completion, oddities)
    prompt_ids = as_ids(read.body.get("prompt_token_ids"))
    if prompt_ids is None:
        prompt_ids = as_ids(read.choice.get("prompt_token_ids"))
    return Generation(
        text=read.text,
        finish_reason=read.finish,
        rows=pack(positions) if positions else None,
        rows_complete=complete and of_the_text and not read.ids_in_doubt,
        reasoning=read.reasoning,
        prompt_ids=prompt_ids or None,
        prompt_tokens=as_count(usage.get("prompt_tokens")),
        completion_tokens=completion,
        top_logprobs=read.k if positions else 0,
        eos_id=engine.eos_id if ended else None,
        model=as_text(read.body.get("model")) or "",
        fingerprint=as_text(read.body.get("system_fingerprint")) or "",
        flags=tuple(oddities),
    )


def _shown(value: JSON) -> str:
    return repr(value)[:40]


def _checked(
    positions: tuple[Position, ...], call: Chat | Draw, k: int, oddities: list[str]
) -> tuple[Position, ...]:
    """The positions, made unusable where they measure nothing; what is odd goes to ``oddities``.

    No list is longer than was asked for: what a server adds is none of its most likely.
    """
    positions = tuple(_logprobs.shortened(p, k or _MOST_LISTED) for p in positions)
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


def _coverage(completion: int | None, read: Choice) -> tuple[bool, bool]:
    """Whether the rows cover every generated token, and whether an end token goes unlisted.

    As many rows as tokens is complete; one row fewer is too where the text stopped by itself,
    for some engines count the end token and do not list it.
    """
    n = len(read.positions)
    if n == 0:
        return False, False
    if completion is None:  # nothing to count against: the tokens must spell the whole text
        return _logprobs.joined(read.positions) == (read.reasoning + read.text).encode(), False
    ended = n == completion - 1 and read.finish == "stop"
    return n == completion or ended, ended


def _check_text(call: Chat, read: Choice, completion: int | None, oddities: list[str]) -> None:
    if not read.text and read.finish == "stop":
        if read.reasoning:
            oddities.append(PARSER_FAULT)
        elif completion is not None and completion > 1:
            oddities.append(EMPTY)
    if read.reasoning and call.template_kwargs:
        kwargs = as_map(template_kwargs(call.template_kwargs))
        if kwargs.get("enable_thinking") is False or kwargs.get("thinking") is False:
            oddities.append(THINKING)
