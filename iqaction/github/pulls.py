"""Pull requests: which one a commit belongs to, and where its head is now. I/O."""

from __future__ import annotations

from collections.abc import Iterable

from iqaction.errors import GithubError
from iqaction.github._reading import number, repository, sha, text
from iqaction.github.client import Client
from iqaction.json_value import JSON


def head_of(client: Client, repo: str, pull: int) -> str:
    """The commit that a pull request's head is at now.

    Raises
    ------
    GithubError
        When GitHub does not tell.
    """
    found = client.get(f"/repos/{repo}/pulls/{pull}", doing="read the pull request")
    return sha(text(found, "head", "sha"))


def find_pull_requests(
    client: Client, repo: str, head_sha: str, head_repository: str
) -> tuple[int, ...]:
    """The open pull requests whose head is this very commit of this very repository.

    A ``workflow_run`` of a fork names none. GitHub knows them by the commit; where it does not
    (a fork's commit is not always indexed), the open ones are looked through, newest first.

    Raises
    ------
    GithubError
        When GitHub does not tell.
    """
    doing = "find the pull request of a commit"
    try:
        known = list(client.pages(f"/repos/{repo}/commits/{head_sha}/pulls", doing=doing))
    except GithubError as exc:
        if exc.status not in (404, 422):  # so it says of a commit that it does not know here
            raise
        known = []
    found = _with_head(known, head_sha, head_repository)
    if found:
        return found
    newest: dict[str, str | int] = {"state": "open", "sort": "updated", "direction": "desc"}
    every = client.get(f"/repos/{repo}/pulls", {**newest, "per_page": 100}, doing=doing)
    return _with_head(every if isinstance(every, list) else [], head_sha, head_repository)


def _with_head(every: Iterable[JSON], head_sha: str, head_repository: str) -> tuple[int, ...]:
    found = {
        number(pull, "number")
        for pull in every
        if text(pull, "state") == "open"
        and text(pull, "head", "sha") == head_sha
        and _same(text(pull, "head", "repo", "full_name"), head_repository)
    }
    return tuple(sorted(found - {0}))


def _same(one: str, other: str) -> bool:
    """Names of repositories are compared as GitHub does, without regard to case."""
    return bool(repository(one)) and one.lower() == other.lower()
