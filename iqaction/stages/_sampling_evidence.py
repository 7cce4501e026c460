"""One sampler's draws, read and weighed: what both arms of `sampling` have in common. Pure.

A *set* is all draws that the plan asks for, once. Nothing is concluded here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from iqaction.calls import Arm, Drawn, EngineInfo, Failure, FailureKind
from iqaction.counts import counted
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.stages._lost import NEVER
from iqaction.stages._paths import Kept
from iqaction.stages._sampling_ask import (
    SAMPLING,
    all_shares,
    asked,
    asked_prompts,
    drawn,
)
from iqaction.stages._sampling_raw import why_not_raw
from iqaction.stages._sampling_repeats import repeats
from iqaction.stages._sampling_rows import Positions, positions, width
from iqaction.stats.filters import Sampler
from iqaction.stats.sampling import Drawn as Weighed
from iqaction.stats.sampling import Sums, holm, pooled, sums, weighed

LEVEL = 0.01  # of a set, over its three tests; and only twice
_LEFT_OUT = "the engine refuses the field "  # as every dialect words it
_HARMLESS = (  # fields that do not change what is drawn
    *("seed", "n", "cache_prompt", "cache_salt", "return_tokens", "return_token_ids", "verbose"),
    *("return_tokens_as_token_ids", "return_meta_info", "return_prompt_token_ids"),
)
_TELLS_NO_FILTERS = ("openai",)  # the dialect of servers of which nothing else is known
_ROWS_LOST = "the log-probability rows are not one per generated token"  # seen by counting, too


@dataclass(frozen=True)
class Set:
    """One set of draws.

    Attributes
    ----------
    answers
        With their prompts, in the plan's order.
    failed, missing
        By prompt, why draws of it are not there.
    short
        Prompts of which the engine gave fewer sequences than asked.
    sequences, cut
        How many came of the prompts whose rows can be placed, and how many of these have neither
        the length asked for nor an end of the model's, or nothing but an end.
    """

    answers: tuple[tuple[str, Drawn], ...]
    failed: Mapping[str, str]
    missing: Mapping[str, str]
    short: tuple[str, ...]
    positions: Positions
    weighed: Weighed
    sequences: int = 0
    cut: int = 0

    @property
    def was_asked(self) -> bool:
        return bool(self.answers or self.failed)

    @property
    def is_whole(self) -> bool:
        return bool(self.answers) and not (self.failed or self.missing or self.short)

    @property
    def is_there(self) -> bool:
        return bool(self.answers)

    @property
    def tokens(self) -> int:
        return len(self.positions.place) + sum(self.positions.dropped.values())

    @cached_property
    def sums(self) -> Sums:
        return sums(self.weighed)

    @cached_property
    def flagged(self) -> tuple[str, ...]:
        return holm(self.sums.p, LEVEL)


@dataclass(frozen=True)
class Reading:
    """All that is known of one arm's sampler."""

    sampler: Sampler
    first: Set
    fresh: Set
    lists: str  # why the lists are not raw, or not known to be; "" where they are
    unmodelled: tuple[str, ...]

    @cached_property
    def both(self) -> Sums:
        return sums(pooled(self.first.weighed, self.fresh.weighed))

    @property
    def unsound(self) -> str:
        """Why nothing can be concluded from these draws, good or bad; "" where it can."""
        return "; ".join(x for x in (self.lists, *self.unmodelled) if x)


def read(seen: Observed, arm: Arm, spec: StageSpec) -> Reading:
    """What the evidence of one arm holds."""
    plan, engine = seen.plan, seen.engines.get((arm, 0))
    kept = asked(seen.seen.get(SAMPLING, {}), arm, spec, plan, seen.prompts)
    order = engine.filters if engine is not None else ()
    sampler = Sampler(
        spec.number("temperature"),
        spec.integer("top_k"),
        spec.number("top_p"),
        spec.number("min_p"),
        order,
        *_vocabulary(engine),
    )
    found = [_answers(kept, arm, spec, plan, fresh=fresh) for fresh in (False, True)]
    k = width(answer for answers, _ in found for _, answer in answers)
    first, fresh = (_set(answers, lacks, spec, plan, k, sampler) for answers, lacks in found)
    every = (*first.answers, *fresh.answers)
    return Reading(
        sampler,
        first,
        fresh,
        why_not_raw(kept, arm, asked_prompts(spec, plan)),
        (
            *_without_filters(engine),
            *_unmodelled(
                sampler,
                [answer for _, answer in every],
                first.positions.end_unknown or fresh.positions.end_unknown,
            ),
            *_dependent(every, sampler.temperature),
        ),
    )


def _without_filters(engine: EngineInfo | None) -> tuple[str, ...]:
    """An order that is not known leaves fewer positions, and wider limits to what may be drawn:
    what is striking by the engine's own order may not be by any. So it is only where the dialect
    has no order to tell that the positions where all orders agree are judged; a record that has
    lost its order, or all of a record, makes nothing PASS."""
    if engine is None:
        return ("there is no record of the engine",)
    if not engine.filters and engine.dialect not in _TELLS_NO_FILTERS:
        return ("the engine's record has lost the order of its filters",)
    return ()


def _vocabulary(engine: EngineInfo | None) -> tuple[int, ...]:
    told = engine.details.get("n_vocab", "") if engine is not None else ""
    return (int(told),) if told.isascii() and told.isdigit() and 0 < len(told) < 9 else ()


_Answers = tuple[tuple[str, Drawn], ...]


def _answers(
    kept: Kept, arm: Arm, spec: StageSpec, plan: Plan, *, fresh: bool
) -> tuple[_Answers, Mapping[str, Failure | None]]:
    answers: list[tuple[str, Drawn]] = []
    lacks: dict[str, Failure | None] = {}
    for share in all_shares(spec, plan):
        answer = drawn(kept, arm, share, fresh=fresh)
        if isinstance(answer, Drawn):
            answers.append((share.unit, answer))
        elif not isinstance(lacks.get(share.unit), Failure):
            lacks[share.unit] = answer
    return tuple(answers), lacks


def _set(
    answers: _Answers,
    lacks: Mapping[str, Failure | None],
    spec: StageSpec,
    plan: Plan,
    k: int,
    sampler: Sampler,
) -> Set:
    wanted: Counter[str] = Counter()
    for share in all_shares(spec, plan):
        wanted[share.unit] += share.n
    came: Counter[str] = Counter()
    for unit, answer in answers:
        came[unit] += sum(map(_has_come, *_sequences(answer)))
    told = {u: f for u, f in lacks.items() if isinstance(f, Failure)}
    failed = {u: f.message for u, f in told.items() if f.kind is not FailureKind.BUDGET}
    there = positions(answers, k)
    placed = [answer for unit, answer in answers if unit not in there.excluded]
    return Set(
        answers,
        failed,
        {u: NEVER for u in lacks if u not in failed},
        tuple(u for u, n in wanted.items() if u not in lacks and came[u] < n),
        there,
        weighed(there.logprobs, there.place, there.unlisted, sampler),
        sum(len(answer.lengths) for answer in placed),
        sum(_cut(answer, spec.integer("tokens")) for answer in placed),
    )


def _sequences(answer: Drawn) -> tuple[Sequence[int], Sequence[str], Sequence[bool]]:
    """Length, reason of the end and whether an end without a row is known, by sequence."""
    n = len(answer.lengths)
    reasons = (*answer.finish_reasons, *("",) * n)[:n]
    return answer.lengths, reasons, (answer.eos_id is not None,) * n


def _has_come(length: int, reason: str, end_known: bool) -> bool:
    """Nothing is no sequence, but where the model ended it at once."""
    return length > 0 or (reason == "stop" and end_known)


def _cut(answer: Drawn, tokens: int) -> int:
    lengths, reasons, _ = _sequences(answer)
    pairs = zip(lengths, reasons, strict=True)
    return sum(n < 1 or (n < tokens and reason != "stop") for n, reason in pairs)


def _unmodelled(sampler: Sampler, answers: Sequence[Drawn], end_unknown: bool) -> tuple[str, ...]:
    found = []
    if sampler.left_out:
        found.append(f"the engine has no step for {', '.join(sampler.left_out)}")
    if sampler.unknown:
        found.append(f"not modelled: {', '.join(sampler.unknown)}")
    if end_unknown:
        found.append("the end of a text has no row, and its token is not known")
    flags = Counter(flag for answer in answers for flag in answer.flags)
    found += [flag for flag, _ in flags.most_common() if not _is_harmless(flag)][:5]
    return tuple(found)


def _dependent(answers: _Answers, temperature: float) -> tuple[str, ...]:
    again = repeats(answers, temperature) if temperature > 0 else 0
    if not again:
        return ()
    return (
        f"{counted(again, 'draw repeats', 'draws repeat')} another one of the same prompt word for "
        "word: draws are not independent (a fixed seed?)",
    )


def _is_harmless(flag: str) -> bool:
    if not flag.startswith(_LEFT_OUT):
        return flag == _ROWS_LOST
    return flag.removeprefix(_LEFT_OUT).split(",")[0] in _HARMLESS
