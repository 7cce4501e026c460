"""``iqaction run``: ask, judge, render. The whole of it in one command."""

from __future__ import annotations

import argparse

from iqaction.commands import _observing
from iqaction.commands._console import Console

ORDER = 1
SUMMARY = "ask an engine, judge its answers, write the report"
DESCRIPTION = """\
Asks the engine at --endpoint what the plan says, keeps every answer in the evidence folder,
judges them against the baseline and writes report.json, comment.md, summary.md and report.html
there.

Without --baseline there is nothing to compare with: the run captures a reference, and its
evidence folder is the baseline of later runs. Such a run is UNPROVEN and exits 2; `observe` does
the same and exits 0.

Stopped at any moment, the same command continues and asks nothing twice."""
EXAMPLES = """\
  # 1. keep what the trusted engine says
  iqaction run --endpoint http://127.0.0.1:8000/v1 --evidence reference
  # 2. compare the changed engine with it
  iqaction run --endpoint http://127.0.0.1:8001/v1 --baseline reference --evidence candidate
  # with a plan and prompts of your own, and a key in $MY_KEY
  iqaction run --plan plan.yml --endpoint https://llm.example/v1 --api-key-env MY_KEY \\
      --baseline reference --evidence candidate"""


def flags(parser: argparse.ArgumentParser) -> None:
    """The flags of every command that asks an engine."""
    _observing.flags(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Ask, judge, render; the verdict's exit status."""
    return _observing.perform(args, console, judged=True)
