"""The quick check never says yes where JSON Schema says no."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction.evidence import schema
from iqaction.evidence.quick import compiled

RECORDS = Path(__file__).parents[2] / "records"
VALID = [
    (body["schema"], body["document"])
    for body in (json.loads(p.read_text("utf-8")) for p in sorted((RECORDS / "valid").iterdir()))
]
ODD = st.sampled_from(
    [None, True, False, 0, -1, 1.0, 0.5, 2**70, "", "x", "p-0\n", "PASS", "../x", [], {}, [{}], [1]]
)
CHECKS = {
    name: (
        compiled(schema.resolved(name)),
        jsonschema.Draft202012Validator(
            json.loads(schema.schema_text(name)), registry=schema._registry()
        ),
    )
    for name in schema.NAMES
}


def places(value: object) -> list[tuple[object, object]]:
    """Every (container, key) in a document."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    inner = [p for _, v in pairs if isinstance(v, (dict, list)) for p in places(v)]
    return [(value, key) for key, _ in pairs] + inner


EDITORS_ONLY = {"accept", "anchor"}  # YAML that is read with line numbers, and not by schema


@pytest.mark.parametrize(("name", "document"), [v for v in VALID if v[0] not in EDITORS_ONLY])
def test_compiled__says_yes_to_valid_documents(name, document):
    """Valid documents take the quick way: the library is then not even imported."""
    assert CHECKS[name][0](document)


@settings(max_examples=300)
@given(st.sampled_from(VALID), st.integers(0, 10**6), ODD, st.booleans())
def test_compiled__yes_is_certain(valid, at, odd, drop):
    """Whatever is put in anywhere, or taken out: yes only where the library says yes."""
    name, document = valid[0], copy.deepcopy(valid[1])
    found = places(document)
    container, key = found[at % len(found)]
    if drop:
        del container[key]
    else:
        container[key] = odd
    quick, library = CHECKS[name]

    assert not quick(document) or library.is_valid(document)


@pytest.mark.parametrize(
    "odd",
    [
        True,
        False,
        {"not": {}},
        {"type": "string", "format": "uri"},
        {"$ref": "#"},
        {"if": {"type": "string"}, "then": {}},
        {"if": {"properties": {"a": {"const": 1}}}, "then": {}},
        {"if": {"properties": {"a": {"const": "x"}, "b": {"const": "x"}}}, "then": {}},
    ],
)
def test_compiled__what_it_does_not_know_it_leaves_alone(odd):
    """An unknown keyword means: ask the validator."""
    assert not compiled(odd)({"a": "x"})
    assert not compiled(odd)("x")
