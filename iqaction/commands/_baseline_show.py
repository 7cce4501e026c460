"""``iqaction baseline show``: what a baseline holds, and which margins it can decide."""

from __future__ import annotations

import argparse

from iqaction.commands import _folders
from iqaction.commands._console import Console

ORDER = 2
SUMMARY = "what a baseline holds, and which margins it can decide"
DESCRIPTION = """\
Engine, machine, day, plan and prompts of a baseline, and for each metric of `score` what its
relaunches differ by and the smallest margin that this noise can support: the one at which the
same engine, launched once more, would PASS nine times in ten."""
EXAMPLES = """\
  iqaction baseline show baseline.tar.gz
  iqaction baseline show baseline --json | jq .floor.metrics"""


def flags(parser: argparse.ArgumentParser) -> None:
    """PATH."""
    _folders.baseline(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Show it; 0 whatever it can decide."""
    path = _folders.packed_or_folder(args.path)
    from iqaction import baseline, baseline_view  # noqa: PLC0415 - numpy is not for `--help`

    with baseline.held(path) as one:
        refusals = baseline.refusals(one)
        if console.json:
            console.object(baseline_view.as_json(one, refusals))
        else:
            console.page(baseline_view.page(one, refusals, console.columns))
    return 0
