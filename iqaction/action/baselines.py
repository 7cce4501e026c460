"""Where a run's baseline comes from: the steps of the search, in order. I/O through its parts.

A path that is named; what is committed; an artifact of the base branch; the runner's own folder;
and else what the merge-base serves is started as the reference. Each that found nothing says why,
and the report shows it. A baseline that is named is not looked for anywhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from iqaction.action import again, base_tree, checkout, deciding, git_base, lookup, tokens
from iqaction.action.ancestry import Ancestry
from iqaction.action.job import Job
from iqaction.action.lookup import Asked, Found
from iqaction.action.protected import Protected
from iqaction.action.settings import NONE, Settings
from iqaction.action.work import REFUSE, Decision
from iqaction.errors import ConfigError, EvidenceError, GithubError
from iqaction.evidence import bundle
from iqaction.evidence.canon import shown
from iqaction.github.client import Client
from iqaction.github.event import Event
from iqaction.report import Difference
from iqaction.verdict import EXIT_CODE, Verdict

UNPROVEN = EXIT_CODE[Verdict.UNPROVEN]
_SECONDS = 300.0  # for all that is asked and downloaded
_MOST_SAID, _CHARACTERS = 48, 1_000


@dataclass(frozen=True)
class Search:
    """What a search is asked with. ``changed``: every path that the pull request touches, as GitHub
    says it; None where that is not known."""

    job: Job
    settings: Settings
    event: Event
    client: Client | None
    files: Protected
    changed: frozenset[str] | None = None


def resolved(search: Search, decision: Decision) -> Decision:
    """The decision with its baseline, or with the merge-base to start, or refused.

    Raises
    ------
    EvidenceError
        A baseline that is named cannot be opened, or is not the one that it must be.
    """
    settings, event = search.settings, search.event
    if "://" in search.files.named:  # a server that is up: it is asked in the same run
        return replace(decision, baseline=search.files.named)
    found = _named(search) if search.files.named else _searched(search, decision.suite)
    decision = _told(search.job, replace(decision, baseline=str(found.folder or "")), found)
    if found.by_inputs:
        decision = _by_inputs(search, decision)
    if decision.baseline or event.name not in deciding.PULL_REQUESTS:
        return decision
    base = ""
    if settings.boot != NONE and not settings.is_leg:
        base = deciding.reference(settings, event, search.client, search.job.workspace())
    if not base:
        reason = deciding.no_baseline(settings)
        return replace(decision, action=REFUSE, exit_code=UNPROVEN, reason=reason)
    said = "there is no baseline: the merge-base is started first, as the reference"
    started = Found(None, (f"the merge-base, {base[:12]}: is started first, as the reference",))
    decision = _told(search.job, replace(decision, base=base, reason=said), started)
    return _by_inputs(search, decision)


def _by_inputs(search: Search, decision: Decision) -> Decision:
    """The decision, capped where the pull request changes the workflow: both sides are started with
    its inputs, so that a flag that it adds to `boot_command` is in the reference as well."""
    event, workspace = search.event, search.job.workspace()
    path = event.workflow_path
    if event.name not in deciding.PULL_REQUESTS or not path:
        return decision
    changed: Collection[str] | None = search.changed
    if changed is None:
        base = _base(search, workspace)[0]
        changed = git_base.changed(workspace, base, again.checked_out(search.job))
    if changed is not None and path not in changed:
        return decision
    how = "changes" if changed is not None else "may change"
    said = (
        f"the pull request {how} the workflow, and the reference was started with this run's own "
        "inputs: what differs in them is on both sides, and was not measured (a baseline that was "
        "captured on the base branch has it measured)"
    )
    around = decision.circumstances
    differences = (*around.differences, Difference("baseline", path, said))
    return replace(decision, circumstances=replace(around, differences=differences))


def _told(job: Job, decision: Decision, found: Found) -> Decision:
    """The decision with what is to be said, which the log shows too."""
    if not found.searched:
        return decision
    with job.log.group("where the baseline comes from"), job.log.quiet():
        job.log.text("\n".join(found.searched))
    around = decision.circumstances
    # Names of files and branches are in it, and a runner's own words.
    said = (*around.searched, *(shown(line, _CHARACTERS) for line in found.searched))
    return replace(decision, circumstances=replace(around, searched=said[:_MOST_SAID]))


def _named(search: Search) -> Found:
    """The one that is named. Nowhere yet, as before the first capture, is none."""
    files, job = search.files, search.job
    if files.baseline is None:
        job.log.notice(f"baseline: {files.named} is neither at the merge-base nor in the checkout")
        return Found()
    if not files.baseline.exists():  # whoever reads it says so
        return Found(files.baseline)
    into = job.work.baseline / "named"
    return Found(bundle.opened(files.baseline, into, search.settings.baseline_sha256))


def _searched(search: Search, suite: str) -> Found:
    said: list[str] = []
    for found in _steps(search, suite):
        said += found.searched
        if found.folder is not None:
            return replace(found, searched=tuple(said))
    return Found(None, tuple(said))


def _steps(search: Search, suite: str) -> Iterator[Found]:
    """Each place that is looked in, no further than is asked for."""
    yield _committed(search)
    job, settings, event = search.job, search.settings, search.event
    root = _root(search)
    base, why = _base(search, root)
    if not base:
        yield Found(None, (f"artifacts, and what this runner keeps: {why}",))
        return
    # As long as it takes: what is downloaded is larger than what is told.
    client = tokens.client(job, _SECONDS)[0] if search.client else None
    is_relevant = deciding.relevance(settings, event, job.workspace())
    ancestry = Ancestry(root, event.repository, base, is_relevant, client)
    asked = Asked(job, settings, event, suite, ancestry)
    yield lookup.among_artifacts(asked, client)
    yield lookup.on_the_runner(asked)


def _committed(search: Search) -> Found:
    files = search.files
    if files.baseline is None:
        return Found(None, files.searched)
    try:
        folder = bundle.opened(files.baseline, search.job.work.baseline / "committed")
    except EvidenceError as exc:
        return Found(None, (*files.searched, f"committed: not taken, {exc.happened}"))
    return Found(folder, files.searched)


def _root(search: Search) -> Path:
    workspace = search.job.workspace()
    try:
        return checkout.find(search.settings, search.event, workspace).root
    except ConfigError:  # as where the judge's files are collected: any place will do
        return workspace


def _base(search: Search, root: Path) -> tuple[str, str]:
    """The commit that this run is compared with, or why that is not known."""
    event = search.event
    if event.name in deciding.PULL_REQUESTS:
        try:
            return base_tree.merge_base(root, event, search.client).sha, ""
        except GithubError as exc:
            return "", f"the merge-base is not known: {exc.happened}"
    if event.name == "push":  # what was there before it
        return event.base_sha, "" if event.base_sha else "the branch is new"
    return event.tested_sha, ""
