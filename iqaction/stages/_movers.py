"""The prompts that changed most against the baseline, with the text where they did. Judges nothing.

Texts that part are divergences, and have a list of their own; here stand prompts whose figures
moved, and questions whose answers flipped between right and wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from iqaction.prompts import Prompt
from iqaction.report import Mover
from iqaction.rows import PAD, Rows, concat_pieces
from iqaction.stages._forced import Leg, Pairing, leg
from iqaction.stages._paired_items import Graded, Item

MOST = 20  # of one stage
_AROUND = 80  # characters of text shown before
_TOKENS = 40  # looked at for them
_LEAST_NATS = 1e-6  # of a prompt's mean: below it nothing moved but last bits
NAMES = {"kl": "KL", "nll": "NLL"}


def of_figures(
    one: Leg,
    metric: str,
    values: tuple[NDArray[np.float64], NDArray[np.float64]],
    prompts: Mapping[str, Prompt],
    pairing: Callable[[str], Pairing | None],
    *,
    both_ways: bool = False,
) -> tuple[Mover, ...]:
    """The prompts whose figure rose most, each with the token at which it is largest;
    ``both_ways`` those that rose or fell most.

    Parameters
    ----------
    metric
        "kl" or "nll".
    values : two (len(one.units),)
        Each prompt's mean before and now, in nats.
    pairing
        A prompt's two sets of rows; asked of the few that are shown.
    """
    before, now = values
    # Rounded, so that equal prompts keep their order on every machine.
    rise = np.round(np.abs(now - before) if both_ways else now - before, 12)
    order = np.argsort(-rise, kind="stable")[:MOST]
    found = []
    for i in (int(i) for i in order if rise[i] > _LEAST_NATS):
        unit = one.units[i]
        pair = pairing(unit)
        place = (-1, "", "", "") if pair is None else _worst(pair, metric)
        bucket = prompts[unit].bucket if unit in prompts else ""
        name = NAMES[metric]
        found.append(Mover(unit, bucket, name, float(before[i]), float(now[i]), *place))
    return tuple(found)


def _worst(pair: Pairing, metric: str) -> tuple[int, str, str, str]:
    """The position with the largest figure, the text before it, and each side's likeliest token."""
    compared = leg(iter([pair])).compared
    each = compared.kl if metric == "kl" else compared.nll_ref  # an NLL is the live reference's
    at = int(np.argmax(np.round(each, 9)))
    before = pair.reference.chosen[max(0, at - _TOKENS) : at]
    text = concat_pieces(pair.reference, tuple(before.tolist()))[-_AROUND:]
    ours, theirs = likeliest(pair.reference, at), likeliest(pair.other, at, pair.reference)
    if ours == theirs:  # then only its probability moved
        ours, theirs = f"{ours}{_share(pair.reference, at)}", f"{theirs}{_share(pair.other, at)}"
    return at, text, ours, theirs


def _share(rows: Rows, at: int) -> str:
    """The likeliest token's probability, as " (71 %)"; "" where nothing is listed."""
    if not rows.k or rows.top[at, 0] == PAD:
        return ""
    return f" ({math.exp(float(rows.top_logprob[at, 0])):.0%})".replace("%", " %")


def likeliest(rows: Rows, at: int, named: Rows | None = None) -> str:
    """The text of the most likely token at a position; ``named`` may know what ``rows`` does not
    name."""
    key = int(rows.top[at, 0]) if rows.k else PAD
    key = int(rows.chosen[at]) if key == PAD else key
    others = named.pieces if named is not None and named.match is rows.match else {}
    return rows.pieces.get(key) or others.get(key) or rows.piece(key)


def of_flips(items: Iterable[Item], bucket: str, answer: Callable[[str], str]) -> tuple[Mover, ...]:
    """The questions whose answer is right on one side only, those that were lost first.
    ``answer`` is the right one."""
    flipped = [i for i in items if i.is_paired and i.baseline.right is not i.candidate.right]
    flipped.sort(key=lambda i: (not i.baseline.right, i.unit))
    return tuple(_flip(i, bucket, answer(i.unit)) for i in flipped[:MOST])


def _flip(item: Item, bucket: str, right: str) -> Mover:
    what = "lost" if item.baseline.right else "gained"
    sides = (shown(item.baseline), shown(item.candidate))
    return Mover(item.unit, bucket, f"{what}, {right} is right", None, None, -1, "", *sides)


def shown(side: Graded) -> str:
    """What a side answered, with the end of its text where that says more."""
    said = side.shown or side.kind.value
    return said if not side.end or side.end == said else f"{said}: {side.end}"
