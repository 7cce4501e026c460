"""``iqaction inspect``: the evidence in full, for a person."""

from __future__ import annotations

import argparse

from iqaction.commands import _folders
from iqaction.commands._console import Console

ORDER = 7
SUMMARY = "show a prompt, a divergence or the failures in full"
DESCRIPTION = """\
Without a flag: which prompts are faulty and where texts part, the gravest first. --prompt shows
one prompt whole: what was asked, what both engines wrote, the first token that differs, and the
lists of likely tokens around it; or one item of gsm8k or niah: the question, both answers, by
which rule each was read, and what is right. Control characters in what models wrote are shown,
not obeyed."""
EXAMPLES = """\
  iqaction inspect candidate
  iqaction inspect candidate --prompt code-017
  iqaction inspect candidate --prompt gsm8k-0489
  iqaction inspect candidate --divergence code-017
  iqaction inspect candidate --failures"""


def flags(parser: argparse.ArgumentParser) -> None:
    """DIR, and what of it."""
    _folders.add(parser)
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--prompt", metavar="ID", default="", help="one prompt or item whole")
    one.add_argument("--divergence", metavar="ID", default="", help="where one prompt's texts part")
    one.add_argument("--failures", action="store_true", help="every request without an answer")


def run(args: argparse.Namespace, console: Console) -> int:
    """Show it; 0 whatever the verdict is."""
    folder = _folders.existing(args.folder)
    from iqaction import inspect_view, session  # noqa: PLC0415 - numpy is not for `--help`
    from iqaction.evidence.store import Folder  # noqa: PLC0415

    report = session.judge(folder, write=False).report
    with Folder.open(folder) as opened:
        observed = opened.load()
    if console.json:
        unit = args.prompt or args.divergence
        if unit:
            console.object(inspect_view.prompt_json(observed, report, unit))
        elif args.failures:
            console.object({"failures": inspect_view.failures_json(observed)})
        else:
            console.object(inspect_view.overview_json(observed, report))
        return 0
    if args.prompt:
        text = inspect_view.prompt(observed, report, args.prompt, console.columns)
    elif args.divergence:
        text = inspect_view.divergence(observed, report, args.divergence, console.columns)
    elif args.failures:
        text = inspect_view.failures(observed, report, console.columns)
    else:
        text = inspect_view.overview(observed, report, console.columns)
    console.page(text)
    return 0
