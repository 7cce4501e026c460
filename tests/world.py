"""A small synthetic world to write stage cases in: evidence without an engine.

A world has prompts and, for each, the logits of a tiny language model at every position. An arm
is that model with something done to its logits; its evidence is built with the same types that
a real run keeps. Positions are independent of the text before them, so a damaged arm stays
comparable after it has parted from the reference.

    world = World(units=64, length=32)
    baseline = world.capture(launches=5, noise=0.01)
    observed = world.compare(baseline, damage=noisy(0.5))

``capture`` and ``compare`` write the evidence down; `server` answers the calls of a real run.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from iqaction import judgement
from iqaction.calls import (
    Arm,
    Capability,
    EngineInfo,
    Failure,
    FailureKind,
    Generation,
    Message,
    Observation,
    Scored,
    Tag,
)
from iqaction.observed import Observed
from iqaction.plan import Margin, Plan, StageSpec
from iqaction.prompts import Prompt
from iqaction.report import Check, Report, StageResult
from iqaction.rows import Match, Rows
from iqaction.stages._paths import continuation

Damage = Callable[[str, np.ndarray], np.ndarray]
MARGINS = (Margin("kl", 0.02), Margin("decisive", 0.005), Margin("nll", 0.05))
ENGINE = EngineInfo("vllm", "1.0", "m", capabilities=frozenset(Capability))
ROOT = "b" * 64
ENDS = ("listed", "omitted", "unknown")
"""A text that stops: its end token has a row; has none and its id is known; neither."""


def healthy(unit: str, logits: np.ndarray) -> np.ndarray:
    """Nothing done to the model."""
    return logits


def noisy(sd: float, seed: int = 0) -> Damage:
    """Independent noise of ``sd`` nats on every logit."""

    def damage(unit: str, logits: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng([zlib.crc32(unit.encode()), seed])
        return logits + rng.normal(0, sd, logits.shape)

    return damage


def only(units: Sequence[str], inner: Damage) -> Damage:
    """``inner`` for these prompts, nothing for the others."""

    def damage(unit: str, logits: np.ndarray) -> np.ndarray:
        return inner(unit, logits) if unit in units else logits

    return damage


def rows(logits: np.ndarray, chosen: np.ndarray, k: int) -> Rows:
    """Rows of ``chosen`` under these logits, with the k most likely tokens listed."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    order = np.argsort(-logp, axis=1, kind="stable")[:, :k]
    n = len(chosen)
    return Rows(
        chosen.astype(np.int64),
        logp[np.arange(n), chosen].astype(np.float32),
        order.astype(np.int64),
        np.take_along_axis(logp, order, axis=1).astype(np.float32),
        np.ones(n, np.bool_),
        Match.ID,
        {int(t): f"w{int(t)} " for t in {*chosen.tolist(), *order[:, :1].ravel().tolist()}},
    )


@dataclass
class World:
    """See the module's docstring."""

    units: int = 64
    length: int = 32
    vocabulary: int = 60
    k: int = 20
    seed: int = 0
    sharpness: float = 2.5
    end: str = ""  # how texts end: "" at the length limit; else see ENDS
    names: tuple[str, ...] = field(init=False)
    _known: dict[str, np.ndarray] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.names = tuple(f"p-{i:03d}" for i in range(self.units))

    @property
    def eos(self) -> int:
        """The end token: the last of the vocabulary, and never likely before the end."""
        return self.vocabulary - 1

    def logits(self, unit: str) -> np.ndarray:
        """At each position of the text, the end token's included where texts stop: (n, v)."""
        if unit not in self._known:
            rng = np.random.default_rng([self.seed, zlib.crc32(unit.encode())])
            logits = rng.normal(0, self.sharpness, (self.length + bool(self.end), self.vocabulary))
            logits[: self.length, self.eos] = -12.0
            if self.end:
                logits[self.length, self.eos] = 12.0
            logits.flags.writeable = False
            self._known[unit] = logits
        return self._known[unit]

    def prompts(self) -> dict[str, Prompt]:
        return {
            n: Prompt(n, ("code", "short")[i % 2], (Message("user", f"say {n}"),))
            for i, n in enumerate(self.names)
        }

    def plan(
        self, *, baseline_root: str = "", looks: tuple[int, ...] = (), **params: object
    ) -> Plan:
        score = {
            "legs": ("reference", "self"),
            "floor": "launches",
            "reference": "",
            "reference_model": "",
            "reference_dialect": "auto",
            "tokenizer": "",
        }
        trajectory = {
            "prompts": "x.jsonl",
            "limit": self.units,
            "max_tokens": self.length + bool(self.end),
            "top_logprobs": self.k,
            "concurrency": 4,
            "chat_template_kwargs": "",
        }
        return Plan(
            (
                StageSpec("trajectory", trajectory),
                StageSpec("score", {**score, **params}, MARGINS),
            ),
            "0" * 64,
            self.names,
            looks or (self.units,),
            baseline_root,
        )

    def ids(self, unit: str) -> tuple[int, ...]:
        """The prompt's token ids, unlike any other prompt's."""
        return (7, self.names.index(unit), 8, 9, 10)

    def generation(self, logits: np.ndarray, unit: str, k: int | None = None) -> Generation:
        """The greedy text under these logits, ended as ``end`` says."""
        path = logits.argmax(axis=1)
        stopped = bool(self.end) and self.eos in path
        if stopped:
            path = path[: int(np.argmax(path == self.eos)) + 1]
        listed = len(path) - (stopped and self.end != "listed")
        own = rows(logits[:listed], path[:listed], self.k if k is None else k)
        ids = self.ids(unit)
        return Generation(
            "".join(own.piece(t) for t in own.chosen if t != self.eos),
            "stop" if stopped else "length",
            own,
            True,
            "",
            ids,
            len(ids),
            len(path),
            own.k,
            eos_id=self.eos if stopped and self.end == "omitted" else None,
            model="m",
        )

    def forced(self, logits: np.ndarray, path: np.ndarray, k: int | None = None) -> Scored:
        """That path under these logits. A path beyond the logits goes on with their last row."""
        at = np.minimum(np.arange(len(path)), len(logits) - 1)
        return Scored(rows(logits[at], path, self.k if k is None else k), "prompt_logprobs")

    def path(self, unit: str) -> np.ndarray:
        """The reference's tokens, the end token's included where it is known."""
        return own_path(self.generation(self.logits(unit), unit))

    def capture(self, *, launches: int = 5, noise: float = 0.01, **params: object) -> Observed:
        """A reference, its own self leg, and ``launches`` relaunches with logit noise."""
        trajectory: dict[Tag, Observation] = {}
        score: dict[Tag, Observation] = {}
        for unit in self.names:
            logits, path = self.logits(unit), self.path(unit)
            keep(trajectory, Tag(Arm.BASELINE, "trajectory", unit), self.generation(logits, unit))
            own = noisy(noise, 99)(unit, logits)
            keep(score, Tag(Arm.BASELINE, "self", unit), self.forced(own, path))
            if unit in self.names[:3]:
                keep(score, Tag(Arm.BASELINE, "self", unit, 0, 2), self.forced(own, path))
            for n in range(1, launches + 1):
                again = noisy(noise, n)(unit, logits)
                keep(score, Tag(Arm.REPEAT, "reference", unit, n), self.forced(again, path))
        engines = {(Arm.BASELINE, 0): ENGINE} | {
            (Arm.REPEAT, n): ENGINE for n in range(1, launches + 1)
        }
        seen = {"trajectory": trajectory, "score": score}
        return Observed(self.plan(**params), self.prompts(), seen, engines, root=ROOT)

    def compare(
        self,
        baseline: Observed,
        damage: Damage = healthy,
        *,
        noise: float = 0.01,
        decoding: Damage = healthy,
        forcing: Damage = healthy,
        looks: tuple[int, ...] = (),
        **params: object,
    ) -> Observed:
        """A candidate: ``damage`` to the model, ``decoding`` to its own texts only, ``forcing``
        to what it says when forced only."""
        trajectory: dict[Tag, Observation] = {}
        score: dict[Tag, Observation] = {}
        for unit in self.names:
            model = damage(unit, noisy(noise, 7)(unit, self.logits(unit)))
            decoded, scored = decoding(unit, model), forcing(unit, model)
            text = self.generation(decoded, unit)
            keep(trajectory, Tag(Arm.CANDIDATE, "trajectory", unit), text)
            reference = self.forced(scored, self.path(unit))
            mine = self.forced(noisy(noise, 8)(unit, scored), own_path(text))
            for attempt in (0, 2):
                keep(score, Tag(Arm.CANDIDATE, "reference", unit, 0, attempt), reference)
                keep(score, Tag(Arm.CANDIDATE, "self", unit, 0, attempt), mine)
        return Observed(
            self.plan(baseline_root=ROOT, looks=looks, **params),
            self.prompts(),
            {"trajectory": trajectory, "score": score},
            {(Arm.CANDIDATE, 0): replace(ENGINE, version="2.0")},
            baseline=baseline,
        )


def own_path(text: Generation) -> np.ndarray:
    """All tokens of a text that can be forced."""
    ids = continuation(text)
    assert ids is not None
    return np.array(ids, np.int64)


def keep(kept: dict[Tag, Observation], tag: Tag, answer: object) -> None:
    kept[tag] = Observation(tag, "0" * 64, answer)  # type: ignore[arg-type]


def without(observed: Observed, stage: str, drop: Callable[[Tag], bool]) -> Observed:
    """The same evidence with some observations lost."""
    kept = {t: o for t, o in observed.seen[stage].items() if not drop(t)}
    return replace(observed, seen={**observed.seen, stage: kept})


def with_launches(baseline: Observed, n: int) -> Observed:
    """The same capture as it was after ``n`` relaunches."""
    engines = {k: v for k, v in baseline.engines.items() if k[1] <= n}
    seen = {
        s: {t: o for t, o in kept.items() if t.launch <= n} for s, kept in baseline.seen.items()
    }
    return replace(baseline, engines=engines, seen=seen)


def answering(
    observed: Observed, stage: str, change: Mapping[Tag, object] | Callable[[Tag, object], object]
) -> Observed:
    """The same evidence with some answers replaced."""
    kept = {}
    for tag, observation in observed.seen[stage].items():
        new = (
            change.get(tag, observation.answer)
            if isinstance(change, Mapping)
            else change(tag, observation.answer)
        )
        kept[tag] = replace(observation, answer=new)
    return replace(observed, seen={**observed.seen, stage: kept})


def judged(observed: Observed) -> Report:
    return judgement.judge(observed, "1.2.3")


def stage_of(report: Report, name: str) -> StageResult:
    return next(s for s in report.stages if s.stage == name)


def check_of(report: Report, metric: str) -> Check:
    """The check of that metric, as "reference.kl"."""
    return next(c for s in report.stages for c in s.checks if c.metric == metric)


def asking_for(observed: Observed, stage: str, **changes: object) -> Observed:
    """The same evidence under a plan whose stage spec says something else."""
    plan = observed.plan
    specs = tuple(replace(s, **changes) if s.stage == stage else s for s in plan.stages)  # type: ignore[arg-type]
    return replace(observed, plan=replace(plan, stages=specs))


FAILED = Failure(FailureKind.STATUS, "HTTP 500: the engine failed", 500)
