"""Which forced rows stand against which reference rows, and which rows are no measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from world import FAILED, World, answering, without

from iqaction.calls import Arm, Observation, Scored, Tag
from iqaction.observed import Observed
from iqaction.rows import PAD, Match, Rows
from iqaction.stages import _forced
from iqaction.stages._forced import Pairing, all_usable, fit, leg, reference_of
from iqaction.stages._paths import cut

WORLD = World(units=3, length=4, k=5)
UNIT = "p-000"


def rows(k: int = 5, length: int = 4) -> Rows:
    world = World(units=3, length=length)
    return world.forced(world.logits(UNIT), world.path(UNIT), k).rows


def spoiled(column: str, value: object, at: object = 1) -> Rows:
    """Rows with one value of one column replaced; they still say that they are usable."""
    found = rows()
    changed = getattr(found, column).copy()
    changed[at] = value
    return replace(found, **{column: changed})


def test_all_usable__healthy() -> None:
    """Every row has numbers and a list; lists may be of different length."""
    padded = rows()
    padded.top[2, 3:], padded.top_logprob[2, 3:] = PAD, -np.inf

    assert all_usable(rows())
    assert all_usable(padded)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.5])
@pytest.mark.parametrize("column", ["logprob", "top_logprob"])
def test_all_usable__no_number(column: str, value: float) -> None:
    """A row that calls itself usable and holds no log-probability is not: NaN compares with
    nothing, and would count as no disagreement."""
    at = (1, 0) if column == "top_logprob" else 1

    assert not all_usable(spoiled(column, value, at))


def test_all_usable__lacking() -> None:
    """No rows, no lists, an empty list and a row marked unusable are no measurement."""
    assert not all_usable(cut(rows(), 0, 0))
    assert not all_usable(rows(k=0))
    assert not all_usable(spoiled("top", PAD, (2, slice(None))))
    assert not all_usable(spoiled("usable", False))


def test_fit__cut_to_the_reference() -> None:
    """Forced rows beyond the reference's are not compared."""
    found = fit(Scored(rows(length=4), "x"), cut(rows(length=4), 0, 3))

    assert isinstance(found, Rows)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("forced", "said"),
    [
        (cut(rows(), 0, 3), "3 forced rows for 4 tokens"),
        (replace(rows(), match=Match.TEXT), "other tokens"),
        (spoiled("chosen", 999), "other tokens"),
        (spoiled("logprob", np.nan), "unusable rows (a row without a list)"),
        (
            replace(spoiled("usable", False), faults={"clamped": 1, "NaN": 1}),
            "unusable rows (NaN, clamped)",
        ),
    ],
)
def test_fit__refused(forced: Rows, said: str) -> None:
    """Rows that are short, of other tokens or unusable say so, and are never compared."""
    found = fit(Scored(forced, "x"), rows())

    assert isinstance(found, str)
    assert said in found


def test_leg__one_after_another() -> None:
    """Prompts of different lengths and list lengths keep their own positions and figures."""
    short, long = rows(k=3, length=2), rows(k=8, length=7)
    pairs = [Pairing("a", short, short), Pairing("b", long, long), Pairing("c", short, short)]

    found = leg(iter(pairs))

    assert found.units == ("a", "b", "c")
    assert found.starts.tolist() == [0, 2, 9]
    assert found.lengths().tolist() == [2, 7, 2]
    assert found.compared.usable.all()
    assert found.mean(found.compared.kl).tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(found.total(np.ones(11)), [2, 7, 2])


def test_leg__many() -> None:
    """More prompts than are compared at once give the same as one at a time."""
    world = World(units=300, length=12)
    pairs = [
        Pairing(
            u,
            world.forced(world.logits(u), world.path(u)).rows,
            world.forced(world.logits(u) * 1.1, world.path(u)).rows,
        )
        for u in world.names
    ]

    found = leg(iter(pairs))

    one = [leg(iter([p])).compared.kl for p in pairs]
    np.testing.assert_array_equal(found.compared.kl, np.concatenate(one))
    assert len(found.units) == 300


def test_leg__nothing() -> None:
    """No prompts give empty figures, not an error."""
    found = leg(iter([]))

    assert found.units == ()
    assert found.lengths().size == 0
    assert found.mean(found.compared.kl).size == 0
    assert found.total(found.compared.kl).size == 0


def spoil(observed: Observed, change: object, arm: Arm = Arm.BASELINE) -> Observed:
    """The baseline with one prompt's text replaced by ``change`` of it."""
    tag = Tag(arm, "trajectory", UNIT)
    text = observed.seen["trajectory"][tag].answer
    return answering(observed, "trajectory", {tag: change(text)})  # type: ignore[operator]


def test_reference_of__whole() -> None:
    """The rows of the stored text, along its whole path."""
    found = reference_of(WORLD.capture(launches=1), UNIT)

    assert isinstance(found, _forced.Reference)
    assert found.rows.chosen.tolist() == WORLD.path(UNIT).tolist()
    assert len(found.rows) == 4
    assert not found.open_end


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda g: FAILED, "no text"),
        (lambda g: replace(g, prompt_ids=None), "prompt token ids are not known"),
        (lambda g: replace(g, rows=None), "no log-probabilities"),
        (lambda g: replace(g, rows_complete=False), "fewer rows"),
        (lambda g: replace(g, rows=replace(g.rows, match=Match.BYTES)), "no token ids"),
        (lambda g: replace(g, rows=spoiled("logprob", np.nan)), "not usable"),
        (lambda g: replace(g, rows=rows(k=1)), "one token at a position"),
        (lambda g: replace(g, finish_reason="stop", eos_id=59), "end token is missing"),
    ],
)
def test_reference_of__none(change: object, said: str) -> None:
    """A prompt that cannot be forced says why."""
    found = reference_of(spoil(WORLD.capture(launches=1), change), UNIT)

    assert isinstance(found, str)
    assert said in found


def test_reference_of__end_token() -> None:
    """An end token that chat left out gets its row from any launch that scored the whole path."""
    world = World(units=2, length=4, end="omitted")
    baseline = world.capture(launches=2)

    def lost(observed: Observed, *arms: Arm) -> object:
        return reference_of(without(observed, "score", lambda t: t.arm in arms), UNIT)

    for arms in ((), (Arm.BASELINE,), (Arm.REPEAT,)):
        found = lost(baseline, *arms)
        assert isinstance(found, _forced.Reference)
        assert found.rows.chosen[-1] == world.eos
        assert len(found.rows) == 5
    assert lost(baseline, Arm.BASELINE, Arm.REPEAT) == "the row of its end token is missing"


@pytest.mark.parametrize(("end", "unknown"), [("unknown", True), ("listed", False), ("", False)])
def test_reference_of__open_end(end: str, unknown: bool) -> None:
    """It is known of a reference whether its end token is."""
    found = reference_of(World(units=2, length=4, end=end).capture(launches=1), UNIT)

    assert isinstance(found, _forced.Reference)
    assert found.open_end is unknown


def test_forced_along__reasons() -> None:
    """Rows, the failure's own words, or None where nobody answered."""
    baseline = WORLD.capture(launches=1)
    reference = reference_of(baseline, UNIT)
    assert isinstance(reference, _forced.Reference)
    tag = Tag(Arm.REPEAT, "reference", UNIT, 1)
    failed = answering(baseline, "score", {tag: FAILED})

    assert isinstance(_forced.forced_along(baseline, Arm.REPEAT, reference, 1), Rows)
    assert _forced.forced_along(failed, Arm.REPEAT, reference, 1) == FAILED.message
    assert _forced.forced_along(baseline, Arm.REPEAT, reference, 2) is None
    retried = {**failed.seen["score"]}
    again = replace(tag, attempt=1)
    retried[again] = Observation(again, "", baseline.seen["score"][tag].answer)
    found = replace(failed, seen={**failed.seen, "score": retried})
    assert isinstance(_forced.forced_along(found, Arm.REPEAT, reference, 1), Rows)
