"""``iqaction render``: the comment, the summary and the page, from the report."""

from __future__ import annotations

import argparse

from iqaction.commands import _folders
from iqaction.commands._console import Console

ORDER = 4
SUMMARY = "write the comment, summary and page of a report"
DESCRIPTION = """\
Writes comment.md, summary.md, report.html and effects.json from report.json. Publishes nothing:
effects.json says what is to be published. The exit status is the verdict's."""
EXAMPLES = """\
  iqaction render candidate && cat candidate/comment.md"""


def flags(parser: argparse.ArgumentParser) -> None:
    """DIR."""
    _folders.add(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Render; the verdict's exit status."""
    folder = _folders.existing(args.folder)
    from iqaction import session  # noqa: PLC0415 - numpy is not for `--help`
    from iqaction.commands import _outcome  # noqa: PLC0415

    return _outcome.found(session.render(folder), console)
