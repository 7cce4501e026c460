"""Do several draws of one prompt say the same, as independent ones would not? Pure.

A server that seeds every request alike gives one draw many times. Counted as many, one draw proves
what it cannot: each of its chances is then weighed a hundredfold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Drawn

_IMPOSSIBLE = -25.0  # nats: of a sequence that comes again, at most; over all pairs about 1e-6


def repeats(answers: Sequence[tuple[str, Drawn]], temperature: float) -> int:
    """How many sequences are another one of their prompt again, beyond chance.

    The chance of a token is at most that of the most likely one, and at most ``p / p_first`` to
    the power of 1/T, whatever filters there are: a text of likely tokens may well come twice, and
    a text of the most likely ones alone may come always.
    """
    seen: set[tuple[str, bytes]] = set()
    found = 0
    for unit, answer in answers:
        for chosen, below in _sequences(answer):
            key = (unit, chosen.tobytes())
            if key in seen:
                found += bool(below / temperature < _IMPOSSIBLE)
            seen.add(key)
    return found


def _sequences(answer: Drawn) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Each sequence, and how far its tokens lie below the most likely ones, in nats (below 0)."""
    rows = answer.rows
    best = rows.top_logprob.max(axis=1, initial=-np.inf)
    usable = rows.usable & np.isfinite(best)
    below = np.where(usable, np.minimum(rows.logprob - np.where(usable, best, 0.0), 0.0), 0.0)
    at = 0
    for length in answer.lengths:
        part = slice(at, at + length)
        yield rows.chosen[part].astype(np.int64), float(below[part].sum())
        at += length
