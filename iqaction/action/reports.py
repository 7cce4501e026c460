"""The report of this job, and one for a run without a verdict of its own: refused, mistaken,
cancelled, broken. I/O.

Whatever ended early still leaves a ``report.json`` that says so, because that is what is published
and what the gate reads; where evidence was begun, it is that evidence's report.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from iqaction import __version__, surfaces
from iqaction.action.work import Decision, Ending, Work
from iqaction.circumstances import NONE
from iqaction.errors import EvidenceError, IqError
from iqaction.evidence import manifest, report_json
from iqaction.github.event import Event
from iqaction.report import NO_RUN, Report, Run
from iqaction.verdict import Verdict

VARIABLE = "IQ_REPORT_SHA256"
MAX_REPORT = 256 * 1024 * 1024
_MAX_MANIFEST = 64 * 1024 * 1024


class Works(Protocol):
    """The part of a job that is needed here."""

    @property
    def work(self) -> Work: ...


def stored(folder: Path, sha256: str = "") -> Report:
    """The report of an evidence folder.

    Parameters
    ----------
    sha256
        Of the file as it was written, where that is known from elsewhere: the runner keeps what a
        step has put out, and what the started endpoint left running cannot reach it there.

    Raises
    ------
    EvidenceError
        There is none, it is no report, or not the one that was written.
    """
    path = folder / report_json.NAME
    try:
        with path.open("rb") as file:
            data = file.read(MAX_REPORT + 1)
    except OSError as exc:
        raise EvidenceError(
            "no report was written: a step before this one did not end",
            next_step="its log says why",
        ) from exc
    if len(data) > MAX_REPORT:
        raise EvidenceError(f"{report_json.NAME} is larger than {MAX_REPORT} bytes")
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise EvidenceError(
            f"{report_json.NAME} was altered after it was judged",
            expected="the report that the observing step wrote",
            next_step="find out what on this runner writes into the job's private folder",
        )
    return replace(report_json.from_bytes(data), evidence_root=_root(folder))


def _root(folder: Path) -> str:
    """The sha256 of the sealed folder's manifest, "" where nothing is sealed."""
    try:
        with (folder / manifest.NAME).open("rb") as file:
            return hashlib.sha256(file.read(_MAX_MANIFEST)).hexdigest()
    except OSError:
        return ""


def keep(job: Works, ending: Ending) -> None:
    """Keep how it ended. What ended first is the cause of what follows, so its ending stays."""
    known = None
    with contextlib.suppress(IqError):
        known = job.work.ending()
    job.work.keep(known or ending)


def leave(job: Works, ending: Ending) -> None:
    """Keep how it ended, and leave a report of it where no report is there yet."""
    keep(job, ending)
    with contextlib.suppress(Exception):  # the ending alone makes the job red
        conclude(job.work, ending.reason)


def sha256(folder: Path) -> str:
    """Of the report's bytes, "" where there is none."""
    try:
        return hashlib.sha256((folder / report_json.NAME).read_bytes()).hexdigest()
    except OSError:
        return ""


def is_there(work: Work) -> bool:
    """True where the evidence folder holds a report."""
    return (work.evidence / report_json.NAME).is_file()


def conclude(work: Work, problem: str) -> None:
    """Make sure that the evidence folder holds a report. One that is there stays."""
    if is_there(work):
        return
    decision = None
    with contextlib.suppress(IqError):
        decision = work.decision()
    # Where judging fails, by a fault of ours that ended the step too, it still says NOT RUN.
    with contextlib.suppress(Exception):
        _judge(work.evidence, decision, problem)
    if not is_there(work):
        write(work.evidence, report(decision, problem))


def _judge(folder: Path, decision: Decision | None, problem: str) -> None:
    """What was measured until then is judged, and cannot PASS."""
    from iqaction import session  # noqa: PLC0415 - numpy is only for what was not judged
    from iqaction.evidence.reading import PLAN  # noqa: PLC0415
    from iqaction.evidence.store import Folder  # noqa: PLC0415

    if not (folder / PLAN).is_file():
        return
    with Folder.open_for_writing(folder) as evidence:
        around = evidence.load().circumstances
        if around == NONE and decision is not None:
            around = decision.circumstances
        if not around.problem:
            evidence.keep_circumstances(replace(around, problem=problem or "it was not ended"))
    session.judge(folder)


def report(decision: Decision | None, problem: str, verdict: Verdict = Verdict.NOT_RUN) -> Report:
    """A report without a measurement, which says why."""
    suite = decision.suite if decision else "default"
    return Report(
        verdict,
        (),
        f"nothing was measured: {problem.splitlines()[0] if problem else 'no reason is known'}",
        suite,
        verdict,
        problems=(problem,),
        run=decision.circumstances.run if decision else NO_RUN,
        tool_version=__version__,
        searched=decision.circumstances.searched if decision else (),
    )


def write(folder: Path, made: Report) -> None:
    """The report's files, as an evidence folder has them, without evidence."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, data in surfaces.files(made).items():
        (folder / name).write_bytes(data)
    (folder / report_json.NAME).write_bytes(report_json.to_bytes(made))


def run_of(event: Event, started_at: str = "") -> Run:
    """What an event tells of its run."""
    finished = event.finished
    return Run(
        repository=event.repository,
        event=event.name,
        head_sha=finished.head_sha if finished else event.head_sha,
        tested_sha=event.tested_sha,
        run_id=event.run_id,
        attempt=event.attempt,
        url=event.run_url,
        started_at=started_at,
    )
