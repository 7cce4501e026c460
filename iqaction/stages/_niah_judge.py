"""Judging `niah`: what was lost against the baseline, and where. Pure.

Four checks: the paired loss over all questions; no length or depth that loses alone, which a
long plan's total would hide, or that the baseline itself broke down on; questions that fit into
the candidate's context as they did into the baseline's; prompts that reach the model as before.
What the *baseline* could not be asked is left out and said; all else that lacks is counted as
badly as it can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from iqaction.calls import Arm, EngineInfo
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.report import Check, Coverage, Estimate, StageResult, UnitFault
from iqaction.stages import _movers, _paired_report
from iqaction.stages import _niah_tables as tables
from iqaction.stages._base import Context
from iqaction.stages._checks import unproven, verdict_of
from iqaction.stages._niah_items import NIAH, Item, code, fits, items, questions, refused
from iqaction.stages._niah_prompts import differing, measured, reached
from iqaction.stages._niah_reach import decides, one_look, power
from iqaction.stages._niah_tables import Row
from iqaction.stages._paired_items import (
    MOST_FAULTS,
    Flips,
    Kind,
    Questions,
    faults,
    flips,
    floor,
    graded,
)
from iqaction.stages._paired_items import Item as Both
from iqaction.stages._shares import names
from iqaction.stats.paired import Counts, Decision, Finding, Pair, decide, tally, too_few_solved
from iqaction.stats.proportions import exceeds_p, mcnemar_exact
from iqaction.verdict import Verdict

_BUCKET = "niah"
_FOUND = "niah.found"
_TITLE = "needle in a haystack: "
_WHERE_P = 0.005  # one-sided, over all lengths and depths together


def judge(context: Context) -> StageResult:
    """The stage's result; see the module's docstring for the rules."""
    if context.baseline is None:
        return _capture(context)
    spec, theirs = context.spec, context.baseline.seen.get(NIAH, {})
    known = questions(spec, theirs)
    rows = _rows(context, context.baseline, known)
    judged = [r for r in rows if r.is_judged]
    margin = spec.number("margin")
    checks = (_found(judged, margin), _where(rows, judged), _fitting(rows), reached(judged))
    load, is_lighter = _paired_report.load(context, NIAH)
    if is_lighter and checks[0].verdict is Verdict.PASS:
        checks = (unproven(checks[0], load), *checks[1:])
    answered = any(r.both.candidate.right is not None for r in judged)
    codes = {r.item.unit: code(spec, r.item) for r in judged}
    return StageResult(
        NIAH,
        verdict_of(checks) if answered else Verdict.NOT_RUN,
        checks,
        _coverage(rows, judged),
        required=spec.required,
        faults=_faults(rows, judged),
        caveats=(
            decides(len(judged), margin),
            *_left_out(rows),
            *measured(spec, theirs, [(r.item, r.both.baseline) for r in rows if not r.left_out]),
            *_flips(judged, floor(known, context.baseline, NIAH)),
            *_unended(judged),
            *_flags(judged),
            *((load,) if load else ()),
        ),
        meaning=tables.meaning(judged),
        next_steps=(
            *tables.next_steps(judged),
            *((_paired_report.SAME_LOAD,) if is_lighter else ()),
        ),
        tables=tables.compared(rows),
        look=context.look,
        movers=_movers.of_flips([r.both for r in judged], _BUCKET, codes.__getitem__),
    )


def _rows(context: Context, baseline: Observed, known: Questions) -> list[Row]:
    theirs, ours = baseline.seen.get(NIAH, {}), context.observed(NIAH)
    before, now = baseline.engines.get((Arm.BASELINE, 0)), context.engines.get((Arm.CANDIDATE, 0))
    rows = []
    for item in items(context.spec):
        a, b = known.tag(item.unit, Arm.BASELINE), known.tag(item.unit, Arm.CANDIDATE)
        both = Both(
            item.unit,
            graded(known, theirs, item.unit, Arm.BASELINE),
            graded(known, ours, item.unit, Arm.CANDIDATE),
        )
        too_long = (
            _too_long(item, before) or refused(theirs, a, both.baseline),
            _too_long(item, now) or refused(ours, b, both.candidate),
        )
        rows.append(Row(item, both, too_long))
    return rows


def _too_long(item: Item, engine: EngineInfo | None) -> str:
    """Why a question was not asked, as the engine says of its context; "" where it was.

    This comes before any answer: were the answers lost, the question would otherwise turn from
    judged to left out.
    """
    if engine is None or fits(item, engine):
        return ""
    return f"{item.length} tokens do not fit into a context of {engine.max_model_len}"


def _found(judged: Sequence[Row], margin: float) -> Check:
    """The paired loss over all questions, at one look."""
    title, n = f"{_TITLE}codes found", len(judged)
    if not n:
        return Check(_FOUND, title, Verdict.UNPROVEN, "no question could be compared", limit=margin)
    pairs = (Pair(r.both.baseline.right, r.both.candidate.right) for r in judged)
    decision = decide(tally(pairs), one_look(n), margin)
    counts, missing = decision.counts, sum(r.both.is_missing for r in judged)
    right = sum(r.both.candidate.right is True for r in judged)
    verdict, reason = _verdict(decision, missing)
    is_open = decision.finding is Finding.UNDECIDED and not missing
    interval = (decision.lower, decision.upper)
    return Check(
        _FOUND,
        title,
        verdict,
        f"{_said(counts, right, decision.mcnemar_p)}{reason}",
        Estimate(_FOUND, decision.drop, interval, 0.95, "Tango score", n, "share"),
        margin,
        baseline=counts.solved / n,
        candidate=right / n,
        power=power(*counts.worst, n, margin) if is_open else "",
    )


def _verdict(decision: Decision, missing: int) -> tuple[Verdict, str]:
    """What the finding means, with the rest of the sentence."""
    margin, n = f"{100 * decision.margin:g} points", decision.counts.n
    if decision.finding is Finding.BEYOND:
        least = f"{100 * (decision.lower or 0):.1f} points"
        return Verdict.FAIL, f": at least {least} are lost, and {margin} are allowed"
    if missing:
        return Verdict.UNPROVEN, f": {missing} of {n} questions lack an answer to the same text"
    upper = f"{100 * (decision.upper or 0):.1f} points"
    if decision.finding is Finding.WITHIN:
        return Verdict.PASS, f": at most {upper} are lost, and {margin} are allowed"
    if decision.finding is Finding.TOO_FEW_SOLVED:
        return Verdict.UNPROVEN, (
            ": too few solved to lose: the baseline must surely have "
            f"{1000 * decision.margin:g} % right for a loss of {margin} to mean anything"
        )
    if decision.finding is Finding.GAINED:
        return Verdict.UNPROVEN, (
            f": a gain of more than {margin}, which no faster engine gives: is it the same model "
            "and prompt?"
        )
    return Verdict.UNPROVEN, f": up to {upper} may be lost, and {margin} are allowed"


def _said(counts: Counts, right: int, p: float) -> str:
    n, lacking = counts.n, counts.n - counts.answered
    said = (
        f"{right} of {n} codes found, {counts.solved} of {n} by the baseline ({counts.lost} lost, "
        f"{counts.gained} gained, McNemar p = {p:.2g})"
    )
    if lacking:
        said += f", {lacking} without an answer (counted as lost where that may be so)"
    return said


def _where(rows: Sequence[Row], judged: Sequence[Row]) -> Check:
    """No length and no depth loses alone: in a long plan the total would hide it. Where most of
    one could not be judged because the baseline broke down on it, that is not known."""
    title = f"{_TITLE}no length or depth lost alone"
    if not judged:
        return Check("niah.where", title, Verdict.UNPROVEN, "no question could be compared")
    sizes, depths = tables.by(judged, _length), tables.by(judged, _depth)
    groups = {f"{size:g} tokens": some for (size,), some in sizes.items()}
    groups |= {f"depth {depth:g}": some for (depth,), some in depths.items()}
    found = []
    for name, some in groups.items():
        # What the way lost of the baseline's answers is as bad as it can be.
        lost = sum(r.is_lost or r.both.baseline.right is None for r in some)
        gained = sum(r.is_gained for r in some)
        p = mcnemar_exact(lost, gained) / 2 if lost > gained else 1.0
        if p < _WHERE_P / len(groups):
            found.append(f"{lost} of {len(some)} lost and {gained} gained at {name} (p = {p:.1g})")
    broken, unfit = _unjudged(rows)
    found += broken
    if found:
        return Check("niah.where", title, Verdict.UNPROVEN, "; ".join(found))
    said = f"none of {len(sizes)} lengths and {len(depths)} depths loses more than chance would"
    if unfit:
        said += f"; not judged, for the baseline's context is shorter: {', '.join(unfit)}"
    return Check("niah.where", title, Verdict.PASS, said)


def _unjudged(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Lengths and depths that the baseline broke down on, mostly, with how often; and those of
    which none fits into its context, as it said itself."""
    broken, unfit = [], []
    for key, name in ((_length, "{:g} tokens"), (_depth, "depth {:g}")):
        for (value,), some in tables.by(rows, key).items():
            lost = sum(not r.too_long[0] and r.both.baseline.right is None for r in some)
            at = name.format(value)
            if 2 * lost > sum(not r.too_long[0] for r in some):
                broken.append(f"the baseline has no answer to {lost} of {len(some)} at {at}")
            elif all(r.too_long[0] for r in some):
                unfit.append(at)
    return broken, unfit


def _length(row: Row) -> tuple[float, ...]:
    return (row.item.length,)


def _depth(row: Row) -> tuple[float, ...]:
    return (row.item.depth,)


def _fitting(rows: Sequence[Row]) -> Check:
    """A context that became shorter is no wrong answer, and nothing to pass over either."""
    title = f"{_TITLE}questions fit into the context"
    asked = [r for r in rows if not r.left_out]
    out = [r for r in asked if r.too_long[1]]
    if out:
        sizes = ", ".join(str(n) for n in sorted({r.item.length for r in out}))
        reason = (
            f"{len(out)} of {len(asked)} questions (at {sizes} tokens) fit into the baseline's "
            f"context and not into the candidate's: {out[0].too_long[1]}"
        )
        return Check("niah.fits", title, Verdict.UNPROVEN, reason)
    if not asked:
        return Check("niah.fits", title, Verdict.UNPROVEN, "none fits into the baseline's context")
    return Check("niah.fits", title, Verdict.PASS, f"all {len(asked)} questions fit")


def _coverage(rows: Sequence[Row], judged: Sequence[Row]) -> Coverage:
    lacking = [r for r in judged if not r.both.is_paired]
    out = [r for r in rows if not r.left_out and r.too_long[1]]
    return Coverage(
        sum(not r.left_out for r in rows),
        len(judged) - len(lacking),
        tuple(r.item.unit for r in (*out, *(r for r in lacking if not r.both.is_missing))),
        tuple(r.item.unit for r in lacking if r.both.is_missing),
        tuple(r.item.unit for r in rows if r.left_out),
    )


def _faults(rows: Sequence[Row], judged: Sequence[Row]) -> tuple[UnitFault, ...]:
    found = list(faults([r.both for r in judged], _BUCKET))
    for row in rows:
        if row.left_out:
            found.append(UnitFault(row.item.unit, _BUCKET, "unusable", f"baseline: {row.left_out}"))
        elif row.too_long[1]:
            found.append(UnitFault(row.item.unit, _BUCKET, "failed", row.too_long[1]))
    return (*found, *differing(judged))[:MOST_FAULTS]


def _left_out(rows: Sequence[Row]) -> list[str]:
    out = [r for r in rows if r.left_out]
    if not out:
        return []
    return [
        f"{len(out)} of {len(rows)} questions are left out because the baseline itself could not "
        f"be judged on them: {names([r.item.unit for r in out], 5)} ({out[0].left_out})"
    ]


def _flips(judged: Sequence[Row], at_rest: Flips) -> list[str]:
    """How many answers changed, against how many do where nothing was changed."""
    now = flips(r.both for r in judged)
    said = f"{now.flipped} of {now.n} answers changed between right and wrong"
    if not at_rest.n:
        return [f"{said}; how many change by themselves is not known: no relaunch was asked"]
    p = exceeds_p(now.flipped, now.n, at_rest.flipped, at_rest.n)
    more = ": more than change by themselves" if p < _paired_report.FLIPS_P else ""
    return [f"{said}, {at_rest.flipped} of {at_rest.n} in a relaunch of the baseline{more}"]


def _unended(judged: Sequence[Row]) -> list[str]:
    """Where a candidate finds the code and writes on: the needle is found, and yet it changed."""
    both = [r.both for r in judged if r.both.is_paired]
    n = sum(b.baseline.ended and not b.candidate.ended for b in both)
    if not n:
        return []
    return [
        f"{n} of {len(both)} answers ran into the token limit or a loop where the baseline's "
        "ended: the candidate does not stop as it did"
    ]


def _flags(judged: Sequence[Row]) -> list[str]:
    flags = Counter(f for r in judged for f in r.both.candidate.flags)
    return [f"{n} of {len(judged)} answers: {flag}" for flag, n in flags.most_common(5)]


def _capture(context: Context) -> StageResult:
    """A reference alone: what it finds, and whether there is enough to lose."""
    kept, spec = context.observed(NIAH), context.spec
    known, engine = questions(spec, kept), context.engines.get((Arm.BASELINE, 0))
    sides = []
    for item in items(spec):
        side = graded(known, kept, item.unit, Arm.BASELINE)
        said = refused(kept, known.tag(item.unit, Arm.BASELINE), side)
        sides.append((item, side, _too_long(item, engine) or said))
    asked = [(i, s) for i, s, too_long in sides if not too_long]
    right, n = sum(s.right is True for _, s in asked), len(asked)
    answered = sum(s.right is not None for _, s in asked)
    failed = [(i, s) for i, s in asked if s.right is None and s.kind is not Kind.MISSING]
    out = [(i, too_long) for i, _, too_long in sides if too_long]
    reason = f"{right} of {n} codes found; there is no baseline to compare them with"
    return StageResult(
        NIAH,
        Verdict.UNPROVEN if answered else Verdict.NOT_RUN,
        (Check("niah.capture", "reference answers to niah", Verdict.UNPROVEN, reason),),
        Coverage(
            n,
            answered,
            tuple(i.unit for i, _ in failed),
            tuple(i.unit for i, s in asked if s.kind is Kind.MISSING),
            tuple(i.unit for i, _ in out),
        ),
        required=spec.required,
        faults=tuple(
            UnitFault(item.unit, _BUCKET, "failed", why)
            for item, why in (*((i, s.why) for i, s in failed), *out)
        )[:MOST_FAULTS],
        caveats=(*_little_to_lose(spec, right, n, len(sides)), *measured(spec, kept, asked)),
        next_steps=tables.cut_off([s for _, s in asked]),
        tables=tables.captured(sides),
        look=context.look,
    )


def _little_to_lose(spec: StageSpec, right: int, n: int, planned: int) -> list[str]:
    margin = spec.number("margin")
    said = [decides(n, margin)]
    if too_few_solved(right, n, margin):
        said.append(f"no candidate can PASS: {right} of {n} codes found are too few to lose")
    if n < planned:
        said.append(f"{planned - n} of {planned} questions do not fit and are not compared")
    return said
