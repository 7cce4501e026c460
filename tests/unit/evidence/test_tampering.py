"""A sealed comparison with anything in it edited, removed, swapped or added: `verify` says so,
and `judge` gives no PASS that was none.

What judging reads is held to more: a PASS of altered evidence is none. What judging writes (the
report, the records, the rendered files) is written anew, the same as before.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
from evidence_factory import files
from whole_evidence import Whole

from iqaction import __version__, judgement, session
from iqaction.errors import EvidenceError
from iqaction.evidence import reading
from iqaction.evidence.store import Folder
from iqaction.evidence.tree import Tree
from iqaction.verdict import Verdict

SMALL = Whole(("niah", "gsm8k"), optional=("gsm8k",), problems=12, launches=1)
READ = ("plan.json", "prompts.jsonl", "manifest.json", "circumstances.json")
READ_IN = ("observations/", "data/", "baseline/")


@dataclass(frozen=True)
class Sealed:
    """A judged folder, and the copy of it that is tampered with."""

    whole: Path
    path: Path
    root: str
    verdict: Verdict
    report: bytes

    @property
    def step(self) -> int:
        """Of so many changes one is tried, unless all are: fewer of what never PASSed."""
        return 2 if self.verdict is Verdict.PASS else 8

    @property
    def names(self) -> list[str]:
        return sorted(files(self.whole))

    def restore(self) -> None:
        shutil.rmtree(self.path)
        shutil.copytree(self.whole, self.path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Sealed]:
    """By whether the candidate is worse."""
    place = tmp_path_factory.mktemp("tampering")
    SMALL.captured(place / "reference")
    found = {}
    for worse in (False, True):
        whole = place / f"whole-{worse}"
        done = SMALL.compared(whole, place / "reference", worse=worse)
        report = (whole / "report.json").read_bytes()
        found[worse] = Sealed(whole, place / f"{worse}", done.root, done.report.verdict, report)
    assert (found[False].verdict, found[True].verdict) == (Verdict.PASS, Verdict.UNPROVEN)
    return found


@pytest.fixture(params=[False, True], ids=["PASS", "UNPROVEN"])
def sealed(made: dict[bool, Sealed], request: pytest.FixtureRequest) -> Sealed:
    one = made[request.param]
    shutil.copytree(one.whole, one.path, dirs_exist_ok=True)
    one.restore()
    return one


def is_read(name: str) -> bool:
    return name in READ or name.startswith(READ_IN)


def verdict(path: Path) -> Verdict | None:
    """What judging gives; None where there is nothing that can be judged."""
    try:
        with Folder.open(path) as folder:
            return judgement.judge(folder.load(), __version__).verdict
    except EvidenceError:
        return None


def is_found(one: Sealed, what: object, *read: bool) -> None:
    """Asserts that the change in ``one.path`` is told, also to who has no root, and that judging
    is no better for it; ``read`` says of each file that changed whether judging reads it."""
    found, now = session.verify(one.path), verdict(one.path)

    assert found.problems, what
    assert not found.ok, what
    if any(read) and now is Verdict.PASS:  # a manifest's word on what judging writes anew
        heals(one, what)
    elif any(read):
        assert now is not Verdict.PASS, what
    else:
        assert now is one.verdict, what


def heals(one: Sealed, what: object) -> None:
    """Asserts that judging makes the folder what it was, to the last byte that is hashed."""
    kept = (one.path / "manifest.json").read_bytes()
    assert kept != (one.whole / "manifest.json").read_bytes(), what
    assert session.judge(one.path).root == one.root, what
    (one.path / "manifest.json").write_bytes(kept)


def flips(name: str, size: int, n: int) -> Iterator[tuple[int, int]]:
    """(place, bits): the middle, and where ``n`` is not 0 both ends and so many in between."""
    chance = random.Random(name)
    ends = {0, size - 1} if n else set()
    places = {size // 2, *ends, *(chance.randrange(size) for _ in range(n))}
    return ((at, 1 << chance.randrange(8)) for at in sorted(places))


def flipped(data: bytes, at: int, bits: int) -> bytes:
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


@pytest.mark.parametrize("more", [0, pytest.param(40, marks=pytest.mark.full)])
def test_any_byte(made: dict[bool, Sealed], more: int) -> None:
    """One bit of any file, in its middle; in the full set its ends too and places in between."""
    for one in made.values():
        shutil.copytree(one.whole, one.path, dirs_exist_ok=True)
        one.restore()
        for name in one.names[:: 1 if more else one.step]:
            file, data = one.path / name, (one.whole / name).read_bytes()
            for at, bits in flips(name, len(data), more):
                file.write_bytes(flipped(data, at, bits))
                is_found(one, (name, at, bits), is_read(name))
            file.write_bytes(data)


@pytest.mark.full
def test_bytes_everywhere(made: dict[bool, Sealed]) -> None:
    """One byte in five of all that is judged: loading names it, or judging undoes it."""
    one = made[False]
    one.path.mkdir(exist_ok=True)
    one.restore()
    chance, tried = random.Random(1), 0
    for name in filter(is_read, one.names):
        file, data = one.path / name, (one.whole / name).read_bytes()
        for at in range(len(data) % 5, len(data), 5):
            tried += 1
            file.write_bytes(flipped(data, at, 1 << chance.randrange(8)))
            try:
                found = reading.load(Tree(one.path)).observed
            except EvidenceError:
                continue
            inner = found.baseline
            moved = inner is None or inner.root != found.plan.baseline_root
            if not (moved or found.problems or (inner and inner.problems)):
                assert name == "manifest.json", at
                heals(one, at)
        file.write_bytes(data)
    print(f"{tried} bytes")

    assert tried > 6_000


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.full)])
def test_any_file_gone(sealed: Sealed, whole: bool) -> None:
    """Each file, and each folder."""
    single = [n for n in sealed.names if not n.startswith("records/")]
    folders = ["observations", "records", "baseline", "data", "baseline/observations"]
    for name in [*single, *folders][:: 1 if whole else sealed.step]:
        gone = sealed.path / name
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        is_found(sealed, name, is_read(name) or is_read(f"{name}/"))
        sealed.restore()


def test_any_two_swapped(sealed: Sealed) -> None:
    """Two files under each other's names: of one folder, of the baseline and of the candidate."""
    pairs = [
        (a, b)
        for a, b in combinations(sealed.names, 2)
        if (sealed.whole / a).read_bytes() != (sealed.whole / b).read_bytes()
    ]
    alike = [(f"baseline/{n}", n) for n in sealed.names if f"baseline/{n}" in sealed.names]
    chosen = sorted({*random.Random(4).sample(pairs, 8), *(p for p in alike if p in pairs)})
    for a, b in chosen[:: sealed.step]:
        one, other = sealed.path / a, sealed.path / b
        kept = one.read_bytes(), other.read_bytes()
        one.write_bytes(kept[1])
        other.write_bytes(kept[0])
        is_found(sealed, (a, b), is_read(a) or is_read(b))
        one.write_bytes(kept[0])
        other.write_bytes(kept[1])

    assert len(chosen) > 8


ADDED = ["note.txt", "records/x.json", "data/niah.jsonl", "baseline/x", "baseline/report.json",
         "observations/score.jsonl.gz", "observations/x", "baseline/observations/x.jsonl.gz",
         "baseline/baseline/plan.json", ".hidden", "journal.jsonl"]  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
def test_any_file_added(sealed: Sealed, name: str) -> None:
    """Whatever lies where observations belong takes the PASS; to judging the rest is not there."""
    added = sealed.path / name
    added.parent.mkdir(parents=True, exist_ok=True)
    added.write_bytes((sealed.whole / "observations/niah.jsonl.gz").read_bytes())
    is_observation = "observations/" in name or name == "journal.jsonl"
    is_found(sealed, name, is_observation)


def test_judged_again(sealed: Sealed) -> None:
    """What judging writes is written anew: a forged report does not outlive it."""
    for name in ("report.json", "comment.md", "effects.json"):
        (sealed.path / name).write_bytes(b"{}")
    again = session.judge(sealed.path)

    assert (sealed.path / "report.json").read_bytes() == sealed.report
    assert again.root == sealed.root
    assert session.verify(sealed.path, sealed.root).ok
