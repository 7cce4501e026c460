"""GitHub's own OpenAPI description as a judge of requests and answers. Knows no state.

The description is of OpenAPI 3.0, whose schemas are JSON Schema's draft 4 but for ``nullable``;
that is translated when loading, so that jsonschema can read the rest as it is.
"""

from __future__ import annotations

import copy
import functools
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from jsonschema import Draft4Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT4

SPEC = Path(__file__).with_name("openapi.json.gz")
_HOME = "urn:github"
_WITH_SLASHES = ("path", "basehead", "ref")  # parameters that may hold them; the spec cannot say so
_FORMATS = FormatChecker(formats=())
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")
_LONG = {"maxLength": "longer than {} characters", "maxItems": "more than {} items"}
_REFUSALS = (400, 401, 403, 404, 410, 422, 429)  # any operation may answer so


@_FORMATS.checks("date-time")
def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or bool(_DATE_TIME.match(value))


@_FORMATS.checks("uri")
def _is_uri(value: object) -> bool:
    return not isinstance(value, str) or bool(urlsplit(value).scheme)


@dataclass(frozen=True)
class Operation:
    """One operation that a request was matched to, with the parameters of its path."""

    name: str
    template: str
    method: str
    spec: Mapping[str, Any]
    parameters: Mapping[str, str]


def _as_draft4(node: Any) -> Any:
    """The same with ``nullable`` written as JSON Schema writes it, and references in full.

    GitHub leaves null out of nullable enumerations; it is added.
    """
    if isinstance(node, list):
        return [_as_draft4(v) for v in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        return {"$ref": _HOME + node["$ref"]}
    out = {k: v if k in ("examples", "example") else _as_draft4(v) for k, v in node.items()}
    if out.pop("nullable", False) is not True:
        return out
    if isinstance(out.get("enum"), list):
        out["enum"] = [*out["enum"], None]
    if isinstance(out.get("type"), str):
        return {**out, "type": [out["type"], "null"]}
    return {"anyOf": [{"type": "null"}, out]}


class Contract:
    """The trimmed description, ready to judge."""

    def __init__(self) -> None:
        self._raw: dict[str, Any] = json.loads(gzip.decompress(SPEC.read_bytes()))
        spec = {k: _as_draft4(v) for k, v in self._raw.items() if k != "components"}
        kinds = self._raw["components"]
        # Lists of pull requests have null here where a fork was deleted.
        head = kinds["schemas"]["pull-request-simple"]["properties"]["head"]["properties"]
        head["repo"] = {"nullable": True, "allOf": [head["repo"]]}
        spec["components"] = {k: v if k == "examples" else _as_draft4(v) for k, v in kinds.items()}
        self._spec = spec
        self._registry = Registry().with_resource(_HOME, DRAFT4.create_resource(spec))
        self._routes = sorted(
            ((self._pattern(t), t, item) for t, item in spec["paths"].items()),
            key=lambda route: (route[1].count("{"), -len(route[1])),
        )

    @staticmethod
    def _pattern(template: str) -> re.Pattern[str]:
        def part(found: re.Match[str]) -> str:
            inner = ".+" if found[1] in _WITH_SLASHES else "[^/]+"
            return f"(?P<{found[1]}>{inner})"

        return re.compile(re.sub(r"\\\{(\w+)\\\}", part, re.escape(template)) + r"\Z")

    def match(self, method: str, path: str) -> Operation | None:
        """The operation that a request asks for."""
        for pattern, template, item in self._routes:
            found = pattern.match(path)
            if found and method.lower() in item:
                spec = item[method.lower()]
                named = {k: unquote(v) for k, v in found.groupdict().items()}
                return Operation(spec["operationId"], template, method.lower(), spec, named)
        return None

    def request_errors(
        self, operation: Operation, query: Mapping[str, str], body: object
    ) -> list[str]:
        """What a request does against the description; also what GitHub would only ignore, for a
        misspelt key is silent there and wrong here."""
        return [*self._parameter_errors(operation, query), *self._body_errors(operation, body)]

    def _parameter_errors(self, operation: Operation, query: Mapping[str, str]) -> Iterator[str]:
        given = {"path": operation.parameters, "query": query}
        known = set()
        for spec in map(self._found, operation.spec.get("parameters", [])):
            place, name = spec["in"], spec["name"]
            known.add((place, name))
            if place not in given:
                continue
            if name not in given[place]:
                if spec.get("required"):
                    yield f"{name}: the {place} parameter is missing"
                continue
            value: object = given[place][name]
            schema = self._found(spec["schema"])
            if schema.get("type") == "integer" and re.fullmatch(r"-?\d+", str(value)):
                value = int(str(value))
            for error in self._errors(schema, value):
                yield f"{name}: {error}"
        for name in query:
            if ("query", name) not in known:
                yield f"{name}: no query parameter of this operation"

    def _body_errors(self, operation: Operation, body: object) -> Iterator[str]:
        wanted = self._found(operation.spec.get("requestBody", {}))
        if not wanted:
            if body is not None:
                yield "(body): this operation takes none"
            return
        schema = wanted["content"]["application/json"]["schema"]
        if body is None:
            yield "(body): JSON is required"
            return
        yield from self._errors(schema, body)
        yield from self._unknown(schema, body, "")

    def response_errors(self, operation: Operation, status: int, body: object) -> list[str]:
        """What an answer does against the description."""
        responses = operation.spec["responses"]
        if str(status) not in responses:
            known = status in _REFUSALS
            return [] if known else [f"{operation.name}: no status {status}"]
        content = self._found(responses[str(status)]).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        return [] if schema is None else list(self._errors(schema, body))

    def example(self, name: str, *, part: str = "") -> Any:
        """A copy of GitHub's own example answer of an operation; ``part`` of a list in it."""
        for item in self._raw["paths"].values():
            for spec in item.values():
                if spec["operationId"] == name:
                    ok = next(r for code, r in spec["responses"].items() if code.startswith("2"))
                    found = next(iter(ok["content"]["application/json"]["examples"].values()))
                    value = self._example(found)
                    if part:
                        return value[part][0]
                    return value[0] if isinstance(value, list) else value
        raise LookupError(name)

    def _example(self, node: Any) -> Any:
        if "$ref" in node:
            node = self._raw["components"]["examples"][node["$ref"].rpartition("/")[2]]
        return copy.deepcopy(node["value"])

    def _found(self, node: Any) -> Any:
        while isinstance(node, dict) and "$ref" in node:
            _, kind, name = node["$ref"].removeprefix(f"{_HOME}#/").split("/")
            node = self._spec["components"][kind][name]
        return node

    def _errors(self, schema: Any, value: object) -> Iterator[str]:
        validator = Draft4Validator(schema, registry=self._registry, format_checker=_FORMATS)
        for error in validator.iter_errors(value):
            place = "/".join(map(str, error.absolute_path)) or "(body)"
            said = _LONG.get(error.validator, "")  # else the message starts with the whole value
            yield f"{place}: {said.format(error.validator_value) or error.message[:300]}"

    def _unknown(self, schema: Any, value: object, place: str) -> Iterator[str]:
        schema = self._found(schema)
        if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
            for key, inner in value.items():
                if key in schema["properties"]:
                    yield from self._unknown(schema["properties"][key], inner, f"{place}/{key}")
                else:
                    yield f"{place}/{key}: not a property of the contract"
        elif isinstance(value, list) and "items" in schema:
            for i, inner in enumerate(value):
                yield from self._unknown(schema["items"], inner, f"{place}/{i}")


@functools.cache
def contract() -> Contract:
    """The one of this process: loading takes a tenth of a second."""
    return Contract()
