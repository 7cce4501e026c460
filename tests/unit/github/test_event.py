"""Events: each kind says in its own way which commit it is about; nonsense is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.errors import ConfigError
from iqaction.github.event import MAX_PAYLOAD, Event, read_event

HEAD, BASE, MERGE = "a" * 40, "b" * 40, "c" * 40
ENVIRON = {
    "GITHUB_REPOSITORY": "acme/serve",
    "GITHUB_SHA": MERGE,
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_JOB": "quality",
    "GITHUB_WORKFLOW_REF": "acme/serve/.github/workflows/quality.yml@refs/pull/7/merge",
    "GITHUB_WORKSPACE": "/srv/runner/work dir/serve",
    "GITHUB_ACTOR": "alice",
    "RUNNER_ENVIRONMENT": "github-hosted",
}


def pull(**changes: Any) -> dict[str, Any]:
    head = {"sha": HEAD, "repo": {"full_name": "acme/serve"}}
    base = {"sha": BASE, "repo": {"full_name": "acme/serve"}}
    made: dict[str, Any] = {"number": 7, "head": head, "base": base, "user": {"login": "alice"}}
    return {"pull_request": {**made, **changes}, "sender": {"login": "alice"}}


def read(name: str, payload: object, **environ: str) -> Event:
    given = {**ENVIRON, "GITHUB_EVENT_NAME": name, **environ}
    return read_event(given, json.dumps(payload).encode())


def test_read_event__pull_request() -> None:
    """A pull request is posted on its own head, not on the merge commit that is tested."""
    event = read("pull_request", pull())

    assert (event.head_sha, event.tested_sha, event.base_sha) == (HEAD, MERGE, BASE)
    assert (event.number, event.head_repository, event.is_fork) == (7, "acme/serve", False)
    assert (event.is_dependabot, event.is_self_hosted) == (False, False)
    assert (event.run_id, event.attempt, event.job) == ("77", 2, "quality")
    assert event.workflow_path == ".github/workflows/quality.yml"
    assert event.workspace == "/srv/runner/work dir/serve"
    assert event.run_url == "https://github.com/acme/serve/actions/runs/77"
    assert event.graphql_url == "https://api.github.com/graphql"


@pytest.mark.parametrize(
    ("name", "payload", "environ", "branch"),
    [
        ("pull_request", pull(base={"sha": BASE, "ref": "main"}), {}, "main"),
        ("pull_request", pull(base={"sha": BASE, "ref": "a b"}), {}, ""),
        ("pull_request", pull(base={"sha": BASE, "ref": "x\n::error::"}), {}, ""),
        ("pull_request", pull(), {"GITHUB_REF": "refs/pull/7/merge"}, ""),
        (
            "merge_group",
            {"merge_group": {"head_sha": HEAD, "base_ref": "refs/heads/release/1"}},
            {},
            "release/1",
        ),
        ("push", {"ref": "refs/heads/main"}, {}, "main"),
        ("push", {"ref": "refs/tags/main"}, {}, ""),
        ("schedule", {}, {"GITHUB_REF": "refs/heads/main"}, "main"),
        ("schedule", {}, {}, ""),
    ],
)
def test_read_event__base_branch(
    name: str, payload: dict[str, Any], environ: dict[str, str], branch: str
) -> None:
    """The branch that a change goes to; a tag is none, and neither is what cannot be one."""
    repository = {"default_branch": "trunk"}
    event = read(name, {**payload, "repository": repository}, **environ)

    assert (event.base_branch, event.default_branch) == (branch, "trunk")


def test_read_event__fork() -> None:
    """A head in another repository is a fork's, and so is one whose repository was deleted."""
    other = read("pull_request", pull(head={"sha": HEAD, "repo": {"full_name": "eve/serve"}}))
    deleted = read("pull_request", pull(head={"sha": HEAD, "repo": None}))

    assert [other.is_fork, other.head_repository] == [True, "eve/serve"]
    assert [deleted.is_fork, deleted.head_repository] == [True, ""]


def test_read_event__dependabot() -> None:
    """Dependabot is told by who opened the pull request, whoever pushed last."""
    event = read("pull_request", pull(user={"login": "dependabot[bot]"}))

    assert event.is_dependabot


def test_read_event__merge_group() -> None:
    """A merge queue is posted on the group's head."""
    event = read("merge_group", {"merge_group": {"head_sha": HEAD, "base_sha": BASE}})

    assert (event.head_sha, event.base_sha, event.number) == (HEAD, BASE, None)
    assert not event.is_fork


def test_read_event__workflow_run() -> None:
    """What runs after another run is about that run's commit, whoever owns it."""
    run = {
        "id": 5,
        "run_attempt": 3,
        "conclusion": "success",
        "event": "pull_request",
        "head_sha": HEAD,
        "head_repository": {"full_name": "eve/serve"},
    }
    event = read("workflow_run", {"workflow_run": run})

    assert event.head_sha == HEAD
    assert event.is_fork
    assert event.finished is not None
    assert (event.finished.run_id, event.finished.attempt) == ("5", 3)
    assert (event.finished.conclusion, event.finished.event) == ("success", "pull_request")


@pytest.mark.parametrize(("before", "base"), [(BASE, BASE), ("0" * 40, ""), ("x", ""), (None, "")])
def test_read_event__push(before: object, base: str) -> None:
    """A push starts from what was there before; a new branch from nothing that is known."""
    assert read("push", {"before": before}).base_sha == base


def test_read_event__self_hosted_unless_github_says_otherwise() -> None:
    """A runner that does not say whose it is counts as self-hosted."""
    assert read("push", {}, RUNNER_ENVIRONMENT="").is_self_hosted
    assert read("push", {}, RUNNER_ENVIRONMENT="self-hosted").is_self_hosted


def test_read_event__ghes() -> None:
    """An enterprise server's addresses are taken from the environment."""
    event = read(
        "push",
        {},
        GITHUB_API_URL="https://git.acme.example/api/v3",
        GITHUB_SERVER_URL="https://git.acme.example",
    )

    assert event.graphql_url == "https://git.acme.example/api/graphql"
    assert event.run_url == "https://git.acme.example/acme/serve/actions/runs/77"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GITHUB_REPOSITORY", ""),
        ("GITHUB_REPOSITORY", "acme/.."),
        ("GITHUB_REPOSITORY", "acme/serve/x"),
        ("GITHUB_REPOSITORY", "acme/se rve"),
        ("GITHUB_SHA", "HEAD"),
        ("GITHUB_SHA", "a" * 39),
        ("GITHUB_RUN_ID", "1; id"),
        ("GITHUB_EVENT_NAME", "push\n"),
        ("GITHUB_API_URL", "http://git.acme.example"),
        ("GITHUB_API_URL", "https://user:secret@api.github.com"),
        ("GITHUB_SERVER_URL", "javascript:alert(1)"),
        ("GITHUB_SERVER_URL", "https://github.com/) [x](https://evil"),
    ],
)
def test_read_event__unusable_environment(variable: str, value: str) -> None:
    """What the runner must say and does not is named, and its value is not repeated."""
    with pytest.raises(ConfigError) as caught:
        read("push", {}, **{variable: value}) if variable != "GITHUB_EVENT_NAME" else read(
            value, {}
        )

    assert variable in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "payload", "said"),
    [
        ("pull_request", {}, "pull_request.head.sha"),
        ("pull_request", {"pull_request": []}, "pull_request.head.sha"),
        ("pull_request", pull(head={"sha": "$(id)"}), "pull_request.head.sha"),
        ("pull_request", pull(number="7"), "pull_request.number"),
        ("pull_request", pull(number=True), "pull_request.number"),
        ("pull_request", pull(number=-7), "pull_request.number"),
        ("merge_group", {"merge_group": None}, "merge_group.head_sha"),
        ("workflow_run", {"workflow_run": {"id": 1}}, "workflow_run.head_sha"),
        ("workflow_run", {"workflow_run": {"head_sha": HEAD}}, "workflow_run.id"),
        ("push", [], "JSON object"),
    ],
)
def test_read_event__unusable_payload(name: str, payload: object, said: str) -> None:
    """A payload without what is needed is a mistake that is named."""
    with pytest.raises(ConfigError, match=said):
        read(name, payload)


@pytest.mark.parametrize("payload", [b"{", b"\xff", b"[" * 100_000, b" " * (MAX_PAYLOAD + 1)])
def test_read_event__no_payload_at_all(payload: bytes) -> None:
    """Bytes that are no JSON object, or far too many of them, are a mistake that is named."""
    with pytest.raises(ConfigError, match="payload"):
        read_event({**ENVIRON, "GITHUB_EVENT_NAME": "push"}, payload)


HOSTILE = "`$(id)`::error::\x1b[31m<img src=x>@all\n"


def test_read_event__hostile_texts_are_left_out() -> None:
    """Names that fit no pattern are not carried on."""
    event = read(
        "pull_request",
        pull(head={"sha": HEAD, "repo": {"full_name": HOSTILE}}, title=HOSTILE),
        GITHUB_JOB=HOSTILE,
        GITHUB_WORKFLOW_REF=f"acme/serve/{HOSTILE}",
        GITHUB_WORKSPACE=HOSTILE,
        GITHUB_RUN_ATTEMPT=HOSTILE,
    )

    assert (event.head_repository, event.job, event.workflow_path) == ("", "", "")
    assert (event.workspace, event.attempt, event.is_fork) == ("", 1, True)
    assert "<img" not in repr(event)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(HEAD),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["pull_request", "head", "sha", "number", "repo", "full_name", "id"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["pull_request", "push", "merge_group", "workflow_run"]))
def test_read_event__any_json(payload: object, name: str) -> None:
    """Whatever the payload says, it is an event or a named mistake."""
    try:
        event = read(name, payload)
    except ConfigError:
        return

    assert len(event.head_sha) in (40, 64)
