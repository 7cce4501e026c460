"""The report as JSON and back, exactly. Pure; knows :mod:`iqaction.report` by its types alone.

Both directions follow the dataclasses' own annotations, so that a field added there is stored
and read without a line here; ``schemas/report.schema.json`` holds the result. A number that is
none becomes ``null``; the evidence root is left out, because it covers the stored file.
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

from iqaction.calls import JSON
from iqaction.errors import EvidenceError
from iqaction.evidence import canon, schema
from iqaction.report import Report

NAME = "report.json"
SCHEMA = "https://inferquality.dev/schemas/report/v1"
_UNSTORED = "evidence_root"
_LAST_BITS = 1e-9  # of a number: what another machine's exp, log or matrix product may differ by
_ZERO = 1e-12  # a difference that cancels to nothing has no other size to be measured by
T = TypeVar("T")


def to_json(report: Report) -> dict[str, JSON]:
    """The report as JSON values, ``verdict`` at the top.

    Raises
    ------
    EvidenceError
        Where a number that must be one is NaN or infinite (an optional one becomes null).
    """
    body = _plain(report, Report)
    assert isinstance(body, dict)  # a dataclass
    del body[_UNSTORED]
    body["$schema"] = SCHEMA
    schema.validate("report", body, NAME)
    return body


def to_bytes(report: Report) -> bytes:
    """Canonical bytes: what ``report.json`` holds."""
    return canon.dump(to_json(report))


def from_json(body: Mapping[str, JSON]) -> Report:
    """The report of JSON values; unknown fields are ignored, ``evidence_root`` is empty.

    Raises
    ------
    EvidenceError
        Where the schema does not hold.
    """
    schema.validate("report", body, NAME)
    report = _build(dict(body), Report)
    assert isinstance(report, Report)
    return dataclasses.replace(report, evidence_root="")


def from_bytes(data: bytes) -> Report:
    """The report of a ``report.json``'s bytes; raises as :func:`from_json`."""
    return from_json(canon.load_object(data, NAME))


def differing(a: Report, b: Report) -> tuple[str, ...]:
    """Names of the fields in which two reports differ, the last bits of numbers aside.

    Judging sums, exponentiates and multiplies matrices, and that is exact to a few bits only
    from one processor or NumPy to the next. Verdicts, texts, names and counts must be equal.
    """
    ours, theirs = to_json(a), to_json(b)
    return tuple(name for name in ours if not _alike(ours[name], theirs[name]))


def _alike(a: JSON, b: JSON) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=_LAST_BITS, abs_tol=_ZERO)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


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
        return float(value) if float in kinds else int(value)
    if isinstance(value, (str, bool)):
        return value
    raise EvidenceError(f"{NAME}: {canon.shown(repr(value))} where {kind} belongs")
