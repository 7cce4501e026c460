"""The repository as it is where a pull request starts from, in a folder of its own. I/O.

For the case that there is no baseline yet: what serves the main branch today is started from
there, and is the reference of this one run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iqaction.action import git_base
from iqaction.errors import GithubError
from iqaction.github import changes
from iqaction.github.client import Client
from iqaction.github.event import Event

_TIMEOUT_S = 300.0
_SHA1 = 40  # characters
# Nothing is left out, put in or converted: with export-ignore the reference would lack files.
_AS_COMMITTED = "* -export-ignore -export-subst -filter -ident -text -eol -working-tree-encoding\n"


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
    """Write the files of the commit ``sha`` below the new folder ``into``, as they are committed.

    Submodules are not in it, and of files of git-lfs the pointers.

    Raises
    ------
    GithubError
        git cannot give them, their content is not what its hash says, or one of them would lie
        elsewhere.
    """
    into.mkdir(mode=0o700, parents=True)
    scratch = into.with_name(f"{into.name}-scratch")
    try:
        packed = _packed(workspace, sha, scratch)
        with tarfile.open(packed) as archive:
            # Links that lead out, devices and the like are refused; modes are made harmless.
            archive.extractall(into, filter="data")
    except (OSError, subprocess.SubprocessError, tarfile.TarError, TypeError) as exc:
        what = "this Python is too old to unpack safely" if isinstance(exc, TypeError) else exc
        raise GithubError(f"the files of {sha[:12]} cannot be unpacked: {what}") from exc
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _packed(workspace: Path, sha: str, scratch: Path) -> Path:
    """The commit's files as a tar, from a repository of our own that holds its objects alone.

    Not from the clone: its configuration may name filters, which git would run, and what lies
    there under an object's name is believed. A pack that is indexed is hashed anew.
    """
    bare, objects, packed = (scratch / name for name in ("git", "objects", "packed"))
    scratch.mkdir(mode=0o700)
    kind = () if len(sha) == _SHA1 else ("--object-format=sha256",)
    _git(workspace, sha, ("init", "-q", "--bare", "--template=", *kind, str(bare)))
    _git(workspace, sha, ("rev-list", "--objects", "--no-walk", sha), write=objects)
    _git(workspace, sha, ("pack-objects", "-q", "--stdout"), read=objects, write=packed)
    _git(bare, sha, ("index-pack", "--stdin"), read=packed)
    (bare / "info").mkdir(exist_ok=True)
    (bare / "info/attributes").write_text(_AS_COMMITTED)
    (bare / "shallow").write_text(f"{sha}\n")  # its parents were not asked for
    _git(bare, sha, ("archive", "--format=tar", sha), write=packed)
    return packed


def _git(
    repository: Path,
    sha: str,
    arguments: Sequence[str],
    *,
    read: Path = Path(os.devnull),
    write: Path = Path(os.devnull),
) -> None:
    command = git_base.command(repository, *arguments)
    with read.open("rb") as given, write.open("wb") as out:
        done = subprocess.run(  # noqa: S603 - an argument list of ours, no shell
            list(command.arguments),
            env=dict(command.environ),
            stdin=given,
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise GithubError(f"git cannot give the files of {sha[:12]}: {said}")
