"""Draws as arrays: what is matched, what is left out, and that leaving out is not choosing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sampler_world import RIGHT, Listing, SamplerWorld, Sampling, spec

from iqaction.calls import Drawn
from iqaction.rows import Position, Token, pack
from iqaction.stages import _sampling_rows as rows
from iqaction.stages._sampling_rows import positions, width
from iqaction.stats.filters import Sampler
from iqaction.stats.sampling import sums, weighed

LOGS = {"a": -0.5, "b": -1.5, "c": -2.5}


def position(chosen: str, logs: dict[str, float] = LOGS, *, ids: bool = True) -> Position:
    """One position; tokens are letters, their ids the letters' numbers."""
    listed = tuple(Token(t, lp, ord(t[0]) if ids else None) for t, lp in logs.items())
    value = logs.get(chosen, -4.0)
    return Position(Token(chosen, value, ord(chosen[0]) if ids else None), listed)


def missing(token: int) -> Position:
    """A token that is part of a character: llama.cpp lists no row for it."""
    return Position(Token("", None, token))


def answer(*sequences: list[Position], k: int = 3, **named: object) -> Drawn:
    packed = pack([p for s in sequences for p in s])
    lengths = tuple(len(s) for s in sequences)
    made = Drawn(packed, lengths, ("length",) * len(lengths), len(packed), k)
    return replace(made, **named)  # type: ignore[arg-type]


def places(*answers: Drawn, k: int = 3) -> list[int]:
    return positions([("p", a) for a in answers], k).place.tolist()


def dropped(*answers: Drawn, k: int = 3) -> dict[str, int]:
    return dict(positions([("p", a) for a in answers], k).dropped)


def test_positions__places():
    """The drawn token's place in its list; one that is not in it comes after the last."""
    found = positions([("p", answer([position("a"), position("c"), position("z")]))], 3)

    assert found.place.tolist() == [0, 2, 3]
    assert found.logprobs[0].tolist() == pytest.approx(list(LOGS.values()))
    assert not found.unlisted.any()
    assert dict(found.dropped) == {}


def test_positions__a_guest_has_left_its_list():
    """A drawn token that is not in a list one short has the last place."""
    short = {"a": -0.5, "b": -1.5}
    found = positions([("p", answer([position("z", short), position("c")]))], 3)

    assert found.place.tolist() == [2, 2]
    assert found.logprobs[0].tolist() == pytest.approx([-0.5, -1.5, -4.0])


def test_positions__tied_with_the_last():
    """A token that is not listed and as likely as the last one has its place."""
    tied = replace(position("a"), chosen=Token("z", -2.5, ord("z")))

    assert places(answer([tied])) == [2]


def test_positions__likelier_than_the_last_and_not_listed():
    """A drawn token that should be in its list is of another draw: counted, never judged."""
    wrong = replace(position("a"), chosen=Token("z", -1.0, ord("z")))

    assert places(answer([wrong])) == []
    assert dropped(answer([wrong])) == {rows.BROKEN: 1}


def test_positions__text_without_spaces():
    """Where tokens have no ids, a text with or without a space is told by its value."""
    spaced = {" a": -0.5, " b": -1.5, " c": -2.5}
    bare = Position(Token("b", -1.5), position(" a", spaced, ids=False).top)

    assert places(answer([bare])) == [1]

    even = {"x": -1.5, "y": -1.5, "z": -2.5}
    twice = Position(Token("b", -1.5), position("a", even, ids=False).top)

    assert dropped(answer([twice])) == {rows.BROKEN: 1}


def test_positions__tokens_without_a_row():
    """A token that was drawn without a row is out of every list; the position after it is left
    out, and so is every other draw of it."""
    made = answer([position("a"), missing(ord("b")), position("a"), position("c"), position("b")])
    found = positions([("p", made)], 3)

    assert found.place.tolist() == [0, 2]
    assert found.unlisted.tolist() == [[False, True, False]] * 2
    assert dict(found.dropped) == {rows.NO_ROW: 2, rows.AFTER: 1}


def test_positions__a_sequence_begins_anew():
    """The first position of a sequence does not follow the last one of another."""
    assert places(answer([position("a"), missing(ord("z"))], [position("b")])) == [0, 1]


def test_positions__the_end_token():
    """An end without a row is an outcome that no position has."""
    made = answer([position("a")], finish_reasons=("stop",), completion_tokens=2, eos_id=ord("c"))
    found = positions([("p", made)], 3)

    assert found.unlisted.tolist() == [[False, False, True]]
    assert dict(found.dropped) == {rows.NO_ROW: 1}
    assert not found.end_unknown
    assert positions([("p", replace(made, eos_id=None))], 3).end_unknown


def test_positions__ends_that_are_not_counted():
    """Without a count of tokens, texts that all end in the same token have their end listed."""
    same = answer(*[[position("a"), position("b")]] * 5, completion_tokens=None)
    same = replace(same, finish_reasons=("stop",) * 5)
    letters = [position(c, {c: -0.1, "z": -3.0, "y": -4.0}) for c in "abcde"]
    other = answer(*[[p] for p in letters], completion_tokens=None)
    other = replace(other, finish_reasons=("stop",) * 5)

    assert not positions([("p", same)], 3).end_unknown
    assert positions([("p", other)], 3).end_unknown


def test_positions__rows_that_cannot_be_placed():
    """Where rows are missing and nobody says where, nothing of the prompt is used."""
    lost = answer([position("a")], completion_tokens=3)
    whole = answer([position("b")])
    found = positions([("p", lost), ("p", whole), ("q", whole)], 3)

    assert found.excluded == ("p",)
    assert found.place.tolist() == [1]
    assert dict(found.dropped) == {rows.EXCLUDED: 4}


@pytest.mark.parametrize(
    ("logs", "reason"),
    [
        ({"a": -0.5}, rows.SHORT),
        ({"a": -0.1, "b": -0.2, "c": -0.3}, rows.BROKEN),  # sums to more than 1
        ({"a": -0.5, "b": float("nan"), "c": -2.5}, rows.BROKEN),
        ({"a": -0.5, "b": 0.5, "c": -2.5}, rows.BROKEN),
        ({"a": -0.5, "b": -1.5, "c": -9999.0}, rows.BROKEN),
    ],
)
def test_positions__no_lists(logs, reason):
    """A list that is none is counted for what it is."""
    assert dropped(answer([position("a", logs)])) == {reason: 1}


def test_positions__print_alike():
    """Two tokens that print alike without ids are the list's fault, not the draw's; a value that
    is none counts as a draw of which nothing is known."""
    listed = (Token("a", -0.5), Token("a", -1.5), Token("b", -2.5))
    twins = Position(Token("b", -2.5), listed)

    assert dropped(answer([twins])) == {rows.UNCLEAR: 1}
    assert dropped(answer([Position(Token("b", None), ())])) == {rows.BROKEN: 1}
    assert dropped(answer([Position(Token("", -1.0), position("a", ids=False).top)])) == {
        rows.NO_ROW: 1
    }


def test_positions__unsorted_evidence():
    """A list that does not fall is none, whoever wrote it."""
    made = answer([position("a")])
    logs = made.rows.top_logprob[:, ::-1].copy()
    bad = replace(made, rows=replace(made.rows, top_logprob=logs))

    assert dropped(bad) == {rows.BROKEN: 1}


def test_width():
    """As many as the engine accepted, at most one more than came."""
    made = answer([position("a")])

    assert width([made]) == 3
    assert width([replace(made, top_logprobs=10**9)]) == 4
    assert width([replace(made, top_logprobs=0)]) == 3
    assert width([made, replace(made, top_logprobs=2)]) == 2
    assert width([]) == 0
    assert width([answer([])]) == 0


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
def test_positions__lists_are_cut_or_filled(k):
    """Any length is judged or left out, and nothing raises."""
    found = positions([("p", answer([position("a"), position("c"), position("z")]))], k)

    assert found.logprobs.shape[1] == k
    assert len(found.place) + sum(found.dropped.values()) == 3


def test_positions__nothing():
    """No answers are no positions."""
    assert len(positions([], 20).place) == 0
    assert len(positions([("p", answer([]))], 20).place) == 0


LISTINGS = {
    "guest": Listing(guest=True),
    "fragments": Listing(fragments=True),
    "ends": Listing(ends=True),
    "ends listed": Listing(ends=True, ends_listed=True),
    "all": Listing(guest=True, fragments=True, ends=True),
}


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_positions__leaving_out_is_not_choosing(listing):
    """However an engine lists, a correct sampler stays correct: over 16 sets the sums have mean 0
    and variance 1, and no set is striking at one in 10,000."""
    asked = spec(temperature=0.8, top_k=20, top_p=1.0)
    z, p = [], []
    for seed in range(16):
        server = Sampling(SamplerWorld(), asked.params, listing=listing, seed=seed)
        made = positions([("p", server.draws(64, 64))], 20)
        sampler = Sampler(0.8, 20, order=server.order)
        found = sums(weighed(made.logprobs, made.place, made.unlisted, sampler))
        z.append(found.score.z)
        p.append(min(found.p.values()))

    assert abs(np.mean(z)) < 4 / np.sqrt(16)
    assert 0.6 < np.std(z) < 1.5
    assert min(p) > 1e-4


def test_positions__read_naively_ends_blame_the_sampler():
    """What the care above is for: read as if every token had a row, the same draws are striking."""
    asked = spec(temperature=0.8, top_k=20, top_p=1.0)
    server = Sampling(SamplerWorld(), asked.params, listing=Listing(ends=True))
    made = positions([("p", server.draws(256, 64))], 20)
    naive = weighed(
        made.logprobs,
        made.place,
        np.zeros_like(made.unlisted),
        Sampler(0.8, 20, order=server.order),
    )

    assert min(sums(naive).p.values()) < 1e-6
    assert server.fault == RIGHT
    assert made.unlisted.any()
