"""What an evidence folder holds, loaded: the only thing that judging sees. Data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.calls import Arm, EngineInfo, Observation, Tag
from iqaction.circumstances import NONE, Circumstances
from iqaction.plan import Plan
from iqaction.prompts import Prompt

Seen = Mapping[str, Mapping[Tag, Observation]]
"""By stage name, then by tag."""

Engines = Mapping[tuple[Arm, int], EngineInfo]
"""Who answered, by arm and launch."""


@dataclass(frozen=True)
class Observed:
    """One run's evidence, and inside it a copy of the baseline's.

    Attributes
    ----------
    prompts
        By id; every prompt of the plan.
    concurrency
        By arm and launch: how many requests were in flight, and where that number comes from
        ("/props total_slots", "plan", "timing probe").
    problems
        Faults of the evidence itself, in plain words; any of them keeps the verdict from PASS.
    baseline
        None in a capture.
    circumstances
        The workflow run and the machine, where they were kept.
    data
        By stage, the file that its own questions come from, for stages that have one.
    """

    plan: Plan
    prompts: Mapping[str, Prompt]
    seen: Seen
    engines: Engines = field(default_factory=dict)
    concurrency: Mapping[tuple[Arm, int], tuple[int, str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    baseline: Observed | None = None
    root: str = ""  # sha256 of the sealed manifest, "" where not sealed
    circumstances: Circumstances = NONE
    data: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def launches(self) -> tuple[int, ...]:
        """The relaunches (1..L) of a capture that answered anything."""
        return tuple(sorted({launch for arm, launch in self.engines if arm is Arm.REPEAT}))

    @property
    def not_restarted(self) -> tuple[int, ...]:
        """The relaunches for which the server was not restarted, as their evidence says."""
        repeats = ((n, e) for (arm, n), e in self.engines.items() if arm is Arm.REPEAT)
        return tuple(sorted(n for n, engine in repeats if engine.not_restarted))
