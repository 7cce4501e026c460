"""Checks documents against the schemas that ship with the package. Knows no document's meaning.

Unknown fields are allowed everywhere but in a prompt: a reader ignores what a newer writer adds.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import jsonschema
import referencing
from referencing.jsonschema import SchemaRegistry

from iqaction.errors import EvidenceError
from iqaction.evidence import canon

NAMES = (
    "baseline",
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
_TYPES: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
    dict: ("object",),
    list: ("array",),
}
_CHECKOUT = Path(__file__).resolve().parents[2] / "schemas"


def schema_text(name: str) -> str:
    """The schema ``name`` as JSON text: of the installed package, else of the checkout."""
    assert name in NAMES
    shipped = importlib.resources.files("iqaction") / "schemas" / f"{name}.schema.json"
    if shipped.is_file():
        return shipped.read_text("utf-8")
    return (_CHECKOUT / f"{name}.schema.json").read_text("utf-8")


@functools.cache
def _registry() -> SchemaRegistry:
    pairs = [(n, json.loads(schema_text(n))) for n in NAMES]
    return referencing.Registry().with_resources(
        (body["$id"], referencing.Resource.from_contents(body)) for _, body in pairs
    )


def _is_plainly_valid(value: object, schema: Mapping[str, object]) -> bool:
    """True where a leaf schema certainly holds; False sends the value the long way round."""
    kinds = _TYPES.get(type(value), ())
    for key, want in schema.items():
        if key == "type":
            if not any(k == want or (isinstance(want, list) and k in want) for k in kinds):
                return False
        elif key == "pattern" and isinstance(want, str):
            if isinstance(value, str) and re.search(want, value) is None:
                return False
        elif key == "minimum" and isinstance(want, int):
            if isinstance(value, (int, float)) and not value >= want:
                return False
        elif key == "const" and isinstance(want, str):
            if value != want:
                return False
        elif key == "enum" and isinstance(want, list) and isinstance(value, str):
            if value not in want:
                return False
        elif key != "description":
            return False
    return True


def _properties(
    validator: jsonschema.Draft202012Validator,
    properties: Mapping[str, Mapping[str, object]],
    instance: object,
    schema: object,
) -> Iterator[jsonschema.ValidationError]:
    """The keyword ``properties`` as the library has it, save that valid leaves cost little.

    One validator object per property makes 1,319 observations take half a second; this way the
    whole takes a fifth. What is not plainly valid is left to the library, which also words it.
    """
    if isinstance(instance, dict):
        for name, leaf in properties.items():
            if name in instance and not _is_plainly_valid(instance[name], leaf):
                yield from validator.descend(instance[name], leaf, path=name, schema_path=name)


def _items(
    validator: jsonschema.Draft202012Validator, items: object, instance: object, schema: object
) -> Iterator[jsonschema.ValidationError]:
    """The keyword ``items``, likewise; no schema here uses ``prefixItems``."""
    if isinstance(instance, list) and isinstance(items, dict):
        for index, value in enumerate(instance):
            if not _is_plainly_valid(value, items):
                yield from validator.descend(value, items, path=index)


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    kind: type[jsonschema.Draft202012Validator] = jsonschema.validators.extend(
        jsonschema.Draft202012Validator,
        {"properties": _properties, "items": _items},
    )  # type: ignore[no-untyped-call] # untyped in the stubs
    return kind(json.loads(schema_text(name)), registry=_registry())


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
        error = next(_validator(name).iter_errors(value), None)
    except RecursionError as exc:
        raise EvidenceError(f"{place or name}: nested too deeply") from exc
    if error is None:
        return
    # A message begins with the whole value and ends with what is wrong with it.
    said = error.message if len(error.message) <= _SHOWN else f"...{error.message[-_SHOWN:]}"
    raise EvidenceError(
        f"{place or name}: {canon.shown(error.json_path)}: {canon.shown(said, _SHOWN + 3)}",
        expected=f"a document as schemas/{name}.schema.json describes it",
    )
