"""Files of a commit, read through the API: what a change's judge is read from. I/O.

The working tree is the pull request's; these files are another commit's, so they are asked for.
Absent is told apart from not readable: only a commit that can be read can lack a file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from iqaction.errors import ConfigError, GithubError
from iqaction.github._reading import field, items, number, sha, text
from iqaction.github.client import Client
from iqaction.json_value import JSON

_MOST_PATH = 1_000
_LINK, _SUBMODULE = "120000", "160000"


@dataclass(frozen=True)
class Bounds:
    """How much of a folder is read: files, bytes of one, bytes of all."""

    files: int = 2_000
    file_bytes: int = 64 << 20
    total_bytes: int = 256 << 20


_BOUNDS = Bounds()


def read(client: Client, repository: str, path: str, ref: str, max_bytes: int) -> bytes | None:
    """The file at ``path`` in the commit ``ref``; None where that commit has none.

    Raises
    ------
    ConfigError
        When ``path`` leads out of the repository.
    GithubError
        When it cannot be told, is no file, or is larger than ``max_bytes``.
    """
    where = _inside(path)
    doing = f"read {path} of {ref[:12]}"
    try:
        found = client.get(
            f"/repos/{repository}/contents/{quote(where)}", {"ref": _commit(ref)}, doing=doing
        )
    except GithubError as exc:
        if exc.status != 404:
            raise
        _tree(client, repository, ref)  # or the commit itself is what cannot be seen
        return None
    if text(found, "type") != "file":
        raise GithubError(f"{path} of {ref[:12]} is no file", expected="a plain file")
    if number(found, "size") > max_bytes:
        raise _too_large(path, number(found, "size"), max_bytes)
    if text(found, "encoding") != "base64":  # over 1 MiB GitHub leaves the content out
        return _blob(client, repository, text(found, "sha"), path, max_bytes)
    try:
        data = base64.b64decode(text(found, "content").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or len(data) != number(found, "size"):
        raise GithubError(f"GitHub's answer to {doing} is not whole")
    return data


def folder(
    client: Client, repository: str, path: str, ref: str, bounds: Bounds = _BOUNDS
) -> Mapping[str, bytes] | None:
    """Every file below ``path`` in the commit ``ref``, by its path within; None where that
    commit has no such folder.

    Raises
    ------
    ConfigError
        When ``path`` leads out of the repository.
    GithubError
        When it cannot be told, holds a link or a submodule, or is larger than ``bounds``.
    """
    tree: JSON = _tree(client, repository, ref)
    for part in _inside(path).split("/"):
        entry = next((e for e in items(tree, "tree") if text(e, "path") == part), None)
        if entry is None:
            return None
        if text(entry, "type") != "tree":
            raise GithubError(f"{path} of {ref[:12]} is no folder", expected="a folder of files")
        tree = _tree(client, repository, text(entry, "sha"))
    whole = _tree(client, repository, text(tree, "sha"), recursive=True)
    listed = _listed(whole, path, bounds)
    return {
        name: _blob(client, repository, blob, f"{path}/{name}", bounds.file_bytes)
        for name, blob in listed.items()
    }


def _listed(tree: JSON, path: str, bounds: Bounds) -> dict[str, str]:
    """Path -> blob of what a folder holds."""
    found: dict[str, str] = {}
    total = 0
    for entry in items(tree, "tree"):
        if text(entry, "type") == "tree":
            continue
        name = text(entry, "path")
        if text(entry, "mode") in (_LINK, _SUBMODULE) or text(entry, "type") != "blob":
            raise GithubError(
                f"{path} holds a link or a submodule", expected="plain files and folders"
            )
        try:
            inner = _inside(name)
        except ConfigError:
            inner = ""
        if not inner or inner in found:
            raise GithubError(f"GitHub lists a file of {path} under an impossible name")
        found[inner] = text(entry, "sha")
        total += number(entry, "size")
        if len(found) > bounds.files or total > bounds.total_bytes:
            raise GithubError(
                f"{path} is too large to be read through the API",
                expected=f"at most {bounds.files:,} files and {bounds.total_bytes:,} bytes",
            )
    return found


def _tree(client: Client, repository: str, ref: str, *, recursive: bool = False) -> JSON:
    found = client.get(
        f"/repos/{repository}/git/trees/{_commit(ref)}",
        {"recursive": 1} if recursive else None,
        doing=f"list the files of {ref[:12]}",
    )
    if field(found, "truncated") is not False:
        raise GithubError(
            f"GitHub lists only a part of the files of {ref[:12]}",
            expected="a folder of at most 100,000 files",
        )
    return found


def _blob(client: Client, repository: str, blob: str, path: str, most: int) -> bytes:
    """One file's content, which must be what its name in git says."""
    doing = f"read {path}"
    data = client.raw(f"/repos/{repository}/git/blobs/{_commit(blob)}", doing=doing, most=most)
    hashed = hashlib.sha1(usedforsecurity=False) if len(blob) == 40 else hashlib.sha256()
    hashed.update(b"blob %d\0" % len(data) + data)
    if hashed.hexdigest() != blob:
        raise GithubError(f"GitHub's answer to {doing} is not whole")
    return data


def _commit(ref: str) -> str:
    found = sha(ref)
    if not found:
        raise GithubError(
            "GitHub was to be asked about a commit without its name",
            expected="40 or 64 hexadecimal digits",
        )
    return found


def _inside(path: str) -> str:
    """``path`` where it stays within the repository."""
    parts = path.split("/")
    bad = any(p in ("", ".", "..") for p in parts) or "\\" in path or len(path) > _MOST_PATH
    if bad or not path.isprintable():
        raise ConfigError(
            f"{path[:100]!r} is no path within the repository",
            expected="a path as configs/plan.yml, without `..`, from the repository's root",
        )
    return path


def _too_large(path: str, size: int, most: int) -> GithubError:
    return GithubError(f"{path} has {size:,} bytes", expected=f"at most {most:,}")
