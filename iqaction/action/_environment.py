"""The action's environment: found, or made once per runner. Standard library only, no workflow.

::

    <root>/inferquality/env/
        <key>.lock          held while <key> is looked at, made or removed; never removed itself,
                            since a lock on a removed file excludes nobody
        <key>/.complete     written last; its time is when a job last used this environment
        <key>/venv/         dependencies only: the action's own code runs from the action's path
        .<key>.<random>/    being made. Renamed when complete, so that an installer that outlives
                            its killed parent writes where nobody looks

The key covers all that an environment depends on, so that one never serves two things.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from iqaction.action import _installer
from iqaction.action._installer import Installation, Run
from iqaction.errors import IqError

LOCK_FILE = "requirements.lock"
COMPLETE = ".complete"
WAIT_S = 900.0  # for another job that makes the same environment; making it is given 600
POLL_S = 0.2
UNUSED_S = 30 * 24 * 3600.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Unusable(IqError):
    """Nothing can be made in this place; another one may do."""


@dataclass(frozen=True)
class World:
    """What the environment is made with; tests pass doubles."""

    run: Run = _installer.run
    say: Callable[[str], None] = lambda text: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time


def ensure(roots: tuple[Path, ...], lock: bytes, environ: Mapping[str, str], world: World) -> Path:
    """The interpreter of the environment that ``lock`` describes, in the first root that serves.

    Raises
    ------
    IqError
        It cannot be made; no root can be written to.
    """
    refused: list[str] = []
    for root in roots:
        try:
            return _Home(root, lock, environ, world).interpreter()
        except Unusable as error:
            world.say(f"{error.happened}")
            refused.append(error.happened)
        except OSError as error:
            refused.append(f"{root}: {_reason(error)}")
            world.say(refused[-1])
    raise IqError(
        "no folder for the action's environment: " + ("; ".join(refused) or "none is named"),
        expected="RUNNER_TOOL_CACHE or RUNNER_TEMP, writable, with 500 MB free",
        next_step="free space or correct the permissions on the runner",
    )


def key_of(lock: bytes) -> str:
    """A name for what an environment depends on: packages, this Python, this machine's kind."""
    version = sys.version_info
    facts = (
        "1",  # the layout above
        hashlib.sha256(lock).hexdigest(),
        f"{sys.implementation.name} {'.'.join(map(str, version[:3]))} {version[3]}{version[4]}",
        getattr(sys, "abiflags", ""),
        os.path.realpath(_installer.base_python()),  # a container's Python is not its host's
        f"{sys.platform} {os.uname().machine} {sys.maxsize.bit_length()}",
        _libc(),
    )
    return hashlib.sha256("\n".join(facts).encode(errors="surrogateescape")).hexdigest()[:32]


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (ValueError, OSError):
        return "other"  # musl, macOS


class _Home:
    """The environments below one root."""

    def __init__(self, root: Path, lock: bytes, environ: Mapping[str, str], world: World) -> None:
        self._root = root
        self._path = root / "inferquality" / "env"
        self._lock = lock
        self._key = key_of(lock)
        self._folder = self._path / self._key
        self._environ = environ
        self._world = world

    def interpreter(self) -> Path:
        self._claim()
        try:
            with self._locked(self._key, WAIT_S):
                if not self._is_complete():
                    self._make()
                self._mark_used()
        except PermissionError as error:
            self._prebuilt(error)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            self._prebuilt(error)
        else:
            self._prune()
        return _interpreter(self._folder)

    def _prebuilt(self, error: OSError) -> None:
        """A tool cache that cannot be written may hold what is needed, in a runner's image."""
        if not self._is_complete():
            raise Unusable(f"{self._path}: {_reason(error)}") from error

    def _claim(self) -> None:
        """Make the folder, and refuse one that somebody else could fill with their own code."""
        self._root.mkdir(parents=True, exist_ok=True)
        trusted = {0, os.geteuid(), self._root.stat().st_uid}
        for path in (self._path.parent, self._path):
            with suppress(FileExistsError):
                path.mkdir(mode=0o755)
            found = path.lstat()
            if not path.is_dir() or path.is_symlink():
                raise Unusable(f"{path} is no folder")
            if found.st_uid not in trusted or found.st_mode & 0o022:
                raise Unusable(f"{path} belongs to, or can be written by, another user")

    @contextmanager
    def _locked(self, key: str, wait_s: float) -> Iterator[None]:
        """Hold a key's lock; the kernel gives it back however this process ends."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path / f"{key}.lock", flags, 0o644)
        try:
            self._acquire(descriptor, wait_s)
            yield
        finally:
            os.close(descriptor)

    def _acquire(self, descriptor: int, wait_s: float) -> None:
        waited = 0.0
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if waited >= wait_s:
                    raise Unusable(
                        f"{self._path}: another job holds {self._key} for {wait_s:.0f} s"
                    ) from None
            except OSError as error:  # a network file system may know no locks
                raise Unusable(f"{self._path}: {_reason(error)}") from error
            if not waited:
                self._world.say("another job makes the action's environment; waiting for it")
            self._world.sleep(POLL_S)
            waited += POLL_S

    def _is_complete(self) -> bool:
        try:
            said = (self._folder / COMPLETE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False
        return said == self._key and os.access(_interpreter(self._folder), os.X_OK)

    def _mark_used(self) -> None:
        now = self._world.clock()
        with suppress(OSError):  # it serves all the same
            os.utime(self._folder / COMPLETE, (now, now))

    def _make(self) -> None:
        self._discard(self._key)
        building = self._aside(self._key)
        try:
            building.mkdir(mode=0o755)
            (building / "tmp").mkdir()
            lock = building / "tmp" / LOCK_FILE
            lock.write_bytes(self._lock)
            made = Installation(building / "venv", building / "tmp", lock, self._environ)
            _installer.install(made, self._world.run, self._world.say)
            shutil.rmtree(building / "tmp")
            _write_durably(building / COMPLETE, self._key)
            building.rename(self._folder)
        except _installer.DiskFull as error:
            raise Unusable(f"{self._path}: the disk is full") from error
        except OSError as error:
            if error.errno in _FULL:
                raise Unusable(f"{self._path}: the disk is full") from error
            raise
        finally:
            shutil.rmtree(building, ignore_errors=True)  # gone already when all went well

    def _aside(self, key: str) -> Path:
        return self._path / f".{key}.{os.urandom(8).hex()}"

    def _discard(self, key: str) -> None:
        """Remove an environment and what was left of making it. The key's lock is held."""
        folder = self._path / key
        if folder.exists() or folder.is_symlink():
            folder.rename(self._aside(key))  # from here on nobody finds it half removed
        for rest in self._path.glob(f".{key}.*"):
            shutil.rmtree(rest, ignore_errors=True)

    def _prune(self) -> None:
        """Remove environments that no job has used for 30 days, and halves of any age.

        A job takes an environment under its lock and marks it as used, and no job runs that long.
        """
        with suppress(OSError, Unusable):
            for path in self._path.glob("*.lock"):
                if path.stem != self._key:
                    self._prune_one(path.stem)

    def _prune_one(self, key: str) -> None:
        with suppress(OSError, Unusable), self._locked(key, 0):
            marker = self._path / key / COMPLETE
            used = marker.stat().st_mtime if marker.is_file() else 0.0
            if used < self._world.clock() - UNUSED_S:
                self._discard(key)
            for rest in self._path.glob(f".{key}.*"):
                shutil.rmtree(rest, ignore_errors=True)


def _interpreter(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def _write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
