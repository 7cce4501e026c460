"""Documents on disk, valid and not: each invalid one is named for what is wrong with it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from evidence_factory import generation, observation, report

from iqaction import calls, prompts, surfaces
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence import record, schema
from iqaction.evidence.envelope import observation_to_json
from iqaction.rows import Match
from iqaction.surfaces import _effects_json
from iqaction.verdict import Verdict

RECORDS = Path(__file__).parents[2] / "records"
VALID = sorted((RECORDS / "valid").glob("*.json"))
INVALID = sorted((RECORDS / "invalid").glob("*.json"))


def case(path: Path) -> dict[str, object]:
    return json.loads(path.read_text(encoding="utf-8"))


def strict(name: str) -> jsonschema.Draft202012Validator:
    """The library's own validator, none of our shortcuts in it."""
    body = json.loads(schema.schema_text(name))
    return jsonschema.Draft202012Validator(body, registry=schema._registry())


@pytest.mark.parametrize("path", VALID, ids=lambda p: p.stem)
def test_validate__valid(path):
    """Every valid document passes, and the library alone agrees."""
    found = case(path)

    schema.validate(found["schema"], found["document"])
    assert list(strict(found["schema"]).iter_errors(found["document"])) == []


@pytest.mark.parametrize("path", INVALID, ids=lambda p: p.stem)
def test_validate__invalid(path):
    """Every invalid document is refused, the error names the place, and the library agrees."""
    found = case(path)

    with pytest.raises(EvidenceError) as caught:
        schema.validate(found["schema"], found["document"], "doc")

    assert caught.value.happened.startswith(f"doc: {found['expect']}: ")
    assert len(caught.value.happened) < 600
    assert not strict(found["schema"]).is_valid(found["document"])


def test_validate__every_schema_has_both_kinds_of_document():
    """No schema goes untested."""
    assert {case(p)["schema"] for p in VALID} == set(schema.NAMES)
    assert {case(p)["schema"] for p in INVALID} == set(schema.NAMES)


@pytest.mark.parametrize("name", schema.NAMES)
def test_schema_text__is_a_schema_of_its_own_name(name):
    """Each is JSON Schema 2020-12 and carries the URI that documents name."""
    body = json.loads(schema.schema_text(name))
    jsonschema.Draft202012Validator.check_schema(body)

    assert body["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert body["$id"] == f"https://inferquality.dev/schemas/{name}/v1"


def test_schema_text__knows_every_file_of_the_folder():
    """A schema that is added is found."""
    found = {p.name.removesuffix(".schema.json") for p in schema._CHECKOUT.glob("*.json")}

    assert found == set(schema.NAMES)


def enums(value: object) -> list[list[object]]:
    """Every ``enum`` in a schema."""
    if isinstance(value, dict):
        inner = [x for v in value.values() for x in enums(v)]
        return inner + ([value["enum"]] if isinstance(value.get("enum"), list) else [])
    return [x for v in value for x in enums(v)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("observation", calls.Arm),
        ("observation", calls.Capability),
        ("observation", calls.FailureKind),
        ("observation", Match),
        ("report", Verdict),
    ],
)
def test_schema_text__lists_what_the_code_knows(name, kind):
    """An enum that gains a member in the code gains it in the schema."""
    assert [m.value for m in kind] in enums(json.loads(schema.schema_text(name)))


def test_schema_text__knows_every_kind_of_record():
    """The same for records."""
    found = enums(json.loads(schema.schema_text("record")))

    assert [k.predicate_type for k in record.Kind] in found


@pytest.mark.parametrize(
    "path", [p for p in (*VALID, *INVALID) if p.stem.startswith("prompt")], ids=lambda p: p.stem
)
def test_validate__prompts_agree_with_the_reader(path):
    """What the prompt schema says is what the prompt reader does."""
    line = json.dumps(case(path)["document"]).encode()
    if path in VALID:
        assert len(prompts.parse(line, "x").prompts) == 1
    else:
        with pytest.raises(ConfigError):
            prompts.parse(line, "x")


def test_validate__a_control_character_in_a_key_is_escaped():
    """The place in an error can be printed."""
    doc = case(RECORDS / "valid" / "observation_engine.json")["document"]
    doc["info"]["details"] = {"\x1b[31m": 1}

    with pytest.raises(EvidenceError) as caught:
        schema.validate("observation", doc)

    assert "\x1b" not in str(caught.value)


def test_validate__depth_is_an_error_and_no_traceback():
    """A plan parameter nested beyond the stack is refused."""
    doc = case(RECORDS / "valid" / "plan_capture.json")["document"]
    nested: list[object] = []
    for _ in range(20_000):
        nested = [nested]
    doc["stages"][0]["params"]["stop"] = nested

    with pytest.raises(EvidenceError, match="nested too deeply"):
        schema.validate("plan", doc)


def test_validate__many_observations_take_little_time():
    """Checking observations costs at most a third of what the library alone needs for it."""
    body = observation_to_json("score", observation("p", generation()), "2026-01-01T00:00:00Z")
    alone = strict("observation")

    def cost(check: Callable[[object], object]) -> float:
        started = time.process_time()
        for _ in range(100):
            check(body)
        return time.process_time() - started

    ours = min(cost(lambda x: schema.validate("observation", x)) for _ in range(3))
    theirs = min(cost(lambda x: list(alone.iter_errors(x))) for _ in range(3))

    assert ours <= theirs / 3


def test_schema_text__is_found_in_an_installed_package(tmp_path):
    """As in a wheel: the schemas inside the package and no checkout around it."""
    root = Path(__file__).parents[3]
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "iqaction", tmp_path / "iqaction", ignore=skip)
    shutil.copytree(root / "schemas", tmp_path / "iqaction/schemas")
    code = (
        "from iqaction.evidence import schema; print(schema.__file__)\n"
        "print(sum(len(schema.schema_text(n)) for n in schema.NAMES))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    where, size = done.stdout.split()

    assert where.startswith(str(tmp_path))
    assert int(size) == sum(len(schema.schema_text(n)) for n in schema.NAMES)


def test_validate__effects_of_the_surfaces():
    """What the surfaces make of a report is what the schema describes."""
    effects = _effects_json.to_bytes(surfaces.render_all(report()))

    schema.validate("effects", json.loads(effects))
    assert {e["kind"] for e in json.loads(effects)["effects"]} >= {"upsert_comment", "set_output"}
