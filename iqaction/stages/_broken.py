"""Broken prompts: the few that a mean hides. Pure; shared by both legs of `score`.

At n = 256 a mean rule PASSes a candidate with 2 % broken prompts 93 times of 100, so the rate of
broken prompts is bounded on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iqaction.plan import Plan
from iqaction.report import Check
from iqaction.stages._levels import WORST_SHARE, alpha
from iqaction.stages._shares import estimate, names
from iqaction.stages._shares import power as share_power
from iqaction.stats.proportions import clopper_pearson_upper, exceeds_p
from iqaction.verdict import Verdict

KL_NATS = 0.1  # mean KL beyond the floor's that breaks a prompt of 16 positions or more
_SHORT = 16  # positions; below it only KL counts, with the limit 1.6 / positions
_DECISIVE_POSITIONS = 3
_DECISIVE_SHARE = 0.05
SEVERE_KL_NATS = 0.5
_SEVERE_PROMPTS = 2
_FAIL_P = 0.05


def broken(
    kl: NDArray[np.float64], decisive: NDArray[np.float64], length: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which prompts are broken.

    Parameters
    ----------
    kl : (n,)
        Mean KL of the prompt minus the floor's, in nats.
    decisive : (n,)
        Number of decisive disagreements in the prompt.
    length : (n,)
        Its positions.
    """
    limit = np.where(length < _SHORT, KL_NATS * _SHORT / np.maximum(length, 1), KL_NATS)
    many = (decisive >= _DECISIVE_POSITIONS) & (decisive > _DECISIVE_SHARE * length)
    result: NDArray[np.bool_] = (kl > limit) | (many & (length >= _SHORT))
    return result


@dataclass(frozen=True)
class Hits:
    """What was found in one leg.

    Attributes
    ----------
    required
        Prompts that should have been judged.
    hits
        Prompts that were broken when first asked.
    reproduced
        Those of them that were broken again when asked once more.
    severe
        Reproduced prompts whose fault is large by any measure (KL beyond .5 nats).
    failed
        Prompts that failed on the candidate and not on the baseline: broken, for a PASS.
    floor_hits
        Broken prompts in the worst relaunch of the baseline.
    """

    required: int
    hits: tuple[str, ...]
    reproduced: tuple[str, ...]
    severe: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    floor_hits: int = 0


def check(plan: Plan, found: Hits, metric: str, title: str, word: str) -> Check:
    """The verdict on a leg's broken prompts; ``word`` says what they are, as "broken"."""
    n = found.required
    worst = sorted({*found.hits, *found.failed})
    confidence = 1 - alpha(plan, 0.05)
    upper = clopper_pearson_upper(len(worst), n, confidence)
    p = exceeds_p(len(found.reproduced), n, found.floor_hits, n)
    said = f"{len(found.hits)} of {n} prompts {word}"
    if found.hits:
        said += f" ({len(found.reproduced)} again when asked once more): {names(found.hits)}"
    if found.failed:
        said += f"; {len(found.failed)} failed on the candidate: {names(found.failed)}"
    bound = f"at most {upper:.1%} with {confidence:.1%} confidence, {WORST_SHARE:.0%} allowed"
    more, power = False, ""
    if n and found.reproduced and (p < _FAIL_P or len(found.severe) >= _SEVERE_PROMPTS):
        verdict = Verdict.FAIL
        severe = f"; {len(found.severe)} of them severely" if found.severe else ""
        reason = f"{said}{severe} (p = {p:.2g} against the floor's {found.floor_hits})"
    elif found.missing:
        verdict = Verdict.UNPROVEN
        reason = f"{len(found.missing)} of {n} prompts have no answer; {said}"
    elif n and upper <= WORST_SHARE:
        verdict, reason = Verdict.PASS, f"{said}: {bound}"
    else:
        verdict, reason = Verdict.UNPROVEN, f"{said}: {bound}"
        power, more = share_power(len(worst), n, confidence)
    share = estimate(metric, len(worst), n)
    return Check(
        metric,
        title,
        verdict,
        reason,
        share,
        WORST_SHARE,
        baseline=found.floor_hits / n if n else None,
        candidate=share.value,
        power=power,
        more_would_help=more,
    )
