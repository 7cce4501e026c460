"""How older commits stand to the merge-base: from GitHub, else from the clone. I/O.

GitHub's word is nobody's, while a step of the job may have written into the clone; so the clone
is believed only where GitHub does not tell, and where it reaches back that far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from iqaction.action import git_base
from iqaction.action.choosing import ANCESTOR, OTHER, SAME, UNKNOWN, Standing
from iqaction.errors import GithubError
from iqaction.github import changes
from iqaction.github.client import Client

_MOST_ASKED = 12  # commits; each is a request


@dataclass
class Ancestry:
    """What is known about commits before one; each is asked about once.

    Attributes
    ----------
    base
        The merge-base.
    is_relevant
        Whether a change of a path matters.
    """

    root: Path
    repository: str
    base: str
    is_relevant: Callable[[str], bool]
    client: Client | None = None
    _known: dict[str, Standing] = field(default_factory=dict)

    def of(self, sha: str) -> Standing:
        """How a commit stands to the base."""
        if sha == self.base:
            return Standing(SAME)
        if sha not in self._known:
            self._known[sha] = self._asked(sha)
        return self._known[sha]

    def _asked(self, sha: str) -> Standing:
        reason = "there is no token to ask GitHub with, and the clone does not reach back that far"
        if self.client is not None and len(self._known) < _MOST_ASKED:
            try:
                found = self._of_github(self.client, sha)
            except GithubError as exc:
                reason = exc.happened
            else:
                if found.relation == OTHER or found.changed is not None:
                    return found
                reason = found.reason
        return self._of_clone(sha) or Standing(UNKNOWN, None, reason)

    def _of_github(self, client: Client, sha: str) -> Standing:
        told = changes.compare(client, self.repository, sha, self.base)
        if told.status not in ("ahead", "identical") or told.merge_base != sha:
            return Standing(OTHER)
        if not told.changes.known:
            return Standing(ANCESTOR, None, told.changes.reason)
        paths = (p for f in told.changes.files for p in (f.path, f.previous_path) if p)
        return Standing(ANCESTOR, self._relevant(paths))

    def _of_clone(self, sha: str) -> Standing | None:
        found = git_base.is_ancestor(self.root, sha, self.base)
        if found is None:
            return None
        if not found:
            return Standing(OTHER)
        paths = git_base.changed(self.root, sha, self.base)
        return None if paths is None else Standing(ANCESTOR, self._relevant(paths))

    def _relevant(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p for p in paths if self.is_relevant(p)))
