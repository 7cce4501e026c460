"""What a step says to the runner: obeyed where it is ours, never where it is foreign."""

from __future__ import annotations

import io
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.action.workflow_log import (
    MAX_LINE,
    MAX_MESSAGE,
    MAX_OUTPUTS,
    MAX_SUMMARY,
    PER_TYPE,
    WorkflowLog,
)

HOSTILE = "\n".join(
    [
        *("::error::pwned", "  ::set-output name=verdict::PASS", "x ##[error]pwned", "\x1b[2Jgone"),
        *("::add-mask::a", "::stop-commands::x", "::t1::", "::end::", "\x00\x07", "\r::error::cr"),
        *("\u2028::error::ls", "%0A::error::pct", "$(id) `id`", "\u202etxt", "\t::error::tab"),
    ]
)


class Runner:
    """Reads a log as GitHub's runner does: which commands does it obey?"""

    V2 = re.compile(r"^\s*::([A-Za-z0-9_-]+)(?: ([^:]*))?::(.*)$")
    V1 = re.compile(r"##\[([A-Za-z-]+)[^\]]*\]")

    def __init__(self, log: str) -> None:
        self.obeyed: list[tuple[str, dict[str, str], str]] = []
        self.shown: list[str] = []
        stopped = ""
        for line in re.split(r"\r\n|\n|\r", log):
            found = self.V2.match(line)
            if stopped:
                if found and found[1] == stopped:
                    stopped = ""
                else:
                    self.shown.append(line)
            elif found:
                self.obeyed.append(
                    (found[1], self.properties(found[2] or ""), self.plain(found[3]))
                )
                stopped = found[3] if found[1] == "stop-commands" else ""
            elif self.V1.search(line):
                self.obeyed.append(("v1", {}, line))
            else:
                self.shown.append(line)
        self.stopped = stopped

    def properties(self, text: str) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in text.split(",") if pair)
        return {name: self.plain(value) for name, _, value in pairs}

    @staticmethod
    def plain(text: str) -> str:
        for code, sign in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            text = text.replace(code, sign)
        return text

    def names(self) -> list[str]:
        return [name for name, _, _ in self.obeyed]


def make(**environ: str) -> tuple[WorkflowLog, io.StringIO]:
    """A log and its stream; the words that end passages are t1, t2 and so on."""
    stream = io.StringIO()
    count = itertools.count(1)
    return WorkflowLog(stream, environ, lambda: f"t{next(count)}"), stream


def test_annotations() -> None:
    """Message, title and place arrive as they were given."""
    log, stream = make()
    log.warning("50 % of a,b: c\nsecond", title="a: b, c", file="dir/a,b.yml", line=3)
    log.notice("plain")
    log.error("no line", file="x", line=0)

    place = {"title": "a: b, c", "file": "dir/a,b.yml", "line": "3"}
    assert Runner(stream.getvalue()).obeyed == [
        ("warning", place, "50 % of a,b: c\nsecond"),
        ("notice", {}, "plain"),
        ("error", {"file": "x"}, "no line"),
    ]


@pytest.mark.parametrize("where", ["message", "title", "file"])
def test_annotations__hostile(where: str) -> None:
    """Foreign text within an annotation stays within it."""
    log, stream = make()
    log.error(**({"message": "m"} | {where: HOSTILE}))  # type: ignore[arg-type]

    assert Runner(stream.getvalue()).names() == ["error"]
    assert stream.getvalue().count("\n") == 1
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u2028\u202e]", stream.getvalue())


def test_annotations__long() -> None:
    """What GitHub would cut is cut here, visibly."""
    log, stream = make()
    log.error("é" * (MAX_MESSAGE + 1))
    message = Runner(stream.getvalue()).obeyed[0][2]

    assert (len(message), message[-1]) == (MAX_MESSAGE, "…")


@pytest.mark.parametrize("count", [1, PER_TYPE - 1, PER_TYPE, PER_TYPE + 1, 50])
def test_annotations__at_most_ten_of_a_type(count: int) -> None:
    """GitHub keeps ten; the tenth place counts what was more, and the log has every one."""
    log, stream = make()
    with log:
        for i in range(count):
            log.error(f"error number {i}.")
        log.warning("another type")
    read = Runner(stream.getvalue())
    errors = [message for name, _, message in read.obeyed if name == "error"]

    assert len(errors) == min(count, PER_TYPE)
    assert all(f"number {i}." in stream.getvalue() for i in range(count))
    if count > PER_TYPE:
        assert errors[-1].startswith(f"{count - PER_TYPE + 1} more")
    else:
        assert errors[-1] == f"error number {count - 1}."
    assert read.names().count("warning") == 1


def test_group() -> None:
    """A group ends however its block does, and its title is no command."""
    log, stream = make()
    with pytest.raises(KeyError), log.group("start\n::error::x"):
        raise KeyError

    assert Runner(stream.getvalue()).names() == ["group", "endgroup"]


def test_mask() -> None:
    """A secret of several lines is masked whole and line by line, blank lines never."""
    log, stream = make(GITHUB_ACTIONS="true")
    log.mask("one%\n\n  \ntwo\n")
    log.mask("")

    masked = [message for name, _, message in Runner(stream.getvalue()).obeyed]
    assert masked == ["one%\n\n  \ntwo", "one%", "two"]


def test_mask__without_a_runner() -> None:
    """Where nobody reads the command, it would print the secret."""
    log, stream = make()
    log.mask("sekret")

    assert stream.getvalue() == ""


def test_mask__is_flushed_first(tmp_path: Path) -> None:
    """The mask has left the process before the call returns."""
    path = tmp_path / "log"
    with path.open("w", buffering=4096) as stream:
        WorkflowLog(stream, {"GITHUB_ACTIONS": "true"}).mask("sekret")

        assert path.read_text() == "::add-mask::sekret\n"


def test_text__hostile() -> None:
    """Foreign text prints, and nothing in it is obeyed even outside a quiet passage."""
    log, stream = make()
    log.text(HOSTILE)

    assert Runner(stream.getvalue()).obeyed == []


def test_text__long_line() -> None:
    """A line of a megabyte is cut, and says by how much."""
    log, stream = make()
    log.text("x" * 1_000_000)

    assert len(stream.getvalue()) < MAX_LINE + 100
    assert f"{1_000_000 - MAX_LINE} characters left out" in stream.getvalue()


def test_quiet() -> None:
    """Within the passage nothing is obeyed, whoever prints; after it commands are again."""
    log, stream = make()
    with log.quiet() as show:
        show(HOSTILE)
        stream.write("::error::printed past us, and the line left open")
    log.notice("after")
    read = Runner(stream.getvalue())

    assert read.names() == ["stop-commands", "notice"]
    assert read.stopped == ""


def test_quiet__annotations_within() -> None:
    """What the step itself says within a passage is obeyed; each passage has its own word."""
    log, stream = make(GITHUB_ACTIONS="true")
    with log.quiet() as show, log.quiet():
        show("::error::no")
        log.error("yes")
        log.mask("sekret")
        show("::t1::\n::t2::\n::error::no")
    read = Runner(stream.getvalue())
    words = [message for name, _, message in read.obeyed if name == "stop-commands"]

    assert read.names() == ["stop-commands", "error", "stop-commands", "add-mask", "stop-commands"]
    assert words == ["t1", "t2", "t3"]
    assert read.stopped == ""


def test_quiet__words_cannot_be_guessed() -> None:
    """The words are random where nobody gives them."""
    stream = io.StringIO()
    log = WorkflowLog(stream, {})
    for _ in range(2):
        with log.quiet():
            pass
    words = re.findall(r"stop-commands::(\w+)", stream.getvalue())

    assert len({*words}) == 2
    assert min(map(len, words)) >= 32


@given(st.lists(st.text(max_size=60), max_size=4))
def test_quiet__any_text(texts: list[str]) -> None:
    """No text ends a passage or is obeyed."""
    log, stream = make()
    with log.quiet() as show:
        for text in texts:
            show(text)
    log.text("".join(texts))

    assert Runner(stream.getvalue()).names() == ["stop-commands"]


def read_outputs(text: str) -> dict[str, str]:
    """A file of outputs as the runner reads it."""
    lines, found, i = text.split("\n"), {}, 0
    while i < len(lines) - 1:
        name, mark, end = lines[i].partition("<<")
        assert mark
        last = lines.index(end, i + 1)
        found[name] = "\n".join(lines[i + 1 : last])
        i = last + 1
    return found


def test_output(tmp_path: Path) -> None:
    """Any value arrives as it is, also one that looks like the file's own language."""
    path = tmp_path / "output"
    log, stream = make(GITHUB_OUTPUT=str(path))
    values = {"a": "x=y", "b": "one\ntwo<<EOF\nEOF\n", "c-d": "", "e": "50 %, ü \ud800"}
    path.write_text("half a line")
    for name, value in values.items():
        assert log.output(name, value)
    content = path.read_text().removeprefix("half a line\n")

    assert read_outputs(content) == values | {"e": "50 %, ü \\ud800"}
    assert stream.getvalue() == ""


def test_output__too_large(tmp_path: Path) -> None:
    """What GitHub would refuse is left out with a warning; what was there stays."""
    path = tmp_path / "output"
    log, stream = make(GITHUB_OUTPUT=str(path))

    assert log.output("a", "x" * (MAX_OUTPUTS - 200))
    assert not log.output("b", "x" * 200)
    assert [*read_outputs(path.read_text())] == ["a"]
    assert Runner(stream.getvalue()).names() == ["warning"]


def test_output__no_name() -> None:
    """A name that could carry a second output is refused."""
    for name in ("", "a\nb", "a<<b", "a=b"):
        with pytest.raises(ValueError, match="no name"):
            make()[0].output(name, "x")


def test_files__that_cannot_be_written(tmp_path: Path) -> None:
    """A file of the runner that is gone is a warning: the verdict does not hang on it."""
    log, stream = make(GITHUB_OUTPUT=str(tmp_path), GITHUB_STEP_SUMMARY=str(tmp_path / "no/where"))

    assert not log.output("a", "b")
    assert not log.summary("# x")
    assert {*Runner(stream.getvalue()).names()} == {"warning"}


def test_output__without_a_runner() -> None:
    """On a desk outputs and summary are printed, as foreign text."""
    log, stream = make()
    assert log.output("verdict", "PASS\n::error::x")
    assert log.summary("# Summary\n::error::x\n")

    assert stream.getvalue().startswith("output verdict=PASS\n")
    assert Runner(stream.getvalue()).obeyed == []


def test_summary(tmp_path: Path) -> None:
    """Added to what other parts of the step have written, on a line of its own."""
    path = tmp_path / "summary"
    path.write_text("before")
    log, _ = make(GITHUB_STEP_SUMMARY=str(path))

    assert log.summary("# ü")
    assert log.summary("more\n")
    assert path.read_text() == "before\n# ü\nmore\n"


def test_summary__too_large(tmp_path: Path) -> None:
    """One byte too many loses a whole summary: what does not fit is left out and named."""
    path = tmp_path / "summary"
    log, stream = make(GITHUB_STEP_SUMMARY=str(path))

    assert log.summary("é" * (MAX_SUMMARY // 2 - 300))
    assert not log.summary("é" * 300)
    assert "did not fit" in path.read_text()[-100:]
    assert path.stat().st_size <= MAX_SUMMARY
    assert Runner(stream.getvalue()).names() == ["warning"]


def test_import__is_cheap() -> None:
    """The toolkit's core would import requests into steps that send nothing."""
    code = "import sys, iqaction.action.workflow_log; print('requests' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_streams__of_another_encoding() -> None:
    """A runner in an old encoding gets escapes, not a crash."""
    raw = io.BytesIO()
    log = WorkflowLog(io.TextIOWrapper(raw, encoding="ascii"), {})
    log.error("ü " + "x" * MAX_MESSAGE)

    assert raw.getvalue().startswith(b"::error::\\xfc x")
