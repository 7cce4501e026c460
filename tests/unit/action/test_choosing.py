"""Of the baselines that the base branch captured, the newest that may stand for the merge-base."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.action.choosing import (
    ANCESTOR,
    OTHER,
    SAME,
    UNKNOWN,
    Origin,
    Standing,
    commit_unfit,
    run_unfit,
    weighed,
)

BASE, OLD, CHANGED, TIP = "b" * 40, "a" * 40, "c" * 40, "d" * 40
MAIN = ("main",)
STANDINGS = {
    BASE: Standing(SAME),
    OLD: Standing(ANCESTOR),
    CHANGED: Standing(ANCESTOR, ("compose.yml",)),
    TIP: Standing(OTHER),
}
GOOD = Origin(1, "run 1", "push", "main", "success", BASE)


def chosen(*origins: Origin) -> tuple[int, list[str]]:
    """The id of the first that is taken, 0 for none, and why those before it are not."""
    reasons = []
    for one in weighed(origins, MAIN, STANDINGS.__getitem__):
        if not one.reason:
            return one.origin.id, reasons
        reasons.append(one.reason)
    return 0, reasons


def test_weighed():
    """The newest is taken that is of the merge-base or of an untouched ancestor; those that are
    newer and of something else are told."""
    found, reasons = chosen(
        replace(GOOD, id=5, event="pull_request"),
        replace(GOOD, id=4, head_sha=TIP),
        replace(GOOD, id=3, head_sha=CHANGED),
        replace(GOOD, id=2, head_sha=OLD),
        GOOD,
    )

    assert found == 2
    assert [r.split(",")[0] for r in reasons] == [
        "it ran on pull_request",
        "its commit is neither the merge-base nor an ancestor of it",
        "since its commit",
    ]


def test_weighed__none():
    """Where none fits, none is taken, and each has its reason."""
    assert chosen() == (0, [])
    assert chosen(replace(GOOD, conclusion="failure"), replace(GOOD, head_sha=TIP))[0] == 0


def test_weighed__asks_about_no_commit_in_vain():
    """A run that could never be taken costs no question about its commit."""
    asked = []
    origins = [replace(GOOD, event="pull_request"), GOOD, replace(GOOD, id=9)]

    first = next(
        one for one in weighed(origins, MAIN, lambda sha: asked.append(sha) or Standing(SAME))
        if not one.reason
    )  # fmt: skip

    assert (first.origin.id, asked) == (1, [BASE])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"event": "pull_request"}, "pull_request"),
        ({"event": "workflow_dispatch"}, "workflow_dispatch"),
        ({"event": ""}, "unknown event"),
        ({"branch": "topic"}, "the branch topic, not on main"),
        ({"branch": ""}, "(unknown)"),
        ({"conclusion": "failure"}, "failure"),
        ({"conclusion": ""}, "no conclusion yet"),
        ({"conclusion": "neutral"}, "neutral"),
        ({"same_repository": False}, "another repository's commit"),
        ({"unreadable": "GitHub said no"}, "GitHub said no"),
        ({"head_sha": ""}, "not known"),
    ],
)
def test_run_unfit(change, said):
    """Only a successful push or scheduled run of the base branch itself is one."""
    assert run_unfit(GOOD, MAIN) == ""
    assert said in run_unfit(replace(GOOD, **change), MAIN)


def test_run_unfit__scheduled_and_on_the_default_branch():
    """A weekly run is as good as a push, and so is the repository's own branch."""
    assert run_unfit(replace(GOOD, event="schedule", branch="main"), ("release", "main")) == ""


def test_run_unfit__branch_unknown():
    """Where the base branch's name is not known nothing can be of it."""
    assert "not known" in run_unfit(replace(GOOD, branch=""), ())


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (Standing(OTHER), "neither the merge-base nor an ancestor"),
        (Standing(UNKNOWN, None, "300 files changed"), "300 files changed"),
        (Standing(ANCESTOR, None, "no list"), "no list"),
        (Standing(UNKNOWN), "not known"),
        (Standing("nonsense", ()), "not known"),
        (Standing(ANCESTOR, ("a",)), "changed: a"),
        (Standing(ANCESTOR, ("a", "b", "c", "d", "e")), "changed: a, b, c and 2 more"),
    ],
)
def test_commit_unfit(standing, said):
    """What is known to differ, and what is not known, stands for nothing else."""
    assert said in commit_unfit(standing)


@pytest.mark.parametrize("standing", [Standing(SAME), Standing(ANCESTOR)])
def test_commit_unfit__fits(standing):
    """The commit itself, and an ancestor since which nothing that matters changed."""
    assert commit_unfit(standing) == ""


@given(
    event=st.sampled_from(["push", "schedule", "pull_request", "merge_group", ""]),
    branch=st.sampled_from(["main", "topic", ""]),
    conclusion=st.sampled_from(["success", "failure", "cancelled", ""]),
    sha=st.sampled_from([*STANDINGS, ""]),
    same=st.booleans(),
    unreadable=st.sampled_from(["", "no"]),
)
def test_weighed__takes_nothing_else(event, branch, conclusion, sha, same, unreadable):
    """Whatever GitHub says of a run, it is taken only with every one of the conditions."""
    origin = Origin(1, "run 1", event, branch, conclusion, sha, same, unreadable)
    found, reasons = chosen(origin)

    wanted = (
        event in ("push", "schedule")
        and (branch, conclusion, same, unreadable) == ("main", "success", True, "")
        and sha in (BASE, OLD)
    )
    assert bool(found) is wanted
    assert bool(reasons) is not wanted
