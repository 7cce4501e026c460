"""Finding answers, token paths and prompt ids in what was observed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import ENDS, FAILED, World, keep

from iqaction.calls import Arm, Failure, FailureKind, Generation, Scored, Tag, TokenIds
from iqaction.rows import Match, Rows
from iqaction.stages import _paths
from iqaction.stages._paths import Kept, Own

WORLD = World(units=2, length=6, end="omitted")
UNIT = "p-000"
LATER = Failure(FailureKind.TIMEOUT, "later")


def text(end: str = "omitted", **changes: object) -> Generation:
    world = World(units=2, length=6, end=end)
    return replace(world.generation(world.logits(UNIT), UNIT), **changes)  # type: ignore[arg-type]


def kept(answers: dict[Tag, object]) -> Kept:
    found: dict[Tag, object] = {}
    for tag, answer in answers.items():
        keep(found, tag, answer)  # type: ignore[arg-type]
    return found  # type: ignore[return-value]


def chat(attempt: int = 0, arm: Arm = Arm.CANDIDATE, launch: int = 0) -> Tag:
    return Tag(arm, "trajectory", UNIT, launch, attempt)


def test_generation__first_that_answered() -> None:
    """A text that came when asked once more stands for the failure before it."""
    assert _paths.generation(kept({}), Arm.CANDIDATE, UNIT) is None
    assert _paths.generation(kept({chat(): FAILED}), Arm.CANDIDATE, UNIT) is FAILED
    both = kept({chat(): FAILED, chat(1): LATER})
    assert _paths.generation(both, Arm.CANDIDATE, UNIT) is LATER
    said = text()
    assert _paths.generation(kept({chat(): FAILED, chat(1): said}), Arm.CANDIDATE, UNIT) is said
    assert _paths.generation(kept({chat(): said, chat(1): FAILED}), Arm.CANDIDATE, UNIT) is said


def test_generation__fresh_is_another_text() -> None:
    """A fresh text never stands in for the first one, nor do another arm's or launch's."""
    said = text()
    for tag in (chat(_paths.FRESH), chat(arm=Arm.BASELINE), chat(launch=1)):
        assert _paths.generation(kept({tag: said}), Arm.CANDIDATE, UNIT) is None


def test_generation__foreign_answer() -> None:
    """An answer of another kind under a text's tag is no text."""
    assert _paths.generation(kept({chat(): TokenIds((1,))}), Arm.CANDIDATE, UNIT) is None
    assert _paths.scored(kept({chat(): text()}), Arm.CANDIDATE, "trajectory", UNIT) is None


def test_scored__attempts() -> None:
    """The first scoring falls back to its repetition where it failed; a fresh one to nothing."""
    rows = WORLD.forced(WORLD.logits(UNIT), WORLD.path(UNIT))

    def tag(attempt: int) -> Tag:
        return Tag(Arm.CANDIDATE, "self", UNIT, 0, attempt)

    both = kept({tag(0): FAILED, tag(1): rows})
    assert _paths.scored(both, Arm.CANDIDATE, "self", UNIT) is rows
    assert _paths.scored(both, Arm.CANDIDATE, "self", UNIT, attempt=2) is None
    fresh = kept({tag(2): rows})
    assert _paths.scored(fresh, Arm.CANDIDATE, "self", UNIT) is None
    assert _paths.scored(fresh, Arm.CANDIDATE, "self", UNIT, attempt=2) is rows


def test_prompt_ids__sources() -> None:
    """Ids come from the chat, else from the tokenizer; the count from the chat alone."""
    template = Tag(Arm.CANDIDATE, "template", UNIT)
    told = kept({chat(): text(), template: TokenIds((1, 2))})
    assert _paths.prompt_ids(told, Arm.CANDIDATE, UNIT).ids == WORLD.ids(UNIT)

    silent = text(prompt_ids=None)
    asked = kept({chat(): silent, template: TokenIds((1, 2))})
    assert _paths.prompt_ids(asked, Arm.CANDIDATE, UNIT) == _paths.PromptIds((1, 2), 5)

    failed = kept({chat(): silent, template: FAILED})
    assert _paths.prompt_ids(failed, Arm.CANDIDATE, UNIT) == _paths.PromptIds(None, 5)
    empty = kept({chat(): silent, template: TokenIds(())})
    assert _paths.prompt_ids(empty, Arm.CANDIDATE, UNIT).ids is None
    nothing = kept({chat(): FAILED})
    assert _paths.prompt_ids(nothing, Arm.CANDIDATE, UNIT) == _paths.PromptIds(None, None)


@pytest.mark.parametrize("end", ["", *ENDS])
def test_continuation__end_token(end: str) -> None:
    """The end token is part of the path wherever it is known, once; a cut text has none."""
    world = World(units=2, length=6, end=end)
    path = _paths.continuation(text(end))

    assert path is not None
    assert len(path) == 6 + (end in {"listed", "omitted"})
    assert path.count(world.eos) == (end in {"listed", "omitted"})


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": None},
        {"rows_complete": False},
        {"rows": replace(text().rows, match=Match.BYTES)},  # type: ignore[type-var]
        {"rows": _paths.cut(text().rows, 0, 0)},  # type: ignore[arg-type]
    ],
)
def test_continuation__none(changes: dict[str, object]) -> None:
    """Without all ids of a text there is no path, and it is said why."""
    assert _paths.continuation(text(**changes)) is None
    said = _paths.own(kept({chat(): text(**changes)}), Arm.CANDIDATE, UNIT)
    assert isinstance(said, str)
    assert said.startswith("its tokens cannot be forced (")


def test_own__reasons() -> None:
    """A text that cannot be forced says what is missing."""
    assert _paths.own(kept({}), Arm.CANDIDATE, UNIT) == _paths.NO_TEXT
    assert _paths.own(kept({chat(): FAILED}), Arm.CANDIDATE, UNIT) == _paths.NO_TEXT
    no_ids = kept({chat(): text(prompt_ids=None)})
    assert _paths.own(no_ids, Arm.CANDIDATE, UNIT) == "its prompt token ids are not known"


@pytest.mark.parametrize("more", [1, -1])
@pytest.mark.parametrize("told", [True, False])
def test_own__prompt_ids_of_another_prompt(more: int, told: bool) -> None:
    """Ids that are not as many as the engine counted (a second BOS) are not the prompt's: what is
    forced after them would be scored in another context than it was written in."""
    n = len(WORLD.ids(UNIT))
    answers: dict[Tag, object] = {chat(): text(prompt_tokens=n + more)}
    if not told:
        answers = {chat(): text(prompt_ids=None, prompt_tokens=n + more)}
        answers[Tag(Arm.CANDIDATE, "template", UNIT)] = TokenIds(WORLD.ids(UNIT))
    said = _paths.own(kept(answers), Arm.CANDIDATE, UNIT)

    assert said == f"its prompt has {n + more} tokens, and its token ids are {n}"


def test_own__whole() -> None:
    """A text that can be forced comes with its prompt ids and its path."""
    found = _paths.own(kept({chat(): text()}), Arm.CANDIDATE, UNIT)

    assert isinstance(found, Own)
    assert found.prompt_ids == WORLD.ids(UNIT)
    assert found.path == tuple(WORLD.path(UNIT))
    assert len(found.rows) == 6


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_first_difference(a: list[int], b: list[int]) -> None:
    """The paths agree before it and differ at it; None exactly where they are the same."""
    at = _paths.first_difference(tuple(a), tuple(b))

    if at is None:
        assert a == b
    else:
        assert a[:at] == b[:at]
        assert a[at : at + 1] != b[at : at + 1]


def own(end: str = "omitted") -> Own:
    found = _paths.own(kept({chat(): text(end)}), Arm.CANDIDATE, UNIT)
    assert isinstance(found, Own)
    return found


def test_with_end__taken_from_the_first_whole_scoring() -> None:
    """The end token's row comes from the first answer that scored the whole path; the decoded
    rows stay as they were."""
    whole = WORLD.forced(WORLD.logits(UNIT) + 1.0, WORLD.path(UNIT))
    other = WORLD.forced(WORLD.logits(UNIT) * 2, WORLD.path(UNIT))
    short = Scored(_paths.cut(whole.rows, 0, 6), "grammar")

    rows = _paths.with_end(own(), [None, FAILED, short, whole, other])

    assert len(rows) == 7
    assert rows.chosen[-1] == WORLD.eos
    assert rows.logprob[-1] == whole.rows.logprob[-1]
    np.testing.assert_array_equal(rows.logprob[:6], own().rows.logprob)


@pytest.mark.parametrize("end", ["listed", "unknown"])
def test_with_end__nothing_missing(end: str) -> None:
    """Rows that already cover the known path are left alone."""
    found = own(end)

    assert (
        _paths.with_end(found, [WORLD.forced(WORLD.logits(UNIT), WORLD.path(UNIT))]) is found.rows
    )


def test_with_end__nothing_fits() -> None:
    """Without a scoring of this very path the rows stay short."""
    whole = WORLD.forced(WORLD.logits(UNIT), WORLD.path(UNIT)).rows
    other_match = Scored(replace(whole, match=Match.TEXT), "x")
    other_token = Scored(replace(whole, chosen=whole.chosen * 0), "x")

    assert len(_paths.with_end(own(), [other_match, other_token])) == 6


def test_join__different_k() -> None:
    """Rows of different list lengths join by padding the shorter lists."""
    logits = WORLD.logits(UNIT)
    path = WORLD.path(UNIT)
    a = WORLD.forced(logits, path, 3).rows
    b = WORLD.forced(logits, path, 5).rows

    for first, second in ((a, b), (b, a)):
        joined = _paths.join(first, second)
        assert (len(joined), joined.k) == (14, 5)
        for part, rows in ((slice(0, 7), first), (slice(7, 14), second)):
            np.testing.assert_array_equal(joined.top[part, : rows.k], rows.top)
            np.testing.assert_array_equal(joined.top_logprob[part, : rows.k], rows.top_logprob)
            assert (joined.top[part, rows.k :] == -1).all()
            assert np.isneginf(joined.top_logprob[part, rows.k :]).all()


def test_cut() -> None:
    """A cut keeps every column in step."""
    rows: Rows = own("listed").rows
    part = _paths.cut(rows, 2, 4)

    assert len(part) == 2
    np.testing.assert_array_equal(part.top, rows.top[2:4])
    np.testing.assert_array_equal(part.logprob, rows.logprob[2:4])
