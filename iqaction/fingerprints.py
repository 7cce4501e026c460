"""What tells one tokenizer and one chat template from another: token ids of fixed texts. Pure.

Knows calls and answers, and sends nothing itself. Only ids are hashed, so that a GGUF file and a
safetensors folder of one model have one fingerprint, whatever engine serves them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

from iqaction.calls import (
    Arm,
    Capability,
    EngineInfo,
    Message,
    Observation,
    Tag,
    TokenIds,
    Tokenize,
)

# Changing any of these makes every fingerprint another one: that is a minor release.
#
# All texts are in composed form (NFC): some Hugging Face tokenizers compose, and llama.cpp does
# not. What looks like a special token stands alone: tokenizers of the SentencePiece family put a
# blank after one, or do not, by the library that runs them.
TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n",
    '{"id": 17, "tags": ["a", "b"], "ok": true, "x": -1.5e-3}',
    "3.14159 2,718,281 1234567890 007 12:34:56",
    " two  three   four    spaces",
    "line\n\n\tindented\r\nline",
    "Grüße aus Köln, déjà vu, señor, Łódź, İstanbul",
    "Привет, мир! Γειά σου Κόσμε",
    "你好，世界。こんにちは世界。안녕하세요 세계",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया",
    "🙂👍🏽👩‍👩‍👧 ∑∫√π≠≤",
    "<|im_start|>",
    "</s>",
    " ",
)

_USER = Message("user", "What is 2 + 2?")
CHATS = (
    (Message("system", "You are a terse assistant."), _USER),
    (_USER,),
    (_USER, Message("assistant", "4."), Message("user", "And doubled?\nExplain.")),
)

# Llama 3's templates write today's date unless they are given one.
_TEMPLATE_KWARGS = '{"date_string":"26 Jul 2024"}'


def taken(engine: EngineInfo, ask: Callable[[Tokenize], Observation]) -> EngineInfo:
    """The engine with its fingerprints, asked of itself; one that cannot be had stays "", and that
    is a limitation. An engine that cannot tokenize is not asked."""
    if Capability.TOKENIZE not in engine.capabilities:
        return engine
    texts, why_texts = _hashed(ask, [Tokenize(_tag(f"text-{i}"), t) for i, t in enumerate(TEXTS)])
    chats, why_chats = _hashed(
        ask,
        [Tokenize(_tag(f"chat-{i}"), None, c, _TEMPLATE_KWARGS) for i, c in enumerate(CHATS)],
    )
    limits = [
        f"the {what} could not be fingerprinted ({why}): whether it is the baseline's is not known"
        for what, why in (("tokenizer", why_texts), ("chat template", why_chats))
        if why
    ]
    return replace(
        engine,
        tokenizer_sha256=texts,
        template_sha256=chats,
        limitations=(*engine.limitations, *limits),
    )


def _tag(unit: str) -> Tag:
    return Tag(Arm.CANDIDATE, "probe", unit)


def _hashed(ask: Callable[[Tokenize], Observation], calls: list[Tokenize]) -> tuple[str, str]:
    """sha256 of the ids of all calls, or "" and why: the first that fails ends the asking."""
    ids = []
    for call in calls:
        answer = ask(call).answer
        if not isinstance(answer, TokenIds):
            # The kind and not the message: a server's own words are not for every report.
            kind = getattr(answer, "kind", None)
            return "", str(getattr(kind, "value", "no token ids"))
        ids.append(list(answer.ids))
    return hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest(), ""
