"""The nearest valid name, for errors about unknown ones. Knows no name itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FILES = 0.75  # a cutoff for file names
_LONGEST = 80  # what is longer is no misspelt name, and comparing it takes long


def nearest(word: str, names: Iterable[str], cutoff: float = 0.55) -> str:
    """A hint at the end of an error: "; did you mean 'score'?", or nothing.

    ``cutoff`` is the least similarity (0 to 1, difflib's ratio): file names share endings, and
    need more of it than words do.
    """
    near = difflib.get_close_matches(word[:_LONGEST], list(names), 1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""
