"""One value of a plan file, read as its parameter wants it. Knows no stage and no file.

A value of the wrong kind is an error, never a guess: ``true`` is no number, ``"5"`` in quotes
is text, and NaN is nothing at all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from iqaction.document import (
    Listing,
    Node,
    Scalar,
    Table,
    describe,
    is_unbounded,
    scalar,
)
from iqaction.errors import ConfigError
from iqaction.json_value import JSON
from iqaction.plan import Value
from iqaction.prompts import canonical
from iqaction.spelling import nearest
from iqaction.stages._base import Param

_DURATION = re.compile(r"(?=\d)(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?\Z")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,12})?) ?(?:%|pp)\Z")
_DAYS = re.compile(r"(\d{1,4})d\Z", re.ASCII)
_MOST_DAYS = 3650
_MAX_TEXT = 4096
_MOST_NUMBERS = 32
_A_URL = "an http or https URL, as http://127.0.0.1:8000/v1"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def read(param: Param, node: Node, place: str) -> Value:
    """The value of ``param``; ``place`` ("plan.yml:3: score.legs") starts every error.

    Nothing (``null``) is allowed exactly where it is the default.

    Raises
    ------
    ConfigError
        Wrong kind, NaN or infinite, out of range, not one of the choices.
    """
    if isinstance(node, Scalar) and node.plain and scalar(node) is None and param.default is None:
        return None
    return _READERS[param.kind](param, node, place)


def wanted(param: Param) -> str:
    """What a right value looks like, in words."""
    return _WORDS[param.kind] + _range(param)


def wrong(place: str, node: Node, expected: str) -> ConfigError:
    """The error for a value that is not what was expected."""
    return ConfigError(f"{place}: found {describe(node)}", expected=expected)


def text(node: Node, place: str, expected: str = "a text") -> str:
    """A non-empty text of one line, without control characters, at most 4,096 long."""
    value = scalar(node) if isinstance(node, Scalar) else None
    if not isinstance(value, str):
        hint = f' (in quotes, as "{node.text[:40]}")' if isinstance(node, Scalar) else ""
        raise wrong(place, node, expected + (hint if value is not None else ""))
    if not value.strip() or len(value) > _MAX_TEXT or _CONTROL.search(value):
        raise wrong(place, node, f"{expected}, of one line and at most {_MAX_TEXT} characters")
    return value


def integer(node: Node, place: str, low: float | None, high: float | None) -> int:
    """A whole number within ``low`` and ``high``, inclusive."""
    return _in_range(Param("", "int", None, "", low, high), _integer(node), node, place)


def flag(node: Node, place: str) -> bool:
    """``true`` or ``false``; nothing else."""
    value = scalar(node) if isinstance(node, Scalar) else None
    if not isinstance(value, bool):
        raise wrong(place, node, "true or false")
    return value


def number(node: Node, place: str, expected: str) -> float:
    """A finite number."""
    value = _number(node)
    if value is None:
        raise wrong(place, node, expected)
    return value


def days(node: Node, place: str) -> int:
    """A number of days, as ``30d``, from 1 to 3,650."""
    found = _DAYS.match(node.text) if isinstance(node, Scalar) else None
    if found is None or not 1 <= int(found[1]) <= _MOST_DAYS:
        raise wrong(place, node, f"a number of days from 1d to {_MOST_DAYS}d, as 30d")
    return int(found[1])


def plain(node: Node, place: str) -> JSON:
    """Any value as JSON; NaN and infinity are refused."""
    if isinstance(node, Table):
        return {e.key: plain(e.value, f"{place}.{e.key}") for e in node.entries}
    if isinstance(node, Listing):
        return [plain(item, place) for item in node.items]
    if is_unbounded(node):
        raise wrong(place, node, "a finite number, or a text in quotes")
    return scalar(node)


def url(value: str, place: str) -> str:
    """The address of an HTTP server, without a slash at its end.

    Raises
    ------
    ConfigError
        It is none, or one that carries more than a place. Such a one is not shown, and neither is
        what Python says of it: user names and queries of addresses are keys.
    """
    if any(c in value for c in "@?#"):
        raise ConfigError(
            f"{place}: found a URL with a user name, a query or a fragment",
            expected=_A_URL,
            next_step="name the variable that holds the key: --api-key-env NAME",
        )
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError(f"{place}: found no URL", expected=_A_URL) from None
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in value):
        raise ConfigError(f"{place}: found the text {value[:80]!r}", expected=_A_URL)
    return value.rstrip("/")


def _integer(node: Node) -> int | None:
    value = scalar(node) if isinstance(node, Scalar) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(node: Node) -> float | None:
    value = scalar(node) if isinstance(node, Scalar) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def _in_range(param: Param, value: int | None, node: Node, place: str) -> int:
    if value is None or not _within(param, value):
        raise wrong(place, node, wanted(param))
    return value


def _within(param: Param, value: float) -> bool:
    low = -math.inf if param.low is None else param.low
    high = math.inf if param.high is None else param.high
    return low <= value <= high


def _range(param: Param) -> str:
    if param.kind in ("choice", "names"):
        return " " + ", ".join(param.choices) if param.choices else ""
    if param.low is not None and param.high is not None:
        return f" from {_plain_number(param.low)} to {_plain_number(param.high)}"
    if param.low is not None:
        return f" of at least {_plain_number(param.low)}"
    return "" if param.high is None else f" of at most {_plain_number(param.high)}"


def _plain_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _read_url(param: Param, node: Node, place: str) -> Value:
    # "" is "none", as the default is.
    value = scalar(node) if isinstance(node, Scalar) else None
    return "" if value == "" else url(text(node, place, _A_URL), place)


def _read_int(param: Param, node: Node, place: str) -> Value:
    return _in_range(param, _integer(node), node, place)


def _read_int_or_auto(param: Param, node: Node, place: str) -> Value:
    if isinstance(node, Scalar) and node.text == "auto":
        return "auto"
    return _in_range(param, _integer(node), node, place)


def _read_float(param: Param, node: Node, place: str) -> Value:
    return _bounded(param, _number(node), node, place)


def _read_duration(param: Param, node: Node, place: str) -> Value:
    value = _number(node)
    if value is None and isinstance(node, Scalar) and (found := _DURATION.match(node.text)):
        hours, minutes, seconds = (int(x or 0) for x in found.groups())
        value = float(hours * 3600 + minutes * 60 + seconds)
    return _bounded(param, value, node, place)


def _read_share(param: Param, node: Node, place: str) -> Value:
    value = _number(node)
    if value is None and isinstance(node, Scalar) and (found := _SHARE.match(node.text)):
        value = float(found.group(1)) / 100
    return _bounded(param, value, node, place)


def _bounded(param: Param, value: float | None, node: Node, place: str) -> float:
    if value is None or not _within(param, value):
        raise wrong(place, node, wanted(param))
    return value


def _read_bool(param: Param, node: Node, place: str) -> Value:
    return flag(node, place)


def _read_text(param: Param, node: Node, place: str) -> Value:
    return text(node, place)


def _read_choice(param: Param, node: Node, place: str) -> Value:
    return _choice(param, node, place)


def _choice(param: Param, node: Node, place: str) -> str:
    if not isinstance(node, Scalar):
        raise wrong(place, node, wanted(param))
    if node.text not in param.choices:
        raise ConfigError(
            f"{place}: found {describe(node)}{nearest(node.text, param.choices)}",
            expected=wanted(param),
        )
    return node.text


def _read_names(param: Param, node: Node, place: str) -> Value:
    """In the order of the choices, so that two spellings of one plan have one hash."""
    if not isinstance(node, Listing) or not node.items:
        raise wrong(place, node, wanted(param))
    if param.choices:
        names = [_choice(param, item, place) for item in node.items]
    else:
        names = [text(item, place, "a name") for item in node.items]
    if len(set(names)) != len(names):
        raise ConfigError(f"{place}: a name is there twice", expected="each name once")
    return tuple(sorted(names, key=param.choices.index)) if param.choices else tuple(names)


def _read_numbers(param: Param, node: Node, place: str) -> Value:
    """In rising order and whole where they are whole, so that two spellings have one hash."""
    if not isinstance(node, Listing) or not 0 < len(node.items) <= _MOST_NUMBERS:
        raise wrong(place, node, wanted(param))
    found = sorted(_bounded(param, _number(item), item, place) for item in node.items)
    if len(set(found)) != len(found):
        raise ConfigError(f"{place}: a number is there twice", expected="each number once")
    return tuple(int(x) if x.is_integer() else x for x in found)


def _read_object(param: Param, node: Node, place: str) -> Value:
    if not isinstance(node, Table):
        raise wrong(place, node, wanted(param))
    return canonical({e.key: plain(e.value, f"{place}.{e.key}") for e in node.entries}, place)


_READERS: dict[str, Callable[[Param, Node, str], Value]] = {
    "int": _read_int,
    "float": _read_float,
    "bool": _read_bool,
    "text": _read_text,
    "url": _read_url,
    "names": _read_names,
    "numbers": _read_numbers,
    "int_or_auto": _read_int_or_auto,
    "object": _read_object,
    "choice": _read_choice,
    "duration": _read_duration,
    "share": _read_share,
}
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "text": "a text",
    "url": _A_URL,
    "names": "a list of",
    "numbers": f"a list of one to {_MOST_NUMBERS} numbers, each",
    "int_or_auto": "auto, or a whole number",
    "object": "a table of keys, as {enable_thinking: false}",
    "choice": "one of",
    "duration": "a duration, as 90s, 20m or 1h30m (a bare number is seconds),",
    "share": "a share, as 0.02, 2% or 2pp,",
}
