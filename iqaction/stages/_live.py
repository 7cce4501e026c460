"""The live direction of `score`: texts forced through a higher-precision reference. Pure.

The candidate's own trajectories, and the baseline's, are forced through a live server whose
distribution stands for the model; a candidate is worse by D(candidate, reference) -
D(baseline, reference). A text-only trajectory is tokenized again by the reference, and then the
baseline's texts are too, so that both arms carry the same tokenization noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iqaction.calls import Arm, Failure, Force, Generation, Tag, TokenIds, Tokenize
from iqaction.observed import Observed
from iqaction.prompts import merge_kwargs
from iqaction.report import Mover, Series, Table
from iqaction.rows import Match, Rows
from iqaction.stages import _broken, _movers, _score_tables
from iqaction.stages._base import Asking, Context, Round
from iqaction.stages._checks import unproven
from iqaction.stages._forced import Leg, Pairing, all_usable, leg
from iqaction.stages._forcing import forced, once_more
from iqaction.stages._levels import is_floorless
from iqaction.stages._lost import NEVER, Lost
from iqaction.stages._paths import (
    FRESH,
    SCORE,
    TRAJECTORY,
    Kept,
    best,
    continuation,
    cut,
    generation,
    prompt_ids,
    scored,
)
from iqaction.stages._reference_leg import LegResult, gaps_said
from iqaction.stages._score_metrics import TITLES, Asked, Measured, check_metrics, measure

BROKEN = _broken.What("live.broken", "live reference: broken prompts", "broken")
_LIST = 20  # listed tokens asked of the reference where the text gives no number
_TEXT_METRICS = ("decisive", "nll", "agreement")


@dataclass(frozen=True)
class _Source:
    """Whose texts are forced: the candidate's (launch 0) or those of one baseline launch."""

    leg: str
    kept: Kept
    arm: Arm
    launch: int


def _sources(context: Context, baseline: Observed) -> tuple[_Source, ...]:
    theirs = baseline.seen.get(TRAJECTORY, {})
    captured = baseline.plan.stage(SCORE)
    # A baseline captured for the stored direction has no texts of its relaunches. One captured for
    # this direction has them all: a relaunch whose texts are gone is a gap, not one relaunch fewer.
    live = captured is not None and bool(captured.text("reference"))
    launches = baseline.launches if live else ()
    return (
        _Source("live", context.observed(TRAJECTORY), Arm.CANDIDATE, 0),
        _Source("live-baseline", theirs, Arm.BASELINE, 0),
        *(_Source("live-baseline", theirs, Arm.REPEAT, n) for n in launches),
    )


def text_only(context: Context, baseline: Observed) -> bool:
    """True where any text lacks tokens: then every text is tokenized again, both arms alike."""
    return any(
        isinstance(a := generation(s.kept, s.arm, p.id, s.launch), Generation)
        and continuation(a) is None
        for s in _sources(context, baseline)
        for p in context.units
    )


def ask(context: Context) -> Asking:
    """Prompt ids, tokens of texts where needed, every text through the reference, and the
    candidate's broken prompts once more."""
    baseline = context.baseline
    assert baseline is not None  # a capture does not judge
    yield from _prompts(context)
    again, ours = text_only(context, baseline), list[Force]()
    for source in _sources(context, baseline):
        texts = {
            p.id: a
            for p in context.units
            if isinstance(a := generation(source.kept, source.arm, p.id, source.launch), Generation)
        }
        if again:
            calls = tuple(
                Tokenize(_tag(source, u, "-text"), a.text) for u, a in texts.items() if a.text
            )
            if calls:
                yield Round(calls, 1, "score: texts tokenized by the reference")
        found = (_force(context, source, u, a, again) for u, a in texts.items())
        forces = [f for f in found if f is not None]
        yield from forced(forces, f"score: {_label(source)} through the reference")
        if source.arm is Arm.CANDIDATE:
            ours = forces
    hits = tuple(_hits(context, _look(context, baseline)).hits)
    yield from once_more(ours, hits, "score: broken prompts, asked once more")


def _prompts(context: Context) -> Asking:
    trajectory = context.plan.stage(TRAJECTORY)
    kwargs = trajectory.text("chat_template_kwargs") if trajectory else ""
    calls = tuple(
        Tokenize(
            Tag(Arm.REFERENCE, "template", p.id),
            None,
            p.messages,
            merge_kwargs(kwargs, p.template_kwargs),
        )
        for p in context.units
    )
    yield Round(calls, 1, "score: the reference's prompt token ids")


def _label(source: _Source) -> str:
    return "candidate" if source.leg == "live" else f"baseline launch {source.launch}"


def _tag(source: _Source, unit: str, suffix: str = "") -> Tag:
    return Tag(Arm.REFERENCE, source.leg + suffix, unit, source.launch)


def _prompt(context: Context, source: _Source, unit: str) -> tuple[int, ...] | None:
    """Prompt ids by the reference's own tokenizer, else those that the engine told."""
    answer = best(context.observed(SCORE), Tag(Arm.REFERENCE, "template", unit))
    if isinstance(answer, TokenIds) and answer.ids:
        return answer.ids
    return prompt_ids(source.kept, source.arm, unit, source.launch).ids


def _path(
    context: Context, source: _Source, unit: str, answer: Generation, again: bool
) -> tuple[int, ...] | None:
    if not again:
        return continuation(answer)
    tokens = best(context.observed(SCORE), _tag(source, unit, "-text"))
    return tokens.ids if isinstance(tokens, TokenIds) and tokens.ids else None


def _force(
    context: Context, source: _Source, unit: str, answer: Generation, again: bool
) -> Force | None:
    ids, path = _prompt(context, source, unit), _path(context, source, unit, answer, again)
    if ids is None or path is None:
        return None
    return Force(_tag(source, unit), ids, path, answer.top_logprobs or _LIST)


def _pairing(
    context: Context, source: _Source, unit: str, again: bool, attempt: int = 0
) -> Pairing | str | None:
    """The reference's rows over one text beside that text's own; why not; None: not answered."""
    answer = generation(source.kept, source.arm, unit, source.launch)
    if answer is None:
        return None
    if isinstance(answer, Failure):
        return answer.message
    path = _path(context, source, unit, answer, again)
    if path is None:
        return "its tokens are not known"
    kept = context.observed(SCORE)
    rows = scored(kept, Arm.REFERENCE, source.leg, unit, source.launch, attempt)
    if rows is None:
        return None
    if isinstance(rows, Failure):
        return f"the reference: {rows.message}"
    told = path if again or answer.rows is None else path[: len(answer.rows)]
    theirs = cut(rows.rows, 0, len(told))
    if theirs.match is not Match.ID or tuple(theirs.chosen.tolist()) != told:
        return f"the reference's {len(rows.rows)} rows are not of the text's {len(told)} tokens"
    ours = _certain(theirs) if again or answer.rows is None else answer.rows
    if not all_usable(theirs) or not all_usable(ours):
        return "unusable rows"
    return Pairing(unit, theirs, ours)


def _certain(rows: Rows) -> Rows:
    """A text without log-probabilities stands for an engine that is certain of its own tokens:
    then a decisive disagreement is a token that the reference would decisively not have written."""
    n = len(rows)
    return Rows(
        rows.chosen,
        np.zeros(n, np.float32),
        rows.chosen[:, None],
        np.zeros((n, 1), np.float32),
        np.ones(n, np.bool_),
        rows.match,
    )


class _Seen(NamedTuple):
    """What was observed through the reference."""

    candidate: Leg
    launches: tuple[Leg, ...]  # the baseline's, launch 0 first, over the candidate's prompts
    lost: Lost
    text_only: bool


def _look(context: Context, baseline: Observed) -> _Seen:
    again = text_only(context, baseline)
    candidate, *launches = _sources(context, baseline)
    units, gaps = [p.id for p in context.units], dict[str, str]()
    theirs: list[Mapping[str, Pairing]] = []
    for source in launches:
        pairs = {u: _pairing(context, source, u, again) for u in units}
        why = f"baseline launch {source.launch}: "
        gaps |= {u: why + (p or NEVER) for u, p in pairs.items() if not isinstance(p, Pairing)}
        theirs.append({u: p for u, p in pairs.items() if isinstance(p, Pairing)})
    ours = {u: _pairing(context, candidate, u, again) for u in units if u not in gaps}
    lost = _lost(context, ours, gaps)
    mine = {u: p for u, p in ours.items() if isinstance(p, Pairing)}

    def through(of: Mapping[str, Pairing]) -> Leg:
        return _as_the_reference_sees(leg(of[u] for u in mine), again)

    return _Seen(through(mine), tuple(through(x) for x in theirs), lost, again)


def _as_the_reference_sees(one: Leg, again: bool) -> Leg:
    """The NLL of the live direction is the reference's, of each arm's own tokens. A text that
    stands for certainty has no KL."""
    seen = one.compared._replace(nll_cand=one.compared.nll_ref)
    if again:
        seen = seen._replace(kl=np.zeros_like(seen.kl))
    return one._replace(compared=seen)


def _lost(
    context: Context, ours: Mapping[str, Pairing | str | None], gaps: Mapping[str, str]
) -> Lost:
    failed: dict[str, str] = {}
    missing: dict[str, str] = {}
    for unit, pair in ours.items():
        if isinstance(pair, Pairing):
            continue
        text = generation(context.observed(TRAJECTORY), Arm.CANDIDATE, unit)
        (failed if isinstance(text, Failure) else missing)[unit] = pair or NEVER
    return Lost(failed, missing, gaps)


def _hits(context: Context, seen: _Seen) -> _broken.Hits:
    candidate = _Source("live", context.observed(TRAJECTORY), Arm.CANDIDATE, 0)

    def again(units: tuple[str, ...]) -> Leg:
        found = (_pairing(context, candidate, u, seen.text_only, FRESH) for u in units)
        pairs = (p for p in found if isinstance(p, Pairing))
        return _as_the_reference_sees(leg(pairs), seen.text_only)

    return _broken.find(seen.candidate, seen.launches, again, own_texts=True)


def judge(context: Context, baseline: Observed) -> LegResult:
    """The live leg's checks over the context's look."""
    seen = _look(context, baseline)
    required, single = len(context.units), is_floorless(context.spec)
    metrics = _TEXT_METRICS if seen.text_only else tuple(TITLES)
    asked = Asked(
        metrics,
        required,
        "live",
        "live reference",
        len(seen.launches) - 1,
        single,
        len(baseline.not_restarted),
    )
    measured = measure(seen.candidate, seen.launches, asked)
    found = _hits(context, seen)
    broken = _broken.check(context.plan, found, seen.lost, required, BROKEN)
    if measured.why_not:
        broken = unproven(broken, measured.why_not)
    bucket_of = {p.id: p.bucket for p in context.units}
    tables: tuple[Table, ...] = ()
    plots: tuple[Series, ...] = ()
    if not seen.text_only:
        kl, limit = metrics.index("kl"), context.spec.margin("kl")
        tables = _score_tables.tables(seen.candidate, seen.launches, bucket_of)
        plots = _score_tables.series(
            seen.candidate,
            measured.floor[:, kl],
            measured.candidate[:, kl],
            limit.limit if limit else None,
        )
    return LegResult(
        (*check_metrics(context.plan, context.spec, measured), broken),
        seen.lost.coverage(len(seen.candidate.units)),
        (*found.faults(context.prompts, "broken"), *seen.lost.faults(context.prompts)),
        _caveats(context, seen),
        tables=tables,
        series=plots,
        movers=_moved(context, seen, measured),
    )


def _moved(context: Context, seen: _Seen, measured: Measured) -> tuple[Mover, ...]:
    metric = "nll" if seen.text_only else "kl"
    at = measured.metrics.index(metric)
    ours = _Source("live", context.observed(TRAJECTORY), Arm.CANDIDATE, 0)

    def pairing(unit: str) -> Pairing | None:
        found = _pairing(context, ours, unit, seen.text_only)
        return found if isinstance(found, Pairing) else None

    values = measured.floor[:, at], measured.candidate[:, at]
    return _movers.of_figures(seen.candidate, metric, values, context.prompts, pairing)


def _caveats(context: Context, seen: _Seen) -> tuple[str, ...]:
    caveats = []
    if seen.text_only:
        caveats.append(
            "an arm gives no tokens: texts were tokenized again by the reference; KL and TV "
            "cannot be computed, NLL and disagreement are the reference's view of the text"
        )
    if seen.lost.gaps:
        caveats.append(gaps_said(seen.lost))
    kept = context.observed(SCORE)
    told = [best(kept, Tag(Arm.REFERENCE, "template", p.id)) for p in context.units]
    if not all(isinstance(t, TokenIds) and t.ids for t in told):
        caveats.append(
            "prompt token ids come from the engines under test, not from the reference: another "
            "chat template would not be seen in this leg"
        )
    return tuple(caveats)
