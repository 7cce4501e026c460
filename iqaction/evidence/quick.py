"""Says quickly that a document holds to a schema. Pure; knows JSON Schema and no document.

One sided on purpose: True is certain, False means "ask the validator", which also words what is
wrong. The validator makes an object for every value it looks at, so that 1,319 observations take
it half a second; here they take a few hundredths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Check = Callable[[object], bool]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}
# `if` reads `then`, and definitions say something only where they are referred to.
_SAYS_NOTHING = frozenset({"$schema", "$id", "$defs", "title", "description", "then"})


def compiled(schema: object) -> Check:
    """A check of ``schema`` that is True only where the schema holds.

    A schema with a keyword that is not known here gives a check that is never True. A ``$ref``
    must be the schema itself that it refers to, not its address.
    """
    if not isinstance(schema, dict):
        return _never
    checks: list[Check] = []
    for keyword, value in schema.items():
        if keyword not in _SAYS_NOTHING:
            maker = _MAKERS.get(keyword)
            checks.append(_never if maker is None else maker(value, schema))
    if len(checks) == 1:
        return checks[0]
    return lambda value: all(check(value) for check in checks)


def _never(value: object) -> bool:
    return False


def _type(want: object, schema: object) -> Check:
    names = [str(n) for n in want] if isinstance(want, list) else [str(want)]
    kinds = frozenset(kind for name in names for kind in _TYPES[name])
    return lambda value: type(value) in kinds  # not isinstance: True is no integer


def _const(want: object, schema: object) -> Check:
    return lambda value: type(value) is str and value == want


def _enum(want: object, schema: object) -> Check:
    assert isinstance(want, list)
    return lambda value: type(value) is str and value in want


def _pattern(want: object, schema: object) -> Check:
    found = re.compile(str(want)).search
    return lambda value: not isinstance(value, str) or found(value) is not None


def _minimum(want: object, schema: object) -> Check:
    assert isinstance(want, (int, float))
    return lambda value: not isinstance(value, (int, float)) or value >= want


def _length(kind: type, name: str) -> Callable[[object, object], Check]:
    """``minItems`` and the like; the size of anything but ``kind`` is of no concern."""

    def make(want: object, schema: object) -> Check:
        assert isinstance(want, int)
        if name == "min":
            return lambda value: not isinstance(value, kind) or _size(value) >= want
        return lambda value: not isinstance(value, kind) or _size(value) <= want

    return make


def _size(value: object) -> int:
    assert isinstance(value, (str, list, dict))
    return len(value)


def _required(want: object, schema: object) -> Check:
    assert isinstance(want, list)
    names = frozenset(want)
    return lambda value: not isinstance(value, dict) or names <= value.keys()


def _properties(want: object, schema: object) -> Check:
    assert isinstance(want, dict)
    checks = {name: compiled(inner) for name, inner in want.items()}

    def check(value: object) -> bool:
        if not isinstance(value, dict):
            return True
        return all(inner(value[name]) for name, inner in checks.items() if name in value)

    return check


def _additional(want: object, schema: object) -> Check:
    assert isinstance(schema, dict)
    known = frozenset(schema.get("properties", ()))
    inner = compiled(want)  # False, "none", compiles to never
    return lambda value: (
        not isinstance(value, dict) or all(inner(v) for k, v in value.items() if k not in known)
    )


def _names(want: object, schema: object) -> Check:
    inner = compiled(want)
    return lambda value: not isinstance(value, dict) or all(inner(name) for name in value)


def _items(want: object, schema: object) -> Check:
    inner = compiled(want)
    return lambda value: not isinstance(value, list) or all(inner(item) for item in value)


def _all(want: object, schema: object) -> Check:
    assert isinstance(want, list)
    checks = [compiled(inner) for inner in want]
    return lambda value: all(check(value) for check in checks)


def _if(want: object, schema: object) -> Check:
    """Only ``{"properties": {name: {"const": text}}}``, of which the contrary is certain too."""
    assert isinstance(schema, dict)
    match want:
        case {"properties": dict(properties), **more} if not more and len(properties) == 1:
            ((name, inner),) = properties.items()
            if set(inner) == {"const"} and isinstance(inner["const"], str):
                text, then = inner["const"], compiled(schema.get("then", {}))
                return lambda value: (
                    isinstance(value, dict)
                    and name in value
                    and (value[name] != text or then(value))
                )
    return _never


def _ref(want: object, schema: object) -> Check:
    if not isinstance(want, dict):
        return _never
    made: list[Check] = []

    def check(value: object) -> bool:
        if not made:  # late: a definition may refer to itself
            made.append(compiled(want))
        return made[0](value)

    return check


_MAKERS: Mapping[str, Callable[[object, object], Check]] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "minItems": _length(list, "min"),
    "maxItems": _length(list, "max"),
    "maxLength": _length(str, "max"),
    "minProperties": _length(dict, "min"),
    "maxProperties": _length(dict, "max"),
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "allOf": _all,
    "if": _if,
    "$ref": _ref,
}
