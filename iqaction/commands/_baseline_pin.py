"""``iqaction baseline pin``: which baseline holds, in a small file that people review."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path

from iqaction.commands import _folders
from iqaction.commands._console import Console

ORDER = 4
SUMMARY = "write which baseline holds into a file to be reviewed"
DESCRIPTION = """\
Small changes add up: five that each are worse by half a margin are worse by two and a half. So
the baseline that changes are judged against is pinned, and pinning another one says how far it
lies from the one before, and from the first.

The file holds the baseline's evidence root, where it is, the day, the reason and all earlier pins.
Commit it. A plan with `anchor: baseline.yml` (its path from the plan's folder) is then compared
with that baseline only.

Where a baseline is pinned already, --candidate is the evidence of the new engine, judged against
the pinned baseline: its figures of `score` are the drift of this step.

Exit status 0: pinned; 3: the baseline cannot be used; 4: the drift is not known."""
EXAMPLES = """\
  iqaction baseline pin baseline.tar.gz
  # later: the new engine is judged against the pinned baseline, then pinned itself
  iqaction run --endpoint URL --baseline baseline.tar.gz --evidence candidate
  iqaction baseline capture --endpoint URL --out new.tar.gz --relaunch-command CMD
  iqaction baseline pin new.tar.gz --candidate candidate --reason '8-bit weights on purpose'"""


def flags(parser: argparse.ArgumentParser) -> None:
    """PATH, the measured step, and why."""
    _folders.baseline(parser)
    parser.add_argument(
        "--candidate",
        metavar="DIR",
        type=Path,
        help="evidence of the new engine, compared with the pinned baseline",
    )
    parser.add_argument("--reason", metavar="TEXT", default="", help="why it is pinned")
    parser.add_argument(
        "--file",
        metavar="FILE",
        type=Path,
        default=Path(".inferquality/baseline.yml"),
        help="the file to write; default: .inferquality/baseline.yml",
    )
    parser.add_argument(
        "--artifact",
        action="store_true",
        help="the baseline itself is kept as an artifact and not in the repository",
    )
    parser.add_argument(
        "--unmeasured",
        action="store_true",
        help="pin although the drift of this step is not known; the file will say so",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Pin it; 0 also where the sum of all steps is beyond a margin, which is said."""
    path = _folders.packed_or_folder(args.path)
    from iqaction import anchor, baseline, baseline_view  # noqa: PLC0415 - not for `--help`

    done = baseline.pin(
        baseline.PinOptions(
            path,
            args.file,
            datetime.now(timezone.utc).date().isoformat(),
            args.reason,
            None if args.candidate is None else _folders.existing(args.candidate),
            args.unmeasured,
            args.artifact,
        )
    )
    beyond = anchor.beyond(done.anchor, done.margins)
    if console.json:
        body = baseline_view.pin_json(done.anchor, done.step, done.margins, beyond)
        console.object({**body, "file": str(args.file), "exit_code": 0})
    else:
        text = baseline_view.pin_page(done.anchor, done.step, done.margins, beyond, console.columns)
        console.page(f"{text}file    {args.file}: review and commit it\n")
    return 0
