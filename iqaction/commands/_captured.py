"""Shows how a capture ended, and turns it into an exit status. Imports numpy and requests."""

from __future__ import annotations

from pathlib import Path

from iqaction.capture import Captured
from iqaction.commands._console import Console
from iqaction.commands._outcome import observed
from iqaction.verdict import EXIT_CODE


def captured(found: Captured, out: Path, console: Console) -> int:
    """A baseline: 0 where it is complete and can be compared with, 3 where something is left."""
    outcome = found.outcome
    if not outcome.complete:
        return observed(outcome, console)
    status = EXIT_CODE[outcome.report.verdict] if found.refused else 0
    if console.json:
        console.object(
            {
                "exit_code": status,
                "complete": True,
                "refused": found.refused,
                "was_complete": found.is_old,
                "baseline": str(out),
                "evidence": str(outcome.folder),
                "root": outcome.root,
                "sha256": found.packed,
                "size": found.size,
                "headline": outcome.report.headline,
                "problems": list(outcome.report.problems),
            }
        )
        return status
    lines = [outcome.report.headline, *(f"problem: {x}" for x in outcome.report.problems)]
    if found.is_old:
        lines.append("It was complete before: nobody was asked. For a new one use another --out.")
    if found.refused:
        lines.append("No candidate can be compared with it: nothing was packed.")
        lines.append(f"why       iqaction judge {outcome.folder}")
    else:
        size = f"  ({found.size:,} bytes)" if found.size else ""
        lines += [f"baseline  {out}{size}", f"root      {outcome.root}"]
        lines += [f"sha256    {found.packed}"] if found.packed else []
        lines.append(f"look      iqaction baseline show {out}")
    console.page("\n".join(lines) + "\n")
    return status
