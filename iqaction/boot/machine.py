"""What the endpoint runs on: facts for the evidence, as far as the machine tells.

Nothing here is needed for a verdict, so nothing here fails: what is not there is left out.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from iqaction.boot import programs

_QUERY = "name,driver_version,memory.total"
_TIMEOUT_S = 10.0
_MOST_GPUS = 32
LONGEST = 500  # characters of one fact


def facts(environ: Mapping[str, str]) -> dict[str, str]:
    """System, CPU, memory and GPUs, by name."""
    found = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "memory": _memory(),
        **gpus(environ),
    }
    return bounded({name: value for name, value in found.items() if value})


def bounded(found: Mapping[str, str]) -> dict[str, str]:
    """Facts of at most :data:`LONGEST` printable characters."""
    return {
        name[:80]: "".join(c if c.isprintable() else "�" for c in value[:LONGEST])
        for name, value in found.items()
    }


def _cpu() -> str:
    for line in _lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return f"{value.strip()}, {os.cpu_count() or 0} logical"
    return f"{platform.processor() or platform.machine()}, {os.cpu_count() or 0} logical"


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        key, _, value = line.partition(":")
        if key == "MemTotal":
            return value.strip()
    return ""


def _lines(path: str) -> list[str]:
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 16).split("\n")
    except OSError:
        return []


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """The GPUs alone, as ``gpu 0``; empty where the driver's own program is not there."""
    done = programs.run(
        ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"],
        env=environ,
        cwd=Path("/"),
        timeout_s=_TIMEOUT_S,
    )
    if not done.is_good:
        return {}
    rows = [line for line in done.out.split("\n") if line.strip()][:_MOST_GPUS]
    found = {}
    for number, row in enumerate(rows):
        name, *rest = (cell.strip() for cell in row.split(","))
        if len(rest) == 2:
            found[f"gpu {number}"] = f"{name}, driver {rest[0]}, {rest[1]}"
    return bounded(found)
