"""Whether a question reached both models as the same tokens."""

from __future__ import annotations

from iqaction.stages._paired_items import Graded, Item, Kind
from iqaction.stages._same_prompts import Same, same_prompts
from iqaction.verdict import Verdict

SAME = Same("quiz.template", "Quiz: chat template")
LOST = Graded(Kind.LOST, why="timeout")


def test_same_prompts() -> None:
    """Ids that differ are found where the counts agree; what is not known does not PASS."""
    a = Graded(Kind.RIGHT, prompt_ids=(1, 2), prompt_tokens=2)
    b = Graded(Kind.RIGHT, prompt_ids=(1, 3), prompt_tokens=2)
    only_ids = Graded(Kind.RIGHT, prompt_ids=(1, 2))

    assert same_prompts([Item("u", a, a)], SAME).verdict is Verdict.PASS
    assert same_prompts([Item("u", only_ids, only_ids)], SAME).verdict is Verdict.PASS
    assert "prompt token 1 differs" in same_prompts([Item("u", a, b)], SAME).reason
    for none in ([], [Item("u", a, Graded(Kind.RIGHT))], [Item("u", a, LOST)]):
        assert same_prompts(none, SAME).verdict is Verdict.UNPROVEN


def test_same_prompts__counts() -> None:
    """Ids speak before counts, and counts where one side tells no ids."""
    counted = Graded(Kind.RIGHT, prompt_tokens=9)
    longer = Graded(Kind.RIGHT, prompt_tokens=10)
    ids = Graded(Kind.RIGHT, prompt_ids=(1, 2), prompt_tokens=9)

    assert same_prompts([Item("u", counted, ids)], SAME).verdict is Verdict.PASS
    assert "9 prompt tokens before, 10 now" in same_prompts([Item("u", ids, longer)], SAME).reason
    assert "prompt token 0" in (
        same_prompts([Item("u", ids, Graded(Kind.RIGHT, prompt_ids=(2, 2)))], SAME).reason
    )
