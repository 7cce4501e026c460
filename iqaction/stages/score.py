"""Stage `score`: are the model's log-probabilities still the model's?

One item: the reference's answer "The capital of France is Paris." is forced, token by token,
through the candidate (reference leg): at " Paris" the reference held -0.26 nats and the candidate
holds -0.27; both would have written it. Then the candidate's own answer is forced through the
candidate itself (self leg): what it decoded under load must score the same alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from iqaction.calls import Arm, Capability
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.report import StageResult, Versus
from iqaction.stages import _live, _score_ask, _score_judge, _versus_score
from iqaction.stages._base import Asking, Context, Param, PromptStage
from iqaction.stages._paths import TRAJECTORY
from iqaction.stages._required import evidence_lost, references

PARAMS = (
    Param(
        "legs",
        "names",
        ("reference", "self"),
        "which legs are judged; without `self`, decoding under load is not covered",
        choices=("reference", "self"),
    ),
    Param(
        "floor",
        "choice",
        "launches",
        "`launches`: the baseline's relaunches; `single`: go without, and say so",
        choices=("launches", "single"),
    ),
    Param("reference", "url", "", "URL of a live higher-precision server to compare with"),
    Param("reference_model", "text", "", "its model name; empty: whatever it serves"),
    Param("reference_dialect", "text", "auto", "its dialect"),
    Param("tokenizer", "text", "", "Hugging Face tokenizer for a reference that cannot tokenize"),
)


class Score(PromptStage):
    """See the module's docstring."""

    params = PARAMS
    margins: Mapping[str, float | None] = {
        "kl": 0.02,
        "decisive": 0.005,
        "nll": 0.05,
        "tv": None,
        "agreement": None,
    }
    comparable = ()
    follows_baseline = True

    def check(self, spec: StageSpec, plan: Plan) -> str:
        trajectory = plan.stage(TRAJECTORY)
        if trajectory is None:
            return "`score` forces what `trajectory` observed: add `- trajectory` before it"
        order = [s.stage for s in plan.stages]
        if order.index(TRAJECTORY) > order.index("score"):
            return "`trajectory` must come before `score`"
        if not spec.names("legs"):
            return "`legs` is empty: name at least `reference`"
        if "reference" not in spec.names("legs") and not spec.text("reference"):
            return "without the `reference` leg or a live `reference` no change of the model shows"
        listed = trajectory.params.get("top_logprobs")
        if isinstance(listed, int) and listed < 2:
            return f"`trajectory` has top_logprobs {listed}, and `score` compares lists (20)"
        return ""

    def needs(self, spec: StageSpec, arm: Arm) -> frozenset[Capability]:
        live = bool(spec.text("reference"))
        forces = {
            Arm.REFERENCE: live,
            Arm.CANDIDATE: "self" in spec.names("legs") or not live,
            Arm.BASELINE: True,
            Arm.REPEAT: not live,
        }
        return frozenset({Capability.FORCE}) if forces[arm] else frozenset()

    def left_out(self, spec: StageSpec, baseline: Observed) -> Mapping[str, str]:
        if spec.text("reference"):
            return {}  # what the live reference makes of the baseline's texts is not yet known
        gaps = references(baseline, baseline.plan.prompt_ids)[1]
        return {u: why for u, why in gaps.items() if not evidence_lost(baseline, u)}

    def ask(self, context: Context) -> Asking:
        if context.baseline is None:
            yield from _score_ask.capture(context)
            return
        if context.spec.text("reference"):
            yield from _live.ask(context)
        yield from _score_ask.candidate(context, context.baseline)

    def judge(self, context: Context) -> StageResult:
        return _score_judge.judge(context)

    def versus(self, a: Context, b: Context) -> Versus:
        return _versus_score.versus(a, b)


STAGE = Score()
