"""Typed reads of what a server sent. Knows JSON, and no engine.

Nothing here raises: a value of another kind than wanted reads as None (or empty), because every
field of an answer may be missing, null, of another type, or of an absurd size.
"""

from __future__ import annotations

from collections.abc import Mapping

from iqaction.json_value import JSON

_LARGEST_ID = 2**24 - 1  # no vocabulary is a tenth as large; kernels that fail write any 32 bits
_MOST_IDS = 1_000_000  # of one text; evidence holds no more


def as_map(value: JSON) -> Mapping[str, JSON]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JSON) -> list[JSON]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: JSON) -> str | None:
    """The string, encodable as UTF-8: a lone surrogate becomes U+FFFD."""
    if not isinstance(value, str):
        return None
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON may hold half of a surrogate pair
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def as_int(value: JSON) -> int | None:
    """The integer; True and False are none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_count(value: JSON) -> int | None:
    """The integer, if it can count something."""
    number = as_int(value)
    return number if number is not None and 0 <= number < 2**53 else None


def as_number(value: JSON) -> float | None:
    """The number as a float, NaN and infinities included: judging a value is not reading it."""
    if isinstance(value, float):
        return value
    number = as_int(value)
    if number is None:
        return None
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def as_id(value: JSON) -> int | None:
    """The token id, or None where the value cannot be one."""
    number = as_int(value)
    return number if number is not None and 0 <= number <= _LARGEST_ID else None


def as_ids(value: JSON) -> tuple[int, ...] | None:
    """The token ids of a list that holds nothing else; an empty list is an empty tuple."""
    if not isinstance(value, list) or len(value) > _MOST_IDS:
        return None
    ids = tuple(i for i in map(as_id, value) if i is not None)
    return ids if len(ids) == len(value) else None


def as_bytes(value: JSON) -> bytes | None:
    """The bytes of a list of numbers 0 to 255; an empty list is ``b""``."""
    if not isinstance(value, list):
        return None
    try:
        return bytes(value)  # type: ignore[arg-type] # anything but small integers raises
    except (TypeError, ValueError, OverflowError):
        return None
