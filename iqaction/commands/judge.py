"""``iqaction judge``: the verdict from the evidence alone, the same each time."""

from __future__ import annotations

import argparse

from iqaction.commands import _folders
from iqaction.commands._console import Console

ORDER = 3
SUMMARY = "judge an evidence folder again; needs no engine"
DESCRIPTION = """\
Reads the evidence, judges it and writes report.json. The same evidence gives the same verdict,
on any machine. The exit status is the verdict's."""
EXAMPLES = """\
  iqaction judge candidate
  iqaction judge candidate --json | jq -r .verdict"""


def flags(parser: argparse.ArgumentParser) -> None:
    """DIR."""
    _folders.add(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Judge; the verdict's exit status."""
    folder = _folders.existing(args.folder)
    from iqaction import session  # noqa: PLC0415 - numpy is not for `--help`
    from iqaction.commands import _outcome  # noqa: PLC0415

    return _outcome.found(session.judge(folder), console)
