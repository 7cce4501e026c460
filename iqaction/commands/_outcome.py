"""Shows what a command ended with, and turns it into an exit status. Imports numpy."""

from __future__ import annotations

from iqaction.commands._console import Console
from iqaction.outcome_view import Outcome, as_json, exit_code, page
from iqaction.verdict import EXIT_CODE, Verdict

_UNVOUCHED = (
    "          as the folder says it; whether the run wrote it: iqaction verify DIR --root ROOT\n"
)
_INCOMPLETE = EXIT_CODE[Verdict.NOT_RUN]


def judged(outcome: Outcome, console: Console) -> int:
    """The report, and the exit status that its verdict stands for."""
    if console.json:
        console.object(as_json(outcome))
    else:
        console.page(page(outcome, console.columns))
    return exit_code(outcome.report)


def found(outcome: Outcome, console: Console) -> int:
    """The same of a folder that may be anybody's: its root was taken from the folder itself."""
    if not console.json and outcome.root:
        console.page(page(outcome, console.columns) + _UNVOUCHED)
        return exit_code(outcome.report)
    return judged(outcome, console)


def observed(outcome: Outcome, console: Console) -> int:
    """What was observed, without a verdict: 0 where nothing is left to ask, else 3."""
    status = 0 if outcome.complete else _INCOMPLETE
    if console.json:
        console.object(
            {
                "exit_code": status,
                "complete": outcome.complete,
                "evidence": str(outcome.folder),
                "root": outcome.root,
                "problem": outcome.problem,
                "problems": list(outcome.report.problems),
            }
        )
        return status
    done = "Everything that the plan asks was observed."
    left = "Not everything was observed: the same command continues where it stopped."
    lines = [done] if outcome.complete else [outcome.problem, left]
    lines += [f"problem: {x}" for x in outcome.report.problems]
    lines += [f"evidence  {outcome.folder}", f"judge it  iqaction judge {outcome.folder}"]
    console.page("\n".join(lines) + "\n")
    return status
