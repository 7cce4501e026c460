"""Judging `gsm8k`: answers graded, paired with the baseline's, decided at a look. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from iqaction.calls import Arm, Call, Chat, Failure, FailureKind, Generation, Tag, digest
from iqaction.counts import counted
from iqaction.errors import ConfigError
from iqaction.graders import numbers
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.report import Check, Coverage, StageResult, Table
from iqaction.stages import (
    _gsm8k_data,
    _gsm8k_prompt,
    _movers,
    _paired_reach,
    _paired_report,
    _paired_tables,
)
from iqaction.stages._base import Context
from iqaction.stages._checks import unproven, verdict_of
from iqaction.stages._gsm8k_data import Problem
from iqaction.stages._paired_items import (
    Covered,
    Flips,
    Graded,
    Item,
    Kind,
    Questions,
    Read,
    completed,
    cover,
    coverage,
    covered,
    decide,
    faults,
    floor,
    graded,
    is_decided,
    permuted,
    right,
)
from iqaction.stages._paired_report import Words
from iqaction.stages._paired_unit import unit_of
from iqaction.stages._same_prompts import Same, same_prompts
from iqaction.stages._unit import Unit
from iqaction.stages._wording import share_of
from iqaction.stats.paired import Decision, Finding, too_few_solved
from iqaction.verdict import Verdict

WORDS = Words("gsm8k", "GSM8K", "problems")
_SAME = Same("gsm8k.template", "GSM8K: chat template")
_NAME = "the gsm8k data"
_FIRST = 8  # of the baseline's answers that are looked at before anything is asked


@dataclass(frozen=True)
class _Problems:
    """By unit, in the plan's order; empty with a reason where the data cannot be read."""

    by_unit: Mapping[str, Problem]
    fault: str = ""


def _problems(context: Context) -> _Problems:
    spec = context.spec
    return _ordered(context.data, spec.data_sha256, spec.seed, _limit(context))


@lru_cache(maxsize=4)
def _ordered(data: bytes, sha256: str, seed: int, limit: int) -> _Problems:
    if hashlib.sha256(data).hexdigest() != sha256:
        return _Problems({}, "the data file is not the one that the plan names")
    try:
        every = {p.unit: p for p in _gsm8k_data.parse(data, _NAME)}
    except ConfigError as exc:
        return _Problems({}, f"the data cannot be read: {exc.happened}")
    return _Problems({unit: every[unit] for unit in permuted(every, seed)[:limit]})


def _limit(context: Context) -> int:
    """The plan's, and no more than the baseline was asked: both were fixed before any answer."""
    asked = _captured_spec(context)
    limit = context.spec.integer("limit")
    theirs = asked.params.get("limit") if asked is not None else None
    return min(limit, theirs) if isinstance(theirs, int) else limit


def _captured_spec(context: Context) -> StageSpec | None:
    return context.baseline.plan.stage(WORDS.stage) if context.baseline else None


def questions(context: Context) -> Questions:
    """What is asked, in the plan's order; nothing where the data cannot be read."""
    spec, problems = context.spec, _problems(context).by_unit

    def call(unit: str, tag: Tag) -> Call:
        return Chat(
            tag,
            _gsm8k_prompt.messages(spec.text("wording"), problems[unit].question),
            spec.integer("max_tokens"),
            temperature=0.0,
            seed=spec.seed,
            template_kwargs=spec.text("chat_template_kwargs"),
        )

    def read(unit: str, text: str, cut: bool) -> Read:
        found = numbers.read(text, cut=cut)
        if found is None:
            return Read(False, None)
        said = numbers.shown(found.value)
        return Read(found.value == problems[unit].gold, said, found.rule)

    return Questions(tuple(problems), call, read, WORDS.stage)


def refusal(context: Context) -> str:
    """Why nothing can be compared, known before anything is asked; "" where it can."""
    fault = _problems(context).fault
    if fault or context.baseline is None:
        return fault
    asked, kept = questions(context), context.baseline.seen.get(WORDS.stage, {})
    if not any(tag.arm is Arm.BASELINE for tag in kept):
        return "the baseline's evidence holds no answers of gsm8k"
    tags = (tag for u in asked.units if (tag := asked.tag(u, Arm.BASELINE)) in kept)
    for tag in islice(tags, _FIRST):
        if kept[tag].call_sha256 != digest(asked.call(tag.unit, tag)):
            return (
                "the baseline answered other questions: another seed, wording, token limit or "
                "template than this plan's"
            )
    return ""


def whole(context: Context, name: str) -> Unit | None:
    """One problem whole, for a person."""
    problem = _problems(context).by_unit.get(name)
    if problem is None:
        return None
    right = numbers.shown(problem.gold)
    return unit_of(context, questions(context), name, "a problem of gsm8k", right)


def judge(context: Context) -> StageResult:
    """The stage's result; see STAGE's module for the rules."""
    if context.baseline is None:
        return _capture(context)
    why = refusal(context)
    if why:
        return _nothing(context, why)
    asked, margin = questions(context), context.spec.number("margin")
    whole = bool(context.spec.params.get("time_budget"))
    ours = context.observed(WORDS.stage)
    found = covered(asked, context.baseline, WORDS.stage, ours, whole=whole)
    decisions = decide(found, margin, right), decide(found, margin, completed)
    items, noise = found.items, floor(asked, context.baseline, WORDS.stage)
    checks: tuple[Check, ...] = (
        _paired_report.accuracy(found, decisions[0], margin, WORDS),
        _paired_report.completion(found, decisions[1], margin, WORDS),
        same_prompts(items, _SAME),
    )
    load, is_lighter = _paired_report.load(context, WORDS.stage)
    if is_lighter:
        checks = tuple(unproven(c, load) if c.verdict is Verdict.PASS else c for c in checks)
    return StageResult(
        WORDS.stage,
        verdict_of(checks) if _is_observed(context) else Verdict.NOT_RUN,
        (*checks, *((_paired_report.mcnemar(decisions[0], WORDS),) if decisions[0] else ())),
        coverage(found, decided=any(is_decided(d) for d in decisions)),
        required=context.spec.required,
        faults=faults(items, WORDS.stage),
        caveats=(
            *_paired_report.caveats(found, noise, WORDS),
            *((load,) if load else ()),
            *_smaller(context),
        ),
        meaning=_meaning(decisions),
        next_steps=(
            *_next_steps(decisions, items),
            *((_paired_report.SAME_LOAD,) if is_lighter else ()),
            *_capture_more(context),
        ),
        tables=_tables(context, found, noise),
        look=context.look,
        movers=_movers.of_flips(items, WORDS.stage, answer(context)),
    )


def _nothing(context: Context, why: str) -> StageResult:
    check = Check("gsm8k.accuracy", "GSM8K: right answers", Verdict.UNPROVEN, why)
    return StageResult(
        WORDS.stage,
        Verdict.UNPROVEN if _any_answer(context) else Verdict.NOT_RUN,
        (check,),
        Coverage(_limit(context), 0),
        required=context.spec.required,
        look=context.look,
    )


def _any_answer(context: Context) -> bool:
    return any(isinstance(o.answer, Generation) for o in context.observed(WORDS.stage).values())


def _is_observed(context: Context) -> bool:
    """True where the engine answered, or said of each request that it gave it up: that is what a
    completion fails by. Where the way or the server failed, nothing was observed."""
    answers = [o.answer for o in context.observed(WORDS.stage).values()]
    failures = [a for a in answers if isinstance(a, Failure) and a.kind is not FailureKind.BUDGET]
    gave_up = all(a.kind is FailureKind.ABORTED for a in failures) and bool(failures)
    return _any_answer(context) or gave_up


def _smaller(context: Context) -> tuple[str, ...]:
    limit, planned = _limit(context), context.spec.integer("limit")
    if limit == planned:
        return ()
    return (
        f"the baseline was captured with a limit of {counted(limit, 'problem')}: no more are "
        "compared",
    )


def _capture_more(context: Context) -> tuple[str, ...]:
    """Where the baseline has too few problems for any candidate to PASS."""
    limit, margin = _limit(context), context.spec.number("margin")
    if limit == context.spec.integer("limit"):
        return ()
    if not _paired_reach.out_of_reach(limit, margin, WORDS.many):
        return ()
    return (
        f"capture the baseline with more problems: with its {limit:,} no candidate can PASS at "
        f"this margin, and it takes at least {_paired_reach.fewest_to_pass(margin):,}",
    )


def _meaning(decisions: tuple[Decision | None, Decision | None]) -> tuple[str, ...]:
    first, second = decisions
    said = []
    if first is not None and first.finding is Finding.BEYOND:
        said.append("The candidate solves fewer problems than the baseline, by more than chance.")
    if second is not None and second.finding is Finding.BEYOND:
        said.append(
            "More of the candidate's texts fail or run into the token limit: it loops, thinks "
            "longer, or its answers do not come through."
        )
    return tuple(said)


def _next_steps(
    decisions: tuple[Decision | None, Decision | None], items: tuple[Item, ...]
) -> tuple[str, ...]:
    found = {d.finding for d in decisions if d is not None}
    steps = []
    if any(item.candidate.kind is Kind.FAULT for item in items):
        steps.append("give the engine the reasoning parser that belongs to the model")
    if Finding.BEYOND in found:
        steps.append("undo the quantization, kernel or version change alone and run gsm8k again")
    if Finding.GAINED in found:
        steps.append("see that model, chat template and token limit are the baseline's")
    return tuple(steps)


def answer(context: Context) -> Callable[[str], str]:
    """The right answer of each problem."""
    golds = _problems(context).by_unit
    return lambda unit: numbers.shown(golds[unit].gold)


def _tables(context: Context, found: Covered, noise: Flips) -> tuple[Table, ...]:
    flipped = _paired_tables.flip_table(found.items, answer(context))
    margin = context.spec.number("margin")
    reach = _paired_reach.reach_table(found.planned, margin, noise)
    return tuple(
        t for t in (flipped, _paired_tables.kinds_table(found.items), reach) if t is not None
    )


def _capture(context: Context) -> StageResult:
    """How many the reference itself has right, and whether a comparison could ever PASS."""
    fault = _problems(context).fault
    asked, kept = questions(context), context.observed(WORDS.stage)
    sides = {u: graded(asked, kept, u, Arm.BASELINE) for u in asked.units}
    # The baseline beside itself: so a capture is covered and counted as a comparison will be.
    found = cover(Item(u, s, s) for u, s in sides.items())
    n = len(found.items)
    solved = sum(s.right is True for s in (i.baseline for i in found.items))
    reason = fault or (
        f"{share_of(solved, n)} of {n:,} problems right; there is no baseline to compare them with"
    )
    margin = context.spec.number("margin")
    caveats = [*_failed(tuple(i.baseline for i in found.items))]
    if n and too_few_solved(solved, n, margin):
        caveats.append(
            f"only {solved} of {n:,} problems are solved: too few to lose, no comparison will PASS"
        )
    if found.cut:
        caveats.append(
            f"the first {n:,} of {found.planned:,} problems were asked: the time budget ended there"
        )
    seen = Observed(context.plan, context.prompts, context.seen, context.engines)
    noise = floor(asked, seen, WORDS.stage)
    if noise.rate is not None:
        caveats.append(
            f"{noise.flipped} of {noise.n} answers flip between two launches of this reference"
        )
    reach = _paired_reach.reach_table(found.planned, margin, noise)
    kinds = _paired_tables.kinds_table(found.items) if n else None
    any_answer = any(s.right is not None for s in sides.values())
    return StageResult(
        WORDS.stage,
        Verdict.UNPROVEN if any_answer else Verdict.NOT_RUN,
        (Check("gsm8k.capture", "GSM8K: the reference's answers", Verdict.UNPROVEN, reason),),
        coverage(found, decided=False),
        required=context.spec.required,
        faults=faults(found.items, WORDS.stage),
        caveats=tuple(caveats),
        tables=tuple(t for t in (kinds, reach) if t is not None),
        look=context.look,
    )


def _failed(sides: tuple[Graded, ...]) -> list[str]:
    lacking = sum(s.right is None for s in sides)
    if not lacking:
        return []
    return [
        f"{lacking} of {len(sides):,} problems have no answer of the reference: each counts "
        "as lost in every comparison"
    ]
