"""When, with which version and on which GPU a folder is observed. I/O: reads the clock and asks
the driver, so that judging need do neither. Knows no engine and no plan.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from urllib.parse import urlsplit

from iqaction import __version__
from iqaction.boot import machine
from iqaction.circumstances import NONE, Circumstances


def today() -> str:
    """The day, UTC, as 2026-12-01."""
    return datetime.now(timezone.utc).date().isoformat()


def gpus() -> Mapping[str, str]:
    """This machine's GPUs as facts of the evidence; empty where the driver names none."""
    return machine.gpus(os.environ)


def found(
    given: Circumstances,
    kept: Circumstances,
    endpoint: str,
    day: Callable[[], str] = today,
    here: Callable[[], Mapping[str, str]] = gpus,
) -> Circumstances:
    """The circumstances to keep: ``given`` by who asks, over those ``kept`` when the folder was
    begun. Day and version are of the first observation, and stay when a run is continued.

    The GPU is this machine's where the endpoint is on it and nobody has said more.
    """
    if given == NONE and kept != NONE:
        return kept
    around = replace(
        given,
        observed_on=kept.observed_on or given.observed_on or day(),
        harness=kept.harness or given.harness or __version__,
    )
    if any(name.startswith("gpu ") for name in given.machine) or not is_here(endpoint):
        return around
    known = {k: v for k, v in kept.machine.items() if k.startswith("gpu ")}
    return replace(around, machine={**given.machine, **(known or here())})


def is_here(endpoint: str) -> bool:
    """True for an address of this machine."""
    try:
        host = urlsplit(endpoint).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
