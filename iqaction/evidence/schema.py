"""Checks documents against the schemas that ship with the package. Knows no document's meaning.

Unknown fields are allowed everywhere but in a prompt: a reader ignores what a newer writer adds.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from iqaction.errors import EvidenceError
from iqaction.evidence import canon, quick
from iqaction.json_value import JSON

NAMES = (
    "accept",
    "anchor",
    "baseline",
    "circumstances",
    "effects",
    "manifest",
    "observation",
    "plan",
    "prompt",
    "record",
    "report",
    "stage-result",
)
_SHOWN = 200  # characters of a validator's message: it quotes whole values
_CHECKOUT = Path(__file__).resolve().parents[2] / "schemas"


def schema_text(name: str) -> str:
    """The schema ``name`` as JSON text: of the installed package, else of the checkout."""
    assert name in NAMES
    shipped = importlib.resources.files("iqaction") / "schemas" / f"{name}.schema.json"
    if shipped.is_file():
        return shipped.read_text("utf-8")
    return (_CHECKOUT / f"{name}.schema.json").read_text("utf-8")


class _Error(Protocol):
    @property
    def message(self) -> str: ...
    @property
    def absolute_path(self) -> Iterable[str | int]: ...


class _Validator(Protocol):
    """As jsonschema has it, which is imported late: only a document that is wrong needs it."""

    def iter_errors(self, instance: object) -> Iterator[_Error]: ...


@functools.cache
def _registry() -> object:
    import referencing  # noqa: PLC0415 - 60 ms with jsonschema

    pairs = [(n, json.loads(schema_text(n))) for n in NAMES]
    return referencing.Registry().with_resources(
        (body["$id"], referencing.Resource.from_contents(body)) for _, body in pairs
    )


@functools.cache
def _validator(name: str) -> _Validator:
    import jsonschema  # noqa: PLC0415
    import referencing  # noqa: PLC0415

    registry = _registry()
    assert isinstance(registry, referencing.Registry)
    return jsonschema.Draft202012Validator(json.loads(schema_text(name)), registry=registry)


@functools.cache
def _quick(name: str) -> quick.Check:
    return quick.compiled(resolved(name))


def resolved(name: str) -> JSON:
    """The schema ``name``, every ``$ref`` in it replaced by the schema that it refers to."""
    by_name: dict[str, dict[str, JSON]] = {n: json.loads(schema_text(n)) for n in NAMES}
    bodies = {str(body["$id"]): body for body in by_name.values()}
    for body in bodies.values():
        _resolve(body, body, bodies)
    return by_name[name]


def _resolve(node: JSON, root: JSON, bodies: Mapping[str, JSON]) -> None:
    if isinstance(node, list):
        for inner in node:
            _resolve(inner, root, bodies)
    elif isinstance(node, dict):
        for key, inner in node.items():
            if key == "$ref" and isinstance(inner, str):
                node[key] = _target(inner, root, bodies)
            else:
                _resolve(inner, root, bodies)


def _target(address: str, root: JSON, bodies: Mapping[str, JSON]) -> JSON:
    if not address.startswith("#"):
        return bodies[address]
    for part in address.split("/")[1:]:
        assert isinstance(root, dict)  # the package's own schemas
        root = root[part]
    return root


def validate(name: str, value: object, place: str = "") -> None:
    """Hold ``value`` against the schema ``name``.

    Parameters
    ----------
    place
        Names the document in the error, as "report.json"; the schema's name where empty.

    Raises
    ------
    EvidenceError
        Naming the place inside the document, as ``report.json: $.stages[0].verdict``.
    """
    try:
        if _quick(name)(value):
            return
        error = next(_validator(name).iter_errors(value), None)
    except RecursionError as exc:
        raise EvidenceError(f"{place or name}: nested too deeply") from exc
    if error is None:
        return
    # A message begins with the whole value and ends with what is wrong with it.
    said = error.message if len(error.message) <= _SHOWN else f"...{error.message[-_SHOWN:]}"
    raise EvidenceError(
        f"{place or name}: {_path(error.absolute_path)}: {canon.shown(said, _SHOWN + 3)}",
        expected=f"a document as schemas/{name}.schema.json describes it",
    )


def _path(parts: Iterable[str | int]) -> str:
    """A place in a document, as ``$.stages[0].verdict``; foreign keys can be printed."""
    steps = [
        f".{p}" if isinstance(p, str) and p.isidentifier() else f"[{canon.shown(repr(p))}]"
        for p in parts
    ]
    return "$" + "".join(steps)
