"""What a file in ``commands/`` offers, as module attributes. Knows no command."""

from __future__ import annotations

import argparse
from typing import Protocol

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
