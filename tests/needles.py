"""Servers that look for a needle in what they are sent, for tests of the stage `niah`.

    baseline = captured(Server(), trials=2)
    observed = compared(Server(finds=below(5000)), baseline)

A server's tokens are words and marks, so that lengths can be checked without a real tokenizer.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from iqaction import runner
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Capability,
    Chat,
    EngineInfo,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Tag,
    TokenIds,
    Tokenize,
    digest,
)
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec, Value
from iqaction.progress import Quiet
from iqaction.report import Check, StageResult
from iqaction.stages import niah
from iqaction.stages._base import Context

ROOT = "b" * 64
TOO_LONG = "chat: HTTP 400: This model's maximum context length is {} tokens"
SMALL: Mapping[str, Value] = {"lengths": (256, 512), "depths": (0.1, 0.5, 0.9), "trials": 8}
"""48 questions that are quickly written."""


def tokens(text: str) -> tuple[int, ...]:
    """Words and marks, each as a number."""
    return tuple(zlib.crc32(w.encode()) % 50_000 for w in re.findall(r"\w+|[^\w\s]", text))


def always(n: int, at: float, unit: str) -> bool:
    return True


def below(length: int) -> Callable[[int, float, str], bool]:
    """Finds the needle in texts of fewer tokens."""
    return lambda n, at, unit: n < length


def spare(units: set[str]) -> Callable[[int, float, str], bool]:
    """Finds every needle but those."""
    return lambda n, at, unit: unit not in units


@dataclass
class Server:
    """One engine.

    Attributes
    ----------
    finds
        Whether it finds the needle: tokens of the prompt, share of the text before the needle,
        unit.
    answers
        What it writes, given the code, or "" where it did not find it.
    context
        The longest prompt; longer ones get HTTP 400. ``told`` is whether it says so before.
    cut
        Prompts longer than that lose their middle without a word.
    system
        Tokens that the server puts before every chat.
    fails
        The failure of a call, or None to answer it.
    """

    finds: Callable[[int, float, str], bool] = always
    answers: Callable[[str], str] = lambda code: code or "I do not know."
    finish: str = "stop"
    reasoning: str = ""
    context: int | None = None
    told: bool = True
    cut: int | None = None
    system: int = 12
    tokenizes: bool = True
    counts: bool = True
    told_ids: bool = False
    fails: Callable[[Call], Failure | None] = lambda call: None
    version: str = "2.0"
    calls: list[Call] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def engine(self) -> EngineInfo:
        able = {Capability.CHAT} | ({Capability.TOKENIZE} if self.tokenizes else set())
        most = self.context if self.told else None
        return EngineInfo(
            "openai", self.version, "m", capabilities=frozenset(able), max_model_len=most
        )

    def __call__(self, call: Call) -> Observation:
        with self._lock:
            self.calls.append(call)
        return Observation(call.tag, digest(call), self.fails(call) or self._answer(call))

    @property
    def chats(self) -> list[Chat]:
        return [c for c in self.calls if isinstance(c, Chat) and c.tag.leg == "niah"]

    def _answer(self, call: Call) -> Answer:
        if isinstance(call, Tokenize):
            if call.text is not None:
                return TokenIds(tokens(call.text))
            return TokenIds((*range(self.system), *tokens(call.messages[0].content)))
        assert isinstance(call, Chat)
        prompt = (*range(self.system), *tokens(call.messages[0].content))
        if self.context is not None and len(prompt) + call.max_tokens > self.context:
            return Failure(FailureKind.UNSUPPORTED, TOO_LONG.format(self.context), 400)
        prompt = prompt if self.cut is None else prompt[: self.cut]
        return self._said(call, prompt)

    def _said(self, call: Chat, prompt: tuple[int, ...]) -> Generation:
        text = call.messages[0].content
        found = re.search(r"secret code is (\d{7})\.", text)
        code = ""
        if found is not None and self.finds(len(prompt), found.start() / len(text), call.tag.unit):
            code = found.group(1)
        return Generation(
            self.answers(code),
            self.finish,
            reasoning=self.reasoning,
            prompt_ids=prompt if self.told_ids else None,
            prompt_tokens=len(prompt) if self.counts else None,
        )


def spec(**params: Value) -> StageSpec:
    """The stage with its defaults, but the small questions, and ``params`` over them."""
    seed = params.pop("seed", 0)
    assert isinstance(seed, int)
    defaults = {p.name: p.default for p in niah.PARAMS}
    return StageSpec("niah", {**defaults, **SMALL, **params}, seed=seed)


def plan(root: str = "", **params: Value) -> Plan:
    return Plan((spec(**params),), "0" * 64, (), (0,), root)


def drive(
    plan: Plan,
    server: Server,
    arm: Arm,
    *,
    launch: int = 0,
    kept: runner.Kept | None = None,
    baseline: Observed | None = None,
    part: tuple[int, int] = (0, 0),
) -> Observed:
    """Observe one launch as a run does."""
    kept = {} if kept is None else kept
    job = runner.Job(
        plan,
        {},
        kept,
        {arm: runner.Connection(server.engine, server)},
        lambda stage, observation: None,
        lambda: 4,
        lambda look: False,
        arm,
        launch,
        baseline,
        part=part,
    )
    runner.observe(job, Quiet())
    return Observed(plan, {}, kept, {(arm, launch): server.engine}, baseline=baseline, root=ROOT)


def captured(server: Server | None = None, *, launches: int = 1, **params: Value) -> Observed:
    """A reference, and relaunches of the same server."""
    server = server or Server(version="1.0")
    asked, kept = plan(**params), {}
    for launch in range(launches + 1):
        drive(asked, server, Arm.REPEAT if launch else Arm.BASELINE, launch=launch, kept=kept)
    engines = {(Arm.REPEAT if n else Arm.BASELINE, n): server.engine for n in range(launches + 1)}
    return Observed(asked, {}, kept, engines, root=ROOT)


def compared(server: Server, baseline: Observed, **params: Value) -> Observed:
    """A candidate observed against a reference."""
    return drive(plan(ROOT, **params), server, Arm.CANDIDATE, baseline=baseline)


def result(observed: Observed) -> StageResult:
    """What the stage says of that evidence."""
    (asked,) = observed.plan.stages
    context = Context(
        asked,
        observed.plan,
        {},
        observed.seen,
        -1 if observed.plan.is_capture else 0,
        Arm.BASELINE if observed.plan.is_capture else Arm.CANDIDATE,
        0,
        observed.baseline,
        observed.engines,
    )
    return niah.STAGE.judge(context)


def check(found: StageResult, metric: str) -> Check:
    return next(c for c in found.checks if c.metric == metric)


def without(observed: Observed, tags: set[Tag]) -> Observed:
    """The evidence with those observations lost."""
    seen = {
        s: {t: o for t, o in kept.items() if t not in tags} for s, kept in observed.seen.items()
    }
    return replace(observed, seen=seen)
