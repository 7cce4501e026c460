"""What a change did against before, in Markdown."""

from __future__ import annotations

from dataclasses import replace

from report_factory import passed, with_history

from iqaction.surfaces import _since, comment
from iqaction.surfaces.comment import LIMITS


def test_course__one_row() -> None:
    """Each check's last figures on the base branch, then this one's."""
    assert _since.course(with_history(), LIMITS) == (
        "**Worse by, on the base branch → here:** "
        "reference leg: KL (≥) 0.0008 – 0.0009 → 0.0221 · "
        "GSM8K: right answers 0.00 % -0.20 % 0.10 % → 0.40 %"
    )


def test_since__nothing_known_is_nothing_said() -> None:
    """Without history and movers the comment holds none of it."""
    of = passed()

    assert [f(of, LIMITS) for f in (_since.standing, _since.course, _since.movers)] == [""] * 3


def test_movers__what_is_not_shown_is_counted() -> None:
    """A row for each, with what both share before what each arm has."""
    text = _since.movers(with_history(), replace(LIMITS, movers=2))

    assert "| `code-017` | score: KL 0.0004 → 0.3121 | 38 | `def top(rows):⏎  return` |" in text
    assert "| `q-12` | gsm8k: lost, 72 is right | – | `72` | `70: so 70.` |" in text
    assert "json-004" not in text
    assert text.endswith("1 more: `report.html` of the evidence.")


def test_comment__a_pass_folds_what_moved() -> None:
    """In a PASS the prompts that moved stand below the fold, in anything else above it."""
    of = with_history()
    bodies = [comment.render(r)[0].body for r in (of, replace(passed(), stages=of.stages[1:]))]
    places = [b.index("Prompts that changed most") > b.index("<details>") for b in bodies]

    assert places == [False, True]
