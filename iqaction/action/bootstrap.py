"""The step ``setup``: an environment of dependencies, a private folder, and the inputs kept there.

Standard library only, for the environment is what it makes. Knows no plan, no engine and no token.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TextIO

from iqaction.action import _environment
from iqaction.action._environment import LOCK_FILE, World
from iqaction.errors import ConfigError, IqError
from iqaction.terminal import escape

NOT_RUN, CONFIGURATION, INTERNAL = 3, 4, 70
PREFIX = "IQ_INPUT_"
INPUTS = "inputs.json"
MAX_VALUE = 1 << 20
MAX_MESSAGE = 4096  # characters of an annotation
_NEVER_KEPT = {"github_token"}  # should a workflow put it here: only prepare and publish have it
ACTION = Path(__file__).parents[2]


def main() -> int:
    """The step as a process: signals end the installer too, and a mistake of ours is exit 70."""
    signal.signal(signal.SIGTERM, _stop)
    if isinstance(sys.stdout, io.TextIOWrapper):  # in whatever encoding the runner has set
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return setup(os.environ, sys.stdout)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        report(sys.stdout, f"setup failed, a mistake of the action: {error!r}")
        return INTERNAL


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def setup(
    environ: Mapping[str, str],
    stream: TextIO,
    *,
    action: Path = ACTION,
    world: World | None = None,
) -> int:
    """Make what all later steps need, and name it in the outputs ``python`` and ``work``.

    Returns
    -------
    0; 3 with an annotation when the environment or the folder cannot be made; 4 for an input
    that cannot be kept.
    """
    world = world or World(say=lambda text: say(stream, text))
    work = None
    try:
        kept = inputs(environ)
        lock = (action / LOCK_FILE).read_bytes()
        python = _environment.ensure(roots(environ), lock, environ, world)
        work = make_work(temporary(environ))
        keep(work / INPUTS, kept)
        give({"python": str(python), "work": str(work)}, environ, stream)
    except ConfigError as error:
        report(stream, str(error))
        return CONFIGURATION
    except (IqError, OSError) as error:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        report(stream, str(error))
        return NOT_RUN
    return 0


def inputs(environ: Mapping[str, str]) -> dict[str, str]:
    """Every input that action.yml maps, by its name in lower case.

    Raises
    ------
    ConfigError
        A value is larger than 1 MiB.
    """
    kept = {
        name[len(PREFIX) :].lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX)
    }
    for name, value in kept.items():
        size = len(value.encode(errors="surrogateescape"))
        if size > MAX_VALUE:
            raise ConfigError(
                f"input `{name}` has {size} bytes",
                expected=f"at most {MAX_VALUE}",
                next_step="put it into a file and name that",
            )
    return {name: value for name, value in kept.items() if name not in _NEVER_KEPT}


def keep(path: Path, kept: Mapping[str, str]) -> None:
    """Write the inputs, keys for a compose file among them, for this user alone."""
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, new, 0o600), "w", encoding="utf-8") as file:
        json.dump(kept, file)


def make_work(folder: str) -> Path:
    """The job's private folder, which no other user of the runner can read.

    Raises
    ------
    IqError
        It cannot be made there.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="inferquality-", dir=folder))
    except OSError as error:
        raise IqError(
            f"no folder for this job in {folder}: {error.strerror or error}",
            expected="RUNNER_TEMP, a folder that can be written",
        ) from error


def temporary(environ: Mapping[str, str]) -> str:
    """Where the job's own files go; the runner removes them with the job."""
    return environ.get("RUNNER_TEMP") or tempfile.gettempdir()


def roots(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where an environment may be made, best first: what outlives the job, then what does not."""
    named = (environ.get("RUNNER_TOOL_CACHE", ""), temporary(environ))
    return tuple(dict.fromkeys(Path(path) for path in named if os.path.isabs(path)))


def give(outputs: Mapping[str, str], environ: Mapping[str, str], stream: TextIO) -> None:
    """Set outputs of the step; without a runner they are printed.

    Raises
    ------
    IqError
        A value holds a line break, with which a later step could be given another value.
    """
    for value in outputs.values():
        if "\n" in value or "\r" in value:
            raise IqError(f"the path {value!r} holds a line break", expected="a path on one line")
    path = environ.get("GITHUB_OUTPUT", "")
    if not path:
        say(stream, "\n".join(f"{name}={value}" for name, value in outputs.items()))
        return
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
        for name, value in outputs.items():
            end = f"inferquality_{os.urandom(16).hex()}"
            file.write(f"{name}<<{end}\n{value}\n{end}\n")


def say(stream: TextIO, text: str) -> None:
    """A line of the log; nothing in it is a command to the runner."""
    stream.write(f"{escape(text)}\n")
    stream.flush()


def report(stream: TextIO, message: str) -> None:
    """An error annotation of the job."""
    message = escape(message)
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - 1] + "…"
    message = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    stream.write(f"::error title=inferquality::{message}\n")
    stream.flush()
