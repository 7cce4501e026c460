"""The baseline in an unpacked artifact, whatever it was uploaded as. I/O."""

from __future__ import annotations

from pathlib import Path

from iqaction.errors import EvidenceError
from iqaction.evidence import bundle, manifest

PACKED = "baseline.tar.gz"


def in_artifact(folder: Path, into: Path) -> Path:
    """The baseline's folder in an unpacked artifact: the artifact itself, or a packed one in it.

    Raises
    ------
    EvidenceError
        It holds neither.
    """
    if (folder / manifest.NAME).is_file():
        return folder
    if (folder / PACKED).is_file():
        return bundle.opened(folder / PACKED, into)
    raise EvidenceError(
        "the artifact holds no baseline",
        expected=f"a sealed evidence folder, or {PACKED} alone, as `mode: capture` uploads it",
    )
