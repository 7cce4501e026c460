"""One evidence folder per run: kept answer by answer, loaded for judging, sealed at the end.

::

    plan.json  prompts.jsonl      what was asked; judging needs nothing outside the folder
    data/<stage>.jsonl            the same, for a stage that has questions of its own
    journal.jsonl                 while observing: every answer, on the disk before it counts
    observations/<stage>.jsonl.gz the same, compacted at the seal; engines.jsonl.gz: who answered
    baseline/                     what it is compared with: a copy, byte by byte
    records/<sha256>.json         in-toto statements, linked by hash
    report.json                   the judgement
    manifest.json                 sha256 of all of these; its own sha256 is the evidence root
    comment.md summary.md effects.json report.html
                                  rendered, not in the manifest because they print the root

Knows files and no statistics. A process that writes holds ``.lock``; a second one is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from iqaction.calls import Arm, EngineInfo, Observation
from iqaction.circumstances import NONE, Circumstances
from iqaction.errors import EvidenceError
from iqaction.evidence import (
    canon,
    circumstances_json,
    envelope,
    founding,
    manifest,
    reading,
    report_json,
    sealing,
)
from iqaction.evidence.founding import LOCK
from iqaction.evidence.journal import Journal
from iqaction.evidence.lines import ENGINES, stored_as, unpacked
from iqaction.evidence.reading import CIRCUMSTANCES, PLAN, PROMPTS, Loaded
from iqaction.evidence.tree import MAX_EVIDENCE, Tree, explain
from iqaction.json_value import JSON
from iqaction.observed import Observed
from iqaction.plan import Plan
from iqaction.prompts import MAX_BYTES
from iqaction.report import Report

RENDERED = ("comment.md", "effects.json", "report.html", "summary.md")


class Folder:
    """An evidence folder. Made by :meth:`create_or_continue` or :meth:`open`.

    ``keep``, ``keep_engine`` and ``keep_concurrency`` may be called from many threads.
    """

    def __init__(self, path: Path, lock: int | None = None) -> None:
        self.path = path
        self._tree = Tree(path)
        self._lock = lock
        self._journal: Journal | None = None  # opened by the first answer
        self._opening = threading.Lock()
        self._stages: frozenset[str] = frozenset()
        self._engines: dict[tuple[Arm, int], EngineInfo] = {}
        self._concurrency: dict[tuple[Arm, int], tuple[int, str]] = {}
        self.notes: tuple[str, ...] = ()

    @classmethod
    def create_or_continue(
        cls,
        path: Path,
        plan: Plan,
        prompts_bytes: bytes,
        baseline: Path | None,
        data: Mapping[str, bytes] | None = None,
    ) -> Folder:
        """Take the folder for a run: a new one, or the same run continued.

        Parameters
        ----------
        prompts_bytes
            The prompt file as given; stored unpacked.
        baseline
            Folder of the sealed capture that ``plan.baseline_root`` names; None in a capture.
            Not needed to continue.
        data
            By stage, the files whose sha256 its spec in the plan names.

        Raises
        ------
        EvidenceError
            Another process writes there; the folder holds another run or other files; the
            baseline is not the plan's; evidence was altered; or the disk cannot be written.
        """
        make(path)
        folder = cls(path, take_lock(path))
        try:
            founding.found(folder._tree, plan, prompts_bytes, baseline, data)
            loaded = reading.load(folder._tree, numbers=False)
            if loaded.altered:
                raise EvidenceError(
                    f"{path}: {loaded.altered[0]} was altered since the evidence was sealed",
                    expected="evidence as it was sealed",
                    next_step="use another folder; `iqaction verify` names all that differs",
                )
            folder.notes = loaded.notes
            folder._stages = frozenset(s.stage for s in plan.stages)
            folder._engines = dict(loaded.observed.engines)
            folder._concurrency = dict(loaded.observed.concurrency)
        except BaseException:
            folder.close()
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> Folder:
        """An existing folder, for reading.

        Raises
        ------
        EvidenceError
            There is no evidence folder.
        """
        folder = cls(path)
        here = path.is_dir()
        if not here or not folder._tree.has(PLAN):
            fault = f"it holds no {PLAN}" if here else "it is not there"
            raise EvidenceError(
                f"{path} is no evidence folder: {fault}",
                expected="a folder that `iqaction run --evidence DIR` has made",
                next_step="check the path",
            )
        return folder

    @classmethod
    def open_for_writing(cls, path: Path) -> Folder:
        """An existing folder, locked, to be judged or rendered again.

        Raises
        ------
        EvidenceError
            There is no evidence folder, another process writes there, or it is read-only.
        """
        folder = cls.open(path)
        folder._lock = take_lock(path)
        return folder

    def keep(self, stage: str, observation: Observation) -> None:
        """Store one observation of a stage of the plan; durable when this returns.

        Raises
        ------
        EvidenceError
            It is no evidence, or cannot be written; everything kept before is kept.
        """
        self._must_write()
        if stage not in self._stages:
            raise EvidenceError(f"{canon.shown(stage)} is no stage of the plan")
        self._append(envelope.observation_to_json(stage, observation, _now()))

    def keep_engine(self, arm: Arm, launch: int, info: EngineInfo) -> None:
        """Store who answers for an arm and launch; nothing where that is known."""
        if self._engines.get((arm, launch)) != info:
            self._append(envelope.engine_to_json(arm, launch, info, _now()))
            self._engines[arm, launch] = info

    def keep_concurrency(self, arm: Arm, launch: int, value: int, source: str) -> None:
        """Store how many requests are in flight, and where the number comes from."""
        if self._concurrency.get((arm, launch)) != (value, source):
            self._append(envelope.concurrency_to_json(arm, launch, value, source, _now()))
            self._concurrency[arm, launch] = (value, source)

    def keep_circumstances(self, circumstances: Circumstances) -> None:
        """Store who measures where, in place of what was stored of it before.

        Raises
        ------
        EvidenceError
            The folder is sealed with other ones: a seal is not moved to another run.
        """
        self._must_write()
        data = circumstances_json.to_bytes(circumstances)
        if self._tree.has(CIRCUMSTANCES) and self._tree.read(CIRCUMSTANCES) == data:
            return
        if self._tree.has(manifest.NAME):
            raise EvidenceError(
                f"{self.path} is sealed, with the circumstances of another run",
                expected="a new folder for a new run",
            )
        self._tree.write(CIRCUMSTANCES, data)

    @property
    def is_sealed(self) -> bool:
        """True where a manifest says what is in here."""
        return self._tree.has(manifest.NAME)

    def adopt(self, other: Path) -> None:
        """Add all lines of a sealed folder of the same plan, byte by byte: when a question was
        answered, and how long that took, stays what it was. Later lines win over earlier ones.

        Raises
        ------
        EvidenceError
            A file of ``other`` cannot be read whole, or this folder cannot be written.
        """
        tree = Tree(other)
        for stage in sorted({*self._stages, ENGINES}):
            name = stored_as(stage)
            if tree.has(name):
                with tree.stream(name, MAX_EVIDENCE) as file:
                    lines = unpacked(file, f"{other}/{name}")
                    self._writable().extend(line.data for line in lines)

    def _append(self, body: Mapping[str, JSON]) -> None:
        self._writable().append(canon.dump(body))

    def _writable(self) -> Journal:
        self._must_write()
        with self._opening:
            if self._journal is None:
                self._journal = Journal(self._tree)
        return self._journal

    def load(self, *, alone: bool = False) -> Observed:
        """All that judging may see, read from the disk anew.

        Faults of the evidence become ``problems``; ``root`` is set where it is sealed. ``alone``
        leaves the copy of the baseline out, which is most of the work, for who has it already.

        Raises
        ------
        EvidenceError
            There is no plan that can be read.
        """
        loaded: Loaded = reading.load(self._tree, inner=alone)
        self.notes = loaded.notes
        return loaded.observed

    def circumstances(self) -> Circumstances:
        """Who measured where, as the file says it: whether it was altered, loading tells.

        Raises
        ------
        EvidenceError
            They are none.
        """
        if not self._tree.has(CIRCUMSTANCES):
            return NONE
        return circumstances_json.from_bytes(self._tree.read(CIRCUMSTANCES))

    def report(self) -> tuple[Report, str]:
        """The stored report, and the evidence root.

        Raises
        ------
        EvidenceError
            It was never judged, or ``report.json`` is none, or not the one that was sealed: where
            nothing seals it, it may be anybody's.
        """
        if not self._tree.has(report_json.NAME):
            raise EvidenceError(
                f"{self.path} holds no {report_json.NAME}: it was not judged yet",
                expected="a judged evidence folder",
                next_step=f"run `iqaction judge {self.path}`",
            )
        data = self._tree.read(report_json.NAME)
        root = reading.load(self._tree, numbers=False).observed.root
        stored = manifest.Stored(hashlib.sha256(data).hexdigest(), len(data))
        if not root:
            what = f"{report_json.NAME} is covered by no seal"
        elif manifest.from_bytes(self._tree.read(manifest.NAME)).get(report_json.NAME) != stored:
            what = f"{report_json.NAME} was altered since it was sealed"
        else:
            return report_json.from_bytes(data), root
        raise EvidenceError(
            f"{self.path}: {what}",
            expected="the report that judging wrote",
            next_step=f"run `iqaction judge {self.path}`: it judges the evidence again",
        )

    def prompts_bytes(self) -> bytes:
        """The prompt file's own bytes, unpacked. Raises EvidenceError where there are none."""
        return self._tree.read(PROMPTS, MAX_BYTES)

    def seal(self, report: Report) -> str:
        """Store the report and make the folder whole; returns the evidence root.

        Byte-identical where nothing has changed.

        Raises
        ------
        EvidenceError
            See :func:`iqaction.evidence.sealing.seal`; what was kept is kept.
        """
        self._must_write()
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        return sealing.seal(self._tree, report)

    def write_rendered(self, files: Mapping[str, str | bytes]) -> None:
        """Write what surfaces made of the report; only the names in ``RENDERED``."""
        for name in files:
            if name not in RENDERED:
                raise EvidenceError(
                    f"{canon.shown(name)} is not a rendered file", expected=", ".join(RENDERED)
                )
        self._must_write()
        for name, content in sorted(files.items()):
            self._tree.write(name, content.encode() if isinstance(content, str) else content)

    def _must_write(self) -> None:
        if self._lock is None:
            raise EvidenceError(
                f"{self.path} is open for reading", expected="a folder opened for writing"
            )

    def close(self) -> None:
        """Let others write here. May be called twice."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def make(path: Path) -> None:
    """The folder itself, with those above it; their names are on the disk when this returns."""
    above = [path, *path.parents]
    try:
        lacking = [p for p in above if not p.exists()]
        path.mkdir(parents=True, exist_ok=True)
        # Also where it was there: who made it may have lost the power, or us, before its name was
        # on the disk. Without the name all answers in it would be gone.
        for folder in above[1 : max(2, len(lacking) + 1)]:
            _sync(folder)
    except OSError as exc:
        raise explain(exc, f"cannot make the evidence folder {path}") from exc


def _sync(folder: Path) -> None:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder that may be gone through and not be read
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def take_lock(path: Path) -> int:
    """A descriptor that holds the folder's lock until it is closed, or the process ends.

    Raises
    ------
    EvidenceError
        Another process holds it, or the folder cannot be written.
    """
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fd = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as exc:
        raise explain(exc, f"cannot write in {path}") from exc
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    except BlockingIOError as exc:
        who = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
        os.close(fd)
        raise EvidenceError(
            f"{path} is in use: process {canon.shown(who) or '?'} writes there",
            expected="one process for each evidence folder",
            next_step="wait until it has ended, or use another folder",
        ) from exc
    except OSError as exc:
        os.close(fd)
        raise explain(exc, f"cannot lock {path}") from exc
    return fd


def load_baseline(path: Path) -> Observed:
    """A sealed capture, to compare with; its faults are in ``problems``.

    Raises
    ------
    EvidenceError
        There is none, or it is not sealed, or it is no capture.
    """
    found = Folder.open(path).load()
    if not found.root:
        raise EvidenceError(
            f"{path} is no finished baseline: it has no manifest that covers it"
            + "".join(f"; {p}" for p in found.problems[:1]),
            expected="a folder that a capture has sealed",
            next_step="let the capture finish: run its command again",
        )
    if not found.plan.is_capture:
        raise EvidenceError(
            f"{path} is no baseline: it was itself compared with one",
            expected="a folder that `iqaction baseline capture` has made",
        )
    return found


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
