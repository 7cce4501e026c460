"""The problems' files: what is taken, what is refused with its line, and Parquet."""

from __future__ import annotations

import io
import json
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from iqaction.errors import ConfigError
from iqaction.stages import _gsm8k_data
from iqaction.stages._gsm8k_data import convert, parse

ROW = b'{"question": "2 + 2?", "answer": "It is\\n#### 4"}\n'
OTHER = b'{"question": "3 + 3?", "answer": "#### 6"}\n'
PROBLEMS = Path(__file__).parents[2] / "data" / "gsm8k_problems.jsonl"


def refused(data: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        convert(data, "x.jsonl")
    return str(caught.value)


def test_parse() -> None:
    """A row is a problem with its right answer, named by its row."""
    first, second = parse(ROW + OTHER, "x.jsonl")

    assert (first.unit, first.question, first.gold) == ("gsm8k-0000", "2 + 2?", 4)
    assert (second.unit, second.gold) == ("gsm8k-0001", 6)


def test_parse__once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read once, though it has a path when it comes in and none when it is judged."""
    rows: list[str] = []
    kept, real = ROW.replace(b"2 + 2", b"20 + 20").replace(b"4", b"40"), _gsm8k_data._row
    monkeypatch.setattr(_gsm8k_data, "_row", lambda line, at: rows.append(at) or real(line, at))

    convert(kept, "problems.jsonl")
    parse(kept, "the gsm8k data")

    assert rows == [":1"]


def test_parse__the_tests_own_problems() -> None:
    """The problems that the tests ask a real model are of that shape."""
    found = parse(PROBLEMS.read_bytes(), "x")

    assert len(found) == 64
    assert {p.gold for p in found} >= {Fraction(1215), Fraction(-12)}


@pytest.mark.parametrize(
    "data",
    [ROW, b"\xef\xbb\xbf" + ROW, b"\n" + ROW + b"\n\n", ROW[:-1], ROW.replace(b"\n", b"\r\n")],
)
def test_convert__keeps_bytes(data: bytes) -> None:
    """A JSONL file keeps its bytes, so that its sha256 is that of the file as published."""
    assert convert(data, "x.jsonl") == data
    assert len(parse(data, "x.jsonl")) == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "x.jsonl: no rows in it"),
        (b"\n \n", "x.jsonl: no rows in it"),
        (ROW + b"{", "x.jsonl:2: not JSON"),
        (ROW + b"[" * 100_000, "x.jsonl:2: not JSON"),
        (ROW + b"[]", "x.jsonl:2: no question with an answer"),
        (ROW + b'{"question": "x"}', "x.jsonl:2: no question with an answer"),
        (ROW + b'{"question": 1, "answer": "#### 1"}', "x.jsonl:2: no question with an answer"),
        (ROW + b'{"question": " ", "answer": "#### 1"}', "x.jsonl:2: no question"),
        (ROW + b'{"question": "x", "answer": "4"}', "x.jsonl:2: the answer does not end in one"),
        (ROW + b'{"question": "x", "answer": "#### a"}', "x.jsonl:2: the answer does not end"),
        (ROW + ROW, "x.jsonl:2: asks the same as line 1"),
        (
            b'{"question": "x", "answer": "#### 1"}\n{"question": " x\\n", "answer": "#### 1"}',
            "x.jsonl:2: asks the same as line 1",
        ),
        (ROW + b"\xff", "x.jsonl:2: not UTF-8"),
        (ROW + b'{"question": "\\ud800", "answer": "#### 1"}', "x.jsonl:2: the question holds"),
        (ROW + b'{"question": ' + b"9" * 5000 + b"}", "x.jsonl:2: not JSON"),
    ],
    ids=lambda x: repr(x)[:30] if isinstance(x, bytes) else "",
)
def test_convert__refused(data: bytes, said: str) -> None:
    """A bad row is told with file and line, and what a good one looks like."""
    assert said in refused(data)


def test_parse__too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beyond the limit of rows is refused."""
    monkeypatch.setattr(_gsm8k_data, "_MOST_ROWS", 1)

    assert "more than 1 rows" in refused(ROW + OTHER + b" ")


# Parquet. The package that reads it is optional: where it is missing a double stands in for it.


def test_convert__parquet_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package that reads Parquet the error names it, and JSONL as the way on."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    said = refused(b"PAR1....PAR1")
    assert "pyarrow is not installed" in said
    assert "JSONL" in said


class Broken(Exception):
    pass


def double(rows: list[dict[str, object]] | Exception, n: int = 2, size: int = 99) -> ModuleType:
    """What is used of pyarrow."""

    class File:
        def __init__(self, stream: object) -> None:
            self.metadata = SimpleNamespace(
                num_rows=n, row_group=lambda i: SimpleNamespace(total_byte_size=size)
            )
            self.num_row_groups = 1

        def read(self, columns: list[str]) -> SimpleNamespace:
            assert columns == ["question", "answer"]
            if isinstance(rows, Exception):
                raise rows
            return SimpleNamespace(to_pylist=lambda: rows)

    package = ModuleType("pyarrow")
    package.parquet = SimpleNamespace(ParquetFile=File)  # type: ignore[attr-defined]
    package.BufferReader = io.BytesIO  # type: ignore[attr-defined]
    package.ArrowException = Broken  # type: ignore[attr-defined]
    return package


def test_convert__parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Parquet file of the two columns becomes lines of them, in its order."""
    rows = [json.loads(ROW), {"question": "\u00e9?", "answer": "#### 6"}]
    monkeypatch.setitem(sys.modules, "pyarrow", double(rows))

    kept = convert(b"PAR1....PAR1", "x.parquet")

    assert [json.loads(line) for line in kept.decode().splitlines()] == rows
    assert [p.gold for p in parse(kept, "x")] == [4, 6]


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (double(Broken()), "not a Parquet file with the columns"),
        (double(OSError()), "not a Parquet file with the columns"),
        (double([], n=10**9), "1000000000 rows"),
        (double([], size=10**12), "1000000000000 bytes"),
        (double([{"question": None, "answer": "#### 1"}]), "x.jsonl:1: no question"),
        (double([]), "no rows"),
    ],
)
def test_convert__bad_parquet(
    package: ModuleType, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken file, too large a one and rows of another shape are refused in words."""
    monkeypatch.setitem(sys.modules, "pyarrow", package)

    assert said in refused(b"PAR1....PAR1")


def test_convert__real_parquet(tmp_path: Path) -> None:
    """The package itself, where it is installed."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [json.loads(ROW), json.loads(OTHER)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")

    kept = convert((tmp_path / "x.parquet").read_bytes(), "x.parquet")

    assert [json.loads(line) for line in kept.decode().splitlines()] == rows
    assert "columns question and answer" in refused(b"PAR1" + b"x" * 50)
