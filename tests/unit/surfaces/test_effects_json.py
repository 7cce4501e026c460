"""Unit tests of effects.json."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from report_factory import GOLDENS

from iqaction.errors import EvidenceError
from iqaction.surfaces import _effects_json, render_all
from iqaction.surfaces._base import Annotate, Effect, SetOutput, UpsertComment

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas/effects.schema.json").read_text())
ONE = {"$schema": _effects_json.SCHEMA, "effects": [{"kind": "set_output", "name": "a"}]}


@pytest.mark.parametrize("case", GOLDENS)
def test_effects__there_and_back(case: str) -> None:
    """All effects of a report survive the file, in order, in the bytes that the schema asks for."""
    effects: tuple[Effect, ...] = (
        *render_all(GOLDENS[case]()),
        Annotate("compose.yml", 31, "warning", "engine changed"),
    )
    data = _effects_json.to_bytes(effects)
    jsonschema.validate(json.loads(data), SCHEMA)

    assert _effects_json.from_bytes(data) == effects
    assert _effects_json.to_bytes(_effects_json.from_bytes(data)) == data


def test_effects__unknown_fields_are_ignored() -> None:
    """A later version may say more."""
    body = {**ONE, "effects": [{"kind": "set_output", "name": "a", "value": "b", "more": 1}]}

    assert _effects_json.from_bytes(json.dumps(body).encode()) == (SetOutput("a", "b"),)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a list of effects"),
        (b'{"effects": []}', "not a list of effects"),
        (ONE, "effect 0, set_output: value is no str"),
        ({**ONE, "effects": [1]}, "effect 0 is no object"),
        ({**ONE, "effects": [{"kind": "post"}]}, "unknown kind"),
        ({**ONE, "effects": [{"kind": ["set_output"]}]}, "unknown kind"),
        (
            {**ONE, "effects": [{"kind": "annotate", "path": "a", "line": True}]},
            "line is no int",
        ),
        (
            {**ONE, "effects": [{"kind": "set_output", "name": "a", "value": "\ud800"}]},
            "no Unicode text",
        ),
        ({**ONE, "effects": [{}] * 1001}, "more than 1000"),
    ],
)
def test_from_bytes__refuses(body: object, said: str) -> None:
    """What is no list of effects is an evidence error that says why, never a traceback."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    with pytest.raises(EvidenceError, match=said):
        _effects_json.from_bytes(data)


def test_from_bytes__refuses_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file over the limit is not even parsed."""
    monkeypatch.setattr(_effects_json, "MAX_BYTES", 10)

    with pytest.raises(EvidenceError, match="larger than 10 bytes"):
        _effects_json.from_bytes(b" " * 11)


def test_effects__only_if_present() -> None:
    """A comment that may only replace one stays so; files of before have none."""
    effects = (UpsertComment("a", "b", only_if_present=True), UpsertComment("a", "b"))
    data = _effects_json.to_bytes(effects)
    jsonschema.validate(json.loads(data), SCHEMA)
    before = json.loads(data)
    del before["effects"][0]["only_if_present"]

    assert _effects_json.from_bytes(data) == effects
    assert _effects_json.from_bytes(json.dumps(before).encode()) == (effects[1],) * 2


@pytest.mark.parametrize("odd", ["true", 1, None, []])
def test_effects__only_if_present_is_a_bool(odd: object) -> None:
    """Anything else is refused: "false" must not read as yes."""
    item = {"kind": "upsert_comment", "marker": "a", "body": "b", "only_if_present": odd}
    body = {"$schema": _effects_json.SCHEMA, "effects": [item]}

    with pytest.raises(EvidenceError, match="only_if_present is no bool"):
        _effects_json.from_bytes(json.dumps(body).encode())
