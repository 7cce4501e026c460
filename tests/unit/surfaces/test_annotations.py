"""Unit tests of the annotations beside changed lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_factory import GOLDENS, accepted, failed_by_score, not_run, passed, report, stage

from iqaction.report import ChangedLine, Report
from iqaction.surfaces._base import Annotate
from iqaction.surfaces.annotations import render
from iqaction.verdict import Verdict

LINES = tuple(ChangedLine("compose.yml", i, "x") for i in (31, 7))


def on(of: Report, *lines: ChangedLine) -> list[Annotate]:
    found = render(replace(of, changed_lines=lines))
    return [x for x in found if isinstance(x, Annotate)]


def test_annotations__what_the_changed_line_did() -> None:
    """Each changed line gets the verdict with the worst check and its reason."""
    message = (
        "FAIL: self leg: decode faults: 6 of 64 prompts hold a token whose log-probability "
        "changed by more than .5 nats between decoding and forcing, 0 of 64 in the baseline "
        "(exact p = .014)"
    )

    assert on(failed_by_score(), *LINES) == [
        Annotate("compose.yml", 31, "failure", message),
        Annotate("compose.yml", 7, "failure", message),
    ]


def test_annotations__green_says_nothing() -> None:
    """Neither a PASS nor what was accepted annotates anything."""
    assert on(passed(), *LINES) == on(accepted(), *LINES) == []


@pytest.mark.parametrize("case", GOLDENS)
def test_annotations__failure_for_fail_alone(case: str) -> None:
    """UNPROVEN and NOT RUN warn."""
    of = GOLDENS[case]()

    for found in on(of, *LINES):
        assert found.level == ("failure" if of.verdict is Verdict.FAIL else "warning")


def test_annotations__the_problem_where_no_check_was_made() -> None:
    """What did not run says why in its first line; an accepted check is not the worst."""
    (found,) = on(replace(not_run(), problems=("it did not start\n  | log",)), LINES[0])
    checks = stage("s", "FAIL|a|A||||bad\nUNPROVEN|b|B||||open")
    first = replace(checks.checks[0], accepted="yes")
    (part,) = on(report("x", replace(checks, checks=(first, checks.checks[1]))), LINES[0])

    assert found.message == "NOT RUN: it did not start"
    assert part.message == "FAIL: B: open"
    assert on(report("nothing was asked"), LINES[0])[0].message == "UNPROVEN: nothing was asked"


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "../x.yml", "a/../b", "a//b", "a/", "./a", ".", "..", "C:\\x"),
        *("a\nb", "a\x00", "::error::", "a:b", "ä.yml", " a", "a ", "a/ b", "x" * 301, "a\u202eb"),
        *("${{ a }}", "`a`", "a,b", "a%0Ab", "<a>"),
    ],
)
def test_annotations__odd_paths_are_left_out(path: str) -> None:
    """What is no plain relative path is annotated nowhere."""
    assert on(failed_by_score(), ChangedLine(path, 1, "x")) == []


def test_annotations__good_paths() -> None:
    """Hidden folders, dots and blanks within a name are usual."""
    for path in (".github/x.yml", "a b/c-d_e.yml", "..a/b..c", "a/b/c/d"):
        assert [x.path for x in on(failed_by_score(), ChangedLine(path, 1, ""))] == [path]


def test_annotations__bounded() -> None:
    """A line once, no line that is none, fifty in all, and messages of bounded length."""
    many = [ChangedLine("a", i % 80 - 1, "x") for i in range(1000)]
    of = report("x", stage("s", "FAIL|a|A||||" + "\u20ac" * 50_000))
    found = on(of, *many)

    assert len(found) == len({x.line for x in found}) == 50
    assert min(x.line for x in found) == 1
    assert all(len(x.message) <= 4096 and x.message.isascii() for x in found)


def test_annotations__no_markup() -> None:
    """Addresses, links, tags, code and mentions are broken apart."""
    text = "see https://evil.example [x](y) ![z](y) <b>@you</b> `code` \u65e5 1 < 2"
    (found,) = on(report("x", stage("s", f"FAIL|a|A||||{text}")), LINES[0])

    assert found.message == (
        "FAIL: A: see https: //evil.example [x] (y) ! [z] (y) < b>[at]you< /b> 'code' \\u65e5 1 < 2"
    )
