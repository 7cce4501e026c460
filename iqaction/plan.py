"""The plan: what will be asked, of whom, and the margins fixed before any answer is seen.

Data only. ``inputs`` reads it from YAML; its sha256 is in every record, so that a margin cannot
be moved after the fact.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.errors import EvidenceError
from iqaction.json_value import JSON

SCHEMA = "https://inferquality.dev/schemas/plan/v1"
MAX_AGE_DAYS = 30
DATA = "data_sha256"  # a parameter that no plan file sets: the session knows the file
MOST = 1e300  # of a number in a plan file that was written by hand; JSON has no limit
Value = None | bool | int | float | str | tuple["Value", ...]


@dataclass(frozen=True)
class Margin:
    """Non-inferiority: ``metric`` may be worse than the baseline by at most ``limit``."""

    metric: str
    limit: float
    min_units: int = 59


@dataclass(frozen=True)
class StageSpec:
    """One stage as the plan wants it. ``params`` holds every parameter, defaults filled in."""

    stage: str
    params: Mapping[str, Value] = field(default_factory=dict)
    margins: tuple[Margin, ...] = ()
    required: bool = True
    seed: int = 0

    @property
    def data_sha256(self) -> str:
        """Of the file that the stage's own questions come from; "" where it has none."""
        value = self.params.get(DATA)
        return value if isinstance(value, str) else ""

    def integer(self, name: str) -> int:
        value = self.params[name]
        assert isinstance(value, int) and not isinstance(value, bool)  # checked by `inputs`
        return value

    def number(self, name: str) -> float:
        value = self.params[name]
        assert isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value)

    def text(self, name: str) -> str:
        value = self.params[name]
        assert value is None or isinstance(value, str)
        return value or ""

    def names(self, name: str) -> tuple[str, ...]:
        value = self.params[name]
        assert isinstance(value, tuple)
        return tuple(str(x) for x in value)

    def margin(self, metric: str) -> Margin | None:
        return next((m for m in self.margins if m.metric == metric), None)


@dataclass(frozen=True)
class Plan:
    """Frozen before the first call.

    Attributes
    ----------
    stages
        In the order in which they are asked.
    prompts_sha256
        Of the prompt file's bytes.
    prompt_ids
        The prompts in the order of asking; the first ``looks[0]`` are judged first.
    looks
        Cumulative prompt counts: ``(n,)``, or ``(n, up to 2n)`` where an extension is possible.
    baseline_root
        Evidence root of the baseline that is compared with; "" for a capture.
    model_identity
        Which model is meant, whatever a server calls it; "" where the plan does not say.
    max_age_days, strict
        From which age on a baseline is told to be old, and whether that forbids a PASS.
    """

    stages: tuple[StageSpec, ...]
    prompts_sha256: str
    prompt_ids: tuple[str, ...]
    looks: tuple[int, ...]
    baseline_root: str = ""
    suite: str = "default"
    model_identity: str = ""
    max_age_days: int = MAX_AGE_DAYS
    strict: bool = False

    @property
    def is_capture(self) -> bool:
        """True where there is no baseline: the evidence becomes one."""
        return not self.baseline_root

    @property
    def sha256(self) -> str:
        return hashlib.sha256(to_bytes(self)).hexdigest()

    def stage(self, name: str) -> StageSpec | None:
        return next((s for s in self.stages if s.stage == name), None)

    def settings_sha256(self) -> str:
        """Of what both arms must have in common: stages, prompts, looks; not the baseline."""
        body = to_json(self)
        shared = ("stages", "prompts_sha256", "prompt_ids", "looks", "model_identity")
        return hashlib.sha256(_canonical({k: body[k] for k in shared if k in body})).hexdigest()


def _canonical(value: JSON) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def _plain(value: Value) -> JSON:
    return [_plain(x) for x in value] if isinstance(value, tuple) else value


def _frozen(value: JSON) -> Value:
    if isinstance(value, list):
        return tuple(_frozen(x) for x in value)
    if isinstance(value, dict):
        raise EvidenceError("plan.json: a parameter is an object", expected="a scalar or a list")
    return value


def to_json(plan: Plan) -> dict[str, JSON]:
    """The plan as JSON values; see schemas/plan.schema.json."""
    return {
        "$schema": SCHEMA,
        "suite": plan.suite,
        "stages": [
            {
                "stage": s.stage,
                "params": {k: _plain(v) for k, v in sorted(s.params.items())},
                "margins": [
                    {"metric": m.metric, "limit": m.limit, "min_units": m.min_units}
                    for m in s.margins
                ],
                "required": s.required,
                "seed": s.seed,
            }
            for s in plan.stages
        ],
        "prompts_sha256": plan.prompts_sha256,
        "prompt_ids": list(plan.prompt_ids),
        "looks": list(plan.looks),
        "baseline_root": plan.baseline_root,
        **_set(plan),
    }


def _set(plan: Plan) -> dict[str, JSON]:
    """Keys that are there only where the plan sets them: plans without keep their hash."""
    body: dict[str, JSON] = {}
    if plan.model_identity:
        body["model_identity"] = plan.model_identity
    if plan.max_age_days != MAX_AGE_DAYS:
        body["max_age_days"] = plan.max_age_days
    if plan.strict:
        body["strict"] = True
    return body


def to_bytes(plan: Plan) -> bytes:
    """Canonical bytes: what is stored and hashed."""
    return _canonical(to_json(plan))


def from_json(body: Mapping[str, JSON]) -> Plan:
    """The plan of a schema-checked ``plan.json``."""
    match body:
        case {
            "stages": list(stages),
            "prompts_sha256": str(prompts_sha256),
            "prompt_ids": list(ids),
            "looks": list(looks),
            "baseline_root": str(root),
            "suite": str(suite),
        }:
            return Plan(
                tuple(_stage(s) for s in stages),
                prompts_sha256,
                tuple(str(i) for i in ids),
                tuple(n for n in looks if isinstance(n, int)),
                root,
                suite,
                *_optional(body),
            )
    raise EvidenceError("plan.json: not a plan", expected="see schemas/plan.schema.json")


def _optional(body: Mapping[str, JSON]) -> tuple[str, int, bool]:
    """What :func:`_set` wrote."""
    match body.get("model_identity", ""), body.get("max_age_days", MAX_AGE_DAYS):
        case str(identity), int(days):
            return identity, days, body.get("strict") is True
    raise EvidenceError("plan.json: not a plan", expected="see schemas/plan.schema.json")


def _stage(body: JSON) -> StageSpec:
    match body:
        case {
            "stage": str(name),
            "params": dict(params),
            "margins": list(margins),
            "required": bool(required),
            "seed": int(seed),
        }:
            return StageSpec(
                name,
                {k: _frozen(v) for k, v in params.items()},
                tuple(_margin(m) for m in margins),
                required,
                seed,
            )
    raise EvidenceError("plan.json: not a stage", expected="see schemas/plan.schema.json")


def _margin(body: JSON) -> Margin:
    match body:
        case {"metric": str(metric), "limit": int() | float() as limit, "min_units": int(units)}:
            if abs(limit) < MOST:
                return Margin(metric, float(limit), units)
    raise EvidenceError("plan.json: not a margin", expected="see schemas/plan.schema.json")
