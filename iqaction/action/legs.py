"""What other jobs measured, from the artifacts that they uploaded. I/O: reads folders.

Legs of a matrix are shards of one suite, whose evidence is put together and judged as one, or
suites of their own, whose reports are shown as one. A leg that is expected and not there is
never green. What a fork measured is read as a report and rendered by our own code; nothing of its
text is posted as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iqaction import __version__, judgement, merging
from iqaction.action import copying, reports
from iqaction.action.job import Job
from iqaction.action.settings import Settings
from iqaction.action.work import BASELINE, Decision
from iqaction.circumstances import NONE, Circumstances
from iqaction.errors import ConfigError, EvidenceError, IqError
from iqaction.evidence.reading import PLAN
from iqaction.evidence.report_json import NAME as REPORT
from iqaction.evidence.store import Folder
from iqaction.report import Change, Difference, Report, Run
from iqaction.session import Outcome
from iqaction.verdict import Verdict, cap, combine

_MAX_FOLDERS = 2_000
_NAME = re.compile(r"(?P<leg>.+?)-(?P<attempt>[0-9]{1,6})\Z")
_SHARD = re.compile(r"-[0-9]+-of-[0-9]+\Z")
_SUITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_FOREIGN = (
    "this was measured and reported by a workflow that the pull request itself could change: read "
    "it as its author's word"
)


@dataclass(frozen=True)
class Leg:
    """One artifact: its name without the attempt, and where it lies."""

    name: str
    attempt: int
    path: Path

    @property
    def suite(self) -> str:
        """The suite it belongs to, as far as its name tells."""
        return _SHARD.sub("", self.name).removeprefix("inferquality-")


def judged(job: Job, settings: Settings, decision: Decision) -> Outcome:
    """One judgement of all legs, in the job's evidence folder.

    Raises
    ------
    ConfigError
        There is no folder of artifacts.
    EvidenceError
        Legs of one suite that do not belong together.
    """
    found = newest(Path(settings.artifacts_path))
    if not settings.legs:  # what lies there of other suites is another job's
        found = [leg for leg in found if leg.suite == (settings.suite or decision.suite)]
    around = decision.circumstances
    missing = _missing(found, settings.legs)
    by_suite: dict[str, list[Leg]] = {}
    for leg in found:
        by_suite.setdefault(leg.suite, []).append(leg)
    folder = job.work.evidence
    if len(by_suite) == 1 and not missing and all(_is_shard(x) for x in found):
        for leg in found:
            _of_this_run(leg, around.run)
        return _merged(found, folder, around)
    made: dict[str, Report] = {}
    complete = not missing
    for suite, legs in sorted(by_suite.items()):
        name = suite if _SUITE.match(suite) else f"leg {len(made) + 1}"
        made[name] = _report_of(legs, folder / "legs" / name, around)
        complete &= made[name].verdict is not Verdict.NOT_RUN
    report = combined(made, missing, around.run, decision.suite)
    reports.write(folder, report)
    why = "; ".join(p.splitlines()[0] for p in report.problems if p) or report.headline
    return Outcome(report, folder, "", complete, "" if complete else why)


def newest(folder: Path) -> list[Leg]:
    """The artifacts in a folder, of each leg the newest attempt; reports of reports and captured
    baselines left out.

    Raises
    ------
    ConfigError
        There is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"artifacts_path: {folder} is no folder",
            expected="the folder that actions/download-artifact has filled",
            next_step="download with `pattern: inferquality-*` and no `merge-multiple`",
        )
    if (folder / REPORT).is_file():  # a single artifact is unpacked without a folder of its own
        return [Leg(_suite_of(folder), 1, folder)]
    legs: dict[str, Leg] = {}
    for path, _ in zip(sorted(folder.iterdir()), range(_MAX_FOLDERS), strict=False):
        matched = _NAME.match(path.name)
        if path.is_symlink() or not path.is_dir() or not (path / REPORT).is_file():
            continue
        name = matched["leg"] if matched else path.name
        attempt = int(matched["attempt"]) if matched else 0
        if name.endswith("-report") or name.startswith(BASELINE):
            continue
        if name in legs and legs[name].attempt >= attempt:
            continue
        legs[name] = Leg(name, attempt, path)
    return list(legs.values())


def _suite_of(folder: Path) -> str:
    try:
        return f"inferquality-{reports.stored(folder).suite}"
    except IqError:
        return "inferquality-default"


def _missing(found: Iterable[Leg], expected: Sequence[str]) -> list[str]:
    """What is lacking of the legs, one sentence each. Shards say how many they are; of other
    legs one that left nothing would not be missed, unless somebody says which there should be."""
    names = {leg.name for leg in found}
    known = names | {n.removeprefix("inferquality-") for n in names}
    lacking = [f"the leg {x} is missing" for x in expected if x not in known]
    if not expected and not all(_is_shard(leg) for leg in found):
        lacking.append("the input `legs` does not say which legs are expected")
    return lacking


def _circumstances(path: Path) -> Circumstances:
    if not (path / PLAN).is_file():
        return NONE
    with Folder.open(path) as folder:
        return folder.circumstances()


def _is_shard(leg: Leg) -> bool:
    try:
        return _circumstances(leg.path).shards > 0
    except IqError:
        return False


def _merged(legs: Sequence[Leg], out: Path, around: Circumstances) -> Outcome:
    """Shards as one, with those named that are missing."""
    theirs = [_circumstances(leg.path) for leg in legs]
    counts = {t.shards for t in theirs}
    if len(counts) != 1:
        raise EvidenceError(
            f"the shards are of {', '.join(map(str, sorted(counts)))} parts",
            expected="the same number of shards in every leg",
        )
    lacking = sorted({*range(1, counts.pop() + 1)} - {t.shard for t in theirs})
    problems = [t.problem for t in theirs if t.problem]
    if lacking:
        problems.append(f"shard {', '.join(map(str, lacking))} of {theirs[0].shards} is missing")
    joined = replace(
        around,
        machine=theirs[0].machine,
        differences=_differences((around, *theirs)),
        changed_lines=around.changed_lines or theirs[0].changed_lines,
        searched=around.searched or theirs[0].searched,
        problem="; ".join(dict.fromkeys(problems)),
    )
    outcome = merging.merge([leg.path for leg in legs], out, joined)
    return replace(outcome, complete=not joined.problem, problem=joined.problem)


def _differences(every: Iterable[Circumstances]) -> tuple[Difference, ...]:
    """Of all legs, each once: what one leg could not compare caps them all."""
    return tuple(dict.fromkeys(d for one in every for d in one.differences))


def _report_of(legs: Sequence[Leg], place: Path, around: Circumstances) -> Report:
    """The report of one suite, judged here from its evidence; never taken from a leg's word where
    there is evidence to judge."""
    try:
        for leg in legs:
            _of_this_run(leg, around.run)
        refused = [_refusal(leg) for leg in legs if not (leg.path / PLAN).is_file()]
        if refused:
            return _not_run(*refused)
        if all(_is_shard(leg) for leg in legs):
            return _merged(legs, place, around).report
        if len(legs) > 1:
            return _not_run(f"{len(legs)} artifacts of one suite that are no shards of it")
        return _judged_whole(legs[0].path, place, around)
    except IqError as exc:
        return _not_run(exc.happened)
    except (OSError, ValueError) as exc:
        return _not_run(f"its artifact cannot be read: {exc}")


def _judged_whole(theirs: Path, place: Path, around: Circumstances) -> Report:
    """A suite that one job measured whole. What was agreed to is read from where the pull request
    starts, as this job has read it; the leg's word for it counts for nothing."""
    copying.copy(theirs, place)
    with Folder.open(place) as folder:
        observed = folder.load()
    known = observed.circumstances
    known = replace(
        known, acceptances=around.acceptances, differences=_differences((around, known))
    )
    report = judgement.judge(replace(observed, circumstances=known), __version__)
    return replace(report, evidence_root=observed.root)


def _not_run(*problems: str) -> Report:
    return Report(Verdict.NOT_RUN, (), problems[0], gate=Verdict.NOT_RUN, problems=problems)


def _refusal(leg: Leg) -> str:
    """Why a leg has no evidence: it was refused, or its endpoint was never asked."""
    report = reports.stored(leg.path)
    return report.problems[0] if report.problems else report.headline


def _of_this_run(leg: Leg, run: Run) -> None:
    """Refuse what an earlier job left in the folder of artifacts: another commit's evidence would
    stand in for a leg that is missing.

    Raises
    ------
    EvidenceError
        It is of another commit, or does not say of which.
    """
    if (leg.path / PLAN).is_file():
        theirs = _circumstances(leg.path).run
    else:
        theirs = reports.stored(leg.path).run
    # A workflow that another one's end has started is tested at another commit than that one.
    same = theirs.head_sha == run.head_sha
    if run.event != "workflow_run":
        same = same and theirs.tested_sha == run.tested_sha
    if not same or theirs.repository != run.repository:
        raise EvidenceError(
            f"{leg.name}: its evidence is of the commit {theirs.head_sha[:12] or '(none)'}, and "
            f"this run is of {run.head_sha[:12] or '(none)'}",
            expected="the artifacts of this run, in a folder that held nothing before",
        )


def combined(made: Mapping[str, Report], missing: Sequence[str], run: Run, suite: str) -> Report:
    """Several suites' reports as one. Where a leg is missing it is never green; ``missing`` says
    so in a sentence each."""
    verdict = combine(r.verdict for r in made.values())
    gate = combine(r.gate for r in made.values())
    problems = list(missing)
    problems += [f"{name}: {p}" for name, r in made.items() for p in r.problems]
    if missing:
        verdict, gate = cap(verdict, Verdict.UNPROVEN), cap(gate, Verdict.UNPROVEN)
    return Report(
        verdict if made else Verdict.NOT_RUN,
        tuple(replace(s, leg=name) for name, r in made.items() for s in r.stages),
        _headline(made, verdict, missing),
        suite,
        gate if made else Verdict.NOT_RUN,
        tuple(replace(e, arm=f"{name}: {e.arm}") for name, r in made.items() for e in r.engines),
        tuple(
            Change(f"{name}: {c.what}", c.before, c.after)
            for name, r in made.items()
            for c in r.changes
        ),
        tuple(problems),
        tuple(dict.fromkeys(d for r in made.values() for d in r.differences)),
        tuple(dict.fromkeys(f"{name}: {c}" for name, r in made.items() for c in r.caveats)),
        tuple(dict.fromkeys(x for r in made.values() for x in r.next_steps)),
        run=run,
        changed_lines=next((r.changed_lines for r in made.values() if r.changed_lines), ()),
        machine={f"{n}: {k}": v for n, r in made.items() for k, v in r.machine.items()},
        tool_version=__version__,
    )


def _headline(made: Mapping[str, Report], verdict: Verdict, missing: Sequence[str]) -> str:
    if not made:
        return "no leg left any evidence"
    worst = [name for name, r in made.items() if r.verdict is verdict]
    if missing:
        return f"{judgement.HEADLINES[Verdict.UNPROVEN]}: {missing[0]}"
    named = ", ".join(worst[:3]) + (" ..." if len(worst) > 3 else "")
    return f"{judgement.HEADLINES[verdict]} ({len(worst)} of {len(made)} legs: {named})"


def foreign(folder: Path, run: Run) -> Report:
    """The report of another workflow's artifact, as data: checked by its schema, under the run
    that we know it is of.

    Raises
    ------
    ConfigError, EvidenceError
        There is none, there are several, or it is no report.
    """
    legs = newest(folder)
    if len(legs) != 1:
        raise EvidenceError(
            f"{len(legs)} reports in {folder}",
            expected="one: download the artifact of one suite, and use one job for each",
        )
    report = reports.stored(legs[0].path)
    return replace(
        report,
        run=run,
        baseline_run=replace(report.baseline_run, url="", artifact_url=""),
        caveats=(_FOREIGN, *report.caveats),
        offer="",
    )
