"""Artifacts of runs: listed, downloaded, unpacked. I/O: writes only below a new folder.

An artifact is written by whoever could change the workflow's run, so nothing in it is believed:
not its sizes, not its names. It is unpacked within bounds, as plain files, or not at all.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iqaction.errors import EvidenceError, GithubError
from iqaction.github._reading import digits, field, instant, number, repository, sha, text
from iqaction.github.client import Client
from iqaction.json_value import JSON

_CHUNK = 1 << 16
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_NAME_BYTES, _DEPTH = 200, 12
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{d}{i}" for d in ("com", "lpt") for i in range(1, 10)))
)


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


@dataclass(frozen=True)
class Bounds:
    """Of an archive: packed bytes, unpacked bytes of all, and files."""

    packed: int = 256 << 20
    unpacked: int = 1 << 30
    files: int = 5_000


_BOUNDS = Bounds()


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
    )


def fetch(
    client: Client, repo: str, artifact: Artifact, folder: Path, bounds: Bounds = _BOUNDS
) -> tuple[str, ...]:
    """Download an artifact and unpack it into the new folder ``folder``; its files' names.

    Raises
    ------
    GithubError
        When it cannot be downloaded whole.
    EvidenceError
        When it is no archive that can be unpacked safely. Nothing of it is then left behind.
    """
    data = client.download(
        f"/repos/{repo}/actions/artifacts/{artifact.id}/zip",
        doing="download an artifact",
        most=bounds.packed,
    )
    kind, _, digest = artifact.digest.partition(":")
    if kind == "sha256" and hashlib.sha256(data).hexdigest() != digest:
        raise GithubError(
            "a downloaded artifact is not what GitHub says it is",
            expected=f"SHA-256 {digest[:12]}…",
            next_step="run it again",
        )
    return unpack(data, folder, bounds)


def unpack(data: bytes, folder: Path, bounds: Bounds = _BOUNDS) -> tuple[str, ...]:
    """Unpack an archive into the new folder ``folder``; its files' names, in order.

    Raises
    ------
    EvidenceError
        As :func:`fetch`.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = list(_checked(archive.infolist(), bounds))
            _make(folder)
            try:
                _write(archive, entries, folder, bounds)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as exc:
        raise _refused(f"it is no whole archive: {type(exc).__name__}") from exc
    except (OSError, ValueError, UnicodeError) as exc:
        raise _refused(f"it cannot be written: {type(exc).__name__}") from exc
    return tuple(name for _, name in entries)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as exc:
        raise EvidenceError(
            f"{folder}: cannot be made: {exc.strerror}", expected="a new folder to unpack into"
        ) from exc


def _checked(
    entries: list[zipfile.ZipInfo], bounds: Bounds
) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """The files with their names; folders are made as needed."""
    if len(entries) > bounds.files:
        raise _refused(f"it holds {len(entries):,} entries, more than {bounds.files:,}")
    if sum(e.file_size for e in entries) > bounds.unpacked:
        raise _refused(f"it unpacks to more than {bounds.unpacked:,} bytes")
    seen: set[str] = set()
    for entry in entries:
        mode = entry.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused("it holds something that is neither a file nor a folder")
        if entry.flag_bits & 0x1 or entry.compress_type not in _METHODS:
            raise _refused("it is encrypted, or packed in an unusual way")
        name = _name(entry)
        if entry.is_dir():
            continue
        # The same file under another spelling would be written twice on some file systems.
        spelled = unicodedata.normalize("NFC", name).casefold()
        if spelled in seen:
            raise _refused("it holds a file twice")
        seen.add(spelled)
        yield entry, name


def _name(entry: zipfile.ZipInfo) -> str:
    name = entry.filename.removesuffix("/")
    parts = name.split("/")
    fine = (
        entry.orig_filename == entry.filename  # else it is cut at a NUL, or had a backslash
        and len(parts) <= _DEPTH
        and name.isprintable()
        and not set(name) & set('\\:*?"<>|')
        and all(_fits(p) for p in parts)
    )
    if not fine:
        raise _refused("it holds a name that leads elsewhere, or that not every system can store")
    return name


def _fits(part: str) -> bool:
    stem = part.partition(".")[0].rstrip().lower()
    plain = part not in ("", ".", "..") and not part.endswith((".", " "))
    return plain and stem not in _RESERVED and len(part.encode()) <= _NAME_BYTES


def _write(
    archive: zipfile.ZipFile,
    entries: list[tuple[zipfile.ZipInfo, str]],
    folder: Path,
    bounds: Bounds,
) -> None:
    left = bounds.unpacked
    for entry, name in entries:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with archive.open(entry) as packed, os.fdopen(os.open(path, new, 0o600), "wb") as out:
            while piece := packed.read(_CHUNK):
                left -= len(piece)
                if left < 0:
                    raise _refused(f"it unpacks to more than {bounds.unpacked:,} bytes")
                out.write(piece)


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
    )


def _run_number(run_id: str) -> str:
    found = digits(run_id)
    if not found:
        raise GithubError("GitHub was to be asked about a run without its number")
    return found
