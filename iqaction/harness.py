"""Runs lm-evaluation-harness against an endpoint (extra ``lm-eval``) and reads its figures. I/O.

The harness asks for itself, in a process of its own, and what it says is taken as it is: its
prompt, its extraction, its errors. Knows its command line and its results file (versions 0.4.9
to 0.4.13); knows no stage. Nothing here raises for what a harness or a server does.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from iqaction.calls import (
    Call,
    Evaluate,
    Evaluated,
    Failure,
    FailureKind,
    Observation,
    Score,
    digest,
)
from iqaction.errors import ConfigError
from iqaction.json_value import JSON
from iqaction.withheld import mask, of_environment, spelled

_PACKAGE = "lm_eval"
_MOST_RESULTS = 16 << 20  # bytes of its results file
_MOST_SCORES = 100
_MOST_DOCUMENTS = 1_000_000
_TAIL = 1 << 16  # bytes of what it prints that are kept, for the reason where it fails
_SAID = 300  # characters of them that are shown
_REFUSED = "API request failed"  # in a line with the status and the server's words
_LOOK_S = 0.2
_GRACE_S = 5.0  # between asking it to end and ending it
_REQUEST_S = 600  # that one of its requests may take
# It needs to find its data, its caches and a proxy. It gets no other secret of ours.
_KEEPS = re.compile(
    r"(?:PATH|HOME|USER|LANG|LC_\w+|TMPDIR|TZ|HF_\w+|XDG_CACHE_HOME|VIRTUAL_ENV|LD_LIBRARY_PATH"
    r"|(?:https?|no|all)_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|PYTHONPATH)\Z",
    re.IGNORECASE,
)


def must_be_installed() -> None:
    """Raises ConfigError, with the command that installs it, where this Python lacks it."""
    if importlib.util.find_spec(_PACKAGE) is None:
        raise ConfigError(
            "gsm8k: `backend: lm-eval`, and lm-evaluation-harness is not installed in this Python",
            expected=f"the package {_PACKAGE} beside iqaction",
            next_step="pip install 'iqaction[lm-eval]', or `backend: builtin`",
        )


@contextmanager
def beside(
    ask: Callable[[Call], Observation], url: str, model: str, key: str
) -> Iterator[Callable[[Call], Observation]]:
    """``ask``, with the harness for what it asks itself; what runs at the end is ended."""
    asks = Harness(url, model, key)
    try:
        yield lambda call: asks.run(call) if isinstance(call, Evaluate) else ask(call)
    finally:
        asks.close()


class Harness:
    """The harness for one endpoint. ``close`` ends what runs; later runs fail at once.

    Parameters
    ----------
    url
        The endpoint, with or without ``/v1``.
    key
        Given to the harness by environment, and blotted out of what it prints.
    program
        What to start instead of the installed harness (tests).
    """

    def __init__(self, url: str, model: str, key: str, program: Sequence[str] = ()) -> None:
        self._url = url.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
        self._model, self._key = model, key
        # As isolated as we are: a checkout that is tested must not become a package of ours.
        isolated = ["-I"] if sys.flags.isolated else []
        self._program = tuple(program) or (sys.executable, *isolated, "-m", _PACKAGE)
        self._closed = threading.Event()

    def close(self) -> None:
        """End the run under way, if there is one."""
        self._closed.set()

    def run(self, call: Evaluate) -> Observation:
        """Its figures, or why there are none."""
        begun = time.monotonic()
        # A folder of its own: it looks for data sets in the working directory first.
        with tempfile.TemporaryDirectory(prefix="iqaction-lm-eval-") as folder:
            failure = self._ran(call, folder)
            answer = failure or read(_results(Path(folder)), call.task)
        return Observation(call.tag, digest(call), answer, 1, time.monotonic() - begun)

    def command(self, call: Evaluate, folder: str) -> list[str]:
        """The whole command line; the key is not in it."""
        model = {
            "model": self._model,
            "base_url": self._url,
            "num_concurrent": call.concurrency,
            "max_gen_toks": call.max_tokens,
            "timeout": _REQUEST_S,
        }
        return [
            *self._program,
            *("--model", "local-chat-completions", "--model_args", json.dumps(model)),
            *("--tasks", call.task, "--limit", str(call.limit), "--apply_chat_template"),
            # Its hash of what was asked is made of the samples; they go with the folder.
            *("--output_path", os.path.join(folder, "out"), "--log_samples"),
        ]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if _KEEPS.match(name)}
        return {**kept, "OPENAI_API_KEY": self._key or "none"}

    def _ran(self, call: Evaluate, folder: str) -> Failure | None:
        """Run it to its end; why it did not come to a good one."""
        if self._closed.is_set():
            return Failure(FailureKind.CONNECT, "the run was stopped")
        try:
            process = subprocess.Popen(  # noqa: S603 - a list of our own making, and no shell
                self.command(call, folder),
                cwd=folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as exc:
            return Failure(FailureKind.UNSUPPORTED, f"lm-evaluation-harness: {exc.strerror}")
        printed = _Tail(process)
        ends = time.monotonic() + call.seconds
        try:
            while not _has_ended(process):
                if self._closed.wait(_LOOK_S):
                    return Failure(FailureKind.CONNECT, "the run was stopped")
                if time.monotonic() > ends:
                    said = f"lm-evaluation-harness did not end within {call.seconds} s"
                    return Failure(FailureKind.TIMEOUT, said)
        finally:
            _end(process)
        if process.returncode == 0:
            return None
        # The way to the engine, as far as we can tell: asked again when the run continues.
        return Failure(
            FailureKind.PROXY,
            f"lm-evaluation-harness ended with status {process.returncode}: "
            + self._shown(printed.text()),
        )

    def _shown(self, text: str) -> str:
        """Its last line; and before it what the server answered, where it says that it did."""
        lines = [x.strip() for x in re.split(r"[\r\n]+", text) if x.strip()]
        last = lines[-1] if lines else "it printed nothing"
        refused = next((x for x in reversed(lines) if _REFUSED in x), "")
        said = [refused[refused.find(_REFUSED) :], last] if refused not in ("", last) else [last]
        # It was given its own variables, as HF_TOKEN: a library's error may quote one.
        secrets = spelled((self._key, *of_environment(self._environment())))
        found = mask("; ".join(said), secrets)
        found = found.replace(self._key, "***") if self._key else found  # a short one, too
        return "".join(c if c.isprintable() else "?" for c in found)[-_SAID:]


class _Tail:
    """Reads what a process prints to its end, and keeps the last of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._kept = process, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(OSError, ValueError), self._process.stdout as stream:
            while chunk := os.read(stream.fileno(), 1 << 16):
                self._kept = (self._kept + chunk)[-_TAIL:]

    def text(self) -> str:
        self._thread.join(_GRACE_S)
        return self._kept.decode("utf-8", "replace")


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """True where it has; it is not collected, so that its number stays its own."""
    asked = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return process.returncode is not None or os.waitid(os.P_PID, process.pid, asked) is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it started, politely first: a worker of a harness that died would go on
    asking, and with the key."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    ends = time.monotonic() + _GRACE_S
    while not _has_ended(process) and time.monotonic() < ends:
        time.sleep(_LOOK_S / 4)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _results(folder: Path) -> bytes:
    """Its results file, b"" where there is none, or no plain one of a plausible size."""
    found = [p for p in sorted(folder.glob("out/**/results*.json")) if not p.is_symlink()]
    if len(found) != 1 or not found[0].is_file():
        return b""
    with found[0].open("rb") as stream:
        data = stream.read(_MOST_RESULTS + 1)
    return data if len(data) <= _MOST_RESULTS else b""


def read(data: bytes, task: str) -> Evaluated | Failure:
    """The figures of one task in a results file."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return Failure(FailureKind.MALFORMED, "lm-evaluation-harness left no results")
    results = _named(body, "results", task)
    if not isinstance(results, dict):
        return Failure(FailureKind.MALFORMED, f"its results have no task {task}")
    scores = tuple(
        Score(_text(metric), _text(name), value, _number(results.get(f"{metric}_stderr,{name}")))
        for key, told in sorted(results.items())
        if "," in key and (value := _number(told)) is not None
        for metric, _, name in [key.partition(",")]
        if not metric.endswith("_stderr")
    )
    documents = _named(body, "n-samples", task)
    n = documents.get("effective") if isinstance(documents, dict) else results.get("sample_len")
    if not scores or type(n) is not int or not 1 <= n <= _MOST_DOCUMENTS:
        return Failure(FailureKind.MALFORMED, "its results hold no figure and how many it is of")
    shots = _named(body, "n-shot", task)
    return Evaluated(
        task,
        scores[:_MOST_SCORES],
        n,
        _text(body.get("lm_eval_version")),
        _text(_named(body, "versions", task)),
        _text(_named(body, "task_hashes", task)),
        shots if type(shots) is int and shots >= 0 else None,
    )


def _named(body: JSON, table: str, task: str) -> JSON:
    inner = body.get(table) if isinstance(body, Mapping) else None
    return inner.get(task) if isinstance(inner, Mapping) else None


def _number(value: JSON) -> float | None:
    """A finite number that is no truth value; the harness writes "N/A" where it has none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number of more than 308 digits
        return None


def _text(value: JSON) -> str:
    """A text of a bounded length that can be written: JSON may hold halves of characters."""
    text = str(value)[:200] if isinstance(value, (str, int, float)) else ""
    return text.encode("utf-8", "replace").decode()
