"""Where two greedy texts part, and what the parting weighs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import ENDS, World

from iqaction.calls import Generation, Message, Scored
from iqaction.prompts import Prompt
from iqaction.report import Divergence
from iqaction.rows import Match, Position, Rows, Token, pack
from iqaction.stages._divergence import END, by_weight, classify, find, top_two_change

PROMPT = Prompt("p", "code", (Message("user", "?"),))


def listed(*tokens: tuple[str, float]) -> Position:
    """A position that chose its first token. Ids are the letters' own numbers."""
    top = tuple(Token(t, lp, ord(t[0])) for t, lp in tokens)
    return Position(top[0], top)


def said(*positions: Position, end: int | None = None, **changes: object) -> Generation:
    rows = pack(positions)
    text = "".join(p.chosen.text for p in positions)
    done = Generation(
        text, "stop" if end else "length", rows, True, completion_tokens=len(rows), eos_id=end
    )
    return replace(done, **changes)  # type: ignore[arg-type]


def apart(
    ours: Generation, theirs: Generation, *, tie: float = 0.25, rows: Rows | None = None
) -> Divergence | None:
    return find(PROMPT, ours, theirs, ours.rows if rows is None else rows, tie)


A = listed(("a", -0.1), ("b", -3.0), ("c", -4.0))


def two(gap: float) -> Position:
    """ "x", and "y" below it by ``gap``."""
    return listed(("x", -0.75), ("y", -0.75 - gap), ("z", -9.0))


Y = listed(("y", -0.1), ("x", -3.0), ("z", -4.0))


def test_find__same_text() -> None:
    """The same tokens and the same text do not part."""
    assert apart(said(A, A), said(A, A)) is None


@pytest.mark.parametrize(
    ("gap", "kind"),
    [
        (0.0, "tie"),
        (0.25, "tie"),
        (0.2505, "shift"),
        (1.0, "shift"),
        (1.001, "real"),
        (7.0, "real"),
    ],
)
def test_find__gap(gap: float, kind: str) -> None:
    """A gap up to the tie limit is a tie, up to one nat a shift, beyond that real."""
    found = apart(said(A, two(gap), A), said(A, Y, A))

    assert found is not None
    assert found.kind == kind
    assert found.gap == pytest.approx(gap, abs=1e-6)
    assert (found.position, found.before) == (1, "a")
    assert (found.baseline_token, found.candidate_token) == ("x", "y")
    assert (found.baseline_after, found.candidate_after) == ("xa", "ya")
    assert (found.unit, found.bucket) == ("p", "code")


def test_find__tokens_known_by_text() -> None:
    """Without ids, tokens are matched by what they print, and weighed alike."""

    def nameless(*positions: Position) -> Generation:
        rows = pack(
            [
                Position(replace(p.chosen, id=None), tuple(replace(t, id=None) for t in p.top))
                for p in positions
            ]
        )
        return replace(said(*positions), rows=rows)

    found = apart(nameless(A, two(3.0), A), nameless(A, Y, A))

    assert found is not None
    assert (found.position, found.kind) == (1, "real")
    assert found.gap == pytest.approx(3.0, abs=1e-6)


def test_find__reference_was_not_at_its_favourite() -> None:
    """A token that the reference preferred to its own is a tie: the gap is negative."""
    own = Position(Token("x", -2.0, ord("x")), listed(("y", -0.3), ("x", -2.0)).top)

    found = apart(said(A, own), said(A, Y))

    assert found is not None
    assert found.gap is not None
    assert found.gap < 0
    assert found.kind == "tie"


def test_find__unlisted() -> None:
    """A token that the reference does not list counts as its smallest listed value."""
    found = apart(said(A, two(0.1)), said(A, listed(("q", -0.1))))

    assert found is not None
    assert found.gap == pytest.approx(8.25)
    assert found.kind == "real"


def test_find__list_of_one() -> None:
    """A list of one tells nothing of another token: the gap is unknown, and no tie."""
    found = apart(said(A, listed(("x", -0.1))), said(A, Y))

    assert found is not None
    assert (found.kind, found.gap) == ("unknown", None)


def test_find__unusable_row() -> None:
    """A row without numbers weighs nothing."""
    broken = Position(Token("x", math.nan, ord("x")), ())
    found = apart(said(A, broken), said(A, Y))

    assert found is not None
    assert (found.kind, found.gap) == ("unknown", None)


@pytest.mark.parametrize("empty", ["ours", "theirs"])
def test_find__one_text_empty(empty: str) -> None:
    """A text against none is a real divergence, whatever the gap would be."""
    nothing = said(listed(("x", -0.5), ("y", -0.6)), text="")
    text = said(listed(("y", -0.5), ("x", -0.6)))
    ours, theirs = (nothing, text) if empty == "ours" else (text, nothing)

    found = apart(ours, theirs)

    assert found is not None
    assert found.kind == "real"


def test_find__two_empty_texts() -> None:
    """Two empty texts never agree."""
    found = apart(said(A, text=""), said(A, text=""))

    assert found is not None
    assert found.kind == "real"


def test_find__same_tokens_other_text() -> None:
    """The same ids that print another text differ in a way that cannot be weighed."""
    found = apart(said(A, A), said(A, A, text="aé"))

    assert found is not None
    assert (found.kind, found.position) == ("unknown", -1)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": None, "rows_complete": False},
        {"rows": pack([]), "rows_complete": False},
        {"rows": replace(said(A).rows, match=Match.TEXT)},  # type: ignore[type-var]
        {"rows_complete": False},
    ],
)
@pytest.mark.parametrize("arm", ["ours", "theirs"])
def test_find__no_tokens_to_compare(changes: dict[str, object], arm: str) -> None:
    """Where tokens are not known of both arms, or are incomplete, only equality can be told."""
    whole = said(A, A, two(0.1), text="some text here")
    other = replace(whole, text="some test here", **changes)  # type: ignore[arg-type]
    same = replace(whole, **changes)  # type: ignore[arg-type]

    def ordered(x: Generation) -> tuple[Generation, Generation]:
        return (x, whole) if arm == "ours" else (whole, x)

    assert apart(*ordered(same)) is None
    found = apart(*ordered(other))
    assert found is not None
    assert (found.kind, found.position, found.gap) == ("unknown", -1, None)
    assert found.before == "some te"
    assert {found.baseline_token, found.candidate_token} == {"x", "s"}


def test_find__text_against_its_beginning() -> None:
    """A text that ends earlier parts where it ends."""
    found = apart(said(A, text="ab", rows=None), said(A, text="abc"))

    assert found is not None
    assert (found.baseline_token, found.candidate_token) == (END, "c")
    assert (found.baseline_after, found.candidate_after) == (END, "c")


@pytest.mark.parametrize("at_end", [True, False])
def test_find__lost_byte_fragment(at_end: bool) -> None:
    """An arm that lost the rows of byte fragments does not diverge for real by that."""
    whole = said(*[listed((c, -0.1), ("~", -5.0), ("|", -7.0)) for c in "abcdef"])
    lost = said(
        *[listed((c, -0.1), ("~", -5.0), ("|", -7.0)) for c in ("abcde" if at_end else "acdef")],
        text="abcdeg",
        rows_complete=False,
    )

    found = apart(whole, lost)

    assert found is not None
    assert found.kind == "unknown"


EOS = ord("$")


def ending(gap: float) -> Position:
    """The end token, and "y" below it by ``gap``."""
    return Position(Token("", -0.7, EOS), (Token("", -0.7, EOS), Token("y", -0.7 - gap, ord("y"))))


@pytest.mark.parametrize(("gap", "kind"), [(0.2, "tie"), (3.0, "real")])
def test_find__candidate_writes_on(gap: float, kind: str) -> None:
    """A candidate that writes on is weighed by the reference's end token, listed or not."""
    shown = said(A, ending(gap), text="a", end=EOS)
    omitted = said(A, end=EOS)
    with_row = pack([A, ending(gap)])
    longer = said(A, Y)

    for ours, rows in ((shown, shown.rows), (omitted, with_row)):
        found = apart(ours, longer, rows=rows)
        assert found is not None
        assert (found.kind, found.position) == (kind, 1)
        assert found.gap == pytest.approx(gap, abs=1e-6)
        assert found.candidate_token == "y"
        assert found.before == "a"


def test_find__end_token_without_a_row() -> None:
    """An end token whose row is not known makes no tie."""
    found = apart(said(A, end=EOS), said(A, Y))

    assert found is not None
    assert (found.kind, found.gap) == ("unknown", None)
    assert (found.baseline_token, found.baseline_after) == (END, END)


@pytest.mark.parametrize(("gap", "kind"), [(0.2, "tie"), (3.0, "real")])
def test_find__candidate_stops_early(gap: float, kind: str) -> None:
    """A candidate that stops is weighed by what the reference gave its end token there."""
    going = Position(Token("y", -0.7, ord("y")), (Token("y", -0.7, ord("y")),
                     Token("", -0.7 - gap, EOS)))  # fmt: skip
    for stops in (said(A, end=EOS), said(A, ending(0.3), text="a", end=EOS)):
        found = apart(said(A, going, A), stops)
        assert found is not None
        assert (found.kind, found.position) == (kind, 1)


def test_find__candidate_stops_without_a_known_end() -> None:
    """An early stop whose token is not known cannot be weighed, and is no agreement."""
    found = apart(said(A, two(0.1), A), said(A, finish_reason="stop"))

    assert found is not None
    assert (found.kind, found.position, found.candidate_token) == ("unknown", 1, END)


@pytest.mark.parametrize("end", ENDS)
def test_find__stops_alike(end: str) -> None:
    """Two texts that stop at the same place do not part, however the end token is told."""
    world = World(units=1, length=8, end=end)
    text = world.generation(world.logits("p-000"), "p-000")

    assert apart(text, text) is None


def test_find__long_texts_are_cut() -> None:
    """At most 80 characters are shown on each side."""
    long = listed(("a" * 30, -0.1), ("b", -3.0))
    found = apart(said(*[long] * 50, two(0.1), *[long] * 50), said(*[long] * 50, Y, *[long] * 50))

    assert found is not None
    assert found.before == "a" * 80
    assert found.baseline_after == ("x" + "a" * 90)[:80]
    assert len(found.candidate_after) == 80


@pytest.mark.parametrize("gap", [None, math.nan])
def test_classify__no_number(gap: float | None) -> None:
    """No gap, or NaN, is neither tie nor real."""
    assert classify(gap, 0.25) == "unknown"


@given(st.floats(-5, 5), st.floats(0.25, 1.0))
def test_classify__monotonic(gap: float, tie: float) -> None:
    """A larger gap never weighs less."""
    order = ["tie", "shift", "real"]

    assert order.index(classify(gap + 0.5, tie)) >= order.index(classify(gap, tie))
    assert (classify(gap, tie) == "real") is (gap > 1.0)


def test_by_weight() -> None:
    """What matters most is shown first: real, unweighed, shift, tie; larger gaps before smaller."""

    def one(unit: str, kind: str, gap: float | None) -> Divergence:
        return Divergence(unit, "b", 0, kind, gap, "", "", "", "", "")

    shown = [
        one("a", "real", None),
        one("b", "real", 3.0),
        one("c", "real", 2.0),
        one("d", "unknown", None),
        one("e", "shift", 0.9),
        one("f", "tie", 0.1),
        one("g", "tie", 0.1),
    ]

    turned = shown[::-1]

    assert sorted(turned, key=by_weight) == shown


def scored(*positions: Position) -> Scored:
    return Scored(pack(positions), "x")


def test_top_two_change__largest() -> None:
    """The largest change of the top-two difference over all positions and launches."""
    rows = pack([two(1.0), two(2.0)])

    assert top_two_change(rows, [scored(two(1.0), two(2.0))]) == 0.0
    found = top_two_change(rows, [scored(two(1.1), two(2.0)), scored(two(1.0), two(1.5))])
    assert found == pytest.approx(0.5, abs=1e-6)


def test_top_two_change__reversed_order() -> None:
    """A launch that prefers the other token changed by the whole way there."""
    found = top_two_change(pack([two(0.2)]), [scored(listed(("y", -0.6), ("x", -0.9)))])

    assert found == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    "again",
    [
        scored(),
        scored(listed(("q", -0.7), ("r", -0.8))),  # neither token is listed again
        scored(listed(("x", -0.7), ("r", -0.8))),  # only one is
        scored(Position(Token("x", math.nan, ord("x")), two(1.0).top)),
        Scored(replace(pack([two(1.0)]), match=Match.TEXT), "x"),
        scored(Position(two(1.0).top[0], ())),
    ],
)
def test_top_two_change__nothing_to_compare(again: Scored) -> None:
    """What is not listed again says nothing, and nothing said is None, not 0."""
    assert top_two_change(pack([two(1.0)]), [again]) is None


def test_top_two_change__list_of_one() -> None:
    """A reference that lists one token has no difference to change."""
    assert top_two_change(pack([listed(("x", -0.1))]), [scored(two(1.0))]) is None
    mixed = pack([listed(("x", -0.1)), two(1.0)])
    assert top_two_change(mixed, [scored(two(9.0), two(1.5))]) == pytest.approx(0.5, abs=1e-6)


def test_top_two_change__shared_prefix() -> None:
    """Only positions that both have are compared."""
    rows = pack([two(1.0), two(2.0)])

    assert top_two_change(rows, [scored(two(1.25))]) == pytest.approx(0.25, abs=1e-6)
    assert np.isfinite(top_two_change(rows, [scored(two(1.0))]) or 0.0)
