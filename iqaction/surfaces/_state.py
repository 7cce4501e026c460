"""The two lines of a comment that are for machines: which comment it is, and what it last said.

Both are HTML comments. The first line finds the comment again; the last one tells a later run
whether what stands there is newer than its own result. Knows no report and no GitHub.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from iqaction.json_value import JSON
from iqaction.report import Run
from iqaction.surfaces._escape import hex_or_nothing, hidden_json

NOT_NEEDED = "NOT NEEDED"
_VERDICTS = ("PASS", "FAIL", "UNPROVEN", "NOT RUN", NOT_NEEDED)
_LONGEST = 16_384  # characters of the last line: ours are below 6,000
_LINE = re.compile(r"<!-- (\{[ -~]*\}) -->\Z")
_RUN_ID = re.compile(r"[1-9][0-9]{0,19}\Z")
_SHA = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_TIME = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z\Z")
_MOST_ATTEMPTS = 1_000_000


@dataclass(frozen=True)
class State:
    """What a comment says of the run that wrote it. All fields are known and well formed.

    ``verdict`` is one of the four words, or "NOT NEEDED".
    """

    run_id: str
    attempt: int
    head_sha: str
    started_at: str
    verdict: str


def marker(repository: str, suite: str) -> str:
    """The comment's first line: one for each suite of each repository."""
    key = f"{repository}\n{suite}".encode("utf-8", "surrogatepass")
    return f"<!-- inferquality:v1 key={hashlib.sha256(key).hexdigest()[:16]} -->"


def state_line(run: Run, verdict: str, more: Mapping[str, JSON]) -> str:
    """The comment's last line: the run and its verdict, and whatever else is to be kept."""
    body: dict[str, JSON] = {
        **more,
        "verdict": verdict,
        "run_id": run.run_id if _RUN_ID.match(run.run_id) else "",
        "attempt": run.attempt,
        "started_at": run.started_at if _TIME.match(run.started_at) else "",
        "head_sha": hex_or_nothing(run.head_sha),
        "tested_sha": hex_or_nothing(run.tested_sha),
    }
    return f"<!-- {hidden_json(body)} -->"


def read_state(body: str) -> State | None:
    """What the last line of a comment's text says; None where it is not wholly as we write it.

    Anybody who may edit comments may have written it: nothing in it is to be trusted further
    than to decide which of two results is the newer one.
    """
    last = body.rstrip()[-_LONGEST:].rpartition("\n")[2]
    found = _LINE.match(last)
    if found is None:
        return None
    try:
        values: JSON = json.loads(found[1])
    except (ValueError, RecursionError):
        return None
    return _state(values) if isinstance(values, dict) else None


def _state(values: Mapping[str, JSON]) -> State | None:
    match values:
        case {
            "run_id": str(run_id),
            "attempt": int(attempt),
            "head_sha": str(head_sha),
            "started_at": str(started_at),
            "verdict": str(verdict),
        } if type(attempt) is int:
            whole = (
                _RUN_ID.match(run_id)
                and 1 <= attempt <= _MOST_ATTEMPTS
                and _SHA.match(head_sha)
                and _TIME.match(started_at)
                and verdict in _VERDICTS
            )
            return State(run_id, attempt, head_sha, started_at, verdict) if whole else None
    return None
