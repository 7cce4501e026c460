"""Report surfaces, found by file name: ``surfaces/comment.py`` is the surface ``comment``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping

from iqaction.report import Report
from iqaction.surfaces import _effects_json
from iqaction.surfaces._base import Effect, WriteFile


def names() -> list[str]:
    """All surfaces, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load(name: str) -> Callable[[Report], list[Effect]]:
    """The ``render`` function of the surface of that name."""
    if name not in names():
        raise LookupError(f"no surface {name!r}; there are: {', '.join(names())}")
    render: Callable[[Report], list[Effect]] = importlib.import_module(f"{__name__}.{name}").render
    return render


def render_all(report: Report) -> list[Effect]:
    """The effects of all surfaces, in the order of their names."""
    return [effect for name in names() for effect in load(name)(report)]


def files(report: Report) -> Mapping[str, bytes]:
    """What a report is written as beside its evidence, effects.json included, by name."""
    effects = render_all(report)
    written = {e.name: e.content.encode() for e in effects if isinstance(e, WriteFile)}
    return {**written, "effects.json": _effects_json.to_bytes(effects)}
