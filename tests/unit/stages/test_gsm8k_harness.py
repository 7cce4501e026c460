"""`gsm8k` by lm-evaluation-harness: one call, figures of both arms, and never a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from world import ENGINE, ROOT

from iqaction import item_view, judgement, runner, stages
from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Evaluate,
    Evaluated,
    Failure,
    FailureKind,
    Observation,
    Score,
    Tag,
    digest,
)
from iqaction.errors import ConfigError
from iqaction.evidence import envelope
from iqaction.inputs import freeze, read_request, warnings
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.progress import Quiet
from iqaction.prompts import PromptSet
from iqaction.report import Report, StageResult
from iqaction.runner import Connection, Job
from iqaction.verdict import Verdict

STAGE = stages.load("gsm8k")
SAID = Evaluated(
    "gsm8k",
    (
        Score("exact_match", "flexible-extract", 0.75, 0.0119),
        Score("exact_match", "strict-match", 0.5, 0.0138),
    ),
    1319,
    "0.4.13",
    "3.0",
    "ab" * 32,
    5,
)
LATE = Failure(FailureKind.TIMEOUT, "lm-evaluation-harness did not end within 60 s")


def spec(**params: object) -> StageSpec:
    usual = {p.name: p.default for p in STAGE.params}
    required = bool(params.pop("required", True))
    return StageSpec("gsm8k", {**usual, "backend": "lm-eval", **params}, required=required)  # type: ignore[arg-type]


def plan(root: str = "", **params: object) -> Plan:
    return Plan((spec(**params),), "p" * 64, (), (0,), root)


def drive(
    observed: Observed,
    answer: Answer,
    arm: Arm = Arm.CANDIDATE,
    launch: int = 0,
    part: tuple[int, int] = (0, 0),
) -> tuple[Observed, list[Call]]:
    """What a run keeps, and what it asked."""
    calls: list[Call] = []

    def ask(call: Call) -> Observation:
        calls.append(call)
        return Observation(call.tag, digest(call), answer)

    kept = {s: dict(tags) for s, tags in observed.seen.items()}
    engine = observed.engines.get((arm, launch), ENGINE)
    job = Job(
        observed.plan, {}, kept, {arm: Connection(engine, ask)}, lambda *_: None, lambda: 1,
        lambda _: False, arm, launch, observed.baseline, part=part,
    )  # fmt: skip
    runner.observe(job, Quiet())
    return replace(observed, seen=kept), calls


def captured(answer: Answer = SAID, **params: object) -> Observed:
    empty = Observed(plan(**params), {}, {}, {(Arm.BASELINE, 0): ENGINE}, root=ROOT)
    return drive(empty, answer, Arm.BASELINE)[0]


def compared(answer: Answer = SAID, before: Answer = SAID, **params: object) -> Observed:
    empty = Observed(
        plan(ROOT, **params), {}, {}, {(Arm.CANDIDATE, 0): replace(ENGINE, version="2")},
        baseline=captured(before, **params),
    )  # fmt: skip
    return drive(empty, answer)[0]


def judged(observed: Observed) -> StageResult:
    (result,) = report(observed).stages
    return result


def report(observed: Observed) -> Report:
    return judgement.judge(observed, "0")


# asking


def test_ask__one_call() -> None:
    """The harness is asked once, with the plan's numbers; a run that is continued asks nothing."""
    empty = Observed(plan(limit=50, max_tokens=99, concurrency=3, time_budget=60.0), {}, {})
    kept, (call,) = drive(empty, SAID, Arm.BASELINE)

    assert call == Evaluate(Tag(Arm.BASELINE, "lm-eval", "gsm8k"), "gsm8k", 50, 99, 3, 60)
    assert drive(kept, SAID, Arm.BASELINE)[1] == []
    late, _ = drive(empty, LATE, Arm.BASELINE)
    assert len(drive(late, SAID, Arm.BASELINE)[1]) == 1


@pytest.mark.parametrize(("slots", "number"), [(None, 8), (4, 4), (512, 32)])
def test_ask__as_many_as_the_engine_serves(slots: int | None, number: int) -> None:
    """`auto` is what the engine tells, within bounds, else eight."""
    engine = replace(ENGINE, slots=slots)
    empty = Observed(plan(), {}, {}, {(Arm.BASELINE, 0): engine})
    _, (call,) = drive(empty, SAID, Arm.BASELINE)

    assert isinstance(call, Evaluate)
    assert call.concurrency == number


def test_ask__once_for_all() -> None:
    """Of a matrix the first part asks it, and a relaunch does not."""
    empty = Observed(plan(), {}, {})

    assert len(drive(empty, SAID, Arm.BASELINE, part=(1, 3))[1]) == 1
    assert drive(empty, SAID, Arm.BASELINE, part=(2, 3))[1] == []
    assert drive(empty, SAID, Arm.REPEAT, 1)[1] == []


# judging


def test_judge__figures_and_no_verdict() -> None:
    """Both arms' figures stand beside each other; however good they are, nothing PASSes."""
    better = (*SAID.scores[:1], Score("exact_match", "strict-match", 0.9, 0.01))
    found = judged(compared(replace(SAID, scores=better)))
    shown = [c for c in found.checks if not c.judged]

    assert found.verdict is Verdict.UNPROVEN
    assert "flexible-extract 75.0 %, strict-match 90.0 % of 1,319 documents" in (
        found.checks[0].reason
    )
    assert [(c.metric, c.baseline, c.candidate) for c in shown] == [
        ("gsm8k.lm_eval.flexible-extract", 0.75, 0.75),
        ("gsm8k.lm_eval.strict-match", 0.5, 0.9),
    ]
    # A share in the report's column of losses would read as a loss.
    assert [c.estimate for c in found.checks] == [None] * 3
    assert shown[1].reason.startswith("90.0 % (88.3 to 91.5)")
    assert found.tables[0].rows[1] == ("exact_match, strict-match", 0.5, 0.0138, 0.9, 0.01)
    assert "0.4.13" in found.caveats[0]
    assert "5-shot, 1,319 documents, hash abababababab" in found.caveats[0]


def test_judge__worse_is_no_fail() -> None:
    """Shares that nobody paired cannot FAIL either."""
    worse = replace(SAID, scores=(Score("exact_match", "strict-match", 0.01, 0.001),))

    assert judged(compared(worse)).verdict is Verdict.UNPROVEN


def test_judge__not_required() -> None:
    """`required: false` keeps the figures from holding up the rest, and from advice on it."""
    found = judged(compared(required=False))

    assert not found.required
    assert found.next_steps == ()
    assert "`backend: builtin`" in judged(compared()).next_steps[0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (LATE, "did not end within 60 s"),
        (replace(SAID, scores=(Score("exact_match", "x", 7.0),)), "none of them is a share"),
        (replace(SAID, documents=0), "none of them is a share"),
    ],
)
def test_judge__no_figures(answer: Answer, said: str) -> None:
    """A harness that failed, or says what cannot be, is not observed; and the reason is named."""
    found = judged(compared(answer))

    assert found.verdict is Verdict.NOT_RUN
    assert said in found.checks[0].reason
    assert said in found.faults[0].detail
    assert found.coverage.failed == ("gsm8k",)


def test_judge__never_asked() -> None:
    """Evidence without an answer is no figure."""
    found = judged(replace(compared(), seen={}))

    assert found.verdict is Verdict.NOT_RUN


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (replace(SAID, task_sha256="cd" * 32), "hash cdcdcdcdcdcd): the two do not compare"),
        (replace(SAID, version="0.4.9"), "the two do not compare"),
        (LATE, "the baseline has no figures: lm-evaluation-harness did not end"),
    ],
)
def test_judge__another_baseline(before: Answer, said: str) -> None:
    """Figures of other documents or another harness are said not to compare."""
    assert any(said in c for c in judged(compared(before=before)).caveats)
    assert not any("do not compare" in c for c in judged(compared()).caveats)


def test_judge__capture() -> None:
    """A capture records the figures too."""
    found = judged(captured())

    assert found.verdict is Verdict.UNPROVEN
    assert found.checks[1].candidate == 0.75


def test_baseline__of_the_other_backend() -> None:
    """A baseline that the built-in asked is not compared with; one that is older than the
    parameter was asked by the built-in."""
    builtin = StageSpec("gsm8k", {p.name: p.default for p in STAGE.params})
    older = replace(builtin, params={k: v for k, v in builtin.params.items() if k != "backend"})
    asked = [Plan((s,), "p" * 64, (), (0,)) for s in (spec(), builtin, older)]
    evidence = [Observed(p, {}, {}) for p in asked]

    assert judgement.incompatible(asked[0], evidence[1]) == (
        "gsm8k.backend: lm-eval now, builtin in the baseline",
    )
    assert judgement.incompatible(asked[0], evidence[2]) != ()
    assert judgement.incompatible(asked[1], evidence[2]) == ()


# plan and evidence


def test_plan__what_it_cannot_be_told() -> None:
    """What only the built-in understands is refused, named, and its place told."""
    text = "stages: [{gsm8k: {backend: lm-eval, data: mine.jsonl, wording: v1}}]"

    with pytest.raises(ConfigError, match=r"plan\.yml:1: gsm8k: .*: data cannot be given"):
        freeze(read_request(text, "plan.yml"), PromptSet((), "0" * 64, b""))


def test_plan__no_pass_is_said_before() -> None:
    """Where it would hold up the whole, that is said before the first request."""
    assert any("gsm8k cannot PASS: the figures of" in w for w in warnings(plan()))
    assert warnings(plan(required=False)) == ()


@pytest.mark.parametrize("answer", [SAID, Evaluated("gsm8k", SAID.scores, 3)])
def test_evidence__round_trip(answer: Evaluated) -> None:
    """Every field survives being stored."""
    said = Observation(Tag(Arm.CANDIDATE, "lm-eval", "gsm8k"), "0" * 64, answer)
    body = envelope.observation_to_json("gsm8k", said, "2026-01-01T00:00:00Z")

    assert envelope.observation_from_json(body)[1].answer == answer


def test_unit() -> None:
    """It has no items that could be looked up."""
    assert item_view.find(compared(), "gsm8k-0001") is None
