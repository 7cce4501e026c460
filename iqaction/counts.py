"""A number of things in words. Pure."""

from __future__ import annotations

_HISSING = ("ch", "sh", "ss", "x")


def counted(n: int, one: str, many: str = "") -> str:
    """As "1 prompt", "1,200 prompts", "5 relaunches"; ``many`` where no ending makes it."""
    ending = "es" if one.endswith(_HISSING) else "s"
    return f"{n:,} {one if n == 1 else many or one + ending}"
