"""Unit tests of the result that is no report: nothing relevant changed."""

from __future__ import annotations

from dataclasses import replace

from report_factory import passed

from iqaction.report import NO_RUN
from iqaction.surfaces import comment
from iqaction.surfaces._base import AppendSummary, PutCheckRun, SetOutput, UpsertComment
from iqaction.surfaces._notes import not_needed
from iqaction.surfaces._state import State, read_state

RUN = passed().run
REASON = "none of the 3 changed files matches `deploy/**`"


def test_not_needed__green_with_its_reason() -> None:
    """Check and summary are green and say why; the output is the words."""
    check, summary, output, _ = not_needed("smollm2-cpu", "org/repo", REASON, RUN)
    link = "[run](https://github.example/org/repo/actions/runs/17)"

    assert check == PutCheckRun(
        "inferquality / smollm2-cpu",
        "c" * 40,
        "success",
        "NOT NEEDED: nothing relevant changed",
        f"{REASON}\n\n{link}",
    )
    assert summary == AppendSummary(
        "### NOT NEEDED  inferquality / smollm2-cpu: nothing relevant changed\n\n"
        f"{REASON}\n\n{link}\n"
    )
    assert output == SetOutput("verdict", "NOT NEEDED")


def test_not_needed__comment_only_in_place_of_one() -> None:
    """The comment of this suite is replaced where there is one, and its state is newer."""
    found = not_needed("smollm2-cpu", "org/repo", REASON, RUN)[-1]

    assert isinstance(found, UpsertComment)
    assert found.only_if_present
    assert found.marker == comment.marker(passed())
    assert found.body.startswith(f"{found.marker}\n\n### NOT NEEDED  inferquality / smollm2-cpu")
    assert read_state(found.body) == State("17", 1, "c" * 40, "2026-11-30T12:00:00Z", "NOT NEEDED")


def test_not_needed__nothing_known() -> None:
    """Without a run and without a reason it still says that nothing was measured."""
    check, *_ = not_needed("", "", "", NO_RUN)

    assert isinstance(check, PutCheckRun)
    assert (check.head_sha, check.summary) == ("", "Nothing was measured.")


def test_not_needed__long_reasons_fit() -> None:
    """A reason of any length is cut."""
    found = not_needed("x" * 10_000, "org/repo", "y " * 1_000_000, replace(RUN, url="x"))

    assert all(len(str(x)) < 9_000 for x in found)
