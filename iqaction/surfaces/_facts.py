"""What a reader is told, in which order, whatever the surface. Plain text, no markup.

Sentences here are *prose* in the sense of ``_escape``: a quoted thing stands in backticks, and
the surface that shows it escapes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from iqaction.report import (
    Check,
    Divergence,
    Engine,
    Estimate,
    Report,
    Series,
    StageResult,
    Table,
    UnitFault,
)
from iqaction.surfaces import _changes, _figures
from iqaction.surfaces._escape import head, hex_or_nothing, tail
from iqaction.verdict import Verdict, combine

NAME = 120  # characters of a name (suite, engine, flag, prompt id) that are ever shown
ACCEPTED = "Accepted: the job is not held to it"
_VERDICT_ORDER = (Verdict.FAIL, Verdict.UNPROVEN, Verdict.NOT_RUN, Verdict.PASS)
_KIND_ORDER = {"real": 0, "shift": 1, "unknown": 2, "tie": 3}
_FAULT_TITLES = {
    "broken": "Broken prompts",
    "decode fault": "Prompts with decode faults",
    "template": "Prompts that reach the model in another form",
    "failed": "Prompts that failed",
    "missing": "Prompts without an answer",
    "unusable": "Prompts without usable figures",
}


@dataclass(frozen=True)
class Line:
    """One row of the checks table. ``check`` is None for a line about a whole stage."""

    stage: StageResult
    title: str
    verdict: Verdict
    check: Check | None = None

    @property
    def accepted(self) -> str:
        """By whom, why and until when, where a maintainer accepted it."""
        return self.check.accepted if self.check else ""

    @property
    def estimate(self) -> Estimate | None:
        """The check's estimate where it holds a number."""
        estimate = self.check.estimate if self.check else None
        if estimate is None or _figures.worse_by(estimate) == _figures.DASH:
            return None
        return estimate


def named(stage: StageResult) -> str:
    """The stage's name, with its leg's where a matrix was judged in several."""
    return f"{head(stage.leg, NAME)}: {stage.stage}" if stage.leg else stage.stage


def has_legs(report: Report) -> bool:
    """True where several reports are shown as one."""
    return any(stage.leg for stage in report.stages)


def nothing_observed(report: Report) -> bool:
    """True where tables could hold dashes and zeros only."""
    return report.verdict is Verdict.NOT_RUN and not any(
        s.coverage.observed or any(c.estimate for c in s.checks) for s in report.stages
    )


def lines(report: Report, *, judged: bool = True) -> list[Line]:
    """All checks in the plan's order; a title used by two stages gets its stage's name."""
    used = Counter(c.title for s in report.stages for c in s.checks)
    out = []
    for stage in report.stages:
        verdicts = [c.verdict for c in stage.checks if c.judged]
        if judged and not verdicts:
            out.append(Line(stage, named(stage), stage.verdict))
        elif judged and stage.verdict is not combine(verdicts):
            # Coverage or evidence decided, not a check: the reader must see who did.
            out.append(Line(stage, f"{named(stage)} as a whole", stage.verdict))
        for check in stage.checks:
            if check.judged is judged:
                several = stage.leg or (used[check.title] > 1 and len(report.stages) > 1)
                title = f"{named(stage)}: {check.title}" if several else check.title
                out.append(Line(stage, title, check.verdict, check))
    return out


def open_lines(report: Report) -> list[Line]:
    """The judged checks that are no PASS, worst first; those that were accepted come last."""
    found = [x for x in lines(report) if x.verdict is not Verdict.PASS]
    return sorted(found, key=lambda x: (bool(x.accepted), _VERDICT_ORDER.index(x.verdict)))


def why(line: Line) -> str:
    """The reason in plain words, with the power note where it says more."""
    if line.check is None:
        cover = line.stage.coverage
        seen = f"{cover.observed:,} of {cover.required:,} prompts were observed"
        return seen if any(c.judged for c in line.stage.checks) else f"no check was made; {seen}"
    reason, power = line.check.reason, line.check.power
    if not power or power in reason:
        return reason
    return f"{_closed(reason)} {power}" if reason else power


def why_accepted(line: Line) -> list[str]:
    """The reason; then by whom, why and until when it was accepted, where it was."""
    return [_closed(why(line)), granted(line.accepted)] if line.accepted else [why(line)]


def granted(accepted: str) -> str:
    """An acceptance as a sentence of its own."""
    return accepted[:1].upper() + head(accepted[1:], 4000)


def notes(line: Line) -> list[str]:
    """What stands beside the verdict: that the job is not held to it."""
    accepted = ["accepted"] if line.accepted else []
    return accepted if line.stage.required else [*accepted, "not required"]


def _closed(sentence: str) -> str:
    sentence = sentence.rstrip()
    return sentence if sentence.endswith((".", "!", "?", ":", ";")) else sentence + "."


# --- who was compared -----------------------------------------------------------------------


def engine(who: Engine) -> str:
    """One arm's engine and model in a few words."""
    return _named(f"{head(who.dialect, NAME)} {head(who.version, NAME)}", who.model)


def _named(name: str, model: str) -> str:
    name = " ".join(name.split()) or "unknown engine"
    return f"{name}, {_changes.quoted(model)}" if model else name


def engines(report: Report) -> str:
    """Baseline and candidate on one line, what both share said once; "" for nobody."""
    by_arm = {e.arm: e for e in reversed(report.engines)}
    before = by_arm.get("baseline") or by_arm.get("reference")
    after = by_arm.get("candidate")
    if before is None or after is None:
        only = after or before
        return "" if only is None else f"{only.arm} {engine(only)}"
    if (before.dialect, before.model) != (after.dialect, after.model):
        return f"{engine(before)} → {engine(after)}"
    if before.version == after.version:
        return engine(after)
    old, new = (head(e.version, NAME) or "unknown" for e in (before, after))
    return _named(f"{head(after.dialect, NAME)} {old} → {new}", after.model)


# --- where the texts part -------------------------------------------------------------------


@dataclass(frozen=True)
class Parting:
    """All divergences of one stage, the ones that matter first, and how many there are."""

    stage: str
    total: int
    prompts: int
    found: tuple[Divergence, ...]
    summary: str


def partings(report: Report) -> list[Parting]:
    """One entry per stage in which texts part."""
    return [_parting(s) for s in report.stages if s.divergences]


def _parting(stage: StageResult) -> Parting:
    kinds = Counter(d.kind if d.kind in _KIND_ORDER else "unknown" for d in stage.divergences)
    counted = ", ".join(
        f"{kinds[kind]:,} {name if kinds[kind] == 1 else plural}"
        for kind, name, plural in (
            ("tie", "tie", "ties"),
            ("shift", "shift", "shifts"),
            ("unknown", "unknown", "unknown"),
            ("real", "real", "real"),
        )
        if kinds[kind]
    )
    prompts = stage.coverage.observed
    differ = len({d.unit for d in stage.divergences})
    return Parting(
        named(stage),
        len(stage.divergences),
        prompts,
        tuple(sorted(stage.divergences, key=_weight)),
        f"{differ:,} of {prompts:,} prompts differ: {counted}",
    )


def _weight(d: Divergence) -> tuple[int, float, str, int]:
    gap = d.gap if d.gap is not None and _figures.known(d.gap) else -1.0
    return (_KIND_ORDER.get(d.kind, 2), -gap, d.unit, d.position)


def chosen(parting: Parting, most: int, ties: int) -> list[Divergence]:
    """The first ``most``, at most ``ties`` of them ties."""
    out: list[Divergence] = []
    for divergence in parting.found:
        if len(out) >= most:
            break
        if divergence.kind != "tie" or ties > 0:
            ties -= divergence.kind == "tie"
            out.append(divergence)
    return out


def rest(token: str, after: str) -> str:
    """The text that follows the first differing token (``after`` may repeat that token)."""
    return after[len(token) :] if token and after.startswith(token) else after


def wrote(d: Divergence, token: str, after: str, limit: int) -> str:
    """One arm's text around the divergence: a little that both share, then its own."""
    own = token + rest(token, after)
    return tail(d.before, limit // 3) + head(own, limit - limit // 3)


def ends(token: str, after: str) -> bool:
    """True where this arm's text stops where the other goes on."""
    return not token and not after


def place(d: Divergence) -> str:
    """The token's number, a dash where only the texts are known."""
    return _figures.DASH if d.position < 0 else f"{d.position:,}"


def gap(d: Divergence) -> str:
    """The gap in nats, a dash where it is unknown."""
    return _figures.DASH if not _figures.known(d.gap) else f"{d.gap:.2f} nats"


# --- faults, sentences, figures -------------------------------------------------------------


def faults(report: Report) -> list[tuple[str, list[UnitFault]]]:
    """Named prompts by kind, the gravest kind first; a fault told by two stages stands once."""
    by_kind: dict[str, dict[tuple[str, str], UnitFault]] = {kind: {} for kind in _FAULT_TITLES}
    for stage in report.stages:
        for seen in stage.faults:
            fault = replace(seen, unit=f"{stage.leg}: {seen.unit}") if stage.leg else seen
            of_kind = by_kind.setdefault(fault.kind, {})
            of_kind.setdefault((fault.unit, fault.detail), fault)
    return [
        (_FAULT_TITLES.get(kind, f"Prompts: {head(kind, NAME)}"), list(found.values()))
        for kind, found in by_kind.items()
        if found
    ]


def unique(sentences: Iterable[str]) -> list[str]:
    """The sentences in order, each once, empty ones left out."""
    return list(dict.fromkeys(s for s in sentences if s.strip()))


def meaning(report: Report) -> list[str]:
    """What the verdict means, of all stages."""
    return [_closed(s) for s in unique(m for stage in report.stages for m in stage.meaning)]


def next_steps(report: Report) -> list[str]:
    """What to do now: the report's own steps first."""
    return [
        _closed(s)
        for s in unique(
            (*report.next_steps, *(x for stage in report.stages for x in stage.next_steps))
        )
    ]


def caveats(report: Report) -> list[str]:
    """What limits the verdict: the report's own, then the stages', each with its stage."""
    theirs = (f"{named(stage)}: {c}" for stage in report.stages for c in unique(stage.caveats))
    return unique((*report.caveats, *theirs))


def tables(report: Report) -> list[tuple[str, Table]]:
    """The stages' tables, each title with its stage's name where there are several stages."""
    return [(_of(report, s, t.title), t) for s in report.stages for t in s.tables]


def series(report: Report) -> list[tuple[str, Series]]:
    """The stages' plots, titled like the tables."""
    return [(_of(report, s, x.title), x) for s in report.stages for x in s.series]


def _of(report: Report, stage: StageResult, title: str) -> str:
    if len(report.stages) <= 1 and not stage.leg:
        return title
    return f"{head(named(stage), 2 * NAME)}: {head(title, 300)}"


def identities(report: Report) -> list[tuple[str, str]]:
    """Hashes and versions that a later reader needs, those that are known."""
    pairs = (
        ("evidence root", hex_or_nothing(report.evidence_root)),
        ("plan", hex_or_nothing(report.plan_sha256)),
        ("plan settings", hex_or_nothing(report.settings_sha256)),
        ("baseline root", hex_or_nothing(report.baseline_root)),
        ("baseline run", head(report.baseline_run.url, 300)),
        ("commit", hex_or_nothing(report.run.head_sha)),
        ("tested as", hex_or_nothing(report.run.tested_sha)),
        ("run", head(report.run.url, 300)),
        ("inferquality", head(report.tool_version, NAME)),
    )
    return [(name, text) for name, text in pairs if text]


def commands(report: Report) -> str:
    """How to check the evidence and look into it. DIR is the evidence folder."""
    root = hex_or_nothing(report.evidence_root)
    verify = f"iqaction verify DIR --root {root}" if root else "iqaction verify DIR"
    return (
        f"{verify}\n"
        "iqaction inspect DIR   # a prompt, a failure or a divergence in full\n"
        "iqaction judge DIR     # the same evidence gives the same verdict"
    )
