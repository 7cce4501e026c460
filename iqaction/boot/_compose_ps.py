"""How the containers of a project are doing, as ``docker compose ps -a --format json`` says. Pure.

Older versions print one JSON array, newer ones an object a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ENDED = frozenset({"dead", "removing", "restarting"})
_KILLED = 137


@dataclass(frozen=True)
class Container:
    """One container. ``exit_code`` counts where ``state`` is "exited"."""

    id: str
    name: str
    service: str
    image: str
    state: str
    exit_code: int


def parse(text: str) -> list[Container] | None:
    """The containers; None where this is no such list."""
    found = []
    try:
        for row in _rows(text):
            if not isinstance(row, dict):
                return None
            code = row.get("ExitCode", 0)
            found.append(
                Container(
                    id=str(row.get("ID") or ""),
                    name=str(row.get("Name") or ""),
                    service=str(row.get("Service") or ""),
                    image=str(row.get("Image") or ""),
                    state=str(row.get("State") or ""),
                    exit_code=code if isinstance(code, int) else -1,
                )
            )
    except (ValueError, RecursionError):
        return None
    return found


def _rows(text: str) -> Iterable[object]:
    text = text.strip()
    if text.startswith("["):
        rows = json.loads(text)
        return rows if isinstance(rows, list) else [rows]
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def dead(containers: Sequence[Container], serving: str) -> str:
    """Why the project can no longer come up; "" while it can.

    ``serving`` is the service that the endpoint belongs to, "" where that is not known: it must
    run. Of the others one may end well, as a step of preparation does.
    """
    for c in containers:
        if c.state.lower() in _ENDED:
            return f"container {c.name} is {c.state}"
        if c.state.lower() == "exited" and (c.exit_code != 0 or c.service == serving):
            hint = " (killed: out of memory?)" if c.exit_code == _KILLED else ""
            return f"container {c.name} exited with code {c.exit_code}{hint}"
    if serving and not any(c.service == serving for c in containers):
        return f"there is no container of service {serving}"
    if not containers:
        return "no container was started"
    return ""
