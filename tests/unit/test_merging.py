"""Legs put together are judged as one machine's evidence, and what does not belong is refused."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_engine import FakeEngine, captured, drive
from unit.action.evidence import RUN, WORLD, Evidence
from world import ENGINE, ROOT, World, healthy, noisy

from iqaction import merging, session, shards
from iqaction.calls import Arm, Tag
from iqaction.circumstances import Circumstances
from iqaction.errors import EvidenceError
from iqaction.evidence.store import Folder
from iqaction.plan import Plan
from iqaction.report import Report
from iqaction.verdict import Verdict

AROUND = Circumstances(replace(RUN, run_id="51"))
SMALL = World(units=8, length=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """A world that is large enough for a PASS."""
    return Evidence(tmp_path_factory.mktemp("merging"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(tmp_path_factory.mktemp("small"), SMALL)


def judged(path: Path) -> Report:
    with Folder.open(path) as folder:
        return folder.report()[0]


def measured(report: Report) -> dict[str, object]:
    """All of a report that the engines and the plan decide."""
    around = ("run", "machine", "changed_lines", "evidence_root", "offer")
    return {
        f.name: getattr(report, f.name) for f in dataclasses.fields(Report) if f.name not in around
    }


def around(path: Path) -> Circumstances:
    with Folder.open(path) as folder:
        return folder.circumstances()


@pytest.mark.parametrize(
    ("versions", "said"), [(("0.4.1", "0.4.1"), "0.4.1"), (("0.4.1", "0.5.0"), "")]
)
def test_merge__when_and_by_which_version(small, tmp_path, versions, said):
    """The day is the first leg's and the version is theirs: who merges has asked nothing."""
    legs = [
        small.leg(
            f"{tmp_path.name}-{n}", shard=n, shards_=2,
            circumstances=Circumstances(RUN, observed_on=f"2026-11-3{n - 1}", harness=version),
        )
        for n, version in enumerate(versions, 1)
    ]  # fmt: skip
    merging.merge(legs[::-1], tmp_path / "out", AROUND)

    assert around(tmp_path / "out") == replace(AROUND, observed_on="2026-11-30", harness=said)


@pytest.mark.parametrize(
    ("name", "damage", "verdict"),
    [("healthy", None, Verdict.PASS), ("broken", noisy(0.8), Verdict.FAIL)],
)
def test_merge__as_one_machine(made, tmp_path, name, damage, verdict):
    """Four shards give the very report of one machine that asked everything."""
    whole = judged(made.leg(f"whole-{name}", damage))
    legs = made.shards(4, made.home / name, damage=damage)

    outcome = merging.merge(legs, tmp_path / "merged", AROUND)

    assert outcome.report.verdict is verdict
    assert measured(whole) == measured(judged(tmp_path / "merged"))
    assert session.verify(tmp_path / "merged", outcome.root).authenticated


def test_merge__a_missing_shard_is_never_green(made, tmp_path):
    """The prompts of a shard that is not there are missing evidence."""
    legs = made.shards(4, made.home / "three")[:3]

    outcome = merging.merge(legs, tmp_path / "merged", AROUND)

    assert outcome.report.verdict is Verdict.UNPROVEN
    missing = {x for s in outcome.report.stages for x in s.coverage.missing}
    assert set(WORLD.names[3::4]) == missing


def test_merge__keeps_lines_as_they_are(small, tmp_path):
    """When a question was answered, and how long that took, stays what it was."""
    leg = small.leg("bytes")

    merging.merge([leg], tmp_path / "merged", AROUND)

    name = "observations/score.jsonl.gz"
    assert (leg / name).read_bytes() == (tmp_path / "merged" / name).read_bytes()


def test_merge__circumstances_of_the_run_that_merges(small, tmp_path):
    """Evidence that is found again is judged under who found it."""
    outcome = merging.merge([small.leg("found")], tmp_path / "merged", AROUND)

    assert outcome.report.run == AROUND.run


def refused(folders: list[Path], out: Path, said: str) -> None:
    with pytest.raises(EvidenceError, match=said):
        merging.merge(folders, out, AROUND)

    assert not (out / "report.json").exists()


def test_merge__nothing(tmp_path):
    """No evidence is no verdict."""
    refused([], tmp_path / "out", "no evidence to put together")


def test_merge__one_shard_twice(small, tmp_path):
    """A prompt that was asked in two legs would let one choose between the answers."""
    one = small.leg("once", shard=1, shards_=2)
    again = tmp_path / "again"
    shutil.copytree(one, again)

    refused([one, again], tmp_path / "out", r"was asked both in .*once and in .*again")


@pytest.mark.parametrize(
    "change",
    [{"version": "3.0"}, {"fingerprint": "fp-2"}, {"details": {"gpu": "another"}}, {"model": "n"}],
    ids=lambda change: next(iter(change)),
)
def test_merge__different_engines(small, tmp_path, change):
    """Legs of two engines are no evidence of either."""
    one = small.leg("engine-a", shard=1, shards_=2)
    name = f"engine-{next(iter(change))}"
    two = small.leg(
        name, shard=2, shards_=2, engine=replace(ENGINE, **{"version": "2.0", **change})
    )

    refused([one, two], tmp_path / "out", "another engine than an earlier leg")


def test_merge__different_engines_after_a_leg_without(small, tmp_path):
    """A leg whose engine never answered does not hide that the others differ."""
    nobody = small.leg("nobody", shard=1, shards_=3, lost=lambda tag: True, answered=False)
    others = [
        small.leg(f"fp-{n}", shard=n, shards_=3, engine=replace(ENGINE, fingerprint=f"{n}"))
        for n in (2, 3)
    ]

    refused([nobody, *others], tmp_path / "out", "another engine than an earlier leg")


def test_merge__different_load(small, tmp_path):
    """Load is part of what is compared."""
    one = small.leg("load-4", shard=1, shards_=2)
    two = small.leg("load-8", shard=2, shards_=2, load=8)

    refused([one, two], tmp_path / "out", "asked 8 at a time, an earlier leg 4")


def test_merge__another_plan(small, tmp_path):
    """Legs answer one plan's questions."""
    one = small.leg("plan-a", shard=1, shards_=2)
    two = small.leg("plan-b", shard=2, shards_=2, suite="other")

    refused([one, two], tmp_path / "out", "under another plan")


def test_merge__another_baseline(small, tmp_path_factory, tmp_path):
    """The same prompts compared with another reference are another plan."""
    other = Evidence(tmp_path_factory.mktemp("other"), replace(SMALL, seed=1))
    one = small.leg("ours", shard=1, shards_=2)
    two = other.leg("theirs", shard=2, shards_=2)

    refused([one, two], tmp_path / "out", "under another plan")


@pytest.mark.parametrize("name", ["observations/score.jsonl.gz", "prompts.jsonl", "manifest.json"])
@pytest.mark.parametrize("first", [True, False])
def test_merge__a_damaged_leg(small, tmp_path, name, first):
    """What was altered since it was sealed is not put together with anything."""
    legs = [small.leg(f"half-{n}", shard=n, shards_=2) for n in (1, 2)]
    bad = tmp_path / "bad"
    shutil.copytree(legs.pop(0 if first else 1), bad)
    (bad / name).write_bytes((bad / name).read_bytes()[:-9] + b"123456789")

    refused([bad, *legs] if first else [*legs, bad], tmp_path / "out", "bad|prompt file")


def test_merge__an_unsealed_leg(small, tmp_path):
    """A leg that was killed before it sealed its answers is run again."""
    refused([small.leg("open", sealed=False)], tmp_path / "out", "not sealed")


@pytest.mark.parametrize("damage", [healthy, noisy(0.8)], ids=["healthy", "broken"])
def test_shards__ask_what_the_whole_asks(damage):
    """Together the legs ask what one machine asks, nothing twice and nothing more."""
    baseline = captured(SMALL, launches=3)
    plan = SMALL.plan(baseline_root=ROOT)

    def asked(part: Plan) -> list[Tag]:
        server = {Arm.CANDIDATE: FakeEngine(SMALL, damage)}
        seen = drive(part, SMALL, server, baseline=baseline).seen
        return [tag for kept in seen.values() for tag in kept]

    legs = [tag for n in (1, 2, 3) for tag in asked(shards.asked(plan, n, 3))]

    assert sorted(asked(plan), key=str) == sorted(legs, key=str)
