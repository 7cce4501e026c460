"""Stage `sampling`: does the sampler draw from its own log-probabilities?

One item: at temperature 0.6, top_k 20 and top_p 0.95, after "The capital of France", the engine
drew " is" and listed, before any filter, " is" -0.22, "," -1.90, " has" -3.83, ... nats. Raised
to 1 / 0.6 and cut at 95 % these leave " is" .94 and "," .06: the draw was one that happens 94
times of 100. Over 16,000 such draws the sampler's own temperature shows to within a few percent.
"""

from __future__ import annotations

from collections.abc import Mapping

from iqaction.calls import Arm, Capability
from iqaction.plan import Plan, StageSpec
from iqaction.report import StageResult
from iqaction.stages import _sampling_ask, _sampling_judge
from iqaction.stages._base import Asking, Context, OwnStage, Param

PARAMS = (
    Param("temperature", "float", 1.0, "of every draw", 0, 5),
    Param("top_k", "int", 20, "the most likely tokens kept; 0: all", 0, 1_000_000),
    Param("top_p", "float", 0.95, "share of the probability kept; 1: all", 0, 1),
    Param("min_p", "float", 0.0, "least share of the top token's probability; 0: any", 0, 1),
    Param("prompts", "int", 32, "the plan's first so many prompts", 1, 100_000),
    Param("draws", "int", 256, "sampled texts, over all prompts", 1, 1_000_000),
    Param("tokens", "int", 64, "length of each", 1, 100_000),
    Param("per_request", "int_or_auto", "auto", "texts asked for in one request", 1, 256),
    Param("top_logprobs", "int", 20, "tokens listed at each position", 2, 100),
    Param("chat_template_kwargs", "object", "", "passed to the chat template of every prompt"),
)
_FEWEST = 2800  # positions: fewer cannot rule out a temperature 5 % off, however flat the lists
_LEAST_TEMPERATURE = 0.05


class Sampling(OwnStage):
    """See the module's docstring. A sampler is compared with its own log-probabilities, so that it
    needs no baseline; where there is one its sampler is judged as well, and shown beside."""

    params = PARAMS
    margins: Mapping[str, float | None] = {}
    comparable = ("temperature", "top_k", "top_p", "min_p")
    stands_alone = True

    def out_of_reach(self, spec: StageSpec, plan: Plan) -> str:
        n = 2 * spec.integer("tokens") * _draws(spec, plan)
        if n >= _FEWEST:
            return ""
        return (
            f"cannot PASS: {n // 2} positions, asked for twice at most, and fewer than {_FEWEST} "
            "cannot rule out a temperature 5 % off"
        )

    def check(self, spec: StageSpec, plan: Plan) -> str:
        temperature = spec.number("temperature")
        if temperature == 0:
            return "at temperature 0 nothing is drawn: `trajectory` judges greedy texts"
        if temperature < _LEAST_TEMPERATURE:
            return f"temperature {temperature:g} is as good as greedy: at least 0.05"
        if spec.integer("top_k") == 1 or not spec.number("top_p") or spec.number("min_p") == 1:
            return "these filters keep one token: nothing is drawn"
        return ""

    def needs(self, spec: StageSpec, arm: Arm) -> frozenset[Capability]:
        asked = arm in (Arm.CANDIDATE, Arm.BASELINE)
        return frozenset({Capability.CHAT, Capability.TOP_LOGPROBS}) if asked else frozenset()

    def as_traffic(self, spec: StageSpec) -> bool:
        return True

    def ask(self, context: Context) -> Asking:
        yield from _sampling_ask.ask(context, _sampling_judge.settles)

    def judge(self, context: Context) -> StageResult:
        return _sampling_judge.judge(context)


def _draws(spec: StageSpec, plan: Plan) -> int:
    return sum(share.n for share in _sampling_ask.all_shares(spec, plan))


STAGE = Sampling()
