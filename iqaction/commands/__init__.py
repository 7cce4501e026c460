"""Commands, found by file name: ``commands/judge.py`` is ``iqaction judge``. I/O.

Importing one must stay cheap (no numpy, no requests): all are imported to print a help page.
What a command needs to do its work it imports when it works.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import cast

from iqaction.commands._base import Command


def load_all() -> dict[str, Command]:
    """All commands by name, in the order of a first day's work."""
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    found = {n: cast(Command, importlib.import_module(f"{__name__}.{n}")) for n in names}
    return dict(sorted(found.items(), key=lambda item: item[1].ORDER))
