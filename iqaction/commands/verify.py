"""``iqaction verify``: is this what was sealed, and does it say what the report says?"""

from __future__ import annotations

import argparse
import re

from iqaction.commands import _folders
from iqaction.commands._console import Console
from iqaction.errors import ConfigError
from iqaction.verdict import EXIT_CODE, Verdict

ORDER = 6
SUMMARY = "check that an evidence folder is whole and unaltered"
DESCRIPTION = """\
Finds every edited, missing and foreign file, checks every schema, judges the evidence again and
compares. With --root, the evidence root that the run printed, an alteration cannot be hidden;
without it, somebody who alters a file could have sealed the folder anew.

Exit status 0: whole; 3: not."""
EXAMPLES = """\
  iqaction verify candidate
  iqaction verify candidate --root 9f2c...  # the 64 digits that the run or its comment shows"""

_ROOT = re.compile(r"[0-9a-f]{64}\Z")


def flags(parser: argparse.ArgumentParser) -> None:
    """DIR and the root."""
    _folders.add(parser)
    parser.add_argument(
        "--root", metavar="SHA256", default="", help="the evidence root that the run printed"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Verify; 0 where the folder is whole, else 3."""
    root = args.root.strip().lower().removeprefix("sha256:")
    if args.root and not _ROOT.match(root):
        raise ConfigError(
            f"--root: found {args.root[:80]!r}", expected="the 64 hexadecimal digits of a sha256"
        )
    folder = _folders.existing(args.folder)
    from iqaction import session  # noqa: PLC0415 - numpy is not for `--help`

    found = session.verify(folder, root)
    status = 0 if found.ok else EXIT_CODE[Verdict.NOT_RUN]
    if console.json:
        console.object(
            {
                "ok": found.ok,
                "authenticated": found.authenticated,
                "root": found.root,
                "problems": list(found.problems),
                "evidence": str(folder),
                "exit_code": status,
            }
        )
        return status
    if found.ok:
        word = "authenticated" if found.authenticated else "consistent, not authenticated"
    else:
        word = "NOT WHOLE"
    lines = [word, *(f"  - {p}" for p in found.problems), f"root  {found.root or 'none'}"]
    if found.ok and not found.authenticated:
        lines.append("With --root SHA256, as the run printed it, an alteration cannot be hidden.")
    console.page("\n".join(lines) + "\n")
    return status
