"""What is dropped might have been drawn wrongly: much of it keeps a good sampler from its PASS."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from sampler_world import RIGHT, SETTINGS, Faulty, Listing, SamplerWorld, Sampling, run, spec

from iqaction.calls import Drawn
from iqaction.report import StageResult
from iqaction.rows import PAD, Rows
from iqaction.stages._base import Context
from iqaction.stages.sampling import STAGE
from iqaction.verdict import Verdict

USUAL = spec(**SETTINGS["T .6, top_k 20, top_p .95"])
Change = Callable[[Drawn], Drawn]


def done(fault: Faulty = RIGHT, **named: object) -> Context:
    server = Sampling(SamplerWorld(), USUAL.params, fault=fault, **named)  # type: ignore[arg-type]
    return run(USUAL, server)


@pytest.fixture(scope="module")
def right() -> Context:
    return done(seed=3)


def changed(where: Context, change: Change, units: int = 32) -> StageResult:
    """Judged with the draws of the first so many prompts changed."""
    seen = dict(where.seen["sampling"])
    for tag, said in seen.items():
        if tag.leg.startswith("draws") and int(tag.unit[2:]) < units:
            assert isinstance(said.answer, Drawn)
            seen[tag] = replace(said, answer=change(said.answer))
    return STAGE.judge(replace(where, seen={"sampling": seen}))


def reasons(result: StageResult) -> str:
    return " ".join(c.reason for c in result.checks)


def kept(answer: Drawn, at: Sequence[int], lengths: Sequence[int], **named: object) -> Drawn:
    r, i = answer.rows, np.array(at, int)
    rows = Rows(
        *(x[i] for x in (r.chosen, r.logprob, r.top, r.top_logprob, r.usable)),  # type: ignore
        match=r.match,
    )
    return replace(answer, rows=rows, lengths=tuple(lengths), **named)  # type: ignore[arg-type]


def halves(answer: Drawn) -> Drawn:
    """Every sequence is half as long as was asked, and nobody counts."""
    starts = np.cumsum([0, *answer.lengths[:-1]])
    at = [s + i for s, n in zip(starts, answer.lengths, strict=True) for i in range(n // 2)]
    return kept(answer, at, [n // 2 for n in answer.lengths], completion_tokens=None)


def empty(finish: str, eos: int | None = None) -> Change:
    """Half of the sequences have no token."""

    def change(answer: Drawn) -> Drawn:
        half = len(answer.lengths) // 2
        n, ends = sum(answer.lengths[:half]), len(answer.lengths) - half
        counted = n + ends if finish == "stop" else n
        return kept(
            answer,
            range(n),
            (*answer.lengths[:half], *(0,) * ends),
            finish_reasons=("length",) * half + (finish,) * ends,
            completion_tokens=counted,
            eos_id=eos,
        )

    return change


def nameless(share: float, piece: str | None) -> Change:
    """So many draws are of tokens that have no row; what they are is told, or not."""

    def change(answer: Drawn) -> Drawn:
        r = answer.rows
        hit = np.random.default_rng(0).random(len(r.chosen)) < share
        logs, top = r.top_logprob.copy(), r.top.copy()
        logs[hit], top[hit] = -np.inf, PAD
        rows = Rows(
            np.where(hit, 5000, r.chosen),
            np.where(hit, np.nan, r.logprob).astype(np.float32),
            top,
            logs,
            ~hit,
            r.match,
            {} if piece is None else {5000: piece},
            {"no log-probability": int(hit.sum())},
        )
        return replace(answer, rows=rows)

    return change


def short(*, hidden: bool) -> Change:
    """Half of the lists have ten tokens; what is drawn there is listed, or anything else."""

    def change(answer: Drawn) -> Drawn:
        r = answer.rows
        hit = np.random.default_rng(0).random(len(r.chosen)) < 0.5
        logs, top = r.top_logprob.copy(), r.top.copy()
        place = (top == r.chosen[:, None]).argmax(axis=1)
        hit &= hidden | (place < 10)
        logs[hit, 10:], top[hit, 10:] = -np.inf, PAD
        rows = replace(r, top=top, top_logprob=logs)
        if hidden:
            rows = replace(
                rows,
                chosen=np.where(hit, 9999, r.chosen),
                logprob=np.where(hit, -30.0, r.logprob).astype(np.float32),
            )
        return replace(answer, rows=rows)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (halves, "cut short by the engine"),
        (empty("length"), "gave up sequences"),
        (empty("abort"), "gave up sequences"),
        (empty("stop"), ""),
        (empty("stop", 10**6), "cut short by the engine"),
        (nameless(0.15, ""), "tokens cannot be judged, most: tokens without a row"),
        (nameless(0.15, "\ufffd"), "tokens cannot be judged, most: tokens without a row"),
        (nameless(0.02, None), "more cannot be told"),
        (short(hidden=True), "tokens cannot be judged, most: draws that are not in their list"),
    ],
)
def test_judge__much_is_dropped(right, change, said):
    """A reason that may have to do with the draw, and holds for a large share, is named."""
    result = changed(right, change)

    assert STAGE.judge(right).verdict is Verdict.PASS
    assert result.verdict is Verdict.UNPROVEN
    assert said in reasons(result)


def test_judge__little_is_dropped():
    """A few draws without a row, of known fragments, and texts that end leave the PASS."""
    result = STAGE.judge(done(seed=3, listing=Listing(fragments=True)))

    assert result.verdict is Verdict.PASS


def test_judge__short_lists_only_make_the_others_fewer(right):
    """A list's length has nothing to do with what is drawn from it: there is less evidence, and
    nothing against the sampler."""
    result = changed(right, short(hidden=False))

    assert result.verdict is not Verdict.FAIL
    assert "cannot be judged" not in reasons(result)


@pytest.mark.parametrize(("units", "proven"), [(6, True), (7, False)])
def test_judge__prompts_that_cannot_be_placed(right, units, proven):
    """Rows lost in more than a fifth of the prompts leave too little of the plan."""

    def lost(answer: Drawn) -> Drawn:
        lengths = (answer.lengths[0] - 1, *answer.lengths[1:])
        return kept(answer, range(1, len(answer.rows)), lengths)

    result = changed(right, lost, units)

    assert result.coverage.observed == 32 - units
    assert ("prompts have lost rows" in reasons(result)) is not proven
    assert result.verdict is not Verdict.FAIL


def test_caveats(right):
    """What the draws cannot show is said, and not under the stage's own name."""
    one = spec(temperature=1.0, draws=32)
    at_one = STAGE.judge(run(one, Sampling(SamplerWorld(), one.params)))
    ends = STAGE.judge(done(listing=Listing(ends=True)))
    all_ = (*at_one.caveats, *ends.caveats, *STAGE.judge(right).caveats)

    assert any("ignores the temperature" in c for c in at_one.caveats)
    assert any("whether they end as often" in c for c in ends.caveats)
    assert not any("ignores the temperature" in c or "end as often" in c
                   for c in STAGE.judge(right).caveats)  # fmt: skip
    assert all_
    assert not any(c.startswith("sampling") for c in all_)


@pytest.mark.parametrize("fault", [Faulty(temperature=1.06), Faulty(second=0.8)])
def test_judge__losing_rows_never_makes_a_pass(fault):
    """Rows, whole sequences and answers lost at random leave a faulty sampler without its PASS."""
    where, rng = done(fault, seed=7), np.random.default_rng(0)

    def thin(answer: Drawn) -> Drawn:
        starts = np.cumsum([0, *answer.lengths])
        left = [
            [i for i in range(a, b) if rng.random() > share]
            for a, b in itertools.pairwise(starts)
            for share in [rng.choice([0.0, 0.0, 0.3, 1.0])]
        ]
        counted = None if rng.random() < 0.5 else answer.completion_tokens
        return kept(
            answer, list(itertools.chain(*left)), [len(x) for x in left], completion_tokens=counted
        )

    def blank(answer: Drawn) -> Drawn:
        bad = np.where(rng.random(len(answer.rows)) < 0.1, np.nan, answer.rows.logprob)
        return replace(answer, rows=replace(answer.rows, logprob=bad.astype(np.float32)))

    assert STAGE.judge(where).verdict is not Verdict.PASS
    for units in (1, 5, 16, 32):
        for change in (thin, blank):
            assert changed(where, change, units).verdict is not Verdict.PASS
