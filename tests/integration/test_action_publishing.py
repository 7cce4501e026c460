"""The action under act against a GitHub that refuses, limits, fails or pages: the verdict's exit
status stays, there is one comment for each suite, and what was not posted is said.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from fake_github.fake import FakeGithub
from fake_github.state import Fault
from integration.acting import JUDGE, Done, Scene, Staged, checks, comment, comments, job
from integration.stand_in import StandIn

from iqaction import session
from iqaction.surfaces import _state

# With the other scenarios these would not fit into the half hour of `.ci/run`.
pytestmark = [pytest.mark.timeout(900), pytest.mark.full]

NAME = "inferquality / real"
NOBODY = "http://127.0.0.1:9"
ALWAYS = 1_000_000
MARKER = _state.marker("acme/serve", "real")
OLD = f'{MARKER}\n\n### PASS\n\n<!-- {{"run_id":"3","attempt":1}} -->\n'
LATER = {"Retry-After": "600"}  # beyond the deadline: the client need not be waited for


def measured(pr: Scene, **more: object) -> Done:
    """A run whose verdict is UNPROVEN."""
    return pr.run(job(endpoint=NOBODY, **JUDGE), **more)


def mistaken(pr: Scene, **more: object) -> Done:
    """A run that is sooner there: one of its inputs is a mistake."""
    return pr.run(job(endpoint=NOBODY, dialect="x", suite="real", **JUDGE), **more)


def holds(done: Done, status: int, verdict: str, *, published: bool) -> None:
    """Asserts the exit status, and whether all was posted."""
    assert (done.exit_code, done.verdict) == (status, verdict), done.log
    assert done.outputs()["published"] == str(published).lower()


# --- GitHub does not do it ------------------------------------------------------------------


def test_down(staged: Staged, github: FakeGithub, candidate: StandIn) -> None:
    """GitHub fails at everything: the verdict's exit status all the same, with whole evidence."""
    github.state.faults.append(Fault(times=ALWAYS, headers=LATER))
    done = staged().run(job(endpoint=candidate.url, paths="docs/**", **JUDGE))

    holds(done, 2, "UNPROVEN", published=False)
    assert comments(github) == []
    assert github.state.checks == {}
    assert any("GitHub failed to" in said for said in done.obeyed("warning"))
    evidence = done.artifacts / "inferquality-real-1"
    assert session.verify(evidence).problems == ()


@pytest.mark.full
def test_down__patiently(staged: Staged, github: FakeGithub) -> None:
    """An outage without a word on how long is waited for twice, two minutes at most each."""
    github.state.faults.append(Fault(times=ALWAYS))
    begun = time.monotonic()
    done = measured(staged())

    holds(done, 3, "NOT RUN", published=False)
    assert time.monotonic() - begun < 2 * 120 + 30


def test_down__while_publishing(staged: Staged, github: FakeGithub) -> None:
    """The check run works and the comment does not: the one is there, the other is said."""
    github.state.faults.append(Fault("", "/issues/", ALWAYS, headers=LATER))
    done = mistaken(staged())

    holds(done, 4, "NOT RUN", published=False)
    assert checks(github)[NAME][0] == "failure"
    assert done.outputs()["check_url"]
    assert not done.outputs()["comment_url"]


def test_read_only(staged: Staged, github: FakeGithub) -> None:
    """A token that only reads: a warning names the permissions that lack."""
    done = measured(staged(), token="ghs_ro")

    holds(done, 3, "NOT RUN", published=False)
    said = "\n".join(done.obeyed("warning"))
    assert "checks: write" in said
    assert "pull-requests: write" in said
    assert comments(github) == []


def test_no_token(staged: Staged, github: FakeGithub) -> None:
    """Without a token nothing is asked and nothing posted, and that is said."""
    done = staged().run(job(endpoint=NOBODY, github_token="", **JUDGE))

    holds(done, 3, "NOT RUN", published=False)
    assert github.state.log == []
    assert any("there is no token for GitHub" in said for said in done.obeyed("warning"))


def test_too_long(staged: Staged, github: FakeGithub) -> None:
    """A comment that GitHub refuses as too long is posted shorter, with verdict and link."""
    said = {"message": "Validation Failed", "errors": ["Body is too long"]}
    github.state.faults.append(Fault("POST", "/issues/7/comments", status=422, body=said))
    done = mistaken(staged())

    holds(done, 4, "NOT RUN", published=True)
    assert "### NOT RUN" in comment(github)
    assert "GitHub refused the whole comment" in comment(github)
    assert "actions/runs/17" in comment(github)
    assert any("posted shorter" in x for x in done.obeyed("warning"))


def test_secondary_limit(staged: Staged, github: FakeGithub) -> None:
    """A secondary rate limit is waited for, as long as GitHub says, and nothing is doubled."""
    said = {"message": "You have exceeded a secondary rate limit."}
    for path in ("/check-runs$", "/issues/7/comments$"):
        github.state.faults.append(
            Fault("POST", path, status=403, headers={"Retry-After": "1"}, body=said)
        )
    done = measured(staged())

    holds(done, 3, "NOT RUN", published=True)
    assert comment(github)
    assert list(checks(github)) == [NAME]


def test_lost_answers(staged: Staged, github: FakeGithub) -> None:
    """What was made although its answer was lost is found, and not made twice."""
    for path in ("/check-runs$", "/issues/7/comments$"):
        github.state.faults.append(Fault("POST", path, drop=True, after=True))
    done = measured(staged())

    holds(done, 3, "NOT RUN", published=True)
    assert comment(github)
    assert list(checks(github)) == [NAME]


# --- the one comment ------------------------------------------------------------------------


def test_again(staged: Staged, github: FakeGithub) -> None:
    """A second attempt edits the one comment and completes a check of its own; the comment says
    which attempt it is of."""
    pr = staged()
    measured(pr)
    [before] = github.state.comments
    done = measured(pr, attempt=2)

    holds(done, 3, "NOT RUN", published=True)
    assert list(github.state.comments) == [before]
    assert "attempt 2" in comment(github)
    assert [c["external_id"] for c in github.state.checks.values()] == ["17.1", "17.2"]


def test_older(staged: Staged, github: FakeGithub) -> None:
    """A run that started earlier leaves a newer one's comment and check alone."""
    pr = staged()
    newer = f'"run_id":"99","attempt":1,"head_sha":"{pr.head}","started_at":"2099-01-01T00:00:00Z"'
    github.state.add_comment(f"{MARKER}\n\nnewer\n\n<!-- {{{newer}}} -->\n")
    done = mistaken(pr)

    holds(done, 4, "NOT RUN", published=True)
    assert "\nnewer\n" in comment(github)


def test_pages(staged: Staged, github: FakeGithub) -> None:
    """Ours is found behind 150 comments of others, people's quotes of it among them."""
    for number in range(150):
        github.state.add_comment(f"{MARKER}\nquoted" if number % 50 == 7 else "hm", login="ann",
                                 kind="User")  # fmt: skip
    ours = github.state.add_comment(OLD)["id"]
    done = mistaken(staged())

    holds(done, 4, "NOT RUN", published=True)
    assert len(github.state.comments) == 151
    assert "### NOT RUN" in github.state.comments[ours]["body"]
    assert sum(c["body"].endswith("quoted") for c in github.state.comments.values()) == 3
    assert github.state.violations == []


def test_other_identity(staged: Staged, github: FakeGithub) -> None:
    """A comment of another bot's that cannot be changed: a new one, and the old is folded away."""
    old = github.state.add_comment(OLD, login="old-ci[bot]")
    refused = {"message": "Resource not accessible by integration"}
    github.state.faults.append(
        Fault("PATCH", f"/issues/comments/{old['id']}", ALWAYS, 403, body=refused)
    )
    done = mistaken(staged())

    holds(done, 4, "NOT RUN", published=True)
    [before, after] = comments(github)
    assert before == OLD
    assert "### NOT RUN" in after
    assert github.state.minimized == [old["node_id"]]


def test_two_suites(staged: Staged, github: FakeGithub) -> None:
    """Two suites of one workflow have a comment and a check each."""
    done = staged().run(
        job(dialect="x", suite="fast", **JUDGE), job(dialect="x", suite="small", **JUDGE)
    )

    assert done.of("a").exit_code == done.of("b").exit_code == 4
    assert set(checks(github)) == {"inferquality / fast", "inferquality / small"}
    assert sorted(
        ("inferquality / fast" in c, "inferquality / small" in c) for c in comments(github)
    ) == [(False, True), (True, False)]


def test_upload_fails(staged: Staged, github: FakeGithub) -> None:
    """Without its artifact the verdict stands, and is posted without the link."""
    done = mistaken(staged(), env={"IQ_TEST_UPLOAD": "fails"})

    holds(done, 4, "NOT RUN", published=True)
    assert "/artifacts/" not in comment(github)


# --- GHES -----------------------------------------------------------------------------------


@pytest.fixture
def enterprise() -> Iterator[FakeGithub]:
    with FakeGithub("/api/v3") as one:
        yield one


def test_ghes(staged: Staged, enterprise: FakeGithub) -> None:
    """GHES, whose API has another base: every request goes below it."""
    old = enterprise.state.add_comment(OLD, login="old-ci[bot]")
    enterprise.state.faults.append(Fault("PATCH", f"/issues/comments/{old['id']}", ALWAYS, 403))
    done = measured(staged(github=enterprise))

    holds(done, 3, "NOT RUN", published=True)
    assert len(comments(enterprise)) == 2
    assert list(checks(enterprise)) == [NAME]
    assert enterprise.state.minimized == [old["node_id"]]
    assert {entry["path"].split("/")[1] for entry in enterprise.state.log} == {"api"}
