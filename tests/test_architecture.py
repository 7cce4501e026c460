"""The dependency arrows, as a test. A new arrow is a change to this table, made on purpose."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "iqaction"

# Module or package of iqaction -> those it may import. Lower lines may import upper ones.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "archives": {"errors"},
    "verdict": set(),
    "rows": set(),
    "stats": set(),
    "graders": set(),
    "counts": set(),
    "days": set(),
    "terminal": set(),
    "spelling": set(),
    "_sockets": set(),
    "interrupts": set(),
    "progress": {"terminal"},
    "_llama_server": set(),
    "demo_quants": set(),
    "calls": {"rows"},
    "report": {"verdict"},
    "document": {"errors"},
    "prompts": {"calls", "errors"},
    "plan": {"calls", "errors"},
    "circumstances": {"report"},
    "observed": {"calls", "circumstances", "plan", "prompts"},
    "engines": {"calls", "errors", "rows"},
    "surfaces": {"errors", "report", "verdict"},
    "stages": {
        *("calls", "errors", "graders", "observed", "plan", "prompts", "report", "rows", "shards"),
        *("stats", "verdict"),
    },
    "attribution": {"calls", "observed", "plan", "stages"},
    "compatibility": {"calls", "days", "observed", "plan", "stages"},
    "fingerprints": {"calls"},
    "changes": {"calls", "report"},
    "soundness": {"errors", "plan", "stages"},
    "judgement": {
        *("acceptance", "attribution", "calls", "changes", "circumstances", "compatibility"),
        *("observed", "plan", "prompts", "report", "soundness", "stages", "verdict"),
    },
    "shards": {"errors", "plan"},
    "evidence": {
        *(
            "archives",
            "calls",
            "circumstances",
            "errors",
            "observed",
            "plan",
            "prompts",
            "report",
            "rows",
        ),
        "verdict",
    },
    "acceptance": {"days", "document", "errors", "report", "spelling", "values", "verdict"},
    "values": {"calls", "document", "errors", "plan", "prompts", "spelling", "stages"},
    "inputs": {
        *("document", "errors", "observed", "plan", "prompts", "spelling", "stages"),
        *("top_keys", "values"),
    },
    "top_keys": {"engines", "errors", "spelling", "values"},
    "anchor": {"days", "document", "errors", "spelling", "values"},
    "sources": {"anchor", "datasets", "errors", "inputs", "prompts", "spelling", "stages"},
    "given_baseline": {"anchor", "errors", "evidence", "inputs", "observed", "sources"},
    "cache": {"errors"},
    "datasets": {"cache", "errors"},
    "_address": {"calls", "errors"},
    "_event_stream": set(),
    "_replies": {"_event_stream", "calls", "engines"},
    "_retrying": {"calls", "engines"},
    "http": {"_address", "_replies", "_retrying", "_sockets", "calls", "engines", "errors"},
    "hf_tokenizer": {"calls", "errors"},
    "harness": {"calls", "errors", "withheld"},
    "sending": {"calls", "errors", "interrupts"},
    "recovery": {"calls"},
    "runner": {
        *("calls", "engines", "errors", "interrupts", "observed", "plan", "progress", "prompts"),
        *("recovery", "sending", "stages"),
    },
    "demo_engine": {"errors", "terminal"},
    "demo_weights": {"demo_quants", "errors", "terminal"},
}
MAY_IMPORT["addresses"] = set()
MAY_IMPORT["withheld"] = {"json_value"}
MAY_IMPORT["connecting"] = {
    "addresses",
    *("calls", "engines", "errors", "fingerprints", "harness", "hf_tokenizer", "http", "inputs"),
    *("judgement", "observed", "plan", "runner", "stages"),
}
BELOW_SESSION = set(MAY_IMPORT) - {"_llama_server", "demo_engine", "demo_quants", "demo_weights"}
MAY_IMPORT["session"] = BELOW_SESSION | {"surroundings"}
MAY_IMPORT["surroundings"] = {"boot", "circumstances"}
MAY_IMPORT["boot"] = {
    *("calls", "engines", "errors", "http", "interrupts", "terminal", "withheld"),
}
MAY_IMPORT["github"] = {"archives", "errors", "report", "surfaces", "terminal", "verdict"}
MAY_IMPORT["restarts"] = {"addresses", "boot", "calls", "errors", "evidence"}
MAY_IMPORT["capture"] = {
    *(
        "boot",
        "calls",
        "connecting",
        "errors",
        "evidence",
        "inputs",
        "observed",
        "plan",
        "progress",
    ),
    *("restarts", "runner", "session", "stages", "verdict", "withheld"),
}
MAY_IMPORT["live_baseline"] = {
    "addresses",
    *("boot", "calls", "capture", "circumstances", "connecting", "errors", "evidence", "inputs"),
    *("progress", "runner", "session", "stages"),
}
MAY_IMPORT["baseline"] = {
    *("anchor", "calls", "circumstances", "compatibility", "connecting", "errors", "evidence"),
    "inputs",
    *("judgement", "observed", "plan", "report", "session", "sources", "stages", "surroundings"),
    "verdict",
}
MAY_IMPORT["baseline_view"] = {
    *("anchor", "calls", "compatibility", "observed", "report", "stages", "surfaces", "terminal"),
    "verdict",
}
MAY_IMPORT["merging"] = {
    *("calls", "circumstances", "errors", "evidence", "judgement", "observed", "session"),
}
MAY_IMPORT["demo_view"] = {"progress", "report", "terminal", "verdict"}
MAY_IMPORT["demo"] = {
    *("cache", "demo_engine", "demo_view", "demo_weights", "errors", "progress", "session"),
    "verdict",
}
MAY_IMPORT["outcome_view"] = {"calls", "report", "surfaces", "terminal", "verdict"}
MAY_IMPORT["answer_view"] = {"calls", "observed", "stages", "terminal"}
MAY_IMPORT["item_view"] = {"answer_view", "calls", "observed", "report", "stages", "terminal"}
MAY_IMPORT["inspect_view"] = {
    *("answer_view", "calls", "errors", "item_view", "observed", "prompts", "report", "rows"),
    *("spelling", "stages", "surfaces", "terminal"),
}
MAY_IMPORT["comparing"] = {
    *("calls", "changes", "judgement", "observed", "plan", "report", "stages", "verdict"),
}
MAY_IMPORT["comparing_view"] = {"comparing", "report", "surfaces", "terminal", "verdict"}
MAY_IMPORT["comparing_html"] = {"comparing", "comparing_view", "report", "surfaces"}
MAY_IMPORT["action"] = BELOW_SESSION | {
    "live_baseline",
    "boot",
    "github",
    "merging",
    "outcome_view",
    "session",
}
MAY_IMPORT["_entry"] = {"action"}
MAY_IMPORT["commands"] = set(MAY_IMPORT)
MAY_IMPORT["cli"] = set(MAY_IMPORT)
MAY_IMPORT["__main__"] = set(MAY_IMPORT)

for may in MAY_IMPORT.values():
    may.add("json_value")  # a type, and everybody's
MAY_IMPORT["json_value"] = set()
for _name in (  # who says how many there are of something
    *("acceptance", "answer_view", "baseline", "baseline_view", "boot", "compatibility"),
    *("evidence", "github", "inspect_view", "judgement", "stages"),
):
    MAY_IMPORT[_name] = MAY_IMPORT[_name] | {"counts"}

# These compute: what they return depends on what they are given, and on nothing else.
PURE = {
    *("errors", "verdict", "rows", "calls", "prompts", "plan", "observed", "report", "stats"),
    *("_event_stream", "_replies", "acceptance", "anchor", "attribution", "circumstances"),
    *("compatibility", "fingerprints", "graders", "shards", "soundness"),
    *("engines", "stages", "judgement", "surfaces", "inputs", "document", "values", "spelling"),
    *("terminal", "top_keys", "inspect_view", "answer_view", "item_view"),
    *("changes", "comparing", "comparing_view", "comparing_html", "counts", "days"),
}
WORLD = {
    *("requests", "os", "time", "random", "subprocess", "socket", "datetime", "pathlib"),
    *("urllib3", "http", "tempfile", "shutil", "secrets", "threading", "signal"),
}
# The folder of evidence is written in few places; the rest of that package is pure.
WRITERS = {"bundle", "journal", "store", "tree"}
MAX_LINES = 600
PURE_PATHS = {"PurePath", "PurePosixPath"}


def home(path: Path) -> str:
    """The module or package of iqaction that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def imported(node: ast.AST) -> list[str]:
    """The modules that one statement imports; ``from iqaction import x`` is ``iqaction.x``."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports name the package in full"
        assert node.module is not None
        if node.module == "iqaction":
            return [f"iqaction.{name.name}" for name in node.names]
        if node.module == "pathlib":  # a pure path is a way to cut a string
            return ["pathlib"] if {n.name for n in node.names} - PURE_PATHS else []
        return [node.module]
    return []


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, inside functions and conditions too."""
    for node in nodes(path):
        yield from imported(node)


def ours(path: Path) -> set[str]:
    """The modules and packages of iqaction that a file imports, its own left out."""
    inner = {m.split(".")[1] for m in imports(path) if m.startswith("iqaction.")}
    return inner - {home(path), "__version__"}


FILES = sorted(ROOT.rglob("*.py"))
INNER = [p for p in FILES if p != ROOT / "__init__.py"]


def named(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda p: str(p.relative_to(ROOT)))


@named(INNER)
def test_imports__follow_the_arrows(path):
    """A module imports what its line of the table allows, and has a line."""
    assert home(path) in MAY_IMPORT, "a new module needs a line in MAY_IMPORT"

    assert ours(path) - MAY_IMPORT[home(path)] == set()


@named([p for p in INNER if home(p) in PURE])
def test_imports__pure_packages_do_not_touch_the_world(path):
    """No clock, disk, network, chance or environment where things are computed."""
    outer = {m.split(".")[0] for m in imports(path)}

    assert outer & WORLD == set()


@named([p for p in INNER if home(p) == "evidence" and p.stem not in WRITERS])
def test_imports__evidence_touches_the_world_in_few_places(path):
    """What evidence looks like is pure; what writes and reads it is named."""
    outer = {m.split(".")[0] for m in imports(path)}

    assert outer & (WORLD - {"pathlib"}) == set()  # where a file is, not what is in it


def test_arrows__no_cycle():
    """The table is an order: nothing can come to depend on itself."""
    table = {name: may - {name} for name, may in MAY_IMPORT.items()}
    for shell in ("commands", "cli", "__main__"):
        table[shell] -= {"commands", "cli", "__main__"}

    order = list(graphlib.TopologicalSorter(table).static_order())

    assert set(order) == set(MAY_IMPORT)


def test_arrows__nothing_imports_the_command_line():
    """The composition root imports all and is imported by the entry point alone."""
    importers = {home(p) for p in INNER if "cli" in ours(p)}

    assert importers <= {"__main__", "commands"}


@named(INNER)
def test_arrows__none_is_hidden(path):
    """An import that only a type checker sees is an arrow all the same; the package's own
    ``__init__`` exports lazily."""
    names = {n.id for n in nodes(path) if isinstance(n, ast.Name)}
    attributes = {n.attr for n in nodes(path) if isinstance(n, ast.Attribute)}

    assert "TYPE_CHECKING" not in names | attributes


@named(FILES)
def test_scipy__is_imported_where_it_is_used(path):
    """scipy takes most of a second to import: never at module level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    at_module_level = [
        name
        for node in ast.walk(tree)
        if id(node) not in inside
        for name in imported(node)
        if name.split(".")[0] == "scipy"
    ]

    assert at_module_level == []


@named(FILES)
def test_modules__can_be_read_in_one_sitting(path):
    """600 lines at most."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_package__imports_without_the_heavy_ones():
    """``import iqaction`` loads none of what makes starting slow."""
    code = (
        "import sys, iqaction; print(sorted({'numpy','scipy','requests','yaml'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
