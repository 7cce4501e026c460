"""Public datasets that stages ask from: fetched once, checked, cached. I/O; knows no stage's rules.

A dataset is pinned by sha256, so that everybody asks the same questions and no server can slip in
others. Nothing of it ships with the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from iqaction.cache import cache_folder
from iqaction.errors import ConfigError

_TIMEOUT_S = 60.0
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Pin:
    """One file of a public repository at one commit."""

    url: str
    sha256: str
    size: int  # bytes


PINS = {
    # The test split of GSM8K, 1,319 rows, MIT: Cobbe et al., 2021, arXiv:2110.14168.
    "gsm8k": Pin(
        "https://raw.githubusercontent.com/openai/grade-school-math/"
        "3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/test.jsonl",
        "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
        749_738,
    ),
}


def fetch(name: str) -> bytes:
    """The bytes of a pinned dataset, from the cache or else from its public repository.

    Raises
    ------
    ConfigError
        It is not in the cache and cannot be fetched, or what came is not what is pinned.
    """
    pin = PINS[name]
    place = cache_folder(os.environ) / f"{name}-{pin.sha256[:12]}.jsonl"
    data = _cached(place, pin)
    if data is None:
        data = _fetched(name, pin)
        _keep(place, data)
    return data


def _cached(place: Path, pin: Pin) -> bytes | None:
    """None where it is not there, or damaged: it is then fetched anew."""
    try:
        with place.open("rb") as file:
            data = file.read(pin.size + 1)
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == pin.sha256 else None


def _fetched(name: str, pin: Pin) -> bytes:
    import requests  # noqa: PLC0415 - seldom, and .1 s to import

    offline = f"give a copy of it: `data: PATH` under {name}"
    try:
        with requests.get(pin.url, stream=True, timeout=_TIMEOUT_S) as reply:
            reply.raise_for_status()
            data = b""
            for chunk in reply.iter_content(_CHUNK):
                data += chunk
                if len(data) > pin.size:
                    break
    except requests.RequestException as exc:
        raise ConfigError(
            f"{name}: its data cannot be fetched from {pin.url}: {type(exc).__name__}",
            expected="a way to that address, once",
            next_step=offline,
        ) from exc
    if hashlib.sha256(data).hexdigest() != pin.sha256:
        raise ConfigError(
            f"{name}: what came from {pin.url} is not the pinned file",
            expected=f"{pin.size} bytes with sha256 {pin.sha256}",
            next_step=offline,
        )
    return data


def _keep(place: Path, data: bytes) -> None:
    """Atomically; where the cache cannot be written, it is fetched again next time."""
    with contextlib.suppress(OSError):
        fd, staged = tempfile.mkstemp(dir=place.parent, prefix=".fetching-")
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            os.replace(staged, place)
        except OSError:
            Path(staged).unlink(missing_ok=True)
            raise
