"""Evidence records: one in-toto Statement v1 each, so that they can be signed as they are. Pure.

A record's id is the sha256 of its bytes as stored; readers hash the bytes they were given, never
a re-serialisation. A record says what was observed or derived, from which artifacts, with which
figures, what is missing and what limits it, and of which engine, model and workload it speaks.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from iqaction.errors import EvidenceError
from iqaction.evidence import canon, schema
from iqaction.json_value import JSON

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATES = "https://inferquality.dev/evidence/"


class Kind(str, enum.Enum):
    """What a record is about."""

    PLAN = "plan"
    OBSERVATIONS = "observations"
    STAGE_RESULT = "stage-result"
    REPORT = "report"
    BASELINE = "baseline"

    @property
    def predicate_type(self) -> str:
        return f"{PREDICATES}{self.value}/v1"


@dataclass(frozen=True)
class Artifact:
    """A file of the folder: ``name`` relative to it, ``role`` as "observations" or "report"."""

    role: str
    name: str
    sha256: str


@dataclass(frozen=True)
class Link:
    """Another record, by id, and what it is to this one."""

    role: str
    sha256: str


@dataclass(frozen=True)
class Metric:
    """One figure. ``value`` None: not computed. ``ci95``: two-sided 95 % interval, None: none.

    ``statistic`` says what the value is of its units, as "count" or "mean over prompts";
    ``subject`` whom it speaks of, as "candidate - baseline".
    """

    name: str
    value: float | None
    unit: str
    statistic: str
    n: int
    ci95: tuple[float | None, float | None] | None
    subject: str


@dataclass(frozen=True)
class Who:
    """One engine, for one arm and launch."""

    arm: str
    launch: int
    dialect: str
    version: str
    model: str
    fingerprint: str


@dataclass(frozen=True)
class Workload:
    """What was asked; ``stage`` is "" where a record speaks of all stages."""

    suite: str
    plan_sha256: str
    prompts_sha256: str
    prompts: int
    stage: str = ""


@dataclass(frozen=True)
class Key:
    """What a run must have in common with a baseline; see schemas/baseline.schema.json."""

    plan_sha256: str
    settings_sha256: str
    prompts_sha256: str
    models: tuple[str, ...]
    launches: int
    engines: tuple[Who, ...]


@dataclass(frozen=True)
class Record:
    """What :func:`dump` writes. ``derived`` False: the artifacts are an engine's own answers.

    ``observed_at`` is the time of the first and of the last answer (UTC), empty where no answer
    is meant.
    """

    kind: Kind
    derived: bool
    subject: tuple[Artifact, ...]
    workload: Workload
    engines: tuple[Who, ...] = ()
    model: str = ""
    artifacts: tuple[Artifact, ...] = ()
    links: tuple[Link, ...] = ()
    metrics: tuple[Metric, ...] = ()
    missing: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()
    verdict: str = ""
    observed_at: tuple[str, ...] = ()
    key: Key | None = None


def dump(record: Record) -> bytes:
    """The statement's canonical bytes.

    Raises
    ------
    EvidenceError
        Where the schema ``record`` does not hold, as for a record without a subject.
    """
    predicate: dict[str, JSON] = {
        "basis": "derived" if record.derived else "observed",
        "artifacts": [
            {"role": a.role, "name": a.name, "sha256": a.sha256} for a in record.artifacts
        ],
        "links": [{"role": x.role, "sha256": x.sha256} for x in record.links],
        "metrics": [_metric(m) for m in record.metrics],
        "missing": [*record.missing],
        "limitations": [*record.limitations],
        "identity": {
            "engines": [_who(e) for e in record.engines],
            "model": record.model,
            "workload": {
                "suite": record.workload.suite,
                "plan_sha256": record.workload.plan_sha256,
                "prompts_sha256": record.workload.prompts_sha256,
                "prompts": record.workload.prompts,
                "stage": record.workload.stage,
            },
        },
        "verdict": record.verdict,
        "observed_at": [*record.observed_at],
    }
    if record.key is not None:
        predicate["key"] = _key(record.key)
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": a.name, "digest": {"sha256": a.sha256}} for a in record.subject],
        "predicateType": record.kind.predicate_type,
        "predicate": predicate,
    }
    schema.validate("record", statement, f"record of kind {record.kind.value}")
    return canon.dump(statement)


def _metric(metric: Metric) -> dict[str, JSON]:
    return {
        "name": metric.name,
        "value": metric.value,
        "unit": metric.unit,
        "statistic": metric.statistic,
        "n": metric.n,
        "ci95": None if metric.ci95 is None else [*metric.ci95],
        "subject": metric.subject,
    }


def _who(who: Who) -> dict[str, JSON]:
    return {
        "arm": who.arm,
        "launch": who.launch,
        "dialect": who.dialect,
        "version": who.version,
        "model": who.model,
        "fingerprint": who.fingerprint,
    }


def _key(key: Key) -> dict[str, JSON]:
    return {
        "$schema": "https://inferquality.dev/schemas/baseline/v1",
        "plan_sha256": key.plan_sha256,
        "settings_sha256": key.settings_sha256,
        "prompts_sha256": key.prompts_sha256,
        "models": [*key.models],
        "launches": key.launches,
        "engines": [_who(e) for e in key.engines],
    }


def check(records: Mapping[str, bytes], files: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with a set of records.

    Parameters
    ----------
    records
        Bytes by id.
    files
        sha256 of every file of the folder, by name: what subjects and artifacts must match.

    Returns
    -------
    tuple of str
        One sentence a fault: altered bytes, a broken schema, links to records that are not
        there, artifacts that the folder does not hold. Empty where all is well.
    """
    problems: list[str] = []
    for ident, data in records.items():
        place = f"records/{ident}.json"
        if canon.identify(data) != ident:
            problems.append(f"{place}: the bytes do not hash to its name")
        try:
            statement = canon.load_object(data, place)
            schema.validate("record", statement, place)
        except EvidenceError as exc:
            problems.append(exc.happened)
            continue
        problems += [f"{place}: {fault}" for fault in _loose_ends(statement, records, files)]
    return tuple(problems)


def _loose_ends(
    statement: Mapping[str, JSON], records: Mapping[str, bytes], files: Mapping[str, str]
) -> list[str]:
    """Links and artifacts of one schema-checked statement that lead nowhere."""
    faults: list[str] = []
    match statement:
        case {
            "subject": list(subjects),
            "predicate": {"links": list(links), "artifacts": list(artifacts)},
        }:
            for link in links:
                match link:
                    case {"role": str(role), "sha256": str(ident)} if ident not in records:
                        faults.append(f"the record {ident} ({canon.shown(role)}) is missing")
            for item in (*subjects, *artifacts):
                match item:
                    case {"name": str(name), "digest": {"sha256": str(digest)}} | {
                        "name": str(name),
                        "sha256": str(digest),
                    } if files.get(name) != digest:
                        faults.append(f"{canon.shown(name)} is not the file that it speaks of")
    return faults
