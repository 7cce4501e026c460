"""The prompts that changed most, of all stages. Plain text, no markup.

Texts that part have a list of their own; here stand the prompts whose figures moved and the
questions whose answers flipped.
"""

from __future__ import annotations

from itertools import zip_longest

from iqaction.report import Mover, Report, StageResult
from iqaction.surfaces import _facts, _figures

TITLE = "Prompts that changed most"


def total(report: Report) -> int:
    """How many there are to show."""
    return sum(len(stage.movers) for stage in report.stages)


def chosen(report: Report, most: int) -> list[tuple[StageResult, Mover]]:
    """At most ``most``, each stage's first before any stage's second, stage by stage."""
    by_stage = [[(s, m) for m in s.movers] for s in report.stages]
    in_turn = [x for turn in zip_longest(*by_stage) for x in turn if x is not None][:most]
    return [x for stage in by_stage for x in stage if any(x is kept for kept in in_turn)]


def said(mover: Mover) -> str:
    """What changed, as "KL 0.0001 → 0.3056"."""
    if not _figures.known(mover.value_before) or not _figures.known(mover.value_after):
        return mover.what
    before, after = (_figures.value(x, "nats") for x in (mover.value_before, mover.value_after))
    return f"{mover.what} {before} → {after}"


def place(mover: Mover) -> str:
    """The token that the texts are taken at, a dash where they are whole answers."""
    return _figures.DASH if mover.position < 0 else f"{mover.position:,}"


def where(report: Report, stage: StageResult) -> str:
    """The stage's name, where there are several."""
    several = len({_facts.named(s) for s in report.stages if s.movers}) > 1
    return _facts.named(stage) if several or stage.leg else ""
