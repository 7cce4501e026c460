"""Evidence of `niah` that is lost, torn or forged: no PASS that was none, and no traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needles import Server, below, captured, check, compared, result, spare, spec, without

from iqaction.calls import (
    Answer,
    Arm,
    Call,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Tag,
    TokenIds,
)
from iqaction.observed import Observed
from iqaction.stages._niah_items import ESTIMATE, items, lengths, questions
from iqaction.verdict import Verdict

UNITS = [i.unit for i in items(spec())]
DEAD = Failure(FailureKind.STATUS, "chat: HTTP 500: out of memory", 500)


def dying(units: list[str]) -> Callable[[Call], Failure | None]:
    return lambda call: DEAD if call.tag.unit in units else None


def once(units: list[str]) -> Callable[[Call], Failure | None]:
    """Fails at the first request for those, and not at the second."""
    return lambda call: DEAD if call.tag.unit in units and not call.tag.attempt else None


CASES: dict[str, tuple[Server, Server]] = {
    "one lost": (Server(), Server(finds=spare({UNITS[0]}))),
    "lost after a failure": (
        Server(fails=once(UNITS[:2])),
        Server(finds=spare({UNITS[0], UNITS[1]})),
    ),
    "long context lost": (Server(), Server(finds=below(300))),
    "weak": (Server(finds=below(300)), Server(finds=below(300))),
    "gained": (Server(finds=below(300)), Server()),
    "dying": (Server(), Server(fails=dying(UNITS[:2]))),
    "dying reference": (Server(fails=dying(UNITS[:6])), Server()),
    "shorter context": (Server(), Server(context=400)),
    "refusing": (Server(), Server(context=400, told=False)),
    "refusing reference": (Server(context=400, told=False), Server()),
    "another template": (Server(), Server(system=40)),
    "uncounted": (Server(counts=False), Server(counts=False)),
}


@pytest.fixture(scope="module")
def judged() -> dict[str, Observed]:
    """Evidence of each kind; none of it PASSes."""
    found = {name: compared(now, captured(before)) for name, (before, now) in CASES.items()}
    assert Verdict.PASS not in [result(o).verdict for o in found.values()]
    return found


def never_passes(observed: Observed, rng: random.Random, share: float) -> None:
    """With about that share lost of either arm, and of both."""
    assert observed.baseline is not None
    lost = {t for t in observed.seen["niah"] if rng.random() < share}
    torn = {t for t in observed.baseline.seen["niah"] if rng.random() < share}
    for less in (
        without(observed, lost),
        replace(observed, baseline=without(observed.baseline, torn)),
        replace(without(observed, lost), baseline=without(observed.baseline, torn)),
    ):
        assert result(less).verdict is not Verdict.PASS


@pytest.mark.parametrize("name", sorted(CASES))
def test_judge__evidence_lost(name: str, judged: dict[str, Observed]) -> None:
    """Whatever is lost of either arm, what did not PASS does not PASS."""
    for seed, share in ((1, 0.02), (2, 0.1), (3, 0.6)):
        never_passes(judged[name], random.Random(seed), share)


@pytest.mark.full
@settings(deadline=None, max_examples=100)
@given(st.randoms(use_true_random=False), st.sampled_from([0.02, 0.05, 0.2, 0.8]))
@pytest.mark.parametrize("name", sorted(CASES))
def test_judge__evidence_lost_often(
    name: str, judged: dict[str, Observed], rng: random.Random, share: float
) -> None:
    """The same, many times."""
    never_passes(judged[name], rng, share)


@pytest.mark.parametrize("name", sorted(CASES))
def test_judge__engines_lost(name: str, judged: dict[str, Observed]) -> None:
    """Not knowing who answered makes nothing PASS."""
    observed = judged[name]
    assert observed.baseline is not None
    for less in (
        replace(observed, engines={}),
        replace(observed, baseline=replace(observed.baseline, engines={})),
    ):
        assert result(less).verdict is not Verdict.PASS


def test_judge__one_answer_lost() -> None:
    """A PASS needs every answer, of both arms."""
    observed = compared(Server(), captured())
    assert observed.baseline is not None
    tag = Tag(Arm.CANDIDATE, "niah", UNITS[5])
    theirs = replace(tag, arm=Arm.BASELINE)
    ours = result(without(observed, {tag}))
    torn = result(replace(observed, baseline=without(observed.baseline, {theirs})))

    assert result(observed).verdict is Verdict.PASS
    assert ours.verdict is Verdict.UNPROVEN
    assert ours.coverage.missing == (UNITS[5],)
    assert torn.verdict is Verdict.UNPROVEN
    assert torn.coverage.missing == (UNITS[5],)
    assert "1 of 48 questions lack an answer to the same text" in (check(torn, "niah.found").reason)


def test_judge__measurement_lost() -> None:
    """Without the baseline's measurement the questions cannot be written again: no PASS."""
    observed = compared(Server(), captured())
    assert observed.baseline is not None
    measured = {t for t in observed.baseline.seen["niah"] if t.leg == "measure"}
    found = result(replace(observed, baseline=without(observed.baseline, measured)))

    assert len(measured) == 2
    assert found.verdict is Verdict.NOT_RUN
    assert len(found.coverage.missing) == 48


def test_judge__other_question() -> None:
    """An answer to another text does not count, whatever its tag says."""
    observed = compared(Server(), captured())
    kept = dict(observed.seen["niah"])
    tag = Tag(Arm.CANDIDATE, "niah", UNITS[5])
    kept[tag] = replace(kept[tag], call_sha256="0" * 64)
    found = result(replace(observed, seen={"niah": kept}))

    assert found.verdict is Verdict.UNPROVEN
    assert [f.detail for f in found.faults] == ["an answer to another question"]


def test_judge__reference_that_dies() -> None:
    """What the baseline failed at twice is left out and said; the rest is compared."""
    broken = Failure(FailureKind.ABORTED, "chat: the engine gave the item up", 200)
    server = Server(fails=lambda call: broken if call.tag.unit in UNITS[:2] else None)
    found = result(compared(Server(), captured(server)))

    assert found.verdict is Verdict.PASS
    assert found.coverage.left_out == tuple(UNITS[:2])
    assert any(c.startswith("2 of 48 questions are left out") for c in found.caveats)


def test_judge__reference_timed_out() -> None:
    """What the way lost of the baseline is asked of the candidate too, and counted as lost: a
    single one of many is no reason against a PASS, and a share beyond the margin is."""
    many = {"trials": 20}
    every = [i.unit for i in items(spec(**many))]
    slow = Failure(FailureKind.TIMEOUT, "no answer")
    for n, verdict in ((1, Verdict.PASS), (6, Verdict.UNPROVEN)):
        gone = every[:n]
        reference = captured(
            Server(fails=lambda c, gone=gone: slow if c.tag.unit in gone else None), **many
        )
        server = Server()
        found = result(compared(server, reference, **many))

        assert len(server.chats) == 120
        assert found.verdict is verdict
        assert found.coverage.failed == tuple(gone)
        assert found.coverage.left_out == ()


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("answered", [0, 5])
def test_judge__reference_broke_at_one_length(once: bool, answered: int) -> None:
    """A length that the baseline broke down on, mostly, is not judged, and is no PASS."""
    many = {"trials": 20}
    gone = {i.unit for i in items(spec(**many)) if i.length == 512 and i.trial >= answered}
    dead = Failure(FailureKind.ABORTED, "no answer")
    reference = captured(Server(fails=lambda c: dead if c.tag.unit in gone else None), **many)
    if once:  # what failed once, without a second answer, was lost on the way
        seconds = {t for t in reference.seen["niah"] if t.attempt and t.leg == "niah"}
        reference = without(reference, seconds)
    found = result(compared(Server(finds=below(300)), reference, **many))

    assert found.verdict in ((Verdict.UNPROVEN, Verdict.FAIL) if answered else (Verdict.UNPROVEN,))
    assert f"no answer to {len(gone)} of 60 at 512 tokens" in check(found, "niah.where").reason


def test_judge__second_answers_lost() -> None:
    """Losing the baseline's second answers, with a failure left in their place, gives no PASS to
    what was lost at one length."""
    many = {"lengths": tuple(range(150, 275, 5)), "trials": 5}
    gone = {i.unit for i in items(spec(**many)) if i.length == 270}
    slow = Failure(FailureKind.TIMEOUT, "no answer")

    def fails(call: Call) -> Failure | None:
        return slow if call.tag.unit in gone and not call.tag.attempt else None

    reference = captured(Server(fails=fails), launches=0, **many)
    observed = compared(Server(finds=spare(gone)), reference, **many)
    second = {t for t in reference.seen["niah"] if t.attempt and t.leg == "niah"}
    torn = replace(observed, baseline=without(reference, second))

    assert len(second) == len(gone) == 15
    assert result(observed).verdict is not Verdict.PASS
    assert result(torn).verdict is not Verdict.PASS


ANSWERS: tuple[Answer, ...] = (
    TokenIds(()),
    TokenIds((1,)),
    Generation("", "stop"),
    Generation("1" * 7, "length", prompt_tokens=-5),
    Generation("4831927", "\x00", prompt_tokens=10**18, prompt_ids=(1,)),
    Failure(FailureKind.BUDGET, ""),
    Failure(FailureKind.UNSUPPORTED, "", None),
)


@settings(deadline=None, max_examples=20)
@given(st.randoms(use_true_random=False))
def test_judge__forged(rng: random.Random) -> None:
    """Answers of any kind in any place are judged without a traceback."""
    observed = FORGED
    assert observed.baseline is not None

    def forged(kept: dict[Tag, Observation]) -> dict[Tag, Observation]:
        return {
            t: replace(o, answer=rng.choice(ANSWERS)) if rng.random() < 0.3 else o
            for t, o in kept.items()
        }

    theirs = replace(observed.baseline, seen={"niah": forged(dict(observed.baseline.seen["niah"]))})
    found = result(
        replace(observed, seen={"niah": forged(dict(observed.seen["niah"]))}, baseline=theirs)
    )

    assert found.verdict in Verdict
    result(theirs)


FORGED = compared(Server(), captured())


@pytest.mark.parametrize("part", ["all", "2of0", "0of2", "1of1", "x", "", "999of999", "1of\u0662"])
@pytest.mark.parametrize("count", [0, 1, 10**6])
def test_lengths__forged(part: str, count: int) -> None:
    """An absurd measurement is none: no text becomes absurdly long by it."""
    tag = Tag(Arm.BASELINE, "measure", f"filler-{part}")
    kept = {tag: Observation(tag, "", TokenIds((7,) * count))}

    assert lengths(spec(), kept).of(0) == ESTIMATE
    assert len(questions(spec(), kept).units) == 48
