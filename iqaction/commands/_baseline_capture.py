"""``iqaction baseline capture``: the reference and its relaunches, in one command."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from iqaction.commands import _observing
from iqaction.commands._console import Console

ORDER = 1
SUMMARY = "ask a trusted engine, restart it, and ask again: a baseline"
DESCRIPTION = """\
Asks the engine at --endpoint what the plan says, then restarts it with --relaunch-command and asks
again, 5 times: what a restart alone changes is the noise that no verdict may take for damage.

--out DIR keeps the evidence as a folder. --out FILE.tar.gz packs it into one file, the same bytes
from the same evidence; the folder FILE.tar.gz.evidence beside it is what it is made from, and can
be removed when the capture is done; the same command then captures a new baseline and replaces the
file. A baseline that the plan names is left out.

The relaunch command is run by sh. It stops the server, starts it again and returns; a server that
it starts stays in the background (`nohup ... &`). Then the capture waits until the endpoint has
generated a token. Without a relaunch command all launches are repeats on one: such a baseline
supports no PASS of `score`, unless the plan says `floor: single` there.

Stopped at any moment, the same command continues at the first launch that is not complete, and
asks nothing twice.

Exit status 0: captured; 3: something is left to ask, or the server did not come up; 1 or 2: the
reference disagrees with itself, or its evidence has a problem, and nothing is packed."""
EXAMPLES = """\
  iqaction baseline capture --plan plan.yml --endpoint http://127.0.0.1:8000/v1 \\
      --out baseline.tar.gz --relaunch-command 'docker restart reference'
  # a server that a script starts
  iqaction baseline capture --endpoint http://127.0.0.1:8000/v1 --out baseline \\
      --relaunch-command './stop.sh; nohup ./serve.sh >serve.log 2>&1 &'"""

_MOST_LAUNCHES = 100
_MOST_SECONDS = 86_400


def flags(parser: argparse.ArgumentParser) -> None:
    """Whom to ask, what, where to keep it, and how to restart the server."""
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        required=True,
        help="the baseline: a folder, or one file where the name ends in .tar.gz",
    )
    _observing.whom(parser)
    parser.add_argument(
        "--launches",
        metavar="N",
        type=_observing.count(_MOST_LAUNCHES, 0),
        default=5,
        help="relaunches, at least 3; default: 5",
    )
    parser.add_argument(
        "--relaunch-command",
        metavar="CMD",
        default="",
        help="restarts the server and returns; without it the noise of a restart is not known",
    )
    parser.add_argument(
        "--relaunch-timeout",
        metavar="SECONDS",
        type=_observing.count(_MOST_SECONDS),
        default=1200,
        help="of that command, and again until the server generates; default: 1200",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Capture; 0 where it is complete and can be compared with."""
    from iqaction import capture, session  # noqa: PLC0415 - numpy is not for `--help`
    from iqaction.boot._base import World  # noqa: PLC0415
    from iqaction.commands import _captured  # noqa: PLC0415

    options = capture.Options(
        session.RunOptions(
            evidence=args.out,
            plan=args.plan,
            endpoint=args.endpoint,
            model=args.model,
            dialect=args.dialect,
            suite=args.suite,
            api_key_env=args.api_key_env,
            concurrency=args.concurrency,
        ),
        args.launches,
        args.relaunch_command,
        float(args.relaunch_timeout),
    )
    found = capture.capture(options, World(os.environ), console.progress())
    return _captured.captured(found, options.out, console)
