"""Prompts that could not be judged, each with the reason. What they count as is each check's to
say; that they are named is settled here. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iqaction.prompts import Prompt
from iqaction.report import Coverage, UnitFault

NEVER = "never answered"


@dataclass(frozen=True)
class Lost:
    """By prompt, why it could not be judged.

    Attributes
    ----------
    failed
        The candidate failed at it, asked again too: an answer, and as bad as a broken one.
    missing
        No usable answer: nothing is known of it.
    gaps
        The baseline's evidence lacks it.
    """

    failed: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    gaps: Mapping[str, str] = field(default_factory=dict)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those of which nothing is known: as long as there are any, nothing PASSes."""
        return (*self.missing, *self.gaps)

    def coverage(self, judged: int) -> Coverage:
        required = judged + len(self.failed) + len(self.missing) + len(self.gaps)
        return Coverage(required, judged, tuple(self.failed), tuple(self.missing), tuple(self.gaps))

    def faults(self, prompts: Mapping[str, Prompt]) -> tuple[UnitFault, ...]:
        """Each of them named; a gap's reason says that it is the baseline's."""
        named = [(u, "failed", why) for u, why in self.failed.items()]
        for unit, why in (*self.missing.items(), *self.gaps.items()):
            named.append(
                (unit, "missing" if why == NEVER or unit in self.gaps else "unusable", why)
            )
        return tuple(UnitFault(u, prompts[u].bucket, kind, why) for u, kind, why in named)
