"""Publishing as a whole: what fails is a warning, and the rest is posted all the same."""

from __future__ import annotations

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import SHA, Fault
from unit.github.conftest import Clock, Connect
from unit.github.factory import MARK, NEWER, OLDER, check, comment, notes, target

from iqaction.github.publication import Mark, read_mark, stamped
from iqaction.github.publishing import Published, publish
from iqaction.surfaces._base import AppendSummary, Effect, SetOutput

EFFECTS: list[Effect] = [
    comment(),
    SetOutput("verdict", "FAIL"),
    AppendSummary("x"),
    check(),
    *notes(2),
]


def sent(fake: FakeGithub) -> list[str]:
    """What was created or changed, in order."""
    kinds = [e["path"].split("?")[0].rpartition("/serve/")[2] for e in fake.state.log]
    return [k for k, e in zip(kinds, fake.state.log, strict=True) if e["method"] != "GET"]


def test_publish(fake: FakeGithub, connect: Connect) -> None:
    """The check run comes first, then the comment; both say where they are."""
    published = publish(EFFECTS, target(), connect())

    assert published.published
    assert published.warnings == ()
    assert published.check_url.startswith("https://github.com/acme/serve/runs/")
    assert published.comment_url.startswith("https://github.com/acme/serve/pull/7#")
    assert sent(fake) == ["check-runs", "issues/7/comments"]
    assert len(next(iter(fake.state.annotations.values()))) == 2


def test_publish__again(fake: FakeGithub, connect: Connect) -> None:
    """Publishing the same again changes what is there and adds nothing."""
    first = publish(EFFECTS, target(), connect())
    again = publish(EFFECTS, target(), connect())

    assert first == again
    assert [len(fake.state.checks), len(fake.state.comments)] == [1, 1]
    assert [len(a) for a in fake.state.annotations.values()] == [2]


def test_publish__no_pull_request(fake: FakeGithub, connect: Connect) -> None:
    """Without a pull request there is nobody to tell, and nothing is missing."""
    on_push = type(target())("acme/serve", SHA, "inferquality / default", target().mark, numbers=())
    published = publish(EFFECTS, on_push, connect())

    assert published.published
    assert (published.comment_url, sent(fake)) == ("", ["check-runs"])


def test_publish__nothing(connect: Connect) -> None:
    """No effects, nothing missing."""
    assert publish([], target(), connect()) == Published()


def test_publish__read_only(connect: Connect, clock: Clock) -> None:
    """A fork's token posts nothing: two warnings that name the permissions, at once."""
    published = publish(EFFECTS, target(), connect("ghs_ro"))

    assert not published.published
    assert [published.check_url, published.comment_url] == ["", ""]
    assert "checks: write" in published.warnings[0]
    assert "pull-requests: write" in published.warnings[1]
    assert clock.waits == []


def test_publish__check_run_failed(fake: FakeGithub, connect: Connect) -> None:
    """Without the permission for check runs, the comment is posted all the same."""
    published = publish(EFFECTS, target(), connect("ghp_pat"))

    assert not published.published
    assert published.check_url == ""
    assert published.comment_url
    assert len(published.warnings) == 1


def test_publish__api_down(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """With the whole API down, publishing ends before its deadline, with warnings."""
    fake.state.faults = [Fault(status=500, times=999)]
    published = publish(EFFECTS, target(), connect())

    assert not published.published
    assert clock.now < 120
    assert len(published.warnings) >= 2


def test_publish__slow_limits_end_at_the_deadline(
    fake: FakeGithub, connect: Connect, clock: Clock
) -> None:
    """Limits that go on and on are waited for within the deadline, and no longer."""
    fake.state.faults = [Fault(status=429, headers={"Retry-After": "50"}, times=999)]
    published = publish(EFFECTS, target(), connect())

    assert not published.published
    assert clock.now <= 120


@pytest.mark.parametrize("status", [500, 403])
def test_publish__comment_failed(fake: FakeGithub, connect: Connect, status: int) -> None:
    """Without the comment, the check run is posted all the same."""
    fake.state.faults = [Fault("POST", "comments", status=status, times=99)]
    published = publish(EFFECTS, target(), connect())

    assert not published.published
    assert published.check_url
    assert published.comment_url == ""


def test_publish__older_run(fake: FakeGithub, connect: Connect) -> None:
    """An older run that leaves a newer one's results alone has published what there was to."""
    fake.state.add_comment(stamped(comment().body, NEWER))
    published = publish(EFFECTS, target(OLDER), connect())

    assert published.published
    assert published.warnings == ("the comment of a newer run or commit stays",)


def test_publish__secondary_limit(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """A secondary limit is waited out, and all is posted."""
    body = {"message": "You have exceeded a secondary rate limit."}
    fake.state.faults = [Fault("POST", status=403, headers={"Retry-After": "20"}, body=body)]
    published = publish(EFFECTS, target(), connect())

    assert published.published
    assert clock.waits == [20]


def test_publish__measured_at_a_desk(fake: FakeGithub, connect: Connect) -> None:
    """A report of no run is posted too, once even where an answer is lost, and never over a
    run's result."""
    fake.state.faults = [Fault("POST", "comments", after=True, drop=True)]
    desk = target(Mark(0, 0, SHA, ""))
    published = publish(EFFECTS, desk, connect())
    (made,) = fake.state.checks.values()

    assert published.published
    assert [len(fake.state.comments), made["external_id"], made["conclusion"]] == [1, "", "failure"]

    publish(EFFECTS, target(), connect())
    after = publish(EFFECTS, desk, connect())

    assert "newer" in " ".join(after.warnings)
    assert [read_mark(c["body"]) for c in fake.state.comments.values()] == [MARK]
