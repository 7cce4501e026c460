"""Draws that say the same word for word: chance, or one draw counted many times."""

from __future__ import annotations

import numpy as np
import pytest

from iqaction.calls import Drawn
from iqaction.rows import Match, Rows
from iqaction.stages._sampling_repeats import repeats


def drawn(*texts: tuple[int, ...], first: float = -0.1, other: float = -3.0) -> Drawn:
    """Sequences by the place of each token in a list of two: 0 is the most likely one."""
    places = np.array([p for text in texts for p in text], np.int64)
    n = len(places)
    lists = np.tile(np.array([first, other], np.float32), (n, 1))
    rows = Rows(
        places, lists[np.arange(n), places], np.tile([0, 1], (n, 1)), lists,
        np.ones(n, np.bool_), Match.ID,
    )  # fmt: skip
    return Drawn(rows, tuple(map(len, texts)), ("length",) * len(texts))


RARE = (1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1)
LIKELY = (0,) * 64


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([("p", drawn(RARE, RARE, RARE))], 2),
        ([("p", drawn(RARE)), ("p", drawn(RARE))], 1),  # in two requests
        ([("p", drawn(RARE)), ("q", drawn(RARE))], 0),  # of two prompts
        ([("p", drawn(RARE, RARE[::-1]))], 0),
        ([("p", drawn(LIKELY, LIKELY))], 0),  # a sure model says the same again
        ([("p", drawn((1, 0, 1), (1, 0, 1)))], 0),  # and so may a short text
        ([("p", drawn((), ()))], 0),
        ([], 0),
    ],
)
def test_repeats(answers: list[tuple[str, Drawn]], found: int) -> None:
    """Only what chance would not repeat, and only within one prompt."""
    assert repeats(answers, 1.0) == found


def test_repeats__temperature() -> None:
    """The hotter, the likelier every token: the same text is then less of a surprise."""
    twice = [("p", drawn(RARE, RARE))]

    assert repeats(twice, 0.5) == 1
    assert repeats(twice, 2.0) == 0


def test_repeats__rows_without_a_value_tell_nothing() -> None:
    """A sequence whose chances are not known may be a sure one."""
    answer = drawn(RARE, RARE)
    rows = answer.rows
    unknown = Rows(
        rows.chosen, np.full(len(rows), np.nan, np.float32), rows.top,
        np.full_like(rows.top_logprob, -np.inf), np.zeros(len(rows), np.bool_), rows.match,
    )  # fmt: skip
    none = Rows(
        rows.chosen, rows.logprob, rows.top[:, :0], rows.top_logprob[:, :0], rows.usable, rows.match
    )

    for one in (unknown, none):
        assert repeats([("p", Drawn(one, answer.lengths, answer.finish_reasons))], 1.0) == 0
