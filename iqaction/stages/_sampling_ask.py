"""What is asked for `sampling`, and where its answers are found again. Judges nothing.

A set of draws is asked once; a second, fresh set only where the first one does not settle it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from iqaction.calls import Arm, Call, Draw, Drawn, Failure, Observation, Tag, digest
from iqaction.plan import Plan, StageSpec
from iqaction.prompts import Prompt, merge_kwargs
from iqaction.stages._base import TRAFFIC, Asking, Context, Round
from iqaction.stages._paths import FRESH, Kept, best

SAMPLING = "sampling"
RAW, OTHER = "raw", "raw-other"  # the first list at the plan's temperature, and at another one
_MOST_A_REQUEST = 16
_MOST_TOKENS = 1024  # of one answer: 20 listed tokens each make that 2 MB

Settles = Callable[[Context], bool]


@dataclass(frozen=True)
class Share:
    """One request: how many sequences of which prompt, and which of that prompt's it is."""

    unit: str
    number: int
    n: int


def asked_prompts(spec: StageSpec, plan: Plan) -> tuple[str, ...]:
    """The first prompts of the plan: the default set goes round all kinds of prompts."""
    return plan.prompt_ids[: min(_most(spec), plan.looks[0])]


def _most(spec: StageSpec) -> int:
    return min(spec.integer("prompts"), spec.integer("draws"))


def shares(spec: StageSpec, units: Sequence[str], places: Iterable[int]) -> tuple[Share, ...]:
    """The requests for ``units``, which stand at these ``places`` of the plan.

    A prompt's number of draws depends on its place and the settings only, not on how many prompts
    there are: parts of a plan, which do not know each other, ask what the whole would. Prompts
    come round in turn, so that a run that ends early has draws of all of them.
    """
    each, more = divmod(spec.integer("draws"), _most(spec))
    size, found = per_request(spec), []
    for unit, place in zip(units, places, strict=False):
        left = each + (place < more)
        for number in range(-(-left // size)):
            found.append(Share(unit, number, min(size, left - number * size)))
    return tuple(sorted(found, key=lambda share: share.number))


def per_request(spec: StageSpec) -> int:
    """How many sequences one request asks for, at most."""
    asked = spec.params["per_request"]
    auto = max(1, min(_MOST_A_REQUEST, _MOST_TOKENS // spec.integer("tokens")))
    return asked if isinstance(asked, int) else auto


def all_shares(spec: StageSpec, plan: Plan) -> tuple[Share, ...]:
    units = asked_prompts(spec, plan)
    return shares(spec, units, range(len(units)))


def _mine(context: Context) -> tuple[Share, ...]:
    """This machine's: a part's plan holds every so many-th prompt of the whole."""
    shard, of = context.part
    if not of:
        return all_shares(context.spec, context.plan)
    return shares(context.spec, context.plan.prompt_ids, range(shard - 1, _most(context.spec), of))


def ask(context: Context, settles: Settles) -> Asking:
    """Is the list raw; the draws; those that failed once more; and, unless the first set
    ``settles`` it, as many fresh ones.

    A part of a plan sees its own draws only and cannot tell: it asks both sets.
    """
    mine = _mine(context)
    if context.launch or not mine:
        return
    k = context.spec.integer("top_logprobs")
    for leg in (RAW, OTHER):
        for attempt in (0, 1):
            # Alone: a cap that the engine has on lists is found here, and holds for all draws.
            (said,) = yield Round(
                (_first(context, mine[0].unit, leg, k, attempt),), 1, "sampling: is the list raw"
            )
            if isinstance(said.answer, Drawn):
                k = said.answer.top_logprobs or k
                break
    yield from _set(context, mine, k, 0, "sampling: draws")
    if context.part[1] > 1 or not settles(context):
        yield from _set(context, mine, k, FRESH, "sampling: fresh draws")


def _set(context: Context, mine: Sequence[Share], k: int, attempt: int, label: str) -> Asking:
    calls = tuple(_draw(context, share, k, attempt) for share in mine)
    answers = yield Round(calls, TRAFFIC, label)
    failed = [s for s, said in zip(mine, answers, strict=False) if _failed(said)]
    if failed:
        again: tuple[Call, ...] = tuple(_draw(context, s, k, attempt + 1) for s in failed)
        yield Round(again, 1, "sampling: failed once, asked again")


def _failed(said: Observation) -> bool:
    return isinstance(said.answer, Failure)


def _draw(context: Context, share: Share, k: int, attempt: int) -> Draw:
    tag = Tag(context.arm, _leg(share.number), share.unit, context.launch, attempt)
    return _call(context.spec, context.prompts[tag.unit], tag, share.n, k)


def _first(context: Context, unit: str, leg: str, k: int, attempt: int) -> Draw:
    tag = Tag(context.arm, leg, unit, context.launch, attempt)
    return _call(context.spec, context.prompts[tag.unit], tag, 1, k)


def _call(spec: StageSpec, prompt: Prompt, tag: Tag, n: int, k: int) -> Draw:
    temperature = spec.number("temperature")
    return Draw(
        tag,
        prompt.messages,
        n,
        1 if tag.leg in (RAW, OTHER) else spec.integer("tokens"),
        other_temperature(temperature) if tag.leg == OTHER else temperature,
        spec.integer("top_k"),
        spec.number("top_p"),
        spec.number("min_p"),
        k,
        merge_kwargs(spec.text("chat_template_kwargs"), prompt.template_kwargs),
    )


def asked(kept: Kept, arm: Arm, spec: StageSpec, plan: Plan, prompts: Mapping[str, Prompt]) -> Kept:
    """What this plan asked of this arm, of all that is kept: an answer to another question is as
    good as none. A failure says nothing that could be another's.

    The list's length may be the plan's, or a shorter one that a first list showed the engine to
    have.
    """
    sizes = {_leg(s.number) + "/" + s.unit: s.n for s in all_shares(spec, plan)}
    units = set(asked_prompts(spec, plan))
    ours = {t: o for t, o in kept.items() if t.arm is arm and not t.launch and t.unit in units}
    most = spec.integer("top_logprobs")
    caps = {
        o.answer.top_logprobs
        for t, o in ours.items()
        if t.leg in (RAW, OTHER) and isinstance(o.answer, Drawn)
    }
    lengths = (most, *sorted(k for k in caps if k > 0 and k != most))
    found = {}
    for tag, said in ours.items():
        n = 1 if tag.leg in (RAW, OTHER) else sizes.get(f"{tag.leg}/{tag.unit}", 0)
        prompt = prompts.get(tag.unit)
        if isinstance(said.answer, Failure):
            found[tag] = said
        elif n and prompt is not None and _is_usable(said.answer):
            calls = (_call(spec, prompt, tag, n, k) for k in lengths)
            if any(digest(call) == said.call_sha256 for call in calls):
                found[tag] = said
    return found


def _is_usable(answer: object) -> bool:
    return isinstance(answer, Drawn) and answer.top_logprobs >= 0


def other_temperature(temperature: float) -> float:
    """At which a list that was divided by the temperature looks another."""
    return 2 * temperature if temperature <= 1 else temperature / 2


def _leg(number: int) -> str:
    return f"draws-{number}"


def drawn(kept: Kept, arm: Arm, share: Share, *, fresh: bool) -> Drawn | Failure | None:
    """The answer to one request; None where it was never asked."""
    first = FRESH if fresh else 0
    answer = best(kept, Tag(arm, _leg(share.number), share.unit), (first, first + 1))
    return answer if isinstance(answer, (Drawn, Failure)) else None


def first_list(kept: Kept, arm: Arm, unit: str, leg: str) -> Drawn | Failure | None:
    """The one position asked for at the plan's temperature (``RAW``) or another (``OTHER``)."""
    answer = best(kept, Tag(arm, leg, unit))
    return answer if isinstance(answer, (Drawn, Failure)) else None
