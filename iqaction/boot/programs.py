"""Short programs that are waited for: bounded in time and in what is read of them.

Knows no docker and no shell. Never raises for what a program does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

NOT_FOUND = 127
_MOST = 8 << 20  # bytes read of each stream


@dataclass(frozen=True)
class Done:
    """How a program ended. ``late`` where its time was over and it was killed."""

    code: int
    out: str
    err: str
    late: bool = False

    @property
    def is_good(self) -> bool:
        return self.code == 0 and not self.late

    def why(self) -> str:
        """Why it is not good, in a few words of its own."""
        said = [line.strip() for line in (self.err or self.out).split("\n") if line.strip()]
        last = "; ".join(said[-3:])[-600:]
        how = "took too long" if self.late else f"exit code {self.code}"
        return f"{how}: {last}" if last else how


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout_s: float) -> Done:
    """Run a program in a session of its own, which ends with it or with its time."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = _started(argv, env, cwd, (out, err))
        except OSError as exc:
            said = f"{argv[0]}: {exc.strerror or exc}"
            return Done(NOT_FOUND if isinstance(exc, FileNotFoundError) else 126, "", said)
        late = False
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            late = True
        finally:  # also for Ctrl-C: nobody else knows this process
            _end(process)
        return Done(process.returncode, _text(out), _text(err), late)


def _started(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, streams: tuple[IO[bytes], IO[bytes]]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - an argument list; what is run is the caller's concern
        list(argv),
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=streams[0],
        stderr=streams[1],
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(_MOST).decode("utf-8", "replace")
