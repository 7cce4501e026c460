"""Which repository of the workspace is the pull request's, and its paths within it. I/O: looks
for ``.git``, asks git what is checked out.

An input names a path from the workspace; GitHub and git name it from the repository's root, which
is another folder where actions/checkout has a `path`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from iqaction import inputs
from iqaction.action import _head, git_base, protected
from iqaction.action.settings import Settings
from iqaction.errors import ConfigError
from iqaction.github.event import Event
from iqaction.inputs import Request

_NO_PATHS = ("", "auto")  # of a baseline


@dataclass(frozen=True)
class Checkout:
    """The repository, and the inputs with their paths from its root.

    Attributes
    ----------
    is_ours
        False where it may be another repository than the pull request's.
    """

    root: Path
    settings: Settings
    is_ours: bool = True


def find(settings: Settings, event: Event, workspace: Path) -> Checkout:
    """Where the named paths are.

    Raises
    ------
    ConfigError
        They are in different repositories, one leads out of the workspace, or it cannot be told
        which repository is the pull request's.
    """
    named = dict(_named(settings, workspace))
    roots = {key: _root(key, path, event, workspace) for key, path in named.items()}
    first = next(iter(roots.values()), (workspace, True))
    if len({root for root, _ in roots.values()}) > 1:
        where = ", ".join(f"{key} in {_shown(r, workspace)}" for key, (r, _) in roots.items())
        raise ConfigError(
            f"the inputs name files of different repositories of the workspace: {where}",
            expected="all of them in the one repository that is tested",
        )
    root, is_ours = first
    if root == workspace:
        return Checkout(root, settings, is_ours)
    asked = stages(settings) if settings.stages else Request(())
    if inputs.files(asked):
        raise ConfigError(
            f"the input `stages` names files, and the repository is in {_shown(root, workspace)}",
            expected="use `plan`: a file of the repository, with these beside it",
        )
    prefix = root.relative_to(workspace).as_posix()
    inner = {key: posixpath.relpath(path, prefix) for key, path in named.items()}
    moved = replace(
        settings,
        plan=inner.get("plan", settings.plan),
        baseline=inner.get("baseline", settings.baseline),
        compose_file=inner.get("compose_file", settings.compose_file),
    )
    return Checkout(root, moved, is_ours)


def stages(settings: Settings) -> Request:
    """What the input `stages` asks for. Raises ConfigError for a mistake in it."""
    return inputs.read_request(protected.as_plan(settings.stages), "the input `stages`")


def _named(settings: Settings, workspace: Path) -> Iterator[tuple[str, str]]:
    """Each input that names a path of the workspace, and the path from there."""
    baseline, questions = settings.baseline, []
    if settings.stages:
        asked = stages(settings)
        baseline = baseline or asked.baseline
        questions = [("stages", name) for _, name in inputs.files(asked)]
    if baseline in _NO_PATHS or "://" in baseline:
        baseline = ""
    compose = settings.compose_file
    with suppress(ConfigError):  # it may be anywhere: it is not the judge's
        place = _head.place(compose, workspace, "compose_file") if compose else None
        if place is not None:
            yield "compose_file", place
    for key, path in (("plan", settings.plan), ("baseline", baseline), *questions):
        place = _head.place(path, workspace, key) if path else None
        if place is not None:
            yield key, place


def _root(key: str, path: str, event: Event, workspace: Path) -> tuple[Path, bool]:
    """The nearest repository around a path, but none that the pull request may have put there:
    a submodule in a folder's place would name another file."""
    around = _head.repositories(workspace, path)
    for root in around:
        if git_base.holds(root, (event.tested_sha, event.head_sha)):
            return root, True
    if len(around) > 1:
        raise ConfigError(
            f"{key}: {path[:120]!r} is in a repository within another, and neither has the "
            "commit that is tested",
            expected="the pull request's own checkout, as actions/checkout makes it",
        )
    if around:
        return around[0], around[0] == workspace
    return workspace, False


def _shown(root: Path, workspace: Path) -> str:
    return "the workspace" if root == workspace else root.relative_to(workspace).as_posix()
