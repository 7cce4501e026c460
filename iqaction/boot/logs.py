"""A server's log: foreign text of any size, made safe to print and to keep.

Knows no server. Every line that is shown starts with ``  | `` and has its control characters,
secrets and runner commands taken out; what is left out is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from iqaction.boot._base import Say
from iqaction.terminal import inline
from iqaction.withheld import mask, spelled

PREFIX = "  | "
_POLL_BYTES = 256 << 10
_POLL_LINES = 200
_LINE_BYTES = 64 << 10  # looked at for secrets; what is shown is shorter
_LINE = 1_000  # characters shown
_RECENT = 200
_SHOWN_BYTES = 2 << 20  # of one boot, on the job's log
_TAIL_WINDOW = 256 << 10
TAIL_BYTES = 16 << 10


class LogTail:
    """What a growing log says since it was last looked at."""

    def __init__(self, path: Path, secrets: Sequence[str] = ()) -> None:
        self._path = path
        self._secrets = spelled(secrets)
        self._offset = 0
        self._rest = b""
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._shown = 0

    def poll(self, say: Say) -> None:
        """Say the whole lines that were appended; a flood is cut short."""
        lines, left_out = self._lines()
        if len(lines) > _POLL_LINES:
            left_out += sum(len(line) + 1 for line in lines[:-_POLL_LINES])
            lines = lines[-_POLL_LINES:]
        if left_out:
            self._tell(f"({left_out} bytes are not shown here)", say)
        for line in lines:
            self._tell(shown(line, self._secrets), say)

    def last(self, count: int) -> list[str]:
        """The last lines, as they are shown; one that has no end yet among them."""
        lines = list(self._recent)
        if self._rest.strip():
            lines.append(PREFIX + shown(self._rest, self._secrets))
        return lines[-count:]

    def _tell(self, line: str, say: Say) -> None:
        self._recent.append(PREFIX + line)
        before, self._shown = self._shown, self._shown + len(line)
        if self._shown <= _SHOWN_BYTES:
            say(PREFIX + line)
        elif before <= _SHOWN_BYTES:
            say(f"{PREFIX}(the log is long: no more of it is shown here)")

    def _lines(self) -> tuple[list[bytes], int]:
        left_out = 0
        try:
            with self._path.open("rb") as stream:
                size = stream.seek(0, 2)
                if size < self._offset:  # somebody emptied it
                    self._offset, self._rest = 0, b""
                if size - self._offset > _POLL_BYTES:
                    left_out = size - _POLL_BYTES - self._offset + len(self._rest)
                    self._offset, self._rest = size - _POLL_BYTES, b""
                stream.seek(self._offset)
                data = stream.read(_POLL_BYTES)
        except OSError:
            return [], 0
        self._offset += len(data)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LINE_BYTES]
        return [line for line in lines if line.strip()], left_out


def shown(line: bytes, secrets: Sequence[str]) -> str:
    """One line, safe to print: of a progress bar the last state, secrets as ``***``."""
    text = line[:_LINE_BYTES].decode("utf-8", "replace").rstrip("\r")
    text = mask(text.rpartition("\r")[2] or text, secrets)
    cut = len(text) - _LINE
    return inline(text[:_LINE]) + (f" … ({cut} more)" if cut > 0 else "")


def tail_text(path: Path, secrets: Sequence[str] = (), most: int = TAIL_BYTES) -> str:
    """The end of a log for the evidence: at most ``most`` bytes, whole lines, secrets masked;
    "" where there is no log."""
    try:
        with path.open("rb") as stream:
            start = max(0, stream.seek(0, 2) - _TAIL_WINDOW)
            stream.seek(start)
            data = stream.read(_TAIL_WINDOW)
    except OSError:
        return ""
    lines = data.split(b"\n")
    if start and len(lines) > 1:
        lines = lines[1:]  # its beginning is cut, and with it perhaps a secret
    texts: deque[str] = deque()
    size = 0
    for line in reversed(lines):
        text = shown(line, spelled(secrets)) if line.strip() else ""
        size += len(text.encode()) + 1
        if size > most:
            break
        texts.appendleft(text)
    return "\n".join(texts).strip("\n")
