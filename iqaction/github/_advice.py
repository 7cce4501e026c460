"""What to do about a refusal of GitHub's. Pure: a table of permissions, and sentences.

Knows which permission each operation needs. Messages of GitHub's are foreign text: they are
bounded and escaped here before they stand in an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from iqaction import terminal

_MESSAGE = 300  # characters shown of what GitHub says
_LATER = "the evidence stays valid: `iqaction publish DIR` posts it later"
_FORKED = (
    "a pull request from a fork or by Dependabot has a token that only reads: publish from a "
    "`workflow_run` workflow (mode: publish)"
)

# What the path of an operation says of the permission it needs; the first that fits.
_PERMISSIONS = (
    (re.compile(r"/check-runs"), "checks"),
    (re.compile(r"/issues/|/pulls|graphql"), "pull-requests"),
    (re.compile(r"/actions/"), "actions"),
    (re.compile(r""), "contents"),
)


@dataclass(frozen=True)
class Advice:
    """The second and third sentence of an error."""

    expected: str
    next_step: str


def permission(method: str, path: str) -> str:
    """As a job's ``permissions:`` spells it, as "checks: write"."""
    scope = next(name for pattern, name in _PERMISSIONS if pattern.search(path))
    return f"{scope}: {'read' if method == 'GET' else 'write'}"


def message(text: str) -> str:
    """What GitHub said, on one line, cut and harmless."""
    shown = terminal.inline(" ".join(text[: 4 * _MESSAGE].split()))
    return shown if len(shown) <= _MESSAGE else shown[:_MESSAGE] + "…"


def advice(method: str, path: str, status: int, said: str) -> Advice:
    """What was expected and what to do next, for an answer of this status."""
    needed = permission(method, path)
    if status == 401:
        return Advice("a token that is valid", "leave `github_token` at its default")
    if status == 403 and "GitHub App" in said:
        return Advice(
            "the job's own token or a GitHub App's: check runs take no personal access token",
            "leave `github_token` at its default, or set `check_run: false`",
        )
    if status == 403:
        return Advice(f"a token with `{needed}`", f"add it to the job's `permissions:`; {_FORKED}")
    if status == 404:
        return Advice(
            f"something that is there, and a token with `{needed}`: GitHub answers 404 for both",
            "check the names, and the job's `permissions:`",
        )
    if 300 <= status < 400:
        return Advice(
            "an answer, not a redirect: a token is not sent anywhere else",
            "where the repository was renamed or moved, run the workflow there",
        )
    if status == 429:
        return Advice("fewer requests than GitHub's limit for this token", _LATER)
    if status == 0 or status >= 500:
        return Advice("an answer from GitHub", _LATER)
    return Advice("", "report this, with the message: the request does not fit GitHub's API")
