"""Reports in which every text is hostile, and the corpus of such texts."""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import TypeVar

from report_factory import failed_by_score, failed_by_trajectory, with_history

from iqaction.report import Change, ChangedLine, Difference, Report
from iqaction.verdict import Verdict

HOSTILE = json.loads((Path(__file__).parent / "unit" / "surfaces" / "hostile.json").read_text())
T = TypeVar("T")


def poisoned(value: T, text: str) -> T:
    """The same data with every string in it replaced by ``text``: no field can be forgotten."""
    if isinstance(value, enum.Enum):
        return value
    if isinstance(value, str):
        return text  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(poisoned(x, text) for x in value)  # type: ignore[return-value]
    if isinstance(value, dict):
        return dict.fromkeys((text,) * len(value), text)  # type: ignore[return-value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            f.name: poisoned(getattr(value, f.name), text) for f in dataclasses.fields(value)
        }
        return dataclasses.replace(value, **changed)
    return value


def full() -> Report:
    """A report in which no field that holds text is empty."""
    of = failed_by_score()
    stages = tuple(
        dataclasses.replace(
            s,
            leg="leg",
            movers=tuple(m for stage in with_history().stages for m in stage.movers),
            checks=tuple(
                c if c.verdict is Verdict.PASS else dataclasses.replace(c, accepted="yes")
                for c in s.checks
            ),
        )
        for s in of.stages
    )
    return dataclasses.replace(
        of,
        stages=stages,
        problems=("first",),
        searched=("first", "second"),
        differences=(Difference("plan", "a", "b", "c"), Difference("plan", "a", "b")),
        history=with_history().history,
    )


def reports(text: str) -> list[Report]:
    """All fields hostile at once; and only texts and names, within an otherwise sound report;
    and a sound run around everything that is shown beside it."""
    everything = poisoned(full(), text)
    sound = failed_by_trajectory()
    past = with_history()
    around = dataclasses.replace(
        everything,
        stages=tuple(
            dataclasses.replace(
                s,
                checks=tuple(dataclasses.replace(c, title=text) for c in s.checks),
                movers=poisoned(s.movers, text),
            )
            for s in past.stages
        ),
        history=tuple(
            dataclasses.replace(p, head_sha=text, started_at=text, url=text) for p in past.history
        ),
        changes=(Change(text, f"a --x {text}", f"a --y {text} --z"),),
        run=dataclasses.replace(sound.run, republished=text, artifact_url=text),
        baseline_run=sound.run,
        changed_lines=(
            ChangedLine(text, 1, f"x {text} y"),
            ChangedLine("compose.yml", 3, f"x {text} y"),
        ),
        problems=(f"first\n{text}\nlast",),
        differences=(Difference("plan", text, f"@@ -1 +1 @@\n-{text}\n+{text}"),),
        machine={"gpu 0": text, f"gpu {text}": text},
    )
    (stage,) = sound.stages
    divergences = tuple(
        dataclasses.replace(poisoned(d, text), kind=d.kind) for d in stage.divergences
    )
    faults = tuple(dataclasses.replace(poisoned(f, text), kind=f.kind) for f in stage.faults)
    stage = dataclasses.replace(stage, divergences=divergences, faults=faults)
    return [everything, dataclasses.replace(sound, stages=(stage,)), around]
