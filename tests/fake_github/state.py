"""What the stand-in remembers, and how tests put things into it. Knows no HTTP.

Everything can be set through :meth:`State.set` with plain JSON, because the stand-in also runs as
a process of its own.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import time
from dataclasses import dataclass, field
from typing import Any

from fake_github.contract import contract

TOKENS = {"ghs_rw": ("app", True), "ghs_ro": ("app", False), "ghp_pat": ("pat", True)}
"""GITHUB_TOKEN with write, as a fork has it, and a personal access token: (kind, may write)."""

BOT = "github-actions[bot]"
SHA = "a" * 40  # the head of pull request 7, until a test says otherwise
BASE_SHA = "b" * 40


def now() -> str:
    """This second, as GitHub writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass
class Fault:
    """An answer that the stand-in gives instead of its own, ``times`` times.

    ``after``: the request is obeyed first and only its answer is replaced. ``drop``: no answer at
    all, the connection is closed. ``skip`` lets so many matching requests through before.
    """

    method: str = ""
    path_re: str = ""
    times: int = 1
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = field(default_factory=lambda: {"message": "a fault that the test asked for"})
    after: bool = False
    drop: bool = False
    skip: int = 0


@dataclass
class State:
    """One repository's worth of GitHub.

    Attributes
    ----------
    contents
        Commit -> path -> text, or ``{"base64": ...}``, ``{"symlink": target}``,
        ``{"submodule": sha}``.
    compares
        "base...head" -> ``{"status", "merge_base", "files"}``.
    artifacts
        Dictionaries with "id", "name", "run_id" and "zip" (base64); more is laid over the answer.
    violations
        What requests did against the contract. Tests assert that there is nothing in it.
    minimized
        Node ids of comments that were hidden.
    """

    repository: str = "acme/serve"
    app: dict[str, Any] = field(default_factory=lambda: {"id": 15368, "slug": "github-actions"})
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    checks: dict[int, dict[str, Any]] = field(default_factory=dict)
    annotations: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    pulls: dict[int, dict[str, Any]] = field(default_factory=lambda: {7: {}})
    commit_pulls: dict[str, list[int]] | None = None
    files: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    compares: dict[str, dict[str, Any]] = field(default_factory=dict)
    contents: dict[str, dict[str, Any]] = field(default_factory=dict)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    minimized: list[str] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1001))

    def set(self, what: str, value: Any) -> None:
        """Replace one part. Numbers as keys may be written as text, as JSON must.

        Raises
        ------
        KeyError
            When there is no such part.
        """
        if what == "faults":
            self.faults = [Fault(**f) for f in value]
        elif what == "comments":
            self.comments = {}
            for comment in value:
                self.add_comment(**comment)
        elif what in ("pulls", "files", "runs"):
            setattr(self, what, {int(k): v for k, v in value.items()})
        elif what in ("contents", "compares", "artifacts", "app", "repository", "commit_pulls"):
            setattr(self, what, value)
        else:
            raise KeyError(what)

    def shown(self) -> dict[str, Any]:
        """What a test in another process may want to know."""
        names = ("violations", "log", "minimized")
        return {
            "comments": list(self.comments.values()),
            "checks": list(self.checks.values()),
            "annotations": {str(k): v for k, v in self.annotations.items()},
            **{name: getattr(self, name) for name in names},
        }

    def add_comment(
        self,
        body: str,
        issue: int = 7,
        login: str = BOT,
        kind: str = "Bot",
        app: str = "",
        id: int = 0,
    ) -> dict[str, Any]:
        """A comment of anybody's; ``kind`` is "Bot" or "User"."""
        number = id or next(self.ids)
        made: dict[str, Any] = contract().example("issues/create-comment")
        made.update(
            id=number,
            node_id=f"IC_{number}",
            body=body,
            created_at=now(),
            updated_at=now(),
            url=f"https://api.github.com/repos/{self.repository}/issues/comments/{number}",
            html_url=f"https://github.com/{self.repository}/pull/{issue}#issuecomment-{number}",
            issue_url=f"https://api.github.com/repos/{self.repository}/issues/{issue}",
            author_association="NONE",
        )
        made["user"].update(login=login, type=kind, id=41898282)
        if app:
            made["performed_via_github_app"] = {
                **contract().example("checks/create")["app"],
                "slug": app,
            }
        self.comments[number] = made
        return made

    def add_check(self, **given: Any) -> dict[str, Any]:
        """A check run; unset it is in progress, and of our own app."""
        number = next(self.ids)
        made: dict[str, Any] = contract().example("checks/create")
        base = f"https://api.github.com/repos/{self.repository}/check-runs/{number}"
        made.update(
            id=number,
            url=base,
            html_url=f"https://github.com/{self.repository}/runs/{number}",
            details_url="",
            external_id="",
            status="queued",
            conclusion=None,
            started_at=now(),
            completed_at=None,
            pull_requests=[],
        )
        made["app"].update(self.app)
        made["output"] = {
            "title": None,
            "summary": None,
            "text": None,
            "annotations_count": 0,
            "annotations_url": f"{base}/annotations",
        }
        self.checks[number] = made
        self.annotations[number] = []
        self.change_check(number, given)
        return made

    def change_check(self, number: int, given: dict[str, Any]) -> None:
        """Apply what a create or an update says; annotations are added, never replaced."""
        made = self.checks[number]
        made.update({k: v for k, v in given.items() if k not in ("output", "app", "actions")})
        made["app"].update(given.get("app", {}))
        if given.get("conclusion"):
            made["status"] = "completed"
            made["completed_at"] = given.get("completed_at") or now()
        output = dict(given.get("output") or {})
        self.annotations[number] += output.pop("annotations", [])
        output.pop("images", None)
        made["output"].update(output)
        made["output"]["annotations_count"] = len(self.annotations[number])

    def entries(self, ref: str) -> dict[str, tuple[str, bytes]]:
        """Path -> (mode, data) of one commit.

        Raises
        ------
        KeyError
            When there is no such commit.
        """
        return {path: _entry(value) for path, value in self.contents[ref].items()}


def _entry(value: Any) -> tuple[str, bytes]:
    if isinstance(value, str):
        return "100644", value.encode()
    if "symlink" in value:
        return "120000", value["symlink"].encode()
    if "submodule" in value:
        return "160000", value["submodule"].encode()
    return "100644", base64.b64decode(value["base64"])


def blob_sha(data: bytes) -> str:
    """The name that git gives a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
