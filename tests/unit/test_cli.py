"""The command line: help that teaches, errors that name the fault, and the right exit status."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from iqaction import __version__, cli
from iqaction.commands import load_all
from iqaction.commands._console import Console
from iqaction.errors import ConfigError, EngineError, EvidenceError
from iqaction.progress import Progress

COMMANDS = (
    *("run", "observe", "baseline", "judge", "render", "publish", "verify", "inspect", "diff"),
    "demo",
)


@dataclass(frozen=True)
class Double:
    """A command that does what the test says."""

    does: Callable[[Console], int]
    ORDER: int = 1
    SUMMARY: str = "a double"
    DESCRIPTION: str = "Does what the test says."
    EXAMPLES: str = "  iqaction double"

    def flags(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--evidence", default="")

    def run(self, args: argparse.Namespace, console: Console) -> int:
        return self.does(console)


def raising(error: BaseException) -> Double:
    def fail(console: Console) -> int:
        raise error

    return Double(fail)


def iqaction(*argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The real thing, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "iqaction", *argv],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])},
        timeout=60,
        check=False,
    )


# --- help


def test_help__all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """The first page names every command, the first steps and every exit status."""
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out

    assert tuple(load_all()) == COMMANDS
    for name in COMMANDS:
        assert f"\n    {name} " in shown
    for status in ("0 PASS", "1 FAIL", "2 UNPROVEN", "3 NOT RUN", "4 ", "70 ", "130 ", "143 "):
        assert status in shown


@pytest.mark.parametrize("name", ["capture", "show", "check", "pin"])
def test_help__baseline(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of its commands has a page of its own, with examples, within a hundred columns."""
    assert cli.main(["baseline", name, "--help"]) == 0
    shown = capsys.readouterr().out

    assert f"iqaction baseline {name} " in shown.partition("examples:")[2]
    assert "--json" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help__command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command's page says what it does and shows commands to copy that really parse."""
    assert cli.main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    command = load_all()[name]

    assert command.DESCRIPTION.splitlines()[0] in shown
    assert "--json" in shown or name == "baseline"  # whose own commands have it
    examples = command.EXAMPLES.replace("\\\n", " ").splitlines()
    lines = [x.split("#")[0] for x in examples if x.strip()[:1] != "#"]
    parts = [y.strip() for x in lines for y in x.replace("|", "&&").split("&&")]
    copied = [x.removeprefix("iqaction ") for x in parts if x.startswith("iqaction ")]
    assert copied
    for line in copied:
        parser = argparse.ArgumentParser(exit_on_error=False)
        parser.add_argument("--json", action="store_true")
        command.flags(parser)
        assert line.split()[0] == name
        parser.parse_args(shlex.split(line)[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_help__fits(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line of a help page is longer than a hundred columns."""
    monkeypatch.setenv("COLUMNS", "100")
    cli.main([name, "--help"])

    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 100


def test_help__imports_nothing_heavy() -> None:
    """A help page needs no numpy."""
    code = (
        "import sys; from iqaction import cli; cli.main(['run', '--help']);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}

    assert "argparse" in loaded
    assert not loaded & {"numpy", "scipy", "requests", "yaml", "jsonschema"}


# --- version


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str) -> None:
    """The version is one line on stdout."""
    done = iqaction(flag)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"iqaction {__version__}\n", "")


def test_version__not_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """With anything beside it, argparse answers, and the same."""
    assert cli.main(["--version", "judge"]) == 0
    assert capsys.readouterr().out == f"iqaction {__version__}\n"


# --- wrong arguments


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "usage: iqaction"),
        (["rum"], "unknown command 'rum'; did you mean 'run'?"),
        (["run"], "required: --evidence"),
        (["run", "--evidnce", "x"], "unknown flag '--evidnce'; did you mean '--evidence'?"),
        (["run", "--evi", "x"], "unknown flag '--evi'"),
        (["run", "--evidence"], "--evidence: expected one argument"),
        (["run", "--evidence", "x", "y"], "unrecognized arguments: y"),
        (["run", "--evidence", "x", "--concurrency", "0"], "found '0', expected a whole number"),
        (["run", "--evidence", "x", "--concurrency", "1e3"], "found '1e3'"),
        (["run", "--evidence", "x", "--launch", "1"], "unknown flag '--launch'"),
        (["observe", "--evidence", "x", "--launch", "-1"], "--launch"),
        (["observe", "--evidence", "x", "--not-restarted"], "expected: --launch N"),
        (["run", "--evidence", __file__], "is no folder"),
        (["run", "--baseline-sha25", "x"], "did you mean '--baseline-sha256'?"),
        (["baseline"], "required: COMMAND"),
        (["baseline", "shwo", "x"], "unknown command 'shwo'; did you mean 'show'?"),
        (["baseline", "--quiet"], "stands before the command"),
        (["baseline", "show"], "required: PATH"),
        (["baseline", "show", "no-such.tar.gz"], "no-such.tar.gz is not there"),
        (["baseline", "capture", "--launchs", "5"], "did you mean '--launches'?"),
        (["baseline", "capture", "--out", "x", "--launches", "-1"], "--launches"),
        (["baseline", "capture", "--out", "x", "--launches", "1e3"], "found '1e3'"),
        (["--quiet", "judge", "x"], "'--quiet' stands before the command"),
        (["judge"], "required: DIR"),
        (["judge", "no/such/folder"], "no/such/folder is not there"),
        (["judge", __file__], "is no folder"),
        (["render", "no/such/folder"], "is not there"),
        (["verify", "no/such/folder"], "is not there"),
        (["verify", ".", "--root", "abc"], "--root: found 'abc'"),
        (["inspect", "no/such/folder"], "is not there"),
        (["inspect", ".", "--prompt", "a", "--failures"], "not allowed with"),
        (["diff", "no/such/folder", "."], "A: no/such/folder is not there"),
        (["diff", ".", "no/such/folder"], "B: no/such/folder is not there"),
        (["diff", "."], "required: B"),
        (["diff", ".", ".", "--html", "."], "--html: . is a folder"),
        (["diff", ".", ".", "--html", "page.html"], "is in the evidence folder ."),
        (["demo", "--weights", "no/such.gguf"], "--weights: no/such.gguf is no file"),
        (["demo", "--out", __file__], "--out"),
    ],
)
def test_wrong_arguments(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with a command line is told on stderr and exits 4."""
    status = cli.main(argv)
    shown = capsys.readouterr()

    assert status == 4
    assert said in shown.err
    assert shown.out == ""


def test_wrong_arguments__process() -> None:
    """An argparse error exits 4 from the process too, not argparse's own 2 (UNPROVEN)."""
    done = iqaction("run", "--concurrency", "many", "--evidence", "x")

    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_wrong_arguments__nearest_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt folder is told the name beside it."""
    (tmp_path / "candidate").mkdir()
    cli.main(["judge", str(tmp_path / "candidat")])

    assert "did you mean 'candidate'?" in capsys.readouterr().err


def test_wrong_arguments__json(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json an error is one JSON object on stdout, and still told on stderr."""
    status = cli.main(["judge", "no/such/folder", "--json"])
    shown = capsys.readouterr()
    body = json.loads(shown.out)

    assert status == body["exit_code"] == 4
    assert body["error"]["kind"] == "configuration"
    assert "no/such/folder" in body["error"]["happened"]
    assert "no/such/folder" in shown.err


def test_wrong_arguments__hostile(capsys: pytest.CaptureFixture[str]) -> None:
    """An argument cannot repaint the terminal or command a CI runner."""
    cli.main(["judge", "\x1b[2J\n::error::x##[group]"])
    shown = capsys.readouterr().err

    assert "\x1b" not in shown
    assert "\n::" not in shown
    assert "##[" not in shown


# --- what a command ends with


@pytest.mark.parametrize("status", [0, 1, 2, 3, 4])
def test_status__of_the_command(status: int) -> None:
    """What a command returns is the exit status."""
    assert cli.main(["double"], {"double": Double(lambda console: status)}) == status


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ConfigError("the plan is wrong", expected="a plan"), 4, "configuration"),
        (EvidenceError("in use"), 3, "not run"),
        (EngineError("nobody there", next_step="start it"), 3, "not run"),
        (OSError(errno.ENOSPC, "No space left on device"), 3, "machine"),
        (PermissionError(errno.EACCES, "Permission denied", "ev/plan.json"), 3, "machine"),
        (OSError(errno.EROFS, "Read-only file system", "ev"), 3, "machine"),
        (KeyboardInterrupt(), 130, "stopped"),
        (cli.Terminated(), 143, "stopped"),
        (RuntimeError("boom"), 70, "internal"),
        (OSError("a connection error of some library"), 70, "internal"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), 70, "internal"),
        (AssertionError(), 70, "internal"),
        (MemoryError(), 70, "internal"),
        (RecursionError("deep"), 70, "internal"),
    ],
)
def test_status__of_an_error(
    error: BaseException, status: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every way to end has its status, its message, no traceback, and JSON where wanted."""
    assert cli.main(["double", "--json"], {"double": raising(error)}) == status
    shown = capsys.readouterr()
    body = json.loads(shown.out)

    assert (body["exit_code"], body["error"]["kind"]) == (status, kind)
    assert shown.err.startswith(("iqaction: ", "Stopped", "Terminated"))
    assert "Traceback" not in shown.err


def test_status__error_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """An error says what happened, what was expected, what to do next."""
    error = EngineError("nobody answers", expected="an engine", next_step="start it")
    cli.main(["double"], {"double": raising(error)})

    assert capsys.readouterr().err == (
        "iqaction: nobody answers\n  expected: an engine\n  next:     start it\n"
    )


def test_status__full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk is told by name, with the file."""
    error = OSError(errno.ENOSPC, "No space left on device", "ev/journal.jsonl")
    cli.main(["double"], {"double": raising(error)})

    assert "ev/journal.jsonl: No space left on device" in capsys.readouterr().err


# --- internal errors


def test_internal_error__says_how_to_report(capsys: pytest.CaptureFixture[str]) -> None:
    """An internal error names its place and the command that shows more; not its text, which
    may quote a key."""
    error = RuntimeError("Authorization: Bearer hunter2")
    assert cli.main(["double"], {"double": raising(error)}) == 70
    shown = capsys.readouterr().err

    assert "internal error (RuntimeError at test_cli.py:" in shown
    assert "not a verdict" in shown
    assert "IQACTION_DEBUG=1 iqaction double" in shown
    assert "hunter2" not in shown


def test_internal_error__debug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """IQACTION_DEBUG=1 shows the traceback, its control characters escaped."""
    monkeypatch.setenv("IQACTION_DEBUG", "1")
    assert cli.main(["double"], {"double": raising(RuntimeError("a\x1bb"))}) == 70
    shown = capsys.readouterr().err

    assert "Traceback (most recent call last)" in shown
    assert "RuntimeError: a\\x1bb" in shown


SCRIPT = """
import argparse, signal, sys, threading, time
from iqaction import cli

class Command:
    ORDER = 1
    SUMMARY = DESCRIPTION = EXAMPLES = "x"
    def flags(self, parser):
        pass
    def run(self, args, console):
        {body}

sys.exit(cli.entry({{"run": Command()}}))
"""


def process(body: str, argv: Sequence[str] = ("run",)) -> subprocess.Popen[str]:
    code = SCRIPT.format(body=textwrap.indent(textwrap.dedent(body), " " * 8).strip())
    return subprocess.Popen(
        [sys.executable, "-c", code, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_internal_error__process() -> None:
    """A crash exits 70, never 1: 1 is FAIL."""
    running = process("1 / 0")
    out, err = running.communicate(timeout=60)

    assert running.returncode == 70
    assert out == ""
    assert "ZeroDivisionError" in err
    assert "Traceback" not in err


# --- signals


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "Stopped."), (signal.SIGTERM, 143, "Terminated.")],
)
@pytest.mark.parametrize("stuck", [False, True], ids=["idle", "request in flight"])
def test_signal(number: signal.Signals, status: int, word: str, stuck: bool) -> None:
    """Ctrl-C and SIGTERM end at once, even with a request in flight, and say how to go on."""
    body = "threading.Thread(target=threading.Event().wait).start()\n" if stuck else ""
    body += "print('ready', flush=True)\nsignal.pause()\nsignal.pause()"
    running = process(body)
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(number)
    _, err = running.communicate(timeout=30)

    assert running.returncode == status
    assert err.startswith(word)
    assert "the same command continues:\n  iqaction run" in err
    assert "Traceback" not in err


def test_signal__cleans_up() -> None:
    """SIGTERM unwinds like Ctrl-C: servers and files are closed on the way."""
    body = """
    try:
        print("ready", flush=True)
        signal.pause()
    finally:
        print("closed", flush=True)
    """
    running = process(body)
    assert running.stdout is not None
    running.stdout.readline()
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=30)

    assert (running.returncode, out) == (143, "closed\n")


def test_signal__handler_restored() -> None:
    """Used as a library, the command line leaves the process's handlers alone."""
    before = signal.getsignal(signal.SIGTERM)
    cli.main(["double"], {"double": Double(lambda console: 0)})

    assert signal.getsignal(signal.SIGTERM) is before


# --- streams


def test_stdout__closed_pipe() -> None:
    """`| head` ends no command: the exit status stays the verdict's."""
    read, write = os.pipe()
    os.close(read)
    code = SCRIPT.format(body="console.page('x' * 100_000); return 1")
    done = subprocess.run(
        [sys.executable, "-c", code, "run"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)

    assert (done.returncode, done.stderr) == (1, "")


def test_stdout__ascii_only() -> None:
    """A terminal that cannot show a character gets an escape, not a crash."""
    code = SCRIPT.format(body="console.page('caf\\u00e9 \\u6f22\\n'); return 0")
    done = subprocess.run(
        [sys.executable, "-c", code, "run"],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert (done.returncode, done.stdout) == (0, b"caf\\xe9 \\u6f22\n")


def test_json__no_command_for_the_runner(capsys: pytest.CaptureFixture[str]) -> None:
    """What a model wrote is data in JSON, and no command to a CI runner's log."""
    text = "::error::x\n##[group]y\x1b\u202e"

    def show(console: Console) -> int:
        console.object({"text": text})
        return 0

    cli.main(["double", "--json"], {"double": Double(show)})
    out = capsys.readouterr().out

    assert json.loads(out) == {"text": text}
    assert "##[" not in out
    assert not [line for line in out.splitlines() if line.lstrip().startswith("::")]
    assert out.isascii()


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """--quiet shows no progress; without it, it goes to stderr."""

    def work(console: Console) -> int:
        progress: Progress = console.progress()
        progress.start("texts", 2)
        progress.finish()
        return 0

    cli.main(["double", "--quiet"], {"double": Double(work)})
    assert capsys.readouterr().err == ""
    cli.main(["double"], {"double": Double(work)})
    shown = capsys.readouterr()
    assert "texts" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("http://h:1/v1", "http://h:1/v1"),
        ("a?b#c", "'a?b#c'"),
        ("http://me:canary@h/v1", "'http://***@h/v1'"),
        ("http://canary@h?canary&b=canary", "'http://***@h?***'"),
        ("http://h#canary?canary", "'http://h#***'"),
        ("--endpoint=http://me:can@ary@h", "'--endpoint=http://***@h'"),
    ],
)
def test_shown__without_secrets(typed, shown):
    """The command that continues a run names where an endpoint is, and not who asks there."""
    assert cli.shown(["run", typed]) == f"run {shown}"
