"""The one sticky comment of a suite on a pull request: found again, replaced, or made. I/O.

A comment is ours when its first line is the marker and a bot wrote it: people quote comments, and
nobody's own words are ever replaced. The token cannot ask who it is, so whether a bot's comment is
ours to change is found out by changing it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from iqaction.errors import GithubError
from iqaction.github import publication, pulls
from iqaction.github._reading import address, number, text
from iqaction.github.client import Client
from iqaction.github.publication import Mark, Posted, Target
from iqaction.json_value import JSON
from iqaction.surfaces._base import UpsertComment

_REFUSED, _FORBIDDEN = 422, 403
_NOT_OURS = (_FORBIDDEN, 404, 410)  # another bot's, or deleted meanwhile
_MOST_HIDDEN = 5
_ACTIONS = "github-actions[bot]"
_MINIMIZE = (
    "mutation($id: ID!) { minimizeComment(input: {subjectId: $id, classifier: OUTDATED})"
    " { minimizedComment { isMinimized } } }"
)


@dataclass(frozen=True)
class _Found:
    id: int
    node: str
    url: str
    by_actions: bool
    mark: Mark | None


def upsert(client: Client, target: Target, pull: int, effect: UpsertComment) -> Posted:
    """Replace the suite's comment, or make one; an older run leaves a newer one's alone.

    Raises
    ------
    GithubError
        When neither could be done.
    """
    there = _ours(client, target, pull, effect.marker)
    if effect.only_if_present and not there:
        return Posted("")
    current = _current(client, target, pull)
    for comment in there:
        if publication.must_stay(comment.mark, target.mark, current):
            return Posted(comment.url, ("the comment of a newer run or commit stays",))
    bodies = (
        publication.stamped(effect.body, target.mark),
        publication.shortest(effect.marker, effect.body, target),
    )
    foreign = []
    for comment in there:
        path = f"/repos/{target.repository}/issues/comments/{comment.id}"
        send = partial(client.patch, path, doing="update the comment")
        try:
            return _taken(bodies, send)
        except GithubError as exc:
            if exc.status not in _NOT_OURS:
                raise
            if exc.status == _FORBIDDEN:
                foreign.append(comment)
    if effect.only_if_present:  # what is there is not ours to change
        return Posted("")

    def look() -> JSON:
        """What an earlier try made, although its answer was lost."""
        known = {c.id for c in there}
        for comment in _ours(client, target, pull, effect.marker):
            ours = comment.mark == target.mark or not target.mark.run_id
            if ours and comment.id not in known:
                return {"html_url": comment.url}
        return None

    path = f"/repos/{target.repository}/issues/{pull}/comments"
    posted = _taken(bodies, partial(client.post, path, doing="create the comment", look=look))
    return Posted(posted.url, (*posted.notes, *_hide(client, foreign)))


def _ours(client: Client, target: Target, pull: int, marker: str) -> list[_Found]:
    """The bots' comments with this marker: the likeliest to be our own first, then the newest."""
    path = f"/repos/{target.repository}/issues/{pull}/comments"
    found = [
        _Found(
            number(entry, "id"),
            text(entry, "node_id"),
            address(text(entry, "html_url")),
            _ACTIONS in (text(entry, "user", "login"), _bot(entry)),
            publication.read_mark(text(entry, "body")),
        )
        for entry in client.pages(path, doing="list the comments")
        if text(entry, "user", "type") == "Bot"
        and publication.has_marker(text(entry, "body"), marker)
    ]
    return sorted(found, key=lambda c: (not c.by_actions, -c.id))


def _bot(entry: JSON) -> str:
    return f"{text(entry, 'performed_via_github_app', 'slug')}[bot]"


def _current(client: Client, target: Target, pull: int) -> str:
    try:
        return pulls.head_of(client, target.repository, pull)
    except GithubError:
        return ""  # then the runs' order alone decides


def _taken(bodies: Sequence[str], send: Callable[[JSON], JSON]) -> Posted:
    """The first of ``bodies`` that GitHub does not refuse as it is."""
    *larger, smallest = bodies
    for body in larger:
        try:
            return Posted(_url(send({"body": body})))
        except GithubError as exc:
            if exc.status != _REFUSED:
                raise
    url = _url(send({"body": smallest}))
    return Posted(url, ("the comment was refused as it was, and posted shorter",))


def _url(posted: JSON) -> str:
    return address(text(posted, "html_url"))


def _hide(client: Client, there: Sequence[_Found]) -> list[str]:
    """Fold away the comments that a new one replaces, which REST cannot."""
    for comment in there[:_MOST_HIDDEN]:
        try:
            client.graphql(_MINIMIZE, {"id": comment.node}, doing="hide the comment before")
        except GithubError as exc:
            return [f"an older comment stays: {exc.happened}"]
    return []
