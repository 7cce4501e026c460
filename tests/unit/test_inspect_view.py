"""Evidence for a person: whole texts, the right mark, every failure, nothing obeyed."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest
from world import FAILED, World, answering, noisy, only

from iqaction import inspect_view, judgement
from iqaction.calls import Arm, Failure, FailureKind, Generation, Message, Tag
from iqaction.errors import ConfigError
from iqaction.observed import Observed
from iqaction.report import Coverage, Divergence, Report, StageResult, UnitFault
from iqaction.rows import Position, Token, pack
from iqaction.terminal import width
from iqaction.verdict import Verdict

HOSTILE = (
    "\x1b[2J\x1b]0;t\x07 a\rb \u202ecba\u2066 \x9b31m \u200b ::error::x\n::set-output\n##[group]"
)


def generation(text: str, *pieces: str, reasoning: str = "") -> Generation:
    """A text with one row a piece, each listing itself and a rival."""
    rows = pack(
        [
            Position(
                Token(p, -0.1 * (i + 1), i),
                (Token(p, -0.1 * (i + 1), i), Token("rival", -3.0, 900 + i)),
            )
            for i, p in enumerate(pieces)
        ]
    )
    return Generation(text, "stop", rows, True, reasoning, completion_tokens=len(pieces))


def case(
    baseline: object,
    candidate: object,
    *divergences: Divergence,
    faults: tuple[UnitFault, ...] = (),
) -> tuple[Observed, Report]:
    """Evidence of one prompt, ``p-000``, with these two answers and this report."""
    world = World(units=1, length=2)
    observed = world.compare(world.capture(launches=1))
    tag = Tag(Arm.CANDIDATE, "trajectory", "p-000")
    theirs = Tag(Arm.BASELINE, "trajectory", "p-000")
    assert observed.baseline is not None
    observed = replace(
        answering(observed, "trajectory", {tag: candidate}),
        baseline=answering(observed.baseline, "trajectory", {theirs: baseline}),
    )
    stage = StageResult(
        "trajectory", Verdict.FAIL, (), Coverage(1, 1), divergences=divergences, faults=faults
    )
    return observed, Report(Verdict.FAIL, (stage,), "it differs")


def parting(position: int = 1, before: str = "return ", **change: object) -> Divergence:
    whole = Divergence(
        *("p-000", "code", position, "real", 2.1, "sorted", "sort", before),
        *("sorted(rows)", "sort(rows)"),
    )
    return replace(whole, **change)  # type: ignore[arg-type]


BASELINE = generation("return sorted(rows)", "return ", "sorted", "(rows)")
CANDIDATE = generation("return sort(rows)", "return ", "sort", "(rows)")


# --- one prompt


def test_prompt__whole() -> None:
    """Asked, written, and the first token that differs, marked in both texts."""
    observed, report = case(BASELINE, CANDIDATE, parting())
    shown = inspect_view.prompt(observed, report, "p-000", 100)

    assert "user\n  | say p-000" in shown
    assert "baseline wrote (3 tokens, ended by stop)\n  | return ⟦sorted⟧(rows)" in shown
    assert "candidate wrote (3 tokens, ended by stop)\n  | return ⟦sort⟧(rows)" in shown
    assert "The texts part at token 1: real, gap 2.10 nats" in shown
    assert '>1  baseline   "sorted"   -0.200  "sorted" -0.20  "<901>" -3.00' in shown
    assert '>1  candidate  "sort"     -0.200  "sort" -0.20  "<901>" -3.00' in shown
    assert "trajectory: candidate trajectory" in shown


def test_prompt__every_line_of_a_text_has_a_gutter() -> None:
    """A text cannot pass for a line of ours."""
    forged = "fine\n\nThe texts part at token 9: tie\nPASS  inferquality / default"
    observed, report = case(generation(forged), generation(forged))
    shown = inspect_view.prompt(observed, report, "p-000", 80).splitlines()

    assert "  | The texts part at token 9: tie" in shown
    assert "The texts part at token 9: tie" not in shown
    assert "PASS  inferquality / default" not in shown


def test_prompt__long_text_is_whole() -> None:
    """Long texts are wrapped, not cut."""
    text = " ".join(f"word{i}" for i in range(3000))
    observed, report = case(generation(text), generation(text))
    shown = inspect_view.prompt(observed, report, "p-000", 80)
    body = "".join(x[4:] + " " for x in shown.splitlines() if x.startswith("  | word"))

    assert body.split() == text.split() * 2
    assert all(width(line) <= 80 for line in shown.splitlines() if line.startswith("  | "))


def test_prompt__endless_text_is_cut() -> None:
    """A text of megabytes is cut, and the cut is told."""
    observed, report = case(generation("x" * 300_000), generation("x"))

    assert "... and 100000 characters more" in inspect_view.prompt(observed, report, "p-000", 80)


def test_prompt__reasoning() -> None:
    """Hidden reasoning is part of what was written, and told apart."""
    answer = generation("yes", reasoning="because ")
    observed, report = case(answer, answer)
    shown = inspect_view.prompt(observed, report, "p-000", 80)

    assert "the first 8 characters are reasoning\n  | because yes" in shown


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (generation(""), "candidate wrote (0 tokens, ended by stop)\n  | (nothing)"),
        (FAILED, "candidate failed: status, HTTP 500: the engine failed"),
        (Failure(FailureKind.TIMEOUT, "no answer in 60 s"), "candidate failed: timeout"),
        (Generation("text", "stop"), "candidate wrote (? tokens, ended by stop)\n  | text"),
    ],
)
def test_prompt__other_answers(answer: object, said: str) -> None:
    """An empty text, a failure and a text without rows are what they are."""
    observed, report = case(BASELINE, answer)

    assert said in inspect_view.prompt(observed, report, "p-000", 100)


def test_prompt__not_asked() -> None:
    """A prompt that was never asked is told as that, not as an empty text."""
    observed, report = case(BASELINE, CANDIDATE)
    observed = replace(observed, seen={})
    shown = inspect_view.prompt(observed, report, "p-000", 100)

    assert "candidate was not asked" in shown


def test_prompt__mark_without_rows() -> None:
    """Where tokens do not join to the text, the report's words find the place."""
    observed, report = case(
        Generation("a return sorted(rows)", "stop"),
        Generation("a return sort(rows)", "stop"),
        parting(-1),
    )
    shown = inspect_view.prompt(observed, report, "p-000", 100)

    assert "  | a return ⟦sorted⟧(rows)" in shown
    assert "  | a return ⟦sort⟧(rows)" in shown
    assert "The texts part at the text (tokens are unknown)" in shown


def test_prompt__mark_not_found() -> None:
    """A mark that cannot be placed is left out; the text stays whole."""
    observed, report = case(generation("other"), generation("else"), parting(7))
    shown = inspect_view.prompt(observed, report, "p-000", 100)

    assert "  | other\n" in shown
    assert "  | else\n" in shown


def test_prompt__faults() -> None:
    """What the report holds against a prompt stands first."""
    fault = UnitFault("p-000", "code", "broken", "KL .31 above the floor")
    observed, report = case(BASELINE, CANDIDATE, faults=(fault,))
    shown = inspect_view.prompt(observed, report, "p-000", 100)

    assert shown.startswith("p-000  (code)\n  p-000: broken, KL .31 above the floor\n")


def test_prompt__capture() -> None:
    """A capture has one arm, and nothing to differ from."""
    world = World(units=2, length=4)
    observed = world.capture(launches=1)
    shown = inspect_view.prompt(observed, Report(Verdict.UNPROVEN, (), "x"), "p-001", 100)

    assert "baseline wrote" in shown
    assert "candidate" not in shown
    assert "relaunch 1" in shown


@pytest.mark.parametrize("show", [inspect_view.prompt, inspect_view.divergence])
def test_prompt__unknown(show: object) -> None:
    """An unknown id is refused with its nearest one."""
    observed, report = case(BASELINE, CANDIDATE)

    with pytest.raises(ConfigError) as caught:
        show(observed, report, "p-00", 100)  # type: ignore[operator]

    assert "no prompt 'p-00'" in str(caught.value)
    assert "did you mean 'p-000'?" in str(caught.value)


# --- hostile text, narrow terminals


def hostile() -> tuple[Observed, Report]:
    answer = Generation(HOSTILE, HOSTILE, reasoning=HOSTILE)
    failure = Failure(FailureKind.STATUS, HOSTILE, 500)
    whole = parting(
        1,
        HOSTILE,
        baseline_token=HOSTILE,
        candidate_token=HOSTILE,
        baseline_after=HOSTILE,
        kind=HOSTILE,
    )
    fault = UnitFault("p-000", "code", HOSTILE, HOSTILE)
    observed, report = case(answer, failure, whole, faults=(fault,))
    prompt = replace(observed.prompts["p-000"], messages=(Message("user", HOSTILE),))
    return replace(observed, prompts={"p-000": prompt}), replace(report, headline=HOSTILE)


@pytest.mark.parametrize("columns", [40, 100])
def test_pages__hostile(columns: int) -> None:
    """No page holds a control or format character, or a command to a runner."""
    observed, report = hostile()
    pages = [
        inspect_view.overview(observed, report, columns),
        inspect_view.prompt(observed, report, "p-000", columns),
        inspect_view.divergence(observed, report, "p-000", columns),
        inspect_view.failures(observed, report, columns),
    ]

    for page in pages:
        bad = {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert not [c for c in page if c != "\n" and unicodedata.category(c) in bad]
        assert "##[" not in page
        assert not [line for line in page.splitlines() if line.lstrip().startswith("::")]


def test_json__hostile() -> None:
    """The JSON forms are JSON, text unchanged."""
    observed, report = hostile()
    body = json.loads(
        json.dumps(inspect_view.prompt_json(observed, report, "p-000"), allow_nan=False)
    )

    assert body["texts"]["baseline"]["text"] == HOSTILE
    assert body["texts"]["candidate"] == {"failure": "status", "message": HOSTILE}
    assert body["messages"] == [{"role": "user", "content": HOSTILE}]
    assert body["divergences"][0]["token"] == 1


# --- lists


def test_failures__all_named() -> None:
    """Every request without an answer is there: whose, which leg, which prompt, why."""
    world = World(units=3, length=4)
    observed = world.compare(world.capture(launches=1))
    observed = answering(
        observed,
        "score",
        lambda tag, answer: FAILED if (tag.leg, tag.unit) == ("self", "p-001") else answer,
    )
    shown = inspect_view.failures(observed, Report(Verdict.UNPROVEN, (), "x"), 120)
    body = inspect_view.failures_json(observed)

    assert "2 requests failed" in shown
    assert "score: candidate self p-001: status 500, HTTP 500: the engine failed" in shown
    assert "score: candidate self p-001, asked again (2): status 500" in shown
    assert [(f["stage"], f["leg"], f["id"], f["kind"]) for f in body] == [
        ("score", "self", "p-001", "status")
    ] * 2


def test_failures__of_the_baseline() -> None:
    """A failure in the baseline's own evidence is told as the capture's."""
    observed, report = case(FAILED, CANDIDATE)
    shown = inspect_view.failures(observed, report, 120)

    assert "capture, trajectory: baseline trajectory p-000: status 500" in shown


def test_failures__none() -> None:
    """No failure is said, not shown as nothing."""
    observed, report = case(BASELINE, CANDIDATE)

    assert inspect_view.failures(observed, report, 100) == "No request failed.\n"


def test_divergences__table() -> None:
    """The gravest stands first, cut to the width."""
    tie = parting(kind="tie", gap=0.1, unit="p-009")
    _, report = case(BASELINE, CANDIDATE, tie, parting())
    lines = inspect_view.divergences(report, 80).splitlines()

    assert "1 tie, 1 real" in lines[0]
    assert [x.split()[:3] for x in lines[2:]] == [["p-000", "1", "real"], ["p-009", "1", "tie"]]
    assert all(width(x) <= 80 for x in lines)


def test_divergences__none() -> None:
    """Where no texts part, that is said."""
    assert inspect_view.divergences(case(BASELINE, BASELINE)[1], 80) == "No texts part.\n"


def test_divergence__of_an_equal_text() -> None:
    """A prompt whose texts are equal has no divergence to show."""
    observed, report = case(BASELINE, BASELINE)

    with pytest.raises(ConfigError, match="do not part"):
        inspect_view.divergence(observed, report, "p-000", 80)


def test_divergence__judged_evidence() -> None:
    """The position that the real judge names is the token where the two paths differ."""
    world = World(units=60, length=12)
    observed = world.compare(world.capture(), only(["p-003"], noisy(3.0)))
    report = judgement.judge(observed, "0")
    shown = inspect_view.divergence(observed, report, "p-003", 100)
    (found,) = [d for s in report.stages for d in s.divergences if d.unit == "p-003"]

    assert f">{found.position}  baseline" in shown
    assert f">{found.position}  candidate" in shown
    assert f"⟦{found.baseline_token}⟧" in shown
    assert f"⟦{found.candidate_token}⟧" in shown
    assert "p-003" in inspect_view.overview(observed, report, 100)
    assert inspect_view.overview_json(observed, report)["verdict"] == report.verdict.value


def test_divergence__a_token_that_is_named_elsewhere() -> None:
    """An alternative that the engine lists by its id alone is shown by its text, where any other
    answer of the evidence names it."""
    parts = Divergence("p-000", "code", 0, "real", 2.0, "a", "b", "", "a", "b")
    observed, report = case(listing("a", 0), listing("b", 1), parts)
    before = inspect_view.divergence(observed, report, "p-000", 120)
    tag = next(t for t in observed.seen["score"] if t.arm is Arm.CANDIDATE)
    told = answering(observed, "score", {tag: listing("rival", 900)})
    after = inspect_view.divergence(told, report, "p-000", 120)

    assert before.count('"<900>"') == 2
    assert after.count('"rival"') == 2


def listing(piece: str, key: int) -> Generation:
    """One row that lists itself, and behind it the token 900 without a text."""
    own = Token(piece, -0.1, key)
    return Generation(piece, "stop", pack([Position(own, (own, Token("", -3.0, 900)))]), True)
