"""A server's log is foreign text of any size."""

from __future__ import annotations

import pytest
from unit.boot.factory import Said

from iqaction.boot.logs import PREFIX, TAIL_BYTES, LogTail, tail_text

HOSTILE = [
    b"::error::owned",
    b"  ::set-output name=verdict::PASS",
    b"x ##[error]owned",
    b"\x1b[2J\x1b]0;title\x07cleared",
    b"nul \x00 here",
    "right \u202e to left".encode(),
    "next\u0085line ::warning::x\u2028::error::y".encode(),
    b"\xff\xfe not utf-8",
    b"progress 1%\rprogress 99%\r::stop-commands::x",
    b"a" * 1_000_000,
]


def shown(tail: LogTail) -> list[str]:
    said = Said()
    tail.poll(said)
    return said.lines


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:12]))
def test_poll__hostile(tmp_path, line):
    """No line of a log can be a command, repaint a screen or flood it."""
    log = tmp_path / "log"
    log.write_bytes(line + b"\n")

    lines = shown(LogTail(log))

    assert lines
    for text in lines:
        assert text.startswith(PREFIX)
        assert text.isprintable()
        assert "##[" not in text
        assert not text.removeprefix(PREFIX).lstrip().startswith("::")
        assert len(text) < 1_100


def test_poll__what_was_appended(tmp_path):
    """Each line is said once, and when it is whole."""
    log = tmp_path / "log"
    tail = LogTail(log)
    assert shown(tail) == []  # not there yet

    log.write_bytes(b"one\ntw")
    assert shown(tail) == ["  | one"]
    with log.open("ab") as stream:
        stream.write(b"o\n\n \nthree")
    assert shown(tail) == ["  | two"]
    assert shown(tail) == []
    assert tail.last(2) == ["  | two", "  | three"]


def test_poll__emptied(tmp_path):
    """A log that was emptied is read from its start."""
    log = tmp_path / "log"
    log.write_bytes(b"a long first line\n")
    tail = LogTail(log)
    shown(tail)

    log.write_bytes(b"new\n")

    assert shown(tail) == ["  | new"]


def test_poll__flood(tmp_path):
    """Of a flood the end is shown, and that something is not."""
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(200_000)))

    lines = shown(LogTail(log))

    assert len(lines) == 201
    assert "bytes are not shown here" in lines[0]
    assert lines[-1] == "  | line 199999"


def test_poll__for_ever(tmp_path):
    """A log that never ends does not fill the job's log."""
    log = tmp_path / "log"
    tail = LogTail(log)
    total = 0
    for _ in range(40):
        log.write_bytes(b"")
        shown(tail)
        log.write_bytes((b"x" * 900 + b"\n") * 200)
        total += sum(map(len, shown(tail)))

    assert total < 3 << 20
    assert len(tail.last(40)) == 40


def test_poll__progress_bar(tmp_path):
    """Of a line that was painted over and over, the last state is shown."""
    log = tmp_path / "log"
    log.write_bytes(b"10%\r50%\r100%\r\nwindows\r\n")

    assert shown(LogTail(log)) == ["  | 100%", "  | windows"]


def test_poll__secrets(tmp_path):
    """A secret is masked wherever it stands, each line of a long one too; a very short one is not
    looked for."""
    log = tmp_path / "log"
    log.write_bytes(b"key=sesame! and first-line\nthen second-line\nab\n")

    lines = shown(LogTail(log, ["sesame!", "first-line\nsecond-line", "ab", ""]))

    assert lines == ["  | key=*** and ***", "  | then ***", "  | ab"]


def test_tail_text__bounded(tmp_path):
    """The evidence gets whole lines from the end, within its limit, escaped and masked."""
    log = tmp_path / "log"
    log.write_bytes(b"sesame \x1b[31m\n" * 100_000 + b"end")

    text = tail_text(log, ["sesame"])

    assert TAIL_BYTES - 100 < len(text.encode()) <= TAIL_BYTES
    assert text.split("\n")[0] == "*** \\x1b[31m"
    assert text.split("\n")[-1] == "end"


@pytest.mark.parametrize("data", [None, b"", b"\n\n"])
def test_tail_text__nothing(tmp_path, data):
    """No log, no text."""
    log = tmp_path / "log"
    if data is not None:
        log.write_bytes(data)

    assert tail_text(log) == ""


def test_tail_text__one_long_line(tmp_path):
    """A log without a line break is cut, not lost."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1_000_000)

    assert tail_text(log).startswith("xxx")
