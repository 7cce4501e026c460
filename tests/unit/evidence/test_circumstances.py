"""Who measured where lies sealed beside the evidence, and judging reads it from nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace

import evidence_factory as made
import pytest

from iqaction.circumstances import NONE, Circumstances
from iqaction.errors import EvidenceError
from iqaction.evidence import circumstances_json
from iqaction.evidence.store import Folder
from iqaction.evidence.verify import verify
from iqaction.report import ChangedLine, Run
from iqaction.verdict import Verdict

HERE = Circumstances(
    Run("org/repo", "pull_request", "c" * 40, "d" * 40, "17", 2, "https://x/17", "2026-11-30"),
    {"gpu 0": "RTX 3090"},
    changed_lines=(ChangedLine("compose.yml", 31, "--kv-cache-dtype fp8"),),
)


def kept(path, circumstances=HERE):
    """A sealed capture that was observed under ``circumstances``; its root."""
    with Folder.create_or_continue(path, made.plan(), made.prompts(), None) as folder:
        folder.keep_circumstances(circumstances)
        made.fill(folder, made.Arm.BASELINE)
        return folder.seal(made.report(Verdict.UNPROVEN, plan_sha256=made.plan().sha256))


def loaded(path):
    with Folder.open(path) as folder:
        return folder.load()


def test_keep_circumstances__come_back(tmp_path):
    """What was kept is loaded, sealed under the root, and named by the report's record."""
    root = kept(tmp_path / "e")

    assert loaded(tmp_path / "e").circumstances == HERE
    assert verify(tmp_path / "e", root).ok


def test_from_bytes__before_the_day_was_kept():
    """Circumstances of older versions are read: neither day nor version is known."""
    body = json.loads(circumstances_json.to_bytes(replace(HERE, observed_on="2026-11-30")))
    del body["observed_on"], body["harness"]

    assert circumstances_json.from_bytes(json.dumps(body).encode()) == HERE


@pytest.mark.parametrize("day", ["today", "2026-12-1", "2026-12-01T00:00:00Z", "2026-12-01\n"])
def test_to_bytes__no_day(day):
    """A day is a day."""
    with pytest.raises(EvidenceError):
        circumstances_json.to_bytes(replace(HERE, observed_on=day))


def test_keep_circumstances__the_last_before_the_seal_count(tmp_path):
    """A run that is begun again says what is true now; a sealed one keeps what it says."""
    with Folder.create_or_continue(tmp_path / "e", made.plan(), made.prompts(), None) as folder:
        folder.keep_circumstances(NONE)
    kept(tmp_path / "e")

    with Folder.open_for_writing(tmp_path / "e") as folder:
        folder.keep_circumstances(HERE)
        with pytest.raises(EvidenceError, match="another run"):
            folder.keep_circumstances(NONE)


@pytest.mark.parametrize("how", ["edited", "removed", "no json"])
def test_load__damaged_circumstances_are_a_problem(tmp_path, how):
    """An acceptance cannot be slipped in, nor a difference be taken out, after the seal."""
    kept(tmp_path / "e")
    file = tmp_path / "e" / "circumstances.json"
    if how == "edited":
        file.write_bytes(circumstances_json.to_bytes(NONE))
    elif how == "removed":
        file.unlink()
    else:
        file.write_bytes(b"{")

    assert any("circumstances.json" in p for p in loaded(tmp_path / "e").problems)
    assert not verify(tmp_path / "e").ok


def test_load__circumstances_of_a_foreign_hand(tmp_path):
    """A folder that was sealed without any has none to be added."""
    made.capture(tmp_path / "e")
    (tmp_path / "e" / "circumstances.json").write_bytes(circumstances_json.to_bytes(HERE))

    assert any("not in the manifest" in p for p in loaded(tmp_path / "e").problems)


def test_adopt__a_baseline_says_where_it_is_from(tmp_path):
    """The copy of the baseline holds its run, which the report shows."""
    root = kept(tmp_path / "b")
    made.compare(tmp_path / "e", tmp_path / "b", root)

    assert loaded(tmp_path / "e").baseline.circumstances == HERE
