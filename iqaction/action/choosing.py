"""Which of the baselines that were captured on the base branch may judge a change. Pure.

One of the merge-base's own commit, or of an ancestor after which nothing that matters has changed:
the tip of the branch is another's work already, and would show as a difference of this change.
What cannot be told is not taken, and everything that is not taken is told with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

EVENTS = ("push", "schedule")
SAME, ANCESTOR, OTHER, UNKNOWN = ("same", "ancestor", "other", "unknown")
_SHOWN = 3  # of the files that changed


@dataclass(frozen=True)
class Origin:
    """Where a captured baseline is from, as GitHub says it: the run, and not the evidence.

    Attributes
    ----------
    id
        Of the artifact.
    name
        For people, as "run 1234".
    same_repository
        False where a fork's commit was checked out, and where that is not known.
    unreadable
        Why the run could not be read; "" where it could.
    """

    id: int
    name: str
    event: str
    branch: str
    conclusion: str
    head_sha: str
    same_repository: bool = True
    unreadable: str = ""


@dataclass(frozen=True)
class Standing:
    """How a commit stands to the merge-base.

    Attributes
    ----------
    relation
        "same", "ancestor", "other" (no ancestor) or "unknown".
    changed
        Of an ancestor, the paths that matter and that have changed since; None where not known.
    reason
        Why something is not known.
    """

    relation: str
    changed: tuple[str, ...] | None = ()
    reason: str = ""


@dataclass(frozen=True)
class Weighed:
    """One origin, and why it is not taken; "" where it may be."""

    origin: Origin
    reason: str


def weighed(
    origins: Iterable[Origin],
    branches: tuple[str, ...],
    standing: Callable[[str], Standing],
) -> Iterator[Weighed]:
    """Each origin in the order given, which is the newest first; no further than is asked for.

    Parameters
    ----------
    branches
        The base branch, and the repository's own.
    standing
        How a commit stands to the merge-base; asked only about runs that could be taken.
    """
    for origin in origins:
        reason = run_unfit(origin, branches) or commit_unfit(standing(origin.head_sha))
        yield Weighed(origin, reason)


def run_unfit(origin: Origin, branches: tuple[str, ...]) -> str:
    """Why a run is not one whose artifacts are the base branch's own; "" where it is."""
    if origin.unreadable:
        return f"the run cannot be read: {origin.unreadable}"
    if not origin.same_repository:
        return "it ran on another repository's commit"
    if origin.event not in EVENTS:
        return f"it ran on {origin.event or 'an unknown event'}, not on {' or '.join(EVENTS)}"
    if not branches:
        return "the base branch's name is not known"
    if origin.branch not in branches:
        return f"it ran on the branch {origin.branch or '(unknown)'}, not on {branches[0]}"
    if origin.conclusion != "success":
        return f"it ended with {origin.conclusion or 'no conclusion yet'}, not with success"
    return "" if origin.head_sha else "its commit is not known"


def commit_unfit(standing: Standing) -> str:
    """Why a commit's baseline cannot stand for the merge-base's; "" where it can."""
    if standing.relation == SAME:
        return ""
    if standing.relation == OTHER:
        return "its commit is neither the merge-base nor an ancestor of it"
    if standing.relation != ANCESTOR or standing.changed is None:
        return f"what changed since its commit is not known: {standing.reason or 'no answer'}"
    if standing.changed:
        named = ", ".join(standing.changed[:_SHOWN])
        more = len(standing.changed) - _SHOWN
        rest = f" and {more} more" if more > 0 else ""
        return f"since its commit, files that matter have changed: {named}{rest}"
    return ""
