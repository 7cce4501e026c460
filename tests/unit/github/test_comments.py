"""The sticky comment: one per suite, replaced, and never a person's or a newer run's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import SHA, Fault
from unit.github.conftest import Connect
from unit.github.factory import (
    MARK,
    MARKER,
    NEWER,
    OLDER,
    OTHER_MARKER,
    at_head,
    comment,
    target,
)

from iqaction.errors import GithubError
from iqaction.github import comments
from iqaction.github.client import Client
from iqaction.github.publication import Mark, Posted, Target, read_mark, stamped

OTHER_SHA = "d" * 40


def upsert(client: Client, to: Target | None = None, text: str = "the figures") -> Posted:
    return comments.upsert(client, to or target(), 7, comment(text))


def posted_by(fake: FakeGithub, mark: Mark, **more: Any) -> dict[str, Any]:
    """The suite's comment as that run left it."""
    return fake.state.add_comment(stamped(comment("earlier").body, mark), **more)


def bodies(fake: FakeGithub) -> list[str]:
    return [c["body"] for c in fake.state.comments.values()]


def test_upsert__made_then_replaced(fake: FakeGithub, connect: Connect) -> None:
    """The first run makes a comment, and every later one replaces it."""
    first = upsert(connect())
    again = upsert(connect(), target(NEWER), "other figures")

    assert first.url == again.url
    (body,) = bodies(fake)
    assert "other figures" in body
    assert body.startswith(f"{MARKER}\n")
    assert read_mark(body) == NEWER


def test_upsert__after_150_others(fake: FakeGithub, connect: Connect) -> None:
    """Ours is found on whatever page it is."""
    for i in range(150):
        fake.state.add_comment(f"comment {i}", login="alice", kind="User")
    posted_by(fake, OLDER)
    upsert(connect())

    assert len(fake.state.comments) == 151
    assert read_mark(bodies(fake)[-1]) == MARK


def test_upsert__two_suites(fake: FakeGithub, connect: Connect) -> None:
    """Each suite has a comment of its own."""
    for marker in (MARKER, OTHER_MARKER, MARKER, OTHER_MARKER):
        comments.upsert(connect(), target(), 7, comment(marker=marker))

    assert [b.split("\n")[0] for b in bodies(fake)] == [MARKER, OTHER_MARKER]


@pytest.mark.parametrize(
    ("login", "kind"), [("alice", "User"), ("acme", "Organization"), ("github-actions[bot]", "")]
)
def test_upsert__a_persons_words_stay(
    fake: FakeGithub, connect: Connect, login: str, kind: str
) -> None:
    """A comment that no bot wrote is not touched, although it holds our marker and state."""
    hers = posted_by(fake, OLDER, login=login, kind="User")
    before = hers["body"]
    if kind != "User":
        hers["user"]["type"] = kind
    upsert(connect())

    assert bodies(fake)[0] == before
    assert len(fake.state.comments) == 2
    assert fake.state.minimized == []


def test_upsert__another_bots(fake: FakeGithub, connect: Connect) -> None:
    """A bot's comment that we may not change is replaced by one of ours, and folded away."""
    theirs = posted_by(fake, OLDER, login="old-app[bot]")
    fake.state.faults = [Fault("PATCH", status=403)]
    posted = upsert(connect())

    assert len(fake.state.comments) == 2
    assert posted.url.endswith(f"#issuecomment-{max(fake.state.comments)}")
    assert fake.state.minimized == [theirs["node_id"]]


def test_upsert__another_bots_cannot_be_folded(fake: FakeGithub, connect: Connect) -> None:
    """That the old one cannot be folded away is a note, not a failure."""
    posted_by(fake, OLDER, login="old-app[bot]")
    fake.state.faults = [Fault("PATCH", status=403), Fault(path_re="graphql", status=403)]
    posted = upsert(connect())

    assert len(fake.state.comments) == 2
    assert "an older comment stays" in posted.notes[0]


def test_upsert__ours_before_another_bots(fake: FakeGithub, connect: Connect) -> None:
    """Where several bots have one, the job's own token's is tried first."""
    posted_by(fake, OLDER)
    theirs = posted_by(fake, OLDER, login="other[bot]", app="other")["body"]
    upsert(connect())

    assert read_mark(bodies(fake)[0]) == MARK
    assert bodies(fake)[1] == theirs


def test_upsert__deleted_meanwhile(fake: FakeGithub, connect: Connect) -> None:
    """A comment that is gone when it is to be changed is made anew; there is nothing to fold."""
    posted_by(fake, OLDER)
    fake.state.faults = [Fault("PATCH", status=404)]
    posted = upsert(connect())

    assert posted.notes == ()
    assert read_mark(bodies(fake)[-1]) == MARK
    assert fake.state.minimized == []


def test_upsert__older_run(fake: FakeGithub, connect: Connect) -> None:
    """An older run leaves the newer one's comment as it is, and says so."""
    newer = posted_by(fake, NEWER)
    before = newer["body"]
    posted = upsert(connect(), target(OLDER))

    assert bodies(fake) == [before]
    assert posted == Posted(newer["html_url"], ("the comment of a newer run or commit stays",))


def test_upsert__superseded_commit(fake: FakeGithub, connect: Connect) -> None:
    """A newer run of a commit that the pull request has left does not replace the comment of
    the present one."""
    posted_by(fake, at_head(OLDER, SHA))
    upsert(connect(), target(at_head(NEWER, OTHER_SHA)))

    assert [read_mark(b) for b in bodies(fake)] == [OLDER]


def test_upsert__present_commit(fake: FakeGithub, connect: Connect) -> None:
    """The present commit's result replaces one of another commit, whoever started later: a
    branch may be set back."""
    posted_by(fake, at_head(NEWER, OTHER_SHA))
    upsert(connect(), target(OLDER))

    assert [read_mark(b) for b in bodies(fake)] == [OLDER]


def test_upsert__present_commit_not_known(fake: FakeGithub, connect: Connect) -> None:
    """Where the pull request cannot be read, the runs' order decides."""
    posted_by(fake, NEWER)
    fake.state.faults = [Fault("GET", r"pulls/7$", status=403)]
    upsert(connect(), target(OLDER))

    assert [read_mark(b) for b in bodies(fake)] == [NEWER]


@pytest.mark.parametrize("there", [True, False])
def test_upsert__too_long(fake: FakeGithub, connect: Connect, there: bool) -> None:
    """A comment that GitHub refuses as too long is posted with the verdict alone, not left out."""
    if there:
        posted_by(fake, OLDER)
    posted = upsert(connect(), text="x" * 70_000)
    (body,) = bodies(fake)

    assert "### FAIL: it differs" in body
    assert read_mark(body) == MARK
    assert "posted shorter" in posted.notes[0]


@pytest.mark.parametrize(("after", "drop"), [(True, True), (True, False), (False, True)])
def test_upsert__lost_answer(fake: FakeGithub, connect: Connect, after: bool, drop: bool) -> None:
    """A comment whose creation was obeyed and whose answer was lost is not made twice."""
    fake.state.faults = [Fault("POST", after=after, drop=drop, status=502)]
    posted = upsert(connect())

    assert len(fake.state.comments) == 1
    assert posted.url.startswith("https://github.com/acme/serve/pull/7#issuecomment-")


def test_upsert__lost_answer_beside_a_persons_copy(fake: FakeGithub, connect: Connect) -> None:
    """A person's copy of the comment is not taken for the one whose answer was lost."""
    posted_by(fake, MARK, login="alice", kind="User")
    fake.state.faults = [Fault("POST", drop=True)]
    upsert(connect())

    assert len(fake.state.comments) == 2


def test_upsert__read_only(connect: Connect) -> None:
    """A token that only reads is an error that names the permission."""
    with pytest.raises(GithubError) as caught:
        upsert(connect("ghs_ro"))

    assert caught.value.status == 403
    assert "pull-requests: write" in caught.value.expected


def test_upsert__list_failed(fake: FakeGithub, connect: Connect) -> None:
    """Without knowing what is there, no second comment is made."""
    fake.state.faults = [Fault("GET", "comments", status=500, times=99)]

    with pytest.raises(GithubError, match="list the comments"):
        upsert(connect())
    assert fake.state.comments == {}


def test_upsert__limit_is_no_refusal(fake: FakeGithub, connect: Connect) -> None:
    """A rate limit on changing ours does not lead to a second comment."""
    posted_by(fake, OLDER)
    fake.state.faults = [Fault("PATCH", status=403, headers={"Retry-After": "900"})]

    with pytest.raises(GithubError) as caught:
        upsert(connect())
    assert caught.value.status == 429
    assert len(fake.state.comments) == 1


@pytest.mark.parametrize("there", [False, True])
def test_upsert__only_if_present(fake: FakeGithub, connect: Connect, there: bool) -> None:
    """Nothing to measure: what an earlier commit left is replaced, and nothing is made anew."""
    if there:
        posted_by(fake, OLDER)
    effect = replace(comment("not needed"), only_if_present=True)

    posted = comments.upsert(connect(), target(), 7, effect)

    assert [("not needed" in b) for b in bodies(fake)] == ([True] if there else [])
    assert bool(posted.url) is there
