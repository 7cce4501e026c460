"""Reads a commit out of the local clone. I/O: starts ``git``, which only reads.

Nothing of the repository is run: no hook, no filter, no text conversion, no monitor; no
configuration but the clone's own is read, and nothing is fetched. Knows commits, paths and
bytes; not what is in the files.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iqaction.errors import ConfigError, GithubError

MAX_FILE = 64 * 1024 * 1024  # bytes, like the largest file we read elsewhere
MAX_FOLDER = 512 * 1024 * 1024
MAX_FILES = 10_000
TIMEOUT_S = 60.0
_SHA = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_ENTRY = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\d+|-)\t(.+)\Z", re.DOTALL)
_PLAIN = (b"100644", b"100755")
_ODD = {b"120000": "a symbolic link", b"160000": "a submodule", b"040000": "a folder"}
_SAID = 200  # characters of git's own words in an error


@dataclass(frozen=True)
class Done:
    """What a finished ``git`` said."""

    code: int
    out: bytes
    err: bytes = b""


Run = Callable[[Sequence[str], bytes], Done]


@dataclass(frozen=True)
class _Blob:
    path: str
    sha: str
    size: int


class GitBase:
    """The files of one commit, as :func:`iqaction.action.protected.collect` asks for them.

    Parameters
    ----------
    sha
        The commit's full hash.
    run
        Runs ``git`` with these arguments and this input.

    Raises
    ------
    GithubError
        Where the commit's files cannot be told: no git, no clone, or a clone without it.
    """

    def __init__(self, workspace: Path, sha: str, run: Run | None = None) -> None:
        self._sha = _checked(sha)
        self._run = run or _runner(workspace)

    def read(self, path: str) -> bytes | None:
        """A plain file's bytes; None where the commit has no such path."""
        # The trailing slash of a folder's name would list what is in it.
        entries = self._entries(path.rstrip("/"), recursive=False)
        if not entries:
            return None
        (blob,) = self._plain(entries)
        if blob.size > MAX_FILE:
            raise ConfigError(f"{path} at the merge-base: larger than {MAX_FILE} bytes")
        return self._contents([blob])[0]

    def folder(self, path: str) -> Mapping[str, bytes] | None:
        """All files below a folder by their path in it; None where the commit has none."""
        folder = path.rstrip("/") + "/"
        entries = self._entries(path.rstrip("/"), recursive=True)
        blobs = [b for b in self._plain(entries) if b.path.startswith(folder)]
        if not blobs:
            return None
        if len(blobs) > MAX_FILES or sum(b.size for b in blobs) > MAX_FOLDER:
            raise ConfigError(
                f"{path} at the merge-base: {len(blobs)} files",
                expected=f"at most {MAX_FILES} files of {MAX_FOLDER} bytes together",
            )
        contents = self._contents(blobs)
        return {b.path.removeprefix(folder): c for b, c in zip(blobs, contents, strict=True)}

    def _entries(self, path: str, *, recursive: bool) -> list[tuple[bytes, _Blob]]:
        """Mode and place of what the commit has under a path. A folder is one entry."""
        depth = ["-r"] if recursive else []
        out = self._git(["ls-tree", "-z", "-l", "--full-tree", *depth, self._sha, "--", path])
        found = []
        for line in out.split(b"\0"):
            match = _ENTRY.match(line)
            if match is None:
                if line:
                    raise GithubError(f"git lists a line that cannot be read: {line[:80]!r}")
                continue
            mode, _, sha, size, name = match.groups()
            text = os.fsdecode(name)
            known = int(size) if size != b"-" else 0
            found.append((mode, _Blob(text, sha.decode("ascii"), known)))
        return found

    def _plain(self, entries: Sequence[tuple[bytes, _Blob]]) -> list[_Blob]:
        for mode, blob in entries:
            if mode not in _PLAIN:
                raise ConfigError(
                    f"{blob.path[:120]} at the merge-base: it is {_ODD.get(mode, 'no plain file')}",
                    expected="a plain file",
                )
        return [blob for _, blob in entries]

    def _contents(self, blobs: Sequence[_Blob]) -> list[bytes]:
        asked = "".join(f"{b.sha}\n" for b in blobs).encode("ascii")
        out = self._git(["cat-file", "--batch"], asked)
        found, at = [], 0
        for blob in blobs:
            head = f"{blob.sha} blob {blob.size}\n".encode("ascii")
            end = at + len(head) + blob.size
            if out[at : at + len(head)] != head or out[end : end + 1] != b"\n":
                raise GithubError(
                    f"{blob.path[:120]}: the clone lacks the file's content",
                    next_step="check out without a filter (`filter:` of actions/checkout)",
                )
            content = out[at + len(head) : end]
            if not _is_named(blob.sha, content):
                raise GithubError(
                    f"{blob.path[:120]}: the clone's content is not what its hash says",
                    next_step="check out anew, in a clean workspace",
                )
            found.append(content)
            at = end + 1
        return found

    def _git(self, arguments: Sequence[str], given: bytes = b"") -> bytes:
        done = self._run(arguments, given)
        if done.code != 0:
            raise _failed(f"the commit {self._sha[:12]} cannot be read from the clone", done)
        return done.out


def merge_base(workspace: Path, a: str, b: str, run: Run | None = None) -> str | None:
    """The commit where two commits part; None where the clone's history does not tell.

    A shallow clone tells nothing: what it lacks may hold a later one.
    """
    run = run or _runner(workspace)
    if not (_SHA.match(a) and _SHA.match(b)):
        return None  # an event that names no commits
    try:
        shallow = run(["rev-parse", "--is-shallow-repository"], b"")
        if shallow.code != 0 or shallow.out.strip() != b"false":
            return None
        done = run(["merge-base", a, b], b"")
    except GithubError:
        return None
    found = done.out.decode("ascii", "replace").strip()
    return found if done.code == 0 and _SHA.match(found) else None


def holds(root: Path, commits: Iterable[str], run: Run | None = None) -> bool:
    """True where one of the commits is checked out there, or is in the history of what is.

    No submodule can hold the commit of the repository that it is in: each names the other's hash.
    """
    run = run or _runner(root)
    asked = [sha for sha in commits if _SHA.match(sha)]
    try:
        done = run(["rev-parse", "--verify", "HEAD^{commit}"], b"")
        if done.code != 0:
            return False
        if done.out.decode("ascii", "replace").strip() in asked:
            return True
        return any(run(["merge-base", "--is-ancestor", x, "HEAD"], b"").code == 0 for x in asked)
    except GithubError:
        return False


def is_ancestor(root: Path, old: str, new: str, run: Run | None = None) -> bool | None:
    """True where ``old`` is in the history of ``new``; None where the clone's does not tell."""
    run = run or _runner(root)
    if not (_SHA.match(old) and _SHA.match(new)):
        return None
    try:
        shallow = run(["rev-parse", "--is-shallow-repository"], b"")
        if shallow.code != 0 or shallow.out.strip() != b"false":
            return None
        code = run(["merge-base", "--is-ancestor", old, new], b"").code
    except GithubError:
        return None
    return {0: True, 1: False}.get(code)


def changed(root: Path, old: str, new: str, run: Run | None = None) -> tuple[str, ...] | None:
    """Every path that differs between two commits, a renamed file's both; None where the clone
    does not tell."""
    if not (_SHA.match(old) and _SHA.match(new)):
        return None
    try:
        asked = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", old, new]
        done = (run or _runner(root))(asked, b"")
    except GithubError:
        return None
    if done.code != 0:
        return None
    return tuple(os.fsdecode(path) for path in done.out.split(b"\0") if path)


def has(root: Path, sha: str, run: Run | None = None) -> bool:
    """True where the clone has the commit."""
    if not _SHA.match(sha):
        return False
    try:
        return (run or _runner(root))(["cat-file", "-e", f"{sha}^{{commit}}"], b"").code == 0
    except GithubError:
        return False


def _checked(sha: str) -> str:
    if not _SHA.match(sha):
        raise GithubError(f"{sha[:80]!r} is no commit's hash", expected="40 hexadecimal digits")
    return sha


def _is_named(sha: str, content: bytes) -> bool:
    """git does not look when it reads a file; whoever writes into the clone may have."""
    hashed = hashlib.sha1(usedforsecurity=False) if len(sha) == 40 else hashlib.sha256()
    hashed.update(b"blob %d\0" % len(content))
    hashed.update(content)
    return hashed.hexdigest() == sha


def _failed(what: str, done: Done) -> GithubError:
    said = done.err.decode("utf-8", "replace").strip().replace("\n", "; ")[:_SAID]
    return GithubError(
        f"{what}: {said or f'git exited with {done.code}'}",
        expected="a clone that holds it",
        next_step="check out with `fetch-depth: 0`, or let the token read `contents`",
    )


@dataclass(frozen=True)
class Command:
    """git on one workspace, as an argument list and the whole of its environment."""

    arguments: Sequence[str]
    environ: Mapping[str, str]


def command(workspace: Path, *arguments: str) -> Command:
    """git that reads one workspace, whoever owns it, and nothing around it; it runs no hook,
    fetches nothing and asks nobody."""
    fixed = [
        "git",
        *("-c", "safe.directory=*"),  # of a container's user, often
        *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
        *("-c", "protocol.allow=never"),
        # What else says how history goes, and is not in the commits themselves.
        *("-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false"),
        *("--no-pager", "--no-replace-objects", "--literal-pathspecs"),
        *("-C", str(workspace)),
    ]
    # A clean environment: GIT_DIR and its like would lead elsewhere.
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CEILING_DIRECTORIES": str(workspace.resolve().parent),
        "GIT_GRAFT_FILE": "/dev/null",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }
    return Command([*fixed, *arguments], env)


def _runner(workspace: Path) -> Run:
    def run(arguments: Sequence[str], given: bytes) -> Done:
        try:
            asked = command(workspace, *arguments)
            done = subprocess.run(  # noqa: S603 - an argument list of ours, no shell
                list(asked.arguments),
                input=given,
                capture_output=True,
                env=dict(asked.environ),
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise GithubError(f"git did not answer within {TIMEOUT_S:.0f} s") from exc
        except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
            raise GithubError(f"git cannot be run: {exc}", expected="git on the runner") from exc
        return Done(done.returncode, done.stdout, done.stderr)

    return run
