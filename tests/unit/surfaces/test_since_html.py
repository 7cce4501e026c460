"""What a change did against before, on the HTML page."""

from __future__ import annotations

from dataclasses import replace

from markup import of_html
from report_factory import passed, with_history

from iqaction.surfaces import _since_html
from iqaction.surfaces.html import LIMITS


def test_history__a_plot_and_the_same_as_a_table() -> None:
    """A plot for each figure that earlier runs have too, and every number of it as text."""
    page = _since_html.history(with_history(), LIMITS)
    seen = of_html(page)
    ids = [v for n, v in seen.attributes if n == "id"]

    assert [t for t, _ in seen.tags].count("svg") == 2
    assert len(ids) == len(set(ids)) == 4
    assert {"24 Nov, ", "here", "verdict", "0.0221", "0.40 %", "–"} <= set(seen.text)
    assert "<code>1111111</code>" in page
    assert not seen.open + seen.unbalanced


def test_history__nothing_known_is_nothing_said() -> None:
    """No section without earlier runs, or where there is no room for plots."""
    assert _since_html.history(passed(), LIMITS) == ""
    assert _since_html.history(with_history(), replace(LIMITS, tables=0)) == ""
    assert _since_html.standing(passed(), LIMITS) == ""
    assert _since_html.movers(passed(), LIMITS) == ""


def test_movers__marked_text() -> None:
    """What an arm has of its own is marked; what is not shown is counted."""
    page = _since_html.movers(with_history(), replace(LIMITS, movers=1))

    assert "<mark>return</mark>" in page
    assert "<mark>sort</mark>" in page
    assert "2 more: report.json." in page
