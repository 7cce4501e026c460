"""The library itself is an extra of 100 MB, so a module of its shape stands in for it here."""

from __future__ import annotations

import sys
import types

import pytest

from iqaction.calls import (
    Arm,
    Chat,
    Failure,
    FailureKind,
    Generation,
    Message,
    Observation,
    Tag,
    TokenIds,
    Tokenize,
    digest,
)
from iqaction.errors import ConfigError
from iqaction.hf_tokenizer import with_tokenizer

TAG = Tag(Arm.REFERENCE, "template", "p")


class Tokenizer:
    """One id a character; a chat is its roles' lengths and its characters."""

    def encode(self, text, add_special_tokens):
        assert add_special_tokens is False

        return [ord(c) for c in text]

    def apply_chat_template(self, messages, **options):
        assert options.pop("add_generation_prompt")
        assert options.pop("tokenize")
        assert options.pop("return_dict") is False
        if options.get("broken"):
            raise RuntimeError("the template says no")

        return [len(options), *(ord(c) for m in messages for c in m["content"])]


@pytest.fixture
def library(monkeypatch):
    """Install a stand-in of `transformers` whose loader does what the test says."""

    def install(load):
        module = types.ModuleType("transformers")
        module.AutoTokenizer = types.SimpleNamespace(from_pretrained=load)
        monkeypatch.setitem(sys.modules, "transformers", module)

    return install


def asked(call):
    return Observation(call.tag, digest(call), Generation("hi", "stop"))


def test_with_tokenizer__text_and_chat(library):
    """Text is encoded without special tokens, a chat through the template with its kwargs."""
    library(lambda name: Tokenizer())
    answer = with_tokenizer("some/folder", asked)

    text = answer(Tokenize(TAG, "ab"))
    chat = answer(Tokenize(TAG, None, (Message("user", "c"),), '{"thinking":false}'))

    assert text.answer == TokenIds((97, 98))
    assert chat.answer == TokenIds((1, 99))
    assert chat.call_sha256 == digest(
        Tokenize(TAG, None, (Message("user", "c"),), '{"thinking":false}')
    )


def test_with_tokenizer__other_calls_go_to_the_server(library):
    """Only tokenizing is answered here."""
    library(lambda name: Tokenizer())
    call = Chat(TAG, (Message("user", "c"),), 4)

    assert with_tokenizer("x", asked)(call) == asked(call)


def test_with_tokenizer__a_template_that_fails_is_a_failure(library):
    """A template is foreign code: what it raises is an answer, not a crash."""
    library(lambda name: Tokenizer())
    call = Tokenize(TAG, None, (Message("user", "c"),), '{"broken":true}')

    answer = with_tokenizer("x", asked)(call).answer

    assert answer == Failure(FailureKind.UNSUPPORTED, "tokenizer: the template says no")


def test_with_tokenizer__not_installed(monkeypatch):
    """Without the extra the error names it."""
    monkeypatch.setitem(sys.modules, "transformers", None)

    with pytest.raises(ConfigError, match="transformers is not installed") as caught:
        with_tokenizer("x", asked)

    assert "iqaction[hf]" in str(caught.value)


def test_with_tokenizer__cannot_be_loaded(library):
    """A tokenizer that is not there is the user's to mend."""

    def load(name):
        raise OSError(f"{name} is not a local folder")

    library(load)

    with pytest.raises(ConfigError, match="'x' cannot be loaded: x is not a local folder"):
        with_tokenizer("x", asked)
