"""The check run: one per run, completed truthfully, and never over a newer one."""

from __future__ import annotations

from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import SHA, Fault
from unit.github.conftest import Clock, Connect
from unit.github.factory import CHECK, MARK, NEWER, OLDER, check, notes, target

from iqaction.errors import GithubError
from iqaction.github import checks
from iqaction.github.publication import Mark
from iqaction.verdict import Verdict


def stored(fake: FakeGithub) -> list[tuple[str, str, str | None]]:
    """(external id, status, conclusion) of every check run."""
    found = fake.state.checks.values()
    return [(c["external_id"], c["status"], c["conclusion"]) for c in found]


def earlier(fake: FakeGithub, mark: Mark = OLDER, **more: Any) -> int:
    """A check run of another run, by default still in progress."""
    given = {
        "name": CHECK,
        "head_sha": SHA,
        "status": "in_progress",
        "external_id": mark.external_id,
        "started_at": mark.started_at or OLDER.started_at,
    }
    number: int = fake.state.add_check(**{**given, **more})["id"]
    return number


def test_begin_and_complete(fake: FakeGithub, connect: Connect) -> None:
    """A check run is in progress from the start, and the result is posted on that same one."""
    begun = checks.begin(connect(), target())

    assert stored(fake) == [("50.1", "in_progress", None)]

    posted = checks.complete(connect(), target(gate=Verdict.PASS), check(), notes(2))

    assert stored(fake) == [("50.1", "completed", "success")]
    assert posted.url == begun.url == f"https://github.com/acme/serve/runs/{begun.check_id}"
    assert posted.notes == ()
    made = fake.state.checks[begun.check_id]
    assert made["head_sha"] == SHA
    assert made["started_at"] == MARK.started_at
    assert made["details_url"].endswith("/actions/runs/50")
    assert made["output"]["title"] == "FAIL: it differs"


@pytest.mark.parametrize(
    ("gate", "warn", "conclusion"),
    [
        (Verdict.FAIL, True, "failure"),
        (Verdict.UNPROVEN, False, "failure"),
        (Verdict.UNPROVEN, True, "neutral"),
        (Verdict.NOT_RUN, True, "failure"),
    ],
)
def test_complete__never_begun(
    fake: FakeGithub, connect: Connect, gate: Verdict, warn: bool, conclusion: str
) -> None:
    """Without a check run in progress the result gets a new one; what is not proven is red."""
    checks.complete(connect(), target(gate=gate, warn=warn), check())

    assert stored(fake) == [("50.1", "completed", conclusion)]


@pytest.mark.parametrize("count", [0, 1, 50, 51, 120])
def test_complete__annotations(fake: FakeGithub, connect: Connect, count: int) -> None:
    """All annotations arrive once, 50 in a request, also when the result is posted again."""
    for _ in range(2):
        posted = checks.complete(connect(), target(), check(), notes(count))
    (found,) = fake.state.annotations.values()

    assert [n["message"] for n in found] == [f"line {i}" for i in range(count)]
    assert posted.notes == ()


def test_complete__annotations_after_a_lost_answer(fake: FakeGithub, connect: Connect) -> None:
    """A lost answer does not double annotations."""
    checks.begin(connect(), target())
    fake.state.faults = [Fault("PATCH", after=True, drop=True, times=2)]
    checks.complete(connect(), target(), check(), notes(75))
    (found,) = fake.state.annotations.values()

    assert len(found) == 75


def test_complete__annotations_refused(fake: FakeGithub, connect: Connect) -> None:
    """Where GitHub refuses further annotations, the result stays and a note says so."""
    checks.begin(connect(), target())
    fake.state.faults = [Fault("PATCH", skip=1, status=422)]
    posted = checks.complete(connect(), target(), check(), notes(75))

    assert stored(fake) == [("50.1", "completed", "failure")]
    assert "25 annotations are missing" in posted.notes[0]


@pytest.mark.parametrize("times", [1, 2])
def test_complete__refused_as_it_was(fake: FakeGithub, connect: Connect, times: int) -> None:
    """What GitHub refuses is posted with less in it: the conclusion arrives in any case."""
    checks.begin(connect(), target())
    fake.state.faults = [Fault("PATCH", status=422, times=times)]
    posted = checks.complete(connect(), target(), check(), notes(60))
    (made,) = fake.state.checks.values()

    assert made["conclusion"] == "failure"
    assert (made["output"]["summary"] == "the figures") is (times == 1)
    assert "posted shorter" in posted.notes[0]


def test_complete__too_long(fake: FakeGithub, connect: Connect) -> None:
    """A summary over GitHub's limit in bytes is cut before it is sent."""
    posted = checks.complete(connect(), target(), check("é" * 70_000, "é" * 70_000))

    assert stored(fake) == [("50.1", "completed", "failure")]
    assert posted.notes == ()


@pytest.mark.parametrize(("after", "drop"), [(True, True), (True, False), (False, True)])
def test_complete__lost_creation(
    fake: FakeGithub, connect: Connect, after: bool, drop: bool
) -> None:
    """A creation whose answer was lost is not repeated where it was obeyed, and is where not."""
    fake.state.faults = [Fault("POST", after=after, drop=drop, status=502)]
    checks.complete(connect(), target(), check())

    assert stored(fake) == [("50.1", "completed", "failure")]


def test_begin__lost_creation(fake: FakeGithub, connect: Connect) -> None:
    """Nor is the one in progress made twice."""
    fake.state.faults = [Fault("POST", after=True, drop=True)]
    begun = checks.begin(connect(), target())

    assert stored(fake) == [("50.1", "in_progress", None)]
    assert begun.check_id in fake.state.checks


def test_complete__newer_result_stays(fake: FakeGithub, connect: Connect) -> None:
    """A run that finishes after a newer one of the same commit closes its own check run without
    a verdict, dated back, and makes no new one."""
    checks.begin(connect(), target())
    earlier(fake, NEWER, conclusion="failure")
    posted = checks.complete(connect(), target(gate=Verdict.PASS), check())

    assert stored(fake) == [("50.1", "completed", "cancelled"), ("60.1", "completed", "failure")]
    assert next(iter(fake.state.checks.values()))["completed_at"] == MARK.started_at
    assert "newer run" in posted.notes[0]


def test_complete__newer_result_stays_alone(fake: FakeGithub, connect: Connect) -> None:
    """Without a check run of its own, an older run posts none."""
    earlier(fake, NEWER, conclusion="failure")
    checks.complete(connect(), target(gate=Verdict.PASS), check())

    assert stored(fake) == [("60.1", "completed", "failure")]


def test_complete__older_and_cancelled_results_do_not_matter(
    fake: FakeGithub, connect: Connect
) -> None:
    """What is older, was cancelled or is nobody's result keeps nothing from being posted."""
    earlier(fake, OLDER, conclusion="success")
    earlier(fake, NEWER, conclusion="cancelled")
    earlier(fake, NEWER)
    earlier(fake, external_id="somebody else's", conclusion="success")
    checks.complete(connect(), target(), check())

    assert stored(fake)[-1] == ("50.1", "completed", "failure")


def test_complete__another_identity(fake: FakeGithub, connect: Connect) -> None:
    """A check run that another token made cannot be changed: a new one is made."""
    checks.begin(connect(), target())
    fake.state.faults = [Fault("PATCH", status=403)]
    checks.complete(connect(), target(), check())

    assert stored(fake)[-1] == ("50.1", "completed", "failure")


def test_complete__listing_failed(fake: FakeGithub, connect: Connect) -> None:
    """Not knowing what is there does not keep the result from being posted, and is told."""
    fake.state.faults = [Fault("GET", status=403)]
    posted = checks.complete(connect(), target(), check())

    assert stored(fake) == [("50.1", "completed", "failure")]
    assert "not known" in posted.notes[0]


@pytest.mark.parametrize("token", ["ghs_ro", "ghp_pat"])
def test_complete__forbidden(connect: Connect, token: str) -> None:
    """A token that may not is an error that names the permission or the kind of token."""
    with pytest.raises(GithubError) as caught:
        checks.complete(connect(token), target(), check())

    assert caught.value.status == 403


def test_begin__sweeps_orphans(fake: FakeGithub, connect: Connect) -> None:
    """What an earlier attempt and an ended run left in progress is closed; what may still be
    running, is not ours or belongs to another suite stays."""
    fake.state.runs = {40: {"status": "completed"}, 41: {"status": "in_progress"}}
    ours = Mark(50, 2, SHA, "2026-11-30T14:00:00Z")
    swept = [earlier(fake, MARK), earlier(fake, OLDER)]
    kept = [
        earlier(fake, Mark(41, 1, SHA)),
        earlier(fake, Mark(42, 1, SHA)),  # a run that GitHub does not know
        earlier(fake, external_id="x"),
        earlier(fake, app={"id": 1, "slug": "other"}),
        earlier(fake, name="inferquality / other"),
        earlier(fake, head_sha="d" * 40),
    ]
    begun = checks.begin(connect(), target(ours))
    status = {number: c["status"] for number, c in fake.state.checks.items()}

    assert {status[n] for n in swept} == {"completed"}
    assert {fake.state.checks[n]["conclusion"] for n in swept} == {"cancelled"}
    assert {status[n] for n in [*kept, begun.check_id]} == {"in_progress"}


def test_begin__sweeping_failed(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """That nothing could be swept does not matter to the check run that was begun."""
    fake.state.faults = [Fault("GET", status=500, times=99)]

    assert checks.begin(connect(), target()).check_id in fake.state.checks
