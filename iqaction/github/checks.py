"""The check run on the commit: begun, completed, and swept where a run left one behind. I/O.

What a body says is :mod:`iqaction.github.publication`'s business. Completing finds its own check
run again by its external id, so that nothing needs to be carried from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from iqaction.counts import counted
from iqaction.errors import GithubError
from iqaction.github import artifacts, publication
from iqaction.github._reading import address, field, number, text
from iqaction.github.client import Client
from iqaction.github.publication import ANNOTATIONS, Mark, Posted, Target
from iqaction.json_value import JSON
from iqaction.surfaces._base import Annotate, PutCheckRun

_REFUSED = 422
_MOST_SWEPT = 10


@dataclass(frozen=True)
class Begun:
    """A check run in progress. ``app`` is the id of the GitHub App that the token belongs to."""

    check_id: int
    url: str
    app: int


def begin(client: Client, target: Target) -> Begun:
    """Create the check run in progress, and close what earlier runs left in progress.

    Raises
    ------
    GithubError
        When it was not created. What cannot be swept stays, silently.
    """
    made = client.post(
        f"/repos/{target.repository}/check-runs",
        publication.begun(target),
        doing="create the check run",
        look=lambda: _own(_listed(client, target), target),
    )
    begun = Begun(number(made, "id"), address(text(made, "html_url")), number(made, "app", "id"))
    with suppress(GithubError):  # what stays in progress is looked at by the next run again
        _sweep(client, target, begun)
    return begun


def complete(
    client: Client, target: Target, effect: PutCheckRun, notes: Sequence[Annotate] = ()
) -> Posted:
    """Post the result: on the check run in progress, else on a new one.

    Where the commit already has the result of a newer run, that one stays the last word.

    Raises
    ------
    GithubError
        When it could not be posted.
    """
    told: list[str] = []
    known: list[JSON] = []
    try:
        known = _listed(client, target)
    except GithubError as exc:
        told.append(f"earlier check runs are not known: {exc.happened}")
    before = _own(known, target)
    own = target.check_id or number(before, "id")
    if any(_is_newer(c, target) for c in known):
        if own:
            _patch(client, target, own, publication.superseded(target))
        return Posted("", (*told, "a newer run's check run on this commit stays"))
    # Annotations are only ever added: who publishes again must not double them.
    noted = number(before, "output", "annotations_count") > 0
    wanted = [] if noted else publication.usable(notes)
    made, refused = _posted(client, target, effect, wanted, own)
    told += refused
    rest = wanted[ANNOTATIONS:] if not refused else []
    told += _annotate(client, target, effect, rest, number(made, "id"))
    return Posted(address(text(made, "html_url")), tuple(told))


def _posted(
    client: Client, target: Target, effect: PutCheckRun, notes: Sequence[Annotate], own: int
) -> tuple[JSON, list[str]]:
    """The completed check run; with less in it where GitHub refuses the whole."""
    whole = publication.completed(target, effect, notes)
    smaller = (
        {**whole, "output": publication.output(effect, ())},
        {**whole, "output": publication.bare_output(effect)},
    )
    try:
        return _put(client, target, whole, own), []
    except GithubError as exc:
        if exc.status != _REFUSED:
            raise
    told = ["the check run was refused as it was, and posted shorter"]
    try:
        return _put(client, target, smaller[0], own), told
    except GithubError as exc:
        if exc.status != _REFUSED:
            raise
    return _put(client, target, smaller[1], own), told


def _put(client: Client, target: Target, body: dict[str, JSON], own: int) -> JSON:
    if own:
        try:
            return _patch(client, target, own, body)
        except GithubError as exc:
            if exc.status not in (403, 404):  # another identity's, or gone: make one
                raise
    return client.post(
        f"/repos/{target.repository}/check-runs",
        {**body, "head_sha": target.head_sha},
        doing="create the check run",
        look=lambda: _own(_listed(client, target), target, status="completed"),
    )


def _patch(client: Client, target: Target, check: int, body: dict[str, JSON]) -> JSON:
    """Change a check run. Annotations are added to those that are there, so a lost answer is
    looked for before they are sent again."""
    path = f"/repos/{target.repository}/check-runs/{check}"
    doing = "complete the check run"
    return client.patch(path, body, doing=doing, look=lambda: _done(client, path, body))


def _done(client: Client, path: str, body: dict[str, JSON]) -> JSON:
    found = client.get(path, doing="read the check run")
    asked = field(body, "output", "annotations")
    wanted = len(asked) if isinstance(asked, list) else 0
    there = number(found, "output", "annotations_count")
    same = text(found, "conclusion") == text(body, "conclusion")
    return found if same and there >= wanted else None


def _annotate(
    client: Client, target: Target, effect: PutCheckRun, rest: Sequence[Annotate], check: int
) -> list[str]:
    """Add the annotations beyond the first 50; the result is posted already."""
    path = f"/repos/{target.repository}/check-runs/{check}"
    for start in range(0, len(rest), ANNOTATIONS):
        batch = rest[start : start + ANNOTATIONS]
        total = start + ANNOTATIONS + len(batch)

        def look(total: int = total) -> JSON:
            found = client.get(path, doing="read the check run")
            return found if number(found, "output", "annotations_count") >= total else None

        body: dict[str, JSON] = {"output": publication.output(effect, batch)}
        try:
            client.patch(path, body, doing="add annotations", look=look)
        except GithubError as exc:
            lost = counted(len(rest) - start, "annotation is", "annotations are")
            return [f"{lost} missing: {exc.happened}"]
    return []


# --- what is there already ------------------------------------------------------------------


def _listed(client: Client, target: Target) -> list[JSON]:
    """All check runs of this name on this commit."""
    path = f"/repos/{target.repository}/commits/{target.head_sha}/check-runs"
    wanted: dict[str, str | int] = {"check_name": target.check_name, "filter": "all"}
    doing = "list the check runs of the commit"
    return list(client.pages(path, wanted, doing=doing, key="check_runs", most=10))


def _own(listed: list[JSON], target: Target, status: str = "") -> JSON:
    """The newest check run that this very run made; None where it made none."""
    external_id = target.mark.external_id
    own = [
        c
        for c in listed
        if external_id
        and text(c, "external_id") == external_id
        and status in ("", text(c, "status"))
    ]
    return max(own, key=lambda c: number(c, "id"), default=None)


def _mark(check: JSON) -> Mark | None:
    return publication.read_external_id(
        text(check, "external_id"), text(check, "head_sha"), text(check, "started_at")
    )


def _is_newer(check: JSON, target: Target) -> bool:
    mark = _mark(check)
    done = text(check, "status") == "completed" and text(check, "conclusion") != "cancelled"
    return done and mark is not None and publication.is_newer(mark, target.mark)


def _sweep(client: Client, target: Target, begun: Begun) -> None:
    """Close what is in progress although its run is over; only check runs of our own app."""
    swept = 0
    for check in _listed(client, target):
        mark = _mark(check)
        waiting = text(check, "status") in ("in_progress", "queued")
        ours = number(check, "app", "id") == begun.app
        if not waiting or not ours or mark is None or swept == _MOST_SWEPT:
            continue
        if _is_over(client, target, mark):
            swept += 1
            _patch(client, target, number(check, "id"), publication.orphaned())


def _is_over(client: Client, target: Target, mark: Mark) -> bool:
    """True for an earlier attempt of this run, and for another run that GitHub says has ended."""
    if mark.run_id == target.mark.run_id:
        return mark.attempt < target.mark.attempt
    try:
        run = artifacts.run(client, target.repository, str(mark.run_id))
    except GithubError:
        return False
    return run.status == "completed"
