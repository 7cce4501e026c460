"""Servers of the synthetic world: they answer calls, so that asking and judging are tested as one.

    engine = FakeEngine(world, damage=noisy(0.5))
    baseline = captured(world, launches=3)
    observed = compared(world, engine, baseline)

A server knows a prompt by what it is sent, never by the call's tag.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from world import ENGINE, ROOT, Damage, World, healthy, noisy

from iqaction import judgement, runner
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Capability,
    Chat,
    EngineInfo,
    Failure,
    FailureKind,
    Force,
    Generation,
    Observation,
    Scored,
    Tag,
    TokenIds,
    digest,
)
from iqaction.observed import Observed
from iqaction.plan import Plan
from iqaction.progress import Quiet
from iqaction.rows import Rows

CANNOT = Failure(FailureKind.UNSUPPORTED, "this server cannot do that")


@dataclass
class FakeEngine:
    """One server.

    Attributes
    ----------
    damage, decoding, forcing
        What is done to the model; to what it decodes only; to what it says when forced only.
    cap
        The longest list it gives.
    text_only, told_ids, counts, tokenizes
        Whether chats are without log-probabilities, with prompt ids, with a count of prompt
        tokens, and whether there is a tokenizer.
    system
        Token ids of a system prompt that is added behind the API.
    fails
        The failure of a call, or None to answer it.
    method
        How it says that it forces.
    """

    world: World
    damage: Damage = healthy
    decoding: Damage = healthy
    forcing: Damage = healthy
    noise: float = 0.01
    seed: int = 7
    cap: int = 20
    text_only: bool = False
    told_ids: bool = True
    counts: bool = True
    tokenizes: bool = True
    system: tuple[int, ...] = ()
    fails: Callable[[Call], Failure | None] = lambda call: None
    method: str = "prompt_logprobs"
    version: str = "2.0"
    calls: list[Call] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)

    def __call__(self, call: Call) -> Observation:
        with self._lock:
            self.calls.append(call)
        return Observation(call.tag, digest(call), self.fails(call) or self._answer(call))

    @property
    def engine(self) -> EngineInfo:
        able = set(Capability) - (set() if self.tokenizes else {Capability.TOKENIZE})
        return replace(ENGINE, version=self.version, capabilities=frozenset(able))

    @property
    def tags(self) -> list[Tag]:
        """What was asked so far, in order."""
        return [c.tag for c in self.calls]

    def _answer(self, call: Call) -> Answer:
        if isinstance(call, Chat):
            return self._chat(call)
        if isinstance(call, Force):
            return self._force(call)
        if not self.tokenizes:
            return CANNOT
        if call.text is not None:
            return TokenIds(tuple(int(x) for x in re.findall(r"w(\d+) ", call.text)))
        return TokenIds((*self.system, *self.world.ids(_unit(call.messages[0].content))))

    def _model(self, unit: str, more: int = 0) -> np.ndarray:
        if (unit, more) not in self._known:
            noise = noisy(self.noise, self.seed + more)
            self._known[unit, more] = self.damage(unit, noise(unit, self.world.logits(unit)))
        return self._known[unit, more]

    def _chat(self, call: Chat) -> Generation:
        unit = _unit(call.messages[0].content)
        logits = self.decoding(unit, self._model(unit))[: call.max_tokens]
        k = min(call.top_logprobs, self.cap)
        said = self.world.generation(logits, unit, k)
        ids = (*self.system, *self.world.ids(unit))
        said = replace(
            said,
            prompt_ids=ids if self.told_ids else None,
            prompt_tokens=len(ids) if self.counts else None,
        )
        if self.text_only or not k:
            said = replace(said, rows=None, rows_complete=False, top_logprobs=0, eos_id=None)
        return said

    def _force(self, call: Force) -> Scored:
        unit = self.world.names[call.prompt_ids[-4]]  # see World.ids
        logits = self.forcing(unit, self._model(unit, more=1000))
        path = np.array(call.continuation_ids, np.int64)
        scored = self.world.forced(logits, path, min(call.top_logprobs, self.cap))
        return replace(scored, method=self.method)


def _unit(content: str) -> str:
    return content.removeprefix("say ")


def drive(
    plan: Plan,
    world: World,
    engines: Mapping[Arm, FakeEngine],
    *,
    arm: Arm = Arm.CANDIDATE,
    launch: int = 0,
    kept: runner.Kept | None = None,
    baseline: Observed | None = None,
    keep: Callable[[str, Observation], None] = lambda stage, observation: None,
) -> Observed:
    """Observe one launch of one arm as a run does, ``kept`` growing with what is answered."""
    kept = {} if kept is None else kept
    told = {(a, launch if a is arm else 0): e.engine for a, e in engines.items()}

    def now() -> Observed:
        return Observed(plan, world.prompts(), kept, told, baseline=baseline, root=ROOT)

    runner.observe(
        runner.Job(
            plan,
            world.prompts(),
            kept,
            {a: runner.Connection(e.engine, e) for a, e in engines.items()},
            keep,
            lambda: 4,
            lambda look: judgement.undecided(now(), look),
            arm,
            launch,
            baseline,
        ),
        Quiet(),
    )
    return now()


def captured(
    world: World,
    launches: int = 3,
    make: Callable[[int], FakeEngine] | None = None,
    looks: tuple[int, ...] = (),
    **params: object,
) -> Observed:
    """A reference and its relaunches; ``make`` gives the server of each launch."""
    make = make or (lambda n: FakeEngine(world, seed=20 + n, version="1.0"))
    plan, kept, engines = world.plan(looks=looks, **params), {}, {}
    for launch in range(launches + 1):
        arm = Arm.REPEAT if launch else Arm.BASELINE
        server = make(launch)
        drive(plan, world, {arm: server}, arm=arm, launch=launch, kept=kept)
        engines[(arm, launch)] = server.engine
    return Observed(plan, world.prompts(), kept, engines, root=ROOT)


def compared(
    world: World,
    engine: FakeEngine,
    baseline: Observed,
    reference: FakeEngine | None = None,
    looks: tuple[int, ...] = (),
    **params: object,
) -> Observed:
    """A candidate observed against a baseline, and a live reference where one is given."""
    if reference is not None:
        params = {"reference": "http://reference", **params}
    plan = world.plan(baseline_root=ROOT, looks=looks, **params)
    engines = {Arm.CANDIDATE: engine}
    if reference is not None:
        engines[Arm.REFERENCE] = reference
    return drive(plan, world, engines, baseline=baseline)


def without_rows(rows: Rows, at: int) -> Rows:
    """Rows that lack one row, as engines lose byte fragments."""
    keep = np.arange(len(rows)) != at
    return replace(
        rows,
        chosen=rows.chosen[keep],
        logprob=rows.logprob[keep],
        top=rows.top[keep],
        top_logprob=rows.top_logprob[keep],
        usable=rows.usable[keep],
    )
