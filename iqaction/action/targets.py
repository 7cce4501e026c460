"""Where a suite's result of one run goes."""

from __future__ import annotations

from iqaction.github.publication import Mark, Target
from iqaction.report import Run
from iqaction.surfaces import check_run
from iqaction.verdict import Verdict


def of(
    suite: str,
    run: Run,
    *,
    numbers: tuple[int, ...] = (),
    gate: Verdict = Verdict.UNPROVEN,
    warn: bool = False,
    check: int = 0,
) -> Target:
    """The target; ``numbers`` are the pull requests that are told."""
    return Target(
        run.repository,
        run.head_sha,
        check_run.name(suite),
        Mark(int(run.run_id or 0), run.attempt, run.head_sha, run.started_at),
        numbers,
        run.url,
        gate,
        warn,
        check,
    )
