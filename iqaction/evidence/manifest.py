"""The list of what a sealed folder holds; its own sha256 is the evidence root. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iqaction.errors import EvidenceError
from iqaction.evidence import canon, schema

NAME = "manifest.json"
SCHEMA = "https://inferquality.dev/schemas/manifest/v1"


@dataclass(frozen=True)
class Stored:
    """sha256 (hexadecimal) and size in bytes of a file as it lies on disk."""

    sha256: str
    size: int


Files = Mapping[str, Stored]


def to_bytes(files: Files) -> bytes:
    """Canonical bytes; the order of ``files`` does not matter."""
    body = {
        "$schema": SCHEMA,
        "files": {n: {"sha256": f.sha256, "size": f.size} for n, f in files.items()},
    }
    schema.validate("manifest", body, NAME)
    return canon.dump(body)


def from_bytes(data: bytes, place: str = NAME) -> dict[str, Stored]:
    """The files of a manifest.

    Raises
    ------
    EvidenceError
        No manifest, or bytes that are not exactly what :func:`to_bytes` writes (an added blank
        would change the root and nothing else).
    """
    body = canon.load_object(data, place)
    schema.validate("manifest", body, place)
    listed = body["files"]
    assert isinstance(listed, dict)  # by the schema
    files: dict[str, Stored] = {}
    for name, entry in listed.items():
        match entry:
            case {"sha256": str(sha256), "size": int(size)}:
                files[name] = Stored(sha256, size)
            case _:  # 3.0 is an integer to the schema, and no size of ours
                raise EvidenceError(f"{place}: the size of {name} is no whole number")
    if canon.dump(body) != data:
        raise EvidenceError(f"{place}: not in canonical form", expected="bytes as the tool wrote")
    return files
