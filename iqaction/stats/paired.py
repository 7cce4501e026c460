"""Did a candidate lose answers that its baseline has right, beyond a margin? Pair by pair.

Knows pairs of right and wrong, a margin and a look. Knows no item, answer or verdict.

The bound is Tango's score interval (Statistics in Medicine 17, 1998), because the flips are few: a
Wald interval has no width at all where nothing flips, while 189 pairs without one are what it
takes to exclude a loss of 2 points. A significant McNemar test says that something changed, an
insignificant one says nothing; neither is asked here.

A pair that one side never answered is counted twice. For the upper bound it is the worst that it
can be, since a candidate that dies on what it cannot answer must not pass by dying. For the lower
bound it is no change: it adds nothing to the loss. It is not dropped, for where it is the items
that the baseline has wrong which went unanswered, those that are left can only show losses.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import NamedTuple

from iqaction.stats.looks import Look
from iqaction.stats.proportions import Interval, mcnemar_exact, wilson

SOLVED_MARGINS = 10  # a baseline that does not provably solve so many has too little to lose
PLAIN_Z = 1.959963984540054  # one look at one-sided .025


@dataclass(frozen=True)
class Pair:
    """Whether each side had one item right; None where it never answered.

    Cut off, empty and unreadable are answers, and wrong ones.
    """

    baseline: bool | None
    candidate: bool | None


@dataclass(frozen=True)
class Counts:
    """How many pairs are of which kind.

    Attributes
    ----------
    kept, lost, gained, unsolved
        Right on both sides, on the baseline's only, on the candidate's only, on neither.
    lacking_right, lacking_wrong
        The candidate never answered, and the baseline was right, was wrong.
    unpaired
        The baseline never answered.
    """

    kept: int = 0
    lost: int = 0
    gained: int = 0
    unsolved: int = 0
    lacking_right: int = 0
    lacking_wrong: int = 0
    unpaired: int = 0

    @property
    def n(self) -> int:
        return self.answered + self.lacking_right + self.lacking_wrong + self.unpaired

    @property
    def answered(self) -> int:
        return self.kept + self.lost + self.gained + self.unsolved

    @property
    def solved(self) -> int:
        """How many the baseline is known to have right."""
        return self.kept + self.lost + self.lacking_right

    @property
    def worst(self) -> tuple[int, int]:
        """Lost and gained where what lacks went as badly as it can."""
        return self.lost + self.lacking_right + self.unpaired, self.gained

    @property
    def best(self) -> tuple[int, int]:
        """Lost and gained where what lacks went as well as it can."""
        return self.lost, self.gained + self.lacking_wrong + self.unpaired


class Finding(enum.Enum):
    """What a look shows. The first three end the test, and only the first is a pass."""

    WITHIN = "within"  # the loss is proven to be at most the margin
    BEYOND = "beyond"  # the loss is proven to be more than the margin
    GAINED = "gained"  # within, and a gain beyond the margin is not excluded: not the same model?
    TOO_FEW_SOLVED = "too few solved"  # within, but the baseline has too little to lose
    UNDECIDED = "undecided"


_OPEN = frozenset({Finding.UNDECIDED, Finding.TOO_FEW_SOLVED})


@dataclass(frozen=True)
class Decision:
    """What one look shows, and by which figures.

    Attributes
    ----------
    finding, look, margin, counts
        What was found, at which look, against which margin, in which pairs.
    drop
        (lost - gained) / n, a pair without an answer being no change; None without pairs.
    lower, upper
        One-sided bounds at the look's boundary: the lower with what lacks as no change, the
        upper with what lacks at its worst. None without pairs.
    mcnemar_p
        Two-sided and exact, of the pairs that both sides answered. For display.
    """

    finding: Finding
    look: Look
    margin: float
    counts: Counts
    drop: float | None
    lower: float | None
    upper: float | None
    mcnemar_p: float


@dataclass(frozen=True)
class Reach:
    """What a number of pairs can decide, by normal approximation: an order of size.

    Attributes
    ----------
    n, flip_rate, margin, power
        What was asked.
    passes
        The chance to be proven within the margin where nothing but the flips changes.
    pairs_to_pass
        With how many pairs that chance is ``power``.
    drop_that_fails
        The smallest true loss that is proven beyond the margin with ``power``; None where
        even losing everything is not.
    """

    n: int
    flip_rate: float
    margin: float
    power: float
    passes: float
    pairs_to_pass: int
    drop_that_fails: float | None


def tango(lost: int, gained: int, n: int, z: float) -> Interval | None:
    """Tango's score interval of the paired drop ``(lost - gained) / n``.

    Both ends lie ``z`` standard errors away, each standard error being the one under that end:
    one-sided bounds at the level of ``z``. None without pairs. Nothing flipped gives
    ``z^2 / (n + z^2)`` to either side; an infinite ``z`` gives -1 to 1.

    Raises
    ------
    ValueError
        Where the counts are negative or together more than ``n``, or z is not from 0.
    """
    # Input validation
    if min(lost, gained) < 0 or lost + gained > n:
        raise ValueError(f"{lost} lost and {gained} gained of {n} are no counts")
    if not z >= 0:
        raise ValueError(f"`z` is {z}, not a number from 0")
    if n == 0:
        return None
    return Interval(-_upper(gained, lost, n, z), _upper(lost, gained, n, z))


def tally(pairs: Iterable[Pair]) -> Counts:
    """How many pairs are of which kind."""
    seen = [(pair.baseline, pair.candidate) for pair in pairs]
    return Counts(
        kept=seen.count((True, True)),
        lost=seen.count((True, False)),
        gained=seen.count((False, True)),
        unsolved=seen.count((False, False)),
        lacking_right=seen.count((True, None)),
        lacking_wrong=seen.count((False, None)),
        unpaired=sum(baseline is None for baseline, _ in seen),
    )


def too_few_solved(solved: int, n: int, margin: float) -> bool:
    """True where a baseline solves too little for a loss of the margin to mean anything.

    That is, unless Wilson's lower 95 % limit of its solved share is ten margins or more.
    """
    return not wilson(solved, n, 0.95).low >= SOLVED_MARGINS * margin


def decide(counts: Counts, look: Look, margin: float) -> Decision:
    """What the pairs up to one look show about a loss of ``margin``, a share: 2 points are .02.

    With a margin of .1 or more every baseline has too few solved.

    Raises
    ------
    ValueError
        Where the margin is not between 0 and 1, or the pairs are not as many as the look's.
    """
    # Input validation
    if not 0 < margin < 1:
        raise ValueError(f"a margin of {margin} is not between 0 and 1")
    if counts.n != look.n:
        raise ValueError(f"{counts.n} pairs at a look at {look.n}")
    n, p = counts.n, mcnemar_exact(counts.lost, counts.gained)
    plain = tango(counts.lost, counts.gained, n, look.z)
    whole = counts.answered == n
    worst = plain if whole else tango(*counts.worst, n, look.z)
    if plain is None or worst is None:
        return Decision(Finding.UNDECIDED, look, margin, counts, None, None, None, p)
    finding = Finding.UNDECIDED
    if plain.low > margin:
        finding = Finding.BEYOND
    elif worst.high <= margin:
        finding = Finding.WITHIN
        if _gained_beyond(counts, margin):
            finding = Finding.GAINED
        elif too_few_solved(counts.solved, n, margin):
            finding = Finding.TOO_FEW_SOLVED
    drop = (counts.lost - counts.gained) / n
    return Decision(finding, look, margin, counts, drop, plain.low, worst.high, p)


def decide_in_order(pairs: Sequence[Pair], looks: Sequence[Look], margin: float) -> Decision | None:
    """The first look that ends the test, else the last look that the pairs reach.

    Parameters
    ----------
    pairs
        In the plan's order, from its first, without a gap: "the first that finished" would be
        the short answers. Those beyond a look are not seen by it.
    looks
        In order; those that the pairs do not reach are left out.

    Returns
    -------
    Decision, or None
        None where no look is reached. Where pairs lack answers, nothing is found WITHIN at a
        look if with those answers an earlier one might have ended the test otherwise: losing
        answers must never lead to a pass.
    """
    last, barred = None, False
    for look in looks:
        if look.n > len(pairs):
            break
        last = decide(tally(pairs[: look.n]), look, margin)
        if last.finding is Finding.WITHIN and barred:
            return replace(last, finding=Finding.UNDECIDED)
        if last.finding not in _OPEN:
            return last
        barred = barred or _might_have_ended(last)
    return last


def reach(
    n: int, flip_rate: float, margin: float, *, z: float = PLAIN_Z, power: float = 0.8
) -> Reach:
    """What ``n`` pairs decide where a share ``flip_rate`` flips, half each way, without any loss.

    ``z`` is the boundary at the last look. The variance is the score's under the margin for the
    level, and the data's for the power.

    Raises
    ------
    ValueError
        Unless there are pairs, ``0 <= flip_rate < 1``, ``0 < margin < 1``, ``0 < z`` and
        ``0.5 <= power < 1``.
    """
    # Input validation
    if n < 1 or not (0 <= flip_rate < 1 and 0 < margin < 1 and z > 0 and 0.5 <= power < 1):
        raise ValueError(f"no reach of {n} pairs at {flip_rate}, {margin}, {z} and {power}")
    half, rule = flip_rate / 2, _Rule(z, NormalDist().inv_cdf(power))
    away = math.sqrt(n) * margin - z * math.sqrt(_variance(half, half, margin))
    passes = NormalDist().cdf(away / math.sqrt(flip_rate)) if flip_rate else float(away >= 0)
    needed = math.ceil((rule.errors(half, half, margin) / margin) ** 2)
    return Reach(n, flip_rate, margin, power, passes, needed, _failing(n, half, margin, rule))


def pairs_needed(
    lost: float, gained: float, margin: float, *, z: float = PLAIN_Z, power: float = 0.8
) -> int | None:
    """How many pairs prove a loss within the margin where those shares are lost and gained.

    None where the loss is at or beyond the margin, or something is not a number: no number of
    pairs will pass.
    """
    gap = margin - (lost - gained)
    if not gap > 0:
        return None
    errors = _Rule(z, NormalDist().inv_cdf(power)).errors(lost, gained, margin)
    return math.ceil((errors / gap) ** 2)


class _Rule(NamedTuple):
    """The quantiles of a level and of a power."""

    level: float
    power: float

    def errors(self, lost: float, gained: float, margin: float) -> float:
        """How far from the margin one pair's drop has to be, so that it is proven."""
        spread = math.sqrt(max(lost + gained - (lost - gained) ** 2, 0.0))
        return self.level * math.sqrt(_variance(lost, gained, margin)) + self.power * spread


def _gained_beyond(counts: Counts, margin: float) -> bool:
    """True where a gain beyond the margin is shown, or might be if what lacks were known.

    At the plain level, since at an early boundary a real gain passes before it is proven; that
    costs nothing but a pass.
    """
    interval = tango(*counts.best, counts.n, PLAIN_Z)
    return interval is not None and interval.high < -margin


def _might_have_ended(decision: Decision) -> bool:
    """True where an open look might have found BEYOND or GAINED with the answers that lack."""
    counts, z, margin = decision.counts, decision.look.z, decision.margin
    worst, best = tango(*counts.worst, counts.n, z), tango(*counts.best, counts.n, z)
    if worst is None or best is None:
        return False
    return worst.low > margin or (best.high <= margin and _gained_beyond(counts, margin))


def _upper(lost: int, gained: int, n: int, z: float) -> float:
    """The drop from which on the score is ``-z`` or below: it falls as the drop rises."""
    low, high = (lost - gained) / n, 1.0
    for _ in range(42):  # to 1e-12 at least
        middle = (low + high) / 2
        if _score(lost, gained, n, middle) <= -z:
            high = middle
        else:
            low = middle
    return high  # not `low`: a bound that is met only by rounding is not met


def _score(lost: int, gained: int, n: int, drop: float) -> float:
    """How many standard errors the counts lie above a true ``drop``, which is under 1."""
    if drop < 0:
        return -_score(gained, lost, n, -drop)
    away = lost - gained - n * drop
    if away == 0:
        return 0.0
    error = math.sqrt(n * _variance(lost / n, gained / n, drop))
    return away / error if error > 0 else math.copysign(math.inf, away)


def _variance(lost: float, gained: float, drop: float) -> float:
    """The variance of one pair where the true drop is ``drop``, from 0.

    The shares are fitted to those seen under that constraint by maximum likelihood: Tango's
    equation for the share gained is a quadratic with one root from 0.
    """
    b = (2 - lost + gained) * drop - lost - gained
    c = gained * drop * (1 - drop)
    root = math.sqrt(b * b + 8 * c)
    # Two forms of one root: each subtracts nothing that is nearly equal.
    fitted = 2 * c / (b + root) if b > 0 else (root - b) / 4
    return 2 * fitted + drop * (1 - drop)


def _failing(n: int, half: float, margin: float, rule: _Rule) -> float | None:
    """The smallest loss, on top of flips of ``half`` each way, that is proven beyond."""

    def proven(drop: float) -> bool:
        return math.sqrt(n) * (drop - margin) >= rule.errors(half + drop, half, margin)

    low, high = margin, 1 - 2 * half
    if not proven(high):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if proven(middle) else (middle, high)
    return high
