"""The disk is full at any single write of a run, and a clock that jumps: nothing kept is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import pytest
from evidence_factory import answers, plan, prompts
from kill_points import state
from unit.evidence.test_power_loss import run

from iqaction.calls import Arm
from iqaction.errors import EvidenceError
from iqaction.evidence import store
from iqaction.evidence.store import Folder

_FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Full:
    """The ``at``-th write fails; of what it was to write, half is there."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.kept = 0

    def reached(self) -> bool:
        self.left -= 1
        return self.left == 0

    @contextmanager
    def disk(self) -> Iterator[None]:
        pwrite, fdopen, keep = os.pwrite, os.fdopen, Folder.keep

        def half(fd: int, data: bytes, offset: int) -> int:
            if self.reached():
                pwrite(fd, data[: len(data) // 2], offset)
                raise _FULL
            return pwrite(fd, data, offset)

        def opened(fd: int, mode: str) -> Any:
            file = fdopen(fd, mode)
            return file if mode == "rb" else _Half(file, self)

        def counted(folder: Folder, *args: Any) -> None:
            keep(folder, *args)
            self.kept += 1

        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(os, "pwrite", half))
            stack.enter_context(mock.patch.object(os, "fdopen", opened))
            stack.enter_context(mock.patch.object(Folder, "keep", counted))
            for name in ("fsync", "mkdir"):
                stack.enter_context(mock.patch.object(os, name, self._failing(name)))
            yield

    def _failing(self, name: str) -> Any:
        real = getattr(os, name)

        def act(*args: Any, **kwargs: Any) -> Any:
            if self.reached():
                raise _FULL
            return real(*args, **kwargs)

        return act


class _Half:
    """A file whose writes may fail half way."""

    def __init__(self, file: BinaryIO, disk: Full) -> None:
        self._file, self._disk = file, disk

    def write(self, data: bytes) -> int:
        if self._disk.reached():
            self._file.write(bytes(data)[: len(data) // 2])
            raise _FULL
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Half:
        return self

    def __exit__(self, *exc: Any) -> None:
        self._file.close()


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.full)])
def test_full_at_any_write(tmp_path: Path, every: int) -> None:
    """One clear error; every answer kept before is there; the same command ends in the same
    report."""
    run(tmp_path / "whole")
    whole = (tmp_path / "whole/report.json").read_bytes()
    said: list[EvidenceError] = []
    for at in range(1, 500, every):
        path, full = tmp_path / f"e{at}", Full(at)
        try:
            with full.disk():
                run(path)
        except EvidenceError as exc:
            said.append(exc)
        if (path / "plan.json").exists():
            found = state(path)
            assert found["problems"] == [], at
            assert len(found["seen"]) >= full.kept, at  # type: ignore[arg-type]
        run(path)
        assert (path / "report.json").read_bytes() == whole, at
        if full.left > 0:
            break

    assert len(said) > 60 / every
    assert {"No space left on device"} == {e.happened.rpartition(": ")[2] for e in said}
    assert all("free some space" in e.next_step for e in said)
    assert full.left > 0  # the last one had space for all


def test_clock__jumps_back(tmp_path: Path) -> None:
    """A clock that goes backwards, or to another year, changes times and nothing else."""
    run(tmp_path / "whole")
    times = iter(f"20{99 - i:02}-01-01T00:00:00Z" for i in range(99))
    with (
        mock.patch.object(store, "_now", side_effect=times),
        Folder.create_or_continue(tmp_path / "e", plan(), prompts(), None) as folder,
    ):
        for stage, one in answers(Arm.BASELINE)[::-1][:3]:
            folder.keep(stage, one)
    run(tmp_path / "e")
    again, whole = state(tmp_path / "e"), state(tmp_path / "whole")

    assert again.pop("root") != whole.pop("root")  # times are in it
    assert again == whole
    assert (tmp_path / "e/report.json").read_bytes() == (
        tmp_path / "whole/report.json"
    ).read_bytes()
