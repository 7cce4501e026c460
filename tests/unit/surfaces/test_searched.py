"""A reader sees where the baseline was looked for, on every surface (hostile: test_injection)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import report_factory as made

from iqaction.report import Report
from iqaction.surfaces import _searched, check_run, comment, html, summary

SAID = (
    "committed: the merge-base has no .inferquality/baseline",
    "artifact inferquality-baseline-x of run 7: not taken, it ran on pull_request",
)


def searched(*said: str) -> Report:
    return replace(made.unproven(), searched=said)


@pytest.mark.parametrize("surface", [comment, check_run, summary, html])
def test_searched(surface):
    """Each place, in order, on each surface; nothing where nobody searched."""
    shown = str(surface.render(searched(*SAID)))
    bare = str(surface.render(searched()))

    assert _searched.TITLE in shown
    assert shown.index("no .inferquality") < shown.index("it ran on")
    assert _searched.TITLE not in bare


def test_searched__many():
    """What is left out is counted."""
    text = _searched.markdown(searched(*["x"] * 99), check_run.LIMITS)
    page = _searched.page(searched(*["x"] * 99), check_run.LIMITS)

    assert f"And {99 - check_run.LIMITS.names} more" in text
    assert f"and {99 - check_run.LIMITS.names} more" in page
