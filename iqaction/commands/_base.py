"""What a file in ``commands/`` offers, as module attributes. Knows no command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Protocol

from iqaction.commands._console import Console


class Command(Protocol):
    """``iqaction NAME``.

    Attributes
    ----------
    ORDER
        Its place in the list of commands.
    SUMMARY
        One line for that list.
    DESCRIPTION
        What it does, for its own page.
    EXAMPLES
        Commands to copy, each with what it is for.
    """

    @property
    def ORDER(self) -> int: ...

    @property
    def SUMMARY(self) -> str: ...

    @property
    def DESCRIPTION(self) -> str: ...

    @property
    def EXAMPLES(self) -> str: ...

    def flags(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags."""
        ...

    def run(self, args: argparse.Namespace, console: Console) -> int:
        """Do it; the exit status. Raises IqError for what a person can act on."""
        ...


def attach(
    chosen: argparse._SubParsersAction[Any], commands: Mapping[str, Command]
) -> Mapping[str, argparse.ArgumentParser]:
    """Give each command a parser of its own, with the flags that all have; by name."""
    raw = argparse.RawDescriptionHelpFormatter
    found = {}
    for name, command in commands.items():
        one = chosen.add_parser(
            name,
            help=command.SUMMARY,
            description=command.DESCRIPTION,
            epilog=f"examples:\n{command.EXAMPLES}",
            formatter_class=raw,
            allow_abbrev=False,
        )
        command.flags(one)
        if not deeper(one):  # else its own commands have them
            one.add_argument("--json", action="store_true", help="print one JSON object on stdout")
            one.add_argument(
                "--quiet", action="store_true", help="no progress and no notes on stderr"
            )
        found[name] = one
    return found


def deeper(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers of a command's own commands, by name; none for most."""
    inner = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return next((a.choices for a in inner), {})
