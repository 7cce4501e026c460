"""Where commands print: one object or one page on stdout, everything else on stderr. I/O."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from iqaction.progress import Progress, choose
from iqaction.terminal import escape

_WIDEST = 120  # longer lines are not read


@dataclass(frozen=True)
class Console:
    """Both streams and what the user wants of them.

    A stream that nobody reads any more (``| head``) ends no command: the exit status is the
    verdict, printed or not.
    """

    out: TextIO
    err: TextIO
    environ: Mapping[str, str]
    json: bool = False
    quiet: bool = False

    @property
    def columns(self) -> int:
        return min(_WIDEST, max(40, shutil.get_terminal_size((100, 24)).columns))

    def page(self, text: str) -> None:
        """Text for people on stdout; foreign text in it is escaped once more, as a whole."""
        _write(self.out, escape(text))

    def object(self, body: Mapping[str, object]) -> None:
        """The one JSON object of ``--json``, on stdout."""
        text = json.dumps(body, indent=2, ensure_ascii=True, allow_nan=False)
        _write(self.out, text.replace("##[", "##\\u005b") + "\n")  # a command to a CI runner

    def complain(self, text: str) -> None:
        """An error or a warning on stderr."""
        _write(self.err, escape(text.rstrip("\n")) + "\n")

    def progress(self) -> Progress:
        return choose(
            self.err,
            self.environ,
            time.monotonic,
            lambda: shutil.get_terminal_size((80, 24)).columns,
            quiet=self.quiet,
        )


def standard(*, as_json: bool, quiet: bool) -> Console:
    """The process's own streams; characters that they cannot encode are shown as escapes."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # a TextIOWrapper, but for doubles
    return Console(sys.stdout, sys.stderr, os.environ, as_json, quiet)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # Nobody reads on. Python would complain again at exit, and exit 120: give it another end.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass  # a full disk under a log, a closed stream: the exit status still says the verdict
