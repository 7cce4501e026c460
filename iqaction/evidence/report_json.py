"""The report as JSON and back, exactly. Pure; knows :mod:`iqaction.report` by its types alone.

Both directions follow the dataclasses' own annotations, so that a field added there is stored
and read without a line here; ``schemas/report.schema.json`` holds the result. A number that is
none becomes ``null``; the evidence root is left out, because it covers the stored file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from iqaction.evidence import canon, dataclass_json, schema
from iqaction.json_value import JSON
from iqaction.report import Report

NAME = "report.json"
SCHEMA = "https://inferquality.dev/schemas/report/v1"
_UNSTORED = "evidence_root"
_LAST_BITS = 1e-9  # of a number: what another machine's exp, log or matrix product may differ by
_ZERO = 1e-12  # a difference that cancels to nothing has no other size to be measured by


def to_json(report: Report) -> dict[str, JSON]:
    """The report as JSON values, ``verdict`` at the top.

    Raises
    ------
    EvidenceError
        Where a number that must be one is NaN or infinite (an optional one becomes null).
    """
    body = dataclass_json.to_json(report)
    del body[_UNSTORED]
    body["$schema"] = SCHEMA
    schema.validate("report", body, NAME)
    return body


def to_bytes(report: Report) -> bytes:
    """Canonical bytes: what ``report.json`` holds."""
    return canon.dump(to_json(report))


def from_json(body: Mapping[str, JSON]) -> Report:
    """The report of JSON values; unknown fields are ignored, ``evidence_root`` is empty.

    Raises
    ------
    EvidenceError
        Where the schema does not hold.
    """
    schema.validate("report", body, NAME)
    report = dataclass_json.from_json(body, Report)
    return dataclasses.replace(report, evidence_root="")


def from_bytes(data: bytes) -> Report:
    """The report of a ``report.json``'s bytes; raises as :func:`from_json`."""
    return from_json(canon.load_object(data, NAME))


def differing(a: Report, b: Report) -> tuple[str, ...]:
    """Names of the fields in which two reports differ, the last bits of numbers aside.

    Judging sums, exponentiates and multiplies matrices, and that is exact to a few bits only
    from one processor or NumPy to the next. Verdicts, texts, names and counts must be equal.
    """
    ours, theirs = to_json(a), to_json(b)
    return tuple(name for name in ours if not _alike(ours[name], theirs[name]))


def _alike(a: JSON, b: JSON) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=_LAST_BITS, abs_tol=_ZERO)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b
