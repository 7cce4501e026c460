"""One tokenizer, one fingerprint; and what cannot be fingerprinted is said and stops nothing."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from iqaction import fingerprints
from iqaction.calls import (
    Answer,
    Call,
    Capability,
    EngineInfo,
    Failure,
    FailureKind,
    Message,
    Observation,
    TokenIds,
    Tokenize,
    digest,
)

ABLE = EngineInfo("vllm", capabilities=frozenset(Capability), limitations=("one",))


@dataclass
class Bytes:
    """A tokenizer of bytes; ``odd`` may answer a text or the joined texts of a chat instead."""

    odd: Callable[[str], Answer | None] = lambda text: None
    template: str = "<{role}>{text}"
    asked: list[Tokenize] = field(default_factory=list)

    def __call__(self, call: Call) -> Observation:
        assert isinstance(call, Tokenize)
        self.asked.append(call)
        text = call.text if call.text is not None else "".join(map(self._turn, call.messages))
        answer = self.odd(text) or TokenIds(tuple(text.encode()))
        return Observation(call.tag, digest(call), answer)

    def _turn(self, message: Message) -> str:
        return self.template.format(role=message.role, text=message.content)


def failing(kind: FailureKind, where: str) -> Callable[[str], Answer | None]:
    return lambda text: Failure(kind, "the server's own words") if where in text else None


def test_taken__same_tokenizer() -> None:
    """Two engines that give the same ids have the same fingerprints, whatever they are."""
    one = fingerprints.taken(ABLE, Bytes())
    other = fingerprints.taken(replace(ABLE, dialect="llamacpp", version="9"), Bytes())

    assert len(one.tokenizer_sha256) == len(one.template_sha256) == 64
    assert one.tokenizer_sha256 == other.tokenizer_sha256 != one.template_sha256
    assert one.template_sha256 == other.template_sha256
    assert one.limitations == ("one",)


@pytest.mark.parametrize("text", fingerprints.TEXTS)
def test_taken__another_tokenizer(text: str) -> None:
    """Other ids for any one of the texts make another fingerprint."""
    usual = fingerprints.taken(ABLE, Bytes())
    odd = fingerprints.taken(ABLE, Bytes(lambda t: TokenIds((1,)) if t == text else None))

    assert odd.tokenizer_sha256 not in ("", usual.tokenizer_sha256)
    assert odd.template_sha256 == usual.template_sha256


def test_taken__another_template() -> None:
    """Other ids for the chats alone make another template, and not another tokenizer."""
    usual = fingerprints.taken(ABLE, Bytes())
    other = fingerprints.taken(ABLE, Bytes(template="[{role}] {text}"))

    assert other.tokenizer_sha256 == usual.tokenizer_sha256
    assert other.template_sha256 not in ("", usual.template_sha256)


def test_taken__where_a_text_ends_counts() -> None:
    """Ids that move from one text to the next are other ids."""
    first, second = fingerprints.TEXTS[:2]
    moved = {first: TokenIds((1,)), second: TokenIds((2, 3))}
    other = {first: TokenIds((1, 2)), second: TokenIds((3,))}
    one, two = (fingerprints.taken(ABLE, Bytes(x.get)).tokenizer_sha256 for x in (moved, other))

    assert one != two


@pytest.mark.parametrize("kind", [FailureKind.UNSUPPORTED, FailureKind.TIMEOUT])
def test_taken__no_tokenizer(kind: FailureKind) -> None:
    """A probe that fails leaves the field empty and is said; nothing more is asked of its kind,
    and the server's words stay out."""
    ask = Bytes(failing(kind, "spaces"))
    found = fingerprints.taken(ABLE, ask)
    texts = [c for c in ask.asked if c.text is not None]

    assert found.tokenizer_sha256 == ""
    assert found.template_sha256 != ""
    assert len(texts) < len(fingerprints.TEXTS)
    assert found.limitations == (
        "one",
        f"the tokenizer could not be fingerprinted ({kind.value}): whether it is the baseline's "
        "is not known",
    )


def test_taken__no_chats() -> None:
    """An engine that tokenizes texts and no chats has a tokenizer's fingerprint alone."""
    found = fingerprints.taken(ABLE, Bytes(failing(FailureKind.UNSUPPORTED, "2 + 2")))

    assert found.tokenizer_sha256 != ""
    assert found.template_sha256 == ""
    assert "the chat template could not be fingerprinted (unsupported)" in found.limitations[-1]


def test_taken__cannot_tokenize() -> None:
    """An engine without the ability is not asked, and nothing new is said of it."""
    ask = Bytes()
    chat_only = replace(ABLE, capabilities=frozenset({Capability.CHAT}))

    assert fingerprints.taken(chat_only, ask) == chat_only
    assert ask.asked == []


def test_taken__is_the_same_in_every_version() -> None:
    """Other probes would make every stored baseline that of another tokenizer: a change of these
    two is a change that baselines have to be captured again for."""
    found = fingerprints.taken(ABLE, Bytes())

    assert found.tokenizer_sha256[:16] == "47c452d50a8c1006"
    assert found.template_sha256[:16] == "dc6402eab0055960"


def test_texts__are_composed() -> None:
    """Tokenizers that compose letters and those that do not agree on these texts."""
    assert [t for t in fingerprints.TEXTS if unicodedata.normalize("NFC", t) != t] == []
