"""Sealing is all or nothing at every moment, and says the same of the same evidence."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from evidence_factory import (
    ENGINE,
    answers,
    capture,
    file_limit,
    files,
    fill,
    observation,
    packed_lines,
    plan,
    prompts,
    report,
)
from kill_points import STEPS, state

from iqaction.calls import Arm, Failure, FailureKind, TokenIds
from iqaction.errors import EvidenceError
from iqaction.evidence.canon import identify
from iqaction.evidence.store import Folder
from iqaction.evidence.verify import verify
from iqaction.verdict import Verdict

ROOT = Path(__file__).parents[3]


def new(path: Path) -> Folder:
    return Folder.create_or_continue(path, plan(), prompts(), None)


def records(path: Path) -> dict[str, list[dict[str, object]]]:
    """The records of a folder by kind."""
    found: dict[str, list[dict[str, object]]] = {}
    for file in sorted((path / "records").iterdir()):
        body = json.loads(file.read_bytes())
        found.setdefault(body["predicateType"].split("/")[-2], []).append(body)
    return found


def prepared(path: Path, step: str) -> None:
    """A folder on which ``step`` has something to do."""
    if step == "seal":
        with new(path) as folder:
            fill(folder)
    if step == "reseal":
        capture(path)
    if step == "seal again":
        capture(path)
        with new(path) as folder:
            folder.keep("score", observation("p-2", TokenIds((9,))))
            folder.keep_engine(Arm.REPEAT, 2, ENGINE)
    if step == "adopt":
        capture(path.parent / "baseline")
        path.mkdir()
    if step == "keep":
        with new(path) as folder:
            fill(folder)


EVERY = [pytest.param(5, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]
CODES = {"kill": {9}, "full": {3, 4}}  # ended, refused with advice, or not in need of it


def at_changes(folder: Path, step: str, how: str, every: int) -> list[Mapping[str, object]]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/kill_points.py"), str(folder), step, how, str(every)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[Mapping[str, object]] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("how", ["kill", "full"])
@pytest.mark.parametrize("step", ["seal", "reseal", "seal again"])
def test_seal__killed_or_out_of_space_at_every_change(tmp_path, step, how, every):
    """Whatever is left loads the same, without a problem; done again, it is the same folder as
    one that was never interrupted."""
    prepared(tmp_path / "e", step)
    before = state(tmp_path / "e")
    act = step.partition(" ")[0]
    shutil.copytree(tmp_path / "e", tmp_path / "whole")
    STEPS[act](tmp_path / "whole")
    whole = {n: identify(d) for n, d in files(tmp_path / "whole").items()}
    results = at_changes(tmp_path / "e", act, how, every)

    assert len(results) > 15 / every
    assert {r["code"] for r in results[:-1]} <= CODES[how]
    assert results[-1]["code"] == 0
    for result in results:
        left = dict(result["left"])
        assert left.pop("root") in ("", before["root"], whole["manifest.json"])
        assert left == {k: v for k, v in before.items() if k != "root"}
        assert result["again"] == whole


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("how", ["kill", "full"])
def test_found__killed_or_out_of_space_at_every_change(tmp_path, how, every):
    """A folder that was founded half way is founded by the same command."""
    prepared(tmp_path / "e", "adopt")
    results = at_changes(tmp_path / "e", "adopt", how, every)

    assert len(results) > 15 / every
    assert {r["code"] for r in results[:-1]} <= CODES[how]
    assert len({json.dumps(r["again"], sort_keys=True) for r in results}) == 1
    for result in results:
        left = result["left"]
        assert left.get("problems") == [] or "no evidence folder" in left["error"]


@pytest.mark.parametrize("how", ["kill", "full"])
def test_keep__killed_or_out_of_space_at_every_change(tmp_path, how):
    """Every answer kept before is there, whatever happens to the next one."""
    prepared(tmp_path / "e", "keep")
    before = state(tmp_path / "e")
    results = at_changes(tmp_path / "e", "keep", how, 1)

    assert len(results) > 1
    for result in results:
        assert result["left"]["problems"] == []
        assert set(before["seen"]) <= set(result["left"]["seen"])


def test_seal__a_disk_that_fills_up(tmp_path):
    """A write that fails half way: the folder is as before, and sealing works with space."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        before = files(tmp_path / "e")
        with file_limit(500), pytest.raises(EvidenceError) as caught:
            folder.seal(report())
        after = files(tmp_path / "e")
        root = folder.seal(report())

    assert "File too large" in str(caught.value)
    assert after == before
    assert verify(tmp_path / "e", root).problems == (
        "report.json: speaks of another plan",
    )  # which is what the factory's plain report does


def test_seal__does_not_touch_what_is_in_place(tmp_path):
    """No file is written again, not even with the same bytes."""
    capture(tmp_path / "e")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "e").rglob("*")}
    with Folder.open_for_writing(tmp_path / "e") as folder:
        folder.seal(report(Verdict.UNPROVEN, plan_sha256=plan().sha256))
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "e").rglob("*")}
    changed = {p.name for p in before if before[p] != after.get(p)}

    assert changed <= {".lock", "records", "observations"}  # folders of which links were listed
    assert set(before) == set(after)


def test_seal__order_of_answers_does_not_matter(tmp_path):
    """Lines are in the order of their tags, whoever answered first."""
    for name, order in (("a", 1), ("b", -1)):
        with new(tmp_path / name) as folder:
            for stage, one in answers()[::order]:
                folder.keep(stage, one)
            folder.seal(report())
    tags = [
        [line["tag"] for line in packed_lines(tmp_path / name / "observations/trajectory.jsonl.gz")]
        for name in ("a", "b")
    ]

    assert tags[0] == tags[1]
    assert [(t["leg"], t["unit"]) for t in tags[0]] == [
        ("template", "p-2"),
        ("trajectory", "p-0"),
        ("trajectory", "p-1"),
        ("trajectory", "p-2"),
    ]


def test_seal__lines_go_over_byte_by_byte(tmp_path):
    """What was hashed when it was kept is what is stored."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        kept = set((tmp_path / "e/journal.jsonl").read_bytes().splitlines())
        folder.seal(report())
    stored = {
        line
        for file in (tmp_path / "e/observations").iterdir()
        for line in gzip.decompress(file.read_bytes()).splitlines()
    }

    assert stored == kept
    assert not (tmp_path / "e/journal.jsonl").exists()


def test_seal__a_spent_budget_is_no_failed_request(tmp_path):
    """The mark that a time budget leaves is a request that was never sent: it is counted neither
    as asked nor as failed, and the record says why not all was asked."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        mark = observation("p-1", Failure(FailureKind.BUDGET, "the time budget is spent"), "more")
        folder.keep("score", mark)
        folder.seal(report())
    (made,) = (
        r["predicate"]
        for r in records(tmp_path / "e")["observations"]
        if r["subject"][0]["name"] == "observations/score.jsonl.gz"
    )
    answered = next(m for m in made["metrics"] if m["name"] == "answers")

    assert (answered["value"], answered["n"]) == (2.0, 2)
    assert [m["name"] for m in made["metrics"] if m["name"].startswith("failed")] == []
    assert made["missing"] == []
    assert "the stage's time budget ended before all was asked" in made["limitations"]


def test_seal__packed_bytes_hold_no_time_and_no_name(tmp_path):
    """The same lines give the same file on any day."""
    capture(tmp_path / "e")
    head = (tmp_path / "e/observations/score.jsonl.gz").read_bytes()[:10]

    assert head[3:8] == b"\0" * 5  # flags (no name) and time


def test_seal__old_records_go(tmp_path):
    """A record that speaks of an earlier report is not left behind."""
    capture(tmp_path / "e")
    with Folder.open_for_writing(tmp_path / "e") as folder:
        folder.seal(report(Verdict.FAIL))

    assert [r["predicate"]["verdict"] for r in records(tmp_path / "e")["report"]] == ["FAIL"]


def test_seal__records_say_what_from_what_and_of_whom(tmp_path):
    """Plan, observations, results, report and baseline, each with its links and figures."""
    capture(tmp_path / "e")
    found = records(tmp_path / "e")
    results = found["stage-result"][0]["predicate"]
    sets = {r["subject"][0]["name"]: r["predicate"] for r in found["observations"]}
    figures = {m["name"]: m["value"] for m in sets["observations/trajectory.jsonl.gz"]["metrics"]}
    scored = {m["name"]: m["value"] for m in sets["observations/score.jsonl.gz"]["metrics"]}

    assert {k: len(v) for k, v in found.items()} == {
        "plan": 1,
        "observations": 2,
        "stage-result": 1,
        "report": 1,
        "baseline": 1,
    }
    assert results["basis"] == "derived"
    assert {x["role"] for x in results["links"]} == {"plan", "observations"}
    assert {x["role"] for x in results["artifacts"]} == {"observations", "report"}
    assert results["metrics"][0]["ci95"] == [0.0, 0.002]
    assert results["missing"] == ["p-2: failed"]
    assert results["identity"]["model"] == "m"
    assert results["identity"]["engines"][0]["version"] == "0.32.0"
    assert figures == {
        "answers": 3,
        "failed: timeout": 1,
        "positions": 8,
        "unusable positions": 0,
    }
    assert (scored["positions"], scored["unusable positions"]) == (4, 1)
    assert sets["observations/score.jsonl.gz"]["limitations"] == ["prefill only"]
    assert len(sets["observations/score.jsonl.gz"]["observed_at"]) == 2
    assert found["baseline"][0]["predicate"]["key"]["launches"] == 1
    assert found["baseline"][0]["predicate"]["key"]["settings_sha256"] == plan().settings_sha256()


def test_seal__an_evidence_without_answers_can_be_sealed(tmp_path):
    """NOT RUN is a report too."""
    with new(tmp_path / "e") as folder:
        root = folder.seal(report(Verdict.NOT_RUN, plan_sha256=plan().sha256))

    assert verify(tmp_path / "e", root).ok
    assert Folder.open(tmp_path / "e").load().root == root


def test_seal__altered_evidence_stays_visible(tmp_path):
    """Judging again does not make an edited folder whole: the problem is there for ever."""
    capture(tmp_path / "e")
    path = tmp_path / "e/observations/score.jsonl.gz"
    data = bytearray(path.read_bytes())
    data[9] ^= 1  # a byte that changes nothing else
    path.write_bytes(data)
    for verdict in (Verdict.UNPROVEN, Verdict.FAIL, Verdict.UNPROVEN):
        with Folder.open_for_writing(tmp_path / "e") as folder:
            found = folder.load()
            folder.seal(report(verdict))

        assert found.problems == ("observations/score.jsonl.gz: sha256 differs from the manifest",)


@pytest.mark.parametrize("name", ["observations/score.jsonl.gz", "prompts.jsonl"])
def test_seal__missing_evidence_stays_visible(tmp_path, name):
    """The same for what was removed."""
    capture(tmp_path / "e")
    (tmp_path / "e" / name).unlink()
    with Folder.open_for_writing(tmp_path / "e") as folder:
        before = folder.load().problems
        folder.seal(report())

    assert len(before) >= 1
    assert Folder.open(tmp_path / "e").load().problems == before


@pytest.mark.parametrize("name", ["observations/score.jsonl.gz", "manifest.json", "prompts.jsonl"])
def test_create__altered_evidence_is_not_continued(tmp_path, name):
    """Nothing is added to evidence that someone has changed."""
    capture(tmp_path / "e")
    data = (tmp_path / "e" / name).read_bytes()
    (tmp_path / "e" / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    with pytest.raises(EvidenceError) as caught:
        new(tmp_path / "e")
    assert "another folder" in caught.value.next_step


@pytest.mark.parametrize("how", ["broken", "gone"])
def test_seal__a_lost_manifest_is_not_made_anew(tmp_path, how):
    """A new manifest would vouch for what nobody has checked."""
    capture(tmp_path / "e")
    path = tmp_path / "e/manifest.json"
    path.write_bytes(b"{}") if how == "broken" else path.unlink()

    with Folder.open_for_writing(tmp_path / "e") as folder:
        assert folder.load().problems != ()
        with pytest.raises(EvidenceError, match=r"manifest\.json was altered or is broken"):
            folder.seal(report())


def test_seal__answers_are_not_added_to_what_changed_meanwhile(tmp_path):
    """Evidence altered while a run continues it is not compacted over."""
    capture(tmp_path / "e")
    with new(tmp_path / "e") as folder:
        folder.keep("score", observation("p-2", TokenIds((9,))))
        path = tmp_path / "e/observations/score.jsonl.gz"
        path.write_bytes(path.read_bytes()[:-8])
        with pytest.raises(EvidenceError, match="was altered or is broken"):
            folder.seal(report())


def test_seal__a_broken_packed_file_is_not_compacted_over(tmp_path):
    """What can be read of it in part only would be lost in part."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        folder.seal(report())
    (tmp_path / "e/manifest.json").unlink()
    (tmp_path / "e/journal.jsonl").write_bytes(b"")
    path = tmp_path / "e/observations/score.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with new(tmp_path / "e") as folder:
        folder.keep("score", observation("p-2", TokenIds((9,))))
        with pytest.raises(EvidenceError, match=r"score\.jsonl\.gz was altered or is broken"):
            folder.seal(report())


def test_seal__damaged_lines_stay_where_they_are(tmp_path):
    """A broken line of a packed file survives a compaction that adds to it."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        folder.seal(report())
    (tmp_path / "e/manifest.json").unlink()
    path = tmp_path / "e/observations/score.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join([*lines, b"{broken\n"])))
    (tmp_path / "e/journal.jsonl").write_bytes(b"")
    with new(tmp_path / "e") as folder:
        folder.keep("score", observation("p-2", TokenIds((9,))))
        folder.seal(report())
        found = folder.load()

    assert [p.split(": ")[0] for p in found.problems] == ["observations/score.jsonl.gz:4"]
    assert len(found.seen["score"]) == 3
