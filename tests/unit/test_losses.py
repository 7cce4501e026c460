"""Folders of real stages with any subset of their lines and files lost: no PASS that was none.

A journal is what a killed run leaves: nothing in it is listed anywhere, so that a line that is
not there is not missed by a hash. Judging has to miss it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from whole_evidence import ALL, FORCED, Whole, is_bad

from iqaction import __version__, judgement, session
from iqaction.errors import EvidenceError
from iqaction.evidence.store import Folder
from iqaction.verdict import Verdict

JOURNAL = "journal.jsonl"
EACH = {
    "forced": Whole(FORCED),
    "gsm8k": Whole(("gsm8k",)),
    "niah": Whole(("niah",), launches=1),
    "sampling": Whole(("sampling",), launches=1),
}
Loss = Callable[[list[bytes], random.Random], Sequence[bytes]]


class Lossy:
    """One unsealed comparison, well or worse, of which lines and files are lost."""

    def __init__(self, whole: Whole, place: Path) -> None:
        whole.captured(place / "reference")
        self.place = place
        for name, worse in (("well", False), ("worse", True)):
            whole.observed(place / name, place / "reference", worse=worse)

    def lines(self, name: str) -> list[bytes]:
        return (self.place / name / JOURNAL).read_bytes().splitlines(keepends=True)

    def judged(self, name: str, lines: Sequence[bytes], gone: Sequence[str] = ()) -> Verdict | None:
        """The verdict with these lines in the journal and those files gone; None: no folder."""
        path = self.place / f"{name}-less"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.place / name, path)
        (path / JOURNAL).write_bytes(b"".join(lines))
        for file in gone:
            found = path / file
            shutil.rmtree(found) if found.is_dir() else found.unlink(missing_ok=True)
        try:
            with Folder.open(path) as folder:
                return judgement.judge(folder.load(), __version__).verdict
        except EvidenceError:
            return None


@pytest.fixture(scope="module", params=sorted(EACH))
def lossy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lossy:
    return Lossy(EACH[request.param], tmp_path_factory.mktemp("losses"))


def some(share: float) -> Loss:
    return lambda lines, rng: [x for x in lines if rng.random() >= share]


def tail(lines: list[bytes], rng: random.Random) -> Sequence[bytes]:
    """The end is lost, the last line within itself."""
    at = rng.randrange(len(lines))
    return [*lines[:at], lines[at][: rng.randrange(len(lines[at]))]]


def head(lines: list[bytes], rng: random.Random) -> Sequence[bytes]:
    return lines[rng.randrange(1, len(lines)) :]


def what_is_wrong(lines: list[bytes], rng: random.Random) -> Sequence[bytes]:
    """All that the worse engine answers wrongly, and nothing else."""
    return [x for x in lines if not is_bad(str(json.loads(x).get("tag", {}).get("unit", "")))]


def one_kind(lines: list[bytes], rng: random.Random) -> Sequence[bytes]:
    """All of one leg, or all that says who answered, or all that says how many at a time."""

    def kind(line: bytes) -> str:
        body = json.loads(line)
        return str(body.get("tag", body).get("leg", body["kind"]))

    lost = rng.choice(sorted({kind(x) for x in lines}))
    return [x for x in lines if kind(x) != lost]


LOSSES: dict[str, Loss] = {
    "2 %": some(0.02),
    "30 %": some(0.3),
    "tail": tail,
    "head": head,
    "what is wrong": what_is_wrong,
    "one kind": one_kind,
    "all": lambda lines, rng: [],
}


def never_passes(lossy: Lossy, loss: Loss, seed: int) -> None:
    rng = random.Random(seed)
    left = loss(lossy.lines("worse"), rng)

    assert lossy.judged("worse", left) is not Verdict.PASS


def test_losses__begin_with_what_they_say(lossy: Lossy) -> None:
    """With nothing lost the one PASSes and the other does not."""
    assert lossy.judged("well", lossy.lines("well")) is Verdict.PASS
    assert lossy.judged("worse", lossy.lines("worse")) is not Verdict.PASS


@pytest.mark.parametrize("name", ["30 %", "tail", "what is wrong", "one kind"])
def test_losses__of_lines(lossy: Lossy, name: str) -> None:
    """Whatever lines are lost, what did not PASS does not."""
    never_passes(lossy, LOSSES[name], 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 40))
@pytest.mark.parametrize("name", LOSSES)
def test_losses__of_lines_often(lossy: Lossy, name: str, seed: int) -> None:
    """The same, many times."""
    never_passes(lossy, LOSSES[name], seed)


@pytest.mark.parametrize("kind", ["engine", "concurrency"])
def test_losses__who_and_how_many_are_needed(lossy: Lossy, kind: str) -> None:
    """A PASS needs to know who answered; and how many at a time, where the baseline knows."""
    lines = lossy.lines("well")
    left = [x for x in lines if json.loads(x)["kind"] != kind]

    assert len(left) == len(lines) - 1
    assert lossy.judged("well", left) is Verdict.UNPROVEN


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 3, 4))])
def test_losses__of_files(lossy: Lossy, seed: int) -> None:
    """Any files gone, with lines or without: what did not PASS does not."""
    rng, place = random.Random(seed), lossy.place / "worse"
    names = sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.name != ".lock")
    gone = [n for n in names if rng.random() < 0.3]
    left = some(0.1)(lossy.lines("worse"), rng)

    assert lossy.judged("worse", left, gone) is not Verdict.PASS
    for name in rng.sample(names, 2):
        assert lossy.judged("worse", lossy.lines("worse"), [name]) is not Verdict.PASS


@pytest.mark.full
def test_losses__all_stages_at_once(tmp_path: Path) -> None:
    """A folder of all five stages: PASS whole, and never one of less that did not PASS."""
    lossy = Lossy(Whole(ALL), tmp_path)
    sealed = session.judge(shutil.copytree(tmp_path / "well", tmp_path / "sealed"))

    assert sealed.report.verdict is Verdict.PASS
    for loss in LOSSES.values():
        for seed in (1, 2):
            never_passes(lossy, loss, seed)
