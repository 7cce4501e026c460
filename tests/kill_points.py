"""Ends or fails a step of ours at each of its changes to the disk, and says what was left.

Run as a script: ``kill_points.py FOLDER STEP HOW EVERY``. For each n (1, 1 + EVERY, ...) a copy
of FOLDER goes through STEP in a child process that, at its n-th change (opening for writing,
renaming, removing, making a folder), is gone at once (HOW ``kill``) or is told that the disk is
full (HOW ``full``). Prints one JSON list: what the copy then loads as, and what it becomes when
the step is done again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from evidence_factory import files, judged, observation, plan, prompts, report

from iqaction.calls import TokenIds
from iqaction.errors import EvidenceError
from iqaction.evidence.canon import identify
from iqaction.evidence.envelope import observation_to_json
from iqaction.evidence.store import Folder
from iqaction.verdict import Verdict

_CHANGES = {"os.rename", "os.remove", "os.mkdir"}
_DONE, _KILLED, _REFUSED, _UNHARMED = 0, 9, 3, 4
_MOST = 400


def seal(path: Path) -> None:
    """What a run does when it has asked all."""
    with Folder.create_or_continue(path, plan(), prompts(), None) as folder:
        folder.seal(report())


def reseal(path: Path) -> None:
    """What judging again does, with another outcome."""
    with Folder.open_for_writing(path) as folder:
        folder.seal(report(Verdict.FAIL))


def adopt(path: Path) -> None:
    """What a comparison does first: the baseline lies beside the folder."""
    baseline = path.parent / "baseline"
    root = identify((baseline / "manifest.json").read_bytes())
    with Folder.create_or_continue(path, plan(root), prompts(), baseline) as folder:
        folder.seal(judged(plan(root)))


def keep(path: Path) -> None:
    """What a run does with an answer."""
    with Folder.create_or_continue(path, plan(), prompts(), None) as folder:
        folder.keep("score", observation("p-2", TokenIds((1, 2))))


STEPS: dict[str, Callable[[Path], None]] = {
    "seal": seal,
    "reseal": reseal,
    "adopt": adopt,
    "keep": keep,
}


def state(path: Path) -> dict[str, object]:
    """What a folder loads as, in values that compare."""
    try:
        found = Folder.open(path).load()
    except EvidenceError as exc:
        return {"error": exc.happened.replace(str(path), "FOLDER")}
    seen = [
        json.dumps(observation_to_json(s, o, "2026-01-01T00:00:00Z"))
        for s, tags in found.seen.items()
        for _, o in sorted(tags.items())
    ]
    return {
        "seen": sorted(seen),
        "engines": len(found.engines),
        "problems": list(found.problems),
        "root": found.root,
    }


def child(step: Callable[[Path], None], path: Path, at: int, how: str) -> int:
    """Run ``step``; its ``at``-th change does not happen."""
    left = at

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event == "open":
            flags = arguments[2]
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR):
                return
        elif event not in _CHANGES:
            return
        left -= 1
        if left == 0:
            if how == "kill":
                os._exit(_KILLED)
            raise OSError(errno.ENOSPC, "no space")

    sys.addaudithook(hook)
    try:
        step(path)
    except EvidenceError as exc:
        return _REFUSED if exc.next_step.startswith("free some space") else 1
    return _DONE if left > 0 else _UNHARMED


def main(folder: Path, step: str, how: str, every: int) -> None:
    results: list[dict[str, object]] = []
    for at in range(1, _MOST, every):
        place = folder.parent / f"try-{at}"
        shutil.copytree(folder, place)
        pid = os.fork()
        if pid == 0:
            status = 2  # a traceback
            try:
                status = child(STEPS[step], place, at, how)
            finally:
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        left = state(place)
        STEPS[step](place)
        again = {n: identify(d) for n, d in files(place).items()}
        shutil.rmtree(place)
        results.append({"code": code, "left": left, "again": again})
        if code == _DONE:
            break
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
