"""Paired items in a maintainer's words: checks, tables and caveats. Decides nothing, asks nothing.

What was found stands in a ``Decision`` already; here it gets its verdict's word, its reason with
the figures in it, and what would decide it where it is open.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import NormalDist

from iqaction.calls import Arm
from iqaction.report import Check, Estimate, Table
from iqaction.stages._base import Context
from iqaction.stages._paired_items import LOOKS, Covered, Flips, Graded, Item, Kind, flips
from iqaction.stages._paths import first_difference
from iqaction.stats.looks import Look, equal_looks
from iqaction.stats.paired import (
    PLAIN_Z,
    SOLVED_MARGINS,
    Decision,
    Finding,
    Reach,
    pairs_needed,
    reach,
    tango,
    too_few_solved,
)
from iqaction.stats.proportions import exceeds_p, wilson
from iqaction.verdict import Verdict

_VERDICTS = {Finding.WITHIN: Verdict.PASS, Finding.BEYOND: Verdict.FAIL}
_MOST_FLIPS = 50  # rows of the table
_FLIPS_P = 0.01
_TYPICAL = (0.01, 0.03, 0.06)  # shares that flip between two launches of one engine


@dataclass(frozen=True)
class Words:
    """How a stage speaks: its name, what its checks are called, and one and many of its items."""

    stage: str
    title: str
    many: str


def percent(share: float) -> str:
    """A share as "91.2 %"."""
    return f"{100 * share:.1f} %"


def points(share: float) -> str:
    """A difference of shares as "1.3 points"."""
    return f"{100 * share:.3g} points" if abs(share) >= 0.0005 else "0 points"


def share_of(hits: int, n: int) -> str:
    """A share with Wilson's 95 % interval, for display."""
    low, high = wilson(hits, n, 0.95)
    return f"{percent(hits / n)} ({100 * low:.1f} to {100 * high:.1f})" if n else "nothing"


def out_of_reach(planned: int, margin: float, words: Words) -> str:
    """Why that many items cannot PASS whatever is answered; "" where they can."""
    if SOLVED_MARGINS * margin >= 1:
        return (
            f"cannot PASS: with a margin of {points(margin)} no baseline solves the "
            f"{SOLVED_MARGINS} margins that there must be to lose"
        )
    if can_pass(planned, margin):
        return ""
    return (
        f"cannot PASS: {planned:,} {words.many}, and it takes at least "
        f"{fewest_to_pass(margin):,} to exclude a loss of {points(margin)}, even where no answer "
        "flips"
    )


def can_pass(n: int, margin: float, looks: int = LOOKS) -> bool:
    """True where n items that all are and stay right exclude a loss of the margin at last, and
    are provably enough to lose."""
    if n < 1 or too_few_solved(n, n, margin):
        return False
    bound = tango(0, 0, n, equal_looks(n, looks)[-1].z)
    return bound is not None and bound.high <= margin


def fewest_to_pass(margin: float, looks: int = LOOKS) -> int:
    """With how many items a PASS is within reach; ``margin`` below .1, which no number reaches."""
    least = max(1, math.floor(PLAIN_Z**2 * (1 - margin) / margin))  # at a single look
    return next(n for n in count(least) if can_pass(n, margin, looks))


def load(context: Context, stage: str) -> tuple[str, bool]:
    """How the plan's load differs from the baseline's, in words; and whether it is less, or may
    be, so that faults under load would not be seen.

    What "auto" came to is known of the baseline, where it was kept; of the candidate it is not.
    """
    assert context.baseline is not None
    asked = context.baseline.plan.stage(stage)
    before = asked.params.get("concurrency") if asked is not None else None
    now = context.spec.params.get("concurrency")
    if asked is None or before == now:
        return "", False
    kept = context.baseline.concurrency.get((Arm.BASELINE, 0))
    known = before if isinstance(before, int) else kept[0] if kept is not None else None
    if known is not None and known == now:
        return "", False
    is_less = now < known if isinstance(now, int) and known is not None else known != 1
    said = f"asked {_at_a_time(now)}, the baseline {_at_a_time(before if known is None else known)}"
    return said, is_less


def _at_a_time(planned: object) -> str:
    return f"{planned} at a time" if isinstance(planned, int) else "as traffic is"


SAME_LOAD = "give the plan the `concurrency` that the baseline was captured with"


def accuracy(found: Covered, decision: Decision | None, margin: float, words: Words) -> Check:
    """Does the candidate lose items that the baseline has right?"""
    metric, title = f"{words.stage}.accuracy", f"{words.title}: right answers"
    if decision is None:
        return _no_look(found, metric, title, words)
    items = found.items[: decision.look.n]
    hits = _hits(items, lambda side: side.right)
    said = (
        f"baseline {share_of(hits[0], len(items))} right, candidate "
        f"{share_of(hits[1], len(items))} of {len(items):,} {words.many}; "
        f"{decision.counts.lost} lost, {decision.counts.gained} gained"
    )
    meant = {
        Finding.GAINED: (
            "a gain of more than the margin is no faster engine's: is it the same model, and the "
            "same prompt?"
        ),
        Finding.TOO_FEW_SOLVED: (
            f"too few solved to lose: the baseline must provably solve {SOLVED_MARGINS} margins "
            f"({percent(SOLVED_MARGINS * margin)}){_too_few(hits[0], len(items), words)}"
        ),
    }
    return _check(_Line(metric, title, said, meant), found, decision, hits)


def completion(found: Covered, decision: Decision | None, margin: float, words: Words) -> Check:
    """Do as many whole texts come, neither failed nor cut off?"""
    metric, title = f"{words.stage}.completion", f"{words.title}: whole answers"
    if decision is None:
        return _no_look(found, metric, title, words)
    items = found.items[: decision.look.n]
    hits = _hits(items, lambda side: side.completed)
    said = (
        f"whole answers: baseline {share_of(hits[0], len(items))}, candidate "
        f"{share_of(hits[1], len(items))} of {len(items):,}; the candidate {_unfinished(items)}"
    )
    meant = {
        Finding.GAINED: (
            "more of its texts end within the limit, by more than the margin: is it the same "
            "model, and the same prompt?"
        ),
        Finding.TOO_FEW_SOLVED: (
            "too few of the baseline's own texts provably end within the token limit to lose any"
            + (_too_few(hits[0], len(items), words) or ": raise `max_tokens`")
        ),
    }
    return _check(_Line(metric, title, said, meant), found, decision, hits)


def _too_few(hits: int, n: int, words: Words) -> str:
    """Where all are right, it is their number that is too small, and no answer's fault."""
    return f", and {n:,} {words.many} are too few to prove it" if hits == n else ""


@dataclass(frozen=True)
class _Line:
    metric: str
    title: str
    said: str
    meant: dict[Finding, str]


def _check(line: _Line, found: Covered, decision: Decision, hits: tuple[int, int]) -> Check:
    n, margin = decision.look.n, decision.margin
    missing = sum(item.is_missing for item in found.items)
    short = found.planned - len(found.items) if found.whole and not found.cut else 0
    reason = f"{line.said}: {line.meant.get(decision.finding) or _bounds(decision)}"
    lacking = n - decision.counts.answered
    if lacking and decision.finding is not Finding.BEYOND:
        reason += f"; {lacking} without an answer count at their worst"
    if missing:
        reason = (
            f"{missing} of {len(found.items):,} answers are missing from the evidence; {reason}"
        )
    if short:
        reason = f"the last {short:,} answers are missing from the evidence; {reason}"
    if decision.finding is not Finding.UNDECIDED:
        power = ""
    elif missing or short or lacking:
        power = "answers are lacking: ask those again before more"
    else:
        power = _power(found, decision)
    return Check(
        line.metric,
        line.title,
        _VERDICTS.get(decision.finding, Verdict.UNPROVEN),
        reason,
        _estimate(line.metric, found, decision),
        margin,
        baseline=hits[0] / n,
        candidate=hits[1] / n,
        power=power,
    )


def _no_look(found: Covered, metric: str, title: str, words: Words) -> Check:
    reason = (
        f"{len(found.items):,} of {found.planned:,} {words.many} have answers, and the first look "
        f"takes {found.looks[0].n:,}"
        if found.looks
        else f"no {words.many} to judge"
    )
    return Check(metric, title, Verdict.UNPROVEN, reason)


def _bounds(decision: Decision) -> str:
    allowed = f"{points(decision.margin)} are allowed"
    lower, upper = decision.lower, decision.upper
    if lower is None or upper is None:
        return allowed
    if decision.finding is Finding.BEYOND:
        return f"at least {points(lower)} worse, and {allowed}"
    if decision.finding is Finding.WITHIN:
        return f"at most {points(upper)} worse, and {allowed}"
    if lower > 0:
        said = f"between {points(lower)} and {points(upper)} worse, and {allowed}"
        if lower > decision.margin:
            said += f"; too few changed to tell it from chance (exact p {decision.mcnemar_p:.2g})"
        return said
    return f"between {points(-lower)} better and {points(upper)} worse, and {allowed}"


def _hits(items: Sequence[Item], side: Callable[[Graded], bool | None]) -> tuple[int, int]:
    return (
        sum(side(item.baseline) is True for item in items),
        sum(side(item.candidate) is True for item in items),
    )


def _unfinished(items: Sequence[Item]) -> str:
    sides = [item.candidate for item in items]
    cut = sum(side.right is not None and not side.ended for side in sides)
    return f"was cut off at {cut} and gave no answer to {sum(s.right is None for s in sides)}"


def _estimate(metric: str, found: Covered, decision: Decision) -> Estimate:
    looks, z = found.looks, decision.look.z
    at = next((i for i, x in enumerate(looks, 1) if x.n == decision.look.n), 0)
    bounds = decision.lower, decision.upper
    return Estimate(
        metric,
        decision.drop,
        None if None in bounds else bounds,
        round(2 * NormalDist().cdf(z) - 1, 4),
        f"Tango's score interval at look {at} of {len(looks)} (Lan-DeMets, z {z:.3f})",
        decision.look.n,
        "share",
    )


def _power(found: Covered, decision: Decision) -> str:
    counts, n, planned = decision.counts, decision.look.n, found.planned
    last = equal_looks(planned, LOOKS)[-1].z
    needed = pairs_needed(counts.lost / n, counts.gained / n, decision.margin, z=last)
    if needed is None:
        return "the estimate is beyond the margin: more items will not make this PASS"
    if n < planned and needed <= planned:
        return f"about {max(needed - n, 1):,} more of the plan's items would decide it (80 %)"
    return (
        f"it takes about {max(needed, n + 1):,} items to decide it (80 %); the plan has {planned:,}"
    )


def same_prompts(items: Sequence[Item], words: Words) -> Check:
    """Did the questions reach the model as the baseline's did? A difference never PASSes."""
    metric, title = f"{words.stage}.template", f"{words.title}: chat template"
    both = [i for i in items if i.is_paired]
    told = [(i.unit, _difference(i.baseline, i.candidate)) for i in both]
    differing = [(unit, said) for unit, said in told if said]
    unknown = sum(said is None for _, said in told)
    if differing:
        reason = (
            f"{len(differing)} of {len(both):,} questions reach the model as other tokens than in "
            f"the baseline ({differing[0][0]}: {differing[0][1]}): another chat template, system "
            "prompt or tokenizer, so that the answers are to other questions"
        )
    elif unknown or not both:
        reason = (
            f"{unknown:,} of {len(both):,} questions: how many tokens they are is not known of "
            "both arms, so that a changed chat template would not be seen"
        )
    else:
        said = f"all {len(both):,} questions reach the model as before"
        return Check(metric, title, Verdict.PASS, said)
    return Check(metric, title, Verdict.UNPROVEN, reason)


def _difference(a: Graded, b: Graded) -> str | None:
    """What differs; "" where nothing does; None where it cannot be told."""
    counted = a.prompt_tokens is not None and b.prompt_tokens is not None
    if counted and a.prompt_tokens != b.prompt_tokens:
        return f"{a.prompt_tokens} prompt tokens before, {b.prompt_tokens} now"
    if a.prompt_ids is not None and b.prompt_ids is not None:
        at = first_difference(a.prompt_ids, b.prompt_ids)
        return "" if at is None else f"prompt token {at} differs"
    return "" if counted else None


def flip_table(items: Sequence[Item], answer: Callable[[str], str]) -> Table | None:
    """What changed between right and wrong, with both answers; what was lost comes first.
    ``answer`` is the right one."""
    flipped = [i for i in items if {i.baseline.right, i.candidate.right} == {True, False}]
    if not flipped:
        return None
    flipped.sort(key=lambda i: (not i.baseline.right, i.unit))
    rows = tuple(
        (
            "lost" if i.baseline.right else "gained",
            i.unit,
            answer(i.unit),
            _said(i.baseline),
            _said(i.candidate),
            i.baseline.end,
            i.candidate.end,
        )
        for i in flipped[:_MOST_FLIPS]
    )
    shown = f", {_MOST_FLIPS} of {len(flipped)}" if len(flipped) > _MOST_FLIPS else ""
    head = ("", "item", "right", "baseline", "candidate", "baseline's end", "candidate's end")
    return Table(f"answers that flipped{shown}", head, rows)


def _said(side: Graded) -> str:
    return side.shown or side.kind.value


def kinds_table(items: Sequence[Item]) -> Table:
    """What came of the items, and by which rule answers were read, by side."""
    sides = [i.baseline for i in items], [i.candidate for i in items]
    kinds = [Counter(s.kind.value for s in side) for side in sides]
    rules = [Counter(f"read by: {s.rule}" for s in side if s.rule) for side in sides]
    order = [k.value for k in Kind if any(c[k.value] for c in kinds)]
    order += sorted({*rules[0], *rules[1]})
    both = [a + b for a, b in zip(kinds, rules, strict=True)]
    rows = tuple((name, float(both[0][name]), float(both[1][name])) for name in order)
    return Table("what came of the items", ("", "baseline", "candidate"), rows)


def reach_table(planned: int, margin: float, floor: Flips) -> Table | None:
    """What the plan's items can decide, at the flip rate of the A/A floor and at usual ones."""
    if not planned:
        return None
    last = equal_looks(planned, LOOKS)[-1]
    rows = []
    if floor.rate is not None:
        rows.append(_reach_row(f"{percent(floor.rate)} (A/A floor)", floor.rate, last, margin))
    rows += [_reach_row(percent(rate), rate, last, margin) for rate in _TYPICAL]
    return Table(
        f"what {planned:,} items can decide",
        (
            "answers that flip by chance",
            "unchanged: proven within the margin",
            "items to prove it in 80 %",
            "loss that fails in 80 %",
        ),
        tuple(rows),
    )


def _reach_row(name: str, rate: float, last: Look, margin: float) -> tuple[str, str, str, str]:
    can: Reach = reach(last.n, min(rate, 0.99), margin, z=last.z)
    fails = "none" if can.drop_that_fails is None else points(can.drop_that_fails)
    return name, percent(can.passes), f"{can.pairs_to_pass:,}", fails


def caveats(found: Covered, floor: Flips, words: Words) -> tuple[str, ...]:
    """What the verdict does not say by itself, of all items that have answers."""
    items, n, said = found.items, len(found.items), []
    if found.cut:
        said.append(
            f"judged on a subset, the first {n:,} of {found.planned:,} {words.many} in the plan's "
            "order: the time budget ended there"
        )
    said += _faults_said(items, words)
    said += _flips_said(items, floor)
    flags = Counter(flag for item in items for flag in item.candidate.flags)
    said += [f"{k} of {n:,} answers: {flag}" for flag, k in flags.most_common(3)]
    return tuple(said)


def _faults_said(items: Sequence[Item], words: Words) -> list[str]:
    said = []
    for name, sides in (
        ("candidate", [i.candidate for i in items]),
        ("baseline", [i.baseline for i in items]),
    ):
        faults = sum(s.kind is Kind.FAULT for s in sides)
        if faults:
            said.append(
                f"{name}: {faults} of {len(sides):,} {words.many} came back with reasoning only: a "
                "reasoning parser fault, counted as no answer and not as a wrong one"
            )
        failed = sum(s.kind in (Kind.FAILED, Kind.LOST) for s in sides)
        if failed:
            said.append(
                f"{name}: {failed} of {len(sides):,} {words.many} failed, asked again too: for a "
                "PASS they count as lost, for a FAIL not at all"
            )
    return said


def _flips_said(items: Sequence[Item], floor: Flips) -> list[str]:
    now = flips(items)
    if not floor.n:
        return ["no A/A floor of flips: the baseline was not asked a second time after a restart"]
    if exceeds_p(now.flipped, now.n, floor.flipped, floor.n) >= _FLIPS_P:
        return []
    return [
        f"{now.flipped} of {now.n:,} answers flipped between right and wrong, and only "
        f"{floor.flipped} of {floor.n:,} between two launches of the baseline: something changed, "
        "whichever way it nets out"
    ]


def mcnemar(decision: Decision, words: Words) -> Check:
    """The exact test beside the bound, for display: it never decides."""
    reason = (
        f"McNemar's exact p = {decision.mcnemar_p:.3g} of {decision.counts.lost} lost against "
        f"{decision.counts.gained} gained; a large p proves nothing"
    )
    title = f"{words.title}: did anything change (McNemar)"
    return Check(f"{words.stage}.mcnemar", title, Verdict.UNPROVEN, reason, judged=False)
