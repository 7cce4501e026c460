"""Stages, found by file name: ``stages/score.py`` is the stage ``score``."""

from __future__ import annotations

import importlib
import pkgutil

from iqaction.stages._base import Stage


def names() -> list[str]:
    """All stages, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load(name: str) -> Stage:
    """The stage of that name; LookupError names those there are."""
    if name not in names():
        raise LookupError(f"no stage {name!r}; there are: {', '.join(names())}")
    stage: Stage = importlib.import_module(f"{__name__}.{name}").STAGE
    return stage
