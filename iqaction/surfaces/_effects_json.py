"""``effects.json``: the effects as bytes, and back. Performs nothing and reads no file.

The publisher may run in another workflow, on evidence that a pull request wrote: what comes back
from ``from_bytes`` has the right types and sizes, and is otherwise as untrusted as before.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping

from iqaction.errors import EvidenceError
from iqaction.json_value import JSON
from iqaction.surfaces._base import (
    Annotate,
    AppendSummary,
    Effect,
    PutCheckRun,
    SetOutput,
    UpsertComment,
    WriteFile,
)

SCHEMA = "https://inferquality.dev/schemas/effects/v1"
MAX_BYTES = 64 * 1024 * 1024
MAX_EFFECTS = 1000

_KINDS: Mapping[str, type[Effect]] = {
    "upsert_comment": UpsertComment,
    "put_check_run": PutCheckRun,
    "append_summary": AppendSummary,
    "set_output": SetOutput,
    "write_file": WriteFile,
    "annotate": Annotate,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_TYPES: Mapping[str, type] = {"str": str, "int": int, "bool": bool}
_LATER = ("only_if_present",)  # fields that files of the first versions lack


def to_bytes(effects: Iterable[Effect]) -> bytes:
    """Canonical bytes: keys sorted, ASCII, one final newline. The effects keep their order."""
    body: dict[str, JSON] = {
        "$schema": SCHEMA,
        "effects": [{"kind": _NAMES[type(e)], **dataclasses.asdict(e)} for e in effects],
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def from_bytes(data: bytes) -> tuple[Effect, ...]:
    """The effects that ``to_bytes`` wrote. Unknown fields are ignored, absent ones that came
    later have their default.

    Raises
    ------
    EvidenceError
        Where the bytes are no effects: too large, no JSON, an unknown kind, a missing field.
    """
    if len(data) > MAX_BYTES:
        raise EvidenceError(f"effects.json: larger than {MAX_BYTES} bytes")
    try:
        body: JSON = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise EvidenceError(f"effects.json: not JSON ({type(exc).__name__})") from exc
    match body:
        case {"$schema": str(schema), "effects": list(items)} if schema == SCHEMA:
            if len(items) > MAX_EFFECTS:
                raise EvidenceError(f"effects.json: more than {MAX_EFFECTS} effects")
            return tuple(_effect(i, item) for i, item in enumerate(items))
    raise EvidenceError("effects.json: not a list of effects", expected=f"$schema {SCHEMA}")


def _effect(index: int, item: JSON) -> Effect:
    place = f"effects.json: effect {index}"
    if not isinstance(item, dict):
        raise EvidenceError(f"{place} is no object")
    name = item.get("kind")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise EvidenceError(f"{place} is of an unknown kind", expected=", ".join(_KINDS))
    values: dict[str, str | int] = {}
    for field in dataclasses.fields(kind):
        if field.name in _LATER and field.name not in item:
            continue
        value = item.get(field.name)
        wanted = _TYPES[str(field.type)]
        if not isinstance(value, (str, int)) or type(value) is not wanted:  # a bool is an int
            raise EvidenceError(f"{place}, {name}: {field.name} is no {wanted.__name__}")
        if isinstance(value, str) and not _encodable(value):
            raise EvidenceError(f"{place}, {name}: {field.name} is no Unicode text")
        values[field.name] = value
    return kind(**values)  # type: ignore[arg-type] # the types were checked field by field


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
