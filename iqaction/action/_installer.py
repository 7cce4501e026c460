"""Installing locked packages into a new environment: uv where it is, else venv and pip.

Knows command lines and what their output means, no lock and no cache. The children run in the new
folder and not in the workspace, whose pyproject.toml, uv.toml and modules a pull request writes;
they get no token and nothing of PYTHON*. Where packages come from is the runner's business: its
PIP_* and UV_* settings of indexes stay, and so do its configuration files.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from iqaction.errors import IqError

DEADLINE_S = 600.0
TAIL = 4096  # bytes of an installer's output that are shown

_PASSED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|NETRC|XDG_(CONFIG_HOME|CONFIG_DIRS)"
    r"|LD_LIBRARY_PATH"  # setup-python's Python may need it to start
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(?i:(https?|all|no)_proxy)"
    r"|PIP_(CONFIG_FILE|INDEX_URL|EXTRA_INDEX_URL|NO_INDEX|FIND_LINKS|TRUSTED_HOST|CERT"
    r"|CLIENT_CERT|PROXY|RETRIES|TIMEOUT|DEFAULT_TIMEOUT|KEYRING_PROVIDER|CACHE_DIR)"
    r"|UV_(CONFIG_FILE|DEFAULT_INDEX|INDEX\w*|EXTRA_INDEX_URL|NO_INDEX|FIND_LINKS|INSECURE_HOST"
    r"|NATIVE_TLS|SYSTEM_CERTS|KEYRING_PROVIDER|HTTP_TIMEOUT|HTTP_RETRIES|OFFLINE|CACHE_DIR"
    r"|CONCURRENT_\w+)"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|os error (28|122)\b")
_CREDENTIALS = re.compile(r"://[^/\s@]*@")
# What an installer's output says, in order: what goes wrong first explains what follows.
_SIGNS = (
    (
        re.compile(r"(do|does) not match the hashes|hash mismatch|HASHES|require-hashes", re.I),
        "a package is not the one that this version of the action was tested with",
        "look at the index that the runner uses; never switch the check of hashes off",
    ),
    (
        re.compile(
            r"name resolution|name or service|dns error|connection (refused|reset)|unreachable"
            r"|timed? ?out|NewConnectionError|ProxyError|sending request|SSLError|certificate"
            r"|network connectivity",
            re.I,
        ),
        "the package index cannot be reached",
        "let the runner reach one, or name a mirror with PIP_INDEX_URL or UV_DEFAULT_INDEX",
    ),
    (
        re.compile(r"no matching distribution|no (usable )?wheels|could not find a version", re.I),
        "the package index has no wheel for this Python and machine",
        "set the input `python` to a CPython from 3.10 to 3.14 on x86-64 or arm64",
    ),
)


class DiskFull(Exception):
    """An installer found no space where it writes."""


@dataclass(frozen=True)
class Installation:
    """What is to be made: ``lock``'s packages in ``venv``, with ``scratch`` to work in."""

    venv: Path
    scratch: Path
    lock: Path
    environ: Mapping[str, str] = field(repr=False)


# Command, environment, folder, seconds -> exit status and the end of what it wrote.
Run = Callable[[tuple[str, ...], Mapping[str, str], Path, float], tuple[int, str]]


def install(made: Installation, run: Run, say: Callable[[str], None]) -> None:
    """Make the environment.

    uv may fail where pip does not (a mirror that only pip.conf names), so pip is tried after it.

    Raises
    ------
    IqError
        With what to do about it; the end of the installer's output has been said.
    DiskFull
        There was no space.
    """
    environ = child_environ(made)
    uv = shutil.which("uv", path=environ["PATH"])
    if uv is not None:
        status, output = _all(_uv(uv, made), made, environ, run)
        if status == 0:
            return
        say(f"uv failed ({status}), pip is tried:\n{output}")
        shutil.rmtree(made.venv, ignore_errors=True)
    need_venv()
    status, output = _all(_pip(made), made, environ, run)
    if status != 0:
        say(f"pip failed ({status}):\n{output}")
        raise _explained(output)


def _all(
    commands: tuple[tuple[str, ...], ...], made: Installation, environ: Mapping[str, str], run: Run
) -> tuple[int, str]:
    for command in commands:
        status, output = run(command, environ, made.scratch, DEADLINE_S)
        output = _CREDENTIALS.sub("://***@", output)
        if status != 0 and _FULL.search(output):
            raise DiskFull(output)
        if status != 0:
            return status, output
    return 0, ""


def base_python() -> str:
    """The interpreter that environments are made from: never that of another environment."""
    return getattr(sys, "_base_executable", "") or sys.executable


def _python(made: Installation) -> str:
    return str(made.venv / "bin" / "python")


def _uv(uv: str, made: Installation) -> tuple[tuple[str, ...], ...]:
    venv = (uv, "venv", "--quiet", "--no-project", "--python", base_python(), str(made.venv))
    install = (uv, "pip", "install", "--quiet", "--python", _python(made), "--compile-bytecode")
    return venv, (*install, *_strict(made))


def _pip(made: Installation) -> tuple[tuple[str, ...], ...]:
    venv = (base_python(), "-I", "-m", "venv", str(made.venv))
    install = (_python(made), "-I", "-m", "pip", "install", "--quiet", "--no-input")
    return venv, (*install, "--disable-pip-version-check", *_strict(made))


def _strict(made: Installation) -> tuple[str, ...]:
    # the lock names all: without looking for dependencies, nothing else can come in
    return ("--require-hashes", "--only-binary", ":all:", "--no-deps", "-r", str(made.lock))


def child_environ(made: Installation) -> dict[str, str]:
    """What an installer may know of the runner; its scratch space and cache lie in its folder."""
    environ = {n: v for n, v in made.environ.items() if _PASSED.fullmatch(n)}
    environ["PATH"] = safe_path(made.environ)
    environ["TMPDIR"] = str(made.scratch)
    environ["UV_PYTHON_DOWNLOADS"] = "never"
    # As pip does: a company's proxy is known to the machine, not to the certificates in uv.
    environ.setdefault("UV_SYSTEM_CERTS", "1")
    environ.setdefault("UV_NATIVE_TLS", "1")  # its older name
    # Nothing is written to $HOME, unless the runner's owner has named a cache.
    environ.setdefault("UV_CACHE_DIR", str(made.scratch / "uv"))
    environ.setdefault("PIP_CACHE_DIR", str(made.scratch / "pip"))
    # uv looks for a project's settings in all folders above, and stops at the first file.
    (made.scratch / "uv.toml").touch()
    return environ


def safe_path(environ: Mapping[str, str]) -> str:
    """PATH without the working directory and the workspace: programs there are the user's."""
    workspace = environ.get("GITHUB_WORKSPACE", "")
    inside = os.path.realpath(workspace) if workspace else ""
    return os.pathsep.join(
        folder
        for folder in environ.get("PATH", os.defpath).split(os.pathsep)
        if os.path.isabs(folder)
        and not (inside and f"{os.path.realpath(folder)}/".startswith(f"{inside}/"))
    )


def need_venv(find: Callable[[str], object | None] = find_spec) -> None:
    """Raise IqError where Debian has split off what makes environments."""
    missing = [name for name in ("venv", "ensurepip") if find(name) is None]
    if missing:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise IqError(
            f"this Python ({base_python()}) comes without {' and '.join(missing)}",
            expected="a Python that can make a virtual environment",
            next_step=f"on the runner: `apt install python{version}-venv`, or install uv, or"
            " set the input `python`",
        )


def _explained(output: str) -> IqError:
    for sign, happened, next_step in _SIGNS:
        if sign.search(output):
            return IqError(
                f"the action's environment cannot be made: {happened}", next_step=next_step
            )
    return IqError(
        "the action's environment cannot be made: " + (output.strip()[-300:] or "pip said nothing"),
        next_step="read the installer's output above",
    )


def run(
    command: tuple[str, ...], environ: Mapping[str, str], folder: Path, limit_s: float
) -> tuple[int, str]:
    """Run an installer in a session of its own; neither it nor its children outlive this call."""
    log = folder / "installer.log"
    with log.open("wb") as output:
        try:
            child = subprocess.Popen(  # noqa: S603 - our own command line, no shell
                command,
                env=dict(environ),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return 127, f"{command[0]}: {error.strerror}"
        try:
            status = child.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _end(child)
            return 124, f"{_tail(log)}\nstopped: timed out after {limit_s:.0f} s"
        except BaseException:
            _end(child)
            raise
    return status, _tail(log)


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGTERM)
    time.sleep(0.2)  # uv and pip remove what they were writing
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL))
        return file.read().decode(errors="replace")
