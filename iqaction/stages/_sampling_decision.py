"""What one arm's draws say of its sampler: the rule, before any report. Pure.

FAIL needs two sets of draws, each of which alone is striking (Holm over three tests at .01); where
either is striking there is no PASS. PASS is equivalence: the temperature that fits, the
shares of the places of the list and the draws of what was cut away are all within limits, by
bounds. Where the first set settles neither, both are pooled for a PASS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iqaction.counts import counted
from iqaction.stages._sampling_evidence import LEVEL, Reading, Set
from iqaction.stages._sampling_limits import within
from iqaction.stages._sampling_rows import MAY_HIDE
from iqaction.stats.sampling import Sums, holm
from iqaction.verdict import Verdict

METRICS = ("score", "ranks", "support")
_MOST_EXCLUDED = 0.2  # of the prompts, for rows that cannot be placed
_MOST_CUT = 0.1  # of the sequences: neither as long as asked for, nor ended by the model
_MOST_DROPPED = 0.1  # of the tokens, for one reason
_MOST_TOGETHER = 0.2  # and for all of them


@dataclass(frozen=True)
class Decision:
    """What one arm's draws say of its sampler, before any report.

    Attributes
    ----------
    shown
        The sums that a PASS would rest on, and that are printed: of the first set, or of both.
    flagged, again
        The tests that the first set, and the fresh one, do not bear.
    striking
        The tests that ``shown`` does not bear.
    """

    reading: Reading

    @cached_property
    def pools(self) -> bool:
        """True where both sets are judged as one: the first is whole and settled nothing."""
        first, fresh = self.reading.first, self.reading.fresh
        return fresh.is_whole and first.is_whole and not first.flagged and not passes(first)

    @cached_property
    def shown(self) -> Sums:
        return self.reading.both if self.pools else self.reading.first.sums

    @property
    def broken(self) -> int:
        first, fresh = self.reading.first.positions, self.reading.fresh.positions
        return first.broken + (fresh.broken if self.pools else 0)

    @property
    def flagged(self) -> tuple[str, ...]:
        return self.reading.first.flagged

    @cached_property
    def again(self) -> tuple[str, ...]:
        return self.reading.fresh.flagged if self.reading.fresh.is_there else ()

    @cached_property
    def striking(self) -> tuple[str, ...]:
        return self.flagged or holm(self.shown.p, LEVEL)

    @cached_property
    def lacking(self) -> str:
        """What keeps these draws from a PASS whatever they say; "" where nothing."""
        first, fresh = self.reading.first, self.reading.fresh
        if fresh.was_asked:
            # Parts of a plan ask both sets: what is lost of the second might have been striking.
            return _lacking(first) or _lacking(fresh)
        return _lacking(first)

    def verdict(self, metric: str) -> Verdict:
        """Of one test: FAIL is the first set's, confirmed by anything striking in the fresh one."""
        if self.reading.unsound or not self.reading.first.is_there:
            return Verdict.UNPROVEN
        if metric in self.flagged and self.again:
            return Verdict.FAIL
        if self.lacking or metric in (*self.striking, *self.again):
            return Verdict.UNPROVEN
        return Verdict.PASS if within(metric, self.shown, self.broken) else Verdict.UNPROVEN

    @property
    def fails(self) -> bool:
        return any(self.verdict(m) is Verdict.FAIL for m in METRICS)


def passes(first: Set) -> bool:
    return all(within(m, first.sums, first.positions.broken) for m in METRICS)


def _lacking(first: Set) -> str:
    if first.failed or first.missing:
        return f"draws of {counted(len(first.failed) + len(first.missing), 'prompt')} are missing"
    if first.short:
        return f"the engine gave up sequences of {counted(len(first.short), 'prompt')}"
    units = {unit for unit, _ in first.answers}
    if len(first.positions.excluded) > _MOST_EXCLUDED * len(units):
        return f"{len(first.positions.excluded)} of {len(units)} prompts have lost rows"
    if first.cut > _MOST_CUT * first.sequences:
        return f"{first.cut} of {first.sequences} sequences were cut short by the engine"
    return _dropped(first)


def _dropped(of: Set) -> str:
    """Tokens of which nothing is known might have been drawn wrongly, however sound the law of
    the others is. What was left out for its list or its place alone does not count: it has nothing
    to do with the draw, and only makes the others fewer."""
    shares = {r: n / of.tokens for r, n in of.positions.dropped.items() if r in MAY_HIDE}
    worst = max(shares, key=lambda r: shares[r], default="")
    if shares and (shares[worst] > _MOST_DROPPED or sum(shares.values()) > _MOST_TOGETHER):
        return f"{sum(shares.values()):.0%} of the tokens cannot be judged, most: {worst}"
    return ""
