"""A report's effects, posted: the check run first, then the comments. I/O.

Whatever GitHub does, what was measured stays as it is: each failure is a warning, and the caller
learns that not everything was published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from iqaction.errors import GithubError
from iqaction.github import checks, comments
from iqaction.github.client import Client
from iqaction.github.publication import Posted, Target
from iqaction.surfaces._base import Annotate, Effect, PutCheckRun, UpsertComment


@dataclass(frozen=True)
class Published:
    """Where things are. ``published`` is False where anything that was asked for is missing.

    ``warnings`` are sentences for the log. Some leave ``published`` True: an older comment that
    could not be folded away, a result that a newer run's replaced.
    """

    comment_url: str = ""
    check_url: str = ""
    published: bool = True
    warnings: tuple[str, ...] = ()


def publish(effects: Sequence[Effect], target: Target, client: Client) -> Published:
    """Post the check run and the comments among ``effects``; never raises for what GitHub does.

    The annotations among them go with the check run. The client's deadline bounds all of it.
    """
    warnings: list[str] = []
    failed = False
    check_url = comment_url = ""
    for post in _posts(effects, target, client):
        try:
            posted = post()
        except GithubError as exc:
            failed = True
            warnings.append(str(exc))
            continue
        warnings += posted.notes
        if post.func is checks.complete:
            check_url = posted.url
        else:
            comment_url = comment_url or posted.url
    return Published(comment_url, check_url, not failed, tuple(warnings))


def _posts(effects: Sequence[Effect], target: Target, client: Client) -> Iterator[partial[Posted]]:
    """What is to be done, in order."""
    notes = [e for e in effects if isinstance(e, Annotate)]
    for effect in effects:
        if isinstance(effect, PutCheckRun):
            yield partial(checks.complete, client, target, effect, notes)
    for effect in effects:
        if isinstance(effect, UpsertComment):
            for pull in target.numbers:
                yield partial(comments.upsert, client, target, pull, effect)
