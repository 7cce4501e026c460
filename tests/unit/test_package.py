"""The package itself: importing it costs nothing, and its stub says what it holds."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import iqaction
from iqaction.report import Report

STUB = ast.parse(Path(iqaction.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))


def test_import__costs_nothing() -> None:
    """Importing the package loads nothing but itself: each command pays for what it needs."""
    code = "import sys; before = set(sys.modules); import iqaction; print(*set(sys.modules)-before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["iqaction"]


def test_library__loads_lazily() -> None:
    """The third public name is the report's own class; any other is an AttributeError."""
    assert iqaction.Report is Report
    with pytest.raises(AttributeError, match="no attribute 'Reports'"):
        iqaction.Reports  # type: ignore[attr-defined]  # noqa: B018 - the access is the test


def test_stub__names() -> None:
    """The stub declares every public name."""
    declared = {n.name for n in STUB.body if isinstance(n, ast.FunctionDef)}
    declared |= {
        a.asname or a.name for n in STUB.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    declared |= {
        n.target.id
        for n in STUB.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }

    assert set(iqaction.__all__) <= declared


@pytest.mark.parametrize(
    "function", [n for n in STUB.body if isinstance(n, ast.FunctionDef)], ids=lambda n: n.name
)
def test_stub__parameters(function: ast.FunctionDef) -> None:
    """The stub's functions take what the real ones take, in the same order and kind."""
    real = inspect.signature(getattr(iqaction, function.name)).parameters.values()

    assert [p.name for p in real if p.kind is p.POSITIONAL_OR_KEYWORD] == [
        a.arg for a in function.args.args
    ]
    assert [p.name for p in real if p.kind is p.KEYWORD_ONLY] == [
        a.arg for a in function.args.kwonlyargs
    ]
