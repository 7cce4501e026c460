"""Log-probability rows of one token sequence, packed into arrays. Knows no engine and no file.

A row is one position: the chosen token, its log-probability, and the engine's list of the most
likely tokens. Tokens are matched by *key*: the vocabulary id where the engine tells it, else a
hash of the token's bytes, else of its text (``match`` says which), so that two arms of one kind
compare by comparing integers.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.signedinteger]
"""Token keys, int64, or int32 where all are vocabulary ids: half of a list's memory is its keys."""

PAD = -1  # a slot of `top` that holds no token
_POSITIVE_TOLERANCE = 1e-4  # nats: rounding in engines; above it the value is no log-probability
_NARROW = 2**31  # ids below it need 32 bits
_CLAMP = -9000.0  # vLLM and others write -9999 or -3.4e38 for "not measured"
_MOST_MASS = 1.05  # of one list: 16-bit values do not sum to more; raw logits do
_SAME_NATS, _SAME_SHARE = 0.05, 0.02  # between two values of one token: rounding, in 16 bits too


class Match(str, enum.Enum):
    """What a token key stands for."""

    ID = "id"
    BYTES = "bytes"
    TEXT = "text"


class RowFault(str, enum.Enum):
    """Why a row cannot be used. A faulty row is counted, never averaged."""

    MISSING = "no log-probability"
    NOT_FINITE = "NaN or infinite log-probability"
    NOT_LOGPROB = "value above 0: not a log-probability"
    CLAMPED = "clamped value, not a measurement"
    OVER_ONE = "listed probabilities sum to more than 1: not log-probabilities"
    CONTRADICTORY = "one token has two values"
    AMBIGUOUS = "tokens of one list share a string and have no ids"
    NAMELESS = "the chosen token has neither an id nor a readable string"


@dataclass(frozen=True)
class Token:
    """One (token, log-probability) pair as an engine gave it."""

    text: str
    logprob: float | None
    id: int | None = None
    data: bytes | None = None


@dataclass(frozen=True)
class Position:
    """One decoded position, before packing: the chosen token and the list given with it."""

    chosen: Token
    top: tuple[Token, ...] = ()


@dataclass(frozen=True)
class Rows:
    """``n`` positions with at most ``k`` listed tokens each.

    Attributes
    ----------
    chosen : int32 or int64 (n,)
        Key of the chosen (or forced) token.
    logprob : float32 (n,)
        Its log-probability in nats; NaN where the row is not usable.
    top : int32 or int64 (n, k)
        Keys of the listed tokens in descending log-probability, ``PAD`` where there are fewer.
    top_logprob : float32 (n, k)
        Their log-probabilities in nats; ``-inf`` where padded.
    usable : bool (n,)
        False where any value of the row is no log-probability; see ``faults``.
    pieces
        Display text by key, for chosen tokens and for each list's first token.
    faults
        Number of rows by fault name.
    """

    chosen: Keys
    logprob: NDArray[np.float32]
    top: Keys
    top_logprob: NDArray[np.float32]
    usable: NDArray[np.bool_]
    match: Match
    pieces: Mapping[int, str] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.chosen.shape[0])

    @property
    def k(self) -> int:
        return int(self.top.shape[1])

    def piece(self, key: int) -> str:
        """Display text of a token key; ``<id>`` where the engine never named it."""
        return self.pieces.get(int(key), f"<{int(key)}>")


def text_key(data: bytes) -> int:
    """A stable non-negative 62-bit key for a token known only by its bytes or text."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") >> 2


def pack(positions: Sequence[Position]) -> Rows:
    """Pack decoded positions into arrays.

    The match is the strongest that *all* tokens support: ids, else bytes, else text. Values
    above 0 by at most 1e-4 are clamped to 0. A row with an unusable value keeps its chosen key
    (so that paths compare) and loses its numbers. No positions give ``n = 0, k = 0``.
    """
    tokens = [t for p in positions for t in (p.chosen, *p.top)]
    if all(t.id is not None for t in tokens):
        match = Match.ID
    elif all(t.data is not None for t in tokens):
        match = Match.BYTES
    else:
        match = Match.TEXT
    read = [_read(p, match) for p in positions]
    n, k = len(positions), max((len(listed) for _, _, listed in read), default=0)
    narrow = match is Match.ID and all(0 <= (t.id or 0) < _NARROW for t in tokens)
    width = np.int32 if narrow else np.int64
    chosen = np.empty(n, width)
    logprob = np.full(n, np.nan, np.float32)
    top = np.full((n, k), PAD, width)
    top_logprob = np.full((n, k), -np.inf, np.float32)
    usable = np.zeros(n, np.bool_)
    pieces: dict[int, str] = {}
    faults: dict[str, int] = {}
    for i, (p, (fault, value, listed)) in enumerate(zip(positions, read, strict=True)):
        chosen[i] = key = _key(p.chosen, match)
        pieces.setdefault(key, p.chosen.text)
        if fault is not None:
            faults[fault.value] = faults.get(fault.value, 0) + 1
            continue
        usable[i], logprob[i] = True, value
        for j, (other, lp, text) in enumerate(listed):
            top[i, j], top_logprob[i, j] = other, lp
            if j == 0:
                pieces.setdefault(other, text)
    return Rows(chosen, logprob, top, top_logprob, usable, match, pieces, faults)


def _key(token: Token, match: Match) -> int:
    if match is Match.ID:
        assert token.id is not None  # by the choice of `match`
        return token.id
    if match is Match.BYTES:
        assert token.data is not None
        return text_key(token.data)
    return text_key(token.text.encode("utf-8", "surrogatepass"))


def value_fault(value: float | None) -> RowFault | None:
    """Why ``value`` is no log-probability in nats, or None where it is one."""
    if value is None:
        return RowFault.MISSING
    if math.isnan(value) or value == math.inf:
        return RowFault.NOT_FINITE
    if value <= _CLAMP:
        return RowFault.CLAMPED
    if value > _POSITIVE_TOLERANCE:
        return RowFault.NOT_LOGPROB
    return None


def _read(
    position: Position, match: Match
) -> tuple[RowFault | None, float, list[tuple[int, float, str]]]:
    fault = value_fault(position.chosen.logprob)
    if fault is not None:
        return fault, math.nan, []
    assert position.chosen.logprob is not None
    if match is not Match.ID and _nameless(position.chosen, match):
        return RowFault.NAMELESS, math.nan, []
    listed: dict[int, tuple[float, str]] = {}
    for token in position.top:
        fault = value_fault(token.logprob)
        if fault is not None:
            return fault, math.nan, []
        assert token.logprob is not None
        key = _key(token, match)
        if key in listed:
            if match is not Match.ID:
                # Two different tokens that print alike: which is which cannot be told.
                return RowFault.AMBIGUOUS, math.nan, []
            if not _same(listed[key][0], token.logprob):
                return RowFault.CONTRADICTORY, math.nan, []
        listed.setdefault(key, (min(token.logprob, 0.0), token.text))
    own = listed.get(_key(position.chosen, match))
    if own is not None and not _same(own[0], position.chosen.logprob):
        fault = RowFault.CONTRADICTORY if match is Match.ID else RowFault.AMBIGUOUS
        return fault, math.nan, []
    if sum(math.exp(lp) for lp, _ in listed.values()) > _MOST_MASS:
        return RowFault.OVER_ONE, math.nan, []
    ordered = sorted(((k, lp, t) for k, (lp, t) in listed.items()), key=lambda x: -x[1])
    return None, min(position.chosen.logprob, 0.0), ordered


def _same(one: float, other: float) -> bool:
    """True for two accounts of one value; of a value above 0 only rounding is."""
    return abs(one - min(other, 0.0)) <= max(_SAME_NATS, _SAME_SHARE * abs(one))


def _nameless(token: Token, match: Match) -> bool:
    """True for what engines print for a byte fragment: nothing, or U+FFFD. Two different
    fragments look the same, so they must not compare as equal."""
    if match is Match.BYTES:
        assert token.data is not None  # by the choice of `match`
        return token.data.replace(b"\xef\xbf\xbd", b"") == b""
    return token.text.replace("\ufffd", "") == ""


def concat_pieces(rows: Rows, keys: Iterable[int]) -> str:
    """Display text of several token keys, joined."""
    return "".join(rows.piece(k) for k in keys)
