"""A folder of this user's for files that are fetched once. I/O; knows no file in it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from iqaction.errors import ConfigError


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where what was fetched is kept: a folder that exists and can be written.

    ``IQACTION_CACHE``, else ``inferquality`` under ``XDG_CACHE_HOME`` or ``~/.cache``; in a
    workflow under ``RUNNER_TOOL_CACHE`` instead, since a runner's home is somebody's and stays as
    it is. Else, where none of those can be written, a folder of this user's in the system's
    temporary folder.

    Raises
    ------
    ConfigError
        Where ``IQACTION_CACHE`` is set and cannot be written.
    """
    named = environ.get("IQACTION_CACHE", "")
    if named:
        folder = Path(named).absolute()
        if not _is_usable(folder):
            raise ConfigError(
                f"{folder}: cannot be written",
                expected="IQACTION_CACHE to name a folder for about 600 MB",
            )
        return folder
    if environ.get("GITHUB_ACTIONS") == "true":
        bases = [Path(environ.get("RUNNER_TOOL_CACHE", ""))]
    else:
        bases = [Path(environ.get("XDG_CACHE_HOME", "")), Path(environ.get("HOME", ""), ".cache")]
    for base in bases:
        # The XDG specification has relative paths ignored.
        if base.is_absolute() and _is_usable(base / "inferquality"):
            return base / "inferquality"
    folder = Path(tempfile.gettempdir(), f"inferquality-{os.getuid()}")
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        # Anyone may have made that name first, in a folder that all share.
        if folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
            folder.chmod(0o700)
            return folder
    return Path(tempfile.mkdtemp(prefix="inferquality-"))


def _is_usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
