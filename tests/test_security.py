"""What the code never does, read from the code itself; and patterns that stay fast on any text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pump import Found, collected, slowest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "iqaction").rglob("*.py"))

# Names that run text as code, make objects of it, start a shell, or unpack where a name says.
FORBIDDEN = {
    *(
        "eval",
        "exec",
        "compile",
        "__import__",
        "os.system",
        "os.popen",
        "os.spawnl",
        "os.startfile",
    ),
    *("subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell"),
    *("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "np.load", "np.save"),
    *("numpy.load", "tempfile.mktemp", "shutil.unpack_archive", "ssl._create_unverified_context"),
}
MODULES = {"pickle", "marshal", "shelve", "dill", "joblib", "xml", "code", "codeop", "pty", "imp"}
# Keywords and the only value that each may have.
KEYWORDS = {"shell": "False", "verify": "True", "allow_pickle": "False"}


def calls(path: Path) -> Iterator[ast.Call]:
    return (n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call))


def offences(path: Path) -> Iterator[str]:
    for call in calls(path):
        name = ast.unparse(call.func)
        if name in FORBIDDEN:
            yield f"{call.lineno}: {name}"
        for keyword in call.keywords:
            if KEYWORDS.get(keyword.arg or "", said := ast.unparse(keyword.value)) != said:
                yield f"{call.lineno}: {keyword.arg}={said}"
        filters = [ast.unparse(k.value) for k in call.keywords if k.arg == "filter"]
        if name.rpartition(".")[2] in ("extract", "extractall") and filters != ["'data'"]:
            yield f"{call.lineno}: {name} without filter='data'"
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [n.name for n in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield from (f"{node.lineno}: {n}" for n in names if n.partition(".")[0] in MODULES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code__runs_no_text(path: Path) -> None:
    """No module evaluates text, unpickles, starts a shell by itself, or unpacks unchecked names."""
    assert list(offences(path)) == []


@pytest.mark.parametrize(
    "line",
    ["eval(x)", "yaml.load(x)", "subprocess.run(x, shell=True)", "get(u, verify=False)",
     "archive.extractall(p)", "archive.extractall(p, filter='fully_trusted')", "import pickle",
     "from xml.etree import ElementTree", "np.load(x, allow_pickle=True)", "os.system(x)"],
)  # fmt: skip
def test_code__what_is_found(line: str, tmp_path: Path) -> None:
    """The test above sees what it is there to see."""
    (tmp_path / "x.py").write_text(line + "\n")

    assert list(offences(tmp_path / "x.py")) != []


def test_yaml__makes_no_object() -> None:
    """The one loader of YAML composes nodes: it knows no tag that would make an object."""
    from iqaction.document import _Loader  # noqa: PLC0415 - private, and the point of it

    used = [
        ast.unparse(c.func) for p in SOURCES for c in calls(p) if "yaml." in ast.unparse(c.func)
    ]

    assert issubclass(_Loader, yaml.BaseLoader)
    assert {u for u in used if u.startswith("yaml.")} == {"yaml.MarkedYAMLError", "yaml.compose"}


# patterns

PATTERNS = collected()


def test_patterns__are_found() -> None:
    """Patterns of modules, of calls and of schemas, in numbers."""
    places = {f.place for f in PATTERNS}

    assert len(PATTERNS) > 120
    assert {"iqaction.graders.numbers", "report.schema.json"} <= places
    assert any(re.match(r"http\.py:\d+", p) for p in places)


def test_patterns__a_slow_one_is_found() -> None:
    """Time that grows with the square of a text, or faster, is seen."""
    both = frozenset({"match", "search"})
    for slow in (r"(a+)+$", r"\s*\s*\s*x", r"(a|a)*b", r"(?:so\s+)?\s*(?:is)?\s*:?\s*(?=!)"):
        assert slowest(Found("x", re.compile(slow), both)), slow
    assert slowest(Found("x", re.compile(r"\s+$"), frozenset({"search"})))
    assert slowest(Found("x", re.compile(r"[a-z]+\d*[.:]"), frozenset({"match"}))) == ""


def test_patterns__are_linear() -> None:
    """No pattern takes more than its share of time for a text made against it."""
    assert {f.place: s for f in PATTERNS if (s := slowest(f))} == {}


@pytest.mark.full
def test_patterns__are_linear_in_long_texts() -> None:
    """The same for texts of up to 19,200 characters and more ways to end."""
    assert {f.place: s for f in PATTERNS if (s := slowest(f, thorough=True))} == {}
