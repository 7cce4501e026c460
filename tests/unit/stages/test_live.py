"""The live direction: each arm's own texts through a higher-precision reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_engine import FakeEngine, captured, compared
from world import (
    FAILED,
    World,
    answering,
    asking_for,
    check_of,
    judged,
    noisy,
    only,
    stage_of,
    without,
)

from iqaction.calls import Arm, Call, Failure, Force, Scored, Tag, Tokenize
from iqaction.observed import Observed
from iqaction.plan import Margin
from iqaction.report import Check, Report
from iqaction.rows import Match
from iqaction.stages._paths import cut
from iqaction.verdict import Verdict

LIVE = {"reference": "http://reference", "legs": ("reference",)}
TEXT_MARGINS = (Margin("decisive", 0.02), Margin("nll", 0.1))
WORLD = World(units=64, length=16)


def reference(world: World = WORLD, **changes: object) -> FakeEngine:
    return FakeEngine(world, noise=0.0, seed=500, version="full", **changes)  # type: ignore[arg-type]


def quantized(launch: int) -> FakeEngine:
    """The baseline: a model that itself lies a little beside the reference."""
    return FakeEngine(WORLD, damage=noisy(0.12, seed=3), seed=20 + launch, version="1.0")


def candidate(**changes: object) -> FakeEngine:
    settings = {"damage": noisy(0.12, seed=3), **changes}
    return FakeEngine(WORLD, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def baseline() -> Observed:
    return captured(WORLD, 3, quantized, **LIVE)


def observed_with(
    engine: FakeEngine, baseline: Observed, server: FakeEngine | None = None, **params: object
) -> Observed:
    settings = {"legs": ("reference",), **params}
    return compared(WORLD, engine, baseline, server or reference(), **settings)


@pytest.fixture(scope="module")
def well_live(baseline: Observed) -> Observed:
    """A candidate that lies as far from the reference as the baseline does."""
    return observed_with(candidate(), baseline)


def live(report: Report, metric: str) -> Check:
    return check_of(report, f"live.{metric}")


def test_ask__capture(baseline: Observed) -> None:
    """A relaunch writes texts of its own, and forces nothing: the reference will."""
    texts = [t for t in baseline.seen["trajectory"] if t.arm is Arm.REPEAT]

    assert {t.launch for t in texts if t.leg == "trajectory"} == {1, 2, 3}
    assert len([t for t in texts if t.leg == "trajectory"]) == 3 * 64
    assert not any(t.arm is Arm.REPEAT for t in baseline.seen["score"])


def test_ask__every_text_through_the_reference(baseline: Observed) -> None:
    """The reference tokenizes each prompt and forces each arm's and launch's text, once."""
    server = reference()
    observed_with(candidate(), baseline, server)

    forces = [c for c in server.calls if isinstance(c, Force)]
    assert len({(c.tag.leg, c.tag.unit, c.tag.launch) for c in forces}) == len(forces) == 5 * 64
    assert {c.tag.leg for c in forces} == {"live", "live-baseline"}
    templates = [c for c in server.calls if isinstance(c, Tokenize)]
    assert [c.tag.unit for c in templates] == list(WORLD.names)
    assert all(c.text is None for c in templates)


def test_judge__no_worse_than_the_baseline(baseline: Observed, well_live: Observed) -> None:
    """A candidate as far from the reference as the baseline is PASSes; that distance is shown."""
    report = judged(well_live)

    assert stage_of(report, "score").verdict is Verdict.PASS
    assert report.verdict is Verdict.PASS
    kl = live(report, "kl")
    assert kl.baseline is not None
    assert kl.candidate is not None
    assert kl.baseline > 0.001
    assert kl.candidate == pytest.approx(kl.baseline, rel=0.1)
    assert {t.title for t in stage_of(report, "score").tables} == {
        "by position", "by input", "tails"
    }  # fmt: skip


def test_judge__worse_than_the_baseline(baseline: Observed) -> None:
    """A candidate that lies further from the reference FAILs."""
    report = judged(observed_with(candidate(damage=noisy(0.8)), baseline))

    assert live(report, "kl").verdict is Verdict.FAIL
    assert report.verdict is Verdict.FAIL


def test_judge__nll_is_the_references(baseline: Observed) -> None:
    """The NLL is what the reference gives each arm's own tokens, in checks and tables alike."""
    sure = candidate(damage=lambda unit, logits: logits * 3)
    report = judged(observed_with(sure, baseline))

    nll = live(report, "nll")
    assert nll.candidate is not None
    assert nll.baseline is not None
    assert nll.candidate == pytest.approx(nll.baseline, abs=0.1)
    table = next(t for t in stage_of(report, "score").tables if t.title == "tails")
    perplexity = next(row for row in table.rows if row[0] == "perplexity")
    assert perplexity[1] == pytest.approx(np.exp(nll.candidate), rel=1e-6)


BROKEN = ("p-003", "p-017", "p-042")


def test_judge__three_broken_prompts(baseline: Observed) -> None:
    """Three broken prompts of 64 never PASS here either; they are asked once more and named."""
    server = reference()
    damage = only(BROKEN, noisy(1.0))
    report = judged(observed_with(candidate(damage=damage), baseline, server))

    check = live(report, "broken")
    assert report.verdict is not Verdict.PASS
    assert "3 of 64 prompts broken (3 again when asked once more)" in check.reason
    assert [t.unit for t in server.tags if t.attempt == 2] == list(BROKEN)
    assert {f.unit for f in stage_of(report, "score").faults} == set(BROKEN)


@pytest.mark.parametrize("launches", [0, 2])
@pytest.mark.parametrize(("floor", "verdict"), [("launches", "UNPROVEN"), ("single", "PASS")])
def test_judge__launches(launches: int, floor: str, verdict: str) -> None:
    """Fewer than three relaunches with texts prove nothing unless the plan goes without."""
    few = captured(WORLD, launches, quantized, **LIVE)
    stage = stage_of(judged(observed_with(candidate(), few, floor=floor)), "score")

    assert stage.verdict.value == verdict


def test_judge__relaunches_without_texts() -> None:
    """A baseline captured for the stored reference has no texts of its relaunches."""
    stored = captured(WORLD, 3, quantized)
    report = judged(observed_with(candidate(), stored))

    assert "launched again 0 times" in live(report, "kl").reason


@pytest.mark.parametrize("arm", ["candidate", "baseline"])
def test_judge__text_only(arm: str) -> None:
    """Texts without tokens are tokenized again by the reference, in both arms alike; what
    cannot be computed is said, and what can is judged."""
    told = arm != "baseline"
    baseline = captured(
        WORLD, 3, lambda n: replace(quantized(n), text_only=not told, damage=noisy(0.02)), **LIVE
    )
    server = reference()
    engine = candidate(text_only=told, damage=noisy(0.02))
    observed = observed_with(engine, baseline, server)
    observed = asking_for(observed, "score", margins=TEXT_MARGINS)
    report = judged(observed)

    score = stage_of(report, "score")
    assert score.verdict is Verdict.PASS
    assert [c.metric for c in score.checks if c.judged] == [
        "live.decisive", "live.nll", "live.broken"
    ]  # fmt: skip
    assert any("tokenized again by the reference" in c for c in score.caveats)
    assert score.tables == ()
    retokenized = [c for c in server.calls if isinstance(c, Tokenize) and c.text is not None]
    assert {c.tag.leg for c in retokenized} == {"live-text", "live-baseline-text"}
    assert len(retokenized) == 5 * 64


def test_judge__text_only_with_a_margin_on_kl(baseline: Observed) -> None:
    """A margin on what texts alone do not tell is open, never met."""
    report = judged(observed_with(candidate(text_only=True), baseline))

    assert live(report, "kl").verdict is Verdict.UNPROVEN
    assert "cannot be computed from texts alone" in live(report, "kl").reason
    assert report.verdict is not Verdict.PASS


def test_judge__text_only_damage(baseline: Observed) -> None:
    """Text that the reference would decisively not have written FAILs."""
    observed = observed_with(candidate(text_only=True, damage=noisy(2.0)), baseline)
    report = judged(asking_for(observed, "score", margins=TEXT_MARGINS))

    assert live(report, "decisive").verdict is Verdict.FAIL
    assert live(report, "nll").verdict is Verdict.FAIL


def test_judge__reference_without_tokenizer(baseline: Observed) -> None:
    """Tokens that the engines told need no tokenizer; that its template is not seen is said."""
    report = judged(observed_with(candidate(), baseline, reference(tokenizes=False)))

    score = stage_of(report, "score")
    assert score.verdict is Verdict.PASS
    assert any("prompt token ids come from the engines under test" in c for c in score.caveats)


def test_judge__text_only_and_no_tokenizer(baseline: Observed) -> None:
    """Texts without tokens and a reference without tokenizer: nothing observed, no error."""
    engine, server = candidate(text_only=True), reference(tokenizes=False)
    report = judged(observed_with(engine, baseline, server))

    assert stage_of(report, "score").verdict is Verdict.NOT_RUN
    assert report.verdict is not Verdict.PASS


def test_judge__reference_lists_nothing(baseline: Observed) -> None:
    """A reference that gives no lists is no measurement."""
    report = judged(observed_with(candidate(), baseline, reference(cap=0)))

    assert stage_of(report, "score").verdict is Verdict.NOT_RUN


def live_tag(unit: str) -> Tag:
    return Tag(Arm.REFERENCE, "live", unit)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: FAILED, "the reference: HTTP 500"),
        (lambda a: Scored(cut(a.rows, 0, 3), "x"), "3 rows are not of the text's 16 tokens"),
        (lambda a: Scored(replace(a.rows, chosen=a.rows.chosen + 1), "x"), "are not of the text"),
        (lambda a: Scored(replace(a.rows, match=Match.TEXT), "x"), "are not of the text"),
        (lambda a: Scored(replace(a.rows, logprob=a.rows.logprob * np.nan), "x"), "unusable rows"),
        (None, "never answered"),
    ],
)
@pytest.mark.parametrize("arm", ["candidate", "baseline"])
def test_judge__unusable(
    baseline: Observed, well_live: Observed, change: object, said: str, arm: str
) -> None:
    """Rows of the reference that are short, foreign, unusable, failed or lost never PASS."""
    observed = well_live
    tag = Tag(Arm.REFERENCE, "live" if arm == "candidate" else "live-baseline", "p-011")
    if change is None:
        spoiled = without(observed, "score", lambda t: t == tag)
    else:
        answer = observed.seen["score"][tag].answer
        spoiled = answering(observed, "score", {tag: change(answer)})  # type: ignore[operator]

    score = stage_of(judged(spoiled), "score")

    assert score.verdict is Verdict.UNPROVEN
    (fault,) = score.faults
    assert fault.unit == "p-011"
    assert said in fault.detail
    assert ("p-011" in score.coverage.left_out) is (arm == "baseline")
    assert fault.detail.startswith("baseline launch 0: ") is (arm == "baseline")


def test_judge__texts_of_a_relaunch_lost(baseline: Observed, well_live: Observed) -> None:
    """A relaunch all texts of which are gone is a gap, and not one relaunch fewer."""
    lost = without(baseline, "trajectory", lambda t: t.launch == 3)

    score = stage_of(judged(replace(well_live, baseline=lost)), "score")

    assert score.verdict is not Verdict.PASS
    assert len(score.coverage.left_out) == 64


@pytest.mark.parametrize("arm", ["candidate", "baseline"])
def test_judge__text_lost(baseline: Observed, well_live: Observed, arm: str) -> None:
    """A text that was never written prevents a PASS, whichever arm lacks it."""
    observed = well_live
    if arm == "candidate":
        spoiled = without(observed, "trajectory", lambda t: t.unit == "p-011")
    else:
        lost = without(baseline, "trajectory", lambda t: t.unit == "p-011" and t.launch == 2)
        spoiled = replace(observed, baseline=lost)

    score = stage_of(judged(spoiled), "score")

    assert score.verdict is Verdict.UNPROVEN
    (fault,) = score.faults
    assert fault.detail.endswith("never answered")


def test_judge__candidate_failed(baseline: Observed) -> None:
    """A prompt that the candidate failed at is named as failed, and never PASSes."""
    engine = candidate(fails=lambda call: FAILED if call.tag.unit == "p-002" else None)
    score = stage_of(judged(observed_with(engine, baseline)), "score")

    assert score.verdict is Verdict.UNPROVEN
    assert score.coverage.failed == ("p-002",)
    assert score.faults[0].kind == "failed"


def test_judge__with_self_leg(baseline: Observed) -> None:
    """The self leg may be judged beside the live reference, on the candidate's own server."""
    own = captured(WORLD, 3, quantized, reference="http://reference")
    report = judged(compared(WORLD, candidate(), own, reference()))

    assert {c.metric for c in stage_of(report, "score").checks} > {"live.kl", "self.faults"}
    assert report.verdict is Verdict.PASS


def test_ask__failed_once(baseline: Observed) -> None:
    """What the reference failed on is asked once more."""
    failed: set[Tag] = set()

    def once(call: Call) -> Failure | None:
        if isinstance(call, Force) and call.tag == live_tag("p-004"):
            failed.add(call.tag)
            return FAILED
        return None

    report = judged(observed_with(candidate(), baseline, reference(fails=once)))

    assert failed
    assert report.verdict is Verdict.PASS


def test_ask__other_template(baseline: Observed) -> None:
    """The plan's template arguments reach the reference's tokenizer, the prompt's own over them."""
    server = reference()
    observed_with(candidate(), baseline, server)

    calls = [c for c in server.calls if isinstance(c, Tokenize)]
    assert {c.template_kwargs for c in calls} == {""}
