"""The stage `gsm8k`: what is asked and when asking ends, what is compared, what a verdict means."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from answered import GSM8K, STAGE, Exam, answers, less, spread
from hypothesis import given, settings
from hypothesis import strategies as st
from world import ENGINE, ROOT

from iqaction import inputs, judgement, runner
from iqaction.calls import (
    Arm,
    Call,
    Capability,
    Chat,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Tag,
    digest,
)
from iqaction.errors import ConfigError
from iqaction.observed import Observed
from iqaction.plan import StageSpec
from iqaction.progress import Quiet
from iqaction.report import Check, StageResult
from iqaction.runner import Connection, Job
from iqaction.stages._base import TRAFFIC, Round
from iqaction.stages._paired_items import permuted
from iqaction.verdict import Verdict

PASS, FAIL, UNPROVEN, NOT_RUN = Verdict.PASS, Verdict.FAIL, Verdict.UNPROVEN, Verdict.NOT_RUN
SMALL = Exam(problems=240)
SOLVED = "R*240"
TINY = Exam(90, {"margin": 0.06})  # can PASS
LONG = Exam(180, {"margin": 0.06, "time_budget": 60.0})  # can PASS at an early look


def mixed(text: str, seed: int = 1) -> tuple[str, str]:
    """`RR*90 RW*3`, baseline first, in a random order: both sides' letters."""
    pairs = [w for word in text.split() for w in [word[:2]] * int(word[3:] or 1)]
    random.Random(seed).shuffle(pairs)
    return "".join(p[0] for p in pairs), "".join(p[1] for p in pairs)


def judged(text: str, exam: Exam = SMALL, again: str = "") -> StageResult:
    return exam.result(*mixed(text), again)


def check(result: StageResult, name: str) -> Check:
    return next(c for c in result.checks if c.metric == f"gsm8k.{name}")


def verdicts(result: StageResult) -> tuple[Verdict, Verdict, Verdict]:
    return result.verdict, check(result, "accuracy").verdict, check(result, "completion").verdict


# asking


class Server:
    """Answers problems by letter, in the order of the plan."""

    def __init__(self, exam: Exam, letters: str, elapsed_s: float = 0.0) -> None:
        self.letters = dict(zip(exam.units, spread(letters), strict=False))
        self.calls: list[Chat] = []
        self.elapsed_s = elapsed_s

    def __call__(self, call: Call) -> Observation:
        assert isinstance(call, Chat)
        self.calls.append(call)
        said = list(answers(self.letters[call.tag.unit], int(call.tag.unit[6:])))
        answer = said[min(call.tag.attempt, len(said) - 1)]
        return Observation(call.tag, digest(call), answer, elapsed_s=self.elapsed_s)

    @property
    def asked(self) -> list[tuple[str, int]]:
        return [(c.tag.unit, c.tag.attempt) for c in self.calls]


def drive(
    exam: Exam,
    server: Server,
    observed: Observed,
    arm: Arm = Arm.CANDIDATE,
    launch: int = 0,
    part: tuple[int, int] = (0, 0),
) -> Observed:
    """What a run keeps; it continues what ``observed`` holds."""
    kept = {GSM8K: dict(observed.seen.get(GSM8K, {}))}
    job = Job(
        observed.plan, {}, kept, {arm: Connection(ENGINE, server)}, lambda *_: None, lambda: 1,
        lambda _: False, arm, launch, observed.baseline, observed.data, part,
    )  # fmt: skip
    runner.observe(job, Quiet())
    return replace(observed, seen=kept)


def nothing(exam: Exam, baseline: Observed | None = None) -> Observed:
    plan = exam.plan(ROOT if baseline else "")
    engines = {(Arm.CANDIDATE if baseline else Arm.BASELINE, 0): ENGINE}
    return Observed(plan, {}, {}, engines, baseline=baseline, data={GSM8K: exam.data})


def rounds(exam: Exam, arm: Arm, launch: int = 0, baseline: Observed | None = None) -> list[Round]:
    """The rounds of a run whose every answer is right."""
    observed = nothing(exam, baseline)
    kept: dict[Tag, Observation] = {}
    server, found = Server(exam, f"R*{exam.problems}"), []
    context = exam.context(replace(observed, seen={GSM8K: kept}), arm, launch)
    asking = STAGE.ask(context)
    sent: Sequence[Observation] | None = None
    while True:
        try:
            wanted = next(asking) if sent is None else asking.send(sent)
        except StopIteration:
            return found
        found.append(wanted)
        sent = [server(call) for call in wanted.calls]
        kept |= {o.tag: o for o in sent}


def test_ask__capture() -> None:
    """A capture asks every problem once, in the plan's order, greedily, as traffic does."""
    (one,) = rounds(SMALL, Arm.BASELINE)

    assert [c.tag.unit for c in one.calls] == list(SMALL.units)
    assert one.concurrency == TRAFFIC
    for call in one.calls:
        assert isinstance(call, Chat)
        assert (call.temperature, call.max_tokens, call.top_logprobs) == (0, 1024, 0)
        assert call.messages[0].content.startswith(f"{int(call.tag.unit[6:])}?\n\n")
        assert "#### number" in call.messages[0].content


def test_ask__settings() -> None:
    """Number in flight, limit, seed, budget and template arguments are the plan's."""
    params = {
        "concurrency": 8,
        "limit": 7,
        "max_tokens": 64,
        "time_budget": 60.0,
        "chat_template_kwargs": '{"enable_thinking":false}',
    }
    (one,) = rounds(Exam(20, params, seed=5), Arm.BASELINE)
    call = one.calls[0]

    assert (len(one.calls), one.concurrency, one.budget_s) == (7, 8, 60)
    assert isinstance(call, Chat)
    assert (call.max_tokens, call.seed) == (64, 5)
    assert call.template_kwargs == '{"enable_thinking":false}'


def test_ask__order() -> None:
    """The order is the seed's and the rows', fixed for ever, and a limit takes its beginning."""
    assert Exam(8).units == permuted([f"gsm8k-000{i}" for i in range(8)], 0)
    assert [int(u[6:]) for u in Exam(8).units] == [5, 0, 7, 3, 6, 2, 1, 4]
    assert Exam(8).units != Exam(8, seed=1).units
    assert Exam(8, {"limit": 3}).units == Exam(8).units[:3]


def test_ask__relaunches() -> None:
    """The first relaunch answers the beginning again, for the floor; the others nothing."""
    (first,) = rounds(SMALL, Arm.REPEAT, 1)

    assert [c.tag.unit for c in first.calls] == list(SMALL.units[:200])
    assert {(c.tag.arm, c.tag.launch) for c in first.calls} == {(Arm.REPEAT, 1)}
    assert rounds(SMALL, Arm.REPEAT, 2) == []


@pytest.mark.parametrize(
    ("candidate", "asked"),
    [("R*600", 300), ("W*600", 100), ("C*600", 100), ("R*6 W " * 90, 200)],
)
def test_ask__ends_where_decided(candidate: str, asked: int) -> None:
    """A candidate is asked look by look, and no further than the first look that decides."""
    exam = Exam(600, {"margin": 0.04})
    baseline = exam.capture("R*600")
    server = Server(exam, candidate)

    observed = drive(exam, server, nothing(exam, baseline))
    full = exam.compare(baseline, candidate)

    assert [u for u, _ in server.asked] == list(exam.units[:asked])
    assert exam.judge(observed).verdict is exam.judge(full).verdict
    assert len(exam.judge(observed).coverage.missing) == 0


def test_ask__failures_once_more() -> None:
    """What failed is asked once more with its look; what was answered then counts. Errors that
    are few are asked again before that: the way may have made them."""
    exam = Exam(120)
    server = Server(exam, "R t F R*117")

    observed = drive(exam, server, nothing(exam, exam.capture("R*120")))

    timed_out, failed = exam.units[1], exam.units[2]
    again = [*[(failed, 0)] * 3, (timed_out, 1), *[(failed, 1)] * 4]
    assert server.asked[20:28] == again
    assert [n for n, (_, attempt) in enumerate(server.asked) if attempt] == [23, 24, 25, 26, 27]
    assert [f.unit for f in exam.judge(observed).faults] == [exam.units[2]]


def test_ask__resumes() -> None:
    """A run that broke off is continued: nothing is asked twice, and the result is the same."""
    exam = Exam(240)
    baseline = exam.capture("R*240")
    whole = drive(exam, Server(exam, SOLVED), nothing(exam, baseline))
    kept = dict(list(whole.seen[GSM8K].items())[:101])
    server = Server(exam, SOLVED)

    continued = drive(exam, server, replace(whole, seen={GSM8K: kept}))

    assert not {c.tag for c in server.calls} & set(kept)
    assert continued.seen == whole.seen


def test_ask__budget() -> None:
    """A time budget makes one round of it, and cuts it where the clock says."""
    exam = Exam(240, {"time_budget": 60.0})
    one, *more = rounds(exam, Arm.CANDIDATE, baseline=exam.capture(SOLVED))

    assert (len(one.calls), one.budget_s, more) == (240, 60, [])


def test_ask__not_beyond_the_baseline() -> None:
    """What the baseline's own budget or limit left out is not asked."""
    exam = Exam(240)
    cut = exam.capture("R*100 B")
    smaller = Exam(240, {"limit": 60}).capture("R*60")

    assert [c.tag.unit for r in rounds(exam, Arm.CANDIDATE, baseline=cut) for c in r.calls] == list(
        exam.units[:100]
    )
    asked = [c for r in rounds(exam, Arm.CANDIDATE, baseline=smaller) for c in r.calls]
    assert [c.tag.unit for c in asked] == list(exam.units[:60])


def test_ask__part() -> None:
    """Each of three machines asks its own problems, and together they ask all, once."""
    exam = Exam(60)
    baseline = exam.capture("R*60")
    servers = [Server(exam, "R*60") for _ in range(3)]
    for i, server in enumerate(servers, 1):
        drive(exam, server, nothing(exam, baseline), part=(i, 3))

    assert sorted(u for s in servers for u, _ in s.asked) == sorted(exam.units)


@pytest.mark.parametrize(
    "other",
    [
        Exam(240, seed=1),
        Exam(240, {"max_tokens": 9}),
        Exam(240, {"chat_template_kwargs": '{"a":1}'}),
        Exam(241),
    ],
)
def test_ask__another_baseline(other: Exam) -> None:
    """Where the baseline answered other questions nothing is asked, and it is said."""
    baseline = other.capture(f"R*{other.problems}")

    assert rounds(SMALL, Arm.CANDIDATE, baseline=baseline) == [] or other.problems == 241
    result = SMALL.judge(SMALL.compare(baseline, SOLVED))
    assert result.verdict is UNPROVEN if other.problems != 241 else result.verdict is not FAIL


def test_incompatible() -> None:
    """Another data file, token limit or wording is found before anything is asked."""
    baseline = Exam(241, {"max_tokens": 9, "wording": "v0"}).capture("")
    found = judgement.incompatible(SMALL.plan(ROOT), baseline)

    assert [x.split(": ")[0] for x in found] == [
        "gsm8k.data_sha256",
        "gsm8k.max_tokens",
        "gsm8k.wording",
    ]


def test_ask__without_a_baseline_of_its_own() -> None:
    """Where the baseline holds no answers nothing is asked, and the reason is told."""
    baseline = replace(SMALL.capture(""), seen={})
    result = SMALL.judge(SMALL.compare(baseline, ""))

    assert rounds(SMALL, Arm.CANDIDATE, baseline=baseline) == []
    assert result.verdict is NOT_RUN
    assert "holds no answers of gsm8k" in result.checks[0].reason


def test_data() -> None:
    """Where the problems come from is the plan's; a file is kept as it is."""
    assert STAGE.data(request("{}")) == "default"
    assert STAGE.data(request("{data: x.jsonl}")) == "x.jsonl"
    assert STAGE.convert(SMALL.data, "x") == SMALL.data
    assert STAGE.check(SMALL.spec, SMALL.plan()) == ""


# the plan


def request(text: str) -> StageSpec:
    return inputs.read_request(f"stages:\n  - gsm8k: {text}\n", "plan.yml").stages[0]


def test_params__defaults() -> None:
    """The defaults are the whole test split, 1,024 tokens, 2 points."""
    spec = request("{}")

    assert dict(spec.params) == {
        "data": "default",
        "limit": 1319,
        "max_tokens": 1024,
        "concurrency": "auto",
        "time_budget": None,
        "margin": 0.02,
        "chat_template_kwargs": "",
        "wording": "v1",
        "backend": "builtin",
    }


def test_params__as_documented() -> None:
    """The plan of the documentation is read as meant."""
    spec = request("{limit: 400, concurrency: 8, time_budget: 20m, margin: 2pp}")

    assert (spec.integer("limit"), spec.integer("concurrency")) == (400, 8)
    assert (spec.number("time_budget"), spec.number("margin")) == (1200, 0.02)


@pytest.mark.parametrize("text", ["{margin: 10pp}", "{limit: 0}", "{wording: v9}", "{backend: x}"])
def test_params__refused(text: str) -> None:
    """A margin that no baseline could have to lose, no problems, and unknown keys are mistakes."""
    with pytest.raises(ConfigError):
        request(text)


@pytest.mark.parametrize(
    ("limit", "said"), [(204, "at least 205"), (40, "at least 205"), (205, "")]
)
def test_out_of_reach(limit: int, said: str) -> None:
    """Six looks at two points take 205 problems even where nothing flips; fewer are warned of."""
    spec = replace(SMALL.spec, params={**SMALL.spec.params, "limit": limit})
    found = STAGE.out_of_reach(spec, SMALL.plan(ROOT))

    assert (said in found) if said else found == ""
    captured = STAGE.out_of_reach(spec, SMALL.plan())
    assert captured == found.replace("cannot PASS", "cannot support a PASS")


def test_needs() -> None:
    """Chat is all it takes."""
    assert STAGE.needs(SMALL.spec, Arm.CANDIDATE) == {Capability.CHAT}
    assert STAGE.needs(SMALL.spec, Arm.REFERENCE) == frozenset()


# judging


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ("RR*240", (PASS, PASS, PASS)),
        ("RR*200 WW*40", (PASS, PASS, PASS)),
        ("RR*200 RW*40", (FAIL, FAIL, PASS)),
        ("RR*200 RC*40", (FAIL, FAIL, FAIL)),
        ("RR*200 RE*40", (FAIL, FAIL, PASS)),
        ("RR*200 RU*40", (FAIL, FAIL, PASS)),
        ("RR*200 RL*40", (FAIL, PASS, FAIL)),
        ("RR*200 RP*40", (FAIL, UNPROVEN, FAIL)),
        ("RR*200 RF*40", (FAIL, UNPROVEN, FAIL)),
        ("RR*200 RS*40", (FAIL, UNPROVEN, FAIL)),
        ("RR*200 RT*40", (UNPROVEN, UNPROVEN, UNPROVEN)),
        ("RR*200 Rt*40", (PASS, PASS, PASS)),
        ("RR*200 Rs*40", (PASS, PASS, PASS)),
        ("RR*200 WR*40", (UNPROVEN, UNPROVEN, PASS)),
        ("RR*200 CR*40", (UNPROVEN, UNPROVEN, UNPROVEN)),
        ("RR*20 WW*220", (UNPROVEN, UNPROVEN, PASS)),
        ("WW*240", (UNPROVEN, UNPROVEN, PASS)),
        ("RR*230 RW*6 WR*4", (UNPROVEN, UNPROVEN, PASS)),
        ("TR*40 RR*200", (UNPROVEN, UNPROVEN, UNPROVEN)),
        ("PP*40 RR*200", (UNPROVEN, UNPROVEN, PASS)),
    ],
)
def test_judge__verdict(pairs: str, expected: tuple[Verdict, ...]) -> None:
    """What each kind of answer counts as: wrong answers fail, what the way lost never does, what
    the engine broke is no wrong answer but an incomplete one; gains and empty tests prove
    nothing."""
    assert verdicts(judged(pairs)) == expected


def test_judge__dies_on_what_it_cannot() -> None:
    """A candidate whose requests die on 3 % of the problems that the baseline solves never
    PASSes, however they die."""
    exam = Exam(1319)
    for letter in "TS.":
        result = judged(f"RR*1164 R{letter}*36 WW*119", exam)

        assert check(result, "accuracy").verdict is UNPROVEN
        assert result.verdict in (UNPROVEN, FAIL)


def test_judge__figures() -> None:
    """Both shares with Wilson's interval, what was lost and gained, and the bound are told."""
    result = judged("RR*230 RW*1 WR*1 WW*8")
    one = check(result, "accuracy")

    assert one.reason == (
        "baseline 96.2 % (93.0 to 98.0) right, candidate 96.2 % (93.0 to 98.0) of 240 problems; "
        "1 lost, 1 gained: between 2.08 points better and 2.08 points worse, and 2 points are "
        "allowed"
    )
    assert (one.baseline, one.candidate) == (231 / 240, 231 / 240)
    assert one.estimate is not None
    assert (one.estimate.value, one.estimate.n_units, one.estimate.unit) == (0, 240, "share")
    assert one.limit == 0.02
    assert "the plan has 240" in one.power


def test_judge__power() -> None:
    """An open result says what would decide it; one beyond the margin, that nothing will."""
    exam = Exam(1320)
    open_ = exam.result(*mixed("RR*640 RW*15 WR*15 WW*50"))
    beyond = judged("RR*225 RW*9 WW*6")

    assert "more of the plan's items would decide it" in check(open_, "accuracy").power
    assert check(beyond, "accuracy").verdict is UNPROVEN
    assert "more items will not make this PASS" in check(beyond, "accuracy").power
    assert not open_.more_would_help


def test_judge__flips() -> None:
    """Every flip is listed with both answers and the right one, losses first."""
    (table,) = [t for t in judged("RR*230 WR*1 RW*1 RC*1 WW*7").tables if "flipped" in t.title]

    assert [row[0] for row in table.rows] == ["lost", "lost", "gained"]
    said = {(row[3] == row[2], row[4] == row[2]) for row in table.rows}
    assert said == {(True, False), (False, True)}
    assert "cut off before an answer" in {row[4] for row in table.rows}
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_judge__flips_beyond_the_floor() -> None:
    """Forty lost and forty gained is no drop, and is flagged where launches flip less."""
    exam = Exam(1319)
    text = "RR*1000 RW*40 WR*40 WW*239"
    steady = judged(text, exam, again=mixed(text)[0][:200])

    assert steady.verdict is PASS
    assert any("flipped between right and wrong" in c for c in steady.caveats)
    assert "no A/A floor" in " ".join(judged(text, exam).caveats)


def test_judge__flips_of_the_floor() -> None:
    """Where launches of the baseline flip as often, nothing is flagged, and the rate is used."""
    exam = Exam(1319)
    base, candidate = mixed("RR*1000 RW*40 WR*40 WW*239")
    again = base[:200].translate(str.maketrans("", "")).replace("R", "W", 12)
    result = exam.result(base, candidate, again)

    assert not any("flipped between" in c for c in result.caveats)
    (reach,) = [t for t in result.tables if "can decide" in t.title]
    assert reach.rows[0][0] == "6.0 % (A/A floor)"


def test_judge__kinds() -> None:
    """What came of the answers is counted by side, with the rules that read them."""
    (table,) = [t for t in judged("RR*200 RC*10 RE*10 RU*10 RP*5 RT*5").tables if "came" in t.title]
    n = check(judged("RR*200 RC*10 RE*10 RU*10 RP*5 RT*5"), "accuracy").estimate
    rows = {row[0]: row[1:] for row in table.rows}

    assert n is not None
    assert rows["right"][0] == rows["read by: ####"][0]
    assert {"cut off before an answer", "empty", "no answer in the text"} <= set(rows)


def test_judge__parser_fault() -> None:
    """Reasoning without an answer is named as the parser's fault, with what to do."""
    result = judged("RR*200 RP*40")

    assert any("reasoning parser fault" in c for c in result.caveats)
    assert any("reasoning parser" in s for s in result.next_steps)
    assert {f.kind for f in result.faults} == {"unusable"}


def test_judge__budget_cut() -> None:
    """A cut is judged as a look of its own at its prefix, and said to be a subset."""
    exam = Exam(1319)
    result = exam.result("R*1319", "R*700 B")

    assert result.verdict is PASS
    assert check(result, "accuracy").estimate.n_units in (660, 700)  # type: ignore[union-attr]
    late = exam.result("R*1319", "R*230 B")
    assert late.verdict is UNPROVEN
    assert check(late, "accuracy").estimate.n_units == 230  # type: ignore[union-attr]
    assert any("the first 230 of 1,319 problems" in c for c in late.caveats)
    assert (late.coverage.required, late.coverage.observed) == (1319, 230)


@pytest.mark.parametrize(
    ("late", "verdict"),
    [
        ("R", PASS),
        ("F", FAIL),
        ("S", FAIL),
        ("T", UNPROVEN),
        ("K", UNPROVEN),
        ("W", FAIL),
        ("C", FAIL),
    ],
)
@pytest.mark.parametrize("params", [{"time_budget": 3600.0}, {}])
def test_judge__beyond_the_look(late: str, verdict: Verdict, params: dict[str, object]) -> None:
    """A server that breaks after the look that decides, where all was asked, does not PASS; all
    that it failed at is covered and named."""
    exam = Exam(400, params)
    result = exam.result("R*400", f"R*335 {late}*65")

    assert result.verdict is verdict
    assert result.coverage.required == 400
    if late in "FST":
        assert len(result.coverage.failed) == 65
        assert any("65 of 400 problems failed" in c for c in result.caveats)


@pytest.mark.parametrize("gone", [range(335, 400), range(399, 400), range(350, 351)])
def test_judge__beyond_the_look_lost(gone: range) -> None:
    """Where all was asked at once, losing what contradicts a PASS gives none."""
    exam = Exam(400, {"time_budget": 3600.0})
    observed = exam.compare(exam.capture("R*400"), "R*335 S*65")
    lost = {exam.units[i] for i in gone}
    result = exam.judge(less(observed, [t for t in observed.seen[GSM8K] if t.unit in lost]))

    assert result.verdict is not PASS
    whole = exam.compare(exam.capture("R*400"), "R*400")
    part = exam.judge(less(whole, [t for t in whole.seen[GSM8K] if t.unit in lost]))
    assert part.verdict is UNPROVEN
    assert "missing from the evidence" in check(part, "accuracy").reason


def test_judge__gap_before_a_cut() -> None:
    """Answers that are missing before the mark are lost evidence, and nothing covering them
    PASSes."""
    exam = Exam(1319)

    assert exam.result("R*1319", "R*500 . R*199 B").verdict is UNPROVEN
    assert exam.result("R*500 . R*818", "R*700 B").verdict is UNPROVEN


@pytest.mark.parametrize("letters", ["R*500", "R*219", "R*500 . R*819", ". R*1318"])
def test_judge__missing_is_no_cut(letters: str) -> None:
    """A run that broke off has no look where it ended, and one with a hole no PASS beyond it."""
    exam = Exam(1319)
    result = exam.result("R*1319", letters)

    assert result.verdict is UNPROVEN
    estimate = check(result, "accuracy").estimate
    assert estimate is None or estimate.n_units in {220, 440, 660, 880, 1100, 1319}


def test_judge__nothing() -> None:
    """Without one answer the stage did not run, whatever else is there."""
    assert SMALL.result(SOLVED, "").verdict is NOT_RUN
    assert SMALL.result(SOLVED, "T*240").verdict is NOT_RUN
    assert SMALL.result(SOLVED, "S*240").verdict is NOT_RUN
    assert SMALL.result(SOLVED, "F*239 T").verdict is NOT_RUN
    assert SMALL.result(SOLVED, "B").verdict is NOT_RUN
    assert SMALL.result("", SOLVED).verdict is UNPROVEN


def test_judge__gives_everything_up() -> None:
    """An engine that takes every request and gives each up did answer: its texts are not whole."""
    result = SMALL.result(SOLVED, "F*240")

    assert result.verdict is FAIL
    assert check(result, "completion").verdict is FAIL
    assert SMALL.result("F*240", "F*240").verdict is UNPROVEN


def test_judge__template() -> None:
    """Questions that reach the model as other tokens, or unknown ones, take a PASS away."""
    observed = SMALL.compare(SMALL.capture(SOLVED), SOLVED)
    for tokens, said in ((41, "40 prompt tokens before, 41 now"), (None, "not known")):
        seen = {
            t: replace(o, answer=replace(o.answer, prompt_tokens=tokens))  # type: ignore[type-var]
            for t, o in observed.seen[GSM8K].items()
        }
        result = SMALL.judge(replace(observed, seen={GSM8K: seen}))

        assert result.verdict is UNPROVEN
        assert said in check(result, "template").reason


@pytest.mark.parametrize(
    ("before", "traffic", "now", "said"),
    [
        (8, None, 8, ""),
        ("auto", 4, "auto", ""),
        ("auto", 4, 4, ""),
        (4, None, 8, "asked 8 at a time, the baseline 4 at a time"),
        ("auto", 4, 8, "asked 8 at a time, the baseline 4 at a time"),
        (1, None, "auto", "asked as traffic is, the baseline 1 at a time"),
        (8, None, 4, "!asked 4 at a time, the baseline 8 at a time"),
        ("auto", 4, 1, "!asked 1 at a time, the baseline 4 at a time"),
        ("auto", None, 4, "!asked 4 at a time, the baseline as traffic is"),
        (8, None, "auto", "!asked as traffic is, the baseline 8 at a time"),
    ],
)
def test_judge__load(before: object, traffic: int | None, now: object, said: str) -> None:
    """A candidate that was asked less at a time than its baseline, or may have been, does not
    PASS; one that was asked otherwise is said to be."""
    baseline = Exam(240, {"concurrency": before}).capture(SOLVED)
    if traffic is not None:
        baseline = replace(baseline, concurrency={(Arm.BASELINE, 0): (traffic, "plan")})
    exam = Exam(240, {"concurrency": now})
    result = exam.judge(exam.compare(baseline, SOLVED))

    assert result.verdict is (UNPROVEN if said.startswith("!") else PASS)
    assert [c for c in result.caveats if c.startswith("asked")] == ([said.strip("!")] * bool(said))
    assert any("`concurrency`" in s for s in result.next_steps) is said.startswith("!")


def test_judge__caveats_name_no_stage() -> None:
    """Reports put the stage's name before its caveats: they do not do so themselves."""
    result = judged("RR*200 TR*10 RT*10 RP*20")
    alone = SMALL.judge(SMALL.capture("R*9 W*221 T*10", again="R*100"))

    assert result.caveats
    assert len(alone.caveats) == 3
    assert not [c for c in (*result.caveats, *alone.caveats) if "gsm8k" in c.lower()]


def test_judge__small_baseline() -> None:
    """A baseline of so few problems that no candidate can PASS says to capture more."""
    baseline = Exam(360, {"limit": 150}).capture("R*150")
    exam = Exam(360)
    result = exam.judge(exam.compare(baseline, "R*150"))

    assert result.verdict is UNPROVEN
    assert any("capture the baseline with more problems: with its 150" in s and "205" in s
               for s in result.next_steps)  # fmt: skip
    enough = Exam(360, {"limit": 300}).capture("R*300")
    assert exam.judge(exam.compare(enough, "R*300")).next_steps == ()


def test_judge__other_answers() -> None:
    """Answers to another wording or limit are no evidence: they count as missing."""
    other = Exam(240, {"max_tokens": 9})
    observed = SMALL.compare(SMALL.capture(SOLVED), SOLVED)
    foreign = other.compare(other.capture(SOLVED), SOLVED)

    assert SMALL.judge(replace(observed, seen=foreign.seen)).verdict is UNPROVEN
    assert SMALL.judge(replace(observed, baseline=foreign.baseline)).verdict is UNPROVEN


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", SMALL.data[:-20], SMALL.data + b"{}\n"])
def test_judge__data_altered(data: bytes) -> None:
    """Data that are not the plan's judge nothing, and raise nothing."""
    observed = SMALL.compare(SMALL.capture(SOLVED), SOLVED)
    result = SMALL.judge(replace(observed, data={GSM8K: data}))

    assert result.verdict is UNPROVEN
    assert "the data file is not the one" in result.checks[0].reason


def test_judge__whole_report() -> None:
    """Through the whole judgement: the report's verdict is the stage's."""
    report = judgement.judge(SMALL.compare(SMALL.capture(SOLVED), SOLVED), "1")

    assert report.verdict is PASS
    assert [s.stage for s in report.stages] == [GSM8K]


# the reference


def test_capture() -> None:
    """A reference says how much it solves, and what comparing with it can decide."""
    result = SMALL.judge(SMALL.capture("R*200 W*40", again="R*190 W*10"))

    assert result.verdict is UNPROVEN
    assert result.checks[0].reason.startswith("83.3 % (78.1 to 87.5) of 240 problems right")
    assert any("10 of 200 answers flip" in c for c in result.caveats)
    assert any("can decide" in t.title for t in result.tables)


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        ("R*9 W*231", "too few to lose"),
        ("R*230 T*10", "10 of 240 problems have no answer"),
        ("R*100 B", "the first 100 of 240 problems"),
    ],
)
def test_capture__what_it_cannot(letters: str, said: str) -> None:
    """What would keep every comparison from a PASS is said when the reference is captured."""
    assert said in " ".join(SMALL.judge(SMALL.capture(letters)).caveats)


def test_capture__nothing() -> None:
    """A reference without an answer did not run."""
    assert SMALL.judge(SMALL.capture("")).verdict is NOT_RUN


# monotonic, hostile

KINDS = st.sampled_from(["RR", "RR", "RR", "RR", "RW", "WR", "WW", "RT", "RP", "RC", "TR", "RF"])


evidence = given(
    st.lists(st.tuples(KINDS, st.integers(1, 60)), min_size=1, max_size=8),
    st.integers(0, 2**32),
    st.sampled_from([0.002, 0.02, 0.2, 0.9]),
    st.sampled_from(["", "B"]),
)


@settings(deadline=None, max_examples=40, derandomize=True)
@evidence
def test_judge__losing_evidence(
    kinds: list[tuple[str, int]], seed: int, share: float, mark: str
) -> None:
    """Whatever observations are taken away, of the candidate's or the baseline's, a result that
    is no PASS never becomes one."""
    _loses(kinds, seed, share, mark)


@settings(deadline=None, max_examples=40, derandomize=True)
@evidence
def test_judge__losing_evidence_of_a_whole_plan(
    kinds: list[tuple[str, int]], seed: int, share: float, mark: str
) -> None:
    """The same where all is asked at once, so that more is there than an early look covers: its
    end may be lost too."""
    _loses(kinds, seed, share / 20, mark, LONG)


@pytest.mark.full
@settings(deadline=None, max_examples=2000, derandomize=True)
@evidence
def test_judge__losing_evidence_often(
    kinds: list[tuple[str, int]], seed: int, share: float, mark: str
) -> None:
    """The same, in more ways."""
    _loses(kinds, seed, share, mark)


def _loses(
    kinds: list[tuple[str, int]], seed: int, share: float, mark: str, exam: Exam = TINY
) -> None:
    rng = random.Random(seed)
    base, candidate = mixed(" ".join(f"{k}*{n}" for k, n in kinds), seed)
    n = exam.problems
    base, candidate = base[:n].ljust(n, "R"), candidate[:n].ljust(n, "R")
    observed = exam.compare(exam.capture(base), candidate[: rng.randrange(n) if mark else n] + mark)
    before = exam.judge(observed)
    start = rng.choice(exam.units)  # of a tail that is lost whole, now and then
    tail = set(exam.units[exam.units.index(start) :]) if exam is LONG and rng.random() < 0.5 else ()
    gone = [t for t in observed.seen[GSM8K] if t.unit in tail or rng.random() < share]
    lacking = less(observed, gone)
    assert observed.baseline is not None
    theirs = [t for t in observed.baseline.seen[GSM8K] if rng.random() < share / 4]
    both = replace(lacking, baseline=less(observed.baseline, theirs))

    for other in (lacking, both):
        after = exam.judge(other)
        assert after.verdict is not PASS or before.verdict is PASS


HOSTILE = (
    Generation("\x1b[31m<script>|`#### 7`\u202e" * 50, "stop", prompt_tokens=40),
    Generation("####" * 1000, "length", prompt_tokens=-1),
    Generation("9" * 50_000, "stop"),
    Generation("", "tool_calls"),
    Generation("x", "no such reason", reasoning="\x00"),
    Failure(FailureKind.MALFORMED, "\n" * 999),
    Failure(FailureKind.BUDGET, ""),
)


def test_judge__hostile() -> None:
    """Evidence of any content is judged without an error, and what is shown of it is short."""
    rng = random.Random(5)
    observed = SMALL.compare(SMALL.capture(SOLVED), SOLVED)
    for _ in range(6):
        seen = {
            t: replace(o, answer=rng.choice(HOSTILE)) if rng.random() < 0.3 else o
            for t, o in observed.seen[GSM8K].items()
        }
        result = SMALL.judge(replace(observed, seen={GSM8K: seen}))

        assert result.verdict in (UNPROVEN, FAIL, NOT_RUN)
        for table in result.tables:
            assert all(len(c) <= 80 for row in table.rows for c in row if isinstance(c, str))
