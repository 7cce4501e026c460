"""Broken prompts: the few that a mean hides. Pure; shared by both legs of `score`.

At n = 256 a mean rule PASSes a candidate with 2 % broken prompts 93 times of 100, so the rate of
broken prompts is bounded on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqaction.plan import Plan
from iqaction.prompts import Prompt
from iqaction.report import Check, UnitFault
from iqaction.stages._forced import Leg
from iqaction.stages._levels import WORST_SHARE, alpha
from iqaction.stages._lost import Lost
from iqaction.stages._shares import at_least, at_most, estimate, names
from iqaction.stages._shares import power as share_power
from iqaction.stats.proportions import exceeds_p
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
    hits
        Prompts that were broken when first asked, each with its figures in words.
    reproduced
        Those of them that were broken again when asked once more.
    severe
        Reproduced prompts whose fault is large by any measure (KL beyond .5 nats).
    floor_hits
        Broken prompts in the worst launch of the baseline.
    asked
        The hits that were asked once more: the first few dozen of many.
    """

    hits: Mapping[str, str]
    reproduced: tuple[str, ...]
    severe: tuple[str, ...] = ()
    floor_hits: int = 0
    asked: tuple[str, ...] = ()

    def faults(self, prompts: Mapping[str, Prompt], kind: str) -> tuple[UnitFault, ...]:
        return tuple(
            UnitFault(
                unit,
                prompts[unit].bucket,
                kind,
                f"{detail}; {self._again(unit)}",
            )
            for unit, detail in self.hits.items()
        )

    def _again(self, unit: str) -> str:
        if unit not in self.asked:
            return "not asked once more"
        return f"{'' if unit in self.reproduced else 'not '}again when asked once more"


class _Rule:
    """Applies :func:`broken` to one leg after another against the same floor."""

    def __init__(self, units: tuple[str, ...], floors: tuple[Leg, ...], own_texts: bool) -> None:
        self._at = {u: i for i, u in enumerate(units)}
        none = np.zeros(len(units))
        self._kl = np.mean([_kl(f) for f in floors], axis=0) if floors else none
        share = np.mean([_decisive(f) / f.lengths() for f in floors], axis=0) if floors else none
        self._share = share if own_texts else none

    def kl_over(self, one: Leg) -> NDArray[np.float64]:
        return _kl(one) - self._kl[self._of(one)]

    def broken(self, one: Leg) -> NDArray[np.bool_]:
        usual = self._share[self._of(one)] * one.lengths()
        return broken(self.kl_over(one), _decisive(one) - usual, one.lengths())

    def _of(self, one: Leg) -> NDArray[np.int64]:
        return np.array([self._at[u] for u in one.units], np.int64)


def _kl(one: Leg) -> NDArray[np.float64]:
    return one.mean(one.compared.kl)


def _decisive(one: Leg) -> NDArray[np.float64]:
    """Decisive disagreements a prompt, (units,)."""
    return one.total(one.compared.decisive.astype(np.float64))


def find(
    candidate: Leg,
    floors: tuple[Leg, ...],
    again: Callable[[tuple[str, ...]], Leg],
    *,
    own_texts: bool = False,
) -> Hits:
    """The broken prompts of a leg.

    Parameters
    ----------
    floors
        The baseline's launches over the same prompts.
    again
        The leg of those prompts that were asked once more.
    own_texts
        True where each arm is held against the reference over texts of its own. The baseline
        then has decisive disagreements too, and only those beyond its usual share count.
    """
    rule = _Rule(candidate.units, floors, own_texts)
    over, decisive, hit = rule.kl_over(candidate), _decisive(candidate), rule.broken(candidate)
    hits = {
        unit: f"KL {over[i]:.3g} beyond the floor, {decisive[i]:.0f} decisive disagreements"
        for i, unit in enumerate(candidate.units)
        if hit[i]
    }
    second = again(tuple(hits))
    twice = [
        (unit, kl)
        for unit, kl, b in zip(second.units, rule.kl_over(second), rule.broken(second), strict=True)
        if b
    ]
    return Hits(
        hits,
        tuple(unit for unit, _ in twice),
        tuple(unit for unit, kl in twice if kl > SEVERE_KL_NATS),
        max((int(rule.broken(f).sum()) for f in floors), default=0),
        second.units,
    )


class What(NamedTuple):
    """What a leg calls its broken prompts."""

    metric: str
    title: str
    word: str  # as "broken"


def check(plan: Plan, found: Hits, lost: Lost, required: int, what: What) -> Check:
    """The verdict on a leg's broken prompts, ``required`` of which should have been judged."""
    n, worst = required, {*found.hits, *lost.failed}
    confidence = 1 - alpha(plan, 0.05)
    high = at_most(len(worst), n, confidence)
    p = exceeds_p(len(found.reproduced), n, found.floor_hits, n)
    said = _said(found, lost, n, what.word)
    within = f"at most {high.value:.1%} with {confidence:.1%} confidence, {WORST_SHARE:.0%} allowed"
    more, power = False, ""
    if n and found.reproduced and (p < _FAIL_P or len(found.severe) >= _SEVERE_PROMPTS):
        verdict = Verdict.FAIL
        severe = f"; {len(found.severe)} of them severely" if found.severe else ""
        reason = f"{said}{severe} (p = {p:.2g} against the floor's {found.floor_hits})"
    elif lost.unknown:
        verdict = Verdict.UNPROVEN
        reason = f"{len(lost.unknown)} of {n} prompts have no answer; {said}"
    elif n and high.value <= WORST_SHARE:
        verdict, reason = Verdict.PASS, f"{said}: {within}"
    else:
        verdict, reason = Verdict.UNPROVEN, f"{said}: {within}"
        if lost.failed:
            power = "prompts that failed count as broken: run again when the server answers them"
        else:
            power, more = share_power(len(worst), n, confidence)
    bound = at_least(len(worst), n, confidence) if verdict is Verdict.FAIL else high
    share = estimate(what.metric, len(worst), n, bound)
    return Check(
        what.metric,
        what.title,
        verdict,
        reason,
        share,
        WORST_SHARE,
        baseline=found.floor_hits / n if n else None,
        candidate=share.value,
        power=power,
        more_would_help=more,
    )


def _said(found: Hits, lost: Lost, n: int, word: str) -> str:
    said = f"{len(found.hits)} of {n} prompts {word}"
    if found.hits:
        again = f"{len(found.reproduced)} again when asked once more"
        if len(found.asked) < len(found.hits):
            again = f"of the first {len(found.asked)} asked once more {len(found.reproduced)} again"
        said += f" ({again}): {names(tuple(found.hits))}"
    if lost.failed:
        said += f"; {len(lost.failed)} failed on the candidate: {names(tuple(lost.failed))}"
    return said
