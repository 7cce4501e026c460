"""The baseline that is pinned, and how far it has moved since the first one. Pure.

A small file that people review, written by `iqaction baseline pin`::

    root: 9f2c...              # evidence root of the pinned baseline
    bundle: baseline.tar.gz    # where it is, from this file's folder; or the word artifact
    pinned_on: 2026-12-01
    reason: "8-bit weights on purpose"
    drift: {kl: 0.0104, decisive: 0.0002, nll: 0.0031}    # from the pin before; or unknown
    earlier:                   # oldest first; the first anchor has no drift
      - root: 4ab1...
        pinned_on: 2026-09-01
        reason: "the first anchor"

Baselines that follow one another make small steps, and small steps add up: what is judged against
the last pin alone may wander as far as one likes. Knows no file and no clock.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iqaction import days, values
from iqaction.document import Entry, Listing, Scalar, Table, describe, parse, scalar
from iqaction.errors import ConfigError
from iqaction.spelling import nearest

NAME = ".inferquality/baseline.yml"
ARTIFACT = "artifact"
UNKNOWN = "unknown"
MAX_BYTES = 256 * 1024
MAX_PINS = 200
MAX_REASON = 500
MAX_DRIFT = 1e6  # nats; no engine is that far off, and sums of it are finite
METRICS = ("kl", "decisive", "nll")
_OF_A_PIN = ("root", "pinned_on", "reason", "drift")
_KEYS = (*_OF_A_PIN, "bundle", "earlier")
_ROOT = re.compile(r"[0-9a-f]{64}\Z")
_HEAD = """\
# The baseline that changes are judged against. Written by `iqaction baseline pin`; a change of it
# is reviewed like code. `drift` is how much worse a baseline scores than the one pinned before it.
"""


@dataclass(frozen=True)
class Pin:
    """One baseline that was pinned.

    Attributes
    ----------
    drift
        By metric, how much worse than the pin before; None where nobody measured it, and of the
        first anchor, which has none before it.
    """

    root: str
    pinned_on: str
    reason: str
    drift: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Anchor:
    """The pins, oldest first, the last one in force; ``bundle`` is where that one is."""

    pins: tuple[Pin, ...]
    bundle: str

    @property
    def root(self) -> str:
        return self.pins[-1].root

    def since_first(self, metric: str) -> float | None:
        """The sum of all steps; None where one of them is not known. 0 for the first anchor."""
        steps = [(p.drift or {}).get(metric) for p in self.pins[1:]]
        known = [s for s in steps if s is not None]
        return math.fsum(known) if len(known) == len(steps) else None


def pinned(before: Anchor | None, pin: Pin, bundle: str) -> Anchor:
    """The anchor with one more pin.

    Raises
    ------
    ConfigError
        It is pinned already, the reason cannot be written on one line, or there are too many.
    """
    if not pin.reason.strip() or len(pin.reason) > MAX_REASON or not pin.reason.isprintable():
        raise ConfigError(
            f"--reason: found {pin.reason[:80]!r}",
            expected=f"why this baseline is pinned: one line of at most {MAX_REASON} characters",
        )
    if before is None:
        return Anchor((pin,), bundle)
    if before.root == pin.root:
        raise ConfigError(
            f"the baseline {pin.root[:12]} is pinned already, since {before.pins[-1].pinned_on}",
            expected="another baseline",
        )
    if len(before.pins) >= MAX_PINS:
        raise ConfigError(f"{MAX_PINS} baselines are listed already", expected="fewer")
    return Anchor((*before.pins, pin), bundle)


def beyond(anchor: Anchor, margins: Mapping[str, float]) -> tuple[str, ...]:
    """The metrics whose sum of steps is beyond its margin, or is not known."""
    sums = {m: anchor.since_first(m) for m in margins}
    # Written so that what is no number is beyond.
    return tuple(m for m, limit in margins.items() if not _within(sums[m], limit))


def _within(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit


def to_text(anchor: Anchor) -> str:
    """The file's text; :func:`read` gives the same anchor."""
    last = anchor.pins[-1]
    lines = _lines(last, first=len(anchor.pins) == 1)
    lines.insert(1, f"bundle: {_quoted(anchor.bundle)}")
    if anchor.pins[:-1]:
        lines.append("earlier:")
    for number, pin in enumerate(anchor.pins[:-1]):
        first, *rest = _lines(pin, first=number == 0)
        lines += [f"  - {first}", *(f"    {line}" for line in rest)]
    return _HEAD + "\n".join(lines) + "\n"


def _lines(pin: Pin, *, first: bool) -> list[str]:
    lines = [f"root: {_quoted(pin.root)}", f"pinned_on: {pin.pinned_on}"]
    lines.append(f"reason: {_quoted(pin.reason)}")
    if not first:
        drift = pin.drift
        said = ", ".join(f"{m}: {_decimal(v)}" for m, v in (drift or {}).items())
        lines.append(f"drift: {UNKNOWN if drift is None else '{' + said + '}'}")
    return lines


def _decimal(value: float) -> str:
    """Without an exponent, which some readers of YAML take for a text."""
    text = f"{value:.8f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def read(text: str, name: str) -> Anchor:
    """The anchor of a file's text; ``name`` is what errors call the file.

    Raises
    ------
    ConfigError
        For the first mistake, with its line.
    """
    root = parse(text, name)
    if not isinstance(root, Table):
        raise ConfigError(
            f"{name}: found {describe(root)}",
            expected="a file as `iqaction baseline pin` writes it, with " + ", ".join(_KEYS),
        )
    _known(root, _KEYS, name)
    earlier = root.get("earlier")
    before: Sequence[object] = ()
    if earlier is not None:
        listed = earlier.value.items if isinstance(earlier.value, Listing) else ()
        if not 1 <= len(listed) < MAX_PINS:
            raise values.wrong(
                f"{name}:{earlier.line}: earlier", earlier.value, "a list of earlier pins"
            )
        before = listed
    pins = []
    for number, item in enumerate(before):
        if not isinstance(item, Table):
            line = earlier.line if earlier else 1
            raise ConfigError(f"{name}:{line}: earlier: no pin", expected=", ".join(_OF_A_PIN))
        _known(item, _OF_A_PIN, name)
        pins.append(_pin(item, name, first=number == 0))
    pins.append(_pin(root, name, first=not before))
    return Anchor(tuple(pins), _text(root, "bundle", name, "a path, or the word artifact"))


def _known(table: Table, keys: tuple[str, ...], name: str) -> None:
    for entry in table.entries:
        if entry.key not in keys:
            raise ConfigError(
                f"{name}:{entry.line}: unknown key {entry.key[:60]!r}{nearest(entry.key, keys)}",
                expected=", ".join(keys),
            )


def _needed(table: Table, key: str, name: str, expected: str) -> Entry:
    entry = table.get(key)
    if entry is None:
        raise ConfigError(f"{name}:{table.line}: no {key}", expected=expected)
    return entry


def _text(table: Table, key: str, name: str, expected: str) -> str:
    entry = _needed(table, key, name, expected)
    return values.text(entry.value, f"{name}:{entry.line}: {key}", expected)


def _pin(table: Table, name: str, *, first: bool) -> Pin:
    # As written: digits alone are a number to YAML.
    root = _needed(table, "root", name, "64 hexadecimal digits")
    digits = root.value.text.lower() if isinstance(root.value, Scalar) else ""
    if not _ROOT.match(digits):
        raise values.wrong(f"{name}:{root.line}: root", root.value, "64 hexadecimal digits")
    day = _needed(table, "pinned_on", name, "a day, as 2026-12-01")
    written = day.value.text if isinstance(day.value, Scalar) else ""
    if days.parse(written) is None:
        raise values.wrong(f"{name}:{day.line}: pinned_on", day.value, "a day, as 2026-12-01")
    reason = _text(table, "reason", name, "why it was pinned")
    return Pin(digits, written, reason, _drift(table, name, first=first))


def _drift(table: Table, name: str, *, first: bool) -> Mapping[str, float] | None:
    expected = "{kl: 0.01, ...}, or unknown"
    entry = table.get("drift")
    if first:
        if entry is None:
            return None
        raise ConfigError(
            f"{name}:{entry.line}: drift: the first anchor has moved from nothing",
            expected="no drift there",
        )
    entry = _needed(table, "drift", name, expected)
    place = f"{name}:{entry.line}: drift"
    if isinstance(entry.value, Scalar) and scalar(entry.value) == UNKNOWN:
        return None
    if not isinstance(entry.value, Table):
        raise values.wrong(place, entry.value, expected)
    _known(entry.value, METRICS, name)
    return {e.key: _step(e, name) for e in entry.value.entries}


def _step(entry: Entry, name: str) -> float:
    place, expected = f"{name}:{entry.line}: drift.{entry.key}", "a number of nats, as 0.01"
    found = values.number(entry.value, place, expected)
    if abs(found) > MAX_DRIFT:
        raise values.wrong(place, entry.value, expected)
    return found
