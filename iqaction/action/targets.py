"""Where a suite's result of one run goes, and what of it."""

from __future__ import annotations

from collections.abc import Sequence

from iqaction.github.publication import Mark, Target
from iqaction.report import Run
from iqaction.surfaces import check_run
from iqaction.surfaces._base import Annotate, Effect, PutCheckRun, UpsertComment
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


def posted(effects: Sequence[Effect], *, comment: bool, check: bool) -> list[Effect]:
    """Of all effects those that are posted on GitHub, as far as they are wanted."""
    kinds: tuple[type, ...] = (UpsertComment,) if comment else ()
    kinds += (PutCheckRun, Annotate) if check else ()
    return [e for e in effects if isinstance(e, kinds)]
