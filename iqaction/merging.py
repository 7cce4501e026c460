"""Evidence of several legs put together into one folder, and judged as one. I/O.

Each leg asked its own prompts of one plan. One folder alone is evidence that was found again: it
is judged under the circumstances of the run that found it, and nothing is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iqaction import judgement, session
from iqaction.calls import Arm, EngineInfo, Tag
from iqaction.circumstances import Circumstances
from iqaction.errors import EvidenceError
from iqaction.evidence.reading import BASELINE
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.session import Outcome


def merge(folders: Sequence[Path], out: Path, circumstances: Circumstances) -> Outcome:
    """Judge the evidence of ``folders`` as one, sealed in the new folder ``out``.

    A leg that is missing is missing evidence: its prompts are named, and nothing passes.

    Raises
    ------
    EvidenceError
        They are not of one plan, were observed on different engines, hold one question twice, or
        one of them is damaged.
    """
    if not folders:
        raise EvidenceError("there is no evidence to put together", expected="at least one folder")
    first = _leg(folders[0])
    with Folder.open(folders[0]) as folder:
        prompts = folder.prompts_bytes()
    baseline = None if first.plan.is_capture else folders[0] / BASELINE
    with Folder.create_or_continue(out, first.plan, prompts, baseline, first.data) as folder:
        folder.keep_circumstances(_dated(circumstances, folders))
        held: dict[tuple[str, Tag], Path] = {}
        known = _Known()
        for path in folders:
            leg = first if path == folders[0] else _leg(path)
            _same_plan(path, leg, first)
            _same_engines(path, leg, known)
            _apart(path, leg, held)
            folder.adopt(path)
    return session.judge(out)


def _dated(circumstances: Circumstances, folders: Sequence[Path]) -> Circumstances:
    """The circumstances with when and with which version was asked, as the legs say: whoever puts
    them together has asked nothing. The first day counts."""
    theirs = []
    for path in folders:
        with Folder.open(path) as folder:
            theirs.append(folder.circumstances())
    days = sorted(t.observed_on for t in theirs if t.observed_on)
    versions = {t.harness for t in theirs}
    return replace(
        circumstances,
        observed_on=circumstances.observed_on or (days[0] if days else ""),
        harness=circumstances.harness or (versions.pop() if len(versions) == 1 else ""),
    )


def _leg(path: Path) -> Observed:
    with Folder.open(path) as folder:
        leg = folder.load()
    if leg.problems or not leg.root:
        raise EvidenceError(
            f"{path}: {leg.problems[0] if leg.problems else 'it is not sealed'}",
            expected="evidence as a leg sealed it",
            next_step="run that leg again",
        )
    return leg


def _same_plan(path: Path, leg: Observed, first: Observed) -> None:
    if leg.plan != first.plan:
        raise EvidenceError(
            f"{path} was observed under another plan than the first leg",
            expected="legs of one plan, with the same prompts, baseline and settings",
        )


@dataclass
class _Known:
    """Who answered so far, and under which load."""

    engines: dict[tuple[Arm, int], EngineInfo] = field(default_factory=dict)
    loads: dict[tuple[Arm, int], int] = field(default_factory=dict)


def _same_engines(path: Path, leg: Observed, known: _Known) -> None:
    """Legs may differ in where the engine was, and in nothing else."""
    for key, info in leg.engines.items():
        differing = judgement.identity_change(known.engines.setdefault(key, info), info)
        if differing is not None:
            raise EvidenceError(
                f"{path} was observed on another engine than an earlier leg: {differing.what} was "
                f"{differing.before!r}, here {differing.after!r}",
                expected="legs of one engine, on machines of one kind",
            )
    for key, (value, _) in leg.concurrency.items():
        before = known.loads.setdefault(key, value)
        if before != value:
            raise EvidenceError(
                f"{path} was asked {value} at a time, an earlier leg {before} at a time",
                expected="the same load in every leg: set `concurrency` in the plan",
            )


def _apart(path: Path, leg: Observed, held: dict[tuple[str, Tag], Path]) -> None:
    for stage, tags in leg.seen.items():
        for tag in tags:
            other = held.setdefault((stage, tag), path)
            if other != path:
                raise EvidenceError(
                    f"{tag.unit} ({stage}) was asked both in {other} and in {path}",
                    expected="legs that share no prompt: one artifact for each shard",
                )
