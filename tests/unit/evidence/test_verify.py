"""Whatever is edited, missing or foreign is found, and named."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from evidence_factory import (
    answers,
    capture,
    compare,
    files,
    judged,
    plan,
    prompts,
)

from iqaction.errors import EvidenceError
from iqaction.evidence import report_json
from iqaction.evidence.canon import dump, identify
from iqaction.evidence.store import RENDERED, Folder
from iqaction.evidence.verify import Verified, verify
from iqaction.observed import Observed
from iqaction.report import Report
from iqaction.verdict import Verdict


def rejudge(observed: Observed) -> Report:
    """What judging the factory's evidence gives."""
    return dataclasses.replace(judged(observed.plan), tool_version="9.9")


def rerender(report: Report) -> Mapping[str, bytes]:
    """What rendering a report gives; the root is printed."""
    text = f"{report.verdict.value} {report.evidence_root}\n".encode()
    return {name: name.encode() + b": " + text for name in RENDERED}


def check(path: Path, root: str = "") -> Verified:
    return verify(path, root, rejudge=rejudge, rerender=rerender)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """A rendered comparison, its folder and root; to be copied before it is changed."""
    path = tmp_path_factory.mktemp("sealed")
    root = compare(path / "e", path / "b", capture(path / "b"))
    with Folder.open_for_writing(path / "e") as folder:
        report, _ = folder.report()
        folder.write_rendered(rerender(dataclasses.replace(report, evidence_root=root)))
    return path / "e", root


@pytest.fixture
def copied(sealed, tmp_path):
    shutil.copytree(sealed[0], tmp_path / "e")
    return tmp_path / "e", sealed[1]


def test_verify__an_untouched_folder_is_authentic(sealed):
    """With the root as learned from elsewhere."""
    path, root = sealed

    assert check(path, root) == Verified(True, (), root, True)
    assert check(path, root).claim == "authentic"


def test_verify__without_a_root_it_is_consistent_only(sealed):
    """Whoever rewrites all of it is not found without the root."""
    path, root = sealed

    assert check(path) == Verified(True, (), root, False)
    assert check(path).claim == "consistent, not authenticated"


def test_verify__another_root_is_other_evidence(sealed):
    """A consistent folder that is not the one that was meant."""
    found = check(sealed[0], "0" * 64)

    assert (found.ok, found.authenticated) == (False, False)
    assert "this is other evidence" in found.problems[0]
    assert found.claim == "not what the tool wrote"


def test_verify__moved_and_locked_it_is_the_same(copied):
    """The lock file and the place are of no concern."""
    path, root = copied
    (path / ".lock").write_text("1\n")

    assert check(path.rename(path.parent / "f"), root).ok


def edits(path: Path, per_file: int) -> list[tuple[str, int, int]]:
    """(file, place, flipped bits): ends, middle and some in between, of every file."""
    chance = random.Random(7)
    found = []
    for name, data in files(path).items():
        places = {0, len(data) - 1, len(data) // 2}
        places |= {chance.randrange(len(data)) for _ in range(per_file)}
        found += [(name, at, 1 << chance.randrange(8)) for at in sorted(places)]
    return found


JUDGED = ("plan.json", "prompts.jsonl", "manifest.json", "observations/", "baseline/")


def faults(observed: Observed) -> tuple[str, ...]:
    """What keeps the verdict from PASS: problems, the baseline's too, and its identity."""
    inner = observed.baseline
    if inner is None:
        return (*observed.problems, "no baseline")
    other = ("another baseline",) if inner.root != observed.plan.baseline_root else ()
    return (*observed.problems, *inner.problems, *other)


@pytest.mark.parametrize("per_file", [0, pytest.param(60, marks=pytest.mark.full)])
def test_verify__any_edited_byte_is_found(copied, per_file):
    """One flipped bit anywhere, in a judged file also by who judges; the root finds it too."""
    path, root = copied
    for name, at, bits in edits(path, per_file):
        file = path / name
        original = file.read_bytes()
        file.write_bytes(original[:at] + bytes([original[at] ^ bits]) + original[at + 1 :])
        found = verify(path, root, rerender=rerender)
        try:
            seen = faults(Folder.open(path).load())
        except EvidenceError as exc:
            seen = (exc.happened,)
        file.write_bytes(original)

        assert not found.ok, (name, at, bits)
        assert not found.authenticated
        if name == "manifest.json":
            assert found.root != root
        elif name.startswith(JUDGED):
            assert seen, (name, at, bits)

    assert check(path, root).ok


def test_verify__any_missing_file_is_found(copied):
    """And named, rendered ones too."""
    path, root = copied
    for name, data in files(path).items():
        (path / name).unlink()
        found = check(path, root)
        (path / name).write_bytes(data)

        assert any(name in p and "missing" in p for p in found.problems), name

    assert check(path, root).ok


@pytest.mark.parametrize(
    "name",
    ["x", "notes.txt", "records/x.json", "observations/gsm8k.jsonl.gz", "baseline/report.json",
     "baseline/observations/x.jsonl.gz", "records/" + "0" * 64 + ".json", ".hidden", "a/b/c/d"],
)  # fmt: skip
def test_verify__any_foreign_file_is_found(copied, name):
    """Wherever it lies."""
    path, root = copied
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(b"{}")
    found = check(path, root)

    assert not found.ok
    assert any(p.startswith(name[:5]) for p in found.problems)


def test_verify__foreign_names_can_be_printed(copied):
    """A file name is foreign text."""
    path, root = copied
    (path / "\x1b[31mred\n").write_bytes(b"")
    with open(os.fsencode(path) + b"/\xff", "wb"):
        pass
    found = check(path, root)

    assert "\\x1b[31mred\\n: not in the manifest" in found.problems
    assert all(p.isprintable() for p in found.problems)


def test_verify__links_and_pipes_are_found(copied):
    """A link to the very same bytes is no file of ours; a pipe does not block."""
    path, root = copied
    (path / "plan.json").rename(path.parent / "plan.json")
    (path / "plan.json").symlink_to(path.parent / "plan.json")
    os.mkfifo(path / "pipe")
    found = check(path, root)

    assert "plan.json: a link or no plain file" in found.problems
    assert "pipe: a link or no plain file" in found.problems


def test_verify__an_unfinished_folder_says_so(tmp_path):
    """Without a seal there is nothing to compare with."""
    with Folder.create_or_continue(tmp_path / "e", plan(), prompts(), None) as folder:
        folder.keep(*answers()[0])
    found = verify(tmp_path / "e")

    assert found.problems[0] == "manifest.json: missing; the folder was never sealed"
    assert any("journal.jsonl: the folder is not sealed" in p for p in found.problems)
    assert found.root == ""


def test_verify__rewritten_with_a_new_manifest(copied):
    """Whoever makes the manifest anew is found by records, by judging again, or by the root."""
    path, root = copied
    report = json.loads((path / "report.json").read_bytes())
    report["headline"] = "all is well"
    (path / "report.json").write_bytes(dump(report))
    manifest = json.loads((path / "manifest.json").read_bytes())
    data = (path / "report.json").read_bytes()
    manifest["files"]["report.json"] = {"sha256": identify(data), "size": len(data)}
    (path / "manifest.json").write_bytes(dump(manifest))
    found = check(path)

    assert any("report.json is not the file that it speaks of" in p for p in found.problems)
    assert any("judging the evidence again gives another report" in p for p in found.problems)
    assert any("comment.md: not what rendering the report gives" in p for p in found.problems)
    assert verify(path, root).problems[0].startswith("the evidence root is ")


def test_verify__a_report_that_judging_does_not_give(copied):
    """The fields that differ and the version that wrote it are named."""
    path, _ = copied
    with Folder.open_for_writing(path) as folder:
        stored, _ = folder.report()
        root = folder.seal(dataclasses.replace(stored, verdict=Verdict.FAIL, tool_version="1.0"))
        folder.write_rendered(
            rerender(dataclasses.replace(stored, verdict=Verdict.FAIL, evidence_root=root))
        )
    found = check(path, root)

    assert found.problems == (
        "report.json: judging the evidence again gives another report (verdict PASS, stored "
        "FAIL; different: verdict; written by version 1.0)",
    )
    assert verify(path, root, rerender=rerender).ok


def test_verify__the_last_bits_of_a_number_are_no_difference(copied):
    """Judging elsewhere may differ in the last bits, and in nothing else."""
    path, root = copied

    def elsewhere(observed: Observed, **changes: object) -> Report:
        again = rejudge(observed)
        (result,) = again.stages
        (check,) = result.checks
        estimate = dataclasses.replace(check.estimate, **changes)
        checks = (dataclasses.replace(check, estimate=estimate),)
        return dataclasses.replace(again, stages=(dataclasses.replace(result, checks=checks),))

    near, far = math.nextafter(0.001, 1), 0.001 * (1 + 1e-7)

    assert verify(path, root, rejudge=lambda o: elsewhere(o, value=near)).ok
    assert not verify(path, root, rejudge=lambda o: elsewhere(o, value=far)).ok
    assert not verify(path, root, rejudge=lambda o: elsewhere(o, n_units=4)).ok
    assert not verify(path, root, rejudge=lambda o: elsewhere(o, interval=None)).ok


def test_verify__the_version_is_not_judged(copied):
    """Who judged is the stored report's own to say; what was judged is not."""
    path, _ = copied
    with Folder.open_for_writing(path) as folder:
        stored, _ = folder.report()
        mine = dataclasses.replace(stored, tool_version="1")
        root = folder.seal(mine)

    assert verify(path, root, rejudge=rejudge).ok


def test_verify__a_report_of_another_plan(copied):
    """A report must speak of the plan and of the baseline that lie beside it."""
    path, _ = copied
    with Folder.open_for_writing(path) as folder:
        stored, _ = folder.report()
        root = folder.seal(dataclasses.replace(stored, plan_sha256="", baseline_root="0" * 64))

    assert verify(path, root).problems == (
        "report.json: speaks of another plan",
        "report.json: speaks of another baseline",
    )


def test_verify__not_rendered_is_no_fault(copied):
    """A folder without any rendered file is whole; with some of them it is not."""
    path, root = copied
    for name in RENDERED:
        (path / name).unlink()
    none = check(path, root)
    (path / "comment.md").write_bytes(b"x")
    some = check(path, root)

    assert none.ok
    assert len(some.problems) == len(RENDERED)


def test_verify__a_rendered_file_that_rendering_does_not_make(copied):
    """As an older version left it."""
    path, root = copied
    found = verify(path, root, rerender=lambda r: {"comment.md": rerender(r)["comment.md"]})

    assert "report.html: rendering does not make it" in found.problems


def test_verify__records_of_another_run(copied):
    """Two plans' records in one folder."""
    path, _ = copied
    data = next(d for n, d in files(path).items() if n.startswith("records/") and b"/plan/v1" in d)
    other = data.replace(b'"suite":"default"', b'"suite":"another"')
    (path / "records" / f"{identify(other)}.json").write_bytes(other)
    manifest = json.loads((path / "manifest.json").read_bytes())
    manifest["files"][f"records/{identify(other)}.json"] = {
        "sha256": identify(other),
        "size": len(other),
    }
    (path / "manifest.json").write_bytes(dump(manifest))

    assert "records: not exactly one record of kind plan" in verify(path).problems


def test_verify__a_report_in_other_words(copied):
    """The same report with blanks is not the file that the tool wrote."""
    path, _ = copied
    body = json.loads((path / "report.json").read_bytes())
    (path / "report.json").write_text(json.dumps(body))

    assert "report.json: not in canonical form" in verify(path).problems
    assert report_json.from_json(body).verdict is Verdict.PASS


def test_verify__another_baseline_put_in(copied, tmp_path):
    """A sound baseline that is not the one of the plan."""
    path, _ = copied
    shutil.rmtree(path / "baseline")
    capture(tmp_path / "other")
    shutil.copytree(tmp_path / "other", path / "baseline")

    assert "baseline: not the baseline that the plan names" in verify(path).problems


def test_verify__thousands_of_foreign_files(copied):
    """Two hundred are named, the rest is counted."""
    path, root = copied
    for i in range(500):
        (path / f"x{i}").write_bytes(b"")
    found = check(path, root)

    assert len(found.problems) == 201
    assert found.problems[-1] == "and 300 more"


def test_verify__no_folder_is_an_error(tmp_path):
    """What happened, what was expected, what next."""
    with pytest.raises(EvidenceError, match="is not there") as caught:
        verify(tmp_path / "no")

    assert caught.value.next_step == "check the path"


@pytest.mark.parametrize("name", ["manifest.json", "report.json", "plan.json"])
@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff\xfe", b"[" * 50_000, b'{"a": NaN}'])
def test_verify__rubbish_is_a_problem_and_no_traceback(copied, name, data):
    """Every file may be anything."""
    path, root = copied
    (path / name).write_bytes(data)
    found = check(path, root)

    assert any(p.startswith(name) for p in found.problems)
