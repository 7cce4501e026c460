"""A stage asks, then judges. It does no I/O: the runner sends what it yields.

``ask`` is a generator: it yields rounds of calls and is sent their observations, in the calls'
order. ``judge`` sees observations only, so the same evidence always gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from iqaction.calls import Arm, Call, Capability, Observation, Tag
from iqaction.observed import Engines, Observed, Seen
from iqaction.plan import Plan, StageSpec, Value
from iqaction.prompts import Prompt
from iqaction.report import StageResult, Versus
from iqaction.stages._unit import Unit


@dataclass(frozen=True)
class Param:
    """One parameter of a stage in the plan file.

    ``kind`` is "int", "float", "bool", "text", "url", "names" (list of ``choices``), "numbers"
    (kept in rising order), "int_or_auto", "object" (kept as canonical JSON), "choice", "duration"
    (kept in seconds, written as 20m) or "share" (kept as a fraction, written as 2% or 2pp).
    ``low`` and ``high`` are inclusive.
    """

    name: str
    kind: str
    default: Value
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


TRAFFIC = 0


@dataclass(frozen=True)
class Round:
    """Calls that may be sent together.

    ``concurrency`` 1 is one at a time; ``TRAFFIC`` is what traffic sees (the runner finds out:
    the plan's number, the baseline's, the engine's own, else a timing probe). With a budget,
    calls are sent in their order until the next is projected to end past it; the answers are then
    fewer than the calls, and the first that was not sent has a ``FailureKind.BUDGET``.
    """

    calls: tuple[Call, ...]
    concurrency: int = 1
    label: str = ""  # for progress, as "score: reference leg"
    budget_s: float = 0.0  # 0: none


def in_flight(spec: StageSpec) -> int:
    """A round's concurrency where a stage has the parameter: the plan's number, else as traffic."""
    planned = spec.params["concurrency"]
    return planned if isinstance(planned, int) else TRAFFIC


Asking = Generator[Round, Sequence[Observation], None]


@dataclass(frozen=True)
class Context:
    """All that a stage may look at.

    Attributes
    ----------
    prompts
        By id; every prompt of the plan.
    look
        Which of ``plan.looks`` is asked or judged; units are ``plan.prompt_ids[:looks[look]]``.
    arm, launch
        Whom this run observes: CANDIDATE, or in a capture BASELINE (launch 0) or REPEAT.
    seen
        A live view: an answer is in it by the time ``ask`` is resumed with it.
    engines
        Who answers, by (arm, launch).
    data
        The file that the stage's own questions come from, as ``Stage.convert`` gave it; b"" where
        it has none.
    part
        Which part of how many is asked here, for stages with questions of their own (see
        ``iqaction.shards``); (0, 0) is the whole. The prompts of the plan are parted already.
    """

    spec: StageSpec
    plan: Plan
    prompts: Mapping[str, Prompt]
    seen: Seen
    look: int = 0
    arm: Arm = Arm.CANDIDATE
    launch: int = 0
    baseline: Observed | None = None
    engines: Engines = field(default_factory=dict)
    data: bytes = b""
    part: tuple[int, int] = (0, 0)

    @property
    def units(self) -> tuple[Prompt, ...]:
        """The prompts of this look, in the plan's order."""
        if self.look < 0:  # a capture asks all that any look may need
            ids = self.plan.prompt_ids
        else:
            ids = self.plan.prompt_ids[: self.plan.looks[self.look]]
        return tuple(self.prompts[i] for i in ids if i in self.prompts)

    def observed(self, stage: str) -> Mapping[Tag, Observation]:
        return self.seen.get(stage, {})


class Stage(Protocol):
    """What a file in ``stages/`` offers as ``STAGE``."""

    @property
    def params(self) -> tuple[Param, ...]: ...

    @property
    def margins(self) -> Mapping[str, float | None]:
        """Default margin by metric that may be judged; None: judged only if the plan says."""
        ...

    @property
    def comparable(self) -> tuple[str, ...]:
        """Parameters that shape the questions: both arms must have the same."""
        ...

    @property
    def stands_alone(self) -> bool:
        """True where it judges a candidate also against a baseline that was captured without."""
        ...

    @property
    def follows_baseline(self) -> bool:
        """True where what it asks a candidate is made of what the baseline answered."""
        ...

    @property
    def about_prompts(self) -> bool:
        """True where its units are the plan's prompts."""
        ...

    def out_of_reach(self, spec: StageSpec, plan: Plan) -> str:
        """What keeps this spec from a PASS whatever is answered, in one sentence ("cannot PASS:
        ..."), to be said before the first request; "" where nothing."""
        ...

    def data(self, spec: StageSpec) -> str:
        """Where its own questions come from: "default", a path, or "" where it has none."""
        ...

    def convert(self, data: bytes, name: str) -> bytes:
        """A data file in the form that is kept and hashed. Raises ConfigError, naming the line."""
        ...

    def check(self, spec: StageSpec, plan: Plan) -> str:
        """What makes this spec impossible in this plan, in one sentence; "" where nothing."""
        ...

    def needs(self, spec: StageSpec, arm: Arm) -> frozenset[Capability]:
        """What the engine of that arm must be able to do."""
        ...

    def as_traffic(self, spec: StageSpec) -> bool:
        """True where it asks as traffic does, so that the load is kept beside its answers."""
        ...

    def left_out(self, spec: StageSpec, baseline: Observed) -> Mapping[str, str]:
        """The captured prompts that the baseline itself could not be judged on, with the reason:
        a plan that compares with it leaves them out."""
        ...

    def by_harness(self, spec: StageSpec) -> bool:
        """True where lm-evaluation-harness asks in its place: it has to be installed."""
        ...

    def unit(self, context: Context, name: str) -> Unit | None:
        """One of its own items whole, for a person; None where it has none of that name."""
        ...

    def ask(self, context: Context) -> Asking: ...

    def judge(self, context: Context) -> StageResult: ...

    def versus(self, a: Context, b: Context) -> Versus:
        """Two runs beside each other, for display: what can be paired, unit by unit."""
        ...


class _Usual:
    """What most stages have in common: no file of their own, and a baseline to compare with."""

    stands_alone = False
    follows_baseline = False

    def data(self, spec: StageSpec) -> str:
        return ""

    def convert(self, data: bytes, name: str) -> bytes:
        return data

    def versus(self, a: Context, b: Context) -> Versus:
        return Versus()

    def by_harness(self, spec: StageSpec) -> bool:
        return False

    def unit(self, context: Context, name: str) -> Unit | None:
        return None

    def as_traffic(self, spec: StageSpec) -> bool:
        return "concurrency" in spec.params and in_flight(spec) == TRAFFIC


class PromptStage(_Usual):
    """What stages share that ask about the plan's prompts and compare with a baseline."""

    about_prompts = True

    def out_of_reach(self, spec: StageSpec, plan: Plan) -> str:
        return ""


class OwnStage(_Usual):
    """What stages share that have questions of their own."""

    about_prompts = False

    def left_out(self, spec: StageSpec, baseline: Observed) -> Mapping[str, str]:
        return {}
