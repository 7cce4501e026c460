"""Real clones for tests: `git` as a stranger's configuration does not change it, and commits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "x@example.invalid" for who in ("AUTHOR", "COMMITTER")
       for what in ("NAME", "EMAIL")},
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *arguments], env=ENV, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def committed(folder: Path, files: dict[str, str | None]) -> str:
    """Writes files (None removes one) and commits; a folder without a repository becomes one."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return git(folder, "rev-parse", "HEAD")
