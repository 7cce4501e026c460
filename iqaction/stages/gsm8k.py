"""Stage `gsm8k`: does the engine still solve as many grade-school problems as its baseline?

One item: "Weng earns $12 an hour for babysitting. Yesterday, she just did 50 minutes of
babysitting. How much did she earn?" at temperature 0. The baseline wrote "... 12 x 50/60 = 10.
#### 10", which is right; the candidate writes "... 12 x .8 = 9.6. #### 9.60", which is not: one
lost. What was lost, less what was gained, is compared with a margin, item by item.

Where the plan says `backend: lm-eval`, lm-evaluation-harness asks its own task instead and its
figures are recorded, not judged: see `_gsm8k_harness`.

The problems come in an order that the plan's seed fixes, and are judged at six looks that were
fixed before: asking ends at the first that decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from iqaction.calls import (
    Arm,
    Capability,
    Failure,
    FailureKind,
    Observation,
)
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.report import StageResult, Versus
from iqaction.shards import part
from iqaction.stages import _gsm8k_data, _gsm8k_harness, _paired_reach, _versus_items
from iqaction.stages._base import Asking, Context, OwnStage, Param, Round, in_flight
from iqaction.stages._gsm8k_judge import WORDS, answer, judge, questions, refusal, whole
from iqaction.stages._gsm8k_prompt import WORDINGS
from iqaction.stages._paired_items import (
    AGAIN,
    LOOKS,
    Kind,
    Questions,
    covered,
    graded,
    settles,
)
from iqaction.stages._unit import Unit
from iqaction.stats.looks import equal_looks

_ALL = 1319  # rows of the pinned test split
_FLOOR = 200  # problems that the first relaunch is asked, for the share that flips by chance
_RETRY_SHARE = 0.1  # of the time budget, for what failed and is asked again

PARAMS = (
    Param("data", "text", "default", "JSONL or Parquet file; `default`: the public test split"),
    Param("limit", "int", _ALL, "problems at most, the first of the seed's order", 1, 100_000),
    Param("max_tokens", "int", 1024, "longest answer; one that is cut off is wrong", 1, 100_000),
    Param("concurrency", "int_or_auto", "auto", "requests in flight; auto: as traffic", 1, 1024),
    Param("time_budget", "duration", None, "no new problem is sent past it", 1, 604_800),
    Param("margin", "share", 0.02, "right answers that may be lost", 0.001, 0.099),
    Param("chat_template_kwargs", "object", "", "passed to the chat template"),
    Param("wording", "choice", "v1", "how a problem is put", choices=tuple(WORDINGS)),
    Param("backend", "choice", _gsm8k_harness.BUILTIN, "who asks", choices=_gsm8k_harness.BACKENDS),
)


class Gsm8k(OwnStage):
    """See the module's docstring."""

    params = PARAMS
    margins: Mapping[str, float | None] = {}
    comparable = ("data_sha256", "max_tokens", "chat_template_kwargs", "wording", "backend")

    def data(self, spec: StageSpec) -> str:
        return "" if self.by_harness(spec) else spec.text("data")

    def convert(self, data: bytes, name: str) -> bytes:
        return _gsm8k_data.convert(data, name)

    def by_harness(self, spec: StageSpec) -> bool:
        return _gsm8k_harness.is_meant(spec)

    def check(self, spec: StageSpec, plan: Plan) -> str:
        return _gsm8k_harness.check(spec, PARAMS) if self.by_harness(spec) else ""

    def out_of_reach(self, spec: StageSpec, plan: Plan) -> str:
        if self.by_harness(spec):
            return _gsm8k_harness.out_of_reach(spec)
        limit, margin = spec.integer("limit"), spec.number("margin")
        said = _paired_reach.out_of_reach(limit, margin, WORDS.many)
        return said.replace("cannot PASS", "cannot support a PASS") if plan.is_capture else said

    def needs(self, spec: StageSpec, arm: Arm) -> frozenset[Capability]:
        return frozenset({Capability.CHAT} if arm is not Arm.REFERENCE else ())

    def ask(self, context: Context) -> Asking:
        """The problems look by look until one decides, each look's failures once more; all at
        once where nothing can be decided on the way: in a capture, in a part of the plan, and
        where the time is limited."""
        if self.by_harness(context.spec):
            yield from _gsm8k_harness.ask(context)
            return
        if context.launch > 1 or refusal(context):
            return
        asked = questions(context)
        if context.launch:
            asked = replace(asked, units=asked.units[:_FLOOR])
        budget = _budget_s(context.spec)
        whole = context.arm is not Arm.CANDIDATE or any(context.part) or budget > 0
        done = 0
        for end in _ends(context, asked, whole=whole):
            units = part(asked.units[done:end], *context.part)
            yield from _round(context, asked, units)
            if context.baseline is not None and not whole and _settled(context, asked, end):
                return
            done = end

    def unit(self, context: Context, name: str) -> Unit | None:
        return None if self.by_harness(context.spec) else whole(context, name)

    def judge(self, context: Context) -> StageResult:
        if self.by_harness(context.spec):
            return _gsm8k_harness.judge(context)
        return judge(context)

    def versus(self, a: Context, b: Context) -> Versus:
        return _versus_items.versus(_asked(a), _asked(b), _LINE, answer(a))


_LINE = _versus_items.Line("gsm8k.accuracy", "GSM8K: right answers", WORDS.stage)


def _asked(context: Context) -> _versus_items.Asked:
    return _versus_items.Asked(questions(context), context.observed(WORDS.stage), context.arm)


def _budget_s(spec: StageSpec) -> float:
    return spec.number("time_budget") if spec.params.get("time_budget") else 0.0


def _ends(context: Context, asked: Questions, *, whole: bool) -> tuple[int, ...]:
    """Up to which item each round goes; never beyond what the baseline's own budget left."""
    n = len(asked.units)
    if context.baseline is not None:
        n = _captured(asked, context.baseline)
    if whole:
        return (n,) if n else ()
    looks = [look.n for look in equal_looks(len(asked.units), LOOKS) if look.n < n]
    return (*looks, n) if n else ()


def _captured(asked: Questions, baseline: Observed) -> int:
    kept = baseline.seen.get(WORDS.stage, {})
    for at, unit in enumerate(asked.units):
        if graded(asked, kept, unit, Arm.BASELINE).kind is Kind.UNSENT:
            return at
    return len(asked.units)


def _settled(context: Context, asked: Questions, end: int) -> bool:
    baseline = context.baseline
    if baseline is None:
        return False
    found = covered(asked, baseline, WORDS.stage, context.observed(WORDS.stage))
    return settles(found.first(end), context.spec.number("margin"))


def _round(context: Context, asked: Questions, units: Sequence[str]) -> Asking:
    """These problems; then those that failed, once more."""
    if not units:
        return
    budget, at_once = _budget_s(context.spec), in_flight(context.spec)
    tags = [asked.tag(unit, context.arm, context.launch) for unit in units]
    calls = tuple(asked.call(tag.unit, tag) for tag in tags)
    answers = yield Round(calls, at_once, "gsm8k: problems", budget)
    failed = [o.tag for o in answers if _is_lost(o)]
    if failed:
        again = tuple(asked.call(t.unit, replace(t, attempt=AGAIN)) for t in failed)
        label = "gsm8k: failed once, asked again"
        yield Round(again, at_once, label, budget * _RETRY_SHARE)


def _is_lost(observation: Observation) -> bool:
    answer = observation.answer
    return isinstance(answer, Failure) and answer.kind is not FailureKind.BUDGET


STAGE = Gsm8k()
