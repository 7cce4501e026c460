"""Stage `trajectory`: does the engine write the same greedy text, and if not, does it matter?

One item: the prompt "What is the capital of France?" at temperature 0. The reference wrote
"The capital of France is Paris."; the candidate writes "L'Etoile, ...". They part at token 0,
where the reference held "The" at -1.88 nats and "L" at -1.96: a gap of .08 nats, a *tie*, which
two correct engines may break either way.
"""

from __future__ import annotations

from collections.abc import Mapping

from iqaction.calls import (
    Arm,
    Call,
    Capability,
    Chat,
    Failure,
    Generation,
    Tag,
    Tokenize,
)
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.prompts import Prompt, max_tokens, merge_kwargs
from iqaction.report import StageResult, Versus
from iqaction.stages import _versus_texts
from iqaction.stages._base import TRAFFIC, Asking, Context, Param, PromptStage, Round
from iqaction.stages._paths import FRESH, TRAJECTORY, generation
from iqaction.stages._trajectory_judge import guard_is_raised, judge, without_text

_ALONE = 3  # how many first requests may be spent alone on finding the log-probability cap

PARAMS = (
    Param("prompts", "text", "default", "prompt file (JSONL), or the built-in set `default`"),
    Param("limit", "int", 96, "prompts judged first; as many again are kept to extend", 1, 100_000),
    Param("max_tokens", "int", None, "longest text; a prompt's own limit may be lower", 1, 100_000),
    Param("top_logprobs", "int", 20, "tokens listed at each position", 0, 100),
    Param("concurrency", "int_or_auto", "auto", "requests in flight; auto: as traffic", 1, 1024),
    Param("chat_template_kwargs", "object", "", "passed to the chat template of every prompt"),
)


class Trajectory(PromptStage):
    """See the module's docstring."""

    params = PARAMS
    margins: Mapping[str, float | None] = {}
    comparable = ("max_tokens", "top_logprobs", "chat_template_kwargs")

    def check(self, spec: StageSpec, plan: Plan) -> str:
        return ""

    def needs(self, spec: StageSpec, arm: Arm) -> frozenset[Capability]:
        asked = arm is not Arm.REFERENCE
        return frozenset({Capability.CHAT}) if asked else frozenset()

    def as_traffic(self, spec: StageSpec) -> bool:
        return True

    def left_out(self, spec: StageSpec, baseline: Observed) -> Mapping[str, str]:
        kept = baseline.seen.get(TRAJECTORY, {})
        gaps = without_text(baseline, baseline.plan.prompt_ids)
        # One that was never asked is no limit of the baseline's: it stays, as a gap.
        return {u: why for u, why in gaps.items() if generation(kept, Arm.BASELINE, u) is not None}

    def ask(self, context: Context) -> Asking:
        """The texts, then prompt ids where the answers lacked them, then failures once more."""
        if context.launch and not _live(context.plan):
            return
        prompts = list(context.units)
        k = context.spec.integer("top_logprobs")
        answered: dict[str, Generation | Failure] = {}
        # Alone, so that a cap found on the way holds for all: rows of different k do not compare.
        # A list that is missing without a word may be a glitch: three in a row are believed.
        cap = k
        for prompt in prompts[:_ALONE]:
            (observation,) = yield Round(
                (_chat(context, prompt, k),), 1, "trajectory: first request, alone"
            )
            answered[prompt.id] = _kept(observation.answer)
            if isinstance(observation.answer, Generation):
                cap = observation.answer.top_logprobs
                if cap or not k:
                    break
        k = cap
        rest = [p for p in prompts if p.id not in answered]
        if rest:
            calls = tuple(_chat(context, p, k) for p in rest)
            for observation in (yield Round(calls, TRAFFIC, "trajectory: texts")):
                answered[observation.tag.unit] = _kept(observation.answer)
        failed = [p for p in prompts if _lacks(answered[p.id], k)]
        if failed:
            again = tuple(_chat(context, p, k, attempt=1) for p in failed)
            for observation in (yield Round(again, 1, "trajectory: failed once, asked again")):
                if isinstance(observation.answer, Generation):
                    answered[observation.tag.unit] = observation.answer
        yield from _template(context, prompts, answered)
        if context.baseline is not None and guard_is_raised(context):
            fresh = tuple(_chat(context, p, k, attempt=FRESH) for p in prompts)
            yield Round(fresh, TRAFFIC, "trajectory: fresh texts, the guard was raised")

    def judge(self, context: Context) -> StageResult:
        return judge(context)

    def versus(self, a: Context, b: Context) -> Versus:
        return _versus_texts.versus(a, b)


def _template(
    context: Context, prompts: list[Prompt], answered: Mapping[str, Generation | Failure]
) -> Asking:
    engine = context.engines.get((context.arm, context.launch))
    if engine is None or Capability.TOKENIZE not in engine.capabilities:
        return
    calls: list[Call] = []
    for prompt in prompts:
        answer = answered[prompt.id]
        if isinstance(answer, Generation) and answer.prompt_ids is None:
            tag = Tag(context.arm, "template", prompt.id, context.launch)
            kwargs = merge_kwargs(context.spec.text("chat_template_kwargs"), prompt.template_kwargs)
            calls.append(Tokenize(tag, None, prompt.messages, kwargs))
    if calls:
        yield Round(tuple(calls), 1, "trajectory: prompt token ids")


def _chat(context: Context, prompt: Prompt, k: int, attempt: int = 0) -> Chat:
    spec = context.spec
    plan_limit = spec.params.get("max_tokens")
    return Chat(
        Tag(context.arm, TRAJECTORY, prompt.id, context.launch, attempt),
        prompt.messages,
        max_tokens(plan_limit if isinstance(plan_limit, int) else None, prompt),
        temperature=0.0,
        seed=spec.seed,
        top_logprobs=k,
        template_kwargs=merge_kwargs(spec.text("chat_template_kwargs"), prompt.template_kwargs),
    )


def _kept(answer: object) -> Generation | Failure:
    assert isinstance(answer, (Generation, Failure))  # a Chat has no other answer
    return answer


def _lacks(answer: Generation | Failure, k: int) -> bool:
    """True for no answer, and for one without the lists that the others came with."""
    return isinstance(answer, Failure) or (k > 0 and answer.top_logprobs == 0)


def _live(plan: Plan) -> bool:
    """True where a live reference is planned: then a relaunch needs texts of its own."""
    score = plan.stage("score")
    return score is not None and bool(score.params.get("reference"))


STAGE = Trajectory()
