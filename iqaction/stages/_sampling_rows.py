"""The draws of one sampler as arrays: each position's list, and the place of what was drawn.

Knows how engines list what they drew, and leave out; judges nothing. Which positions are left out
must not depend on what was drawn there, or be told: then the law of the others is that given
"not one of those outcomes".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Drawn
from iqaction.rows import PAD, Match, RowFault, Rows
from iqaction.stats.filters import NEAR

_ABOVE_ONE = 1e-2  # a list may sum to so much more than 1 by rounding
_FLATTEST = -20.0  # nats: the most likely token of the largest vocabulary has more
_MATCHED = 1e-6  # nats: two accounts of one value
_ENDS = 3  # different last tokens of texts that stopped, at most, where the end token is listed

# Why a generated token is not among the positions.
NO_ROW = "tokens without a row (parts of a character, the end)"
AFTER = "after a token without a row"
EXCLUDED = "prompts with rows that cannot be placed"
SHORT = "lists shorter than the others"
BEYOND = "draws that are not in their list, which is shorter than the others"
BROKEN = "values that are no log-probabilities, or not of this draw"
UNCLEAR = "lists with two tokens that print alike"
MAY_HIDE = (NO_ROW, EXCLUDED, BEYOND, BROKEN, UNCLEAR)  # may be left out because of what was drawn


@dataclass(frozen=True)
class Positions:
    """What was drawn, and from what.

    Attributes
    ----------
    logprobs : float64 (n, k)
    place : (n,)
        Of the drawn token, from 0; ``k`` where it is not listed.
    unlisted : bool (n, k)
        Tokens for which the engine lists no row when they are drawn.
    dropped
        How many generated tokens are not here, by reason.
    excluded
        The prompts of which none is here, because rows are missing and it is not known where.
    end_unknown
        The end of a text has no row and its token is not known: its share of every position is
        not known either.
    ends_unlisted
        Texts end in a known token that has no row: whether it is drawn as often as it should be
        is not seen.
    """

    logprobs: NDArray[np.float64]
    place: NDArray[np.intp]
    unlisted: NDArray[np.bool_]
    dropped: Mapping[str, int] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    end_unknown: bool = False
    ends_unlisted: bool = False

    @property
    def broken(self) -> int:
        """Draws of which nothing can be said: each may be one that should not have been."""
        return self.dropped.get(BROKEN, 0)


def width(answers: Iterable[Drawn]) -> int:
    """How many tokens the lists hold: as many as the engine accepted, at most as many as came.

    One more than came, because a drawn token may have left its own list (see `_placed`).
    """
    found = [(a.top_logprobs or a.rows.k, a.rows.k) for a in answers if len(a.rows)]
    return min(*(k for k, _ in found), max(k for _, k in found) + 1) if found else 0


def positions(answers: Sequence[tuple[str, Drawn]], k: int) -> Positions:
    """The positions of all ``answers``, each with its prompt, from lists of ``k`` tokens."""
    lost = {unit for unit, answer in answers if _rows_lost(answer)}
    dropped: Counter[str] = Counter()
    dropped[EXCLUDED] = sum(_tokens(a) for u, a in answers if u in lost)
    good = [answer for unit, answer in answers if unit not in lost and len(answer.rows)]
    absent = _absent(good)
    with np.errstate(invalid="ignore"):  # evidence may hold any number; it is counted as broken
        parts = [_placed(answer, k, absent, dropped) for answer in good]
    if not parts:
        parts = [_Part.empty(k)]
    return Positions(
        np.concatenate([p.logprobs for p in parts]),
        np.concatenate([p.place for p in parts]),
        np.concatenate([p.unlisted for p in parts]),
        {reason: n for reason, n in dropped.items() if n},
        tuple(dict.fromkeys(unit for unit, _ in answers if unit in lost)),
        any(map(_end_unknown, good)),
        any(answer.eos_id is not None and _stops(answer) > 0 for answer in good),
    )


def _tokens(answer: Drawn) -> int:
    return max(answer.completion_tokens or 0, len(answer.rows))


def _stops(answer: Drawn) -> int:
    return answer.finish_reasons.count("stop")


def _rows_lost(answer: Drawn) -> bool:
    """True where fewer rows came than tokens were generated, and ends do not explain it."""
    missing = _tokens(answer) - len(answer.rows)
    return missing > 0 and missing != _stops(answer)


def _end_unknown(answer: Drawn) -> bool:
    stops = _stops(answer)
    if not stops or answer.eos_id is not None:
        return False
    if answer.completion_tokens is not None:
        return answer.completion_tokens > len(answer.rows)
    ends = np.cumsum(answer.lengths)[[r == "stop" for r in answer.finish_reasons]] - 1
    return len(np.unique(answer.rows.chosen[ends[ends >= 0]])) > _ENDS


def _absent(answers: Sequence[Drawn]) -> Mapping[Match, NDArray[np.int64]]:
    """By kind of key, the tokens that were drawn and have no row, or would have none.

    llama.cpp lists no row for a token that ends within a character, and some engines none for the
    end token. Such a position is missing *because* of its outcome: at all the others these
    outcomes are therefore known not to have happened, and are taken out of the law. It does not
    matter whether a token is in this set that need not be, because then its positions are left
    out as well; only what information there is gets less.
    """
    keys: dict[Match, set[int]] = {match: set() for match in Match}
    for answer in answers:
        rows = answer.rows
        found = rows.chosen[~rows.usable].tolist()
        if rows.match is not Match.ID:
            found = [key for key in found if _is_nameless(rows, key)]
        keys[rows.match].update(found)
        if answer.eos_id is not None:
            keys[Match.ID].add(answer.eos_id)
    return {match: np.array(sorted(found), np.int64) for match, found in keys.items()}


def _is_nameless(rows: Rows, key: int) -> bool:
    return rows.pieces.get(key, "unknown").replace("\ufffd", "").strip() == ""


@dataclass(frozen=True)
class _Part:
    logprobs: NDArray[np.float64]
    place: NDArray[np.intp]
    unlisted: NDArray[np.bool_]

    @staticmethod
    def empty(k: int) -> _Part:
        return _Part(np.zeros((0, k)), np.zeros(0, np.intp), np.zeros((0, k), np.bool_))


def _placed(
    answer: Drawn, k: int, absent: Mapping[Match, NDArray[np.int64]], dropped: Counter[str]
) -> _Part:
    """The usable positions of one answer, lists cut to ``k``; the others are counted.

    Some engines put the drawn token in the last one's place where it is not among the first k;
    their dialect takes it out of such a list again, which is then one short. So what is drawn
    from a list of ``k - 1`` that does not hold it has the last place, whichever it is.
    """
    rows = answer.rows
    top = np.full((len(rows), k), PAD, np.int64)
    logs = np.full((len(rows), k), -np.inf)
    top[:, : rows.k], logs[:, : rows.k] = rows.top[:, :k], rows.top_logprob[:, :k]
    held = (top != PAD).sum(axis=1)
    found = (top == rows.chosen[:, None]) & (top != PAD)
    place = np.where(found.any(axis=1), found.argmax(axis=1) if k else 0, k)
    value = rows.logprob.astype(np.float64)
    if rows.match is not Match.ID:
        place = _by_value(place, value, logs)
    guest = (place == k) & (held == k - 1)
    misplaced = np.zeros(len(rows), np.bool_)
    if k:
        logs[guest, k - 1] = value[guest]
        beyond = (place == k) & (held == k)
        tied = beyond & (np.abs(value - logs[:, k - 1]) < NEAR)
        place = np.where(guest | tied, k - 1, place)
        misplaced = beyond & ~tied & (value > logs[:, k - 1])
    after = _after(rows.usable, answer.lengths)
    reasons = _reasons(rows)
    few = rows.usable & (held < k - 1)
    reasons[few] = np.where(place[few] == k, BEYOND, SHORT)
    reasons[rows.usable & (misplaced | ~_are_logprobs(logs, value))] = BROKEN
    reasons[after & (reasons == "")] = AFTER
    out = np.isin(top, absent[rows.match]) & (top != PAD)
    gone = np.take_along_axis(out, np.minimum(place, k - 1)[:, None], 1)[:, 0] if k else after
    reasons[(reasons == "") & (place < k) & gone] = NO_ROW
    use = reasons == ""
    dropped.update(reasons[~use].tolist())
    dropped[NO_ROW] += _tokens(answer) - len(rows)
    return _Part(logs[use], place[use], out[use])


def _by_value(
    place: NDArray[np.intp], value: NDArray[np.float64], logs: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Places found by the value where the text of the draw is not in the list: engines strip
    spaces, or replace half a character, in one of the two and not in the other."""
    same = np.abs(logs - value[:, None]) < _MATCHED
    one = (place == logs.shape[1]) & (same.sum(axis=1) == 1)
    return np.where(one, same.argmax(axis=1) if logs.shape[1] else 0, place)


def _after(usable: NDArray[np.bool_], lengths: Sequence[int]) -> NDArray[np.bool_]:
    """Positions that follow one without a row in their sequence: which tokens have a row there
    is another set (the rest of a character)."""
    after = np.zeros(len(usable), np.bool_)
    after[1:] = ~usable[:-1]
    starts = np.cumsum([0, *lengths])
    after[starts[starts < len(usable)]] = False
    return after


def _are_logprobs(logs: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True where the list descends, sums to no more than 1 and begins with a likely token."""
    if not logs.shape[1]:
        return np.isfinite(value)
    falls = ~(np.diff(logs, axis=1) > 0).any(axis=1)
    small = np.exp(np.minimum(logs, 1.0)).sum(axis=1) <= 1 + _ABOVE_ONE
    finite = np.isfinite(value) & (logs[:, 0] > _FLATTEST) & ~np.isnan(logs).any(axis=1)
    whole: NDArray[np.bool_] = falls & small & finite
    return whole


def _reasons(rows: Rows) -> NDArray[np.str_]:
    """Why each row without numbers is not used; "" for the others.

    Which fault a row has is known only as a count over all. With ids a nameless token without a
    value is a fragment that has no row; without, two that print alike are the list's fault.
    """
    reasons = np.full(len(rows), "", dtype="<U80")
    other = set(rows.faults) - {RowFault.AMBIGUOUS.value}
    for i in np.flatnonzero(~rows.usable):
        if _is_nameless(rows, int(rows.chosen[i])):
            reasons[i] = NO_ROW
        else:
            reasons[i] = BROKEN if other or rows.match is Match.ID else UNCLEAR
    return reasons
