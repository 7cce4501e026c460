"""What a number of paired questions can decide, exactly and in plain words. Pure.

Knows counts and a margin. Knows no answer.
"""

from __future__ import annotations

import math
from itertools import takewhile

from iqaction.counts import counted
from iqaction.stages._paired_reach import can_pass, fewest_to_pass
from iqaction.stages._wording import points
from iqaction.stats.looks import Look, looks_at
from iqaction.stats.paired import PLAIN_Z, pairs_needed, tango, too_few_solved


def one_look(n: int) -> Look:
    """The only look: at all ``n`` questions."""
    (look,) = looks_at((n,), n)
    return look


def least_questions(margin: float) -> int:
    """With how many questions a loss of the margin is excluded where nothing changes."""
    n = math.ceil(
        PLAIN_Z * PLAIN_Z * (1 / margin - 1)
    )  # Tango's bound without a flip is z^2 / (n + z^2)
    while not _excludes(0, n, margin):
        n += 1
    return n


def _excludes(lost: int, n: int, margin: float) -> bool:
    interval = tango(lost, 0, n, PLAIN_Z)
    return interval is not None and interval.high <= margin


def _proves(lost: int, n: int, margin: float) -> bool:
    interval = tango(lost, 0, n, PLAIN_Z)
    return interval is not None and interval.low > margin


def out_of_reach(n: int, margin: float) -> str:
    """Why ``n`` questions cannot prove a loss within the margin even of an unchanged model that
    answers all of them; "" where they can."""
    if can_pass(n, margin, looks=1):
        return ""
    least = fewest_to_pass(margin, looks=1)
    return (
        f"cannot PASS: {n} questions are too few to exclude a loss of more than "
        f"{points(margin)}, even where every answer stays right (it takes {least}: raise "
        "`trials`)"
    )


def decides(n: int, margin: float) -> str:
    """One sentence on what ``n`` questions can show."""
    if not n:
        return "no question could be compared: nothing can be decided"
    kept = sum(1 for _ in takewhile(lambda k: _excludes(k, n, margin), range(n + 1)))
    fails = next((k for k in range(kept, n + 1) if _proves(k, n, margin)), None)
    solved = next((k for k in range(n + 1) if not too_few_solved(k, n, margin)), None)
    if not kept or solved is None:
        passes = f"cannot exclude a loss of more than {points(margin)} even where nothing changes"
    else:
        most = "no answer is lost" if kept == 1 else f"at most {kept - 1} are lost"
        passes = (
            f"exclude a loss of more than {points(margin)} where {most} and the baseline has "
            f"{solved} or more right"
        )
    shows = f"{fails} lost and none gained show one" if fails is not None else "none can show one"
    return f"what {n} questions decide: they {passes}; {shows}"


def power(lost: int, gained: int, n: int, margin: float) -> str:
    """How many questions would decide what ``n`` do not, at the rates seen."""
    needed = pairs_needed(lost / n, gained / n, margin) if n else least_questions(margin)
    if needed is None:
        return "the loss seen is not below the margin: more questions will not make this PASS"
    more = max(needed, least_questions(margin)) - n
    if more <= 0:
        return "a few more questions would decide it at these rates: raise `trials`"
    return f"about {counted(more, 'more question')} would decide it at these rates: raise `trials`"
