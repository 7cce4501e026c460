"""Stage `niah`: does the engine still find a needle in a haystack of its full context?

One item: about 8,000 tokens of unrelated sentences, in the middle of them "Remember this: the
secret code is 4831927.", and at the end "What is the secret code that the text above tells you
to remember?". "4831927" is right, and so is "4,831,927"; a refusal, another code or an empty
text is wrong.

Long context is what a quantized KV cache, another attention kernel or another RoPE scaling
damages first, and what short prompts never see. The loss is judged pair by pair against the
baseline's answers to the very same texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iqaction.calls import Arm, Capability, Failure
from iqaction.plan import Plan, StageSpec
from iqaction.report import StageResult, Versus
from iqaction.stages import _versus_items
from iqaction.stages._base import Asking, Context, OwnStage, Param, Round, in_flight
from iqaction.stages._niah_items import (
    ESTIMATE,
    MOST_ITEMS,
    MOST_TOKENS,
    NIAH,
    code,
    fits,
    is_comparable,
    is_overflow,
    items,
    measuring,
    mine,
    numbers,
    questions,
)
from iqaction.stages._niah_judge import judge
from iqaction.stages._niah_reach import out_of_reach
from iqaction.stages._paired_items import AGAIN, Questions
from iqaction.stages._paired_unit import unit_of
from iqaction.stages._unit import Unit

_LEAST_FILLER = 32  # tokens, in the shortest text

PARAMS = (
    Param(
        "lengths",
        "numbers",
        (2048, 4096, 8192),
        "tokens that a question and its answer may take",
        64,
        4_000_000,
    ),
    Param("depths", "numbers", (0.1, 0.5, 0.9), "share of the text that precedes the code", 0, 1),
    Param("trials", "int", 5, "questions at each length and depth", 1, 1000),
    Param("max_tokens", "int", 32, "longest answer", 8, 100_000),
    # The fewest points that the 45 questions above can exclude a loss of.
    Param("margin", "share", 0.08, "answers that may be lost, a share", 0.001, 0.099),
    Param("concurrency", "int_or_auto", "auto", "requests in flight; auto: as traffic", 1, 1024),
    Param("chat_template_kwargs", "object", "", "passed to the chat template"),
)


class Niah(OwnStage):
    """See the module's docstring."""

    params = PARAMS
    margins: Mapping[str, float | None] = {}
    comparable = ("lengths", "depths", "trials", "max_tokens", "chat_template_kwargs")

    def check(self, spec: StageSpec, plan: Plan) -> str:
        lengths = numbers(spec, "lengths")
        parted = [n for n in lengths if n != int(n)]
        if parted:
            return f"a length is a whole number of tokens, and {parted[0]} is none"
        least = spec.integer("max_tokens") + ESTIMATE.frame + _LEAST_FILLER
        if min(lengths) < least:
            return (
                f"a length of {min(lengths)} tokens holds no haystack: the question and an answer "
                f"of max_tokens take about {least}"
            )
        if not items(spec):
            most = f"{MOST_ITEMS:,} questions or {MOST_TOKENS:,} tokens"
            return f"together these are more than {most}"
        return ""

    def out_of_reach(self, spec: StageSpec, plan: Plan) -> str:
        return out_of_reach(len(items(spec)), spec.number("margin"))

    def needs(self, spec: StageSpec, arm: Arm) -> frozenset[Capability]:
        """A chat. Lengths are estimated where there is no tokenizer."""
        return frozenset() if arm is Arm.REFERENCE else frozenset({Capability.CHAT})

    def ask(self, context: Context) -> Asking:
        """The lengths, in a capture; then every question, and once more what failed.

        Of a capture's relaunches the first is asked everything, for the floor, and no other.
        Nothing is asked that does not fit, or that the baseline cannot be compared on.
        """
        if context.launch > 1:
            return
        if context.arm is Arm.BASELINE:
            yield from measuring(context)
        reference = context.baseline.seen if context.baseline else context.seen
        kept = reference.get(NIAH, {})
        known = questions(context.spec, kept)
        engine = context.engines.get((context.arm, context.launch))
        units = [item.unit for item in mine(context) if fits(item, engine)]
        if context.arm is not Arm.BASELINE:
            units = [u for u in units if is_comparable(known, kept, u)]
        yield from _asking(context, known, units)

    def unit(self, context: Context, name: str) -> Unit | None:
        item = next((i for i in items(context.spec) if i.unit == name), None)
        if item is None:
            return None
        reference = context.baseline.seen if context.baseline else context.seen
        asked = questions(context.spec, reference.get(NIAH, {}))
        about = f"a needle at depth {item.depth:g} of {item.length:,} tokens"
        return unit_of(context, asked, name, about, code(context.spec, item))

    def judge(self, context: Context) -> StageResult:
        return judge(context)

    def versus(self, a: Context, b: Context) -> Versus:
        codes = {item.unit: code(a.spec, item) for item in items(a.spec)}
        return _versus_items.versus(_asked(a), _asked(b), _LINE, codes.__getitem__)


_LINE = _versus_items.Line("niah.found", "needle in a haystack: codes found", NIAH)


def _asked(context: Context) -> _versus_items.Asked:
    """The texts are those that the baseline was asked, whose lengths are in its evidence."""
    reference = context.baseline.seen if context.baseline else context.seen
    known = questions(context.spec, reference.get(NIAH, {}))
    return _versus_items.Asked(known, context.observed(NIAH), context.arm)


def _asking(context: Context, known: Questions, units: list[str]) -> Asking:
    if not units:
        return
    calls = tuple(known.call(u, known.tag(u, context.arm, context.launch)) for u in units)
    answers = yield Round(calls, in_flight(context.spec), "niah: needles")
    lost = {o.tag for o in answers if isinstance(o.answer, Failure) and not is_overflow(o.answer)}
    again = [replace(c.tag, attempt=AGAIN) for c in calls if c.tag in lost]
    if again:
        calls = tuple(known.call(tag.unit, tag) for tag in again)
        yield Round(calls, 1, "niah: failed once, asked again")


STAGE = Niah()
