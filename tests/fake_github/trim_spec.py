"""Cuts GitHub's OpenAPI description down to the operations that the action uses.

Usage: python tests/fake_github/trim_spec.py package/generated/api.github.com.json
(the file is in the npm package ``@octokit/openapi``: see README.md). Writes openapi.json.gz.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPO = "/repos/{owner}/{repo}"
KEPT = {
    f"{REPO}/check-runs": ("post",),
    f"{REPO}/check-runs/{{check_run_id}}": ("get", "patch"),
    f"{REPO}/check-runs/{{check_run_id}}/annotations": ("get",),
    f"{REPO}/commits/{{ref}}/check-runs": ("get",),
    f"{REPO}/commits/{{commit_sha}}/pulls": ("get",),
    f"{REPO}/compare/{{basehead}}": ("get",),
    f"{REPO}/contents/{{path}}": ("get",),
    f"{REPO}/git/trees/{{tree_sha}}": ("get",),
    f"{REPO}/git/blobs/{{file_sha}}": ("get",),
    f"{REPO}/issues/{{issue_number}}/comments": ("get", "post"),
    f"{REPO}/issues/comments/{{comment_id}}": ("get", "patch", "delete"),
    f"{REPO}/pulls": ("get",),
    f"{REPO}/pulls/{{pull_number}}": ("get",),
    f"{REPO}/pulls/{{pull_number}}/files": ("get",),
    f"{REPO}/actions/artifacts": ("get",),
    f"{REPO}/actions/artifacts/{{artifact_id}}": ("get",),
    f"{REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}": ("get",),
    f"{REPO}/actions/runs": ("get",),
    f"{REPO}/actions/runs/{{run_id}}": ("get",),
    f"{REPO}/actions/runs/{{run_id}}/artifacts": ("get",),
    "/user": ("get",),
    "/app": ("get",),
}
NAMES = {"properties", "examples", "responses", "parameters", "schemas", "headers", "patterns"}
PROSE = {"description", "summary", "x-github", "externalDocs", "tags", "title"}


def references(node: Any) -> Iterator[str]:
    """Every local reference below a node."""
    if isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str) and target.startswith("#/"):
            yield target
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def without_prose(node: Any, *, names: bool = False) -> Any:
    """The same without descriptions; ``names`` where the keys are names of the API itself."""
    if isinstance(node, list):
        return [without_prose(v) for v in node]
    if not isinstance(node, dict):
        return node
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if not names and key in PROSE and not isinstance(value, bool):
            continue
        example = key in ("value", "example") and not names
        kept[key] = value if example else without_prose(value, names=not names and key in NAMES)
    return kept


def trimmed(full: dict[str, Any]) -> dict[str, Any]:
    """The kept operations with everything they refer to.

    Raises
    ------
    KeyError
        Where GitHub's description no longer has one of them.
    """
    paths = {
        path: {method: full["paths"][path][method] for method in kept}
        for path, kept in KEPT.items()
    }
    components: dict[str, dict[str, Any]] = {}
    waiting, seen = list(references(paths)), set[str]()
    while waiting:
        target = waiting.pop()
        if target in seen:
            continue
        seen.add(target)
        _, kind, name = target[2:].split("/")
        node = full["components"][kind][name]
        components.setdefault(kind, {})[name] = node
        waiting += references(node)

    head = {
        "openapi": full["openapi"],
        "info": {"title": "GitHub, cut", "version": full["info"]["version"]},
    }
    return {
        **head,
        "paths": {p: {m: without_prose(op) for m, op in ops.items()} for p, ops in paths.items()},
        "components": {
            kind: {
                name: node if kind == "examples" else without_prose(node)
                for name, node in sorted(nodes.items())
            }
            for kind, nodes in sorted(components.items())
        },
    }


def main(source: str) -> int:
    """Write the trimmed description, the same bytes each time."""
    spec = trimmed(json.loads(Path(source).read_text(encoding="utf-8")))
    data = json.dumps(spec, separators=(",", ":"), ensure_ascii=True).encode()
    target = Path(__file__).with_name("openapi.json.gz")
    target.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{len(spec['paths'])} paths, {len(data):,} bytes, {target.stat().st_size:,} packed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
