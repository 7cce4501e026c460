"""A stage's own questions lie in the folder, are hashed by the plan, and travel with a baseline."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from evidence_factory import ENGINE, UNITS, judged, plan, prompts, report

from iqaction.calls import Arm
from iqaction.errors import EvidenceError
from iqaction.evidence.store import Folder
from iqaction.plan import DATA, Plan
from iqaction.verdict import Verdict

QUESTIONS = b'{"question": "1 + 1?", "answer": "#### 2"}\n'


def with_data(root: str = "", data: bytes = QUESTIONS) -> Plan:
    """A plan whose second stage has questions of its own."""
    bare = plan(root)
    first, second = bare.stages
    sha256 = hashlib.sha256(data).hexdigest()
    return replace(bare, stages=(first, replace(second, params={**second.params, DATA: sha256})))


def captured(path: Path) -> str:
    mine = with_data()
    with Folder.create_or_continue(path, mine, prompts(), None, {"score": QUESTIONS}) as folder:
        folder.keep_engine(Arm.BASELINE, 0, ENGINE)
        return folder.seal(report(Verdict.UNPROVEN, plan_sha256=mine.sha256))


def test_data__is_read_back(tmp_path):
    """What was kept is there for judging, with a baseline's own beside it."""
    root = captured(tmp_path / "b")
    mine = with_data(root)
    with Folder.create_or_continue(
        tmp_path / "c", mine, prompts(), tmp_path / "b", {"score": QUESTIONS}
    ) as folder:
        folder.seal(judged(mine))
        found = folder.load()

    assert found.problems == ()
    assert found.data == {"score": QUESTIONS}
    assert found.baseline.data == {"score": QUESTIONS}
    assert found.root


def test_data__continued(tmp_path):
    """The same questions continue a folder; other ones are refused."""
    captured(tmp_path / "b")

    with Folder.create_or_continue(
        tmp_path / "b", with_data(), prompts(), None, {"score": QUESTIONS}
    ):
        pass
    with pytest.raises(EvidenceError, match="another plan"):
        Folder.create_or_continue(
            tmp_path / "b", with_data(data=b"x"), prompts(), None, {"score": b"x"}
        )


@pytest.mark.parametrize("given", [{}, {"score": b"other"}, {"trajectory": QUESTIONS}])
def test_data__not_the_plans(tmp_path, given):
    """A folder is not founded without the questions that the plan names."""
    with pytest.raises(EvidenceError, match="the data of score are not those"):
        Folder.create_or_continue(tmp_path / "e", with_data(), prompts(), None, given)


@pytest.mark.parametrize("change", ["altered", "gone", "linked"])
@pytest.mark.parametrize("whose", ["", "baseline/"])
def test_data__altered(tmp_path, change, whose):
    """Questions that are no longer the plan's are a problem, and are not judged with."""
    root = captured(tmp_path / "b")
    mine = with_data(root)
    with Folder.create_or_continue(
        tmp_path / "c", mine, prompts(), tmp_path / "b", {"score": QUESTIONS}
    ) as folder:
        folder.seal(judged(mine))
    path = tmp_path / "c" / f"{whose}data" / "score.jsonl"
    if change == "altered":
        path.write_bytes(QUESTIONS.replace(b"2", b"3"))
    else:
        path.unlink()
    if change == "linked":
        (tmp_path / "elsewhere").write_bytes(QUESTIONS)
        path.symlink_to(tmp_path / "elsewhere")

    with Folder.open(tmp_path / "c") as folder:
        found = folder.load()

    part = found.baseline if whose else found
    assert "score" not in part.data
    assert part.problems


def test_data__none(tmp_path):
    """Stages without questions of their own keep none."""
    with Folder.create_or_continue(tmp_path / "e", plan(), prompts(), None) as folder:
        assert folder.load().data == {}
    assert not (tmp_path / "e" / "data").exists()
    assert UNITS
