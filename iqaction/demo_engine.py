"""Starts and stops a real llama.cpp server for the demo and for tests.

Knows one program, ``_llama_server.py``, and how to tell that an engine is ready: it has
generated a token. Knows no plan, no verdict and no dialect.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from iqaction import terminal
from iqaction.errors import ConfigError, EngineError

START_S = 120.0  # a cold disk reads 270 MB of weights in less
_PROBE_TOKENS = 24
_TAIL_BYTES = 4096
_TAIL_LINES = 15


def cores() -> int:
    """How many CPUs this process may use: its affinity, lowered by a cgroup's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # "max 100000" where there is no quota
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        count = min(count, int(quota) // int(period))
    return max(1, count)


def package_folder() -> Path:
    """The folder that holds ``xllamacpp``.

    Raises
    ------
    ConfigError
        Where the extra ``demo`` is not installed.
    """
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "the llama.cpp server (xllamacpp) is not installed",
            expected="the extra `demo`",
            next_step="in a clone of the project: pip install '.[demo]'",
        )
    return Path(spec.origin).parent.parent


def log_tail(path: Path) -> str:
    """The last lines of an engine's log, control characters escaped; "" where there are none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = stream.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line for line in text.split("\n") if line.strip()]
    return terminal.escape("\n".join(lines[-_TAIL_LINES:]))


@dataclass(frozen=True)
class Launch:
    """What to serve, and how.

    Attributes
    ----------
    model
        A GGUF file.
    slots, ctx
        How many requests are served at once, and the context length of each in tokens.
    threads
        0: all cores.
    alias
        The model's name in answers; "" is the file's name.
    template
        Jinja text of the chat template; "" is the model's own.
    """

    model: Path
    slots: int = 1
    ctx: int = 4096
    threads: int = 0
    alias: str = ""
    template: str = ""


def best_threads(model: Path, most: int) -> int:
    """The number of threads, at most ``most``, with which this machine generates fastest now.

    All cores is best on an idle machine. On a busy one llama.cpp's threads wait for each other
    at every layer, and one thread can be ten times as fast as two.
    """
    counts = sorted({1, max(1, most // 2), most})
    if len(counts) == 1:
        return 1
    seconds = {}
    for count in counts:
        with LlamaServer(Launch(model, 1, 256, count)) as server:
            seconds[count] = server.seconds_for(_PROBE_TOKENS)
    return min(counts, key=lambda count: seconds[count])


class LlamaServer:
    """A llama.cpp server on a free loopback port, ready when the constructor returns.

    Use it as a context manager, or call :meth:`stop`. The server also ends when this process
    does, however that comes about.

    Parameters
    ----------
    log
        Where the engine's own log goes; None: a temporary file, deleted at :meth:`stop`.
    deadline_s
        For the first generated token, loading included.

    Raises
    ------
    ConfigError
        Where the extra ``demo`` is missing or the model is no file.
    EngineError
        Where no token was generated before the deadline; ends with the log's last lines.
    """

    def __init__(
        self, launch: Launch, *, log: Path | None = None, deadline_s: float = START_S
    ) -> None:
        packages = package_folder()
        if not launch.model.is_file():
            raise ConfigError(f"{launch.model}: no such file", expected="a model in GGUF format")
        self._end = time.monotonic() + deadline_s
        self._own_log = log is None
        self.log = log if log is not None else _temporary_log()
        # By path and with -I: see `_llama_server`.
        command = [sys.executable, "-I", str(Path(__file__).with_name("_llama_server.py"))]
        command += [str(launch.model.resolve()), f"--packages={packages}"]
        command += [f"--alias={launch.alias}", f"--threads={launch.threads or cores()}"]
        command += [f"--slots={launch.slots}", f"--ctx={launch.ctx}"]
        command += [f"--template={launch.template}"]
        with self.log.open("wb") as log_stream:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_stream,
                start_new_session=True,  # Ctrl-C is for us; we then close its standard input
            )
        self.url = ""
        try:
            self.url = self._read_address()
            self._wait_for_token()
        except BaseException:
            self._end_process()
            self._drop_log()
            raise

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the server now. Does nothing the second time."""
        self._end_process()
        self._drop_log()

    def __enter__(self) -> LlamaServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _read_address(self) -> str:
        stdout = self._process.stdout
        assert stdout is not None  # by stdout=PIPE
        line = b""
        while not line.endswith(b"\n") and len(line) < 200:
            left = self._end - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise self._error("did not listen in time")
            piece = os.read(stdout.fileno(), 200)
            if not piece:
                raise self._error("ended while starting")
            line += piece
        return line.decode("ascii", "replace").strip()

    def seconds_for(self, tokens: int) -> float:
        """How long a generation of so many tokens takes now.

        Raises
        ------
        EngineError
            Where it does not come back within the deadline of starting.
        """
        begun = time.monotonic()
        said = self._generate(tokens, START_S)
        if said:
            raise self._error(f"does not generate ({said})")
        return time.monotonic() - begun

    def _wait_for_token(self) -> None:
        # A listening socket or /health proves less: both answer before, and after, a model works.
        last = "no answer"
        while self._process.poll() is None:
            left = self._end - time.monotonic()
            if left <= 0:
                break
            last = self._generate(1, left)
            if not last:
                return
            time.sleep(min(0.1, left))
        raise self._error(f"generated no token ({last})")

    def _generate(self, tokens: int, timeout: float) -> str:
        """Ask for tokens: "" where they came back, else what came instead."""
        body = {"prompt": "Hello", "n_predict": tokens, "cache_prompt": False, "ignore_eos": True}
        address = urlsplit(self.url)
        # http.client, since urllib would send even this through a proxy of the environment.
        connection = http.client.HTTPConnection(
            address.hostname or "127.0.0.1", address.port, timeout=timeout
        )
        try:
            connection.request(
                "POST", "/completion", json.dumps(body), {"Content-Type": "application/json"}
            )
            reply = connection.getresponse()
            answer = json.loads(reply.read(1_000_000))
        except (OSError, http.client.HTTPException, ValueError) as exc:
            return f"{type(exc).__name__}: {exc}"
        finally:
            connection.close()
        if reply.status != 200:
            return f"HTTP {reply.status}"
        if not isinstance(answer, dict) or answer.get("tokens_predicted") != tokens:
            return "an answer without the tokens"
        return ""

    def _error(self, what: str) -> EngineError:
        self._end_process()
        code = self._process.returncode
        tail = log_tail(self.log)
        end = f"\n  log:\n{tail}" if tail else ""
        return EngineError(
            f"the llama.cpp server {what} (exit code {code}){end}",
            expected="one generated token before the deadline",
            next_step="read the log above; is the model a GGUF that llama.cpp can load, "
            "and is there memory for it?",
        )

    def _end_process(self) -> None:
        process = self._process
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _drop_log(self) -> None:
        if self._own_log:
            self.log.unlink(missing_ok=True)


def _temporary_log() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="iqaction-llama-", suffix=".log")
    os.close(descriptor)
    return Path(name)
