"""Paired items in a maintainer's words: checks and caveats. Decides nothing, asks nothing.

What was found stands in a ``Decision`` already; here it gets its verdict's word, its reason with
the figures in it, and what would decide it where it is open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from iqaction.calls import Arm
from iqaction.report import Check, Estimate
from iqaction.stages._base import Context
from iqaction.stages._paired_items import (
    LOOKS,
    Covered,
    Flips,
    Graded,
    Item,
    Kind,
    completed,
    flips,
    right,
)
from iqaction.stages._wording import percent, points, share_of
from iqaction.stats.looks import equal_looks
from iqaction.stats.paired import SOLVED_MARGINS, Decision, Finding, pairs_needed
from iqaction.stats.proportions import exceeds_p
from iqaction.verdict import Verdict

_VERDICTS = {Finding.WITHIN: Verdict.PASS, Finding.BEYOND: Verdict.FAIL}
FLIPS_P = 0.01  # beyond which more flip than between two launches of the baseline


@dataclass(frozen=True)
class Words:
    """How a stage speaks: its name, what its checks are called, and one and many of its items."""

    stage: str
    title: str
    many: str


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

    def said(at: Decision, items: Sequence[Item], before: str, now: str) -> str:
        return (
            f"baseline {before} right, candidate {now} of {len(items):,} {words.many}; "
            f"{at.counts.lost} lost, {at.counts.gained} gained"
        )

    asked = _Asked(
        "accuracy",
        "right answers",
        right,
        said,
        gained=(
            "a gain of more than the margin is no faster engine's: is it the same model, and the "
            "same prompt?"
        ),
        too_few=(
            f"too few solved to lose: the baseline must provably solve {SOLVED_MARGINS} margins "
            f"({percent(SOLVED_MARGINS * margin)})"
        ),
    )
    return _check(asked, found, decision, words)


def completion(found: Covered, decision: Decision | None, margin: float, words: Words) -> Check:
    """Do as many whole texts come, neither failed nor cut off?"""

    def said(at: Decision, items: Sequence[Item], before: str, now: str) -> str:
        return (
            f"whole answers: baseline {before}, candidate {now} of {len(items):,}; the candidate "
            f"{_unfinished(items)}"
        )

    asked = _Asked(
        "completion",
        "whole answers",
        completed,
        said,
        gained=(
            "more of its texts end within the limit, by more than the margin: is it the same "
            "model, and the same prompt?"
        ),
        too_few=(
            "too few of the baseline's own texts provably end within the token limit to lose any"
        ),
        advice=": raise `max_tokens`",
    )
    return _check(asked, found, decision, words)


@dataclass(frozen=True)
class _Asked:
    """What is asked of every item's two sides, and how the findings read.

    Attributes
    ----------
    said
        The figures in words, of the decision, its items and both sides' shares.
    gained, too_few
        What these findings mean.
    advice
        After ``too_few``, where more of the same items would not be the way.
    """

    name: str
    title: str
    side: Callable[[Graded], bool | None]
    said: Callable[[Decision, Sequence[Item], str, str], str]
    gained: str
    too_few: str
    advice: str = ""


def _check(asked: _Asked, found: Covered, decision: Decision | None, words: Words) -> Check:
    metric, title = f"{words.stage}.{asked.name}", f"{words.title}: {asked.title}"
    if decision is None:
        return _no_look(found, metric, title, words)
    n, items = decision.look.n, found.items[: decision.look.n]
    before = sum(asked.side(item.baseline) is True for item in items)
    now = sum(asked.side(item.candidate) is True for item in items)
    lacks = _lacks(found)
    return Check(
        metric,
        title,
        _VERDICTS.get(decision.finding, Verdict.UNPROVEN),
        "; ".join(
            (
                *lacks,
                f"{asked.said(decision, items, share_of(before, n), share_of(now, n))}: "
                f"{_meant(asked, decision, before == n, words)}",
                *_worst(decision),
            )
        ),
        _estimate(metric, found, decision),
        decision.margin,
        baseline=before / n,
        candidate=now / n,
        power=_power(found, decision, lacks=bool(lacks)),
    )


def _lacks(found: Covered) -> tuple[str, ...]:
    """What is missing from the evidence, at the end and in the middle."""
    missing = sum(item.is_missing for item in found.items)
    short = found.planned - len(found.items) if found.whole and not found.cut else 0
    said = []
    if short:
        said.append(f"the last {short:,} answers are missing from the evidence")
    if missing:
        said.append(f"{missing} of {len(found.items):,} answers are missing from the evidence")
    return tuple(said)


def _meant(asked: _Asked, decision: Decision, all_right: bool, words: Words) -> str:
    if decision.finding is Finding.GAINED:
        return asked.gained
    if decision.finding is not Finding.TOO_FEW_SOLVED:
        return _bounds(decision)
    if all_right:  # then it is their number that is too small, and no answer's fault
        n = decision.look.n
        return f"{asked.too_few}, and {n:,} {words.many} are too few to prove it"
    return asked.too_few + asked.advice


def _worst(decision: Decision) -> tuple[str, ...]:
    lacking = decision.look.n - decision.counts.answered
    if not lacking or decision.finding is Finding.BEYOND:
        return ()
    return (f"{lacking} without an answer count at their worst",)


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


def _power(found: Covered, decision: Decision, *, lacks: bool) -> str:
    """What would decide it where it is open."""
    if decision.finding is not Finding.UNDECIDED:
        return ""
    if lacks or decision.counts.answered < decision.look.n:
        return "answers are lacking: ask those again before more"
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
    if exceeds_p(now.flipped, now.n, floor.flipped, floor.n) >= FLIPS_P:
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
