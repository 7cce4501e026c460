"""The digest of a call decides which kept answer may be used again."""

from __future__ import annotations

import dataclasses

import pytest

from iqaction.calls import (
    TRANSPORT,
    Arm,
    Call,
    Chat,
    FailureKind,
    Force,
    Message,
    Tag,
    Tokenize,
    digest,
)

TAG = Tag(Arm.CANDIDATE, "trajectory", "p1")
CHAT = Chat(TAG, (Message("user", "hi"),), 8)
FORCE = Force(TAG, (1, 2), (3,))
TOKENIZE = Tokenize(TAG, "hi")


@pytest.mark.parametrize(
    ("call", "other"),
    [
        (CHAT, dataclasses.replace(CHAT, max_tokens=9)),
        (CHAT, dataclasses.replace(CHAT, top_logprobs=1)),
        (CHAT, dataclasses.replace(CHAT, seed=1)),
        (CHAT, dataclasses.replace(CHAT, temperature=0.5)),
        (CHAT, dataclasses.replace(CHAT, template_kwargs="{}")),
        (CHAT, dataclasses.replace(CHAT, messages=(Message("system", "hi"),))),
        (CHAT, dataclasses.replace(CHAT, tag=dataclasses.replace(TAG, attempt=1))),
        (FORCE, Force(TAG, (1,), (2, 3))),
        (FORCE, dataclasses.replace(FORCE, top_logprobs=5)),
        (TOKENIZE, Tokenize(TAG, None, (Message("user", "hi"),))),
        (TOKENIZE, Tokenize(TAG, "")),
    ],
)
def test_digest__another_question_has_another(call: Call, other: Call) -> None:
    """Any difference in what is asked, or for whom, makes a kept answer unusable."""
    assert digest(call) != digest(other)
    assert digest(call) == digest(dataclasses.replace(call))


def test_digest__kinds_of_calls_do_not_collide() -> None:
    """Two calls of different kinds are different questions."""
    assert len({digest(c) for c in (CHAT, FORCE, TOKENIZE)}) == 3


def test_digest__is_stable() -> None:
    """Evidence written by one release is continued by the next."""
    assert digest(TOKENIZE) == "321b1e1ddef4e036f6ac480c7f9cbd65b7a97ad3310081e35191b20ab28d3ddc"


def test_digest__odd_text() -> None:
    """Half a surrogate pair, as JSON may hold it, does not break it."""
    assert len(digest(Tokenize(TAG, "\ud800"))) == 64


def test_transport__only_failures_of_the_way_are_asked_again() -> None:
    """What an engine said stays said."""
    assert FailureKind.TIMEOUT in TRANSPORT
    assert not TRANSPORT & {
        FailureKind.STATUS,
        FailureKind.MALFORMED,
        FailureKind.ABORTED,
        FailureKind.UNSUPPORTED,
        FailureKind.TOO_LARGE,
    }
