"""What tokenizer endpoints answer: the ids of one text, or why there are none."""

from __future__ import annotations

from typing import Any

import pytest
from wire.replay import answer

from iqaction.calls import Failure, FailureKind, TokenIds
from iqaction.engines._tokens import token_ids


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ({"tokens": [1, 2], "count": 2}, (1, 2)),
        ({"tokens": [1, 2]}, (1, 2)),
        ({"tokens": [[1, 2]], "count": [2]}, (1, 2)),
        ({"tokens": [1, 2], "count": None}, (1, 2)),
        ([{"id": 5}], (5,)),
    ],
)
def test_token_ids(body: Any, ids: tuple[int, ...]) -> None:
    """Lists of ids in every shape seen; a count that is told agrees with them."""
    assert token_ids(answer(200, body), empty_allowed=False) == TokenIds(ids)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"tokens": [1, 2], "count": 5}, "tokenize: 2 token ids, counted as 5"),
        ({"tokens": [], "count": 0}, "tokenize: no token ids for a text"),
        ({"tokens": [1, 2**24]}, "tokenize: no list of token ids in the answer"),
        ({"tokens": [0] * 1_000_001}, "tokenize: no list of token ids in the answer"),
        ({"tokens": [1, "2"]}, "tokenize: no list of token ids in the answer"),
        ({"tokens": [1, True]}, "tokenize: no list of token ids in the answer"),
    ],
)
def test_token_ids__none(body: Any, said: str) -> None:
    """A list that was cut, or holds what is no id, is no answer."""
    failed = token_ids(answer(200, body), empty_allowed=False)

    assert failed == Failure(FailureKind.MALFORMED, said, 200)
