"""Does an answer name the code that was hidden? Pure.

The first number of seven digits counts: a model that names a wrong code first and the right one
later has not answered the question. Digits may be grouped as people group them, for a model that
writes 4,831,927 or 4 8 3 1 9 2 7 has found the needle.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_GAP = r"(?:[ ,.'’_\-\u00a0\u2009\u202f]|\\,|\{,\})"
_NUMBER = re.compile(
    r"(?<!\d)(?:"
    r"(?P<plain>\d{7})"
    rf"|\d(?P<gap>{_GAP})\d{{3}}(?P=gap)\d{{3}}(?!(?P=gap)\d{{3}}(?!\d))"  # 4,831,927
    r"|\d{3}[ \-]\d{4}"  # as a telephone number
    # One by one, and not seven of more.
    r"|(?<!\d[ \-,])(?<!\d, )\d(?P<each>, |[ \-,])(?:\d(?P=each)){5}\d(?!(?P=each)\d(?!\d))"
    r")(?!\d)"
)


class Named(NamedTuple):
    """The first number of seven digits in an answer, and whether there is another one."""

    code: str
    more: bool


def named(text: str) -> Named | None:
    """What the answer names; None where it holds no number of seven digits."""
    found = _NUMBER.finditer(text)
    first = next(found, None)
    if first is None:
        return None
    return Named(
        _digits(first.group()), any(_digits(m.group()) != _digits(first.group()) for m in found)
    )


def _digits(text: str) -> str:
    return "".join(str(int(c)) for c in text if c.isdecimal())
