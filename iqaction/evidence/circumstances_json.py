"""``circumstances.json``: who measured where, as bytes and back. Pure."""

from __future__ import annotations

from iqaction.circumstances import Circumstances
from iqaction.evidence import canon, dataclass_json, schema

NAME = "circumstances.json"
SCHEMA = "https://inferquality.dev/schemas/circumstances/v1"


def to_bytes(circumstances: Circumstances) -> bytes:
    """Canonical bytes. Raises EvidenceError where the schema does not hold."""
    body = {**dataclass_json.to_json(circumstances), "$schema": SCHEMA}
    schema.validate("circumstances", body, NAME)
    return canon.dump(body)


def from_bytes(data: bytes, place: str = NAME) -> Circumstances:
    """What :func:`to_bytes` wrote; unknown fields are ignored.

    Raises
    ------
    EvidenceError
        Where they are no circumstances.
    """
    body = canon.load_object(data, place)
    schema.validate("circumstances", body, place)
    return dataclass_json.from_json(body, Circumstances)
