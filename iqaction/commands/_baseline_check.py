"""``iqaction baseline check``: is it whole, and can this plan and this endpoint use it?"""

from __future__ import annotations

import argparse
from pathlib import Path

from iqaction.commands import _folders
from iqaction.commands._console import Console
from iqaction.verdict import EXIT_CODE, Verdict

ORDER = 3
SUMMARY = "is it whole, and does it fit a plan and an endpoint?"
DESCRIPTION = """\
Finds every edited, missing and foreign file. With --plan it says what of the plan the baseline
does not answer; with --endpoint whether somebody answers there and can do what is asked.

Exit status 0: usable; 2: not for this; 3: damaged or unreadable; 4: a mistake in the plan."""
EXAMPLES = """\
  iqaction baseline check baseline.tar.gz
  iqaction baseline check baseline.tar.gz --plan plan.yml --endpoint http://127.0.0.1:8001/v1
  iqaction baseline check baseline.tar.gz --sha256 9f2c...  # the root that the capture printed"""


def flags(parser: argparse.ArgumentParser) -> None:
    """PATH, and what it is to be used for."""
    _folders.baseline(parser)
    parser.add_argument("--plan", metavar="FILE", type=Path, help="the plan that is to use it")
    parser.add_argument("--endpoint", metavar="URL", default="", help="the candidate's engine")
    parser.add_argument("--model", metavar="NAME", default="", help="model name there")
    parser.add_argument("--dialect", metavar="NAME", default="", help="what that engine speaks")
    parser.add_argument(
        "--api-key-env",
        metavar="NAME",
        default="",
        help="environment variable that holds the API key",
    )
    parser.add_argument(
        "--sha256",
        metavar="SHA256",
        default="",
        help="the evidence root that it must have, or the sha256 of its .tar.gz",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Check; 0 usable, 2 not for this, 3 damaged."""
    path = _folders.packed_or_folder(args.path)
    from iqaction import baseline  # noqa: PLC0415 - numpy is not for `--help`

    asked = {k: getattr(args, k) for k in ("endpoint", "model", "dialect", "api_key_env")}
    found = baseline.check(path, args.plan, asked, args.sha256)
    status = 0
    if found.damage:
        status = EXIT_CODE[Verdict.NOT_RUN]
    elif found.problems:
        status = EXIT_CODE[Verdict.UNPROVEN]
    if console.json:
        console.object(
            {
                "usable": status == 0,
                "root": found.root,
                "damage": list(found.damage),
                "problems": list(found.problems),
                "looked_at": list(found.looked),
                "exit_code": status,
            }
        )
        return status
    word = {0: "usable", 2: "not usable for this", 3: "damaged"}[status]
    lines = [word, *(f"  - {x}" for x in (*found.damage, *found.problems))]
    lines += [f"looked at  {', '.join(found.looked)}"] if found.looked else []
    lines += [f"root       {found.root}"]
    if status == EXIT_CODE[Verdict.UNPROVEN]:
        plan = f"--plan {args.plan} " if args.plan else ""
        lines.append(
            f"next       mend what is named; or, where the baseline is to change, "
            f"iqaction baseline capture {plan}--endpoint URL --relaunch-command CMD --out NEW"
        )
    console.page("\n".join(lines) + "\n")
    return status
