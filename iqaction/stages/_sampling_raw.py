"""Are the lists what the model says, or what the sampler made of it? Pure.

Lists that the sampler has altered agree with any sampler. One position is therefore asked for at
two temperatures. A list that was divided by the temperature has every log-odds to its first token
multiplied by one factor, also where that token is all but certain and nothing shows in its own
value; in a raw list they are the same but for the noise of another batch. A position whose list
cannot tell the two apart is neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np

from iqaction.calls import Arm, Drawn
from iqaction.rows import PAD
from iqaction.stages._paths import Kept
from iqaction.stages._sampling_ask import OTHER, RAW, first_list

_SAME = 0.1  # nats: batch noise of what is likely
_NOISIER = 0.05  # of the log-odds: noise grows further down; the other temperature makes it half
_LIKELY = 8.0  # nats below the first
_TELLS = 0.5  # nats of log-odds, from which half of it is more than noise
_CLEARLY = 1.0  # nats that one of the log-odds has to have at least
_LOWEST = -1000.0  # engines write -9999 for what they cut away
_FEW = 0.25  # of the tokens may be off: the last of a list change places with unlisted ones

_NOT_KNOWN = "it is not known whether the lists are raw: "
_ALTERED = (
    "the lists are not raw: the same position has other values at another temperature "
    "(the engine reports log-probabilities as its sampler has altered them)"
)
Listed = Mapping[int, float]


class _Says(Enum):
    SAME = "the same at both temperatures"
    OTHER = "another at another temperature"
    NOTHING = "the same, and could not be another"


def why_not_raw(kept: Kept, arm: Arm, units: Sequence[str]) -> str:
    """Why the lists are not raw, or not known to be; "" where they are.

    The first prompt's have to be there; those of others count as well, because the machines that
    each ask a part of a plan ask for one each. None may differ, and one has to tell.
    """
    if not units:
        return "there is no prompt"
    told = False
    for unit in units:
        here, there = (first_list(kept, arm, unit, leg) for leg in (RAW, OTHER))
        if here is None and there is None and unit != units[0]:
            continue
        if not _is_list(here) or not _is_list(there):
            return _NOT_KNOWN + "one asked for has no answer"
        assert isinstance(here, Drawn) and isinstance(there, Drawn)
        one, other = _listed(here), _listed(there)
        if not one or not other or here.rows.match is not there.rows.match:
            return _NOT_KNOWN + "they cannot be compared"
        said = _compared(one, other)
        if said is _Says.OTHER:
            return _ALTERED
        told |= said is _Says.SAME
    if told:
        return ""
    return _NOT_KNOWN + "the position asked for has no second token that would show it"


def _is_list(answer: object) -> bool:
    return isinstance(answer, Drawn) and len(answer.rows) > 0 and answer.rows.k > 0


def _listed(answer: Drawn) -> Listed:
    rows = answer.rows
    pairs = zip(rows.top[0].tolist(), rows.top_logprob[0].tolist(), strict=True)
    return {key: lp for key, lp in pairs if key != PAD and np.isfinite(lp) and lp > _LOWEST}


def _compared(one: Listed, other: Listed) -> _Says:
    likely = {t for x in (one, other) for t, lp in x.items() if lp > max(x.values()) - _LIKELY}
    shared = set(one) & set(other)
    first = max(one, key=lambda t: one[t])
    if first not in other or len(likely - shared) > max(1, len(likely) * _FEW):
        return _Says.OTHER
    if max(abs(one[t] - other[t]) for t in likely & shared) > _SAME:
        return _Says.OTHER
    pairs = [(one[first] - one[t], other[first] - other[t]) for t in shared if t != first]
    telling = [(d, e) for d, e in pairs if max(abs(d), abs(e)) >= _TELLS]
    off = sum(abs(d - e) > _SAME + _NOISIER * max(abs(d), abs(e)) for d, e in telling)
    if off > _FEW * len(telling):
        return _Says.OTHER
    clear = any(max(abs(d), abs(e)) >= _CLEARLY for d, e in telling)
    return _Says.SAME if clear else _Says.NOTHING
