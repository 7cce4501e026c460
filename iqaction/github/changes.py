"""Which files an event changes. I/O through the client; unknown is an answer, "nothing" never is.

GitHub lists at most 3,000 files of a pull request and 300 of a comparison, and says nothing where
it stops: a list that long is unknown, and so is one that could not be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from iqaction.errors import GithubError
from iqaction.github._reading import field, number, sha, text
from iqaction.github.client import Client
from iqaction.github.event import Event
from iqaction.json_value import JSON
from iqaction.report import ChangedLine

MOST_OF_A_PULL_REQUEST = 3_000
MOST_OF_A_COMPARISON = 300
_LINES = 5_000  # added lines kept of one file, and characters of each
_CHARACTERS = 1_000
_PAGES = 31  # one more than can be full
_HUNK = re.compile(r"@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")


@dataclass(frozen=True)
class ChangedFile:
    """``status`` as GitHub says it, as "renamed"; ``previous_path`` is "" where it has no other.

    ``added`` is empty also where GitHub shows no difference: a file too large, or binary.
    """

    path: str
    status: str
    previous_path: str = ""
    added: tuple[ChangedLine, ...] = ()


@dataclass(frozen=True)
class Changes:
    """All changed files, or ``known`` False and the reason. ``files`` is then empty."""

    known: bool
    files: tuple[ChangedFile, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """How ``head`` stands to ``base``. ``status``: "ahead", "behind", "identical", "diverged"."""

    status: str
    merge_base: str
    changes: Changes


def changes(client: Client, event: Event) -> Changes:
    """The files that an event changes; never raises for what GitHub does."""
    try:
        if event.number is not None:
            return _of_pull_request(client, event.repository, event.number, event.head_sha)
        if event.name not in ("push", "merge_group"):
            return Changes(False, reason=f"a {event.name} event changes no files by itself")
        if not event.base_sha:
            return Changes(False, reason="the branch is new: there is nothing to compare it with")
        found = compare(client, event.repository, event.base_sha, event.head_sha)
    except GithubError as exc:
        return Changes(False, reason=exc.happened)
    if found.status not in ("ahead", "identical"):
        return Changes(False, reason="the branch was pushed anew, not on top of what it was")
    return found.changes


def compare(client: Client, repository: str, base: str, head: str) -> Comparison:
    """What ``head`` adds to where it parted from ``base``.

    Raises
    ------
    GithubError
        When GitHub does not tell, or does not know one of them.
    """
    body = client.get(
        f"/repos/{repository}/compare/{base}...{head}",
        {"per_page": 1},  # of commits, which are not needed; the files come all the same
        doing="compare two commits",
    )
    merge_base = sha(text(body, "merge_base_commit", "sha"))
    if not merge_base:
        raise GithubError("GitHub's comparison of two commits names no merge-base")
    listed = field(body, "files")
    if not isinstance(listed, list):
        found = Changes(False, reason="GitHub's comparison lists no files")
    elif len(listed) >= MOST_OF_A_COMPARISON:
        reason = f"{len(listed)} files changed, and GitHub's comparison lists no more than that"
        found = Changes(False, reason=reason)
    else:
        found = _read(listed)
    return Comparison(text(body, "status"), merge_base, found)


def merge_base(client: Client, event: Event) -> str:
    """The commit that an event's change starts from.

    Raises
    ------
    GithubError
        When the event has none, or GitHub does not tell.
    """
    if not event.base_sha:
        raise GithubError(
            f"a {event.name} event has no commit that it starts from",
            expected="a pull request, a merge group, or a push on top of something",
        )
    return compare(client, event.repository, event.base_sha, event.head_sha).merge_base


def _of_pull_request(client: Client, repository: str, pull: int, head: str) -> Changes:
    path = f"/repos/{repository}/pulls/{pull}"
    listed = list(client.pages(f"{path}/files", doing="list the changed files", most=_PAGES))
    if len(listed) >= MOST_OF_A_PULL_REQUEST:
        return Changes(False, reason=f"{len(listed):,} files changed, and GitHub lists no more")
    # The list is of the pull request as it is now; this run is of one commit of it.
    now = client.get(path, doing="read the pull request")
    if text(now, "head", "sha") != head:
        return Changes(False, reason="the pull request has a newer commit than this run's")
    if number(now, "changed_files") != len(listed):
        said, got = number(now, "changed_files"), len(listed)
        return Changes(False, reason=f"GitHub counts {said} changed files and lists {got}")
    return _read(listed)


def _read(listed: list[JSON]) -> Changes:
    files = []
    for entry in listed:
        path = text(entry, "filename")
        if not path:
            return Changes(False, reason="GitHub's list has a file without a name")
        previous = text(entry, "previous_filename")
        added = tuple(_added(path, text(entry, "patch")))
        files.append(ChangedFile(path, text(entry, "status"), previous, added))
    return Changes(True, tuple(files))


def _added(path: str, patch: str) -> Iterator[ChangedLine]:
    """The lines that a unified diff adds, with their numbers in the new file."""
    line = kept = 0
    for row in patch.split("\n"):
        hunk = _HUNK.match(row)
        if hunk:
            line = int(hunk[1])
        elif line and row.startswith("+"):
            yield ChangedLine(path, line, row[1 : 1 + _CHARACTERS].removesuffix("\r"))
            line += 1
            kept += 1
            if kept == _LINES:
                return
        elif line and row.startswith(" "):
            line += 1
