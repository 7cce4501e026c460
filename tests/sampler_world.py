"""A synthetic model and samplers that draw from it: evidence for `sampling` without an engine.

    world = SamplerWorld(vocabulary=1000)
    evidence = world.evidence(spec(temperature=0.6), VLLM, Faulty(temperature=1.05), seed=3)
    result = STAGE.judge(context(evidence))

A position is one of a few hundred contexts, whose logits fall as in Zipf's law with one clear
favourite in a third of them: what may be drawn, how much lies beyond 20 tokens and how much a
position tells of the temperature are as measured on SmolLM2-135M over the default prompts. The
sampler here works on the whole vocabulary, one filter after another as an engine's source has it,
and shares no code with what is tested. It is slow, so each context's law is made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Capability,
    Draw,
    Drawn,
    EngineInfo,
    Message,
    Observation,
    Tag,
    digest,
)
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.prompts import Prompt
from iqaction.rows import PAD, Match, Rows
from iqaction.stages._base import Context
from iqaction.stages.sampling import STAGE

LLAMACPP = ("top_k", "top_p", "min_p", "temperature")
VLLM = ("temperature", "min_p", "top_k", "top_p")
SGLANG = ("temperature", "top_k+top_p", "min_p")
ORDERS = {"llamacpp": LLAMACPP, "vllm": VLLM, "sglang": SGLANG}
K = 20
UNITS = 32
FRAGMENT = 37  # every so many-th token is part of a character, where fragments are wanted


@dataclass(frozen=True)
class Faulty:
    """What a sampler does besides what it is told.

    Attributes
    ----------
    temperature
        Factor on the temperature asked for.
    greedy
        Share of draws that take the most likely token.
    second
        Factor on the second token's probability, after the filters.
    no_top
        Share of draws in which the most likely token is not there.
    ignores
        Filters that are not applied.
    order
        Filters in another order than the engine says; () is as it says.
    """

    temperature: float = 1.0
    greedy: float = 0.0
    second: float = 1.0
    no_top: float = 0.0
    ignores: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


RIGHT = Faulty()
FAULTS = {
    "5 % too hot": Faulty(temperature=1.05),
    "5 % too cold": Faulty(temperature=0.95),
    "greedy in 10 %": Faulty(greedy=0.10),
    "second token 20 % too rare": Faulty(second=0.8),
    "top_p ignored": Faulty(ignores=("top_p",)),
    "top token dropped in 2 %": Faulty(no_top=0.02),
}
SETTINGS: dict[str, Mapping[str, float]] = {
    "T .6, top_k 20, top_p .95": {"temperature": 0.6, "top_k": 20, "top_p": 0.95},
    "T 1, top_p .95": {"temperature": 1.0, "top_k": 0, "top_p": 0.95},
    "T .8, min_p .05": {"temperature": 0.8, "top_k": 0, "top_p": 1.0, "min_p": 0.05},
}


def spec(**params: object) -> StageSpec:
    """The stage's settings as a plan has them."""
    known = {p.name: p.default for p in STAGE.params}
    assert set(params) <= set(known), params
    return StageSpec("sampling", {**known, **params})  # type: ignore[arg-type]


def law(logp: np.ndarray, params: Mapping[str, object], order: Sequence[str]) -> np.ndarray:
    """What a sampler draws from, (vocabulary,), as an engine computes it: a filter sets logits to
    minus infinity, and the next one starts from a softmax of what is left."""

    def soft(x: np.ndarray) -> np.ndarray:
        e = np.exp(x - x.max())
        return e / e.sum()

    x = logp.astype(float).copy()
    temperature, top_k = float(params["temperature"]), int(params["top_k"])  # type: ignore
    top_p, min_p = float(params["top_p"]), float(params["min_p"])  # type: ignore

    def outside_top_k(p: np.ndarray) -> np.ndarray:
        return np.arange(len(p)) >= top_k if top_k else np.zeros(len(p), bool)

    def outside_top_p(p: np.ndarray) -> np.ndarray:
        return np.cumsum(p) - p >= top_p if top_p < 1 else np.zeros(len(p), bool)

    for step in order:
        p = soft(x)
        if step == "temperature":
            x = x / temperature
        elif step == "top_k":
            x[outside_top_k(p)] = -np.inf
        elif step == "top_p":
            x[outside_top_p(p)] = -np.inf
        elif step == "min_p":
            x[p < min_p * p.max()] = -np.inf
        elif step == "top_k+top_p":
            x[outside_top_k(p) | outside_top_p(p)] = -np.inf
    return soft(x)


@dataclass(frozen=True)
class SamplerWorld:
    """A model of ``contexts`` contexts. ``flat`` makes every one uncertain (no clear favourite)."""

    vocabulary: int = 1000
    contexts: int = 400
    seed: int = 0

    def logprobs(self) -> np.ndarray:
        """(contexts, vocabulary), descending."""
        return _logprobs(self)

    def laws(self, params: Mapping[str, object], order: Sequence[str], fault: Faulty) -> np.ndarray:
        """What is drawn in each context, faults included: (contexts, vocabulary)."""
        told = tuple(sorted((k, params[k]) for k in ("temperature", "top_k", "top_p", "min_p")))
        return _laws(self, told, tuple(order), fault)


@cache
def _logprobs(world: SamplerWorld) -> np.ndarray:
    rng = np.random.default_rng(world.seed)
    n, v = world.contexts, world.vocabulary
    steep, shift = np.exp(rng.normal(0.7, 0.3, n)), rng.exponential(1.0, n)
    logits = -steep[:, None] * np.log(np.arange(1, v + 1) + shift[:, None])
    logits += rng.normal(0, 0.8, (n, v))
    favoured = rng.random(n) < 0.35
    logits[favoured, 0] += rng.exponential(6.0, favoured.sum())
    logits = np.sort(logits, axis=1)[:, ::-1]
    logits -= logits[:, :1]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@cache
def _laws(world: SamplerWorld, told: tuple, order: tuple[str, ...], fault: Faulty) -> np.ndarray:
    return np.array([_law(row, dict(told), order, fault) for row in _logprobs(world)])


def _law(row: np.ndarray, params: dict, order: Sequence[str], fault: Faulty) -> np.ndarray:
    params = dict(params)
    params["temperature"] = params["temperature"] * fault.temperature
    steps = [s for s in (fault.order or order) if s not in fault.ignores]
    if "top_p" in fault.ignores:
        params["top_p"] = 1.0
    if "top_k" in fault.ignores:
        params["top_k"] = 0
    q = law(row, params, steps)
    if fault.no_top:
        without = np.append(law(row[1:], params, steps), 0.0)
        without = np.roll(without, 1)
        q = (1 - fault.no_top) * q + fault.no_top * without
    if fault.second != 1:
        q = q.copy()
        q[1] *= fault.second
        q /= q.sum()
    if fault.greedy:
        q = (1 - fault.greedy) * q
        q[0] += fault.greedy
    return q


@dataclass(frozen=True)
class Listing:
    """How an engine lists what it drew.

    Attributes
    ----------
    guest
        The drawn token has left a list of K whose last one it is, or which it was not in (vLLM).
    fragments
        Some tokens have no row, and none after them has one until the character ends.
    ends
        Chance of an end token at a position that allows one; it has no row ("omitted"), or has.
    noise
        Nats of noise on every logit of every position.
    decimals
        Places of the values; None: 32 bits.
    """

    guest: bool = False
    fragments: bool = False
    ends: bool = False
    ends_listed: bool = False
    noise: float = 0.0
    tie: float = 0.0  # logits are multiples of it, as in 16 bits


PLAIN = Listing()


@dataclass
class Sampling:
    """A server that answers draws: a model, a sampler and a way of listing."""

    world: SamplerWorld
    params: Mapping[str, object]
    order: tuple[str, ...] = LLAMACPP
    fault: Faulty = RIGHT
    listing: Listing = PLAIN
    seed: int = 0
    processed: bool = False
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 77])

    @property
    def engine(self) -> EngineInfo:
        return EngineInfo(
            "vllm",
            "1.0",
            "m",
            capabilities=frozenset(Capability),
            details={"n_vocab": str(self.world.vocabulary)},
            filters=self.order,
            eos_id=_END if self.listing.ends else None,
        )

    def answer(self, call: Call) -> Answer:
        assert isinstance(call, Draw)
        if call.max_tokens == 1 and call.n == 1:
            return self._first(call)
        return self.draws(call.n, call.max_tokens)

    def _first(self, call: Draw) -> Drawn:
        logs = self.world.logprobs()[:1, :K].astype(np.float32)
        if self.processed:
            logs = logs / np.float32(call.temperature)
            logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        return _drawn(logs, np.arange(K)[None, :], np.zeros(1, np.int64), logs[:, 0], (1,), K)

    def draws(self, n: int, tokens: int) -> Drawn:
        """``n`` sequences. All positions at once: what comes next does not depend on the draw."""
        total, v = n * tokens, self.world.vocabulary
        where = self.rng.integers(0, self.world.contexts, total)
        if self.listing.noise or self.listing.tie:
            logs, drawn = self._noisy(where)
        else:
            logs = self.world.logprobs()[where, :K]
            drawn = self._drawn_ranks(where)
        ids = (np.arange(K) + 31 * where[:, None] % v) % v
        chosen = (drawn + 31 * where % v) % v
        value = np.where(
            drawn < K, np.take_along_axis(logs, np.minimum(drawn, K - 1)[:, None], 1)[:, 0], 0.0
        )
        far = drawn >= K
        value[far] = self.world.logprobs()[where[far], drawn[far]]
        logs, top = logs.astype(np.float32), ids.copy()
        if self.listing.guest:
            out = drawn >= K - 1
            top[out, -1], logs[out, -1] = PAD, -np.inf
        answer = _drawn(logs, top, chosen, value.astype(np.float32), (tokens,) * n, K)
        if self.listing.fragments:
            answer = _without_fragments(answer)
        return _ended(answer, tokens, self.listing) if self.listing.ends else answer

    def _drawn_ranks(self, where: np.ndarray) -> np.ndarray:
        sums = _sums(self.world, _told(self.params), self.order, self.fault)
        n = self.world.vocabulary
        found = np.searchsorted(sums, where + self.rng.random(len(where)) * (1 - 1e-12), "right")
        return np.minimum(found - where * n, n - 1)

    def _noisy(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logs = self.world.logprobs()[where]
        logs = logs + self.rng.normal(0, self.listing.noise or 1e-9, logs.shape)
        if self.listing.tie:
            logs = np.round(logs / self.listing.tie) * self.listing.tie
        logs = np.sort(logs, axis=1)[:, ::-1]
        logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        drawn = np.empty(len(where), np.int64)
        for i, row in enumerate(logs):
            q = _law(row, dict(_told(self.params)), self.order, self.fault)
            drawn[i] = min(np.searchsorted(np.cumsum(q), self.rng.random()), len(q) - 1)
        return logs[:, :K], drawn


_END = 10**6


def _told(params: Mapping[str, object]) -> tuple:
    return tuple(sorted((k, params[k]) for k in ("temperature", "top_k", "top_p", "min_p")))


@cache
def _sums(world: SamplerWorld, told: tuple, order: tuple[str, ...], fault: Faulty) -> np.ndarray:
    """Cumulative laws of all contexts in one array: context c's lie within c and c + 1."""
    sums = np.cumsum(_laws(world, told, order, fault), axis=1)
    sums /= sums[:, -1:]
    return (sums + np.arange(len(sums))[:, None]).ravel()


def _drawn(
    logs: np.ndarray,
    top: np.ndarray,
    chosen: np.ndarray,
    value: np.ndarray,
    lengths: tuple[int, ...],
    k: int,
) -> Drawn:
    n = len(chosen)
    rows = Rows(
        chosen.astype(np.int64),
        value.astype(np.float32),
        top.astype(np.int64),
        logs.astype(np.float32),
        np.ones(n, np.bool_),
        Match.ID,
    )
    return Drawn(rows, lengths, ("length",) * len(lengths), n, k)


def _without_fragments(answer: Drawn) -> Drawn:
    """Tokens that are parts of a character: a position without numbers, its token known."""
    rows = answer.rows
    gone = rows.chosen % FRAGMENT == 0
    logs, top = rows.top_logprob.copy(), rows.top.copy()
    logs[gone], top[gone] = -np.inf, PAD
    value = np.where(gone, np.nan, rows.logprob).astype(np.float32)
    pieces = {int(c): "" for c in rows.chosen[gone]}
    faults = {"no log-probability": int(gone.sum())}
    return replace(
        answer, rows=Rows(rows.chosen, value, top, logs, ~gone, rows.match, pieces, faults)
    )


def _ended(answer: Drawn, tokens: int, listing: Listing) -> Drawn:
    """A text ends where the fourth token of the list was drawn in every other context: that
    token is the end there, in the lists as well."""
    rows = answer.rows
    top, chosen = rows.top.copy(), rows.chosen.copy()
    ending = rows.top[:, 0] % 2 == 0
    hit = ending & (chosen == top[:, 3])
    top[ending, 3] = _END
    chosen[hit] = _END
    keep, lengths, finish, ended = [], [], [], 0
    for start in range(0, len(chosen), tokens):
        ends = np.flatnonzero(hit[start : start + tokens])
        stop = int(ends[0]) if len(ends) else tokens
        rest = stop + (1 if len(ends) and listing.ends_listed else 0)
        keep += list(range(start, start + rest))
        lengths.append(rest)
        finish.append("stop" if len(ends) else "length")
        ended += len(ends) > 0 and not listing.ends_listed
    at = np.array(keep, int)
    cut = Rows(
        chosen[at], rows.logprob[at], top[at], rows.top_logprob[at], rows.usable[at], rows.match,
        rows.pieces, rows.faults,
    )  # fmt: skip
    return Drawn(
        cut, tuple(lengths), tuple(finish), len(at) + ended, answer.top_logprobs,
        _END if ended else None,
    )  # fmt: skip


def prompts(units: int) -> dict[str, Prompt]:
    return {
        f"p-{i:03d}": Prompt(f"p-{i:03d}", "short", (Message("user", f"Question {i}?"),))
        for i in range(units)
    }


def plan_of(stage: StageSpec, units: int = UNITS, root: str = "b" * 64) -> Plan:
    return Plan((stage,), "0" * 64, tuple(prompts(units)), (units,), root)


def context(
    stage: StageSpec,
    seen: Mapping[Tag, Observation],
    engine: EngineInfo,
    *,
    arm: Arm = Arm.CANDIDATE,
    baseline: Observed | None = None,
    part: tuple[int, int] = (0, 0),
) -> Context:
    plan = plan_of(stage, root="b" * 64 if arm is Arm.CANDIDATE else "")
    return Context(
        stage,
        plan,
        prompts(UNITS),
        {"sampling": seen},
        arm=arm,
        baseline=baseline,
        engines={(arm, 0): engine},
        part=part,
    )


def observe(where: Context, server: Sampling) -> Context:
    """The stage's own asking, answered by the server; what it is sent is in ``seen`` at once."""
    seen: dict[Tag, Observation] = dict(where.seen["sampling"])
    live = replace(where, seen={"sampling": seen})
    asking, answers = STAGE.ask(live), None
    while True:
        try:
            wanted = next(asking) if answers is None else asking.send(answers)
        except StopIteration:
            return live
        answers = [Observation(c.tag, digest(c), server.answer(c)) for c in wanted.calls]
        seen.update({o.tag: o for o in answers})


def run(stage: StageSpec, server: Sampling, **named: object) -> Context:
    """A whole run of the stage, from the first question to the last."""
    return observe(context(stage, {}, server.engine, **named), server)  # type: ignore[arg-type]
