"""One step as a process: what it is given, and what becomes of an error. I/O.

A step that fails for a reason that can be told leaves the reason for the later ones and ends well,
so that evidence is uploaded and the reason is published; the gate, which is last, makes the job
red. Only what nobody foresaw, and signals, end a step with another status.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TextIO

from iqaction.action import reports, settings, steps
from iqaction.action.settings import Settings
from iqaction.action.work import Ending, Work
from iqaction.action.workflow_log import WorkflowLog
from iqaction.errors import ConfigError, IqError
from iqaction.github.event import Event, read_event
from iqaction.interrupts import INTERRUPTED, TERMINATED, Terminated, termination_raised
from iqaction.verdict import EXIT_CODE, Verdict

CONFIGURATION = 4
INTERNAL = 70
NOT_RUN = EXIT_CODE[Verdict.NOT_RUN]
_MAX_PAYLOAD = 32 * 1024 * 1024


@dataclass(frozen=True)
class Job:
    """What a step is given: the environment, the folder of this job, the log, the clocks."""

    environ: Mapping[str, str]
    work: Work
    log: WorkflowLog
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def settings(self) -> Settings:
        """The inputs. Raises ConfigError for a mistake in them."""
        return settings.read(self.work.inputs())

    def known_settings(self) -> Settings:
        """The inputs; where there is a mistake in them, what they tell all the same."""
        try:
            return self.settings()
        except ConfigError:
            pass
        try:
            return settings.known(self.work.inputs())
        except IqError:
            return Settings()

    def event(self) -> Event:
        """What this run is for. Raises ConfigError where that cannot be known."""
        path = self.environ.get("GITHUB_EVENT_PATH", "")
        payload = b"{}"
        if path:
            try:
                with Path(path).open("rb") as file:
                    payload = file.read(_MAX_PAYLOAD + 1)
            except OSError as exc:
                raise ConfigError(
                    f"the event's payload cannot be read: {exc.strerror}",
                    expected="the file that GITHUB_EVENT_PATH names",
                ) from exc
        return read_event(self.environ, payload)

    def workspace(self) -> Path:
        """The checkout."""
        return Path(self.environ.get("GITHUB_WORKSPACE") or ".").resolve()

    def now(self) -> str:
        """The time, RFC 3339, UTC, to the second."""
        return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Clocks:
    """How time passes for a step; tests wait for nothing."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


def run(
    step: str,
    environ: Mapping[str, str] | None = None,
    stream: TextIO | None = None,
    clocks: Clocks | None = None,
) -> int:
    """Run one step; see the module for what its status means."""
    environ = os.environ if environ is None else environ
    with WorkflowLog(sys.stdout if stream is None else stream, environ) as log:
        return _run(step, environ, log, clocks or Clocks())


def _run(step: str, environ: Mapping[str, str], log: WorkflowLog, clocks: Clocks) -> int:
    names = [m.name for m in pkgutil.iter_modules(steps.__path__) if not m.name.startswith("_")]
    place = environ.get("IQ_WORK", "")
    if step not in names or not place:
        log.error(f"no step {step!r}, or IQ_WORK is not set: this is not run by action.yml")
        return CONFIGURATION
    job = Job(environ, Work(Path(place)), log, clocks.clock, clocks.sleep)
    try:
        with termination_raised():
            found = importlib.import_module(f"{steps.__name__}.{step}")
            perform: Callable[[Job], int] = found.run
            return perform(job)
    except Terminated:
        return _stopped(job, step, TERMINATED)
    except KeyboardInterrupt:
        return _stopped(job, step, INTERRUPTED)
    except IqError as exc:
        return _told(job, step, exc)
    except OSError as exc:  # a full disk, a folder without rights: the machine's, and told as that
        if exc.errno is None:
            return _crashed(job, step, exc)
        what = f"{os.path.basename(str(exc.filename or step))}: {exc.strerror}"
        return _told(job, step, IqError(what, next_step="look at the runner's disk and folders"))
    except Exception as exc:
        return _crashed(job, step, exc)


def _told(job: Job, step: str, error: IqError) -> int:
    status = CONFIGURATION if isinstance(error, ConfigError) else NOT_RUN
    job.log.error(str(error), title=f"inferquality: {step}")
    is_kept = _left(job, Ending(status, str(error)))
    return 0 if is_kept and step != "gate" else status


def _stopped(job: Job, step: str, status: int) -> int:
    job.log.warning(f"{step} was stopped; what was measured until then is kept")
    # No report yet: the runner leaves no time, and the publishing step makes one.
    said = f"the run was cancelled while it was in the step `{step}`"
    _left(job, Ending(NOT_RUN, said), reports.keep)
    return status


def _crashed(job: Job, step: str, error: Exception) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"
    what = f"internal error in {step} ({type(error).__name__} at {place})"
    if job.environ.get("IQACTION_DEBUG") == "1" or job.environ.get("RUNNER_DEBUG") == "1":
        with job.log.quiet():
            job.log.text("".join(traceback.format_exception(error)))
    # Its text may quote a server or a key: it is shown only to those who ask.
    job.log.error(f"{what}. This is a fault of inferquality, not a verdict.", title="inferquality")
    _left(job, Ending(INTERNAL, f"{what}; run again with debug logging to see more"))
    return INTERNAL


def _left(job: Job, ending: Ending, leave: Callable[[Job, Ending], None] = reports.leave) -> bool:
    """Leave how it ended for the later steps; False where that cannot be written, and the step
    itself must be red."""
    try:
        leave(job, ending)
    except OSError as exc:
        job.log.error(f"the job's folder cannot be written: {exc.strerror or exc}")
        return False
    return True
