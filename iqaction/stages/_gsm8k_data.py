"""The problems of `gsm8k`: a file's bytes in, problems with their right answers out. Pure.

One JSON object a line, as the public test split has them::

    {"question": "Weng earns $12 an hour. ...", "answer": "12 / 60 = .2 ...\\n#### 10"}

A Parquet file of the same two columns becomes such lines; a JSONL file keeps its bytes, so that
the sha256 that is compared is that of the file as published.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from iqaction.errors import ConfigError
from iqaction.graders import numbers

_SHAPE = '{"question": "...", "answer": "... #### 18"}'
_MOST_ROWS = 100_000
_MOST_BYTES = 64 * 1024 * 1024  # of a Parquet file, unpacked
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class Problem:
    """A question and its right answer. ``unit`` is "gsm8k-0489": the file's row, from 0."""

    unit: str
    question: str
    gold: Fraction


def convert(data: bytes, name: str) -> bytes:
    """The file in the form that is kept; checked whole.

    Raises
    ------
    ConfigError
        Naming file and line: no such rows, or a Parquet file that cannot be read here.
    """
    kept = _from_parquet(data, name) if data[:4] == _PARQUET else data
    parse(kept, name)
    return kept


def parse(data: bytes, name: str) -> tuple[Problem, ...]:
    """The problems in the file's order.

    Raises
    ------
    ConfigError
        Naming file and line.
    """
    try:
        return _problems(data)
    except ConfigError as exc:
        raise ConfigError(f"{name}{exc.happened}", expected=exc.expected) from exc


@lru_cache(maxsize=2)  # by the bytes alone: a file has one name before it is kept, another after
def _problems(data: bytes) -> tuple[Problem, ...]:
    """See :func:`parse`. What went wrong lacks the file's name, and begins with ``:line:``."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        at = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError(f":{at}: not UTF-8 ({exc.reason})", expected="UTF-8") from exc
    found: list[Problem] = []
    asked: dict[str, int] = {}
    for number, line in _lines(text):
        place = f":{number}"
        question, answer = _row(line, place)
        gold = numbers.gold(answer)
        if gold is None:
            raise ConfigError(
                f"{place}: the answer does not end in one number after ####", expected=_SHAPE
            )
        twin = asked.setdefault(question.strip(), number)
        if twin != number:
            raise ConfigError(
                f"{place}: asks the same as line {twin}",
                expected="problems that differ: each counts as one independent question",
            )
        found.append(Problem(f"gsm8k-{len(found):04d}", question, gold))
        if len(found) > _MOST_ROWS:
            raise ConfigError(f": more than {_MOST_ROWS} rows", expected="a smaller file")
    if not found:
        raise ConfigError(": no rows in it", expected=_SHAPE + " a line")
    return tuple(found)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(io.StringIO(text, newline="\n"), start=1):
        if line.strip():
            yield number, line


def _row(line: str, place: str) -> tuple[str, str]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as exc:  # ValueError: also numbers of 4,300 digits
        raise ConfigError(f"{place}: not JSON ({exc})", expected=_SHAPE) from exc
    match row:
        case {"question": str(question), "answer": str(answer)} if question.strip():
            pass
        case _:
            raise ConfigError(f"{place}: no question with an answer", expected=_SHAPE)
    try:
        question.encode()
    except UnicodeEncodeError as exc:
        raise ConfigError(
            f"{place}: the question holds a lone surrogate", expected="whole characters"
        ) from exc
    return question, answer


def _from_parquet(data: bytes, name: str) -> bytes:
    try:
        import pyarrow  # noqa: PLC0415 - optional, and slow to import
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as exc:
        raise ConfigError(
            f"{name}: a Parquet file, and the package pyarrow is not installed",
            expected=f"a JSONL file ({_SHAPE} a line), or `pip install pyarrow`",
        ) from exc
    try:
        file = parquet.ParquetFile(pyarrow.BufferReader(data))
        rows, size = (
            file.metadata.num_rows,
            sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)),
        )
        if rows > _MOST_ROWS or size > _MOST_BYTES:
            raise ConfigError(f"{name}: {rows} rows of {size} bytes", expected="a smaller file")
        table = file.read(columns=["question", "answer"]).to_pylist()
    except (pyarrow.ArrowException, OSError, KeyError) as exc:
        raise ConfigError(
            f"{name}: not a Parquet file with the columns question and answer "
            f"({type(exc).__name__})",
            expected=_SHAPE + " a row",
        ) from exc
    return "".join(
        json.dumps({"question": r.get("question"), "answer": r.get("answer")}, ensure_ascii=False)
        + "\n"
        for r in table
    ).encode("utf-8", "surrogatepass")
