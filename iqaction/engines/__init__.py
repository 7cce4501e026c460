"""Engine dialects, found by file name: ``engines/vllm.py`` is the dialect ``vllm``."""

from __future__ import annotations

import importlib
import pkgutil

from iqaction.engines._base import Dialect


def names() -> list[str]:
    """All dialects, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load(name: str) -> Dialect:
    """The dialect of that name; LookupError names those there are."""
    if name not in names():
        raise LookupError(f"no engine dialect {name!r}; there are: {', '.join(names())}")
    dialect: Dialect = importlib.import_module(f"{__name__}.{name}").DIALECT
    return dialect
