"""Who started what: one file per boot, in a folder that outlives the job.

A lease is written before anything is started and completed right after, so that a job that is
killed in between leaves something that can be found. Knows how leases are written, read and
judged to be abandoned; how a thing is stopped is the caller's.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from iqaction.boot import processes
from iqaction.boot._base import Owner, Say
from iqaction.boot.files import read_private, write_private
from iqaction.boot.processes import Leader
from iqaction.errors import BootError, IqError
from iqaction.terminal import inline

LIFETIME_S = 6 * 24 * 3600.0  # a job on a self-hosted runner may take five days
_NAME = re.compile(r"([0-9a-f]{32})\.json")
_PROJECT = re.compile(r"iq-[0-9a-f]{16}")
_MOST = 1 << 20
_VERSION = 1


@dataclass(frozen=True)
class Lease:
    """What was started, and by whom.

    Attributes
    ----------
    mark
        Random; the started processes carry it in their environment. Names the file, too.
    created, expires
        Seconds since 1970.
    machine_boot
        The boot of the machine in which the processes ran.
    leader
        None before the start, and where nothing but containers was started.
    project, compose_file
        Of docker compose; the file holds what ``down`` needs, and no secret.
    """

    mark: str
    owner: Owner
    work: str
    created: float
    expires: float
    machine_boot: str
    leader: Leader | None = None
    project: str = ""
    compose_file: str = ""
    stop_command: str = ""
    cwd: str = ""


def new_mark() -> str:
    """A name that nobody can guess or happen to have."""
    return secrets.token_hex(16)


def path_of(leases: Path, mark: str) -> Path:
    """Where the lease of a mark lies."""
    return leases / f"{mark}.json"


def outline_of(path: Path) -> Path:
    """Where the compose file of a lease lies: beside it."""
    return path.with_suffix(".compose.json")


def write(leases: Path, lease: Lease) -> Path:
    """Write a lease, or a fuller one in its place.

    Raises
    ------
    BootError
        When the folder cannot be written: nothing is to be started that could not be stopped.
    """
    path = path_of(leases, lease.mark)
    try:
        leases.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, json.dumps({"version": _VERSION, **asdict(lease)}).encode())
    except OSError as exc:
        raise BootError(
            f"cannot write the lease {path}: {exc.strerror or exc}",
            expected="a folder of the runner's user that outlives the job (RUNNER_TOOL_CACHE)",
            next_step="give the runner's user that folder; nothing was started",
        ) from exc
    return path


def read(path: Path) -> Lease:
    """The lease in a file.

    Raises
    ------
    FileNotFoundError
        When it is gone: what it named was stopped.
    BootError
        When it is no lease, or not ours.
    """
    try:
        data = read_private(path, _MOST)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise BootError(f"cannot read the lease {path}: {exc.strerror or exc}") from exc
    found = _parsed(data) if data is not None else None
    if found is None or path.name != f"{found.mark}.json":
        raise BootError(f"{path} is no lease of this version")
    return found


def forget(path: Path) -> None:
    """Remove a lease, and the compose file beside it."""
    for gone in (path, outline_of(path)):
        with contextlib.suppress(OSError):
            gone.unlink()


def abandoned(lease: Lease, owner: Owner, now: float) -> bool:
    """Whether nobody uses what a lease names any more.

    A runner has one job at a time, so a lease of the same runner is of a job that is over,
    unless it is of this very job. Of other runners on the host only expired ones count, and
    those only when nothing of their job lives: no date ends what is still measured.
    """
    if now >= lease.expires and not _job_lives(lease):
        return True
    theirs = lease.owner
    if not owner.runner or (theirs.runner, theirs.place) != (owner.runner, owner.place):
        return False
    return not owner.tracking or theirs.tracking != owner.tracking


def _job_lives(lease: Lease) -> bool:
    """Whether a process of the job that booted is there, other than what it booted."""
    others = processes.of_job(lease.owner.tracking)
    return bool(others and others - {p.pid for p in processes.family(lease.mark, lease.leader)})


def reap(
    leases: Path, owner: Owner, now: float, stop: Callable[[Path], str], say: Say
) -> tuple[Path, ...]:
    """Stop what killed jobs left behind, and return the leases that were ended.

    Never fails: what cannot be stopped is said and tried again by the next boot.
    """
    ended = []
    for path in _files(leases):
        try:
            found = read(path)
        except FileNotFoundError:
            continue  # another boot was faster
        except BootError as exc:
            _set_aside(path, str(exc), say)
            continue
        if not abandoned(found, owner, now):
            continue
        try:
            said = stop(path)
        except IqError as exc:
            say(f"left behind by an earlier job and still there: {inline(exc.happened)}")
            continue
        whose = f"run {found.owner.run_id}, job {found.owner.job}"
        say(f"stopped what an earlier job left behind ({inline(whose)}): {inline(said)}")
        ended.append(path)
    return tuple(ended)


def of_work(leases: Path, work: Path) -> tuple[Path, ...]:
    """The leases of everything that was booted with this private folder."""
    found = []
    for path in _files(leases):
        with contextlib.suppress(FileNotFoundError, BootError):
            if read(path).work == str(work):
                found.append(path)
    return tuple(found)


def _files(leases: Path) -> list[Path]:
    """Our own leases; those of another user on the host are not ours to read or to judge."""
    try:
        names = sorted(p for p in leases.iterdir() if _NAME.fullmatch(p.name))
    except OSError:
        return []
    return [p for p in names if _is_owned(p)]


def _is_owned(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _set_aside(path: Path, why: str, say: Say) -> None:
    say(f"a lease is set aside, and nothing is stopped for it: {inline(why)}")
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".broken"))


def _parsed(data: bytes) -> Lease | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or body.get("version") != _VERSION:
        return None
    owner, leader = body.get("owner"), body.get("leader")
    names = ("runner", "repository", "run_id", "attempt", "job", "tracking", "place")
    texts = ("mark", "work", "machine_boot", "project", "compose_file", "stop_command", "cwd")
    if not (
        isinstance(owner, dict)
        and all(isinstance(owner.get(n), str) for n in names)
        and all(isinstance(body.get(n), str) for n in texts)
        and all(_is_number(body.get(n)) for n in ("created", "expires"))
        and (leader is None or _is_leader(leader))
        and (body["project"] == "" or _PROJECT.fullmatch(body["project"]))
    ):
        return None
    found = Lease(
        owner=Owner(**{n: owner[n] for n in names}),
        created=float(body["created"]),
        expires=float(body["expires"]),
        **{n: body[n] for n in texts},
    )
    if leader is None:
        return found
    return replace(found, leader=Leader(leader["pid"], leader["started"]))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_leader(value: object) -> bool:
    """A session that we may end: never the system's own processes."""
    if not isinstance(value, dict):
        return False
    pid, started = value.get("pid"), value.get("started")
    return type(pid) is int and type(started) is int and pid > 1
