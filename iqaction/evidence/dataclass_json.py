"""Frozen dataclasses as JSON and back, by their own annotations. Pure; knows no dataclass by name.

A field that is added to a dataclass is stored and read without a line here. A number that is none
becomes ``null``. What comes in has passed a schema: this builds, it does not judge.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import TypeVar

from iqaction.errors import EvidenceError
from iqaction.evidence import canon
from iqaction.json_value import JSON

T = TypeVar("T")


def to_json(value: object) -> dict[str, JSON]:
    """A dataclass as JSON values.

    Raises
    ------
    EvidenceError
        Where a number that must be one is NaN or infinite (an optional one becomes null): the
        schema of the result says so.
    """
    body = _plain(value, type(value))
    assert isinstance(body, dict)  # a dataclass
    return body


def from_json(body: Mapping[str, JSON], kind: type[T]) -> T:
    """The dataclass of JSON values; unknown fields are ignored, absent ones take their default.

    Raises
    ------
    EvidenceError
        A value of another type than the field's.
    """
    built = _build(dict(body), kind)
    assert isinstance(built, kind)
    return built


@functools.cache
def _fields(kind: type) -> Mapping[str, object]:
    """Field names of a dataclass with their resolved types."""
    return typing.get_type_hints(kind)


def _alternatives(kind: object) -> tuple[object, ...]:
    """The members of a union, the type itself where it is none."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


def _plain(value: object, kind: object) -> JSON:
    """``value``, of declared type ``kind``, as JSON; a float field is always written as one."""
    kinds = _alternatives(kind)
    if value is None or isinstance(value, str):
        return value.value if isinstance(value, enum.Enum) else value
    if dataclasses.is_dataclass(value):
        hints = _fields(typing.cast(type, type(value)))
        return {f.name: _plain(getattr(value, f.name), hints[f.name]) for f in _own(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v, _argument(kind, 1)) for k, v in value.items()}
    if isinstance(value, tuple):
        inner = next((k for k in kinds if typing.get_origin(k) is tuple), None)
        return [_plain(v, _argument(inner, i)) for i, v in enumerate(value)]
    if float in kinds:
        number = float(typing.cast(float, value))
        return number if math.isfinite(number) else None
    if bool in kinds:
        return bool(value)
    return int(typing.cast(int, value))


def _own(value: object) -> tuple[dataclasses.Field[object], ...]:
    assert dataclasses.is_dataclass(value)
    return dataclasses.fields(value)


def _argument(kind: object, index: int) -> object:
    """Type of item ``index`` of a tuple or mapping type; of every item in ``tuple[X, ...]``."""
    arguments = typing.get_args(kind)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    return arguments[min(index, len(arguments) - 1)]


def _build(value: JSON, kind: object) -> object:
    """What :func:`_plain` was given; ``value`` has passed the schema."""
    kinds = _alternatives(kind)
    if value is None and type(None) in kinds:
        return None
    for one in kinds:
        if isinstance(one, type) and dataclasses.is_dataclass(one) and isinstance(value, dict):
            hints = _fields(one)
            return one(**{n: _build(v, hints[n]) for n, v in value.items() if n in hints})
        if typing.get_origin(one) is tuple and isinstance(value, list):
            return tuple(_build(v, _argument(one, i)) for i, v in enumerate(value))
        if isinstance(value, dict) and typing.get_origin(one) is not tuple:
            return {k: _build(v, _argument(one, 1)) for k, v in value.items()}
        if isinstance(one, type) and issubclass(one, enum.Enum):
            return one(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return canon.real(value) if float in kinds else int(value)
    if isinstance(value, (str, bool)):
        return value
    raise EvidenceError(f"a {type(value).__name__} where {kind} belongs")
