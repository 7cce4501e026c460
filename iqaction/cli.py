"""The command line: reads arguments, runs one command, turns what happens into an exit status.

The only place where an error becomes a message and a number. ``0 PASS, 1 FAIL, 2 UNPROVEN,
3 NOT RUN`` come from a verdict; a Python crash would exit 1 and read as FAIL, so everything
unforeseen exits 70.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from iqaction import __version__
from iqaction.commands import load_all
from iqaction.commands._base import Command, attach, deeper
from iqaction.commands._console import Console, standard
from iqaction.errors import ConfigError, IqError
from iqaction.interrupts import INTERRUPTED, TERMINATED, Terminated, termination_raised
from iqaction.spelling import nearest
from iqaction.verdict import EXIT_CODE, Verdict

CONFIGURATION = 4
INTERNAL = 70  # EX_SOFTWARE of sysexits.h
_NOT_RUN = EXIT_CODE[Verdict.NOT_RUN]

_DESCRIPTION = """\
Does the faster engine still produce the model's output? inferquality asks an OpenAI-compatible
engine what a trusted one was asked before, compares log-probabilities and texts, and answers
PASS, FAIL or UNPROVEN with known error rates."""
_EPILOG = """\
first steps:
  iqaction demo                                          see it work, on this machine
  iqaction run --endpoint URL --evidence reference       keep what the trusted engine says
  iqaction run --endpoint URL --baseline reference --evidence candidate

exit status:
  0 PASS   1 FAIL   2 UNPROVEN   3 NOT RUN (or an unusable evidence folder or engine)
  4 wrong plan, prompts or flags   70 internal error   130 Ctrl-C   143 terminated

`iqaction COMMAND --help` explains a command and shows examples."""

# A full disk, a folder without rights, too many files: the machine's, and told as that.
_MACHINE = frozenset(
    getattr(errno, name)
    for name in (
        *("EACCES", "EDQUOT", "EFBIG", "EIO", "EISDIR", "ELOOP", "EMFILE", "ENAMETOOLONG"),
        *("ENFILE", "ENOENT", "ENOSPC", "ENOTDIR", "EPERM", "EROFS", "ESTALE", "ETXTBSY"),
    )
    if hasattr(errno, name)
)


class _Parser(argparse.ArgumentParser):
    """Says its errors as ours, so that they have one look and one exit status."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message[:1].lower() + message[1:], next_step=f"{self.prog} --help")


def entry(commands: Mapping[str, Command] | None = None) -> int:
    """The process's entry: ``sys.argv`` in, the exit status out."""
    status = main(sys.argv[1:], commands)
    if status in (INTERRUPTED, TERMINATED) and threading.active_count() > 1:
        # Requests in flight may take minutes; every answer so far is on disk already.
        os._exit(status)
    return status


def main(argv: Sequence[str], commands: Mapping[str, Command] | None = None) -> int:
    """Run one command and say how it ended; the exit status.

    Parameters
    ----------
    argv
        The arguments, the program's own name left out.
    commands
        By name; None: those of ``iqaction/commands``.
    """
    console = standard(as_json="--json" in argv, quiet="--quiet" in argv)
    try:
        with termination_raised():
            return _dispatch(argv, load_all() if commands is None else commands, console)
    except SystemExit as exc:  # argparse, after --help
        return exc.code if isinstance(exc.code, int) else 0
    except Terminated:
        return _stopped(argv, console, TERMINATED, "Terminated")
    except KeyboardInterrupt:
        return _stopped(argv, console, INTERRUPTED, "Stopped")
    except ConfigError as exc:
        return _refused(exc, console, CONFIGURATION, "configuration")
    except IqError as exc:
        return _refused(exc, console, _NOT_RUN, "not run")
    except Exception as exc:  # noqa: BLE001,RUF100 - the one place that must know no exception by name
        if isinstance(exc, OSError) and exc.errno in _MACHINE:
            return _refused(_machine(exc), console, _NOT_RUN, "machine")
        return _crashed(exc, argv, console)


def _dispatch(argv: Sequence[str], commands: Mapping[str, Command], console: Console) -> int:
    parser, parsers = _parsers(commands)
    _check_spelling(argv, parsers)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(console.err)
        return CONFIGURATION
    return commands[args.command].run(args, console)


def _parsers(
    commands: Mapping[str, Command],
) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    raw = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="iqaction",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-V",
        "--version",
        action="version",
        version=f"iqaction {__version__}",
        help="show the version",
    )
    chosen = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    return parser, attach(chosen, commands)


def _check_spelling(
    argv: Sequence[str],
    parsers: Mapping[str, argparse.ArgumentParser],
    program: str = "iqaction",
) -> None:
    """Refuse an unknown command or flag with its nearest name.

    Before parsing: argparse would first complain of the flag that is missing because it was
    misspelt.
    """
    if not argv or argv[0] in ("-h", "--help", "-V", "--version"):
        return
    if argv[0].startswith("-"):
        raise ConfigError(
            f"{argv[0][:60]!r} stands before the command",
            expected="the command first, as `iqaction judge DIR --json`",
            next_step=f"{program} --help",
        )
    if argv[0] not in parsers:
        raise ConfigError(
            f"unknown command {argv[0][:60]!r}{nearest(argv[0], parsers)}",
            expected=", ".join(parsers),
            next_step=f"{program} --help",
        )
    if inner := deeper(parsers[argv[0]]):
        _check_spelling(argv[1:], inner, f"{program} {argv[0]}")
        return
    known = _option_strings(parsers[argv[0]])
    for word in argv[1:]:
        if word == "--":
            return
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in known:
            raise ConfigError(
                f"unknown flag {flag[:60]!r}{nearest(flag, known)}",
                expected="one of " + ", ".join(sorted(x for x in known if x.startswith("--"))),
                next_step=f"{program} {argv[0]} --help",
            )


def _option_strings(parser: argparse.ArgumentParser) -> Iterable[str]:
    return {name for action in parser._actions for name in action.option_strings}


def _refused(error: IqError, console: Console, status: int, kind: str) -> int:
    console.complain(f"iqaction: {error}")
    if console.json:
        said = {
            "kind": kind,
            "happened": error.happened,
            "expected": error.expected,
            "next": error.next_step,
        }
        console.object({"error": said, "exit_code": status})
    return status


def _machine(error: OSError) -> IqError:
    what = error.strerror or type(error).__name__
    return IqError(
        f"{error.filename}: {what}" if error.filename is not None else what,
        next_step="what was observed so far is kept; the same command continues",
    )


def _stopped(argv: Sequence[str], console: Console, status: int, word: str) -> int:
    lines = [f"{word}."]
    if tuple(argv[:1]) in (("run",), ("observe",)) or tuple(argv[:2]) == ("baseline", "capture"):
        lines = [
            f"{word}. Every answer so far is kept; the same command continues:",
            f"  iqaction {shown(argv)}",
        ]
    console.complain("\n".join(lines))
    if console.json:
        error = {"kind": "stopped", "happened": word, "expected": "", "next": ""}
        console.object({"error": error, "exit_code": status})
    return status


def shown(argv: Sequence[str]) -> str:
    """The arguments for a shell, without what an address in them holds besides its place: logs
    are read by more people than command lines."""
    return shlex.join(_place_only(word) for word in argv)


def _place_only(word: str) -> str:
    scheme, mark, rest = word.partition("://")
    if not mark:
        return word
    end = min((at for at in map(rest.find, "?#") if at >= 0), default=len(rest))
    place, more = rest[:end], rest[end : end + 1]
    user, at, host = place.rpartition("@")
    return f"{scheme}://{'***' if user else ''}{at}{host}{more}{'***' if more else ''}"


def _crashed(error: Exception, argv: Sequence[str], console: Console) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"
    what = f"{type(error).__name__} at {place}"
    if console.environ.get("IQACTION_DEBUG") == "1":
        console.complain("".join(traceback.format_exception(error)))
    else:
        # Its text may quote a server or a key: it is shown only to those who ask.
        console.complain(
            f"iqaction: internal error ({what}). This is a fault of inferquality, not a verdict.\n"
            "  next:     report it with what this prints:\n"
            f"            IQACTION_DEBUG=1 iqaction {shown(argv)}"
        )
    if console.json:
        said = {"kind": "internal", "happened": what, "expected": "", "next": "report it"}
        console.object({"error": said, "exit_code": INTERNAL})
    return INTERNAL
