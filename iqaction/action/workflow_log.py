"""What a step tells the runner: annotations, groups, masks, outputs and the summary.

The only module that speaks the runner's language, and the only one around ``actions_toolkit``.
Knows no report and no verdict. Everything foreign (engine logs, model output, names) is escaped,
and long foreign passages are also fenced with ``stop-commands``.

How commands and heredocs are spelled is the toolkit's. Its ``core`` is not called, for it writes
to ``sys.stdout`` without flushing (a secret could be printed before its mask), reads ``os.environ``
itself, imports requests (0.1 s in steps that send nothing), prints empty properties, falls back to
the withdrawn ``::set-output``, and knows neither the summary nor ``stop-commands``.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from actions_toolkit.command import Command
from actions_toolkit.file_command import prepare_key_value_message

from iqaction.terminal import escape, inline

MAX_MESSAGE = 4096  # characters that an annotation shows
MAX_TITLE = 255
MAX_LINE = 4096  # characters of one foreign line
PER_TYPE = 10  # annotations of a type that GitHub keeps from one step
MAX_OUTPUTS = 500_000  # bytes; GitHub takes 1 MB a job, counted in UTF-16
MAX_SUMMARY = 1 << 20  # bytes; one more, and the whole summary is lost
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LEFT_OUT = "> The summary of this step did not fit; the report in the artifact is whole.\n"


class WorkflowLog:
    """The log of one step. Close it (or use ``with``): what did not fit is counted at the end.

    Parameters
    ----------
    stream
        Where the runner reads commands: the step's standard output.
    environ
        Names the files for outputs and summary; without them (on a desk) both are printed.
    token
        Gives an unpredictable word each time, which ends a passage without commands.
    """

    def __init__(
        self,
        stream: TextIO,
        environ: Mapping[str, str],
        token: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._stream = stream
        self._outputs = environ.get("GITHUB_OUTPUT", "")
        self._summary = environ.get("GITHUB_STEP_SUMMARY", "")
        self._on_runner = environ.get("GITHUB_ACTIONS", "") == "true"
        self._token = token
        self._resume = ""  # the word that ends the passage without commands; "" outside of one
        self._line_open = False
        self._said: Counter[str] = Counter()
        self._last: dict[str, Command] = {}  # by type: the one that the tenth place waits for

    def __enter__(self) -> WorkflowLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Use the tenth place of each type: for the last annotation, or for how many were more."""
        for kind, last in self._last.items():
            more = self._said[kind] - PER_TYPE + 1
            text = f"{more} more of this kind: the log of this step has them all"
            self._issue(last if more == 1 else Command(kind, {"title": "inferquality"}, text))
        self._last.clear()

    def notice(self, message: str, *, title: str = "", file: str = "", line: int = 0) -> None:
        self._annotate("notice", message, title, (file, line))

    def warning(self, message: str, *, title: str = "", file: str = "", line: int = 0) -> None:
        self._annotate("warning", message, title, (file, line))

    def error(self, message: str, *, title: str = "", file: str = "", line: int = 0) -> None:
        self._annotate("error", message, title, (file, line))

    def _annotate(self, kind: str, message: str, title: str, place: tuple[str, int]) -> None:
        """``place``: a file from the repository's root and its line from 1; "" and 0 without."""
        file, line = place
        properties = {
            "title": _cut(inline(title), MAX_TITLE),
            "file": inline(file),
            "line": str(line) if file and line > 0 else "",
        }
        properties = {name: value for name, value in properties.items() if value}
        command = Command(kind, properties, _cut(escape(message), MAX_MESSAGE))
        self._said[kind] += 1
        if self._said[kind] < PER_TYPE:
            self._issue(command)
            return
        if self._said[kind] == PER_TYPE:
            self._last[kind] = command
        self.text(f"{kind}: {message}")

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold what the block prints under a title."""
        self._issue(Command("group", {}, _cut(inline(title), MAX_TITLE)))
        try:
            yield
        finally:
            self._issue(Command("endgroup", {}, ""))

    def mask(self, value: str) -> None:
        """Have the runner print ``***`` for a secret from here on; nothing where no runner reads.

        Each line alone too, for that is how a secret of many lines appears in a log.
        """
        if not self._on_runner:
            return
        for line in dict.fromkeys([value.strip("\r\n"), *value.splitlines()]):
            if line.strip():
                self._issue(Command("add-mask", {}, line))

    @contextmanager
    def quiet(self) -> Iterator[Callable[[str], None]]:
        """A passage in which the runner obeys nothing; the function given prints foreign text.

        Annotations and masks made within the passage are still obeyed.
        """
        outermost = not self._resume
        if outermost:
            self._stop_commands()
        try:
            yield self.text
        finally:
            if outermost:
                # whoever else wrote to the stream may have left a line open; then the word that
                # ends the passage would not be seen, and no command after it obeyed
                self._line_open = True
                self._resume_commands()

    def text(self, text: str) -> None:
        """Print foreign text: nothing in it is obeyed by a runner or a terminal."""
        lines = escape(text.removesuffix("\n")).split("\n")
        self._write("\n".join(_short(line) for line in lines) + "\n")

    def output(self, name: str, value: str) -> bool:
        """Set an output of the step. False, with a warning, when it does not fit.

        Raises
        ------
        ValueError
            The name is none: a mistake of ours.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an output")
        if not self._outputs:
            self.text(f"output {name}={value}")
            return True
        value = value.encode(errors="backslashreplace").decode()
        entry = f"{prepare_key_value_message(name, value)}\n"
        return self._append(self._outputs, entry, MAX_OUTPUTS, f"output `{name}`")

    def summary(self, markdown: str) -> bool:
        """Add to the step's summary. False, with a warning, when it does not fit.

        It is then left out whole, since Markdown that is cut may swallow what follows it.
        """
        if not self._summary:
            self.text(markdown)
            return True
        markdown = markdown.rstrip("\n") + "\n"
        if self._append(self._summary, markdown, MAX_SUMMARY - len(_LEFT_OUT), "summary"):
            return True
        self._append(self._summary, _LEFT_OUT, MAX_SUMMARY, "summary")
        return False

    def _append(self, path: str, text: str, limit: int, what: str) -> bool:
        """Add whole lines to a file of the runner, which sets them apart by line breaks."""
        data = text.encode(errors="backslashreplace")
        try:
            with open(path, "ab+") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                    data = data if file.read(1) == b"\n" else b"\n" + data
                if size + len(data) > limit:
                    self.warning(f"{what} left out: {size + len(data)} bytes, {limit} fit")
                    return False
                file.write(data)
        except OSError as error:
            self.warning(f"{what} cannot be written: {error.strerror or error}")
            return False
        return True

    def _issue(self, command: Command) -> None:
        if not self._resume:
            self._write(f"{command}\n")
            return
        self._resume_commands()
        self._write(f"{command}\n")
        self._stop_commands()

    def _stop_commands(self) -> None:
        self._resume = self._token()
        self._write(f"{Command('stop-commands', {}, self._resume)}\n")

    def _resume_commands(self) -> None:
        word, self._resume = self._resume, ""
        self._write(f"{Command(word, {}, '')}\n")

    def _write(self, text: str) -> None:
        """Write whole lines, at once: the runner must see a mask before what it masks."""
        if self._line_open:
            text = "\n" + text
        self._line_open = False
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._stream.flush()


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _short(line: str) -> str:
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]}… ({len(line) - MAX_LINE} characters left out)"
