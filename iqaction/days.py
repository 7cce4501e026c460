"""A day as the files name it, as "2026-12-01": this century's, and only those that there are.

Pure. Knows no clock.
"""

from __future__ import annotations

import calendar
import re

_FORM = re.compile(r"(20[0-9]{2})-([0-9]{2})-([0-9]{2})\Z")
_DAY_S = 86_400


def parse(text: str) -> tuple[int, int, int] | None:
    """Year, month and day; None for anything else, as 2026-02-31."""
    found = _FORM.match(text)
    if found is None:
        return None
    year, month, day = (int(x) for x in found.groups())
    if not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return year, month, day


def since_1970(text: str) -> int | None:
    """The number of days since 1970-01-01; None for what is no day."""
    day = parse(text)
    return None if day is None else calendar.timegm((*day, 0, 0, 0)) // _DAY_S
