"""A disk that loses its power: what was not synced may be gone, or there in part.

    with Disk(folder) as disk:
        step()
    for left in disk.crashes:
        left.put(elsewhere)

Nothing is simulated but the loss. The real folder is written by the real code, and at each of its
changes this module notes what a disk may hold after a cut at that moment: of a file the bytes of
its last fsync, or more; of a folder the names of its last fsync, or later ones, in the order in
which they came. A new name whose bytes were never synced leads to an empty file.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

_CHANGES = ("rename", "unlink", "mkdir", "open", "pwrite", "ftruncate", "fsync")
Names = dict[str, int]  # of a folder: inode by name


@dataclass(frozen=True)
class Crash:
    """What a disk holds: folders by path, and files with their bytes."""

    how: str
    before: str
    folders: tuple[str, ...]
    files: dict[str, bytes]
    acknowledged: int

    def put(self, path: Path) -> Path:
        """The same as a real folder."""
        path.mkdir()
        for folder in self.folders:
            (path / folder).mkdir(parents=True, exist_ok=True)
        for name, data in self.files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path


@dataclass
class Disk:
    """Watches the folder ``root``, whose parent is where everything is durable already.

    Attributes
    ----------
    every
        Of so many changes one is a moment at which the power goes.
    acknowledged
        Set by who watches: a count that a crash remembers, as of answers that were kept.
    """

    root: Path
    every: int = 1
    seed: int = 0
    acknowledged: int = 0
    crashes: list[Crash] = field(default_factory=list)
    _synced: dict[int, bytes] = field(default_factory=dict)
    _known: dict[int, bytes] = field(default_factory=dict)
    _names: dict[int, list[Names]] = field(default_factory=dict)
    _patches: ExitStack = field(default_factory=ExitStack)
    _quiet: bool = False
    _seen: int = 0

    def __enter__(self) -> Disk:
        self._quiet = True
        self._look(self.root, durable=True)
        self._quiet = False
        for name in _CHANGES:
            watched = self._watched(name, getattr(os, name))
            self._patches.enter_context(mock.patch.object(os, name, watched))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patches.close()
        self._quiet = True

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **kwargs: Any) -> Any:
            changes = name != "open" or bool(args[1] & (os.O_CREAT | os.O_TRUNC))
            if self._quiet or not changes:
                return real(*args, **kwargs)
            self._quiet = True
            self._look(self.root)
            if self._seen % self.every == 0:
                self._note(name)
            self._seen += 1
            self._quiet = False
            done = real(*args, **kwargs)
            self._quiet = True
            if name == "fsync":
                self._sync(args[0])
            self._look(self.root)
            self._quiet = False
            return done

        return act

    def _look(self, folder: Path, *, durable: bool = False) -> None:
        """Remember what is there now; all of it is on the disk where it is durable."""
        inode = folder.stat().st_ino
        names: Names = {}
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda e: e.name)
        for entry in entries:
            names[entry.name] = entry.inode()
            if entry.is_dir(follow_symlinks=False):
                self._look(Path(entry.path), durable=durable)
            elif entry.name != ".lock":
                data = Path(entry.path).read_bytes()
                self._known[entry.inode()] = data
                if durable:
                    self._synced[entry.inode()] = data
        kept = self._names.setdefault(inode, [names] if durable else [{}])
        if kept[-1] != names:
            kept.append(names)

    def _sync(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        if inode in self._names:
            self._look(Path(os.readlink(f"/proc/self/fd/{fd}")))
            self._names[inode] = self._names[inode][-1:]
        else:
            self._synced[inode] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def _note(self, before: str) -> None:
        rng = random.Random(self.seed * 100_003 + self._seen)
        self._keep("only what was synced", before, lambda n: n[0], self._durable)
        self._keep("all names, synced bytes", before, lambda n: n[-1], self._durable)
        self._keep("some of it", before, rng.choice, lambda i: self._torn(i, rng))

    def _durable(self, inode: int) -> bytes:
        return self._synced.get(inode, b"")

    def _torn(self, inode: int, rng: random.Random) -> bytes:
        """The synced bytes, and of those that were added since a part."""
        synced, now = self._synced.get(inode, b""), self._known.get(inode, b"")
        if not now.startswith(synced):
            return rng.choice([synced, now])
        return now[: rng.randint(len(synced), len(now))]

    def _keep(
        self,
        how: str,
        before: str,
        names: Callable[[list[Names]], Names],
        data: Callable[[int], bytes],
    ) -> None:
        folders: list[str] = []
        files: dict[str, bytes] = {}

        def walk(inode: int, prefix: str) -> None:
            for name, inner in names(self._names[inode]).items():
                if inner in self._names:
                    folders.append(prefix + name)
                    walk(inner, f"{prefix}{name}/")
                elif name != ".lock":
                    files[prefix + name] = data(inner)

        walk(self.root.stat().st_ino, "")
        self.crashes.append(Crash(how, before, tuple(folders), files, self.acknowledged))
