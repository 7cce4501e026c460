"""The error rates every stage judges at, so that one place says what "sure" means here."""

from __future__ import annotations

from iqaction.plan import Plan, StageSpec

ONE_SIDED = 0.025
_TWO_LOOKS = 0.0147  # Pocock's one-sided level for two looks that together spend .025
WORST_SHARE = 0.05  # broken, faulty or really diverging prompts: the bound must stay below
FEWEST_TO_PASS = 59  # 0 of 59 is the smallest sample whose 95 % upper bound is 5 % or less
FEWEST_TO_PASS_TWO_LOOKS = 69  # the same at 97.1 %, where an extension is planned
FEWEST_TO_FAIL = 16
FEWEST_LAUNCHES = 3  # relaunches of the baseline below which its noise is not known
ENOUGH_LAUNCHES = 5
MOST_UNITS = 512  # beyond this many prompts a question "cannot be decided within budget"


def alpha(plan: Plan, base: float = ONE_SIDED) -> float:
    """The one-sided level of a single look: ``base``, or its share where two looks are planned.

    Both looks of an extended stage are judged at the same level, whether or not the second one
    is taken, because the plan allowed it before any answer was seen.
    """
    return base * _TWO_LOOKS / ONE_SIDED if len(plan.looks) > 1 else base


def fewest_to_pass(plan: Plan) -> int:
    """The fewest prompts without any hit whose bound, at this plan's level, is within 5 %."""
    return FEWEST_TO_PASS_TWO_LOOKS if len(plan.looks) > 1 else FEWEST_TO_PASS


def is_floorless(spec: StageSpec) -> bool:
    """True where the plan goes without the noise between launches: `floor: single`."""
    return spec.params.get("floor") == "single"
