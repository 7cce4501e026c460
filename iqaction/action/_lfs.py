"""Files that git-lfs keeps outside the repository: git has a pointer in their place. Pure."""

from __future__ import annotations

import hashlib
import re

from iqaction.errors import GithubError

_MOST = 1024  # bytes; by its specification a pointer has fewer
_VERSION = b"version https://git-lfs.github.com/spec/v1\n"
_OID = re.compile(rb"^oid sha256:([0-9a-f]{64})$", re.MULTILINE)


def is_pointer(data: bytes) -> bool:
    """True for the text that stands for a file."""
    return len(data) < _MOST and data.startswith(_VERSION) and bool(_OID.search(data))


def content(pointer: bytes, workspace: bytes | None, path: str) -> bytes:
    """The file that a pointer stands for: the workspace's, where it is that.

    Raises
    ------
    GithubError
        It is another, or absent.
    """
    named = _OID.search(pointer)
    if workspace is not None and named:
        if hashlib.sha256(workspace).hexdigest().encode() == named[1]:
            return workspace
        now = "only a pointer too" if is_pointer(workspace) else "another file"
    else:
        now = "no such file"
    raise GithubError(
        f"{path} is kept by git-lfs, and the workspace has {now} (set `lfs: true` of "
        "actions/checkout; a file that differs from the merge-base's cannot be compared)"
    )
