"""The plan's top-level keys that are texts: what each may hold. Pure.

The same rules hold for a key in a plan file and for the flag that is put over it: ``place`` is what
an error calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from iqaction import engines, values
from iqaction.errors import ConfigError
from iqaction.spelling import nearest

_LONGEST_IDENTITY = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


def checked(key: str, value: str, place: str) -> str:
    """The value of a top-level key as it is used.

    Raises
    ------
    ConfigError
        It cannot be right.
    """
    return _RULES[key](value, place)


def _any(value: str, place: str) -> str:
    return value


def _baseline(value: str, place: str) -> str:
    return values.url(value, place) if "://" in value else value


def _identity(value: str, place: str) -> str:
    if len(value) > _LONGEST_IDENTITY:
        raise ConfigError(
            f"{place}: found a text of {len(value)} characters",
            expected=f"the model's name, as Qwen/Qwen3-8B, of at most {_LONGEST_IDENTITY}",
        )
    return value


def _dialect(value: str, place: str) -> str:
    names = ["auto", *engines.names()]
    if value not in names:
        raise ConfigError(
            f"{place}: found the text {value[:60]!r}{nearest(value, names)}",
            expected="one of " + ", ".join(names),
        )
    return value


def _sha256(value: str, place: str) -> str:
    found = _SHA256.match(value)
    if found is None:
        raise ConfigError(
            f"{place}: found the text {value[:80]!r}",
            expected="the 64 hexadecimal digits of a sha256, as the capture printed them",
        )
    return found[1].lower()


def _suite(value: str, place: str) -> str:
    if not _NAME.match(value):
        raise ConfigError(
            f"{place}: found the text {value[:80]!r}",
            expected="1 to 64 of letters, digits, '.', '_', '-', first a letter or digit",
        )
    return value


def _variable(value: str, place: str) -> str:
    if not _VARIABLE.match(value):
        # Not shown: where the name belongs, people have pasted the key itself.
        raise ConfigError(
            f"{place}: found something that is no name of an environment variable",
            expected="the variable's name, as OPENAI_API_KEY; never the key itself",
        )
    return value


_RULES: Mapping[str, Callable[[str, str], str]] = {
    "baseline": _baseline,
    "baseline_sha256": _sha256,
    "baseline_model": _any,
    "anchor": _any,
    "endpoint": values.url,
    "model": _any,
    "model_identity": _identity,
    "dialect": _dialect,
    "suite": _suite,
    "api_key_env": _variable,
}
NAMES = tuple(_RULES)
