"""The nearest valid name, for errors about unknown ones. Knows no name itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 80  # what is longer is no misspelt name, and comparing it takes long


def nearest(word: str, names: Iterable[str]) -> str:
    """A hint at the end of an error: "; did you mean 'score'?", or nothing."""
    near = difflib.get_close_matches(word[:_LONGEST], list(names), 1, cutoff=0.55)
    return f"; did you mean {near[0]!r}?" if near else ""
