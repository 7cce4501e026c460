"""The baseline that a run is given: a folder or a packed one, and whether it is the right one. I/O.

Knows where it may lie and what pins it. What is in it, and whether it fits the plan, is for others.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from iqaction import sources
from iqaction.anchor import ARTIFACT
from iqaction.errors import ConfigError
from iqaction.evidence import bundle
from iqaction.inputs import Request
from iqaction.observed import Observed


def folder(request: Request, evidence: Path, scratch: ExitStack) -> Path | None:
    """The folder of the baseline, None where there is none; of a packed one a copy that ``scratch``
    removes again.

    Raises
    ------
    ConfigError
        It is not there, or is where the run writes.
    EvidenceError
        It is not the pinned one, or cannot be unpacked safely.
    """
    if not request.baseline:
        if request.baseline_sha256:
            raise ConfigError(
                "baseline_sha256: there is no baseline", expected="--baseline, or neither of them"
            )
        return None
    path = Path(request.baseline)
    if path.is_file():
        into = scratch.enter_context(tempfile.TemporaryDirectory(prefix="iqaction-"))
        return bundle.opened(path, Path(into) / "baseline", request.baseline_sha256)
    must_be_there(path, "--baseline")
    _apart(evidence, path)
    return bundle.opened(path, path, request.baseline_sha256)


def pinned(request: Request, plan: Path | None) -> Request:
    """The request with the baseline that its anchor pins, where it names no other; raises
    ConfigError where that one is not to be had here."""
    if not request.anchor or request.baseline:
        return request
    held = sources.anchor_file(request, plan)
    if held.bundle == ARTIFACT:
        raise ConfigError(
            f"{request.anchor} pins {held.root[:12]}, which is an artifact, and none is given",
            expected="--baseline PATH, the downloaded one",
        )
    home = (plan.parent if plan else Path()) / Path(request.anchor).parent
    return replace(request, baseline=str(home / held.bundle))


def anchored(request: Request, plan: Path | None, baseline: Observed) -> None:
    """Where the plan names an anchor, the baseline must be the one that is pinned there; raises
    ConfigError."""
    if not request.anchor:
        return
    pinned = sources.anchor_file(request, plan)
    if baseline.root != pinned.root:
        raise ConfigError(
            f"the baseline's evidence root is {baseline.root or 'not known: it is not sealed'}",
            expected=f"{pinned.root}, which {request.anchor} pins",
            next_step="give the pinned baseline, or pin this one in a reviewed change "
            "(`iqaction baseline pin`)",
        )


def must_be_there(folder: Path, flag: str) -> None:
    """Raise ConfigError where there is no folder; ``flag`` says who named it."""
    if not folder.is_dir():
        raise ConfigError(
            f"{flag} {folder}: no such folder",
            expected="the evidence of a captured reference: its folder, or the .tar.gz of it",
        )


def _apart(evidence: Path, baseline: Path) -> None:
    """A run writes into its own folder and never into the baseline's."""
    ours, theirs = evidence.resolve(), baseline.resolve()
    if ours == theirs or theirs in ours.parents or ours in theirs.parents:
        raise ConfigError(
            f"--evidence {evidence} and --baseline {baseline} are in one another",
            expected="two folders side by side",
        )
