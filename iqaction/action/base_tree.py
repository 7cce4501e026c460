"""The repository as it is where a pull request starts from, in a folder of its own. I/O.

For the case that there is no baseline yet: what serves the main branch today is started from
there, and is the reference of this one run.
"""

from __future__ import annotations

import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from iqaction.action import git_base
from iqaction.errors import GithubError
from iqaction.github import changes
from iqaction.github.client import Client
from iqaction.github.event import Event

_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class MergeBase:
    """Where a pull request starts from; ``is_cloned`` where the clone can be believed about it."""

    sha: str
    is_cloned: bool
    note: str = ""


def merge_base(root: Path, event: Event, client: Client | None) -> MergeBase:
    """As the clone in ``root`` says, where it reaches back that far and GitHub says nothing else.

    A step of the job may have written into the clone; GitHub's word is nobody's.

    Raises
    ------
    GithubError
        Neither tells.
    """
    cloned = git_base.merge_base(root, event.base_sha, event.head_sha)
    if client is None:
        if cloned:
            return MergeBase(cloned, True)
        raise GithubError("the clone is shallow, and there is no token to ask GitHub with")
    try:
        told = changes.merge_base(client, event)
    except GithubError:
        if cloned:
            return MergeBase(cloned, True)
        raise
    note = ""
    if cloned and cloned != told:
        note = f"the clone's merge-base is {cloned[:12]}, GitHub's is {told[:12]}, which is used"
    return MergeBase(told, told == cloned, note)


def commit(workspace: Path, event: Event, client: Client | None = None) -> str:
    """The merge-base, where the clone reaches back to it; "" where it does not."""
    if git_base.merge_base(workspace, event.base_sha, event.head_sha) is None:
        return ""
    try:
        sha = merge_base(workspace, event, client).sha
    except GithubError:
        return ""
    return sha if git_base.has(workspace, sha) else ""


def unpack(workspace: Path, sha: str, into: Path) -> None:
    """Write the files of the commit ``sha`` below the new folder ``into``.

    Submodules and files of git-lfs are not in it.

    Raises
    ------
    GithubError
        git cannot give them, or one of them would lie elsewhere.
    """
    into.mkdir(mode=0o700, parents=True)
    packed = into.with_suffix(".tar")
    command = git_base.command(workspace, "archive", "--format=tar", f"--output={packed}", sha)
    try:
        done = subprocess.run(  # noqa: S603 - an argument list of ours, no shell
            list(command.arguments),
            env=dict(command.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-300:]
            raise GithubError(f"git cannot give the files of {sha[:12]}: {said}")
        with tarfile.open(packed) as archive:
            # Links that lead out, devices and the like are refused; modes are made harmless.
            archive.extractall(into, filter="data")
    except (OSError, subprocess.SubprocessError, tarfile.TarError, TypeError) as exc:
        what = "this Python is too old to unpack safely" if isinstance(exc, TypeError) else exc
        raise GithubError(f"the files of {sha[:12]} cannot be unpacked: {what}") from exc
    finally:
        packed.unlink(missing_ok=True)
