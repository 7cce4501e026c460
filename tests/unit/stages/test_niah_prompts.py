"""Whether a question reached both models as the same tokens: a few may differ, and are said."""

from __future__ import annotations

import pytest

from iqaction.stages._niah_items import Item
from iqaction.stages._niah_prompts import differing, reached
from iqaction.stages._niah_tables import Row
from iqaction.stages._paired_items import Graded, Kind
from iqaction.stages._paired_items import Item as Both
from iqaction.verdict import Verdict

IDS = tuple(range(200))


def row(before: tuple[int, ...] | int | None, now: tuple[int, ...] | int | None) -> Row:
    """One question, by the prompt's ids or their count."""

    def side(told: tuple[int, ...] | int | None) -> Graded:
        ids = told if isinstance(told, tuple) else None
        return Graded(Kind.RIGHT, prompt_ids=ids, prompt_tokens=len(ids) if ids else told)  # type: ignore[arg-type]

    return Row(Item(256, 0.5, 0), Both("256-0.5-0", side(before), side(now)))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (IDS, IDS),
        (IDS, (7, *IDS)),  # a BOS
        (IDS, (*IDS[:5], 901, 902, *IDS[7:])),  # another date
        (IDS, (*IDS[:5], *IDS[8:])),
        (IDS, 203),
        (200, 196),
    ],
)
def test_reached(before: tuple[int, ...] | int, now: tuple[int, ...] | int) -> None:
    """The same, or but for a few tokens in one place."""
    assert reached([row(before, now)]).verdict is Verdict.PASS
    assert differing([row(before, now)]) == []


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (IDS, (*range(5), *IDS), "200 prompt tokens before, 205 now"),
        (200, 100, "200 prompt tokens before, 100 now"),
        (IDS, tuple(i + 1 for i in IDS), "prompt token 0 differs"),  # another tokenizer
        (IDS, (*IDS[:5], 900, *IDS[6:150], 901, *IDS[151:]), "prompt token 5 differs"),
        (IDS, (*IDS[:100], *IDS[103:], 1, 2, 3), "prompt token 100 differs"),
    ],
)
def test_reached__differently(
    before: tuple[int, ...] | int, now: tuple[int, ...] | int, said: str
) -> None:
    """More than a few, or in several places, is another question."""
    found = reached([row(IDS, IDS), row(before, now)])

    assert found.verdict is Verdict.UNPROVEN
    assert said in found.reason
    assert [f.kind for f in differing([row(before, now)])] == ["template"]


@pytest.mark.parametrize(("before", "now"), [(None, 5), (5, None), (None, None)])
def test_reached__unknown(before: int | None, now: int | None) -> None:
    """What is not known of one arm is not the same."""
    assert reached([row(before, now)]).verdict is Verdict.UNPROVEN
    assert reached([]).verdict is Verdict.UNPROVEN
