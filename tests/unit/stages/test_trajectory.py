"""The stage `trajectory`: what is asked, how texts that part are judged, the degeneration guard."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from fake_engine import CANNOT, FakeEngine, captured, compared, drive
from world import (
    ENDS,
    ENGINE,
    FAILED,
    World,
    answering,
    check_of,
    judged,
    keep,
    noisy,
    only,
    stage_of,
    without,
)

from iqaction import stages
from iqaction.calls import (
    Arm,
    Call,
    Capability,
    Chat,
    Failure,
    FailureKind,
    Generation,
    Message,
    Observation,
    Tag,
    Tokenize,
)
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.prompts import Prompt
from iqaction.report import Report
from iqaction.stages._base import TRAFFIC, Context
from iqaction.stages._paths import generation
from iqaction.verdict import Verdict

STAGE = stages.load("trajectory")
SMALL = World(units=6, length=8)


def asked(engine: FakeEngine, leg: str = "trajectory") -> list[tuple[str, int]]:
    return [(t.unit, t.attempt) for t in engine.tags if t.leg == leg]


def capture(engine: FakeEngine, world: World = SMALL) -> Observed:
    return drive(world.plan(), world, {Arm.BASELINE: engine}, arm=Arm.BASELINE)


def chats(engine: FakeEngine) -> list[Chat]:
    return [c for c in engine.calls if isinstance(c, Chat)]


# asking


def test_ask__greedy_and_neutral() -> None:
    """Every text is asked for greedily, with the plan's length and list, as its prompt says."""
    engine = FakeEngine(SMALL)
    capture(engine)

    assert asked(engine) == [(u, 0) for u in SMALL.names]
    for call, unit in zip(chats(engine), SMALL.names, strict=True):
        assert (call.temperature, call.seed, call.max_tokens, call.top_logprobs) == (0, 0, 8, 20)
        assert call.messages == (Message("user", f"say {unit}"),)


def rounds(
    prompts: tuple[Prompt, ...], spec: StageSpec, answer: object = None
) -> list[tuple[int, list[Call]]]:
    """The rounds that a capture asks, each chat answered by ``answer``."""
    plan = replace(SMALL.plan(), stages=(spec,), prompt_ids=tuple(p.id for p in prompts))
    kept: dict[Tag, Observation] = {}
    context = Context(
        spec, plan, {p.id: p for p in prompts}, {"trajectory": kept}, -1, Arm.BASELINE, 0
    )
    found: list[tuple[int, list[Call]]] = []
    asking = STAGE.ask(context)
    sent: list[Observation] | None = None
    while True:
        try:
            wanted = next(asking) if sent is None else asking.send(sent)
        except StopIteration:
            return found
        found.append((wanted.concurrency, list(wanted.calls)))
        sent = [Observation(c.tag, "", answer or _text()) for c in wanted.calls]  # type: ignore[arg-type]
        for one in sent:
            keep(kept, one.tag, one.answer)


def _text() -> Generation:
    return SMALL.generation(SMALL.logits("p-000"), "p-000")


def spec(**params: object) -> StageSpec:
    plan = SMALL.plan().stages[0]
    return replace(plan, params={**plan.params, **params})  # type: ignore[dict-item]


def prompt(ident: str, **changes: object) -> Prompt:
    return replace(Prompt(ident, "b", (Message("user", ident),)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "own", "wanted"),
    [(None, None, 256), (64, None, 64), (None, 9, 9), (64, 9, 9), (8, 99, 8)],
)
def test_ask__max_tokens(plan: int | None, own: int | None, wanted: int) -> None:
    """The smaller of the plan's and the prompt's limit; 256 where neither says."""
    ((_, (call,)),) = rounds((prompt("a", max_tokens=own),), spec(max_tokens=plan))

    assert isinstance(call, Chat)
    assert call.max_tokens == wanted


def test_ask__template_arguments() -> None:
    """The plan's template arguments, the prompt's own over them key by key; the seed."""
    one = prompt("a", template_kwargs='{"thinking":true,"x":1}')
    plan = spec(chat_template_kwargs='{"thinking":false,"y":2}')
    ((_, (call,)),) = rounds((one,), replace(plan, seed=7))

    assert isinstance(call, Chat)
    assert call.template_kwargs == '{"thinking":true,"x":1,"y":2}'
    assert call.seed == 7


@pytest.mark.parametrize("planned", [4, "auto", 1])
def test_ask__concurrency(planned: object) -> None:
    """The first request goes alone, the others as traffic does; the runner knows the number."""
    prompts = tuple(prompt(x) for x in "abcd")

    found = rounds(prompts, spec(concurrency=planned))

    assert [(n, [c.tag.unit for c in calls]) for n, calls in found] == [
        (1, ["a"]),
        (TRAFFIC, ["b", "c", "d"]),
    ]


def test_ask__cap_is_found_alone() -> None:
    """A cap that the first answer reveals holds for all that follow."""
    engine = FakeEngine(SMALL, cap=5)
    capture(engine)

    assert [c.top_logprobs for c in chats(engine)] == [20, 5, 5, 5, 5, 5]


def test_ask__without_logprobs() -> None:
    """An engine that gives no log-probabilities three times is not asked for them again."""
    engine = FakeEngine(SMALL, text_only=True)
    capture(engine)

    assert [c.top_logprobs for c in chats(engine)] == [20, 20, 20, 0, 0, 0]


class Glitch(FakeEngine):
    """A server whose very first answer lacks its log-probabilities."""

    def __call__(self, call: Call) -> Observation:
        observation = super().__call__(call)
        if len(self.calls) > 1:
            return observation
        answer = observation.answer
        assert isinstance(answer, Generation)
        bare = replace(answer, rows=None, rows_complete=False, top_logprobs=0)
        return replace(observation, answer=bare)


def test_ask__one_answer_without_lists() -> None:
    """One answer that lacks its lists is a glitch: it is asked once more, and that one counts."""
    engine = Glitch(SMALL)
    kept = capture(engine)

    assert [c.top_logprobs for c in chats(engine)] == [20] * 7
    answer = generation(kept.seen["trajectory"], Arm.BASELINE, SMALL.names[0])
    assert isinstance(answer, Generation)
    assert answer.rows is not None


def test_ask__first_requests_fail() -> None:
    """The cap is looked for in the first three requests; after that all are asked as planned."""
    engine = FakeEngine(SMALL, cap=5, fails=_failing("p-000", "p-001"))
    capture(engine)

    ks = {(c.tag.unit, c.tag.attempt): c.top_logprobs for c in chats(engine)}
    assert [ks[(u, 0)] for u in SMALL.names] == [20, 20, 20, 5, 5, 5]
    assert [ks[(u, 1)] for u in SMALL.names[:2]] == [5, 5]

    dead = FakeEngine(SMALL, fails=lambda call: FAILED)
    capture(dead)
    assert {c.top_logprobs for c in chats(dead)} == {20}
    each = [(u, a) for u in SMALL.names for a in (0, 1)] * 4  # errors, and few of them
    assert Counter(asked(dead)) == Counter(each)


def _failing(*units: str) -> object:
    return lambda call: FAILED if call.tag.unit in units else None


def test_ask__nothing() -> None:
    """No prompts, no questions."""
    assert rounds((), spec()) == []


def test_ask__prompt_ids_from_the_tokenizer() -> None:
    """Where chats do not tell prompt ids, the engine's tokenizer is asked, failures aside."""
    engine = FakeEngine(SMALL, told_ids=False, fails=_failing("p-002"))
    observed = capture(engine)

    assert asked(engine, "template") == [(u, 0) for u in SMALL.names if u != "p-002"]
    calls = [c for c in engine.calls if isinstance(c, Tokenize)]
    assert all(c.text is None and c.messages for c in calls)
    assert any(t.leg == "self" for t in observed.seen["score"])


def test_ask__no_tokenizer() -> None:
    """An engine without a tokenizer is not asked for one, nor one that told the ids."""
    for engine in (FakeEngine(SMALL, told_ids=False, tokenizes=False), FakeEngine(SMALL)):
        capture(engine)
        assert asked(engine, "template") == []


def test_ask__relaunch() -> None:
    """A relaunch writes texts only for a live reference."""
    for params, texts in (({}, 0), ({"reference": "http://x"}, 6)):
        engines = [FakeEngine(SMALL, version="1.0"), FakeEngine(SMALL, version="1.0")]
        captured(SMALL, 1, engines.__getitem__, **params)
        assert len(asked(engines[1])) == texts


def test_needs() -> None:
    """Whoever writes texts must chat; a live reference writes none."""
    for arm in Arm:
        needed = STAGE.needs(spec(), arm)
        assert needed == (frozenset() if arm is Arm.REFERENCE else {Capability.CHAT})
    assert STAGE.check(spec(), SMALL.plan()) == ""


# judging


def stage(report: Report) -> object:
    return stage_of(report, "trajectory")


def test_judge__a_against_a(well: Observed) -> None:
    """The same model again writes the same texts, or parts at ties."""
    report = judged(well)

    found = stage_of(report, "trajectory")
    assert found.verdict is Verdict.PASS
    assert {d.kind for d in found.divergences} <= {"tie"}
    assert found.faults == ()
    assert found.caveats == ()


@pytest.mark.parametrize("end", ENDS)
def test_judge__texts_that_stop(end: str) -> None:
    """Texts that stop alike PASS, however the end token is told."""
    world = World(units=60, length=8, end=end)
    report = judged(compared(world, FakeEngine(world), captured(world, 3)))

    assert report.verdict is Verdict.PASS


def apart(world: World, n: int, gap: float, at: int | None = 5) -> FakeEngine:
    """An engine that writes another token than the reference in ``n`` prompts, where the
    reference preferred its own by about ``gap`` nats: at one position, or where that fits best."""

    def decoding(unit: str, logits: np.ndarray) -> np.ndarray:
        if unit not in world.names[:n]:
            return logits
        changed, reference = logits.copy(), world.logits(unit)
        off = np.abs(reference.max(axis=1, keepdims=True) - gap - reference)
        position = int(off.min(axis=1).argmin()) if at is None else at
        other = int(off[position].argmin())
        changed[position, other] = changed[position].max() + 1.0
        return changed

    return FakeEngine(world, decoding=decoding, noise=0.001)


@pytest.mark.parametrize(
    ("n", "gap", "verdict"),
    [
        (0, 5.0, "PASS"),
        (1, 5.0, "UNPROVEN"),
        (7, 5.0, "UNPROVEN"),
        (8, 5.0, "FAIL"),
    ],
)
def test_judge__real_divergences(
    world: World, baseline: Observed, n: int, gap: float, verdict: str
) -> None:
    """8 really diverging texts of 64 FAIL, 7 do not; none of 64 PASS, 1 does not."""
    report = judged(compared(world, apart(world, n, gap), baseline))

    check = check_of(report, "trajectory.real")
    assert check.verdict.value == verdict
    assert check.estimate is not None
    assert check.estimate.value == n / 64
    real = [d for d in stage_of(report, "trajectory").divergences if d.kind == "real"]
    assert len(real) == n
    assert all(d.position == 5 and (d.gap or 0) > 1 for d in real)
    if n == 1:
        assert check.more_would_help
        assert "29 more prompts" in check.power


def test_judge__ten_of_96() -> None:
    """10 of 96 FAIL, 9 do not; 1 of 96 PASSes."""
    world = World(units=96, length=8)
    baseline = captured(world, 0)

    for n, verdict in ((10, "FAIL"), (9, "UNPROVEN"), (1, "PASS")):
        report = judged(compared(world, apart(world, n, 5.0), baseline))
        assert check_of(report, "trajectory.real").verdict.value == verdict


def test_judge__shifts_are_harmless(world: World, baseline: Observed) -> None:
    """Texts that part where the reference was within a nat PASS, and are listed after real ones."""
    engine = apart(world, 40, 0.6, None)
    found = stage_of(judged(compared(world, engine, baseline)), "trajectory")

    kinds = Counter(d.kind for d in found.divergences)
    assert found.checks[0].verdict is Verdict.PASS
    assert kinds["shift"] >= 20
    assert kinds["real"] == 0
    weights = ["real", "unknown", "shift", "tie"]
    order = [weights.index(d.kind) for d in found.divergences]
    assert order == sorted(order)


@pytest.mark.parametrize(("noise", "limit"), [(0.001, 0.25), (0.2, None), (3.0, 1.0)])
def test_judge__tie_limit(world: World, noise: float, limit: float | None) -> None:
    """Ties reach to a quarter nat, or to 1.5 times the floor's largest change, up to one nat."""
    from iqaction.stages import _trajectory_judge as judge  # noqa: PLC0415

    baseline = captured(world, 2, lambda n: FakeEngine(world, noise=noise, seed=n, version="1.0"))
    pairs = {
        u: baseline.seen["trajectory"][Tag(Arm.BASELINE, "trajectory", u)].answer.rows  # type: ignore[union-attr]
        for u in world.names
    }
    floor = judge._floor_change(baseline, pairs)
    assert floor is not None
    if limit is None:
        assert 1.5 * floor > 0.25
    else:
        assert min(1.0, max(0.25, 1.5 * floor)) == limit


def test_judge__no_floor(world: World) -> None:
    """Without relaunches the tie limit is a quarter nat, and the report says so."""
    baseline = captured(world, 0)
    found = stage_of(judged(compared(world, FakeEngine(world), baseline)), "trajectory")

    assert any("no A/A floor for ties: gaps up to 0.25" in c for c in found.caveats)


def one_text(observed: Observed, unit: str, answer: object, arm: Arm = Arm.CANDIDATE) -> Observed:
    return answering(observed, "trajectory", {Tag(arm, "trajectory", unit): answer})


@pytest.fixture(scope="module")
def healthy(well: Observed) -> Observed:
    return well


def test_judge__empty_text_is_real(healthy: Observed) -> None:
    """A candidate that says nothing where the reference spoke really diverges."""
    empty = Generation("", "stop", completion_tokens=1, prompt_tokens=5)
    report = judged(one_text(healthy, "p-004", empty))

    (found,) = [d for d in stage_of(report, "trajectory").divergences if d.unit == "p-004"]
    assert found.kind == "real"
    assert check_of(report, "trajectory.real").verdict is Verdict.UNPROVEN


def test_judge__two_empty_texts_never_agree(healthy: Observed, baseline: Observed) -> None:
    """A prompt on which the baseline itself said nothing proves nothing: it is a gap."""
    empty = Generation("", "stop", completion_tokens=1, prompt_tokens=5)
    theirs = one_text(baseline, "p-004", empty, Arm.BASELINE)
    report = judged(replace(one_text(healthy, "p-004", empty), baseline=theirs))

    found = stage_of(report, "trajectory")
    assert found.verdict is Verdict.UNPROVEN
    assert found.coverage.left_out == ("p-004",)
    real = check_of(report, "trajectory.real")
    assert real.verdict is Verdict.UNPROVEN
    assert "1 of 64 prompts cannot be compared" in real.reason
    assert STAGE.left_out(spec(), theirs) == {"p-004": "baseline: there is no text for it"}


def test_judge__reasoning_counts_as_text(healthy: Observed, baseline: Observed) -> None:
    """A text that was cut while reasoning is a text."""
    said = Generation("", "length", None, False, "thinking ...", prompt_tokens=5)
    theirs = one_text(baseline, "p-004", said, Arm.BASELINE)

    found = stage_of(
        judged(replace(one_text(healthy, "p-004", said), baseline=theirs)), "trajectory"
    )

    assert found.coverage.left_out == ()
    assert not [d for d in found.divergences if d.unit == "p-004"]


def test_judge__unknown_weight(healthy: Observed) -> None:
    """A difference that cannot be weighed counts against a PASS, for no FAIL, and no number of
    prompts would change that."""
    text = Generation("something else", "stop", prompt_tokens=5)

    one = judged(one_text(healthy, "p-004", text))
    observed = healthy
    for unit in sorted({t.unit for t in healthy.seen["trajectory"]})[:30]:
        observed = one_text(observed, unit, text)
    many = judged(observed)

    for report, n in ((one, 1), (many, 30)):
        check = check_of(report, "trajectory.real")
        assert check.verdict is Verdict.UNPROVEN
        assert f"{n} differ in a way that cannot be weighed" in check.reason
        assert not check.more_would_help
        assert "more prompts will not decide it" in check.power


def test_judge__failed_prompt(healthy: Observed) -> None:
    """A prompt that the candidate failed at counts as diverging for a PASS, and is named."""
    report = judged(one_text(healthy, "p-004", FAILED))

    found = stage_of(report, "trajectory")
    assert found.verdict is Verdict.UNPROVEN
    assert found.coverage.failed == ("p-004",)
    assert ("p-004", "failed", FAILED.message) in [(f.unit, f.kind, f.detail) for f in found.faults]
    assert "1 have no answer (counted as diverging)" in check_of(report, "trajectory.real").reason


def test_judge__missing_prompt(world: World, baseline: Observed, healthy: Observed) -> None:
    """A prompt that was never answered prevents a PASS, and hides no FAIL."""

    def lost(tag: Tag) -> bool:
        return tag.unit == "p-060"

    found = stage_of(judged(without(healthy, "trajectory", lost)), "trajectory")
    assert found.verdict is Verdict.UNPROVEN
    assert found.coverage.missing == ("p-060",)
    bad = without(compared(world, apart(world, 9, 5.0), baseline), "trajectory", lost)
    assert check_of(judged(bad), "trajectory.real").verdict is Verdict.FAIL


def test_judge__nothing_answered(world: World, baseline: Observed) -> None:
    """A candidate that answered nothing was not run."""
    engine = FakeEngine(world, fails=lambda call: FAILED)
    report = judged(compared(world, engine, baseline))

    assert stage_of(report, "trajectory").verdict is Verdict.NOT_RUN
    assert report.verdict is Verdict.NOT_RUN
    assert not stage_of(report, "trajectory").more_would_help


def test_judge__text_only_candidate(world: World, baseline: Observed) -> None:
    """Texts without log-probabilities are compared as texts: equal ones agree."""
    engine = FakeEngine(world, text_only=True, noise=0.0)
    report = judged(compared(world, engine, baseline))

    found = stage_of(report, "trajectory")
    assert any("gives no log-probabilities" in c for c in found.caveats)
    assert {d.kind for d in found.divergences} <= {"unknown"}


def test_judge__flags_become_caveats(healthy: Observed) -> None:
    """Oddities of the answers are counted and shown."""

    def flagged(tag: Tag, answer: object) -> object:
        return replace(answer, flags=("odd",)) if isinstance(answer, Generation) else answer

    found = stage_of(judged(answering(healthy, "trajectory", flagged)), "trajectory")

    assert "64 of 64 answers: odd" in found.caveats


# the degeneration guard


def looping(units: tuple[str, ...]) -> object:
    """Texts of these prompts repeat one piece, with the same tokens and log-probabilities."""

    def change(tag: Tag, answer: object) -> object:
        if tag.unit in units and isinstance(answer, Generation):
            return replace(answer, text=answer.text + "so " * 40)
        return answer

    return change


class Degenerate(FakeEngine):
    """An engine whose first, or also fresh, texts of some prompts end in a loop."""

    def __init__(self, world: World, units: tuple[str, ...], *, again: bool) -> None:
        super().__init__(world)
        self.units, self.again = units, again

    def __call__(self, call: Call) -> Observation:
        observation = super().__call__(call)
        if isinstance(call, Chat) and (self.again or call.tag.attempt != 2):
            change = looping(self.units)
            answer = change(call.tag, observation.answer)  # type: ignore[operator]
            return replace(observation, answer=answer)
        return observation


@pytest.mark.parametrize(
    ("n", "again", "verdict"),
    [(7, True, "PASS"), (8, True, "FAIL"), (8, False, "UNPROVEN"), (30, True, "FAIL")],
)
def test_guard__twice(world: World, baseline: Observed, n: int, again: bool, verdict: str) -> None:
    """Eight loops more than the baseline raise the guard; it FAILs only if fresh texts do too."""
    engine = Degenerate(world, world.names[:n], again=again)
    report = judged(compared(world, engine, baseline))

    check = check_of(report, "trajectory.guard")
    assert check.verdict.value == verdict
    fresh = [t for t in engine.tags if t.attempt == 2 and t.leg == "trajectory"]
    assert len(fresh) == (64 if n >= 8 else 0)
    if verdict == "FAIL":
        assert f"ends in a loop: {n} more, 0 fewer than the baseline" in check.reason
        assert "and again on fresh requests" in check.reason
    if verdict == "UNPROVEN":
        assert "not again on fresh requests" in check.reason


def test_guard__fresh_texts_lost(world: World, baseline: Observed) -> None:
    """Where fresh texts are lost, the guard stays raised and FAILs nothing."""
    observed = compared(world, Degenerate(world, world.names[:20], again=True), baseline)

    for units, said in ((("p-001",), "not again"), (world.names, "not asked a second time")):
        lost = without(
            observed, "trajectory", lambda t, u=units: t.attempt == 2 and t.unit in u  # type: ignore[misc]
        )  # fmt: skip
        check = check_of(judged(lost), "trajectory.guard")
        assert check.verdict is Verdict.UNPROVEN
        assert said in check.reason


CYRILLIC = "это совсем другой текст, в нём нет ни петли, ни повторов"
SIGNS = {
    "cut off at the token limit": lambda g: replace(g, finish_reason="stop"),
    "uses another script": lambda g: replace(g, text=CYRILLIC),
    "less than half as long": lambda g: replace(g, text=g.text[:9]),
}


def spoiled(observed: Observed, change: object) -> Observed:
    """Twenty texts of the evidence, changed."""

    def one(tag: Tag, answer: object) -> object:
        if isinstance(answer, Generation) and tag.launch == 0 and tag.unit < "p-020":
            return change(answer)  # type: ignore[operator]
        return answer

    return answering(observed, "trajectory", one)


@pytest.mark.parametrize("sign", SIGNS)
def test_guard__signs(healthy: Observed, baseline: Observed, sign: str) -> None:
    """Texts cut at the limit, in another script or of half the length raise the guard."""
    # "length" is how these texts end: there it is the baseline's that must stop
    if "cut off" in sign:
        observed = replace(healthy, baseline=spoiled(baseline, SIGNS[sign]))
    else:
        observed = spoiled(healthy, SIGNS[sign])

    check = check_of(judged(observed), "trajectory.guard")

    assert check.verdict is Verdict.UNPROVEN
    assert f"{sign}: 20 more, 0 fewer than the baseline" in check.reason


@pytest.mark.parametrize("sign", SIGNS)
def test_guard__baseline_is_the_worse_one(healthy: Observed, baseline: Observed, sign: str) -> None:
    """What only the baseline's texts show is nothing against the candidate."""
    if "cut off" in sign:
        observed = spoiled(healthy, SIGNS[sign])
    elif "script" in sign:
        mixed = lambda g: replace(g, text=g.text + CYRILLIC)  # noqa: E731
        observed = replace(healthy, baseline=spoiled(baseline, mixed))
    else:
        observed = replace(healthy, baseline=spoiled(baseline, SIGNS[sign]))

    assert check_of(judged(observed), "trajectory.guard").verdict is Verdict.PASS


def test_guard__nothing_to_compare(world: World, baseline: Observed) -> None:
    """No pair of texts proves nothing."""
    engine = FakeEngine(world, fails=lambda call: FAILED)

    check = check_of(judged(compared(world, engine, baseline)), "trajectory.guard")

    assert check.verdict is Verdict.UNPROVEN


# captures


def test_capture__loops_and_failures_are_named(baseline: Observed) -> None:
    """A capture names the reference's own loops, and prompts it failed at."""
    odd = answering(baseline, "trajectory", looping(("p-001", "p-002")))  # type: ignore[arg-type]
    odd = one_text(odd, "p-005", FAILED, Arm.BASELINE)
    odd = without(odd, "trajectory", lambda t: t.unit == "p-006")

    found = stage_of(judged(odd), "trajectory")

    assert found.verdict is Verdict.UNPROVEN
    assert any("2 of 62 reference texts end in a loop: p-001, p-002" in c for c in found.caveats)
    assert (found.coverage.failed, found.coverage.missing) == (("p-005",), ("p-006",))
    assert [(f.unit, f.kind) for f in found.faults] == [("p-005", "failed")]
    assert "62 reference texts kept" in check_of(judged(odd), "trajectory.capture").reason


# the chat template


def template(report: Report) -> object:
    return check_of(report, "trajectory.template")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"system": (1, 2)}, "5 prompt tokens before, 7 now"),
        ({"system": (1, 2), "counts": False}, "prompt token 0 differs (5 ids before, 7 now)"),
        (
            {"system": (1, 2), "told_ids": False, "tokenizes": False},
            "5 prompt tokens before, 7 now",
        ),
    ],
)
def test_template__system_prompt(
    world: World, baseline: Observed, changes: dict[str, object], said: str
) -> None:
    """A system prompt behind the API never PASSes and is named, though forced rows are clean."""
    engine = FakeEngine(world, **changes)  # type: ignore[arg-type]
    report = judged(compared(world, engine, baseline))

    assert report.verdict is not Verdict.PASS
    check = check_of(report, "trajectory.template")
    assert check.verdict is Verdict.UNPROVEN
    assert said in check.reason
    assert "64 of 64 prompts reach the model as other tokens" in check.reason
    kl = check_of(report, "reference.kl")
    assert kl.verdict is Verdict.UNPROVEN  # within its margin, and of another question
    assert "at most" in kl.reason
    faults = [f for f in stage_of(report, "trajectory").faults if f.kind == "template"]
    assert len(faults) == 64


@pytest.mark.parametrize("how", ["lost", "failed"])
def test_template__prompt_that_failed(how: str) -> None:
    """One failed prompt of 96 is within the bound on real divergences; but it may be the one
    whose template differs, so that it never PASSes."""
    world = World(units=96, length=4)
    observed = compared(world, FakeEngine(world), captured(world, 0), floor="single")
    tag = Tag(Arm.CANDIDATE, "trajectory", "p-004")
    assert stage_of(judged(observed), "trajectory").verdict is Verdict.PASS
    if how == "failed":
        observed = one_text(observed, "p-004", FAILED)
        assert check_of(judged(observed), "trajectory.real").verdict is Verdict.PASS
    else:
        observed = without(observed, "trajectory", lambda t: t == tag)

    check = check_of(judged(observed), "trajectory.template")

    assert check.verdict is Verdict.UNPROVEN
    assert "1 of 96 prompts" in check.reason


def test_template__same_count_other_ids(healthy: Observed) -> None:
    """Another template of the same length is seen by its ids, on one prompt already."""

    def changed(tag: Tag, answer: object) -> object:
        if tag.unit == "p-004" and isinstance(answer, Generation):
            return replace(answer, prompt_ids=(7, 4, 8, 99, 10))
        return answer

    report = judged(answering(healthy, "trajectory", changed))

    check = check_of(report, "trajectory.template")
    assert check.verdict is Verdict.UNPROVEN
    assert "1 of 64 prompts reach" in check.reason
    assert "p-004: prompt token 3 differs" in check.reason


def test_template__counts_alone(world: World) -> None:
    """Where an engine tells no ids and has no tokenizer, equal counts are what can be told."""
    baseline = captured(world, 3)
    engine = FakeEngine(world, told_ids=False, tokenizes=False)

    check = check_of(judged(compared(world, engine, baseline)), "trajectory.template")

    assert check.verdict is Verdict.PASS


def test_template__nothing_told(world: World, baseline: Observed) -> None:
    """Neither ids nor counts: a changed template would not be seen, and that never PASSes."""
    engine = FakeEngine(world, told_ids=False, tokenizes=False, counts=False)
    report = judged(compared(world, engine, baseline))

    check = check_of(report, "trajectory.template")
    assert check.verdict is Verdict.UNPROVEN
    assert "64 of 64 prompts: their token ids or counts are not known" in check.reason


@cache
def tokenized_apart(arm: Arm) -> Observed:
    """Evidence in which one arm's chats tell no prompt ids, and its tokenizer does."""
    world = World(units=64, length=8)
    theirs = FakeEngine(world, told_ids=arm is not Arm.BASELINE, version="1.0")
    baseline = captured(world, 0, lambda n: theirs)
    engine = FakeEngine(world, told_ids=arm is not Arm.CANDIDATE)
    return compared(world, engine, baseline, legs=("reference",), floor="single")


@pytest.mark.parametrize("arm", [Arm.CANDIDATE, Arm.BASELINE])
def test_template__tokenizer(arm: Arm) -> None:
    """Ids that an arm's tokenizer tells are as good as those of its chats."""
    check = check_of(judged(tokenized_apart(arm)), "trajectory.template")

    assert check.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (None, "UNPROVEN"),
        (FAILED, "UNPROVEN"),
        (Failure(FailureKind.TIMEOUT, "late"), "UNPROVEN"),
        (CANNOT, "PASS"),
    ],
)
@pytest.mark.parametrize("arm", [Arm.CANDIDATE, Arm.BASELINE])
def test_template__tokenizer_answer_lost(answer: object, verdict: str, arm: Arm) -> None:
    """Ids that were to be had and are lost are not replaced by counts; a server without such an
    endpoint has none to lose."""
    observed = tokenized_apart(arm)
    baseline = observed.baseline
    assert baseline is not None
    tag = Tag(arm, "template", "p-004")

    def spoil(one: Observed) -> Observed:
        if answer is None:
            return without(one, "trajectory", lambda t: t == tag)
        return answering(one, "trajectory", {tag: answer})

    if arm is Arm.BASELINE:
        observed = replace(observed, baseline=spoil(baseline))
    else:
        observed = spoil(observed)

    assert check_of(judged(observed), "trajectory.template").verdict.value == verdict


def test_template__engine_not_known(healthy: Observed) -> None:
    """Without a named engine nothing is assumed of its tokenizer."""

    def silent(tag: Tag, answer: object) -> object:
        return replace(answer, prompt_ids=None) if isinstance(answer, Generation) else answer

    observed = replace(answering(healthy, "trajectory", silent), engines={})
    assert check_of(judged(observed), "trajectory.template").verdict is Verdict.PASS
    named = replace(observed, engines={(Arm.CANDIDATE, 0): ENGINE})
    assert check_of(judged(named), "trajectory.template").verdict is Verdict.UNPROVEN


def test_judge__damage_shows_in_texts(world: World, baseline: Observed) -> None:
    """A damaged model writes really diverging texts."""
    engine = FakeEngine(world, damage=only(world.names[:40], noisy(3.0)))

    assert check_of(judged(compared(world, engine, baseline)), "trajectory.real").verdict is (
        Verdict.FAIL
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda a: replace(a, reasoning=a.text, text=""),
        lambda a: replace(a, reasoning=a.text[:9], text=a.text[9:]),
        lambda a: replace(a, finish_reason="tool_calls"),
    ],
    ids=["all reasoning", "half reasoning", "tool call"],
)
def test_judge__same_tokens_other_answer(change: object) -> None:
    """The same tokens that reach the client as another answer never PASS: a parser changed them."""
    world = World(units=64, length=8)
    observed = compared(world, FakeEngine(world), captured(world, 3))

    def parsed(tag: Tag, answer: object) -> object:
        return change(answer) if isinstance(answer, Generation) else answer  # type: ignore[operator]

    report = judged(answering(observed, "trajectory", parsed))

    assert report.verdict is not Verdict.PASS
    assert "differ in a way that cannot be weighed" in check_of(report, "trajectory.real").reason
