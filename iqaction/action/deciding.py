"""What a run may do and need not do, from the event and what changed. Pure but for its readers.

Three questions: may this code run on this machine; is there anything to measure; what are the
judge's own files.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from iqaction import inputs, sources
from iqaction.action import _head, base_tree, checkout, committed, git_base, globs, protected
from iqaction.action.checkout import Checkout
from iqaction.action.collecting import Base
from iqaction.action.job import Job
from iqaction.action.protected import Protected, Wanted
from iqaction.action.settings import CAPTURE, NONE, RUN, Settings
from iqaction.errors import ConfigError, GithubError
from iqaction.github import changes as github_changes
from iqaction.github import contents
from iqaction.github.changes import Changes
from iqaction.github.client import Client
from iqaction.github.event import SUPPORTED, Event
from iqaction.report import ChangedLine

PULL_REQUESTS = ("pull_request", "merge_group")
# As the names of our artifacts end, by which mode report tells shards, and reports of them.
_TAKEN = re.compile(r"baseline-.*|(?:.*-)?(?:report|capture|[0-9]+-of-[0-9]+)\Z")
_MAX_FILE = 64 * 1024 * 1024
_MAX_LINES = 200
_MAX_TEXT = 500


def refused(settings: Settings, event: Event) -> str:
    """Why this run must not run here; "" where it may.

    Raises
    ------
    ConfigError
        The event can never be right.
    """
    if event.name == "pull_request_target":
        raise ConfigError(
            "pull_request_target is not supported: it gives a fork's pull request this "
            "repository's token",
            expected="pull_request, and for comments on forks a second workflow with mode: publish",
        )
    if settings.mode == CAPTURE and event.name in (*PULL_REQUESTS, "workflow_run"):
        raise ConfigError(
            f"mode: capture on {event.name}: a change would capture what it is to be judged by",
            expected="on: push to the base branch, or schedule",
        )
    if event.name not in SUPPORTED:
        raise ConfigError(
            f"the event {event.name} is not supported: whose code it would run, and what that is "
            "to be compared with, is not known",
            expected="on: " + ", ".join(SUPPORTED),
        )
    if not event.is_self_hosted or settings.allow_forks:
        return ""
    # The second workflow runs our own code; a job in it that measures has checked out the fork's.
    ran = event.finished is not None and settings.mode == RUN
    if (event.number is not None or ran) and event.is_fork:
        return (
            f"the pull request comes from a fork ({event.head_repository or 'deleted'}), whose "
            "code is not run on a self-hosted runner; a maintainer who has read it can push the "
            "branch to this repository, or set `allow_forks: true`"
        )
    if event.number is not None and event.is_dependabot:
        return (
            "the pull request is Dependabot's, whose code nobody has read yet, and is not run on "
            "a self-hosted runner; set `allow_forks: true` to allow it"
        )
    return ""


def changes(client: Client | None, event: Event) -> Changes:
    """What changed; not known where GitHub cannot be asked."""
    if client is None:
        return Changes(False, reason="there is no token to ask GitHub with")
    return github_changes.changes(client, event)


def nothing_relevant(settings: Settings, event: Event, found: Changes, workspace: Path) -> str:
    """Why nothing has to be measured; "" where something has, or where that is not known.

    A list without a file says nothing, and nothing is not a pass.
    """
    if not settings.paths or not found.known or not found.files:
        return ""
    is_relevant = relevance(settings, event, workspace)
    for file in found.files:
        if any(map(is_relevant, filter(None, (file.path, file.previous_path)))):
            return ""
    shown = ", ".join(settings.paths[:5]) + (" ..." if len(settings.paths) > 5 else "")
    return f"none of the {len(found.files)} changed files is under `paths` ({shown})"


def relevance(settings: Settings, event: Event, workspace: Path) -> Callable[[str], bool]:
    """Whether a change of a path can change what is measured, or how it is judged: true of every
    path where no `paths` are given, or where the plan cannot be read."""
    try:
        at = checkout.find(settings, event, workspace)
        ours = _own(at, event)
    except ConfigError:  # whoever reads the plan to use it says what is wrong with it
        return lambda path: True
    if not settings.paths:
        return lambda path: True

    def is_relevant(path: str) -> bool:
        return globs.touches(path, settings.paths) or any(_is_at(path, x) for x in ours)

    return is_relevant


def _own(at: Checkout, event: Event) -> list[str]:
    """What always matters: how the endpoint is started, and the judge's own files.

    Raises
    ------
    ConfigError
        The plan, which names some of them, cannot be read.
    """
    settings = at.settings
    named = [settings.plan, event.workflow_path, protected.ACCEPT]
    if settings.stages:
        asked, folder = checkout.stages(settings), ""
    else:
        path = at.root / settings.plan if settings.plan else None
        asked, folder = sources.plan_file(path), posixpath.dirname(settings.plan)
    baselines = [protected.baseline_named(x) for x in (settings.baseline, asked.baseline)]
    named += baselines if any(baselines) else committed.PLACES
    named += [posixpath.join(folder, name) for _, name in inputs.files(asked)]
    places = [_in_repository(x, at.root) for x in named if x and "://" not in x]
    return [*places, *_composed(at)]


def _composed(at: Checkout) -> tuple[str, ...]:
    """The compose file, by every name that a change of it can have: it may be a link."""
    name = at.settings.compose_file
    return _head.on_the_way(at.root, _in_repository(name, at.root)) if name else ()


def no_baseline(settings: Settings) -> str:
    """How a baseline is made, for a run that has none."""
    plan = f" --plan {settings.plan}" if settings.plan else ""
    both = (
        "\n  or:       check out with `fetch-depth: 0`: the merge-base is then started first, and "
        "is the reference of this run"
    )
    return (
        "there is no baseline to compare with\n"
        "  next:     add a job with `mode: capture` on pushes to the base branch: what it captures "
        "is found from then on\n"
        "  or:       with the trusted server up, "
        f"`iqaction observe{plan} --endpoint URL --evidence .inferquality/baseline`; restart the "
        "server and repeat with `--launch 1`, then 2 and 3; commit the folder on the base branch"
    ) + ("" if settings.boot == NONE or settings.is_leg else both)


def _in_repository(path: str, workspace: Path) -> str:
    """A path as GitHub names it; one that is elsewhere fits no changed file."""
    return posixpath.relpath(posixpath.join(str(workspace), path), str(workspace))


def _is_at(path: str, place: str) -> bool:
    """At it, below it, or above it: there a submodule or a link stands for all that is in it."""
    return f"{path}/".startswith(f"{place}/") or place.startswith(f"{path}/")


def suite(settings: Settings, plan: Path | None) -> str:
    """What this comparison is called: as the input says, else as the plan does.

    Raises
    ------
    ConfigError
        Its artifacts would be taken for others'.
    """
    name = settings.suite or ("default" if settings.stages else _planned(plan))
    if _TAKEN.match(name):
        raise ConfigError(
            f"suite: found {name[:60]!r}, which is as the names of our artifacts are",
            expected="a name that does not start with `baseline-`, and ends neither in `report` "
            "or `capture` nor like `1-of-2`",
        )
    return name


def _planned(plan: Path | None) -> str:
    try:
        return sources.plan_file(plan).suite
    except ConfigError:
        return "default"  # whoever reads the plan to use it says what is wrong with it


def changed_lines(
    settings: Settings, event: Event, found: Changes, workspace: Path
) -> tuple[ChangedLine, ...]:
    """The lines that the change adds to the files by which the endpoint is started."""
    kept: list[ChangedLine] = []
    try:
        composed = _composed(checkout.find(settings, event, workspace))
    except ConfigError:  # whoever needs the files says so
        composed = ()
    for file in found.files:
        if file.path in composed or (settings.paths and globs.matches(file.path, settings.paths)):
            added = (x for x in file.added if x.text.strip())
            kept += [replace(x, text=x.text[:_MAX_TEXT]) for x in added]
    return tuple(kept[:_MAX_LINES])


def judge_files(
    job: Job, settings: Settings, event: Event, client: Client | None, found: Changes
) -> Protected:
    """The plan, prompts, acceptances and baseline that judge this run.

    Raises
    ------
    ConfigError
        A mistake in one of them, or a path that leads out of the checkout.
    """
    workspace, into = job.workspace(), job.work.judge
    is_protected = event.name in PULL_REQUESTS
    try:
        at = checkout.find(settings, event, workspace)
    except ConfigError:
        if is_protected:
            raise
        at = Checkout(workspace, settings)  # nothing is compared there: any place will do
    wanted = Wanted(at.settings.plan, at.settings.stages, at.settings.baseline)
    wanted = replace(wanted, search=settings.mode == RUN)
    if not is_protected:
        return protected.as_it_is(wanted, at.root, into)
    base, note = _base(at, event, client)
    touched = None
    touched = paths(found)
    files = protected.collect(wanted, base, at.root, into, touched)
    return replace(files, notes=(note, *files.notes)) if note else files


def paths(found: Changes) -> frozenset[str] | None:
    """Every path that was touched, a renamed file's old one too; None where that is not known."""
    if not found.known:
        return None
    return frozenset(p for f in found.files for p in (f.path, f.previous_path) if p)


def reference(settings: Settings, event: Event, client: Client | None, workspace: Path) -> str:
    """The merge-base, where it can be started from the clone; "" where it cannot.

    Only the workspace's own repository: what is started is started with paths of the workspace.

    Raises
    ------
    ConfigError
        The paths lie in different repositories.
    """
    if checkout.find(settings, event, workspace).root != workspace:
        return ""
    return base_tree.commit(workspace, event, client)


def _base(at: Checkout, event: Event, client: Client | None) -> tuple[Base, str]:
    """How files of the merge-base are read: from the clone where it reaches back that far, else
    from GitHub; with neither, every reading says so."""
    try:
        found = base_tree.merge_base(at.root, event, client)
    except GithubError as exc:
        reason = exc.happened

        def unreadable(path: str) -> None:
            raise GithubError(reason)

        return Base(unreadable, unreadable), ""
    of_client = None if found.is_cloned else client
    clone = _in(at.root, event, of_client, found.sha)
    is_same = found.sha == event.base_sha
    tip = None if is_same else _in(at.root, event, of_client, event.base_sha).read
    return replace(clone, tip=tip, is_ours=at.is_ours), found.note


def _in(root: Path, event: Event, client: Client | None, sha: str) -> Base:
    """A commit as GitHub has it where there is a ``client``, else as the clone has it."""
    if client is None:
        clone = git_base.GitBase(root, sha)
        return Base(clone.read, clone.folder)
    github = client

    def read(path: str) -> bytes | None:
        return contents.read(github, event.repository, path, sha, _MAX_FILE)

    def folder(path: str) -> Mapping[str, bytes] | None:
        return contents.folder(github, event.repository, path, sha)

    return Base(read, folder)
