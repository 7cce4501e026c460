"""The merge-base out of the local clone: right bytes, and nothing of the repository is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from unit.action.clones import git

from iqaction.action import git_base
from iqaction.action.git_base import Done, GitBase, merge_base
from iqaction.errors import ConfigError, GithubError

Commit = Callable[..., str]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture
def commit(repo: Path) -> Commit:
    """Writes files (text, bytes, or None to remove one) and commits; returns the hash."""

    def commit(**files: str | bytes | None) -> str:
        return commit_paths(repo, {k.replace("__", "/"): v for k, v in files.items()})

    return commit


def commit_paths(repo: Path, files: dict[str, str | bytes | None]) -> str:
    for name, content in files.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(repo, "add", "-A", "-f")
    git(repo, "commit", "-q", "--allow-empty", "-m", "x")
    return git(repo, "rev-parse", "HEAD")


def test_read(repo: Path, commit: Commit) -> None:
    """The bytes are the commit's, whatever the workspace holds now."""
    sha = commit(ci__plan="old\r\n\x00")
    commit(ci__plan=None)

    assert GitBase(repo, sha).read("ci/plan") == b"old\r\n\x00"


@pytest.mark.parametrize("path", ["nothing", "ci/nothing", "a/b", "ci/plan/x", ".", ".."])
def test_read__absent(repo: Path, commit: Commit, path: str) -> None:
    """What the commit does not have is None, and no path leads out of it."""
    sha = commit(ci__plan="x", a="y")

    if path in (".", ".."):
        with pytest.raises((ConfigError, GithubError)):
            GitBase(repo, sha).read(path)
    else:
        assert GitBase(repo, sha).read(path) is None


@pytest.mark.parametrize(
    "name", ["-p", "--help", ":(top)x", ":x", "a b", "*", "?", "[a]", "a\nb", "é", "$(x)", "a\\b"]
)
def test_read__odd_names(repo: Path, name: str) -> None:
    """A name is a name: no option, no pattern, no revision."""
    sha = commit_paths(repo, {name: "right", "abc": "wrong", "x": "wrong"})

    assert GitBase(repo, sha).read(name) == b"right"


def test_read__name_that_is_no_text(repo: Path, commit: Commit) -> None:
    """A NUL cannot be asked for; it is told, not raised as a bug."""
    sha = commit(a="x")

    with pytest.raises(GithubError, match="cannot be run"):
        GitBase(repo, sha).read("a\x00b")


@pytest.mark.parametrize(
    ("target", "said"), [("plan.yml", "a symbolic link"), ("/etc/passwd", "a symbolic link")]
)
def test_read__link(repo: Path, commit: Commit, target: str, said: str) -> None:
    """A link is refused: what it names is another file."""
    (repo / "link").symlink_to(target)
    sha = commit(a="x")

    with pytest.raises(ConfigError, match=said):
        GitBase(repo, sha).read("link")


def test_read__folder(repo: Path, commit: Commit) -> None:
    """A folder is no file, with and without the slash."""
    sha = commit(ci__plan="x")

    for name in ("ci", "ci/"):
        with pytest.raises(ConfigError, match="a folder"):
            GitBase(repo, sha).read(name)


def test_read__executable(repo: Path, commit: Commit) -> None:
    """A file with its execute bit is a plain file."""
    (repo / "run.sh").write_text("x")
    (repo / "run.sh").chmod(0o755)
    sha = commit(a="x")

    assert GitBase(repo, sha).read("run.sh") == b"x"


def test_read__too_large(repo: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are asked before contents."""
    monkeypatch.setattr(git_base, "MAX_FILE", 3)
    sha = commit(a="1234")

    with pytest.raises(ConfigError, match="larger than 3 bytes"):
        GitBase(repo, sha).read("a")


def test_read__unknown_commit(repo: Path, commit: Commit) -> None:
    """A commit that the clone lacks cannot be compared with, and the advice says what helps."""
    commit(a="x")

    with pytest.raises(GithubError) as caught:
        GitBase(repo, "1" * 40).read("a")

    assert "fetch-depth: 0" in str(caught.value)


@pytest.mark.parametrize("sha", ["", "HEAD", "--help", "1" * 39, "A" * 40, "1" * 40 + "\n"])
def test_read__no_hash(repo: Path, sha: str) -> None:
    """Only a full hash names a commit."""
    with pytest.raises(GithubError, match="no commit's hash"):
        GitBase(repo, sha)


def test_read__no_repository(tmp_path: Path) -> None:
    """No clone, and not one of the folders above it either."""
    git(tmp_path, "init", "-q")
    sha = commit_paths(tmp_path, {"a": "x"})
    (tmp_path / "work").mkdir()

    with pytest.raises(GithubError, match="not a git repository"):
        GitBase(tmp_path / "work", sha).read("a")


def test_read__nothing_is_run(
    repo: Path, commit: Commit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filters, text conversions, hooks, monitors, pagers and aliases of the clone are not run,
    and the environment's GIT_DIR leads nowhere."""
    ran = tmp_path / "ran"
    sha = commit(plan="the plan\n", **{".gitattributes": "* filter=evil diff=evil\n"})
    for key in ("filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv", "core.pager",
                "core.fsmonitor", "core.sshCommand", "alias.ls-tree", "core.askPass"):  # fmt: skip
        git(repo, "config", key, f"touch {ran}; cat")
    for hook in (repo / ".git" / "hooks", repo):
        (hook / "post-checkout").write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hook / "post-checkout").chmod(0o755)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {ran}")

    assert GitBase(repo, sha).read("plan") == b"the plan\n"
    assert GitBase(repo, sha).folder("plan") is None
    assert merge_base(repo, sha, sha) == sha
    assert not ran.exists()


def test_folder(repo: Path, commit: Commit) -> None:
    """All files below it, by their path in it; a name that only begins alike is another."""
    sha = commit(base__a="1", base__deep__b=b"\x00\n\xff", baseline__c="3", d="4")
    commit(base__a="changed")

    assert GitBase(repo, sha).folder("base") == {"a": b"1", "deep/b": b"\x00\n\xff"}
    assert GitBase(repo, sha).folder("base/") == {"a": b"1", "deep/b": b"\x00\n\xff"}
    assert GitBase(repo, sha).folder("bas") is None
    assert GitBase(repo, sha).folder("d") is None


def test_folder__empty_files_and_twins(repo: Path, commit: Commit) -> None:
    """Files of the same content, and empty ones, are all there."""
    sha = commit(base__a="", base__b="", base__c="x\n", base__d="x\n")

    assert GitBase(repo, sha).folder("base") == {"a": b"", "b": b"", "c": b"x\n", "d": b"x\n"}


def test_folder__link(repo: Path, commit: Commit) -> None:
    """A link in a baseline is refused, not left out."""
    (repo / "base").mkdir()
    (repo / "base" / "link").symlink_to("/etc/passwd")
    sha = commit(base__a="x")

    with pytest.raises(ConfigError, match="base/link at the merge-base: it is a symbolic link"):
        GitBase(repo, sha).folder("base")


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 1), ("MAX_FOLDER", 3)])
def test_folder__too_large(
    repo: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """The number of files and their size together are bounded."""
    monkeypatch.setattr(git_base, limit, value)
    sha = commit(base__a="12", base__b="34")

    with pytest.raises(ConfigError, match="2 files"):
        GitBase(repo, sha).folder("base")


def test_folder__content_is_not_in_the_clone(repo: Path, commit: Commit) -> None:
    """A clone that was filtered lacks contents: told as such, and nothing is fetched."""
    sha = commit(base__a="x")
    blob = git(repo, "rev-parse", "HEAD:base/a")
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(GithubError):
        GitBase(repo, sha).folder("base")


def runs(*answers: Done) -> Callable[[Sequence[str], bytes], Done]:
    left = list(answers)
    return lambda *_: left.pop(0)


SHA = "1" * 40
LISTED = f"100644 blob {SHA}       2\ta\0".encode()


@pytest.mark.parametrize(
    "answers",
    [
        [Done(0, b"what\0")],
        [Done(0, LISTED), Done(0, f"{SHA} missing\n".encode())],
        [Done(0, LISTED), Done(0, f"{SHA} blob 3\nabc\n".encode())],
        [Done(0, LISTED), Done(0, f"{SHA} blob 2\na".encode())],
        [Done(0, LISTED), Done(0, b"")],
        [Done(0, LISTED), Done(128, b"", b"fatal: \xff")],
        [Done(-9, b"")],
    ],
)
def test_read__git_says_something_else(tmp_path: Path, answers: list[Done]) -> None:
    """What git was not asked for is an error, never a shorter file."""
    with pytest.raises(GithubError):
        GitBase(tmp_path, SHA, runs(*answers)).read("a")


def test_run__no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner without git is told so."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(GithubError, match="git on the runner"):
        GitBase(tmp_path, SHA).read("a")


def test_run__takes_too_long(repo: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that hangs is ended."""
    sha = commit(a="x")
    monkeypatch.setattr(git_base, "TIMEOUT_S", 0.0)

    with pytest.raises(GithubError, match="did not answer"):
        GitBase(repo, sha).read("a")


def test_merge_base(repo: Path, commit: Commit) -> None:
    """Where two branches part."""
    start = commit(a="1")
    left = commit(b="2")
    git(repo, "checkout", "-q", "-b", "other", start)
    right = commit(c="3")

    assert merge_base(repo, left, right) == start
    assert merge_base(repo, left, start) == start


def test_merge_base__unknown(repo: Path, commit: Commit, tmp_path: Path) -> None:
    """Unrelated, unknown, or no repository: nobody can tell."""
    one = commit(a="1")
    git(repo, "checkout", "-q", "--orphan", "alone")
    two = commit(b="2")

    assert merge_base(repo, one, two) is None
    assert merge_base(repo, one, "1" * 40) is None
    assert merge_base(repo, "", "--help") is None
    assert merge_base(tmp_path, one, two) is None


def test_merge_base__shallow(repo: Path, commit: Commit, tmp_path: Path) -> None:
    """A shallow clone does not say, even where it knows both commits."""
    commit(a="0")
    start = commit(a="1")
    end = commit(b="2")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repo}", "shallow")

    assert merge_base(tmp_path / "shallow", start, end) is None
    assert GitBase(tmp_path / "shallow", end).read("b") == b"2"


def test_merge_base__git_fails(tmp_path: Path) -> None:
    """Whatever git says that is no hash is no answer."""
    no = Done(0, b"false\n")

    assert merge_base(tmp_path, SHA, SHA, runs(no, Done(0, b"--help"))) is None
    assert merge_base(tmp_path, SHA, SHA, runs(no, Done(1, SHA.encode()))) is None
    assert merge_base(tmp_path, SHA, SHA, runs(Done(0, b"true\n"))) is None

    def broken(*_: object) -> Done:
        raise GithubError("no git")

    assert merge_base(tmp_path, SHA, SHA, broken) is None


def test_read__the_clone_lies(repo: Path, commit: Commit) -> None:
    """A file that is in the clone under another's hash is not taken for it."""
    sha = commit(a="the plan", b="another")
    objects = repo / ".git" / "objects"
    plan, other = (git(repo, "rev-parse", f"HEAD:{x}") for x in "ab")
    there = objects / plan[:2] / plan[2:]
    there.chmod(0o600)
    there.write_bytes((objects / other[:2] / other[2:]).read_bytes())

    with pytest.raises(GithubError):
        GitBase(repo, sha).read("a")


def test_read__content_of_another_hash(tmp_path: Path) -> None:
    """Its name is what a content hashes to, whatever git says."""
    answers = Done(0, LISTED), Done(0, f"{SHA} blob 2\nab\n".encode())

    with pytest.raises(GithubError, match="not what its hash says"):
        GitBase(tmp_path, SHA, runs(*answers)).read("a")


def test_holds(repo: Path, commit: Commit, tmp_path: Path) -> None:
    """What is checked out, and what it stands on; no name, and no commit of another branch."""
    first = commit(a="1")
    second = commit(a="2")
    git(repo, "checkout", "-q", first)

    assert git_base.holds(repo, [first])
    assert not git_base.holds(repo, [second, "HEAD", ""])
    git(repo, "checkout", "-q", second)
    assert git_base.holds(repo, ["1" * 40, first])
    assert not git_base.holds(tmp_path, [first])
    assert git_base.has(repo, first)
    assert not git_base.has(repo, "HEAD")
    assert not git_base.has(tmp_path, first)
