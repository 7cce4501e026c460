"""Is a text degenerate? Pure functions of text. Knows no engine and no arm.

A looping engine can score *better* on agreement and NLL, so these signs are compared with the
baseline's own, prompt by prompt.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache

_MAX_PERIOD = 200  # characters
_MIN_LOOP = 48  # characters of pure repetition at the end
_REPEATS = 4


def loops(text: str) -> bool:
    """True where the end of the text repeats one piece at least four times, 48+ characters long."""
    tail = text.rstrip()[-_REPEATS * _MAX_PERIOD :]
    last = tail[-1:]
    for period in range(1, min(_MAX_PERIOD, len(tail) // _REPEATS) + 1):
        span = max(_REPEATS * period, _MIN_LOOP)
        if span > len(tail):
            break
        if tail[-1 - period] != last:  # most periods end here, without a copy
            continue
        end = tail[-span:]
        if end[period:] == end[:-period] and end.strip():
            return True
    return False


def scripts(text: str) -> frozenset[str]:
    """The writing systems of at least a tenth of the text's letters ("LATIN", "CJK", ...)."""
    letters = {c: n for c, n in Counter(text[:4000]).items() if c.isalpha()}
    counts: Counter[str] = Counter()
    for letter, n in letters.items():
        counts[_script(letter)] += n
    least = max(3, sum(letters.values()) / 10)
    return frozenset(s for s, n in counts.items() if n >= least)


@lru_cache(4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split(" ")[0].split("-")[0]


def much_shorter(text: str, other: str) -> bool:
    """True where ``text`` has less than half of the characters of ``other`` (40+ in ``other``)."""
    return len(other) >= 40 and 2 * len(text) < len(other)
