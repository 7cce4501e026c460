"""What is posted, where, and whether it may replace what is there. Pure.

Knows conclusions, the comment's last line and which of two results is newer. A result is newer
when its run started later; the pull request's present commit goes before all others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iqaction.github._reading import digits, instant, number, parsed, sha, text
from iqaction.json_value import JSON
from iqaction.surfaces._base import Annotate, PutCheckRun
from iqaction.surfaces._escape import hidden_json
from iqaction.verdict import Verdict

OUTPUT_BYTES = 65_535  # of a check run's summary, and of its text
ANNOTATIONS = 50  # in one request
MOST_ANNOTATIONS = 500
_MESSAGE = 4_000  # characters of an annotation; GitHub allows 64 KiB
_STATE = re.compile(r"<!-- (\{[^\n]{0,16000}\}) -->\Z")
_EXTERNAL = re.compile(r"([1-9]\d{0,18})\.([1-9]\d{0,5})\Z")
_CUT = "\n\n(Cut here: GitHub takes no more. The whole is in the job's artifact.)"


@dataclass(frozen=True)
class Mark:
    """Which run made a result: what the comment's last line and a check's external id tell.

    ``run_id`` is 0 for what somebody measured at their desk.
    """

    run_id: int
    attempt: int
    head_sha: str = ""
    started_at: str = ""

    @property
    def external_id(self) -> str:
        """As a check run carries it; "" where there was no run."""
        return f"{self.run_id}.{self.attempt}" if self.run_id else ""


@dataclass(frozen=True)
class Target:
    """Where one result goes.

    Attributes
    ----------
    head_sha
        The commit it is posted on; never the merge commit of a pull request.
    numbers
        The pull requests that are told; none where there is none.
    mark
        The run that measured.
    gate
        What the job is held to; nothing but PASS is green.
    warn
        True where the user wants UNPROVEN as a warning.
    check_id
        Of the check run that :func:`iqaction.github.checks.begin` made; 0: it is looked for.
    """

    repository: str
    head_sha: str
    check_name: str
    mark: Mark
    numbers: tuple[int, ...] = ()
    run_url: str = ""
    gate: Verdict = Verdict.UNPROVEN
    warn: bool = False
    check_id: int = 0


@dataclass(frozen=True)
class Posted:
    """Where something was posted; ``notes`` say what did not go as planned."""

    url: str
    notes: tuple[str, ...] = ()


def conclusion(gate: Verdict, *, warn: bool = False) -> str:
    """A check run's conclusion. "neutral" passes a required check, so only who asks gets it."""
    if gate is Verdict.PASS:
        return "success"
    return "neutral" if gate is Verdict.UNPROVEN and warn else "failure"


# --- which is newer -------------------------------------------------------------------------


def is_newer(one: Mark, other: Mark) -> bool:
    """True where ``one`` comes after ``other``; the attempts of one run come in their order."""
    if one.run_id == other.run_id:
        return one.attempt > other.attempt
    if one.started_at and other.started_at and one.started_at != other.started_at:
        return one.started_at > other.started_at
    return one.run_id > other.run_id


def must_stay(theirs: Mark | None, ours: Mark, current: str) -> bool:
    """True where a posted result must not be replaced by ours.

    ``current`` is the commit that the pull request is at, "" where it is not known.
    """
    if theirs is None:
        return False
    if current and (theirs.head_sha == current) != (ours.head_sha == current):
        return theirs.head_sha == current
    return is_newer(theirs, ours)


def read_external_id(external_id: str, head_sha: str, started_at: str) -> Mark | None:
    """The run that a check run is of; None where it is none of ours."""
    found = _EXTERNAL.match(external_id)
    if not found:
        return None
    return Mark(int(found[1]), int(found[2]), sha(head_sha), instant(started_at))


# --- the comment ----------------------------------------------------------------------------


def read_mark(body: str) -> Mark | None:
    """The run that a comment is of, from its last line; None where it does not say."""
    state = _state(body)
    run = _integer(state, "run_id") or _integer(state, "run")
    if not run:
        return None
    return Mark(
        run,
        _integer(state, "attempt") or 1,
        sha(text(state, "head_sha") or text(state, "sha")),
        instant(text(state, "started_at") or text(state, "started")),
    )


def _integer(state: JSON, key: str) -> int:
    return number(state, key) or int(digits(text(state, key)) or 0)


def _last_line(body: str) -> tuple[str, str]:
    whole = body.replace("\r\n", "\n").rstrip()
    start, _, last = whole.rpartition("\n")
    return start, last


def _state(body: str) -> JSON:
    found = _STATE.match(_last_line(body)[1])
    try:
        return parsed(found[1].encode()) if found else None
    except ValueError:
        return None


def has_marker(body: str, marker: str) -> bool:
    """True where a comment's first line is ``marker``."""
    return bool(marker) and body.replace("\r\n", "\n").partition("\n")[0].rstrip() == marker


def stamped(body: str, mark: Mark) -> str:
    """A comment with the run in its last line, which is added where there is none."""
    if not mark.run_id:
        return body
    state = _state(body)
    start = _last_line(body)[0] if isinstance(state, dict) else body.rstrip()
    known = state if isinstance(state, dict) else {}
    run: dict[str, JSON] = {
        "run_id": str(mark.run_id),
        "attempt": mark.attempt,
        "head_sha": mark.head_sha,
        "started_at": mark.started_at,
    }
    return f"{start.rstrip()}\n\n<!-- {hidden_json({**known, **run})} -->\n"


def shortest(marker: str, body: str, target: Target) -> str:
    """A comment with the verdict alone, for when GitHub refuses the whole as too long."""
    lines = body.split("\n")
    heading = next((x for x in lines if x.startswith("#")), f"### {target.gate.value}")[:1000]
    where = f" See {target.run_url}" if target.run_url else ""
    told = f"GitHub refused the whole comment. It is in the job's summary and artifact.{where}\n"
    state = _state(body)
    kept = f"<!-- {hidden_json(state)} -->" if isinstance(state, dict) else ""
    return stamped(f"{marker}\n\n{heading}\n\n{told}\n{kept}", target.mark)


# --- the check run --------------------------------------------------------------------------


def begun(target: Target) -> dict[str, JSON]:
    """The body that creates a check run in progress."""
    return {
        "name": target.check_name,
        "head_sha": target.head_sha,
        "status": "in_progress",
        **_origin(target),
        "output": {
            "title": "Measuring",
            "summary": "The endpoint is being asked. Nothing is decided yet.",
        },
    }


def completed(target: Target, effect: PutCheckRun, notes: Sequence[Annotate]) -> dict[str, JSON]:
    """The body that completes a check run, with at most the first 50 annotations."""
    return {
        "name": target.check_name,
        "status": "completed",
        "conclusion": conclusion(target.gate, warn=target.warn),
        **_origin(target),
        "output": output(effect, notes[:ANNOTATIONS]),
    }


def superseded(target: Target) -> dict[str, JSON]:
    """The body for a check run whose commit already has a newer result: never green, and dated
    back, for GitHub shows the one that was completed last."""
    body: dict[str, JSON] = {
        "status": "completed",
        "conclusion": "cancelled",
        "output": {
            "title": "Superseded by a newer run",
            "summary": "A run that started later has posted its result on this commit.",
        },
    }
    at = target.mark.started_at
    return {**body, "completed_at": at} if at else body


def orphaned() -> dict[str, JSON]:
    """The body for a check run that its own run left behind."""
    return {
        "status": "completed",
        "conclusion": "cancelled",
        "output": {
            "title": "The run ended without a result",
            "summary": "It was cancelled, or its runner was lost. A later run closed this.",
        },
    }


def _origin(target: Target) -> dict[str, JSON]:
    """Which run it is of, since when, and where that is shown."""
    found: dict[str, JSON] = {}
    if target.mark.external_id:
        found["external_id"] = target.mark.external_id
    if target.mark.started_at:
        found["started_at"] = target.mark.started_at
    if target.run_url:
        found["details_url"] = target.run_url
    return found


def output(effect: PutCheckRun, notes: Sequence[Annotate]) -> dict[str, JSON]:
    """The shown part of a check run, within GitHub's limits."""
    found: dict[str, JSON] = {
        "title": effect.title[:250] or "inferquality",
        "summary": _cut(effect.summary) or "(nothing)",
    }
    if effect.text:
        found["text"] = _cut(effect.text)
    if notes:
        found["annotations"] = [_annotation(n) for n in notes]
    return found


def bare_output(effect: PutCheckRun) -> dict[str, JSON]:
    """The shown part where GitHub refused the whole."""
    told = "GitHub refused the whole text. It is in the job's summary and artifact."
    return {"title": effect.title[:250] or "inferquality", "summary": told}


def usable(notes: Sequence[Annotate]) -> list[Annotate]:
    """The annotations that GitHub takes, and no more than anybody reads."""
    fine = [
        n
        for n in notes
        if n.path
        and not n.path.startswith("/")
        and n.line > 0
        and n.level in ("notice", "warning", "failure")
        and n.message
    ]
    return fine[:MOST_ANNOTATIONS]


def _annotation(note: Annotate) -> JSON:
    return {
        "path": note.path,
        "start_line": note.line,
        "end_line": note.line,
        "annotation_level": note.level,
        "message": note.message[:_MESSAGE],
    }


def _cut(markdown: str) -> str:
    data = markdown.encode("utf-8", "replace")
    if len(data) <= OUTPUT_BYTES:
        return data.decode()
    return data[: OUTPUT_BYTES - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT
