"""Conclusions, and which of two results may stand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from fake_github.state import SHA
from hypothesis import given
from hypothesis import strategies as st
from unit.github.factory import MARK, MARKER, NEWER, OLDER, check, comment, notes, target

from iqaction.github import publication
from iqaction.github.publication import (
    Mark,
    conclusion,
    has_marker,
    is_newer,
    must_stay,
    read_mark,
    shortest,
    stamped,
)
from iqaction.surfaces._base import Annotate
from iqaction.verdict import Verdict

OTHER = "d" * 40


@pytest.mark.parametrize("warn", [True, False])
@pytest.mark.parametrize("gate", list(Verdict))
def test_conclusion(gate: Verdict, warn: bool) -> None:
    """Only PASS is green; only UNPROVEN, and only when asked for, lets a required check pass."""
    expected = "failure"
    if gate is Verdict.PASS:
        expected = "success"
    elif gate is Verdict.UNPROVEN and warn:
        expected = "neutral"

    assert conclusion(gate, warn=warn) == expected


def test_conclusion__of_nothing() -> None:
    """A target that was told nothing is not green."""
    assert (
        publication.completed(replace(target(), gate=Verdict.UNPROVEN), check(), ())["conclusion"]
        == "failure"
    )


MARKS = st.builds(
    Mark,
    st.integers(1, 3),
    st.integers(1, 3),
    st.just(SHA),
    st.sampled_from(["", "2026-11-30T11:00:00Z", "2026-11-30T12:00:00Z"]),
)


@given(MARKS, MARKS)
def test_is_newer__never_both(one: Mark, other: Mark) -> None:
    """Of two results at most one is newer, and none is newer than itself."""
    assert not (is_newer(one, other) and is_newer(other, one))
    assert not is_newer(one, one)


@pytest.mark.parametrize(
    ("one", "other", "newer"),
    [
        (NEWER, OLDER, True),
        (replace(MARK, attempt=2), MARK, True),
        (replace(OLDER, started_at="2026-11-30T14:00:00Z"), NEWER, True),  # an old run, again
        (replace(NEWER, started_at=""), OLDER, True),  # then the numbers decide
        (replace(OLDER, started_at=""), NEWER, False),
    ],
)
def test_is_newer(one: Mark, other: Mark, newer: bool) -> None:
    """Who started later is newer; where that is not known, the greater number is."""
    assert is_newer(one, other) is newer


def at(mark: Mark, sha: str) -> Mark:
    return replace(mark, head_sha=sha)


@pytest.mark.parametrize(
    ("theirs", "ours", "current", "stays"),
    [
        (None, OLDER, SHA, False),
        (NEWER, OLDER, SHA, True),
        (OLDER, NEWER, SHA, False),
        (MARK, MARK, SHA, False),  # the same run posts again
        (at(OLDER, SHA), at(NEWER, OTHER), SHA, True),  # ours is of a superseded commit
        (at(NEWER, OTHER), at(OLDER, SHA), SHA, False),
        (at(NEWER, OTHER), at(OLDER, OTHER), SHA, True),  # both are: the runs decide
        (at(NEWER, OTHER), at(OLDER, SHA), "", True),
        (at(OLDER, ""), at(NEWER, SHA), "", False),  # nothing is known but the runs
    ],
)
def test_must_stay(theirs: Mark | None, ours: Mark, current: str, stays: bool) -> None:
    """The present commit's result stays before all others; else the newer run's does."""
    assert must_stay(theirs, ours, current) is stays


def test_stamped__is_read_back() -> None:
    """A stamped comment says which run it is of, keeps what its state said, and can be stamped
    again."""
    body = stamped(stamped(comment().body, OLDER), MARK)

    assert read_mark(body) == MARK
    assert body.count("<!-- {") == 1
    assert '"verdict":"FAIL"' in body
    assert body.startswith(f"{MARKER}\n")


def test_stamped__no_state() -> None:
    """A comment without a state line gets one."""
    assert read_mark(stamped("text", MARK)) == MARK


@pytest.mark.parametrize(
    "last",
    [
        '"run_id":"50","attempt":"1","head_sha":"SHA","started_at":"2026-11-30T12:00:00Z"',
        '"run":50,"attempt":1,"sha":"SHA","started":"2026-11-30T12:00:00Z"',
    ],
)
def test_read_mark__spellings(last: str) -> None:
    """Numbers may be written as text, and names be short."""
    state = "{" + last.replace("SHA", SHA) + "}"

    assert read_mark(f"text\r\n\r\n<!-- {state} -->\r\n") == MARK


@pytest.mark.parametrize(
    "last",
    [
        "",
        "<!-- {} -->",
        "<!-- {not json} -->",
        '<!-- {"run_id": -1} -->',
        '<!-- {"run_id": 1e99} -->',
        "<!-- " + '{"a":' * 2000 + "1" + "}" * 2000 + " -->",
        '<!-- {"run_id": 5} --> and more',
    ],
)
def test_read_mark__none(last: str) -> None:
    """A last line that says nothing of use is no mark, whatever it is."""
    assert read_mark(f"text\n{last}") is None


@given(st.text(max_size=300))
def test_read_mark__any_text(body: str) -> None:
    """Whatever a comment says, reading it raises nothing."""
    read_mark(body)
    read_mark(f"x\n<!-- {{{body}}} -->")


def test_has_marker__first_line_alone() -> None:
    """A quoted marker, or one further down, does not make a comment ours."""
    assert has_marker(f"{MARKER}\r\nx", MARKER)
    assert not has_marker(f"> {MARKER}\nx", MARKER)
    assert not has_marker(f"x\n{MARKER}", MARKER)
    assert not has_marker(f"{MARKER} x", MARKER)
    assert not has_marker("\nx", "")


def test_shortest() -> None:
    """What is posted instead of a refused comment has the verdict, says where the whole is, and
    can be found again."""
    body = shortest(MARKER, comment("x" * 100_000).body, target())

    assert has_marker(body, MARKER)
    assert "### FAIL: it differs" in body
    assert "/actions/runs/50" in body
    assert read_mark(body) == MARK
    assert len(body) < 2000


@pytest.mark.parametrize("text", ["x" * 70_000, "é" * 40_000, "𝄞" * 20_000])
def test_output__within_bytes(text: str) -> None:
    """A summary over the limit in bytes is cut between characters, and says so."""
    shown = publication.output(check(text, text), ())

    for part in (shown["summary"], shown["text"]):
        assert isinstance(part, str)
        assert len(part.encode()) <= publication.OUTPUT_BYTES
        assert part.endswith("artifact.)")


def test_usable__what_github_takes() -> None:
    """Annotations that GitHub would refuse are left out, and so are those nobody would read."""
    bad = [
        Annotate("", 1, "failure", "m"),
        Annotate("/x", 1, "failure", "m"),
        Annotate("x", 0, "failure", "m"),
        Annotate("x", 1, "error", "m"),
        Annotate("x", 1, "notice", ""),
    ]

    assert publication.usable([*bad, *notes(3)]) == notes(3)
    assert len(publication.usable(notes(501))) == 500


def test_external_id__is_read_back() -> None:
    """A check run's external id tells its run; others' ids tell nothing."""
    for run, attempt in itertools.product((1, 10**18), (1, 12)):
        mark = Mark(run, attempt, SHA, "2026-11-30T12:00:00Z")

        assert publication.read_external_id(mark.external_id, SHA, mark.started_at) == mark
    for other in ("", "42", "1.x", "0.1", "1.1.1", "9" * 30 + ".1"):
        assert publication.read_external_id(other, SHA, "") is None
