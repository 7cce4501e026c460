"""Stage `niah`: what is asked, of whom, and what is concluded from which answers."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from needles import (
    ROOT,
    Server,
    below,
    captured,
    check,
    compared,
    drive,
    plan,
    result,
    spare,
    spec,
    tokens,
)

from iqaction.calls import Arm, Call, Failure, FailureKind, Tokenize
from iqaction.observed import Observed
from iqaction.stages import niah
from iqaction.stages._base import Context
from iqaction.stages._niah_items import is_overflow, items
from iqaction.verdict import Verdict


@pytest.fixture(scope="module")
def baseline() -> Observed:
    """A reference that finds all of 48 needles, with one relaunch."""
    return captured()


def units(observed: Observed, n: int, length: int = 0) -> set[str]:
    """The first ``n`` questions (of that length)."""
    (asked,) = observed.plan.stages
    return {
        i.unit for i in itertools.islice((i for i in items(asked) if length in (0, i.length)), n)
    }


def test_ask__capture() -> None:
    """A capture measures lengths and asks every question; of its relaunches only the first does."""
    server = Server()
    captured(server, launches=3)
    first = server.calls[:2]
    asked = Counter((c.tag.arm, c.tag.launch) for c in server.chats)

    assert [type(c) for c in first] == [Tokenize, Tokenize]
    assert asked == {(Arm.BASELINE, 0): 48, (Arm.REPEAT, 1): 48}
    assert len({c.tag.unit for c in server.chats}) == 48


def test_ask__same_text(baseline: Observed) -> None:
    """A candidate is asked the baseline's very texts, whatever its own tokenizer is like."""
    before, now = Server(), Server(tokenizes=False, system=900)
    reference = captured(before)
    compared(now, reference)
    asked = {c.tag.unit: c.messages for c in before.chats}

    assert {c.tag.unit: c.messages for c in now.chats} == asked
    assert len(set(asked.values())) == 48
    assert [c for c in now.calls if c not in now.chats] == []


@pytest.mark.parametrize(
    ("server", "tolerance"), [(Server(), 0.06), (Server(tokenizes=False), 0.06)]
)
def test_ask__length(server: Server, tolerance: float) -> None:
    """With its answer a question fits into its length, and nearly fills it."""
    captured(server, lengths=(2048, 4096), trials=2)
    asked = {c.tag.unit: c for c in server.chats}
    for item in items(spec(lengths=(2048, 4096), trials=2)):
        call = asked[item.unit]
        length = len(tokens(call.messages[0].content)) + server.system + call.max_tokens

        assert item.length * (1 - tolerance) < length <= item.length


def test_ask__settings(baseline: Observed) -> None:
    """Greedy, short, without log-probabilities, with the plan's template settings and load."""
    server = Server()
    captured(server, chat_template_kwargs='{"enable_thinking":false}', max_tokens=16, seed=3)
    calls = server.chats

    assert {(c.temperature, c.top_logprobs, c.max_tokens, c.seed) for c in calls} == {
        (0.0, 0, 16, 3)
    }
    assert {c.template_kwargs for c in calls} == {'{"enable_thinking":false}'}


@pytest.mark.parametrize(("asked", "expected"), [("auto", 0), (3, 3)])
def test_ask__concurrency(asked: str | int, expected: int) -> None:
    """As traffic, or the plan's number."""
    context = Context(spec(concurrency=asked), plan(), {}, {}, arm=Arm.REPEAT, launch=2)
    assert list(niah.STAGE.ask(context)) == []
    context = replace(context, arm=Arm.BASELINE, launch=0)
    asking = niah.STAGE.ask(context)
    next(asking)  # lengths: no tokenizer is known of, so by two answers
    wanted = asking.send(())

    assert (wanted.concurrency, len(wanted.calls)) == (expected, 48)


def test_ask__failed_once(baseline: Observed) -> None:
    """What failed is asked once more, alone; a question that is too long is not."""
    one, other = sorted(units(baseline, 2))

    def fails(call: Call) -> Failure | None:
        if call.tag.unit == one and call.tag.attempt == 0:
            return Failure(FailureKind.TIMEOUT, "no answer")
        if call.tag.unit == other:
            return Failure(FailureKind.UNSUPPORTED, "maximum context length is 9", 400)
        return None

    server = Server(fails=fails)
    observed = compared(server, baseline)

    assert Counter(c.tag.unit for c in server.chats)[one] == 2
    assert Counter(c.tag.unit for c in server.chats)[other] == 1
    assert one not in result(observed).coverage.failed


def test_ask__another_seed(baseline: Observed) -> None:
    """A candidate is not asked what the baseline was not: other seed, other texts."""
    server = Server()
    found = result(compared(server, baseline, seed=1))

    assert server.calls == []
    assert found.verdict is Verdict.NOT_RUN


def test_ask__parts(baseline: Observed) -> None:
    """Legs of a matrix ask their part each, and the whole is judged from all of it."""
    asked, kept = plan(), {}
    for part in ((1, 3), (2, 3), (3, 3)):
        server = Server(version="1.0")
        drive(asked, server, Arm.BASELINE, kept=kept, part=part)
        assert len(server.chats) == 16
    reference = Observed(asked, {}, kept, {(Arm.BASELINE, 0): Server().engine}, root=ROOT)
    seen: dict[str, dict] = {}
    for part in ((1, 2), (2, 2)):
        server = Server()
        drive(plan(ROOT), server, Arm.CANDIDATE, kept=seen, baseline=reference, part=part)
        assert len(server.chats) == 24
    whole = replace(compared(Server(), baseline), seen=seen, baseline=reference)
    found = result(whole)

    assert result(reference).coverage.observed == 48
    assert found.verdict is Verdict.PASS
    assert found.coverage.observed == 48


def test_judge__unchanged(baseline: Observed) -> None:
    """A candidate that finds what the baseline found passes, and the figures say what it takes."""
    found = result(compared(Server(), baseline))
    main = check(found, "niah.found")

    assert found.verdict is Verdict.PASS
    assert main.reason == (
        "48 of 48 codes found, 48 of 48 by the baseline (0 lost, 0 gained, McNemar p = 1): at "
        "most 7.4 points are lost, and 8 points are allowed"
    )
    assert main.estimate is not None
    assert main.estimate.interval == pytest.approx((-0.0741, 0.0741), abs=1e-4)
    assert (main.baseline, main.candidate, main.limit) == (1.0, 1.0, 0.08)
    assert (
        "what 48 questions decide: they exclude a loss of more than 8 points where no answer is "
        "lost and the baseline has 44 or more right; 8 lost and none gained show one"
    ) in found.caveats
    assert (
        "0 of 48 answers changed between right and wrong, 0 of 48 in a relaunch of the baseline"
        in found.caveats
    )
    table = found.tables[0]
    assert len(table.rows) == 6
    assert table.rows[0][:5] == (256.0, "0.1", "8 of 8", "68% to 100%", "8 of 8")
    assert table.rows[0][5] == table.rows[0][6]


def test_judge__long_context_lost(baseline: Observed) -> None:
    """All needles lost at the longest length: FAIL, and the report says where."""
    found = result(compared(Server(finds=below(300)), baseline))
    main = check(found, "niah.found")

    assert found.verdict is Verdict.FAIL
    assert main.verdict is Verdict.FAIL
    assert (main.baseline, main.candidate) == (1.0, 0.5)
    assert main.reason.startswith("24 of 48 codes found, 48 of 48 by the baseline (24 lost")
    assert check(found, "niah.where").verdict is Verdict.UNPROVEN
    assert "24 of 24 lost and 0 gained at 512 tokens" in check(found, "niah.where").reason
    assert found.meaning == ("All 24 lost answers are at 512 tokens: long context is damaged.",)
    assert any("KV cache" in step for step in found.next_steps)
    assert found.tables[1].title == "Answers that changed: 24 lost, 0 gained"
    assert found.tables[1].rows[0][3] == "no answer in the text: I do not know."


def test_judge__depth_lost(baseline: Observed) -> None:
    """All needles lost at one depth are named as such."""
    found = result(compared(Server(finds=lambda n, at, unit: at > 0.3), baseline))

    assert found.verdict is Verdict.FAIL
    assert any("short texts lose codes too" in step for step in found.next_steps)
    assert "All lost codes stand at depth 0.1 of their texts." in found.meaning
    assert "Answers are lost at the shortest length too: it is not long context alone." in (
        found.meaning
    )


def test_judge__longer_half_lost() -> None:
    """Needles lost at more than one length, and none at the shortest: long context."""
    sizes = {"lengths": (200, 300, 400)}
    found = result(compared(Server(finds=below(220)), captured(**sizes), **sizes))

    assert found.meaning == (
        "All 48 lost answers are at 300 tokens or more: long context is damaged.",
    )
    assert any("KV cache" in step for step in found.next_steps)


def test_judge__one_lost(baseline: Observed) -> None:
    """One needle lost of 48 is not proven to be within 8 points, and how many more would do."""
    found = result(compared(Server(finds=spare(units(baseline, 1))), baseline))
    main = check(found, "niah.found")

    assert found.verdict is Verdict.UNPROVEN
    assert "up to 10.9 points may be lost, and 8 points are allowed" in main.reason
    assert main.power.startswith("about ")
    assert not found.more_would_help


def test_judge__lost_at_one_length_of_many() -> None:
    """In a long plan a whole length can be lost within the margin: that is no PASS."""
    many = {"lengths": tuple(range(150, 275, 5)), "trials": 5}
    reference = captured(launches=0, **many)
    lost = {i.unit for i in items(spec(**many)) if i.length == 270}
    found = result(compared(Server(finds=spare(lost)), reference, **many))

    assert len(lost) == 15
    assert check(found, "niah.found").verdict is Verdict.PASS
    assert check(found, "niah.where").verdict is Verdict.UNPROVEN
    assert "15 of 15 lost and 0 gained at 270 tokens" in check(found, "niah.where").reason
    assert found.verdict is Verdict.UNPROVEN


def test_judge__weak_baseline() -> None:
    """A baseline that finds too few has nothing to lose: UNPROVEN, said at capture already."""
    reference = captured(Server(finds=below(300)))
    found = result(compared(Server(finds=below(300)), reference))

    assert "no candidate can PASS: 24 of 48 codes found are too few to lose" in (
        result(reference).caveats
    )
    assert found.verdict is Verdict.UNPROVEN
    assert "too few solved to lose" in check(found, "niah.found").reason


def test_judge__gained() -> None:
    """A candidate that finds far more than the baseline is not the same model."""
    reference = captured(Server(finds=below(300)))
    found = result(compared(Server(), reference))

    assert found.verdict is Verdict.UNPROVEN
    assert "is it the same model" in check(found, "niah.found").reason


def test_judge__vanished(baseline: Observed) -> None:
    """A candidate that dies on two questions is not one that lost none, nor one that failed."""
    gone = units(baseline, 2)

    def fails(call: Call) -> Failure | None:
        return Failure(FailureKind.TIMEOUT, "no answer") if call.tag.unit in gone else None

    found = result(compared(Server(fails=fails), baseline))

    assert found.verdict is Verdict.UNPROVEN
    assert set(found.coverage.failed) == gone
    assert (found.coverage.required, found.coverage.observed) == (48, 46)
    assert "2 without an answer (counted as lost where that may be so)" in (
        check(found, "niah.found").reason
    )
    assert {f.unit for f in found.faults} == gone


def test_judge__all_vanished(baseline: Observed) -> None:
    """Nothing answered: NOT RUN."""
    dead = Failure(FailureKind.STATUS, "chat: HTTP 404", 404)
    found = result(compared(Server(fails=lambda call: dead), baseline))

    assert found.verdict is Verdict.NOT_RUN


@pytest.mark.parametrize("told", [True, False])
def test_judge__shorter_context(baseline: Observed, told: bool) -> None:
    """A candidate whose context became too short is no wrong answer and no PASS: it is named."""
    server = Server(context=400, told=told)
    found = result(compared(server, baseline))

    assert len(server.chats) == (24 if told else 48)
    assert found.verdict is Verdict.UNPROVEN
    assert check(found, "niah.found").estimate.n_units == 24
    assert check(found, "niah.fits").verdict is Verdict.UNPROVEN
    assert "24 of 48 questions (at 512 tokens) fit into the baseline's context and not" in (
        check(found, "niah.fits").reason
    )
    assert "400" in check(found, "niah.fits").reason
    assert len(found.coverage.failed) == 24
    assert found.tables[0].rows[3][2:5] == ("does not fit", "", "8 of 8")


@pytest.mark.parametrize("told", [True, False])
def test_judge__baseline_context(told: bool) -> None:
    """What the baseline's context cannot hold is left out, said, and does not stand in the way."""
    params = {"trials": 16}
    reference = captured(Server(context=400, told=told, version="1.0"), **params)
    found = result(compared(Server(), reference, **params))

    assert "48 of 96 questions do not fit and are not compared" in result(reference).caveats
    assert found.verdict is Verdict.PASS
    assert len(found.coverage.left_out) == 48
    assert any("48 of 96 questions are left out because the baseline" in c for c in found.caveats)
    assert found.tables[0].rows[3][2:5] == ("does not fit", "", "does not fit")


def test_judge__not_judged_length() -> None:
    """Which lengths the baseline's context is too short for stands in a check."""
    params = {"trials": 16}
    reference = captured(Server(context=400, version="1.0"), **params)
    found = result(compared(Server(), reference, **params))

    assert check(found, "niah.where").reason.endswith(
        "; not judged, for the baseline's context is shorter: 512 tokens"
    )


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (8, 8, ""),
        (4, 8, "asked 8 at a time, the baseline 4 at a time"),
        (8, 1, "!asked 1 at a time, the baseline 8 at a time"),
        ("auto", 1, "!asked 1 at a time, the baseline as traffic is"),
    ],
)
def test_judge__load(before: int | str, now: int | str, said: str) -> None:
    """A candidate that was asked less at a time than its baseline does not PASS."""
    reference = captured(launches=0, concurrency=before)
    found = result(compared(Server(), reference, concurrency=now))

    assert found.verdict is (Verdict.UNPROVEN if said.startswith("!") else Verdict.PASS)
    assert [c for c in found.caveats if c.startswith("asked")] == [said.strip("!")] * bool(said)


def test_judge__does_not_stop(baseline: Observed) -> None:
    """A candidate that finds every code and always runs into the limit is said to."""
    found = result(compared(Server(finish="length"), baseline))

    assert any(c.startswith("48 of 48 answers ran into the token limit") for c in found.caveats)
    same = result(compared(Server(finish="length"), captured(Server(finish="length"))))
    assert not any("token limit" in c for c in same.caveats)


def test_judge__nothing_fits() -> None:
    """Where nothing fits into the baseline's context there is nothing to judge."""
    reference = captured(Server(context=100))
    found = result(compared(Server(), reference))

    assert result(reference).verdict is Verdict.NOT_RUN
    assert found.verdict is Verdict.NOT_RUN
    assert {c.verdict for c in found.checks} == {Verdict.UNPROVEN}


def test_judge__cut_prompts(baseline: Observed) -> None:
    """A server that cuts long prompts without a word is named, although it finds the codes."""
    found = result(compared(Server(cut=300), baseline))
    reached = check(found, "niah.prompts")

    assert found.verdict is Verdict.UNPROVEN
    assert reached.verdict is Verdict.UNPROVEN
    assert reached.reason.startswith("24 of 48 questions reach the model as other tokens")
    assert ", 300 now" in reached.reason
    assert {f.kind for f in found.faults} == {"template"}


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize(("more", "verdict"), [(3, Verdict.PASS), (9, Verdict.UNPROVEN)])
def test_judge__template(ids: bool, more: int, verdict: Verdict) -> None:
    """A few tokens more, as a BOS or a date, are said; a system prompt is another question."""
    reference = captured(Server(told_ids=ids))
    found = result(compared(Server(told_ids=ids, system=12 + more), reference))

    assert found.verdict is verdict
    if verdict is Verdict.PASS:
        assert "48 of them with up to 4 tokens more or less" in (
            check(found, "niah.prompts").reason
        )


def test_judge__uncounted(baseline: Observed) -> None:
    """Where prompt tokens are not known a cut prompt would not be seen."""
    found = result(compared(Server(counts=False), baseline))

    assert found.verdict is Verdict.UNPROVEN
    assert "are not known of both arms" in check(found, "niah.prompts").reason


def test_judge__no_tokenizer() -> None:
    """Lengths measured by two answers, or by nothing, are said to be so."""
    counted = captured(Server(tokenizes=False))
    guessed = captured(Server(tokenizes=False, counts=False))

    assert any("has no tokenizer: lengths are estimated" in c for c in result(counted).caveats)
    assert any("neither tokenizes nor counts" in c for c in result(guessed).caveats)
    assert result(compared(Server(), counted)).verdict is Verdict.PASS


def test_judge__cut_reference() -> None:
    """A reference whose server cuts prompts is told apart from one that is asked short texts."""
    found = result(captured(Server(cut=300)))

    assert any("questions of 512 tokens reached the baseline as 300" in c for c in found.caveats)


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        (Server(answers=lambda code: "", finish="length", reasoning="Let me see"), "cut off"),
        (Server(answers=lambda code: code[:4], finish="length"), "cut off"),
        (Server(answers=lambda code: ""), "empty"),
        (Server(answers=lambda code: "1234567, or " + code), "1234567"),
    ],
)
def test_judge__wrong_answers(baseline: Observed, server: Server, kind: str) -> None:
    """Cut off, empty, and another code first are answers, and wrong ones."""
    found = result(compared(server, baseline))

    assert found.verdict is Verdict.FAIL
    assert found.coverage.observed == 48
    assert kind in str(found.tables[1].rows[0][3])


def test_judge__right_answers(baseline: Observed) -> None:
    """A code is found however it is written, and after any reasoning."""
    server = Server(answers=lambda c: f"**{int(c):,}**", reasoning="Not 1234567.")

    assert result(compared(server, baseline)).verdict is Verdict.PASS


def test_judge__thinking_reference() -> None:
    """A reference that is cut off while thinking says what to change."""
    server = Server(answers=lambda code: "", finish="length", reasoning="Let me see")
    found = result(captured(server))

    assert any("48 of the baseline's answers are cut off" in s for s in found.next_steps)
    assert found.verdict is Verdict.UNPROVEN


def test_judge__parser_fault(baseline: Observed) -> None:
    """Only reasoning and no answer is a fault of the engine, never a PASS."""
    server = Server(answers=lambda code: "", reasoning="The code is 4831927.")
    found = result(compared(server, baseline))

    assert found.verdict is Verdict.NOT_RUN
    assert len(found.coverage.failed) == 48


def test_judge__flips() -> None:
    """As many found as before, and yet others: more flips than the relaunch had are said."""
    half = {i.unit for n, i in enumerate(items(spec())) if n % 8 == 0}
    other = {i.unit for n, i in enumerate(items(spec())) if n % 8 == 4}
    reference = captured(Server(finds=spare(half)))
    found = result(compared(Server(finds=spare(other)), reference))

    assert found.verdict is Verdict.UNPROVEN
    assert (
        "12 of 48 answers changed between right and wrong, 0 of 48 in a relaunch of the baseline: "
        "more than change by themselves"
    ) in found.caveats


def test_check() -> None:
    """Impossible plans are refused in one sentence."""
    assert niah.STAGE.check(spec(), plan()) == ""
    assert "whole number" in niah.STAGE.check(spec(lengths=(512, 600.5)), plan())
    assert "holds no haystack" in niah.STAGE.check(spec(lengths=(64, 512)), plan())
    assert "holds no haystack" in niah.STAGE.check(spec(max_tokens=400), plan())
    assert "more than" in niah.STAGE.check(spec(lengths=(1_000_000,), trials=20), plan())
    assert "more than" in niah.STAGE.check(spec(trials=1000, depths=(*range(6),)), plan())


def test_out_of_reach() -> None:
    """Too few questions for a PASS are said before the first; the defaults are enough."""
    defaults = replace(spec(), params={p.name: p.default for p in niah.PARAMS})

    assert niah.STAGE.out_of_reach(defaults, plan()) == ""
    assert len(items(defaults)) == 45
    assert "it takes 45" in niah.STAGE.out_of_reach(spec(trials=1), plan())
    assert "it takes 73" in niah.STAGE.out_of_reach(spec(margin=0.05), plan())


def test_needs() -> None:
    """A chat, and no tokenizer; nothing of a live reference."""
    assert {c.value for c in niah.STAGE.needs(spec(), Arm.CANDIDATE)} == {"chat"}
    assert niah.STAGE.needs(spec(), Arm.REFERENCE) == frozenset()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("request (1300 tokens) exceeds the available context size (512 tokens), try more", True),
        ("The input (8200 tokens) is longer than the model's context length (4096 tokens).", True),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", True),
        ("Prompt is too long: 9000 tokens", True),
        ("Requested tokens (9000) exceed context window of 4096", True),
        ("temperature must be <= 2", False),
        ("messages: field required", False),
        ("", False),
    ],
)
def test_overflow(said: str, expected: bool) -> None:
    """What engines say to a text that is too long, and to other things that they refuse."""
    assert is_overflow(Failure(FailureKind.STATUS, f"chat: HTTP 400: {said}", 400)) is expected
    assert not is_overflow(Failure(FailureKind.STATUS, f"chat: HTTP 500: {said}", 500))
