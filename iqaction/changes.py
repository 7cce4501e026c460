"""What differs between two arms' engines and how they were started. Pure; for display only.

Knows who answered (:class:`EngineInfo`) and the machine's facts. It must not know what a change
means for the model: that is what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from iqaction.calls import EngineInfo
from iqaction.report import Change

_STARTED = ("image", "command")
"""Facts of the machine that say how an endpoint was started, alone or with a service's name."""


def engines(before: EngineInfo, now: EngineInfo) -> tuple[Change, ...]:
    """What tells two engines apart, in a fixed order: names first, then what they say of
    themselves."""
    pairs = [
        ("engine", before.dialect, now.dialect),
        ("version", before.version, now.version),
        ("model", before.model, now.model),
        ("fingerprint", before.fingerprint, now.fingerprint),
        *_known("tokenizer", before.tokenizer_sha256, now.tokenizer_sha256),
        *_known("chat template", before.template_sha256, now.template_sha256),
        *(
            (key, before.details.get(key, ""), now.details.get(key, ""))
            for key in sorted({*before.details, *now.details})
        ),
    ]
    return tuple(Change(what, a, b) for what, a, b in pairs if a != b)


def _known(what: str, before: str, now: str) -> tuple[tuple[str, str, str], ...]:
    """A fingerprint that could not be taken once says nothing of another engine."""
    return ((what, before[:12], now[:12]),) if before and now else ()


def starts(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """How the endpoints were started otherwise: image, command. () where one side is not known.

    A digest is told only where the image's name is the same: a tag that moved.
    """
    names = sorted(n for n in {*before, *now} if n.split(" ")[0] in _STARTED)
    if not any(n in before for n in names) or not any(n in now for n in names):
        return ()
    found = [
        Change(n, before.get(n, ""), now.get(n, "")) for n in names if before.get(n) != now.get(n)
    ]
    for name in names:
        digest = name.replace("image", "digest", 1)
        same = name.startswith("image") and before.get(name) == now.get(name)
        pair = before.get(digest), now.get(digest)
        if same and pair[0] and pair[1] and pair[0] != pair[1]:
            found.append(Change(digest, pair[0], pair[1]))
    return tuple(found)
