"""The live direction of `score`: texts forced through a higher-precision reference. Pure.

The candidate's own trajectories, and the baseline's, are forced through a live server whose
distribution stands for the model; a candidate is worse by D(candidate, reference) -
D(baseline, reference). A text-only trajectory is tokenized again by the reference, and then the
baseline's texts are too, so that both arms carry the same tokenization noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iqaction.calls import Arm, Failure, Force, Generation, Scored, Tag, TokenIds, Tokenize
from iqaction.observed import Observed
from iqaction.prompts import merge_kwargs
from iqaction.report import Coverage, Series, UnitFault
from iqaction.rows import Match, Rows
from iqaction.stages import _score_tables
from iqaction.stages._base import Asking, Context, Round
from iqaction.stages._forced import Leg, Pairing, all_usable, leg
from iqaction.stages._paths import (
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
from iqaction.stages._reference_leg import LegResult
from iqaction.stages._score_metrics import TITLES, Measured, check_metrics, per_prompt
from iqaction.stages._shares import names

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
    launches = [n for n in baseline.launches if any(t.launch == n for t in theirs)]
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
    """Prompt ids, tokens of texts where needed, then every text through the reference."""
    baseline = context.baseline
    assert baseline is not None  # a capture does not judge
    kwargs = context.plan.stage(TRAJECTORY)
    plan_kwargs = kwargs.text("chat_template_kwargs") if kwargs else ""
    yield Round(
        tuple(
            Tokenize(
                Tag(Arm.REFERENCE, "template", p.id),
                None,
                p.messages,
                merge_kwargs(plan_kwargs, p.template_kwargs),
            )
            for p in context.units
        ),
        1,
        "score: the reference's prompt token ids",
    )
    again = text_only(context, baseline)
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
        forces = [
            f for u, a in texts.items() if (f := _force(context, source, u, a, again)) is not None
        ]
        if forces:
            yield Round(tuple(forces), 1, f"score: {_label(source)} through the reference")


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


def _pairing(context: Context, source: _Source, unit: str, again: bool) -> Pairing | str | None:
    """The reference's rows over one text beside that text's own; why not; None: not answered."""
    answer = generation(source.kept, source.arm, unit, source.launch)
    if answer is None:
        return None
    if isinstance(answer, Failure):
        return answer.message
    forced = scored(context.observed(SCORE), Arm.REFERENCE, source.leg, unit, source.launch)
    if forced is None:
        return None
    if isinstance(forced, Failure):
        return f"the reference: {forced.message}"
    if again:
        if not all_usable(forced.rows):
            return "unusable rows of the reference"
        return Pairing(unit, forced.rows, _certain(forced.rows))
    return _own_rows(unit, answer, forced)


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


def _own_rows(unit: str, answer: Generation, forced: Scored) -> Pairing | str:
    rows = answer.rows
    if rows is None or rows.match is not Match.ID:
        return "its tokens are not known"
    n = min(len(rows), len(forced.rows))
    ours, theirs = cut(rows, 0, n), cut(forced.rows, 0, n)
    if not n or not np.array_equal(ours.chosen, theirs.chosen):
        return "the reference's rows are of other tokens"
    if not all_usable(ours) or not all_usable(theirs):
        return "unusable rows"
    return Pairing(unit, theirs, ours)


def _legs(
    context: Context, sources: tuple[_Source, ...], again: bool
) -> tuple[list[Leg], dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """One Leg a source over shared prompts; what the candidate lacks; required; left out."""
    found: list[Mapping[str, Pairing]] = []
    lost: dict[str, str] = {}
    required = [p.id for p in context.units]
    left_out: list[str] = []
    for source in sources[1:]:
        pairs = {u: _pairing(context, source, u, again) for u in required}
        left_out += [u for u, p in pairs.items() if not isinstance(p, Pairing)]
        required = [u for u, p in pairs.items() if isinstance(p, Pairing)]
        found.append({u: p for u, p in pairs.items() if isinstance(p, Pairing)})
    ours = {u: _pairing(context, sources[0], u, again) for u in required}
    for unit, pair in ours.items():
        if not isinstance(pair, Pairing):
            lost[unit] = pair or "never answered"
    shared = [u for u in required if u not in lost]
    mine = {u: p for u, p in ours.items() if isinstance(p, Pairing)}

    def rows(of: Mapping[str, Pairing]) -> Iterator[Pairing]:
        return (of[u] for u in shared)

    return [leg(rows(f)) for f in [mine, *found]], lost, tuple(required), tuple(left_out)


def judge(context: Context, baseline: Observed) -> LegResult:
    """The live leg's checks over the context's look."""
    sources = _sources(context, baseline)
    again = text_only(context, baseline)
    (candidate, *launches), lost, required, left_out = _legs(context, sources, again)
    metrics = _TEXT_METRICS if again else tuple(TITLES)
    now = np.stack([_values(candidate, m) for m in metrics], axis=1)
    per_launch = np.array([[_values(x, m) for m in metrics] for x in launches])
    floor = per_launch.mean(axis=0).T
    means = per_launch.mean(axis=2) if len(launches) > 1 else None
    single = context.spec.params.get("floor") == "single"
    why_not = ""
    if len(launches) < 1 + 3 and not single:
        why_not = (
            f"{len(launches) - 1} relaunches of the baseline have texts and at least 3 are needed "
            "(`floor: single` in the plan goes without)"
        )
    measured = Measured(
        metrics,
        now,
        floor,
        None if single else means,
        len(required),
        "live",
        "live reference",
        why_not,
    )
    bucket_of = {p.id: p.bucket for p in context.units}
    plots: tuple[Series, ...] = ()
    if not again:
        plots = _score_tables.series(candidate, floor[:, 0], now[:, 0], None)
    return LegResult(
        tuple(check_metrics(context.plan, context.spec, measured)),
        Coverage(len(required), len(candidate.units), missing=tuple(lost), left_out=left_out),
        tuple(UnitFault(u, bucket_of[u], "missing", why) for u, why in lost.items()),
        _caveats(context, again, left_out),
        tables=() if again else _score_tables.tables(candidate, tuple(launches), bucket_of),
        series=plots,
    )


def _values(one: Leg, metric: str) -> NDArray[np.float64]:
    """Per prompt; the NLL of the live direction is the reference's, of the text's own tokens."""
    return one.mean(one.compared.nll_ref) if metric == "nll" else per_prompt(one, metric)


def _caveats(context: Context, again: bool, left_out: tuple[str, ...]) -> tuple[str, ...]:
    caveats = []
    if again:
        caveats.append(
            "an arm gives no tokens: texts were tokenized again by the reference; KL and TV "
            "cannot be computed, NLL and disagreement are the reference's view of the text"
        )
    if left_out:
        caveats.append(
            f"{len(left_out)} prompts are not judged because the baseline could not be: "
            f"{names(left_out)}"
        )
    told = (
        best(context.observed(SCORE), Tag(Arm.REFERENCE, "template", context.units[0].id))
        if context.units
        else None
    )
    if not isinstance(told, TokenIds):
        caveats.append(
            "prompt token ids come from the engines under test, not from the reference: another "
            "chat template would not be seen in this leg"
        )
    return tuple(caveats)
