"""Copies of folders that are anybody's: plain files within bounds, or nothing. I/O."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from iqaction.errors import EvidenceError

_MAX_BYTES, _MAX_FILES = 1 << 30, 5_000


def copy(theirs: Path, place: Path) -> None:
    """The plain files of a folder, in the new folder ``place``; what lies there is uploaded, or
    judges.

    Raises
    ------
    EvidenceError
        There is a link or a device in it, or it is too large.
    """
    size = count = 0
    for path in sorted(theirs.rglob("*")):
        mode = path.lstat().st_mode
        size, count = size + path.lstat().st_size, count + 1
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise EvidenceError("it holds something that is neither file nor folder")
        if size > _MAX_BYTES or count > _MAX_FILES:
            raise EvidenceError(f"it holds more than {_MAX_BYTES:,} bytes or {_MAX_FILES:,} files")
    shutil.copytree(theirs, place, symlinks=True, ignore=shutil.ignore_patterns(".lock"))
