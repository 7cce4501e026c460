"""Sealed evidence of the synthetic world, as jobs of the action leave it: whole, or in shards.

    made = Evidence(tmp_path)
    whole = made.leg("whole")
    second = made.leg("b", shard=2, shards=4)

Shards answer exactly what the whole answers, so what is put together can be compared with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from fake_github.state import SHA
from world import Damage, World, healthy, without

from iqaction import session, shards
from iqaction.calls import Arm, EngineInfo, Tag
from iqaction.circumstances import Circumstances
from iqaction.evidence.store import Folder, load_baseline
from iqaction.observed import Observed
from iqaction.plan import Plan
from iqaction.report import Run

WORLD = World(units=64, length=12)
TESTED = "c" * 40
RUN = Run(
    repository="acme/serve",
    event="pull_request",
    head_sha=SHA,
    tested_sha=TESTED,
    run_id="50",
    attempt=1,
    url="https://github.com/acme/serve/actions/runs/50",
    started_at="2026-11-30T12:00:00Z",
)
LOAD = 4


def prompts(world: World = WORLD) -> bytes:
    lines = (
        {"id": p.id, "bucket": p.bucket, "messages": [{"role": "user", "content": f"say {p.id}"}]}
        for p in world.prompts().values()
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


class Evidence:
    """A captured reference, and as many measured legs as a test wants."""

    def __init__(self, home: Path, world: World = WORLD) -> None:
        self.home, self.world = home, world
        self._capture = world.capture(launches=3)
        self.reference = self._stored(home / "reference", self._capture)
        session.judge(self.reference)
        self.root = load_baseline(self.reference).root

    @cached_property
    def healthy(self) -> Observed:
        return self.world.compare(self._capture, healthy)

    @cached_property
    def healthy_plan(self) -> Plan:
        """The plan that legs of the default suite are of."""
        with Folder.open(self.leg("healthy plan")) as folder:
            return folder.load().plan

    def leg(
        self,
        name: str,
        damage: Damage | None = None,
        *,
        shard: int = 0,
        shards_: int = 0,
        suite: str = "default",
        circumstances: Circumstances | None = None,
        lost: Callable[[Tag], bool] | None = None,
        engine: EngineInfo | None = None,
        load: int = LOAD,
        sealed: bool = True,
        answered: bool = True,
    ) -> Path:
        """The folder that one job leaves."""
        found = self.world.compare(self._capture, damage) if damage else self.healthy
        mine = set(shards.part(self.world.names, shard, shards_))
        for stage in found.seen:
            found = without(found, stage, lambda tag: tag.unit not in mine)
            if lost is not None:
                found = without(found, stage, lost)
        if engine is not None or not answered:
            found = replace(found, engines={(Arm.CANDIDATE, 0): engine} if engine else {})
        plan = replace(found.plan, suite=suite, looks=(self.world.units,))
        around = circumstances or Circumstances(RUN)
        around = replace(around, shard=shard, shards=shards_)
        path = self._stored(
            self.home / name, replace(found, plan=plan), self.root, self.reference, around, load
        )
        if sealed:
            session.judge(path)
        return path

    def captured(self, name: str, sha: str) -> Path:
        """The reference as `mode: capture` leaves it, of a commit."""
        around = Circumstances(replace(RUN, event="push", head_sha=sha, tested_sha=sha))
        path = self._stored(self.home / name, self._capture, around=around)
        session.judge(path)
        return path

    def shards(self, parts: int, folder: Path, **more: object) -> list[Path]:
        """All shards as artifacts of the first attempt below ``folder``."""
        at = folder.relative_to(self.home)
        suite = more.get("suite", "default")
        return [
            self.leg(f"{at}/inferquality-{suite}-{n}-of-{parts}-1", shard=n, shards_=parts, **more)  # type: ignore[arg-type]
            for n in range(1, parts + 1)
        ]

    def _stored(
        self,
        path: Path,
        observed: Observed,
        root: str = "",
        baseline: Path | None = None,
        around: Circumstances | None = None,
        load: int = 0,
    ) -> Path:
        data = prompts(self.world)
        sha256 = hashlib.sha256(data).hexdigest()
        plan = replace(observed.plan, prompts_sha256=sha256, baseline_root=root)
        with Folder.create_or_continue(path, plan, data, baseline) as folder:
            if around is not None:
                folder.keep_circumstances(around)
            for (arm, launch), engine in observed.engines.items():
                folder.keep_engine(arm, launch, engine)
                folder.keep_concurrency(arm, launch, load or LOAD, "plan")
            for stage, kept in observed.seen.items():
                for observation in kept.values():
                    folder.keep(stage, observation)
        return path
