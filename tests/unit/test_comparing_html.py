"""Two folders beside each other as a page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparisons import poisoned, whole
from hostile_reports import HOSTILE
from markup import of_html

from iqaction import comparing_html

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "div"),
    *("h1", "h2", "p", "ul", "li", "strong", "code", "mark", "span"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}


def test_page__says_it_all() -> None:
    """Both verdicts, the question, the engines, every figure and both texts."""
    page = comparing_html.page(whole())

    assert "<h1>UNPROVEN → FAIL: iqaction diff</h1>" in page
    assert "Both were asked the same" in page
    assert "reference leg: KL" in page
    assert "worse: " in page
    assert "<mark>w" in page
    assert "This is no verdict" in page


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_page__hostile(text: str) -> None:
    """Our own tags alone, no link, no script, nothing invisible."""
    page = comparing_html.page(poisoned(text))
    seen = of_html(page)

    assert {t for t, _ in seen.tags} <= TAGS
    assert not [v for n, v in seen.attributes if n in ("href", "src") or n.startswith("on")]
    assert not seen.open + seen.unbalanced + seen.comments
    assert all(c.isprintable() or c in "\n\u3000" for c in page)
    ids = [v for n, v in seen.attributes if n == "id"]
    assert len(ids) == len(set(ids))


def test_page__long_lists_are_cut_and_counted() -> None:
    """Twenty prompts of a kind, two hundred differences."""
    of = poisoned("x")
    many = replace(of.stages[0], movers=of.stages[0].movers * 5)
    page = comparing_html.page(replace(of, asked=("y",) * 210, stages=(many,)))

    assert "and 10 more" in page
    assert "25 more." in page
