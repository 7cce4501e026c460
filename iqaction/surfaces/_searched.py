"""Where a baseline was looked for, and what was found or not: for a reader who wonders why this
one, or why none. Pure.
"""

from __future__ import annotations

from iqaction.report import Report
from iqaction.surfaces import _page
from iqaction.surfaces._budget import Limits
from iqaction.surfaces._escape import prose_html
from iqaction.surfaces._markdown import bold, bullets, join, some

TITLE = "Where the baseline comes from"


def markdown(report: Report, limits: Limits) -> str:
    """The steps of the search, in order; "" where nobody searched."""
    if not report.searched:
        return ""
    return join(bold(TITLE), bullets(some(report.searched, limits)))


def page(report: Report, limits: Limits) -> str:
    """The same for the page."""
    shown = [prose_html(said, limits.prose) for said in report.searched[: limits.names]]
    more = len(report.searched) - len(shown)
    shown += [f"and {more:,} more: report.json"] if more > 0 else []
    return f"<h3>{TITLE}</h3>{_page.bullets(shown)}" if shown else ""
