"""``iqaction observe``: ask only. The one step that needs the engine, and so the GPU."""

from __future__ import annotations

import argparse

from iqaction.commands import _observing
from iqaction.commands._console import Console

ORDER = 2
SUMMARY = "only ask an engine and keep its answers"
DESCRIPTION = """\
The first half of `run`: asks what the plan says and keeps the answers. `judge` and `render` do
the rest later, anywhere, without the engine.

With --launch N it observes the reference once more, after it was stopped and started again:
from 3 such relaunches on (5 are better) the noise of a restart is known, and no verdict takes it
for damage. A server on this machine that was not restarted is refused; elsewhere that cannot be
seen. --not-restarted keeps a repeat on the same server as what it is.

Exit status 0: everything was observed; 3: something is left to ask."""
EXAMPLES = """\
  iqaction observe --endpoint http://127.0.0.1:8001/v1 --baseline reference --evidence candidate
  # restart the reference, then measure what a restart alone changes; again with 2 and 3
  iqaction observe --endpoint http://127.0.0.1:8000/v1 --evidence reference --launch 1"""


def flags(parser: argparse.ArgumentParser) -> None:
    """The flags of every command that asks an engine, and the relaunch."""
    _observing.flags(parser)
    _observing.launch_flag(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Ask; 0 where nothing is left, 3 otherwise."""
    return _observing.perform(args, console, judged=False)
