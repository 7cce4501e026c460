"""``iqaction baseline``: captures a baseline, looks at one, and pins it. Each in a file beside."""

from __future__ import annotations

import argparse
from typing import cast

from iqaction.commands import (
    _baseline_capture,
    _baseline_check,
    _baseline_pin,
    _baseline_show,
)
from iqaction.commands._base import Command, attach
from iqaction.commands._console import Console

ORDER = 3
SUMMARY = "capture a baseline, look at one, pin it: capture, show, check, pin"
DESCRIPTION = """\
A baseline is the sealed evidence of an engine that you trust: its texts, and what a restart alone
changes in its numbers. Candidates are compared with it, today and in a year, without that engine
running."""
EXAMPLES = """\
  iqaction baseline capture --endpoint http://127.0.0.1:8000/v1 --out baseline.tar.gz \\
      --relaunch-command 'docker restart reference'
  iqaction baseline show baseline.tar.gz
  iqaction baseline check baseline.tar.gz --plan plan.yml
  iqaction baseline pin baseline.tar.gz"""

_COMMANDS = {
    "capture": cast(Command, _baseline_capture),
    "show": cast(Command, _baseline_show),
    "check": cast(Command, _baseline_check),
    "pin": cast(Command, _baseline_pin),
}


def flags(parser: argparse.ArgumentParser) -> None:
    """Its own commands."""
    chosen = parser.add_subparsers(
        title="commands", dest="baseline_command", metavar="COMMAND", required=True
    )
    attach(chosen, _COMMANDS)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the one that was named."""
    return _COMMANDS[args.baseline_command].run(args, console)
