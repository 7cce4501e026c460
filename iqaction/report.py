"""Everything a report surface may know. Surfaces read this and nothing else. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.verdict import Verdict


@dataclass(frozen=True)
class Estimate:
    """A number with how sure it is. ``interval`` is at ``level``; None: not computed.

    A side of the interval that is None is open: the other is then a one-sided bound.

    ``unit`` is one of "nats", "share", "count", "prompts", "perplexity", "tokens", "temperature".
    """

    metric: str
    value: float | None
    interval: tuple[float | None, float | None] | None
    level: float
    method: str
    n_units: int
    unit: str = "nats"
    seed: int | None = None


@dataclass(frozen=True)
class Run:
    """The workflow run that measured: what a result is posted on, and which result is newer.

    All empty where somebody ran this at their desk.

    Attributes
    ----------
    head_sha, tested_sha
        The commit that results are posted on, and the one that was checked out (a pull request
        is tested as merged).
    started_at
        RFC 3339, UTC, to the second.
    artifact_url
        Where the evidence was uploaded to; known only when publishing, so never stored.
    republished
        URL of the run that measured, where this one found its evidence and measured nothing.
    """

    repository: str = ""
    event: str = ""
    head_sha: str = ""
    tested_sha: str = ""
    run_id: str = ""
    attempt: int = 0
    url: str = ""
    started_at: str = ""
    artifact_url: str = ""
    republished: str = ""


NO_RUN = Run()


@dataclass(frozen=True)
class ChangedLine:
    """A line that the pull request adds to a file that decides how the endpoint is started."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Difference:
    """What a pull request changes about its own judge. ``field`` is "plan", "prompts",
    "acceptances" or "baseline"; ``detail`` is a diff, or says why it could not be read.

    ``accepted`` says by whom and until when, where a maintainer agreed; it is then no problem.
    """

    field: str
    path: str
    detail: str
    accepted: str = ""


@dataclass(frozen=True)
class Acceptance:
    """A maintainer's word that a known change is wanted, as ``.inferquality/accept.yml`` says it.

    Attributes
    ----------
    check
        Which check, as "score:reference.kl"; "" where ``field`` is named instead.
    field
        Which of the judge's own files may differ, as "plan"; "" where ``check`` is named.
    plan
        At least 12 hexadecimal digits of the plan's ``settings_sha256``.
    expires
        The last day, as "2027-01-31"; the day of the run is compared with it.
    """

    suite: str
    check: str
    field: str
    plan: str
    expires: str
    reason: str
    author: str


@dataclass(frozen=True)
class Check:
    """One line of the judgement.

    Attributes
    ----------
    metric
        Stable machine name within the stage, as "reference.kl".
    title
        What a person reads, as "reference leg: KL (>=)".
    reason
        Why this verdict, in plain words, figures included.
    estimate
        How much worse the candidate is (candidate - baseline), where that is a number.
    baseline, candidate
        The two arms' own values in ``estimate``'s unit; None where there is none.
    power
        The power note of an UNPROVEN: what would decide it. "" otherwise.
    judged
        False for figures that are shown and carry no verdict of their own.
    more_would_help
        True where only the number of prompts is lacking: the stage may be extended.
    accepted
        By whom, why and until when, where a maintainer accepted this check; "" otherwise. The
        verdict stays what it is, and the job is not held to it.
    """

    metric: str
    title: str
    verdict: Verdict
    reason: str
    estimate: Estimate | None = None
    limit: float | None = None
    baseline: float | None = None
    candidate: float | None = None
    power: str = ""
    judged: bool = True
    more_would_help: bool = False
    accepted: str = ""


@dataclass(frozen=True)
class Divergence:
    """Where two texts part. ``position`` counts tokens from 0 (-1: the texts differ and their
    tokens are not known); ``gap`` is in nats (None: unknown).

    ``kind`` is "tie", "shift", "real" or "unknown".
    """

    unit: str
    bucket: str
    position: int
    kind: str
    gap: float | None
    baseline_token: str
    candidate_token: str
    before: str  # the text both share, just before
    baseline_after: str
    candidate_after: str


@dataclass(frozen=True)
class UnitFault:
    """A prompt that is broken, failed or missing, named. ``kind``: "broken", "decode fault",
    "failed", "missing", "template", "unusable"."""

    unit: str
    bucket: str
    kind: str
    detail: str


@dataclass(frozen=True)
class Coverage:
    """How many units were required and how many could be judged; the others by name."""

    required: int
    observed: int
    failed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # not judged because the baseline itself could not


@dataclass(frozen=True)
class Table:
    """Figures by row, for display: a header, and cells that are text, a number or None."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]


@dataclass(frozen=True)
class Series:
    """Points for a plot: ``labels`` name them where they are prompts, else empty."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    labels: tuple[str, ...] = ()
    limit: float | None = None


@dataclass(frozen=True)
class Mover:
    """A prompt that changed much against the baseline, and how it reads where it changed most.

    Attributes
    ----------
    what
        What changed, in plain words: "KL" (in nats, before and after), "lost", "gained".
    value_before, value_after
        Both arms' figures of this prompt; None where ``what`` says it all.
    position
        The token, from 0, at which the texts below are taken; -1: they are of the whole answer.
    before
        The text both share, just before.
    baseline, candidate
        What each arm has there: the likeliest token (with its probability where it is the same
        one in both), or the answer that was read.
    """

    unit: str
    bucket: str
    what: str
    value_before: float | None
    value_after: float | None
    position: int
    before: str
    baseline: str
    candidate: str


@dataclass(frozen=True)
class Contrast:
    """One figure of two runs, B beside A. It carries no verdict.

    Attributes
    ----------
    estimate
        How much worse B is than A over the same units; None: they are not paired.
    note
        What the figure rests on, or why it is not paired.
    """

    metric: str
    title: str
    unit: str
    a: float | None
    b: float | None
    estimate: Estimate | None = None
    note: str = ""


@dataclass(frozen=True)
class Versus:
    """What one stage says of two runs beside each other, A as the baseline of B.

    ``compared`` counts the units that both answered; ``note`` says why there is nothing here, or
    what the intervals leave out.
    """

    contrasts: tuple[Contrast, ...] = ()
    movers: tuple[Mover, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    compared: int = 0
    note: str = ""


@dataclass(frozen=True)
class StageResult:
    """What one stage concludes, from observations alone."""

    stage: str
    verdict: Verdict
    checks: tuple[Check, ...]
    coverage: Coverage
    required: bool = True
    divergences: tuple[Divergence, ...] = ()
    faults: tuple[UnitFault, ...] = ()
    caveats: tuple[str, ...] = ()
    meaning: tuple[str, ...] = ()  # "what this means", plain sentences
    next_steps: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    series: tuple[Series, ...] = ()
    look: int = 0
    more_would_help: bool = False
    leg: str = ""  # of a matrix, where several are shown as one report
    movers: tuple[Mover, ...] = ()  # the largest change first; texts that part are divergences


@dataclass(frozen=True)
class Change:
    """Something that differs between the arms, as engine version, flags or image."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Engine:
    """Who answered for one arm, for display."""

    arm: str
    dialect: str
    version: str
    model: str
    fingerprint: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Past:
    """An earlier run of the same suite on the base branch, for display only: no verdict of this
    run depends on it.

    Attributes
    ----------
    figures
        How much worse than its baseline it was, by stage and check ("score:reference.kl"), in
        each check's own unit.
    """

    head_sha: str
    started_at: str
    verdict: Verdict
    url: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """The whole judgement.

    Attributes
    ----------
    verdict
        What the evidence says.
    gate
        What the job is held to: ``verdict`` with the accepted checks and differences left out.
    headline
        One sentence: what the verdict means here.
    problems
        Faults of the evidence itself (integrity, wrong prompt file, template) and of its
        circumstances (the endpoint did not start): each caps the verdict at UNPROVEN.
    machine
        What it ran on and how the endpoint was started, for display: GPU, image digests.
    searched
        Where a baseline was looked for, in order, and what was found or not, in plain words.
    history
        Earlier runs of this suite on the base branch, the oldest first.
    offer
        The YAML by which a maintainer would accept what is open; "" where that would not help.
    settings_sha256
        Of what both arms were asked; what an acceptance names, because it outlives a baseline.
    evidence_root
        Set when rendering, never stored in ``report.json`` (the root covers that file).
    """

    verdict: Verdict
    stages: tuple[StageResult, ...]
    headline: str
    suite: str = "default"
    gate: Verdict = Verdict.UNPROVEN
    engines: tuple[Engine, ...] = ()
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    caveats: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    plan_sha256: str = ""
    settings_sha256: str = ""
    baseline_root: str = ""
    run: Run = NO_RUN
    baseline_run: Run = NO_RUN
    changed_lines: tuple[ChangedLine, ...] = ()
    machine: Mapping[str, str] = field(default_factory=dict)
    offer: str = ""
    tool_version: str = ""
    searched: tuple[str, ...] = ()
    history: tuple[Past, ...] = ()
    evidence_root: str = ""
