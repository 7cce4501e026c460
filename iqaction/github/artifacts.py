"""Artifacts of runs: listed, downloaded, unpacked. I/O: writes only below a new folder.

An artifact is written by whoever could change the workflow's run, so nothing in it is believed:
not its sizes, not its names. It is unpacked within bounds, as plain files, or not at all.
"""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iqaction.archives import BOUNDS, CHUNK, Bounds, Names, unpacking
from iqaction.errors import EvidenceError, GithubError
from iqaction.github._reading import (
    branch,
    digits,
    field,
    instant,
    number,
    repository,
    sha,
    text,
)
from iqaction.github.client import Client
from iqaction.json_value import JSON

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Artifact:
    """One artifact. ``same_repository`` is False where a fork's commit was checked out, and where
    GitHub does not say."""

    id: int
    name: str
    size: int
    expired: bool
    created_at: str
    run_id: str
    head_sha: str
    digest: str
    same_repository: bool
    branch: str = ""


@dataclass(frozen=True)
class WorkflowRun:
    """The run that made an artifact, as far as one must know to trust it."""

    id: str
    attempt: int
    event: str
    status: str
    conclusion: str
    head_sha: str
    head_repository: str
    path: str
    branch: str = ""
    started_at: str = ""


def of_run(client: Client, repo: str, run_id: str) -> tuple[Artifact, ...]:
    """What one run uploaded, in GitHub's order.

    Raises
    ------
    GithubError
        When GitHub does not tell.
    """
    path = f"/repos/{repo}/actions/runs/{_run_number(run_id)}/artifacts"
    listed = client.pages(path, doing="list the artifacts of a run", key="artifacts", most=10)
    return tuple(_artifact(entry) for entry in listed)


def named(client: Client, repo: str, name: str, *, pages: int = 3) -> tuple[Artifact, ...]:
    """The newest artifacts of that name that runs of the repository's own commits uploaded and
    that can still be downloaded.

    Raises
    ------
    GithubError
        When GitHub does not tell.
    """
    found = []
    for page in range(1, pages + 1):
        body = client.get(
            f"/repos/{repo}/actions/artifacts",
            {"name": name, "per_page": 100, "page": page},
            doing="list the artifacts",
        )
        listed = field(body, "artifacts")
        if not isinstance(listed, list):
            raise GithubError("GitHub's answer to list the artifacts is no list")
        found += [_artifact(entry) for entry in listed]
        if len(listed) < 100:
            break
    return tuple(a for a in found if a.same_repository and not a.expired and a.name == name)


def run(client: Client, repo: str, run_id: str) -> WorkflowRun:
    """A workflow run.

    Raises
    ------
    GithubError
        When GitHub does not tell.
    """
    path = f"/repos/{repo}/actions/runs/{_run_number(run_id)}"
    body = client.get(path, doing="read a workflow run")
    return WorkflowRun(
        id=str(number(body, "id")),
        attempt=number(body, "run_attempt") or 1,
        event=text(body, "event"),
        status=text(body, "status"),
        conclusion=text(body, "conclusion"),
        head_sha=sha(text(body, "head_sha")),
        head_repository=repository(text(body, "head_repository", "full_name")),
        path=text(body, "path").partition("@")[0],
        branch=branch(text(body, "head_branch")),
        started_at=instant(text(body, "run_started_at")) or instant(text(body, "created_at")),
    )


def fetch(
    client: Client, repo: str, artifact: Artifact, folder: Path, bounds: Bounds = BOUNDS
) -> tuple[str, ...]:
    """Download an artifact and unpack it into the new folder ``folder``; its files' names.

    Raises
    ------
    GithubError
        When it cannot be downloaded whole.
    EvidenceError
        When it is no archive that can be unpacked safely. Nothing of it is then left behind.
    """
    return unpack(download(client, repo, artifact, bounds.packed), folder, bounds)


def download(client: Client, repo: str, artifact: Artifact, most: int) -> bytes:
    """An artifact's archive, of at most ``most`` bytes, as GitHub has hashed it.

    Raises
    ------
    GithubError
        When it cannot be downloaded whole.
    """
    data = client.download(
        f"/repos/{repo}/actions/artifacts/{artifact.id}/zip",
        doing="download an artifact",
        most=most,
    )
    kind, _, digest = artifact.digest.partition(":")
    if kind == "sha256" and hashlib.sha256(data).hexdigest() != digest:
        raise GithubError(
            "a downloaded artifact is not what GitHub says it is",
            expected=f"SHA-256 {digest[:12]}…",
            next_step="run it again",
        )
    return data


def unpack(data: bytes, folder: Path, bounds: Bounds = BOUNDS) -> tuple[str, ...]:
    """Unpack an archive into the new folder ``folder``; its files' names, in order.

    Raises
    ------
    EvidenceError
        As :func:`fetch`.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = list(_checked(archive.infolist(), bounds))
            with unpacking(folder, bounds, _refused) as out:
                for entry, name in entries:
                    with archive.open(entry) as packed:
                        out.write(name, iter(lambda: packed.read(CHUNK), b""))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as exc:
        raise _refused(f"it is no whole archive: {type(exc).__name__}") from exc
    except (OSError, ValueError, UnicodeError) as exc:
        raise _refused(f"it cannot be read: {type(exc).__name__}") from exc
    return tuple(name for _, name in entries)


def _checked(
    entries: list[zipfile.ZipInfo], bounds: Bounds
) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """The files with their names; folders are made as needed."""
    if len(entries) > bounds.files:
        raise _refused(f"it holds {len(entries):,} entries, more than {bounds.files:,}")
    if sum(e.file_size for e in entries) > bounds.unpacked:
        raise _refused(f"it unpacks to more than {bounds.unpacked:,} bytes")
    names = Names(bounds, _refused)
    for entry in entries:
        mode = entry.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused("it holds something that is neither a file nor a folder")
        if entry.flag_bits & 0x1 or entry.compress_type not in _METHODS:
            raise _refused("it is encrypted, or packed in an unusual way")
        # Where the two differ the name was cut at a NUL, or had a backslash.
        name = entry.filename.removesuffix("/") if entry.orig_filename == entry.filename else ""
        if entry.is_dir():
            names.check(name)
            continue
        yield entry, names.take(name)


def _refused(why: str) -> EvidenceError:
    return EvidenceError(
        f"an artifact is not unpacked: {why}",
        expected="the archive of an evidence folder, as the action uploads it",
        next_step="nothing of it was kept; run the workflow that makes it again",
    )


def _artifact(entry: JSON) -> Artifact:
    made_by = field(entry, "workflow_run")
    own, theirs = number(made_by, "repository_id"), number(made_by, "head_repository_id")
    return Artifact(
        id=number(entry, "id"),
        name=text(entry, "name"),
        size=number(entry, "size_in_bytes"),
        expired=field(entry, "expired") is not False,
        created_at=instant(text(entry, "created_at")),
        run_id=str(number(made_by, "id") or ""),
        head_sha=sha(text(made_by, "head_sha")),
        digest=text(entry, "digest"),
        same_repository=own == theirs != 0,
        branch=branch(text(made_by, "head_branch")),
    )


def _run_number(run_id: str) -> str:
    found = digits(run_id)
    if not found:
        raise GithubError("GitHub was to be asked about a run without its number")
    return found
