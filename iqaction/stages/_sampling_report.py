"""What a person reads of `sampling`: checks, tables, caveats and what follows. Decides nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from iqaction.plan import StageSpec
from iqaction.report import Check, Estimate, Table
from iqaction.stages._base import Context
from iqaction.stages._sampling_ask import asked_prompts
from iqaction.stages._sampling_decision import Decision
from iqaction.stages._sampling_limits import (
    SHOWN_RATIO,
    WORST_DISTANCE,
    WORST_OUTSIDE,
    WORST_RATIO,
    Z95,
    times_more,
    worst_outside,
)
from iqaction.stats.sampling import BINS, Sums
from iqaction.verdict import Verdict

LISTS = "sampling: the lists are raw"
ALIKE = "the baseline's draws fail in the same way, so that this change need not be the cause"
LOST = "rows are missing and it is not known where"
TITLES = {
    "score": "sampling: temperature",
    "ranks": "sampling: places in the list",
    "support": "sampling: draws of what was cut away",
}
_ONLY_SUPPORT = "for what was cut away only (the top token has 98 %, or the draw is at a cut)"
_NAMES = {"score": "temperature", "ranks": "places", "support": "support"}
_LIMITS = {"score": WORST_RATIO, "ranks": WORST_DISTANCE, "support": WORST_OUTSIDE}


def check(spec: StageSpec, mine: Decision, metric: str, theirs: Decision | None) -> Check:
    """One of the three tests, with the bound that its verdict rests on."""
    verdict, sums = mine.verdict(metric), mine.shown
    estimate = _estimate(spec, metric, sums, mine.broken)
    power = ""
    if verdict is Verdict.UNPROVEN and not (
        mine.reading.unsound or mine.lacking or mine.striking or mine.again
    ):
        power = _power(spec, mine, metric)
    before = _estimate(spec, metric, theirs.shown, theirs.broken).value if theirs else None
    return Check(
        f"sampling.{_NAMES[metric]}",
        TITLES[metric],
        verdict,
        _reason(spec, mine, metric, verdict),
        estimate,
        _LIMITS[metric] * (spec.number("temperature") if metric == "score" else 1.0),
        baseline=before,
        candidate=estimate.value,
        power=power,
    )


def capture(mine: Decision, checks: Sequence[Check]) -> list[Check]:
    """The checks of a capture: they carry no verdict, because there is nothing to compare; a
    baseline whose sampler is off is told so, and not refused for it."""
    said = f"{mine.reading.first.sums.support.n:,} positions kept"
    if mine.fails:
        said += "; this sampler does not draw from its own log-probabilities"
    first = Check("sampling.capture", "sampling: draws kept", Verdict.UNPROVEN, said)
    return [first, *(replace(c, judged=False) for c in checks)]


def _estimate(spec: StageSpec, metric: str, sums: Sums, broken: int) -> Estimate:
    name = f"sampling.{_NAMES[metric]}"
    if metric == "score":
        t, ratio = spec.number("temperature"), sums.score.ratio
        wide = sums.score.interval(Z95)
        ends = None if wide is None or math.isinf(wide[1]) else (t * wide[0], t * wide[1])
        value = None if ratio is None else t * ratio
        return Estimate(name, value, ends, 0.95, "maximum likelihood", sums.score.n, "temperature")
    if metric == "ranks":
        upper = sums.ranks.upper
        bound = None if upper is None else (None, upper)
        how = "total variation over places, one-sided"
        return Estimate(name, sums.ranks.distance, bound, 0.95, how, sums.ranks.n, "share")
    n = sums.support.n + broken
    value = (sums.support.outside + broken) / n if n else None
    high = (None, worst_outside(sums, broken))
    return Estimate(name, value, high, 0.95, "Clopper-Pearson, one-sided", n, "share")


def _reason(spec: StageSpec, mine: Decision, metric: str, verdict: Verdict) -> str:
    said = _said(spec, mine.shown, metric, mine.broken)
    if not mine.reading.first.is_there:
        return "no draw was answered"
    if mine.reading.unsound:
        return f"{mine.reading.unsound}; {said}"
    if verdict is Verdict.FAIL:
        first = mine.reading.first.sums
        p, again = first.p[metric], min(mine.reading.fresh.sums.p.values())
        said = _said(spec, first, metric, mine.reading.first.positions.broken)
        return f"{said} ({_p(p)}); and again on fresh draws ({_p(again)})"
    if metric in mine.striking:
        fresh = mine.reading.fresh
        if mine.pools:
            when = "in both sets of draws together, and not in the first alone"
        elif fresh.is_there:
            when = "not again on fresh draws"
        else:
            when = "not asked a second time"
        return f"{said} ({_p(mine.shown.p[metric])}); {when}"
    if mine.lacking:
        return f"{mine.lacking}; {said}"
    if metric in mine.again:
        fresh = mine.reading.fresh
        struck = _said(spec, fresh.sums, metric, fresh.positions.broken)
        return f"{said}; the fresh draws are striking: {struck} ({_p(fresh.sums.p[metric])})"
    return said


def _said(spec: StageSpec, sums: Sums, metric: str, broken: int) -> str:
    if metric == "score":
        return _temperature(spec, sums)
    if metric == "ranks":
        ranks = sums.ranks
        if ranks.distance is None or ranks.upper is None:
            return "no position says anything of the places"
        return (
            f"{ranks.distance:.2%} of {ranks.n:,} draws are of other places than they should be: "
            f"at most {ranks.upper:.2%}"
        )
    support = sums.support
    said = f"{support.outside:,} of {support.n:,} draws are of tokens that were cut away"
    if broken:
        said += f", {broken:,} more cannot be told (counted as such)"
    said += f": at most {worst_outside(sums, broken):.2%}"
    if support.last > 3 * support.last_explained + 10:
        said += (
            f"; {support.last:,} are of the last token listed, behind which others hide, where "
            f"{support.last_explained:.0f} are explained"
        )
    return said


def _temperature(spec: StageSpec, sums: Sums) -> str:
    t, score, wide = spec.number("temperature"), sums.score, sums.score.interval(Z95)
    if not score.information > 0:
        return "no position says anything of the temperature: the model is sure of every token"
    if score.ratio is None or wide is None:
        return f"the draws fit no temperature from {t / 20:.2g} to {20 * t:.2g}"
    high = "any" if math.isinf(wide[1]) else _t(t * wide[1])
    return (
        f"the draws fit a temperature of {_t(t * score.ratio)} ({_t(t * wide[0])} to {high}), "
        f"{_t(t)} was asked for"
    )


def _t(x: float) -> str:
    return f"{x:.3f}"


def _p(p: float) -> str:
    return "p < 1e-12" if p < 1e-12 else f"p = {p:.2g}"


def _power(spec: StageSpec, mine: Decision, metric: str) -> str:
    draws = spec.integer("draws") * (2 if mine.pools else 1)
    times = times_more(metric, mine.shown, mine.broken)
    if times is None:
        if not mine.shown.score.n:
            return "the model is sure of every token: a higher temperature would show something"
        return "more draws will not make this PASS"
    wanted = -(-math.ceil(draws * times) // 2)  # a fresh set as large comes of itself
    what = f"a temperature {SHOWN_RATIO:.0%} off is not ruled out: " if metric == "score" else ""
    return f"{what}`draws: {wanted}` would decide it"


def caveats(context: Context, mine: Decision, theirs: Decision | None) -> tuple[str, ...]:
    spec, found = context.spec, []
    if not mine.reading.sampler.order:
        found.append(
            "the order of the engine's filters is not known: only positions where every order "
            "keeps the same tokens are judged"
        )
    if spec.number("temperature") == 1:
        found.append(
            "at temperature 1 a server that ignores the temperature draws as it should: only "
            "another value shows that it is heard"
        )
    if any(s.positions.ends_unlisted for s in (mine.reading.first, mine.reading.fresh)):
        found.append(
            "texts end in a token that the engine lists no row for: whether they end as often as "
            "they should is not tested"
        )
    there, wanted = len(asked_prompts(spec, context.plan)), spec.integer("prompts")
    if there < wanted:
        found.append(f"the plan has {there} prompts, {wanted} were wanted")
    if not context.plan.is_capture and theirs is None:
        found.append("the baseline has no draws at these settings to compare with")
    if theirs is not None and theirs.fails:
        found.append("the baseline's sampler does not draw from its own log-probabilities")
    return tuple(found)


def meaning(mine: Decision, theirs: Decision | None, checks: Sequence[Check]) -> tuple[str, ...]:
    if not any(c.verdict is Verdict.FAIL for c in checks) or not mine.fails:
        return ()
    before = " The baseline's sampler does." if theirs is not None and not theirs.flagged else ""
    return (
        "The engine's sampler does not draw from the log-probabilities that the model gave: texts "
        "come from another distribution than the settings ask for, whatever the weights."
        f"{before}",
    )


def next_steps(mine: Decision, checks: Sequence[Check]) -> tuple[str, ...]:
    if mine.reading.lists:
        return (
            "start the engine with raw log-probabilities (vLLM: `--logprobs-mode raw_logprobs`)",
        )
    if any(c.verdict is Verdict.FAIL for c in checks):
        return (
            "look for a fused or custom sampling kernel, a default of the server's that overrides "
            "the request, and for speculative decoding: run once without each",
        )
    return ()


def tables(spec: StageSpec, mine: Decision, theirs: Decision | None) -> tuple[Table, ...]:
    if not mine.reading.first.is_there:
        return ()
    arms = [("candidate", mine)] if theirs is None else [("baseline", theirs), ("candidate", mine)]
    return (_samplers(spec, arms), _places(arms), _positions(arms))


def _samplers(spec: StageSpec, arms: Sequence[tuple[str, Decision]]) -> Table:
    t, rows = spec.number("temperature"), []
    for name, arm in arms:
        wide = arm.shown.score.interval(Z95) or (math.nan, math.nan)
        ratio, upper = arm.shown.score.ratio, arm.shown.ranks.upper
        ends = tuple(t * x if math.isfinite(x) else None for x in wide)
        support = arm.shown.support
        order = ", ".join(arm.reading.sampler.order) or "not known"
        fitted = None if ratio is None else t * ratio
        rows.append((name, fitted, *ends, upper, f"{support.outside} of {support.n}", order))
    return Table(
        "samplers (temperature that fits, 95 % interval)",
        ("arm", "T", "from", "to", "places at most", "cut away", "order of filters"),
        tuple(rows),
    )


def _places(arms: Sequence[tuple[str, Decision]]) -> Table:
    labels = [str(a) if a == b else f"{a}-{b}" for a, b in BINS]
    columns = ["place"]
    for name, _ in arms:
        columns += [f"{name}: drawn", f"{name}: expected"]
    rows: list[tuple[str | float | None, ...]] = []
    for i, label in enumerate(labels):
        cells: list[str | float | None] = [label]
        for _, arm in arms:
            ranks = arm.shown.ranks
            cells += [float(ranks.observed[i]), round(ranks.expected[i], 1)]
        rows.append(tuple(cells))
    return Table("draws by place in the list", tuple(columns), tuple(rows))


def _positions(arms: Sequence[tuple[str, Decision]]) -> Table:
    """How many generated tokens were judged, and why the others were not."""
    counted = [_counts(arm) for _, arm in arms]
    reasons = list(dict.fromkeys(reason for counts in counted for reason in counts))
    rows: list[tuple[str | float | None, ...]] = []
    for reason in reasons:
        rows.append((reason, *(float(counts.get(reason, 0)) for counts in counted)))
    return Table("positions", ("tokens", *(name for name, _ in arms)), tuple(rows))


def _counts(arm: Decision) -> dict[str, int]:
    sets = [arm.reading.first, *([arm.reading.fresh] if arm.pools else [])]
    places = [s.positions for s in sets]
    sums = arm.shown
    counts = {
        "generated": sum(s.tokens for s in sets),
        "judged": sums.score.n,
        _ONLY_SUPPORT: sums.support.n - sums.score.n,
    }
    for reason in dict.fromkeys(r for p in places for r in p.dropped):
        counts[reason] = sum(p.dropped.get(reason, 0) for p in places)
    return counts
