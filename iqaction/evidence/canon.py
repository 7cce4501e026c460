"""JSON as the evidence writes it, one way only, and reads it, strictly. Pure; knows no schema.

Canonical: sorted keys, no blanks, ASCII, one newline at the end, no NaN. What is hashed is always
the bytes as stored, never a second writing of what was read.
"""

from __future__ import annotations

import hashlib
import json
import math

from iqaction.errors import EvidenceError
from iqaction.json_value import JSON

_SHOWN = 80


def dump(value: object) -> bytes:
    """Canonical bytes of plain values (lists, tuples and string-keyed mappings of scalars).

    Raises
    ------
    EvidenceError
        For NaN or an infinity: nothing that is no number is ever written.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as exc:
        raise EvidenceError("a number that is none", expected="a finite number or null") from exc
    return text.encode() + b"\n"


def identify(data: bytes) -> str:
    """sha256 of stored bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):  # 1e999 is valid JSON and no number we may use
        raise ValueError(f"{text[:_SHOWN]} is not a finite number")
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def real(value: float) -> float:
    """A number as a float.

    Raises
    ------
    EvidenceError
        For a whole number of more than 308 digits: JSON has such, and no evidence.
    """
    try:
        return float(value)
    except OverflowError as exc:
        raise EvidenceError("a number that no float holds", expected="a finite number") from exc


def shown(text: str, limit: int = _SHOWN) -> str:
    """The beginning of foreign text with everything escaped that a terminal might act on."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:limit])


def load(data: bytes, place: str) -> JSON:
    """Plain values of JSON bytes; ``place`` names them in the error.

    Raises
    ------
    EvidenceError
        Not UTF-8, not JSON, NaN or an infinity in it, or nested too deeply.
    """
    try:
        value: JSON = json.loads(data.decode(), parse_float=_finite, parse_constant=_refuse)
    except (ValueError, RecursionError) as exc:  # UnicodeDecodeError is a ValueError
        said = shown(str(exc)) or "nested too deeply"
        raise EvidenceError(f"{place}: not JSON: {said}", expected="one JSON value") from exc
    return value


def load_object(data: bytes, place: str) -> dict[str, JSON]:
    """As :func:`load`, for bytes that must hold an object."""
    value = load(data, place)
    if not isinstance(value, dict):
        raise EvidenceError(f"{place}: no JSON object", expected="a JSON object")
    return value
