"""The client: it waits as GitHub wants, ends before its deadline, and never shows its token."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import requests
import responses
from fake_github.fake import FakeGithub
from fake_github.state import SHA, Fault
from unit.github.conftest import Clock, Connect

from iqaction.errors import GithubError
from iqaction.github.client import Client, open_session
from iqaction.json_value import JSON

PULL = "/repos/acme/serve/pulls/7"
COMMENTS = "/repos/acme/serve/issues/7/comments"
API = "https://api.github.com"
CANARY = "ghs_canary0123456789"
SECONDARY = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}
DATE = "Mon, 30 Nov 2026 12:00:00 GMT"


def nothing() -> JSON:
    return None


def at(clock: Clock, token: str = CANARY, deadline_s: float = 120.0, api: str = API) -> Client:
    session = open_session()
    return Client(
        api, token, session=session, clock=clock, sleep=clock.sleep, deadline_s=deadline_s
    )


def refused(client: Client, path: str = PULL) -> GithubError:
    with pytest.raises(GithubError) as caught:
        client.get(path, doing="read the pull request")
    return caught.value


def test_get(connect: Connect) -> None:
    """An answer comes as JSON."""
    found = connect().get(PULL, doing="read the pull request")

    assert isinstance(found, dict)
    assert found["number"] == 7


def test_get__failures_then_an_answer(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """A server that fails for a while is asked again, after growing waits."""
    fake.state.faults = [
        Fault(status=500),
        Fault(status=502, body="<html>"),
        Fault(status=503),
        Fault(drop=True),
    ]
    connect().get(PULL, doing="read the pull request")

    assert clock.waits == [1, 2, 4, 8]


def test_get__failures_to_the_last_try(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """A server that goes on failing is given up, and the error says what was wanted of it."""
    fake.state.faults = [Fault(status=500, times=99, body={"message": "boom"})]
    error = refused(connect())

    assert error.status == 500
    assert error.happened == "GitHub failed to read the pull request (500): boom"
    assert "iqaction publish" in error.next_step
    assert sum(clock.waits) == 31


def test_get__failures_to_the_deadline(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """The deadline bounds all tries together, and no wait is begun that would pass it."""
    fake.state.faults = [Fault(status=500, times=99)]
    client = connect(deadline_s=10)
    error = refused(client)

    assert "too late" in error.happened
    assert clock.now == 7

    clock.now = 11

    assert "no time was left" in refused(client).happened


@pytest.mark.parametrize(
    ("status", "headers", "body", "waits"),
    [
        (403, {"Retry-After": "17"}, SECONDARY, [17]),
        (429, {"Retry-After": "0"}, SECONDARY, [1]),
        (403, {"Retry-After": "Mon, 30 Nov 2026 12:00:23 GMT", "Date": DATE}, SECONDARY, [23]),
        (403, {"Retry-After": "soon"}, SECONDARY, [60]),
        (403, {}, SECONDARY, [60]),
        (429, {}, {"message": "slow down"}, [60]),
        (
            403,
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1796040030", "Date": DATE},
            {"message": "API rate limit exceeded"},
            [31],
        ),
        (503, {"Retry-After": "9"}, {}, [9]),
    ],
)
def test_limits(
    clock: Clock, status: int, headers: dict[str, str], body: JSON, waits: list[float]
) -> None:
    """A limit is waited out as GitHub says: in seconds, until a date, until the reset, or a
    minute where it does not say."""
    with responses.RequestsMock() as rsps:
        rsps.get(API + PULL, status=status, headers=headers, json=body)
        rsps.get(API + PULL, json={})
        at(clock).get(PULL, doing="read the pull request")

    assert clock.waits == waits


def test_limits__longer_than_the_deadline(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """A limit that outlasts the deadline is not waited for; the status tells it from a refusal."""
    fake.state.faults = [Fault(status=403, headers={"Retry-After": "3600"}, body=SECONDARY)]
    error = refused(connect())

    assert error.status == 429
    assert "another try in 3600 s would come too late" in error.happened
    assert clock.waits == []


def test_limits__grow(fake: FakeGithub, connect: Connect, clock: Clock) -> None:
    """Without any word from GitHub, the second wait is twice the first."""
    fake.state.faults = [Fault(status=403, times=9, body=SECONDARY)]
    refused(connect(deadline_s=250))

    assert clock.waits == [60, 120]


@pytest.mark.parametrize(
    ("token", "path", "said", "advised"),
    [
        ("ghs_ro", COMMENTS, "Resource not accessible by integration", "pull-requests: write"),
        ("ghp_pat", "/repos/acme/serve/check-runs", "GitHub App", "personal access token"),
        ("ghs_bad", COMMENTS, "Bad credentials", "token that is valid"),
    ],
)
def test_post__refused(
    connect: Connect, clock: Clock, token: str, path: str, said: str, advised: str
) -> None:
    """A refusal is not tried again, and says which permission is lacking."""
    body: JSON = {"body": "x"} if path == COMMENTS else {"name": "n", "head_sha": SHA}
    with pytest.raises(GithubError) as caught:
        connect(token).post(path, body, doing="post", look=nothing)

    assert said in caught.value.happened
    assert advised in str(caught.value)
    assert clock.waits == []


@pytest.mark.parametrize("drop", [True, False])
def test_post__lost_answer(fake: FakeGithub, connect: Connect, drop: bool) -> None:
    """Where a creation was obeyed and its answer lost, nothing is created twice."""
    fake.state.faults = [Fault("POST", after=True, drop=drop, status=502)]

    def look() -> JSON:
        return next(iter(fake.state.comments.values()), None)

    found = connect().post(COMMENTS, {"body": "x"}, doing="comment", look=look)

    assert isinstance(found, dict)
    assert found["body"] == "x"
    assert len(fake.state.comments) == 1


def test_post__lost_before_it_was_obeyed(fake: FakeGithub, connect: Connect) -> None:
    """Where nothing was created, it is asked for again."""
    fake.state.faults = [Fault("POST", drop=True)]
    connect().post(COMMENTS, {"body": "x"}, doing="comment", look=nothing)

    assert len(fake.state.comments) == 1


def test_pages__all_of_them(fake: FakeGithub, connect: Connect) -> None:
    """All pages are walked, in order."""
    for i in range(250):
        fake.state.add_comment(f"{i}")
    found = list(connect().pages(COMMENTS, doing="list the comments"))

    assert [c["body"] for c in found if isinstance(c, dict)] == [f"{i}" for i in range(250)]
    assert len(fake.state.log) == 3


def test_pages__a_part_is_not_the_whole(fake: FakeGithub, connect: Connect) -> None:
    """More pages than are walked is an error, not a shorter list."""
    for i in range(101):
        fake.state.add_comment(f"{i}")

    with pytest.raises(GithubError, match="more than 1 pages"):
        list(connect().pages(COMMENTS, doing="list the comments", most=1))


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.example/repos/acme/serve/issues/7/comments?page=2",
        "http://api.github.com/repos/acme/serve/issues/7/comments?page=2",
        "https://api.github.com:444/x",
        "https://api.github.com@evil.example/x",
    ],
)
def test_pages__the_token_stays_at_its_host(clock: Clock, link: str) -> None:
    """A next page at another host, scheme or port is not asked for."""
    with responses.RequestsMock() as rsps:
        rsps.get(API + COMMENTS, json=[], headers={"Link": f'<{link}>; rel="next"'})
        with pytest.raises(GithubError, match="another host"):
            list(at(clock).pages(COMMENTS, doing="list the comments"))

        assert len(rsps.calls) == 1


def test_pages__no_list(clock: Clock) -> None:
    """An answer that is no list is an error, not an empty list."""
    with responses.RequestsMock() as rsps:
        rsps.get(API + COMMENTS, json={"message": "hello"})

        with pytest.raises(GithubError, match="no list"):
            list(at(clock).pages(COMMENTS, doing="list the comments"))


@pytest.mark.parametrize("session", [open_session, requests.Session])
def test_redirects__not_with_the_token(
    clock: Clock, session: Callable[[], requests.Session]
) -> None:
    """A redirect is an error that says so: a renamed repository, or somebody's trick."""
    with responses.RequestsMock() as rsps:
        rsps.get(API + PULL, status=301, headers={"Location": "https://evil.example/"})
        client = Client(API, CANARY, session=session(), clock=clock, sleep=clock.sleep)
        error = refused(client)

        assert len(rsps.calls) == 1
    assert "renamed" in error.next_step


def test_download__without_the_token(clock: Clock, tmp_path: Any, monkeypatch: Any) -> None:
    """The one redirect of a download is followed bare, whatever ~/.netrc has for that host."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login eve password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with responses.RequestsMock() as rsps:
        place = "https://blobs.example/a?sig=x%2By"
        rsps.get(API + PULL, status=302, headers={"Location": place})
        rsps.get(place, body=b"zip")
        data = at(clock).download(PULL, doing="download", most=10)
        sent = [c.request.headers.get("Authorization") for c in rsps.calls]

    assert data == b"zip"
    assert sent == [f"Bearer {CANARY}", None]


@pytest.mark.parametrize("place", ["http://blobs.example/a", "file:///etc/passwd", "", "ftp://x/"])
def test_download__nowhere_else(clock: Clock, place: str) -> None:
    """A redirect to what is no https is not followed."""
    with responses.RequestsMock() as rsps:
        rsps.get(API + PULL, status=302, headers={"Location": place} if place else {})
        with pytest.raises(GithubError):
            at(clock).download(PULL, doing="download", most=10)

        assert len(rsps.calls) == 1


def test_download__bounded(clock: Clock) -> None:
    """More bytes than asked for are not read on."""
    with responses.RequestsMock() as rsps:
        rsps.get(API + PULL, body=b"x" * 200_000)

        with pytest.raises(GithubError, match="more than 10 bytes"):
            at(clock).download(PULL, doing="download", most=10)


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000, b"\xff\xfe"])
def test_get__no_json(clock: Clock, body: bytes) -> None:
    """An answer that is no JSON is an error of one sentence."""
    with responses.RequestsMock() as rsps:
        rsps.get(API + PULL, body=body)

        assert "no JSON" in str(refused(at(clock)))


def test_get__hostile_message(clock: Clock) -> None:
    """What GitHub says is bounded, on one line, and without anything that a log would obey."""
    said = "\x1b[31m::error::x\n##[group]\u202e" + "y" * 10_000
    with responses.RequestsMock() as rsps:
        rsps.get(API + PULL, status=404, json={"message": said})
        error = refused(at(clock))

    assert "\x1b" not in str(error)
    assert "\u202e" not in str(error)
    assert "##[" not in str(error)
    assert len(error.happened) < 500


@pytest.mark.parametrize("status", [200, 301, 401, 403, 404, 422, 500])
def test_token__is_shown_nowhere(
    clock: Clock, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """Not in errors, not in what they carry, not in logs, not in a repr, even where the server
    repeats it."""
    caplog.set_level(logging.DEBUG)
    client = at(clock)
    with responses.RequestsMock(assert_all_requests_are_fired=False) as rsps:
        body = {"message": f"bad {CANARY}", "errors": [{"message": f"x {CANARY}"}]}
        if status != 200:
            rsps.get(API + PULL, status=status, json=body)
        error = refused(client)  # with 200: no answer at all, an exception of requests
    shown = "".join(traceback.format_exception(error)) + repr(error.__dict__)
    shown += repr(client) + caplog.text

    assert CANARY not in shown
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize("token", ["", "a b", "x\n", "é", "x" * 5000])
def test_token__unusable(clock: Clock, token: str) -> None:
    """A token that cannot be sent is refused before anything is."""
    with pytest.raises(GithubError, match="token"):
        at(clock, token)


@pytest.mark.parametrize("api", ["", "http://api.github.com", "https://u:p@h", "file:///x"])
def test_address__unusable(clock: Clock, api: str) -> None:
    """A token is not sent in the clear, or to what is no address."""
    with pytest.raises(GithubError, match="address"):
        at(clock, api=api)


def test_graphql__refused(connect: Connect) -> None:
    """GraphQL refuses with a status of 200; that is an error all the same."""
    with pytest.raises(GithubError, match="GitHub refused to hide it: no"):
        connect().graphql("mutation { minimizeComment }", {"id": "nobody"}, doing="hide it")
