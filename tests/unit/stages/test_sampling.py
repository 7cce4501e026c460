"""The stage `sampling` as a whole: what it asks, what it concludes, and what never PASSes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from sampler_world import (
    FAULTS,
    LLAMACPP,
    ORDERS,
    RIGHT,
    SETTINGS,
    UNITS,
    VLLM,
    Faulty,
    K,
    Listing,
    SamplerWorld,
    Sampling,
    context,
    observe,
    plan_of,
    prompts,
    run,
    spec,
)

from iqaction import inputs
from iqaction.calls import Arm, Capability, Draw, Drawn, Failure, FailureKind, Observation, Tag
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.report import Check, StageResult
from iqaction.rows import Match, Rows
from iqaction.stages._base import Context
from iqaction.stages._sampling_ask import all_shares, shares
from iqaction.stages.sampling import STAGE
from iqaction.verdict import Verdict

WORLD = SamplerWorld()
USUAL = spec(**SETTINGS["T .6, top_k 20, top_p .95"])


def server(fault: Faulty = RIGHT, asked: StageSpec = USUAL, **named: object) -> Sampling:
    return Sampling(WORLD, asked.params, fault=fault, **named)  # type: ignore[arg-type]


def checks(result: StageResult) -> dict[str, Check]:
    return {c.metric: c for c in result.checks}


@pytest.fixture(scope="module")
def right() -> Context:
    """A correct sampler that PASSes with its first draws."""
    return run(USUAL, server(seed=3))


@pytest.fixture(scope="module")
def hot() -> Context:
    """A sampler that is 20 % too hot, with its fresh draws."""
    return run(USUAL, server(Faulty(temperature=1.2), seed=4))


def altered(where: Context, change: Mapping[Tag, Observation]) -> Context:
    return replace(where, seen={"sampling": {**where.seen["sampling"], **change}})


def without(where: Context, tags: set[Tag]) -> Context:
    kept = {t: o for t, o in where.seen["sampling"].items() if t not in tags}
    return replace(where, seen={"sampling": kept})


def told(where: Context, **named: object) -> Context:
    """The same answers, each with these fields."""
    kept = {
        t: replace(o, answer=replace(o.answer, **named))  # type: ignore[type-var,arg-type]
        for t, o in where.seen["sampling"].items()
    }
    return replace(where, seen={"sampling": kept})


def test_judge__a_correct_sampler(right):
    """PASS with the figures: temperature, places, what was cut away; and every token counted."""
    result = STAGE.judge(right)
    found = checks(result)
    positions = {row[0]: row[1] for row in result.tables[2].rows}

    assert result.verdict is Verdict.PASS
    assert set(found) == {f"sampling.{m}" for m in ("lists", "temperature", "places", "support")}
    assert found["sampling.temperature"].candidate == pytest.approx(0.6, abs=0.02)
    assert found["sampling.temperature"].estimate.n_units > 8000
    assert positions["generated"] == 256 * 64
    assert sum(v for k, v in positions.items() if k != "generated") == 256 * 64
    assert (result.coverage.required, result.coverage.observed) == (UNITS, UNITS)
    assert result.faults == ()


def test_judge__too_hot(hot):
    """FAIL with the temperature named, because fresh draws say it again."""
    result = STAGE.judge(hot)

    assert result.verdict is Verdict.FAIL
    assert "temperature of 0.7" in checks(result)["sampling.temperature"].reason
    assert "again on fresh draws" in checks(result)["sampling.temperature"].reason
    assert result.meaning
    assert result.next_steps


def test_judge__once_is_unproven(hot):
    """Struck once, never asked again: neither FAIL nor PASS."""
    fresh = {t for t in hot.seen["sampling"] if t.attempt == 2}
    result = STAGE.judge(without(hot, fresh))

    assert fresh
    assert result.verdict is Verdict.UNPROVEN
    assert "not asked a second time" in checks(result)["sampling.temperature"].reason


def test_judge__not_again_on_fresh_draws(hot, right):
    """Struck once and not again: UNPROVEN, and never a PASS."""
    first = {t: o for t, o in right.seen["sampling"].items() if t.leg.startswith("draws")}
    fresh = {replace(t, attempt=2): o for t, o in first.items()}
    asked = hot.seen["sampling"]
    mixed = altered(hot, {t: replace(asked[t], answer=o.answer) for t, o in fresh.items()})
    result = STAGE.judge(mixed)

    assert result.verdict is Verdict.UNPROVEN
    assert "not again on fresh draws" in checks(result)["sampling.temperature"].reason


def test_judge__pools_where_the_first_draws_are_too_few():
    """Fewer draws than needed are followed by as many fresh ones, and both judged as one; where
    that is too little as well, it is said how many draws it takes."""
    few = spec(**SETTINGS["T .6, top_k 20, top_p .95"], draws=64)
    done = run(few, server(asked=few, seed=1))
    result = STAGE.judge(done)
    fitted = checks(result)["sampling.temperature"]

    assert {t.attempt for t in done.seen["sampling"]} == {0, 2}
    assert result.verdict is Verdict.UNPROVEN
    assert "5% off is not ruled out: `draws: " in fitted.power
    assert {row[0]: row[1] for row in result.tables[2].rows}["generated"] == 2 * 64 * 64


def test_judge__striking_only_together():
    """Two sets that are striking as one, and the first not alone: UNPROVEN, never a PASS."""
    few = spec(**SETTINGS["T .6, top_k 20, top_p .95"], draws=64)
    result = STAGE.judge(run(few, server(Faulty(temperature=1.07), few, seed=1)))
    fitted = checks(result)["sampling.temperature"]

    assert result.verdict is Verdict.UNPROVEN
    assert "in both sets of draws together, and not in the first alone" in fitted.reason
    assert fitted.power == ""


@pytest.mark.parametrize("name", FAULTS)
def test_judge__faults(name):
    """Each of the faults that a sampler may have is told; none PASSes."""
    result = STAGE.judge(run(USUAL, server(FAULTS[name], seed=5)))

    assert result.verdict is Verdict.FAIL


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("order", ORDERS)
def test_judge__every_order_and_setting(order, settings):
    """A correct sampler never FAILs, in whichever order its engine filters."""
    asked = spec(**SETTINGS[settings])
    results = [
        STAGE.judge(run(asked, server(asked=asked, order=ORDERS[order], seed=s))) for s in range(2)
    ]

    assert [r.verdict for r in results].count(Verdict.FAIL) == 0
    assert [r.verdict for r in results].count(Verdict.PASS) >= 1


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("order", ORDERS)
def test_judge__rates(order, settings):
    """Over 150 runs: a correct sampler PASSes 95 times of 100 and never FAILs; a temperature 5 %
    off is flagged 95 times of 100 and never PASSes (bounds leave room for chance)."""
    asked, n = spec(**SETTINGS[settings]), 150

    def verdicts(fault: Faulty) -> list[Verdict]:
        servers = [server(fault, asked, order=ORDERS[order], seed=s) for s in range(n)]
        return [STAGE.judge(run(asked, s)).verdict for s in servers]

    correct = verdicts(RIGHT)

    assert correct.count(Verdict.FAIL) == 0
    assert correct.count(Verdict.PASS) >= 0.91 * n
    for fault in (Faulty(temperature=1.05), Faulty(temperature=0.95)):
        assert Verdict.PASS not in verdicts(fault)


def test_judge__in_the_wrong_order():
    """A correct llama.cpp read as if it were vLLM would FAIL: the order has to be the engine's."""
    asked = spec(temperature=0.5, top_k=20, top_p=0.8)
    correct = server(asked=asked)
    wrong = replace(correct.engine, filters=VLLM)

    assert STAGE.judge(run(asked, correct)).verdict is not Verdict.FAIL
    assert STAGE.judge(observe(context(asked, {}, wrong), correct)).verdict is Verdict.FAIL


def test_judge__unknown_order(right):
    """Where the dialect tells no order a correct sampler is judged by what every order keeps, and
    it is said."""
    unknown = {k: replace(e, dialect="openai", filters=()) for k, e in right.engines.items()}
    result = STAGE.judge(replace(right, engines=unknown))

    assert result.verdict is not Verdict.FAIL
    assert any("order of the engine's filters is not known" in c for c in result.caveats)


@pytest.mark.parametrize("dialect", ["llamacpp", "vllm", "sglang", ""])
def test_judge__a_record_that_is_lost(right, hot, dialect):
    """Without the engine's record, or its order where the dialect tells one, nothing is proven."""
    read_as = observe(context(USUAL, {}, replace(server().engine, filters=VLLM)), server(seed=3))
    for where in (right, hot, read_as):
        lost = {k: replace(e, dialect=dialect, filters=()) for k, e in where.engines.items()}

        assert STAGE.judge(replace(where, engines=lost)).verdict is Verdict.UNPROVEN
        assert STAGE.judge(replace(where, engines={})).verdict is Verdict.UNPROVEN


def fresh_of(where: Context, other: Context) -> Context:
    """The first draws of one run, and those of another as its fresh ones."""
    draws = {t: o for t, o in other.seen["sampling"].items() if t.attempt == 2}
    return altered(where, draws)


def test_judge__the_fresh_draws_strike(right, hot):
    """Fresh draws that are striking, or that lack some, keep good first ones from their PASS."""
    both = fresh_of(right, hot)
    result = STAGE.judge(both)
    tags = sorted(t for t in both.seen["sampling"] if t.attempt == 2)

    assert result.verdict is Verdict.UNPROVEN
    assert "the fresh draws are striking" in checks(result)["sampling.places"].reason
    assert checks(result)["sampling.support"].verdict is Verdict.PASS
    for n in (1, 16, 31):
        assert STAGE.judge(without(both, set(tags[:n]))).verdict is Verdict.UNPROVEN


def test_judge__noise_between_requests():
    """A tenth of a nat of noise changes nothing: each draw is judged by its own list."""
    world, asked = SamplerWorld(vocabulary=100), spec(temperature=0.8, top_p=1.0, draws=64)
    noisy = Sampling(world, asked.params, LLAMACPP, listing=Listing(noise=0.1))
    result = STAGE.judge(run(asked, noisy))

    assert result.verdict is not Verdict.FAIL
    assert "p = " not in " ".join(c.reason for c in result.checks)


def test_judge__sixteen_bits():
    """Logits that tie, at the cut as well, do not blame a sampler."""
    world, asked = SamplerWorld(vocabulary=100), spec(temperature=0.8, top_k=10, draws=64)
    tying = Sampling(world, asked.params, VLLM, listing=Listing(tie=0.25))
    result = STAGE.judge(run(asked, tying))

    assert result.verdict is not Verdict.FAIL
    assert "p = " not in " ".join(c.reason for c in result.checks)


def test_judge__processed_lists():
    """Lists that the sampler has altered agree with any sampler: UNPROVEN, a faulty one too."""
    for fault in (RIGHT, Faulty(temperature=1.2)):
        result = STAGE.judge(run(USUAL, server(fault, processed=True)))

        assert result.verdict is Verdict.UNPROVEN
        assert "the lists are not raw" in checks(result)["sampling.lists"].reason
        assert "raw_logprobs" in result.next_steps[0]


def test_judge__lists_that_nobody_asked_twice(right, hot):
    """Where it is not known that the lists are raw there is no verdict."""
    for where in (right, hot):
        for leg in ("raw", "raw-other"):
            gone = {t for t in where.seen["sampling"] if t.leg == leg}
            result = STAGE.judge(without(where, gone))

            assert result.verdict is Verdict.UNPROVEN
            assert "not known whether the lists are raw" in result.checks[0].reason


def test_judge__lists_of_other_kinds(right):
    """Lists keyed by ids and by texts cannot be compared."""
    tag = next(t for t in right.seen["sampling"] if t.leg == "raw-other")
    seen = right.seen["sampling"][tag]
    rows = replace(seen.answer.rows, match=Match.TEXT)
    changed = {tag: replace(seen, answer=replace(seen.answer, rows=rows))}

    assert STAGE.judge(altered(right, changed)).verdict is Verdict.UNPROVEN


def test_judge__answers_to_other_questions(right, hot):
    """An answer to another question than the plan's is none: not a PASS, and not a FAIL."""
    for where in (right, hot):
        seen = where.seen["sampling"]
        foreign = {t: replace(o, call_sha256="0" * 64) for t, o in seen.items()}
        some = {t: o for t, o in foreign.items() if t.unit == "p-003"}

        assert STAGE.judge(altered(where, foreign)).verdict is Verdict.NOT_RUN
        assert STAGE.judge(altered(where, some)).verdict is not Verdict.PASS
        assert STAGE.judge(altered(where, some)).coverage.missing == ("p-003",)
    swapped = dict(right.prompts) | {"p-001": right.prompts["p-002"]}

    assert STAGE.judge(replace(right, prompts=swapped)).coverage.missing == ("p-001",)
    assert STAGE.judge(replace(right, prompts={})).verdict is Verdict.NOT_RUN
    assert STAGE.judge(told(right, top_logprobs=-1)).verdict is Verdict.NOT_RUN


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (("top_k", "temperature"), "no step for top_p"),
        (("top_k", "top_p", "xtc", "temperature"), "not modelled: xtc"),
    ],
)
def test_judge__what_the_engine_does_besides(right, hot, filters, said):
    """A filter that is missing, or one that is not modelled, leaves no verdict either way."""
    for where in (right, hot):
        other = {k: replace(e, filters=filters) for k, e in where.engines.items()}
        result = STAGE.judge(replace(where, engines=other))

        assert result.verdict is Verdict.UNPROVEN
        assert said in checks(result)["sampling.lists"].reason


@pytest.mark.parametrize(
    ("flag", "harmless"),
    [
        ("the engine refuses the field repeat_penalty, it was left out", False),
        ("the engine refuses the field return_tokens, it was left out", True),
        ("the log-probability rows are not one per generated token", True),
        ("two accounts of the generated token ids disagree", False),
    ],
)
def test_judge__flags(right, flag, harmless):
    """What was left out of a request, or is odd about an answer, is named where it matters."""
    result = STAGE.judge(told(right, flags=(flag,)))

    assert (result.verdict is Verdict.PASS) is harmless
    assert harmless or flag in checks(result)["sampling.lists"].reason


def test_judge__losing_draws_never_makes_a_pass(right, hot):
    """Any part of the evidence may be missing or have failed: no PASS comes of it."""
    rng = np.random.default_rng(0)
    open_ = run(USUAL, server(FAULTS["5 % too hot"], order=VLLM, seed=9))
    for where in (right, hot, open_):
        tags = sorted(where.seen["sampling"])
        for _ in range(3):
            lost = {t for t in tags if rng.random() < 0.2}
            thin = without(where, lost)
            dead = {t: Observation(t, "", Failure(FailureKind.TIMEOUT, "timed out")) for t in lost}
            if not {t for t in lost if t.attempt == 0}:
                continue

            assert STAGE.judge(thin).verdict is not Verdict.PASS
            assert STAGE.judge(altered(where, dead)).verdict is not Verdict.PASS


def test_judge__lost_sequences_rows_and_numbers(right):
    """Sequences given up, rows lost and values that are none keep a sampler from its PASS."""
    tag = Tag(Arm.CANDIDATE, "draws-0", "p-000")
    seen = right.seen["sampling"][tag]
    whole = seen.answer
    first = slice(0, whole.lengths[0])
    rows = replace(
        whole.rows,
        **{
            n: getattr(whole.rows, n)[first]
            for n in ("chosen", "logprob", "top", "top_logprob", "usable")
        },
    )
    fewer = replace(whole, rows=rows, lengths=whole.lengths[:1], finish_reasons=("length",))
    result = STAGE.judge(altered(right, {tag: replace(seen, answer=fewer)}))

    assert result.verdict is Verdict.UNPROVEN
    assert "p-000" in {f.unit for f in result.faults}

    lost = STAGE.judge(told(right, completion_tokens=10**6))

    assert lost.verdict is Verdict.UNPROVEN
    assert "have lost rows" in lost.checks[1].reason or lost.coverage.observed == 0

    broken = {}
    for t, o in right.seen["sampling"].items():
        bad = o.answer.rows.logprob.copy()
        bad[: len(bad) // 20] = np.nan
        broken[t] = replace(o, answer=replace(o.answer, rows=replace(o.answer.rows, logprob=bad)))
    result = STAGE.judge(altered(right, broken))

    assert result.verdict is Verdict.UNPROVEN
    assert "cannot be told" in checks(result)["sampling.support"].reason


def test_judge__the_end_is_not_known(right):
    """Texts that end without a row, and nobody says in which token."""
    result = STAGE.judge(run(USUAL, server(listing=Listing(ends=True), seed=2), arm=Arm.CANDIDATE))
    nameless = told(
        run(USUAL, server(listing=Listing(ends=True), seed=2), arm=Arm.CANDIDATE), eos_id=None
    )

    assert result.verdict is not Verdict.FAIL
    assert STAGE.judge(nameless).verdict is Verdict.UNPROVEN
    assert "the end of a text has no row" in STAGE.judge(nameless).checks[0].reason


def test_judge__nothing():
    """No draw at all is NOT RUN, whatever else there is."""
    empty = context(USUAL, {}, server().engine)
    result = STAGE.judge(empty)
    fell = observe(empty, Silent(WORLD, USUAL.params))

    assert result.verdict is Verdict.NOT_RUN
    assert result.coverage.observed == 0
    assert STAGE.judge(fell).verdict is Verdict.NOT_RUN
    assert len(STAGE.judge(fell).faults) == UNITS


def test_judge__a_plan_without_prompts():
    """Nothing to ask is nothing to judge."""
    where = context(USUAL, {}, server().engine)
    empty = replace(where, plan=replace(where.plan, prompt_ids=(), looks=(0,)))

    assert list(STAGE.ask(empty)) == []
    assert STAGE.judge(empty).verdict is Verdict.NOT_RUN


def test_judge__a_prompt_that_fails_twice(right):
    """A prompt of which one request failed and another was never sent has failed."""
    asked = spec(**SETTINGS["T .6, top_k 20, top_p .95"], per_request=4)
    done = run(asked, server(asked=asked, seed=3))
    first, second = (Tag(Arm.CANDIDATE, f"draws-{i}", "p-002") for i in (0, 1))
    dead = {first: Observation(first, "", Failure(FailureKind.TIMEOUT, "timed out"))}
    result = STAGE.judge(without(altered(done, dead), {second}))

    assert result.coverage.failed == ("p-002",)
    assert [f.detail for f in result.faults] == ["timed out"]


def test_judge__a_spent_budget_is_no_failure(right):
    """What was never sent is missing, and not the engine's fault."""
    tag = Tag(Arm.CANDIDATE, "draws-0", "p-005")
    cut = Observation(tag, "", Failure(FailureKind.BUDGET, "the time budget is spent"))
    result = STAGE.judge(altered(right, {tag: cut}))

    assert result.verdict is Verdict.UNPROVEN
    assert (result.coverage.failed, result.coverage.missing) == ((), ("p-005",))


class Silent(Sampling):
    """A server that answers nothing."""

    def answer(self, call: object) -> Failure:
        return Failure(FailureKind.STATUS, "HTTP 500", 500)


class Once(Sampling):
    """A server that fails each draw the first time."""

    def answer(self, call: object) -> object:
        assert isinstance(call, Draw)
        if call.tag.attempt in (0, 2):
            return Failure(FailureKind.RESET, "reset")
        return super().answer(call)


class Capped(Sampling):
    """A server that lists five tokens."""

    def answer(self, call: object) -> object:
        assert isinstance(call, Draw)
        said = super().answer(call)
        assert isinstance(said, Drawn)
        rows = said.rows
        cut = replace(rows, top=rows.top[:, :5], top_logprob=rows.top_logprob[:, :5])
        return replace(said, rows=cut, top_logprobs=5)


def test_judge__a_sure_model():
    """Where the model is sure of every token nothing shows, and it is said what would."""

    class Sure(Sampling):
        def draws(self, n: int, tokens: int) -> Drawn:
            said = super().draws(n, tokens)
            logs = np.full_like(said.rows.top_logprob, -12.0)
            logs[:, 0] = -1e-4
            return replace(
                said,
                rows=replace(
                    said.rows, top_logprob=logs, chosen=said.rows.top[:, 0], logprob=logs[:, 0]
                ),
            )

    result = STAGE.judge(run(USUAL, Sure(WORLD, USUAL.params)))

    assert result.verdict is Verdict.UNPROVEN
    assert "sure of every token" in checks(result)["sampling.temperature"].reason
    assert "higher temperature" in checks(result)["sampling.temperature"].power


def test_judge__greedy():
    """A sampler that always takes the most likely token fits no temperature."""
    result = STAGE.judge(run(USUAL, server(Faulty(greedy=1.0))))

    assert result.verdict is Verdict.FAIL
    assert "fit no temperature" in checks(result)["sampling.temperature"].reason


def test_judge__top_k_ignored_behind_the_last_place():
    """An engine that puts what it drew in the last one's place cannot hide that top_k is off."""
    asked = spec(temperature=1.0, top_k=20, top_p=1.0)
    hiding = server(Faulty(ignores=("top_k",)), asked, listing=Listing(guest=True), order=VLLM)
    result = STAGE.judge(run(asked, hiding))

    assert result.verdict is Verdict.FAIL
    assert "last token listed" in checks(result)["sampling.support"].reason


def test_judge__capture():
    """A capture keeps draws and figures and judges nothing, a faulty sampler's too; it is said."""
    kept = run(USUAL, server(), arm=Arm.BASELINE)
    result = STAGE.judge(kept)
    bad = STAGE.judge(run(USUAL, server(Faulty(temperature=1.2)), arm=Arm.BASELINE))

    assert result.verdict is Verdict.UNPROVEN
    assert [c.metric for c in result.checks if c.judged] == ["sampling.capture"]
    assert checks(result)["sampling.temperature"].candidate == pytest.approx(0.6, abs=0.02)
    assert bad.verdict is Verdict.UNPROVEN
    assert "does not draw from its own" in bad.checks[0].reason


def as_baseline(where: Context) -> Observed:
    return Observed(where.plan, where.prompts, where.seen, where.engines, root="b" * 64)


def test_judge__beside_the_baseline(right, hot):
    """Both samplers' figures stand side by side; the baseline's fault is told, and takes a FAIL
    that need not be this change's."""
    good = as_baseline(run(USUAL, server(seed=8), arm=Arm.BASELINE))
    bad = as_baseline(run(USUAL, server(Faulty(temperature=1.2)), arm=Arm.BASELINE))
    beside = STAGE.judge(replace(right, baseline=good))
    changed = STAGE.judge(replace(hot, baseline=good))
    alike = STAGE.judge(replace(hot, baseline=bad))

    assert [row[0] for row in beside.tables[0].rows] == ["baseline", "candidate"]
    assert checks(beside)["sampling.temperature"].baseline == pytest.approx(0.6, abs=0.02)
    assert beside.verdict is Verdict.PASS
    assert changed.verdict is Verdict.FAIL
    assert "The baseline's sampler does." in changed.meaning[0]
    assert alike.verdict is Verdict.UNPROVEN
    assert "need not be the cause" in checks(alike)["sampling.temperature"].reason
    assert STAGE.judge(replace(right, baseline=bad)).verdict is Verdict.PASS


def test_judge__a_baseline_at_other_settings(right):
    """Draws at other settings are not compared with."""
    other = spec(temperature=0.7, top_k=20, top_p=0.95, draws=32)
    before = as_baseline(run(other, server(asked=other), arm=Arm.BASELINE))
    result = STAGE.judge(replace(right, baseline=before))

    assert result.verdict is Verdict.PASS
    assert len(result.tables[0].rows) == 1
    assert any("no draws at these settings" in c for c in result.caveats)


def test_ask__the_usual(right):
    """256 texts in 32 requests, an eighth of a percent of one-token draws, and two to see whether
    the lists are raw; none is asked again where the first draws settle it."""
    asked = right.seen["sampling"]
    draws = [t for t in asked if t.leg.startswith("draws")]

    assert len(draws) == 32
    assert len(asked) == 34
    assert len(asked) <= 8192 / 10
    assert {t.unit for t in draws} == set(prompts(UNITS))
    assert sum(len(asked[t].answer.lengths) for t in draws) == 256


def test_ask__fails_once():
    """A draw that failed is asked once more, and counts as if it had not."""
    done = run(USUAL, Once(WORLD, USUAL.params, seed=3))

    assert STAGE.judge(done).verdict is Verdict.PASS
    assert {t.attempt for t in done.seen["sampling"]} == {0, 1}


def test_ask__a_cap_on_lists():
    """A shorter list that the engine accepted is asked for from then on."""
    done = run(USUAL, Capped(WORLD, USUAL.params, seed=3))
    result = STAGE.judge(done)

    assert result.verdict is not Verdict.FAIL
    assert checks(result)["sampling.lists"].verdict is Verdict.PASS


def test_ask__relaunches_ask_nothing():
    """A relaunch of the baseline is there for other stages' noise."""
    where = replace(context(USUAL, {}, server().engine, arm=Arm.REPEAT), launch=1)

    assert list(STAGE.ask(where)) == []
    assert STAGE.needs(USUAL, Arm.REPEAT) == frozenset()
    assert Capability.TOP_LOGPROBS in STAGE.needs(USUAL, Arm.CANDIDATE)


@pytest.mark.parametrize("of", [2, 3, 5])
def test_ask__parts_of_a_plan_ask_the_whole(right, of):
    """Machines that each ask a part ask what one would, both sets, and are judged as one."""
    seen: dict[Tag, Observation] = {}
    ids = right.plan.prompt_ids
    for shard in range(1, of + 1):
        mine = ids[shard - 1 :: of]
        part = replace(right.plan, prompt_ids=mine, looks=(len(mine),))
        where = replace(
            right, plan=part, seen={"sampling": {}}, part=(shard, of), engines=right.engines
        )
        seen |= observe(where, server(seed=shard)).seen["sampling"]
    draws = {t for t in seen if t.leg.startswith("draws")}
    once = {t for t in right.seen["sampling"] if t.leg.startswith("draws")}

    assert draws == once | {replace(t, attempt=2) for t in once}
    assert STAGE.judge(replace(right, seen={"sampling": seen})).verdict in (
        Verdict.PASS,
        Verdict.UNPROVEN,
    )


def test_shares__all_draws_are_asked():
    """Every draw of the plan is in one request, prompts take turns, sizes are kept."""
    asked = spec(draws=100, prompts=3, per_request=8)
    found = shares(asked, ("a", "b", "c"), range(3))

    assert sum(s.n for s in found) == 100
    assert {u: sum(s.n for s in found if s.unit == u) for u in "abc"} == {"a": 34, "b": 33, "c": 33}
    assert max(s.n for s in found) == 8
    assert [s.unit for s in found[:3]] == ["a", "b", "c"]
    assert len({(s.unit, s.number) for s in found}) == len(found)
    assert len(all_shares(spec(draws=5), plan_of(spec()))) == 5
    assert max(s.n for s in shares(spec(draws=512, tokens=1000), ("a",), (0,))) == 1


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"temperature": 0.0}, "nothing is drawn"),
        ({"temperature": 0.01}, "as good as greedy"),
        ({"top_k": 1}, "one token"),
        ({"top_p": 0.0}, "one token"),
        ({"min_p": 1.0}, "one token"),
        ({}, ""),
    ],
)
def test_check(params, said):
    """A sampler that draws nothing is no question: told before any request."""
    found = STAGE.check(spec(**params), plan_of(spec()))

    assert said in found
    assert bool(found) is bool(said)


def test_out_of_reach():
    """Too few draws are told before the first request; the plan's number of prompts is not."""
    asked = spec(draws=8, tokens=16)
    plan = plan_of(asked, units=4)

    assert inputs.warnings(plan) == (f"sampling {STAGE.out_of_reach(asked, plan)}",)
    assert "cannot PASS: 64 positions" in STAGE.out_of_reach(asked, plan_of(asked, units=4))
    assert inputs.warnings(plan_of(spec())) == ()


def test_few_prompts_are_told():
    """A plan with fewer prompts than wanted has fewer draws, and says so."""
    done = run(USUAL, server(seed=3))
    small = replace(done, plan=replace(done.plan, prompt_ids=done.plan.prompt_ids[:8], looks=(8,)))
    result = STAGE.judge(small)

    assert any("the plan has 8 prompts, 32 were wanted" in c for c in result.caveats)
    assert result.coverage.required == 8
    assert K == 20


def test_the_plan_example():
    """What the documentation shows is read as it stands."""
    text = """\
stages:
  - sampling: {temperature: 0.6, top_k: 20, top_p: 0.95, prompts: 32, draws: 256, tokens: 64}
"""
    (found,) = inputs.read_request(text, "plan.yml").stages

    assert found == USUAL


def hostile(rng: np.random.Generator, n: int, tokens: int) -> Drawn:
    """An answer as a forger might write it: any numbers, any lengths that add up."""
    total, k = n * tokens, int(rng.integers(0, 6))
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -1e-30, 5.0, -1e4, -1.0, -2.0], np.float32)
    rows = Rows(
        rng.integers(-3, 6, total),
        rng.choice(odd, total),
        rng.integers(-2, 6, (total, k)),
        rng.choice(odd, (total, k)),
        rng.random(total) < 0.7,
        list(Match)[int(rng.integers(0, 3))],
        {1: "\ufffd", 2: "a"},
        {"no log-probability": 3} if rng.random() < 0.5 else {},
    )
    ends = [("stop", "length")[int(i)] for i in rng.integers(0, 2, n)]
    counted = None if rng.random() < 0.3 else int(rng.integers(0, 2 * total + 1))
    eos = None if rng.random() < 0.5 else int(rng.integers(0, 6))
    accepted = int(rng.choice([0, 1, 5, 20, 10**9]))
    return Drawn(rows, (tokens,) * n, tuple(ends), counted, accepted, eos)


@pytest.mark.parametrize("seed", range(24))
def test_judge__any_evidence(seed):
    """Whatever the evidence holds, it is judged without an error, and it does not PASS."""
    rng = np.random.default_rng(seed)
    asked = spec(
        prompts=4,
        draws=8,
        tokens=5,
        temperature=float(rng.choice([0.05, 0.6, 1.0, 5.0])),
        top_k=int(rng.choice([0, 2, 20])),
        top_p=float(rng.choice([0.5, 1.0])),
        min_p=float(rng.choice([0.0, 0.1])),
    )
    where = run(asked, server(asked=asked))
    seen = {
        t: replace(o, answer=hostile(rng, len(o.answer.lengths), 5))
        for t, o in where.seen["sampling"].items()
        if rng.random() < 0.95
    }
    result = STAGE.judge(replace(where, seen={"sampling": seen}))

    assert result.verdict is not Verdict.PASS
    assert all(np.isfinite(c.estimate.value or 0) for c in result.checks if c.estimate)
