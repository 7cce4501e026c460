"""Comparisons for tests: of a synthetic world, and ones in which every text is hostile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from world import World, noisy

from iqaction import comparing
from iqaction.comparing import Comparison, Line, Stage
from iqaction.report import Change, Contrast, Divergence, Estimate, Mover
from iqaction.verdict import Verdict

WORLD = World(units=24, length=6)
REFERENCE = WORLD.capture(launches=3)
GOOD = WORLD.compare(REFERENCE)
BAD = WORLD.compare(REFERENCE, noisy(0.8))


@cache
def whole() -> Comparison:
    """A good candidate and a bad one."""
    return comparing.compare(comparing.party("good", GOOD, "1"), comparing.party("bad", BAD, "1"))


def poisoned(text: str) -> Comparison:
    """Every text that comes from a folder is ``text``."""
    of = whole()
    figure = Contrast(
        text, text, text, 0.1, 0.2, Estimate(text, 0.1, (0.05, 0.2), 0.95, text, 9, text), text
    )
    bare = Contrast(text, text, "share", None, 0.2, None, text)
    movers = (Mover(text, text, text, 0.1, 0.2, 3, text, text, text),) * 9
    texts = (Divergence(text, text, 3, "real", 2.0, text, text, text, text, text),) * 9
    lines = (Line(figure, Verdict.PASS, Verdict.FAIL), Line(bare, None, None))
    stage = Stage(text, Verdict.PASS, None, lines, movers, texts, 9, text)
    return replace(
        of,
        a=replace(
            of.a,
            name=text,
            report=replace(of.a.report, headline=text, suite=text, problems=(text,) * 5),
        ),
        b=replace(of.b, name=text, observed=_engine(text)),
        asked=(text,) * 30,
        changes=(Change(text, text, text), Change(text, f"x --a {text}", f"x --b {text}")),
        stages=(stage, stage),
    )


def _engine(text: str) -> object:
    engines = {
        k: replace(v, dialect=text, version=text, model=text) for k, v in BAD.engines.items()
    }
    return replace(BAD, engines=engines)
