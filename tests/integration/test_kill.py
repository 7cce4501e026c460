"""Killed with SIGKILL at random moments, a run continues to the same report and asks nothing twice.

The process is the real command, of each kind that asks or judges, with every stage in its plan. A
moment is drawn among the start, the requests, the writing of an answer, and the judging and
sealing after the last one.
"""

from __future__ import annotations

import random
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.disks import remount
from integration.killing import (
    IN_FLIGHT,
    KINDS,
    STAGES,
    Ground,
    Undisturbed,
    ended,
    evidence,
    founded,
    kept,
    kill,
    lines,
    made_of,
    names,
    report,
)

from iqaction import session

pytestmark = pytest.mark.timeout(1800)

MOMENTS = 200
_DEFAULT = 10
_BEFORE, _AFTER = 0.1, 0.4  # shares of the kills before the first request, and after the last
_TWICE = 0.2  # share of the runs that are killed a second time
_SEED = 3000  # its first ten moments are of all sorts
_SPACING_S = 0.03  # after a request: its answer is written down, the next one goes out


@pytest.fixture(scope="module")
def ground(
    weights: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    one = founded(tmp_path_factory.mktemp("killed"), weights("F16"))
    yield one
    one.close()


def moment(rng: random.Random, whole: Undisturbed) -> tuple[int, float]:
    """How many requests come before the kill, and how many seconds after them it comes."""
    where = rng.random()
    if not whole.requests:
        return 0, rng.random() * whole.took_s
    if where < _BEFORE:
        return 0, rng.random() * whole.lead_s
    if where > 1 - _AFTER:
        return whole.requests, rng.random() * whole.tail_s
    return rng.randint(1, whole.requests), rng.random() * _SPACING_S


def moments() -> list[object]:
    return [
        pytest.param(n, marks=pytest.mark.full) if n >= _DEFAULT else pytest.param(n)
        for n in range(MOMENTS)
    ]


@pytest.mark.parametrize("number", moments())
def test_kill(number: int, ground: Ground, tmp_path: Path) -> None:
    """Killed at a random moment and begun again: the same bytes, and no answer asked for twice."""
    rng = random.Random(_SEED + number)
    kind = KINDS[number % len(KINDS)]
    whole, work = ground.whole(kind), tmp_path / "work"
    ground.prepare(kind, work)
    begun = kept(work)

    held, written = begun, lines(work)
    for _ in range(1 + (rng.random() < _TWICE)):
        request, delay = moment(rng, whole)
        event = ground.expect(request)
        with ground.begin(kind, work) as process:
            killed = kill(process, event, delay)
        asked, before = ground.asked(), made_of(held)
        held = kept(work)
        lost = asked - (made_of(held) - before)
        print(f"{kind}: killed {killed} at request {request} of {whole.requests} + {delay:.3f} s")
        print(f"  kept {len(held)} of {len(whole.answers)} answers; in flight {dict(lost)}")

        # What was asked and not kept was in flight.
        assert made_of(held) - before <= asked
        assert all(n <= IN_FLIGHT * (1 + (kind == "live")) for n in lost.values()), lost
        assert written <= lines(work)
        written = lines(work)

    assert_ends_as(whole, ground, kind, work, made_of(begun))


def assert_ends_as(
    whole: Undisturbed, ground: Ground, kind: str, work: Path, begun: Counter[str]
) -> None:
    """Asserts that the same command, given again, ends as if nothing had ever disturbed it, and
    asks what is not kept; ``begun`` are the requests of answers that were there at first."""
    held, written = made_of(kept(work)), lines(work)
    ground.expect(0)
    status, said = ended(ground.begin(kind, work))

    assert status == whole.status, said
    assert ground.asked() == whole.asked - (held - begun)
    assert frozenset(kept(work)) == whole.answers
    assert written <= lines(work)
    assert len(lines(work)) == len(whole.answers)
    assert report(work) == whole.report
    assert names(work) == whole.files
    assert session.verify(evidence(work)).problems == ()
    assert_packed(work)


def assert_packed(work: Path) -> None:
    """Where a capture packs its folder: the pack is of the folder as it is."""
    for packed in work.glob("*.tar.gz"):
        with tarfile.open(packed) as tar:
            for name in ("manifest.json", "report.json"):
                inner = next(m for m in tar.getmembers() if m.name.endswith(name))
                stored = tar.extractfile(inner)
                assert stored is not None
                assert stored.read() == (evidence(work) / name).read_bytes()


@pytest.mark.parametrize("kind", ["candidate", "live"])
def test_kill__every_stage_is_there(kind: str, ground: Ground) -> None:
    """The runs that are killed keep answers of every stage, and of both legs of a score."""
    answers = ground.whole(kind).answers

    assert {stage for stage, _ in answers} == set(STAGES)
    assert {tag.leg for stage, tag in answers if stage == "score"} == {"reference", "self"}


@pytest.mark.parametrize(
    "gone", ["plan.json", pytest.param("observations", marks=pytest.mark.full)]
)
def test_kill__while_what_was_taken_over_is_removed(
    gone: str, ground: Ground, tmp_path: Path
) -> None:
    """What a candidate answered beside a live baseline goes when the evidence holds it; a run
    that was killed when half of it was gone ends as one that was not."""
    whole, work = ground.whole("live"), tmp_path / "work"
    beside, aside = work / "evidence.live/candidate", tmp_path / "aside"
    ground.prepare("live", work)
    event = ground.expect(whole.requests)
    with ground.begin("live", work) as process:
        assert kill(process, event, 0)
    shutil.copytree(beside, aside)
    ended(ground.begin("live", work))
    assert not beside.exists()
    aside.rename(beside)
    if gone == "plan.json":
        (beside / gone).unlink()
    else:
        shutil.rmtree(beside / gone)

    assert_ends_as(whole, ground, "live", work, Counter())


@pytest.mark.full
@pytest.mark.parametrize("number", range(12))
def test_full_disk(number: int, ground: Ground, disk: Path) -> None:
    """The disk is full at some moment of whatever kind of run: said as that; with room the same
    command goes on, and ends as if there had always been room."""
    kind = ("candidate", "capture", "live", "baseline")[number % 4]
    whole, work = ground.whole(kind), disk / "work"
    size = random.Random(number).randint(16, whole.size // 1024)
    remount(disk, f"size={size}k")
    ground.prepare(kind, work)
    ground.expect(0)
    status, said = ended(ground.begin(kind, work))
    print(f"{kind}: {size} of {whole.size // 1024} KiB, kept {len(kept(work))}: {said}")

    assert (status, said.count("iqaction: ")) == (3, 1), said
    assert "No space left" in said
    remount(disk, "size=32m")
    assert_ends_as(whole, ground, kind, work, Counter())
