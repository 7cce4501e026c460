"""Everything a report surface may know. Surfaces read this and nothing else. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.verdict import Verdict


@dataclass(frozen=True)
class Estimate:
    """A number with how sure it is. ``interval`` is at ``level``; None: not computed.

    A side of the interval that is None is open: the other is then a one-sided bound.

    ``unit`` is one of "nats", "share", "count", "prompts", "perplexity", "tokens".
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
class Report:
    """The whole judgement.

    ``problems`` are faults of the evidence itself (integrity, wrong prompt file, template): each
    caps the verdict at UNPROVEN. ``evidence_root`` is set when rendering, never stored in
    ``report.json`` (the root covers that file).
    """

    verdict: Verdict
    stages: tuple[StageResult, ...]
    headline: str  # one sentence: what the verdict means here
    suite: str = "default"
    engines: tuple[Engine, ...] = ()
    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    plan_sha256: str = ""
    baseline_root: str = ""
    head_sha: str = ""
    run_url: str = ""
    tool_version: str = ""
    evidence_root: str = ""
