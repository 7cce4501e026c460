"""What surrounded a measurement, kept with it so that it can be judged again years later. Data.

The evidence says what the engines answered; this says who asked for it, on which machine, how the
endpoint was started, and what a maintainer had agreed to by then. Judging reads it and nothing
outside it: no environment, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.report import NO_RUN, Acceptance, ChangedLine, Difference, Past, Run


@dataclass(frozen=True)
class Circumstances:
    """All of it; empty where somebody ran this at their desk.

    Attributes
    ----------
    machine
        For display: GPU, driver, images with their digests, how the endpoint was started.
    log_tail
        The last lines that the started endpoint wrote.
    problem
        Why nothing could be asked (the endpoint did not start); "" where it could.
    differences
        What the pull request changes about its own judge, or that this could not be found out.
    acceptances
        Those that were in force where the pull request starts from; judging picks what applies.
    shard, shards
        Which part of the prompts this folder holds, from 1, and of how many; 0 of 0: all.
    searched, history
        As in :class:`iqaction.report.Report`: told by who asked GitHub, and only shown.
    observed_on
        The day (UTC, as 2026-12-01) of the folder's first observation; "" where not known.
    harness
        The version of this program that asked; "" where not known.
    """

    run: Run = NO_RUN
    machine: Mapping[str, str] = field(default_factory=dict)
    log_tail: str = ""
    problem: str = ""
    differences: tuple[Difference, ...] = ()
    acceptances: tuple[Acceptance, ...] = ()
    changed_lines: tuple[ChangedLine, ...] = ()
    shard: int = 0
    shards: int = 0
    searched: tuple[str, ...] = ()
    history: tuple[Past, ...] = ()
    observed_on: str = ""
    harness: str = ""


NONE = Circumstances()
