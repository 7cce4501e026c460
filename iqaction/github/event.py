"""What started this run, from the runner's environment and the event's payload. Pure.

Knows GitHub's events. A payload may be written by whoever opens a pull request: of it only what
fits a strict pattern is kept, and what is needed and does not fit is a mistake that is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from iqaction.errors import ConfigError
from iqaction.github._reading import (
    address,
    branch,
    digits,
    field,
    number,
    parsed,
    repository,
    sha,
    text,
)
from iqaction.json_value import JSON

MAX_PAYLOAD = 32 << 20  # GitHub's own limit is 25 MB
DEPENDABOT = "dependabot[bot]"
_NAME = re.compile(r"[a-z][a-z_]{0,60}\Z")
_JOB = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}\Z")
_WORKFLOW = re.compile(r"\.github/workflows/[A-Za-z0-9_. -]{1,200}\.ya?ml\Z")
_WORD = re.compile(r"[a-z_]{1,40}\Z")
_PULL_REQUESTS = ("pull_request", "pull_request_target")
# Whose code runs is known for these alone; on others, as a review, a stranger's pull request
# would pass for a push.
SUPPORTED = (
    "pull_request",
    "merge_group",
    "push",
    "schedule",
    "workflow_dispatch",
    "workflow_run",
    "repository_dispatch",
)
_ONLY_IN_ACTIONS = "this runs as a step of a GitHub Actions job, whose runner sets it"


@dataclass(frozen=True)
class Finished:
    """The run whose end started a ``workflow_run``.

    Attributes
    ----------
    conclusion
        As "success"; "" while it has none.
    event
        What had started that run, as "pull_request".
    """

    run_id: str
    attempt: int
    conclusion: str
    event: str
    head_sha: str
    head_repository: str


@dataclass(frozen=True)
class Event:
    """One event. Texts are empty where the event has no such thing.

    Attributes
    ----------
    head_sha
        The commit that results are posted on.
    tested_sha
        The commit that is checked out: a pull request is tested as merged.
    base_sha
        Where the change starts from; for a pull request the base branch's tip, which is not yet
        the merge-base.
    number
        Of the pull request.
    is_fork
        True also where the head's repository is unknown, because it was deleted.
    base_branch, default_branch
        The branch that a pull request goes to, or that this run is of; and the repository's own.
    """

    name: str
    repository: str
    api_url: str
    graphql_url: str
    server_url: str
    head_sha: str
    tested_sha: str
    base_sha: str
    number: int | None
    head_repository: str
    is_fork: bool
    is_dependabot: bool
    is_self_hosted: bool
    run_id: str
    attempt: int
    job: str
    workflow_path: str
    workspace: str
    run_url: str
    finished: Finished | None = None
    base_branch: str = ""
    default_branch: str = ""


@dataclass(frozen=True)
class _Heads:
    """The part that each kind of event says in its own way."""

    head_sha: str
    base_sha: str = ""
    number: int | None = None
    head_repository: str = ""
    finished: Finished | None = None


def read_event(environ: Mapping[str, str], payload: bytes) -> Event:
    """The event that this run is for.

    Raises
    ------
    ConfigError
        When something that must be known is absent or is not what it should be.
    """
    name = environ.get("GITHUB_EVENT_NAME", "")
    if not _NAME.match(name):
        raise _unusable("GITHUB_EVENT_NAME", "the name of an event, as pull_request")
    repo = repository(environ.get("GITHUB_REPOSITORY", ""))
    if not repo:
        raise _unusable("GITHUB_REPOSITORY", "owner/name")
    tested = sha(environ.get("GITHUB_SHA", ""))
    if not tested:
        raise _unusable("GITHUB_SHA", "a commit's name in full, in hexadecimal digits")
    run_id = digits(environ.get("GITHUB_RUN_ID", ""))
    if not run_id:
        raise _unusable("GITHUB_RUN_ID", "a number")
    body = _payload(payload)
    heads = _heads(name, repo, tested, body)
    server = _url(environ, "GITHUB_SERVER_URL", "https://github.com")
    api = _url(environ, "GITHUB_API_URL", "https://api.github.com")
    attempt = digits(environ.get("GITHUB_RUN_ATTEMPT", ""))
    return Event(
        name=name,
        repository=repo,
        api_url=api,
        graphql_url=_url(environ, "GITHUB_GRAPHQL_URL", f"{api.removesuffix('/v3')}/graphql"),
        server_url=server,
        head_sha=heads.head_sha,
        tested_sha=tested,
        base_sha=heads.base_sha,
        number=heads.number,
        head_repository=heads.head_repository,
        is_fork=heads.head_repository.lower() != repo.lower(),
        is_dependabot=_is_dependabot(environ, body),
        is_self_hosted=environ.get("RUNNER_ENVIRONMENT") != "github-hosted",
        run_id=run_id,
        attempt=int(attempt or 1),
        job=_fitting(_JOB, environ.get("GITHUB_JOB", "")),
        workflow_path=_workflow(environ.get("GITHUB_WORKFLOW_REF", ""), repo),
        workspace=_path(environ.get("GITHUB_WORKSPACE", "")),
        run_url=f"{server}/{repo}/actions/runs/{run_id}",
        finished=heads.finished,
        base_branch=_base_branch(name, environ, body),
        default_branch=branch(text(body, "repository", "default_branch")),
    )


def _base_branch(name: str, environ: Mapping[str, str], body: JSON) -> str:
    if name in _PULL_REQUESTS:
        return branch(text(body, "pull_request", "base", "ref"))
    ref = text(body, "merge_group", "base_ref") if name == "merge_group" else ""
    ref = ref or text(body, "ref") or environ.get("GITHUB_REF", "")
    # A tag is no branch, whatever it is called.
    return branch(ref.removeprefix("refs/heads/")) if ref.startswith("refs/heads/") else ""


def _unusable(variable: str, expected: str) -> ConfigError:
    return ConfigError(
        f"the environment variable {variable} is not set, or is nothing of the kind",
        expected=expected,
        next_step=_ONLY_IN_ACTIONS,
    )


def _payload(payload: bytes) -> JSON:
    if len(payload) > MAX_PAYLOAD:
        raise ConfigError(
            f"the event's payload has {len(payload):,} bytes",
            expected=f"at most {MAX_PAYLOAD:,}: GitHub sends no more than 25 MB",
        )
    try:
        body = parsed(payload or b"{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ConfigError(
            "the event's payload is no JSON object",
            expected="the file that GITHUB_EVENT_PATH names, as the runner wrote it",
        )
    return body


def _heads(name: str, repo: str, tested: str, body: JSON) -> _Heads:
    if name in _PULL_REQUESTS:
        return _pull_request(field(body, "pull_request"))
    if name == "merge_group":
        group = field(body, "merge_group")
        head = _needed(sha(text(group, "head_sha")), "merge_group.head_sha")
        return _Heads(head, sha(text(group, "base_sha")), head_repository=repo)
    if name == "workflow_run":
        run = field(body, "workflow_run")
        finished = Finished(
            run_id=_needed(str(number(run, "id") or ""), "workflow_run.id"),
            attempt=number(run, "run_attempt") or 1,
            conclusion=_fitting(_WORD, text(run, "conclusion")),
            event=_fitting(_NAME, text(run, "event")),
            head_sha=_needed(sha(text(run, "head_sha")), "workflow_run.head_sha"),
            head_repository=repository(text(run, "head_repository", "full_name")),
        )
        return _Heads(
            finished.head_sha, head_repository=finished.head_repository, finished=finished
        )
    before = sha(text(body, "before")) if name == "push" else ""
    return _Heads(tested, before if before.strip("0") else "", head_repository=repo)


def _pull_request(pull: JSON) -> _Heads:
    head = _needed(sha(text(pull, "head", "sha")), "pull_request.head.sha")
    found = number(pull, "number")
    if not found:
        _needed("", "pull_request.number")
    return _Heads(
        head,
        sha(text(pull, "base", "sha")),
        found,
        repository(text(pull, "head", "repo", "full_name")),
    )


def _needed(found: str, key: str) -> str:
    if not found:
        raise ConfigError(
            f"the event's payload has no usable {key}",
            expected="the payload as GitHub sends it with this event",
            next_step="check the `on:` of the workflow, or the event file where it was written "
            "by hand",
        )
    return found


def _url(environ: Mapping[str, str], variable: str, absent: str) -> str:
    given = environ.get(variable, "") or absent
    found = address(given.rstrip("/"))
    if not found or "?" in found or "#" in found:
        raise _unusable(variable, "an https URL without user, password or query")
    return found


def _is_dependabot(environ: Mapping[str, str], body: JSON) -> bool:
    names = (
        environ.get("GITHUB_ACTOR", ""),
        environ.get("GITHUB_TRIGGERING_ACTOR", ""),
        text(body, "sender", "login"),
        text(body, "pull_request", "user", "login"),
        text(body, "workflow_run", "actor", "login"),
    )
    return DEPENDABOT in names


def _workflow(ref: str, repo: str) -> str:
    """The file in ``owner/name/.github/workflows/x.yml@refs/heads/main``."""
    path, _, _ = ref.partition("@")
    start = f"{repo}/".lower()
    return _fitting(_WORKFLOW, path[len(start) :]) if path.lower().startswith(start) else ""


def _path(found: str) -> str:
    return found if len(found) < 4096 and found.isprintable() else ""


def _fitting(pattern: re.Pattern[str], found: str) -> str:
    return found if pattern.match(found) else ""
