"""What answers are worth nothing without: who gave them, and how many were asked at a time. Pure.

Knows no file. An answer whose engine is not known may be another engine's, and a load that is not
known may be a smaller one: what was lost there must not read as "the same".
"""

from __future__ import annotations

from iqaction import stages
from iqaction.calls import Arm, Tag
from iqaction.observed import Observed
from iqaction.plan import StageSpec

_FEW = 1  # prompts that are asked one after the other, whatever the load


def unattributed(observed: Observed) -> tuple[str, ...]:
    """Who answered, where that is not in the evidence; a sentence for each arm and launch."""
    answered = {_who(t) for tags in observed.seen.values() for t in tags}
    unknown = sorted((a.value, n) for a, n in answered if (a, n) not in observed.engines)
    return tuple(
        f"which engine answered as the {arm}{f' (launch {launch})' if launch else ''} is not in "
        "the evidence"
        for arm, launch in unknown
    )


def _who(tag: Tag) -> tuple[Arm, int]:
    # The live reference forces every launch's texts, and is one server all the time.
    return tag.arm, 0 if tag.arm is Arm.REFERENCE else tag.launch


def load_unknown(candidate: Observed, baseline: Observed) -> tuple[str, ...]:
    """How many requests were in flight, where that was kept of one of the two only."""
    arms = ((candidate, Arm.CANDIDATE), (baseline, Arm.BASELINE))
    known = [(arm, 0) in observed.concurrency for observed, arm in arms]
    if all(known) or not any(known):  # neither: as before it was kept
        return ()
    lacking, arm = arms[known.index(False)]
    if not any(_was_traffic(lacking, spec, arm) for spec in lacking.plan.stages):
        return ()
    return (f"how many requests the {arm.value} had in flight is not in the evidence",)


def _was_traffic(observed: Observed, spec: StageSpec, arm: Arm) -> bool:
    units = {t.unit for t in observed.seen.get(spec.stage, {}) if t.arm is arm and not t.launch}
    return len(units) > _FEW and stages.load(spec.stage).as_traffic(spec)
