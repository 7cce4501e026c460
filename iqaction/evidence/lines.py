"""One stored line: what it is about and where it lies, its numbers unread. Knows no folder.

Sealing moves lines as they are, byte by byte: what an engine answered is written once.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, cast

from iqaction.calls import Tag
from iqaction.errors import EvidenceError
from iqaction.evidence import canon, envelope, journal, schema
from iqaction.json_value import JSON

FOLDER = "observations"
ENGINES = "engines"  # who answered, and how many requests were in flight; no stage's name
MAX_UNPACKED = 4 * 1024**3  # bytes of one observation file, unpacked

Key = tuple[str, ...] | Tag
"""What a line is about: a tag within its stage, or the engine or concurrency of an arm."""


def stored_as(stage: str) -> str:
    """Name of the file that holds a stage's observations."""
    return f"{FOLDER}/{stage}.jsonl.gz"


@dataclass(frozen=True)
class Item:
    """A line that passed the schema: which file it belongs in, what about, and what it says."""

    stage: str
    key: Key
    body: Mapping[str, JSON]


@dataclass(frozen=True)
class Where:
    """A line as it lies in a file of the folder, and the little that its record tells.

    Attributes
    ----------
    number, offset, length
        From 1; bytes from the start of the (unpacked) file; bytes with the newline.
    sha256
        Of the line's bytes, 32 bytes.
    failed
        Kind of failure, "" for an answer.
    rows, unusable
        Positions with log-probabilities, and how many of them are no numbers.
    """

    name: str
    number: int
    offset: int
    length: int
    sha256: bytes
    observed_at: str = ""
    failed: str = ""
    rows: int = 0
    unusable: int = 0


def item(line: bytes, place: str) -> Item:
    """What one line says, its numbers unread.

    Raises
    ------
    EvidenceError
        Not JSON, or not as the schema ``observation`` says.
    """
    body = canon.load_object(line, place)
    schema.validate("observation", body, place)
    match body:
        case {"kind": "observation", "stage": str(stage), "tag": dict(tag)} if stage != ENGINES:
            return Item(stage, envelope.tag_from_json(tag), body)
        case {"kind": "engine", "arm": str(arm), "launch": int(launch), "info": dict(info)}:
            return Item(ENGINES, (arm, f"{launch:09}", "engine", str(canon.dump(info))), body)
        case {"kind": "concurrency", "arm": str(arm), "launch": int(launch)}:
            return Item(ENGINES, (arm, f"{launch:09}", "concurrency"), body)
    raise EvidenceError(f"{place}: not a line of evidence", expected="as the tool wrote it")


def locate(line: journal.Line, name: str, sha256: bytes, read: Item | None = None) -> Where:
    """Where a line lies; ``read`` None for a line that says nothing that can be used."""
    failed, rows, unusable = "", 0, 0
    if read is not None:
        match read.body.get("answer"):
            case {"kind": "failure", "failure": str(kind)}:
                failed = kind
            case {"rows": {"n": int(n), "faults": dict(faults)}}:
                rows = n
                unusable = sum(x for x in faults.values() if isinstance(x, int))
    at = "" if read is None else str(read.body["observed_at"])
    return Where(name, line.number, line.offset, len(line.data), sha256, at, failed, rows, unusable)


def unpacked(file: BinaryIO, place: str) -> Iterator[journal.Line]:
    """The lines of a gzipped file; a broken one raises :class:`EvidenceError` where it breaks."""
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as stream:
            yield from journal.lines(cast(BinaryIO, stream), place, MAX_UNPACKED)
    except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
        raise EvidenceError(f"{place}: broken gzip file ({canon.shown(str(exc))})") from exc
