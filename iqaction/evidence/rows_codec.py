"""Log-probability rows as one packed blob, and back, checked. Pure; knows no file and no schema.

The columns ``chosen, logprob, top, top_logprob, usable`` are written one after another, little
endian, each with its bytes shuffled (all lowest bytes first, ...: neighbours then resemble each
other), deflated and put into base64. ``n``, ``k``, the integer type and the match stand beside
the blob, so that its size is known before a byte of it is inflated.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from iqaction.errors import EvidenceError
from iqaction.json_value import JSON
from iqaction.rows import PAD, Match, Rows

MAX_N = 1_000_000
MAX_K = 256
MAX_BLOB = 512 * 1024 * 1024  # bytes inflated, of one observation
_NARROW = "<i4"  # vocabulary ids
_WIDE = "<i8"  # hashes of bytes or text
_REAL = "<f4"
_LEVEL = 6
_MOST_DIGITS = 19  # of a token key


def encode_rows(rows: Rows) -> dict[str, JSON]:
    """``rows`` as JSON values, exact to the last bit of every number.

    Raises
    ------
    EvidenceError
        Where ``rows`` break their own contract (see :class:`iqaction.rows.Rows`) or a cap.
    """
    _check(rows, "rows")
    keys = _NARROW if rows.match is Match.ID and _fits(rows) else _WIDE
    blob = b"".join(
        (
            _shuffle(rows.chosen.astype(keys)),
            _shuffle(rows.logprob.astype(_REAL)),
            _shuffle(rows.top.astype(keys)),
            _shuffle(rows.top_logprob.astype(_REAL)),
            np.packbits(rows.usable, bitorder="little").tobytes(),
        )
    )
    return {
        "n": len(rows),
        "k": rows.k,
        "match": rows.match.value,
        "keys": keys,
        "pieces": {str(k): v for k, v in sorted(rows.pieces.items())},
        "faults": dict(sorted(rows.faults.items())),
        "blob": base64.b64encode(zlib.compress(blob, _LEVEL)).decode(),
    }


def decode_rows(body: Mapping[str, JSON]) -> Rows:
    """The rows of a body that :func:`encode_rows` could have written.

    Keys that were stored in 32 bits stay in 32 bits.

    Raises
    ------
    EvidenceError
        Where shape, type, range or size is not what the body declares. Nothing larger than the
        declared size is ever inflated.
    """
    n, k, keys = _whole(body, "n", MAX_N), _whole(body, "k", MAX_K), body.get("keys")
    if keys not in (_NARROW, _WIDE):
        raise EvidenceError(f"rows: keys are {keys!a:.40}", expected=f"{_NARROW} or {_WIDE}")
    try:
        match = Match(body.get("match"))
    except ValueError as exc:
        raise EvidenceError("rows: an unknown match", expected="id, bytes or text") from exc
    width, native = (4, np.int32) if keys == _NARROW else (8, np.int64)
    data = np.frombuffer(_inflate(body.get("blob"), _size(n, k, width)), np.uint8)
    usable = np.unpackbits(data[_size(n, k, width) - (n + 7) // 8 :], bitorder="little")
    if usable[n:].any():
        raise EvidenceError("rows: usable marks beyond the last row")
    # One block for all columns: five would leave as much room unused between them.
    block = _Block(data, np.empty(n * (width + 4) * (k + 1) + n, np.uint8))
    chosen, logprob = block.column(n, width), block.column(n, 4)
    top, top_logprob = block.column(n * k, width), block.column(n * k, 4)
    marks = block.rest()
    marks[:] = usable[:n]
    rows = Rows(
        chosen.view(keys).astype(native, copy=False),
        logprob.view(_REAL).astype(np.float32, copy=False),
        top.view(keys).astype(native, copy=False).reshape(n, k),
        top_logprob.view(_REAL).astype(np.float32, copy=False).reshape(n, k),
        marks.view(np.bool_),
        match,
        _pieces(body.get("pieces")),
        _faults(body.get("faults")),
    )
    _check(rows, "rows")
    return rows


def _size(n: int, k: int, width: int) -> int:
    """Bytes of all columns as they are stored."""
    return n * (width + 4) * (k + 1) + (n + 7) // 8


class _Block:
    """Stored columns, one after another, laid out for use in a block of memory."""

    def __init__(self, stored: NDArray[np.uint8], block: NDArray[np.uint8]) -> None:
        self._stored, self._block, self._at = stored, block, 0

    def column(self, count: int, width: int) -> NDArray[np.uint8]:
        """The next ``count`` numbers of ``width`` bytes, their bytes put together again."""
        part = slice(self._at, self._at + count * width)
        self._at += count * width
        column = self._block[part]
        column.reshape(count, width)[:] = self._stored[part].reshape(width, count).T
        return column

    def rest(self) -> NDArray[np.uint8]:
        return self._block[self._at :]


def _shuffle(column: NDArray[np.generic]) -> bytes:
    flat = np.ascontiguousarray(column).reshape(-1)
    planes: NDArray[np.uint8] = flat.view(np.uint8).reshape(-1, flat.dtype.itemsize).T
    return planes.tobytes()


def _fits(rows: Rows) -> bool:
    most = np.iinfo(np.int32).max
    return bool((rows.chosen <= most).all() and (rows.top <= most).all())


def _inflate(blob: JSON, size: int) -> bytes:
    if size > MAX_BLOB:
        raise EvidenceError(f"rows: declared as {size} bytes", expected=f"at most {MAX_BLOB}")
    if not isinstance(blob, str):
        raise EvidenceError("rows: no blob", expected="base64 of the deflated columns")
    try:
        packed = base64.b64decode(blob, validate=True)
        engine = zlib.decompressobj()
        data = engine.decompress(packed, size + 1)  # one more, to see that there is too much
    except (binascii.Error, ValueError, zlib.error) as exc:
        raise EvidenceError(f"rows: the blob is broken ({exc})", expected="intact bytes") from exc
    if len(data) != size or not engine.eof or engine.unused_data:
        raise EvidenceError(
            "rows: the blob is not as long as n and k say", expected=f"{size} bytes"
        )
    return data


def _whole(body: Mapping[str, JSON], name: str, most: int) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise EvidenceError(f"rows: {name} is {value!a:.40}", expected=f"0 to {most}")
    return value


def _pieces(value: JSON) -> Mapping[int, str]:
    if not isinstance(value, dict):
        raise EvidenceError("rows: no pieces", expected="display text by token key")
    # All keys at once, and each text kept once: there are some hundred in every answer.
    keys = "".join(value)
    good = keys.isascii() and keys.isdigit() and all(0 < len(k) <= _MOST_DIGITS for k in value)
    if value and not (good and set(map(type, value.values())) == {str}):
        odd = next((k for k, v in value.items() if not (_is_key(k) and type(v) is str)), "")
        raise EvidenceError(f"rows: a piece under {odd!a:.40}", expected="a key and its text")
    texts = (sys.intern(v) for v in value.values() if isinstance(v, str))
    try:
        return _Pieces(map(int, value), texts)
    except OverflowError as exc:
        raise EvidenceError("rows: a piece under a key of 64 bits", expected="62 bits") from exc


class _Pieces(Mapping[int, str]):
    """Texts by key, in a third of a dict's memory: of a large folder dicts would take a quarter.
    Sorted when one is looked up, for most never are."""

    def __init__(self, keys: Iterable[int], texts: Iterable[str]) -> None:
        self._keys, self._texts = array("q", keys), tuple(texts)
        self._sorted = False

    def __getitem__(self, key: int) -> str:
        if not self._sorted:
            order = sorted(range(len(self._keys)), key=self._keys.__getitem__)
            self._keys = array("q", (self._keys[i] for i in order))
            self._texts = tuple(self._texts[i] for i in order)
            self._sorted = True
        at = bisect_left(self._keys, key)
        if at == len(self._keys) or self._keys[at] != key:
            raise KeyError(key)
        return self._texts[at]

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _is_key(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _faults(value: JSON) -> dict[str, int]:
    if not isinstance(value, dict):
        raise EvidenceError("rows: no faults", expected="number of rows by fault")
    faults: dict[str, int] = {}
    for name, count in value.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= MAX_N:
            raise EvidenceError(f"rows: {count!a:.40} rows of {name!a:.40}", expected="a count")
        faults[name] = count
    return faults


def _check(rows: Rows, place: str) -> None:
    """Shape, range and order of every column; the same for what is written and what is read."""
    n, k = len(rows), rows.k
    if n > MAX_N or k > MAX_K:
        raise EvidenceError(f"{place}: {n} rows of {k}", expected=f"at most {MAX_N} of {MAX_K}")
    if not (
        rows.chosen.shape == rows.logprob.shape == rows.usable.shape == (n,)
        and rows.top.shape == rows.top_logprob.shape == (n, k)
    ):
        raise EvidenceError(f"{place}: columns of different length", expected="one row a position")
    lp, top, top_lp = rows.logprob, rows.top, rows.top_logprob
    with np.errstate(invalid="ignore"):
        claims = (
            ("a chosen token below 0", (rows.chosen >= 0).all()),
            ("a listed token below -1", (top >= PAD).all()),
            ("NaN where a row is usable, or a number where it is not",
             (np.isnan(lp) != rows.usable).all()),
            ("a log-probability above 0 or infinite",
             ((lp <= 0) & (lp > -math.inf) | ~rows.usable).all()),
            ("a listed log-probability above 0 or NaN", (top_lp <= 0).all()),
            ("an empty slot with a value, or a token without",
             ((top == PAD) == np.isneginf(top_lp)).all()),
            ("a list that does not descend", (top_lp[:, 1:] <= top_lp[:, :-1]).all()),
        )  # fmt: skip
    for wrong, holds in claims:
        if not holds:
            raise EvidenceError(f"{place}: {wrong}", expected="log-probabilities in nats")
