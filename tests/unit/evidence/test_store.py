"""A folder keeps what it is given, whatever happens to the process or to the disk."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from evidence_factory import (
    ENGINE,
    UNITS,
    answers,
    capture,
    compare,
    files,
    fill,
    generation,
    judged,
    observation,
    packed_lines,
    plan,
    prompts,
    report,
)

from iqaction.calls import Arm, Failure, FailureKind, Generation, Tag, TokenIds
from iqaction.errors import EvidenceError
from iqaction.evidence.envelope import observation_to_json
from iqaction.evidence.store import Folder, load_baseline
from iqaction.verdict import Verdict


def new(path: Path) -> Folder:
    return Folder.create_or_continue(path, plan(), prompts(), None)


@pytest.fixture
def base(tmp_path):
    """A sealed capture and its root."""
    return tmp_path / "base", capture(tmp_path / "base")


def seen(folder: Folder) -> dict[str, dict[Tag, str]]:
    """What was observed, as what can be compared."""
    return {
        stage: {
            tag: json.dumps(observation_to_json(stage, one, "2026-01-01T00:00:00Z"))
            for tag, one in tags.items()
        }
        for stage, tags in folder.load().seen.items()
    }


def test_keep__is_loaded_again_before_and_after_the_seal(tmp_path):
    """Observations, engines and concurrency, from the journal and from the sealed files alike."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        before = seen(folder)
        unsealed = folder.load()
        root = folder.seal(report())
        after = seen(folder)
        sealed = folder.load()

    assert before == after
    assert {s: len(t) for s, t in before.items()} == {"trajectory": 4, "score": 2}
    assert sealed.engines == unsealed.engines == {(Arm.CANDIDATE, 0): ENGINE}
    assert sealed.concurrency == unsealed.concurrency == {(Arm.CANDIDATE, 0): (8, "plan")}
    assert (unsealed.root, sealed.root) == ("", root)
    assert unsealed.problems == sealed.problems == ()
    assert tuple(sealed.prompts) == UNITS
    assert sealed.plan == plan()


def test_keep__is_on_the_disk_when_it_returns(tmp_path):
    """Another reader sees each answer at once; nothing is needed to end."""
    folder = new(tmp_path / "e")
    for number, (stage, one) in enumerate(answers(), start=1):
        folder.keep(stage, one)
        kept = sum(len(t) for t in Folder.open(tmp_path / "e").load().seen.values())

        assert kept == number
    folder.close()


def test_keep__the_last_answer_to_a_tag_counts(tmp_path):
    """A failure that was asked again is replaced, before and after the seal."""
    failure = observation("p-0", Failure(FailureKind.RESET, "broken"))
    with new(tmp_path / "e") as folder:
        folder.keep("trajectory", failure)
        folder.keep("trajectory", observation("p-0", TokenIds((1,))))
        unsealed = folder.load().seen["trajectory"][failure.tag].answer
        folder.seal(report())
        folder.keep("trajectory", failure)
        folder.keep("trajectory", observation("p-0", TokenIds((2,))))
        continued = folder.load().seen["trajectory"][failure.tag].answer
        folder.seal(report())
        resealed = folder.load().seen["trajectory"][failure.tag].answer

    assert (unsealed, continued, resealed) == (TokenIds((1,)), TokenIds((2,)), TokenIds((2,)))
    assert len(packed_lines(tmp_path / "e/observations/trajectory.jsonl.gz")) == 1


def test_keep__many_threads(tmp_path):
    """Every answer of every thread is kept once."""
    with new(tmp_path / "e") as folder:

        def work(thread: int) -> None:
            for i in range(5):
                one = observation(f"u-{thread}-{i}", TokenIds((thread, i)))
                folder.keep("score", one)

        threads = [threading.Thread(target=work, args=(t,)) for t in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = folder.load().seen["score"]

    assert {t.unit: o.answer for t, o in kept.items()} == {
        f"u-{t}-{i}": TokenIds((t, i)) for t in range(6) for i in range(5)
    }


def test_keep_engine__is_written_once(tmp_path):
    """A continued run that finds the same engine changes nothing."""
    for _ in range(3):
        with new(tmp_path / "e") as folder:
            folder.keep_engine(Arm.CANDIDATE, 0, ENGINE)
            folder.keep_engine(Arm.CANDIDATE, 0, ENGINE)
            folder.keep_concurrency(Arm.CANDIDATE, 0, 8, "plan")

    assert len((tmp_path / "e/journal.jsonl").read_bytes().splitlines()) == 2


def test_keep_engine__two_engines_under_one_name_are_a_problem(tmp_path):
    """Answers of two engines must not be judged as one's; sealing does not hide it."""
    other = dataclasses.replace(ENGINE, version="0.33.0")
    with new(tmp_path / "e") as folder:
        folder.keep_engine(Arm.CANDIDATE, 0, ENGINE)
        folder.keep_engine(Arm.CANDIDATE, 0, other)
        folder.keep_engine(Arm.REPEAT, 1, other)
        before = folder.load()
        folder.seal(report())
        after = folder.load()

    assert before.problems == after.problems
    assert len(after.problems) == 1
    assert "vllm 0.32.0 m, then vllm 0.33.0 m" in after.problems[0]
    assert after.engines[Arm.CANDIDATE, 0] == other
    assert after.launches == (1,)


def test_keep__refuses_what_is_no_evidence(tmp_path):
    """A stage, tag or number that the schema does not know is an error, and nothing is kept."""
    with new(tmp_path / "e") as folder:
        for stage, one in [
            ("../x", observation("p-0", TokenIds((1,)))),
            ("score", observation("../x", TokenIds((1,)))),
            ("score", dataclasses.replace(observation("p", TokenIds((1,))), call_sha256="x")),
            ("score", dataclasses.replace(observation("p", TokenIds((1,))), elapsed_s=-1.0)),
            ("score", dataclasses.replace(observation("p", TokenIds(())), elapsed_s=float("nan"))),
            ("engines", observation("p", TokenIds((1,)))),
        ]:
            with pytest.raises(EvidenceError):
                folder.keep(stage, one)
        assert folder.load().seen == {}


def test_load__a_torn_last_line_is_dropped_and_told(tmp_path):
    """A kill while writing costs one answer and is no fault of the evidence."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        whole = seen(folder)
    path = tmp_path / "e/journal.jsonl"
    data = path.read_bytes()
    last = data.splitlines(keepends=True)[-1]
    for cut in (1, len(last) // 2, len(last) - 1):
        path.write_bytes(data[:-cut])
        found = Folder.open(tmp_path / "e")

        assert found.load().problems == ()
        assert "torn by a kill" in found.notes[0]
        assert sum(map(len, seen(found).values())) == sum(map(len, whole.values())) - 1

    with new(tmp_path / "e") as folder:
        folder.keep(*answers()[-1])

        assert seen(folder) == whole
        assert folder.load().problems == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{\n", "not JSON"),
        (b"\n", "not JSON"),
        (b"[]\n", "no JSON object"),
        (b'{"x": NaN}\n', "NaN is not a number"),
        (b"\0\0\0\n", "not JSON"),
        (b'{"kind": "observation"}\n', "required property"),
    ],
)
def test_load__any_other_broken_line_is_a_problem(tmp_path, line, said):
    """It is named with its place, the others count, and sealing does not hide it."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        path = tmp_path / "e/journal.jsonl"
        kept = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*kept[:3], line, *kept[3:]]))
        found = folder.load()
        folder.seal(report())
        sealed = folder.load()

    assert len(found.problems) == len(sealed.problems) == 1
    assert found.problems[0].startswith("journal.jsonl:4: ")
    assert said in found.problems[0]
    assert said in sealed.problems[0]
    assert sum(map(len, found.seen.values())) == sum(map(len, sealed.seen.values())) == 6


def test_load__a_line_whose_numbers_are_none_is_a_problem(tmp_path):
    """The schema sees no number of a row; the reader does, and names the line."""
    with new(tmp_path / "e") as folder:
        body = observation_to_json(
            "score", observation("p-0", generation()), "2026-01-01T00:00:00Z"
        )
        body["answer"]["rows"]["n"] = 3
        (tmp_path / "e/journal.jsonl").write_text(json.dumps(body) + "\n")
        found = folder.load()

    assert found.problems == ("journal.jsonl:1: rows: the blob is not as long as n and k say",)
    assert found.seen == {}


def test_load__many_broken_lines_are_counted(tmp_path):
    """A file of rubbish does not make a report of rubbish."""
    with new(tmp_path / "e") as folder:
        (tmp_path / "e/journal.jsonl").write_bytes(b"x\n" * 1000)
        found = folder.load()

    assert len(found.problems) == 21
    assert found.problems[-1] == "journal.jsonl: 980 more broken"


def test_create__the_same_plan_continues(tmp_path):
    """What was kept is there, and more can be kept."""
    with new(tmp_path / "e") as folder:
        folder.keep(*answers()[0])
    with new(tmp_path / "e") as folder:
        folder.keep(*answers()[1])

        assert len(folder.load().seen["trajectory"]) == 2


def test_create__a_sealed_folder_continues(tmp_path):
    """A relaunch is added to a capture; until the new seal there is no root."""
    root = capture(tmp_path / "e")
    with new(tmp_path / "e") as folder:
        assert folder.load().root == root
        folder.keep("score", observation("p-2", TokenIds((9,)), arm=Arm.REPEAT, launch=2))
        between = folder.load()
        newer = folder.seal(report())

        assert between.root == ""
        assert between.problems == ()
        assert len(between.seen["score"]) == 3
        assert folder.load().root == newer != root
        assert folder.load().problems == ()


def test_create__another_plan_is_refused_and_named(tmp_path):
    """What differs is named; nothing is touched."""
    with new(tmp_path / "e") as folder:
        fill(folder)
    before = files(tmp_path / "e")
    other = plan(limit=0.03)
    stage = dataclasses.replace(other.stages[0], params={**other.stages[0].params, "max_tokens": 8})
    other = dataclasses.replace(other, stages=(stage, other.stages[1]), suite="nightly")

    with pytest.raises(EvidenceError) as caught:
        Folder.create_or_continue(tmp_path / "e", other, prompts(), None)

    assert "another plan; different: suite, score.margins, trajectory.params.max_tokens" in str(
        caught.value
    )
    assert "use another folder" in caught.value.next_step
    assert files(tmp_path / "e") == before


def test_create__other_stages_or_another_order_are_named(tmp_path):
    """Stages that come, go or change places."""
    new(tmp_path / "e").close()
    one, two = plan().stages
    for stages, said in [
        ((one,), "stage score is only in the kept plan"),
        ((two, one), "the order of the stages"),
    ]:
        with pytest.raises(EvidenceError, match=said):
            Folder.create_or_continue(
                tmp_path / "e", dataclasses.replace(plan(), stages=stages), prompts(), None
            )
    (tmp_path / "e/plan.json").write_bytes(b"rubbish")
    with pytest.raises(EvidenceError, match="it is no plan"):
        new(tmp_path / "e")


def test_create__other_prompts_are_refused(tmp_path):
    """The prompts are those of the plan, and the file that lies there is never overwritten."""
    with pytest.raises(EvidenceError, match="not those that the plan was made for"):
        Folder.create_or_continue(tmp_path / "e", plan(), prompts(("p-9",)), None)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/prompts.jsonl").write_bytes(b"my own")
    with pytest.raises(EvidenceError, match="holds other prompts"):
        new(tmp_path / "mine")

    assert (tmp_path / "mine/prompts.jsonl").read_bytes() == b"my own"


def test_create__packed_prompts_are_stored_unpacked(tmp_path):
    """The stored file hashes to what the plan says."""
    packed = gzip.compress(prompts())
    with Folder.create_or_continue(tmp_path / "e", plan(), packed, None) as folder:
        assert folder.prompts_bytes() == prompts()
        assert tuple(folder.load().prompts) == UNITS
    with pytest.raises(EvidenceError, match="broken gzip"):
        Folder.create_or_continue(tmp_path / "f", plan(), packed[:20], None)


def test_create__a_folder_of_other_files_is_refused(tmp_path):
    """Evidence is never mixed with what is not ours."""
    (tmp_path / "e").mkdir()
    (tmp_path / "e/thesis.tex").write_text("x")

    with pytest.raises(EvidenceError, match=r"holds other files, as thesis\.tex"):
        new(tmp_path / "e")
    assert [p.name for p in (tmp_path / "e").iterdir() if p.name != ".lock"] == ["thesis.tex"]


def test_create__a_second_writer_is_refused(tmp_path):
    """In this process and in another one; the first goes on, and then it is free again."""
    code = (
        "import sys; sys.path.insert(0, 'tests'); from pathlib import Path\n"
        "from evidence_factory import plan, prompts\n"
        "from iqaction.evidence.store import Folder\n"
        "from iqaction.errors import EvidenceError\n"
        "try: Folder.create_or_continue(Path(sys.argv[1]), plan(), prompts(), None)\n"
        "except EvidenceError as exc: print(exc)\n"
    )
    with new(tmp_path / "e") as folder:
        with pytest.raises(EvidenceError, match=f"process {os.getpid()} writes there"):
            new(tmp_path / "e")
        with pytest.raises(EvidenceError, match="is in use"):
            Folder.open_for_writing(tmp_path / "e")
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "e")],
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        folder.keep(*answers()[0])
    with new(tmp_path / "e") as folder:
        folder.keep(*answers()[1])

    assert f"is in use: process {os.getpid()} writes there" in done.stdout
    assert "next:" in done.stdout


def test_create__a_path_that_cannot_be_a_folder(tmp_path):
    """A file in the way, a folder that the system does not allow: one clear error each."""
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file/e", Path("/proc/e"), Path("/sys/e")):
        with pytest.raises(EvidenceError) as caught:
            new(path)

        assert "cannot make the evidence folder" in str(caught.value)
        assert caught.value.next_step


@pytest.fixture
def unprivileged():
    """A folder under a path that anyone may enter, and no right to write all over."""
    outer = Path(tempfile.mkdtemp(prefix="iq-"))
    outer.chmod(0o755)
    is_root = os.geteuid() == 0

    def drop() -> None:
        if is_root:
            os.seteuid(65534)

    yield outer, drop
    if is_root:
        os.seteuid(0)
    subprocess.run(["chmod", "-R", "u+w", str(outer)], check=True)
    subprocess.run(["rm", "-rf", str(outer)], check=True)


def test_create__a_read_only_folder(unprivileged):
    """One clear error, before anything is asked; reading, verifying and judging still work."""
    outer, drop = unprivileged
    capture(outer / "e")
    for path in (outer / "e", *(outer / "e").rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    drop()

    with pytest.raises(EvidenceError, match="Permission denied") as caught:
        new(outer / "e")
    with pytest.raises(EvidenceError, match="Permission denied"):
        Folder.open_for_writing(outer / "e")

    assert "choose another folder" in caught.value.next_step
    assert Folder.open(outer / "e").load().problems == ()


def test_keep__a_folder_that_becomes_read_only(unprivileged):
    """What was kept stays, and the error says what to do."""
    outer, drop = unprivileged
    with new(outer / "e") as folder:
        fill(folder)
        kept = seen(folder)
        (outer / "e").chmod(0o555)
        drop()
        with pytest.raises(EvidenceError, match="Permission denied"):
            folder.seal(report())

        assert seen(folder) == kept


def test_seal__a_folder_that_vanishes(tmp_path):
    """Not a traceback."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        (tmp_path / "e").rename(tmp_path / "f")
        with pytest.raises(EvidenceError):
            folder.seal(report())
        with pytest.raises(EvidenceError):
            folder.load()


def test_open__what_is_no_folder(tmp_path):
    """What happened, what was expected, what to do next."""
    for path, said in [(tmp_path / "no", "it is not there"), (tmp_path, "it holds no plan.json")]:
        with pytest.raises(EvidenceError, match=said) as caught:
            Folder.open(path)

        assert caught.value.expected
        assert caught.value.next_step == "check the path"


def test_open__is_for_reading(tmp_path):
    """Nothing can be kept, sealed or rendered."""
    capture(tmp_path / "e")
    with Folder.open(tmp_path / "e") as folder:
        for act in (
            lambda: folder.keep(*answers()[0]),
            lambda: folder.keep_concurrency(Arm.CANDIDATE, 0, 1, "plan"),
            lambda: folder.seal(report()),
            lambda: folder.write_rendered({"comment.md": "x"}),
        ):
            with pytest.raises(EvidenceError, match="open for reading"):
                act()


def test_open_for_writing__judges_again(tmp_path):
    """Another report gives another root and other records; the evidence stays."""
    root = capture(tmp_path / "e")
    before = files(tmp_path / "e")
    with Folder.open_for_writing(tmp_path / "e") as folder:
        other = folder.seal(report(Verdict.FAIL))
        found = folder.report()
    after = files(tmp_path / "e")

    assert found == (report(Verdict.FAIL), other)
    assert other != root
    changed = {n for n in {*before, *after} if before.get(n) != after.get(n)}
    assert {n.split("/")[0] for n in changed} == {"records", "report.json", "manifest.json"}
    assert len(after) == len(before)


def test_report__before_it_was_judged(tmp_path):
    """Says which command judges."""
    with new(tmp_path / "e") as folder, pytest.raises(EvidenceError) as caught:
        folder.report()

    assert "iqaction judge" in caught.value.next_step


def test_write_rendered__only_known_names(tmp_path):
    """Text and bytes; a name that is none of ours is refused, and leads nowhere."""
    with new(tmp_path / "e") as folder:
        folder.write_rendered({"comment.md": "é\n", "report.html": b"<p>"})
        for name in ("manifest.json", "../x", "plan.json", "other.md"):
            with pytest.raises(EvidenceError, match="not a rendered file"):
                folder.write_rendered({name: "x"})

    assert (tmp_path / "e/comment.md").read_text("utf-8") == "é\n"
    assert (tmp_path / "e/report.html").read_bytes() == b"<p>"


def test_baseline__is_copied_byte_by_byte(tmp_path, base):
    """Plan, prompts, observations and manifest; the comparison then needs nothing else."""
    path, root = base
    compare(tmp_path / "c", path, root)
    original, copy = files(path), files(tmp_path / "c/baseline")
    found = Folder.open(tmp_path / "c").load()

    assert copy == {n: original[n] for n in copy}
    assert set(original) - set(copy) == {
        n for n in original if n.startswith("records/") or n == "report.json"
    }
    assert found.problems == found.baseline.problems == ()
    assert found.baseline.root == found.plan.baseline_root == root
    assert (Arm.BASELINE, 0) in found.baseline.engines


def test_baseline__continuing_needs_it_no_more(tmp_path, base):
    """The copy is enough."""
    path, root = base
    compare(tmp_path / "c", path, root)
    with Folder.create_or_continue(tmp_path / "c", plan(root), prompts(), None) as folder:
        assert folder.load().baseline.root == root


def test_baseline__must_be_the_plans(tmp_path, base):
    """Another one, none, one that is not sealed, one that still grows: refused before a request."""
    path, root = base
    new(tmp_path / "unsealed").close()
    for other, given, said in [
        (plan("a" * 64), path, f"evidence root is {root}"),
        (plan(root), None, "none was given"),
        (plan(root), tmp_path / "nowhere", "is no sealed baseline"),
        (plan(root), tmp_path / "unsealed", "is no sealed baseline"),
    ]:
        with pytest.raises(EvidenceError, match=said):
            Folder.create_or_continue(tmp_path / "c", other, prompts(), given)
    with new(path) as folder:
        folder.keep("score", observation("p-2", TokenIds((1,))))
    with pytest.raises(EvidenceError, match="is not finished"):
        Folder.create_or_continue(tmp_path / "c", plan(root), prompts(), path)

    assert not (tmp_path / "c/plan.json").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("observations/score.jsonl.gz", "sha256 differs"),
        ("prompts.jsonl", "not the prompt file"),
        ("plan.json", "sha256 differs"),
    ],
)
def test_baseline__damage_is_copied_and_named(tmp_path, base, name, said):
    """An edited baseline is judged as one: the report is to name what was edited."""
    path, root = base
    data = bytearray((path / name).read_bytes())
    at = 9 if name.endswith("gz") else data.index(b"0.02" if name == "plan.json" else b"say") + 3
    data[at] ^= 3
    (path / name).write_bytes(data)
    with Folder.create_or_continue(tmp_path / "c", plan(root), prompts(), path) as folder:
        found = folder.load()

    assert any(p.startswith(f"baseline/{name}: ") and said in p for p in found.baseline.problems)


def test_baseline__a_missing_file_is_named(tmp_path, base):
    """What the manifest lists and is not there."""
    path, root = base
    (path / "observations/score.jsonl.gz").unlink()
    with Folder.create_or_continue(tmp_path / "c", plan(root), prompts(), path) as folder:
        found = folder.load()

    assert found.baseline.problems == ("baseline/observations/score.jsonl.gz: missing",)


def test_baseline__links_in_it_are_refused(tmp_path, base):
    """A baseline from a pull request cannot make us copy another file in."""
    path, root = base
    (path / "prompts.jsonl").unlink()
    (path / "prompts.jsonl").symlink_to("/etc/hostname")

    with pytest.raises(EvidenceError, match="cannot read prompts"):
        Folder.create_or_continue(tmp_path / "c", plan(root), prompts(), path)


def test_baseline__an_interrupted_copy_is_done_again(tmp_path, base):
    """A copy is there whole or not at all; what was left of another does not get in."""
    path, root = base
    stale = tmp_path / "c/.staged-baseline/observations"
    stale.mkdir(parents=True)
    (stale / "old.jsonl.gz").write_bytes(b"x")
    compare(tmp_path / "c", path, root)

    assert not (tmp_path / "c/baseline/observations/old.jsonl.gz").exists()
    assert Folder.open(tmp_path / "c").load().baseline.problems == ()


def test_load_baseline__wants_a_sealed_capture(tmp_path, base):
    """An unfinished one and a comparison are no baseline."""
    path, root = base
    compare(tmp_path / "c", path, root)
    new(tmp_path / "unsealed").close()

    assert load_baseline(path).root == root
    with pytest.raises(EvidenceError, match="no finished baseline"):
        load_baseline(tmp_path / "unsealed")
    with pytest.raises(EvidenceError, match="itself compared"):
        load_baseline(tmp_path / "c")
    with pytest.raises(EvidenceError, match="it is not there"):
        load_baseline(tmp_path / "nowhere")


def test_load__prompts_that_are_not_the_plans(tmp_path):
    """An edited or shortened prompt file is a problem, and lost prompts are counted."""
    with new(tmp_path / "e") as folder:
        (tmp_path / "e/prompts.jsonl").write_bytes(prompts(("p-0", "p-9")))
        found = folder.load()

    assert tuple(found.prompts) == ("p-0",)
    assert found.problems == (
        "prompts.jsonl: not the prompt file that the plan was made for",
        "prompts.jsonl: 2 prompts of the plan are missing, as p-1",
    )


@pytest.mark.parametrize("rubbish", [b"", b"{", b"\xff", b'{"id": "a"}\n'])
def test_load__prompts_that_are_none(tmp_path, rubbish):
    """A prompt file that cannot be read is a problem and no prompt."""
    with new(tmp_path / "e") as folder:
        (tmp_path / "e/prompts.jsonl").write_bytes(rubbish)
        found = folder.load()

    assert found.prompts == {}
    assert len(found.problems) == 1


@pytest.mark.parametrize("rubbish", [b"", b"{}", b"[]", b"\xff", b'{"stages": NaN}'])
def test_load__a_plan_that_is_none_is_an_error(tmp_path, rubbish):
    """Without a plan nothing can be judged."""
    new(tmp_path / "e").close()
    (tmp_path / "e/plan.json").write_bytes(rubbish)

    with pytest.raises(EvidenceError, match=r"plan\.json"):
        Folder.open(tmp_path / "e").load()


def test_load__a_plan_in_other_words_is_a_problem(tmp_path):
    """The plan is its bytes: the hash in every record is of them."""
    new(tmp_path / "e").close()
    body = json.loads((tmp_path / "e/plan.json").read_bytes())
    (tmp_path / "e/plan.json").write_text(json.dumps(body))

    found = Folder.open(tmp_path / "e").load()

    assert found.plan == plan()
    assert found.problems == ("plan.json: not the bytes that its own fields give",)


def test_load__observations_where_none_belong(tmp_path):
    """A stage that the plan does not have, and lines of one stage in another's file."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        folder.seal(report())
    where = tmp_path / "e/observations"
    (where / "gsm8k.jsonl.gz").write_bytes((where / "score.jsonl.gz").read_bytes())
    (where / "score.jsonl.gz").write_bytes((where / "trajectory.jsonl.gz").read_bytes())
    found = Folder.open(tmp_path / "e").load()

    assert "observations/gsm8k.jsonl.gz: does not belong in this evidence" in found.problems
    assert "observations/score.jsonl.gz:1: belongs to stage trajectory" in found.problems
    assert set(found.seen) == {"trajectory"}


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d[:-20],
        lambda d: d[: len(d) // 2],
        lambda d: b"",
        lambda d: b"rubbish",
        lambda d: d + b"tail",
        lambda d: d[:100] + bytes([d[100] ^ 255]) + d[101:],
    ],
)
def test_load__a_broken_packed_file_is_a_problem(tmp_path, change):
    """Cut, empty, other, longer, altered: named, and no traceback."""
    capture(tmp_path / "e")
    path = tmp_path / "e/observations/score.jsonl.gz"
    path.write_bytes(change(path.read_bytes()))
    found = Folder.open(tmp_path / "e").load()

    assert "observations/score.jsonl.gz: sha256 differs from the manifest" in found.problems


def test_load__links_inside_are_problems(tmp_path):
    """A link is never followed, wherever it points."""
    capture(tmp_path / "e")
    path = tmp_path / "e/observations/score.jsonl.gz"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    found = Folder.open(tmp_path / "e").load()

    assert "score" not in found.seen
    assert any("score.jsonl.gz" in p for p in found.problems)


def test_load__neither_manifest_nor_journal_is_a_problem(tmp_path):
    """Taking the manifest away does not make sealed evidence unsealed."""
    capture(tmp_path / "e")
    (tmp_path / "e/manifest.json").unlink()
    found = Folder.open(tmp_path / "e").load()

    assert found.problems == ("manifest.json: missing, and there is no journal either",)
    assert found.root == ""


def test_load__a_journal_beside_a_seal_takes_its_root(tmp_path):
    """Whoever adds an answer to sealed evidence does not keep the root of the seal."""
    root = capture(tmp_path / "e")
    line = observation_to_json("score", observation("p-0", TokenIds((1,))), "2026-01-01T00:00:00Z")
    (tmp_path / "e/journal.jsonl").write_text("")
    empty = Folder.open(tmp_path / "e").load()
    (tmp_path / "e/journal.jsonl").write_text(json.dumps(line) + "\n")
    found = Folder.open(tmp_path / "e").load()

    assert (empty.root, found.root) == (root, "")


def test_folder__holds_no_address_with_a_key(tmp_path):
    """An engine whose address carries a key is refused before anything is written."""
    with new(tmp_path / "e") as folder:
        fill(folder)
        with pytest.raises(EvidenceError):
            folder.keep_engine(
                Arm.REFERENCE, 0, dataclasses.replace(ENGINE, base_url="http://u:sk-1@h/v1")
            )
        folder.seal(report())

    assert all(b"sk-1" not in data for data in files(tmp_path / "e").values())


def test_folder__judging_needs_nothing_outside(tmp_path, base):
    """A folder that was moved loads as before."""
    path, root = base
    compare(tmp_path / "c", path, root)
    before = Folder.open(tmp_path / "c").load()
    (tmp_path / "c").rename(tmp_path / "d")
    (tmp_path / "base").rename(tmp_path / "gone")
    after = Folder.open(tmp_path / "d").load()

    assert after.root == before.root
    assert after.problems == before.problems == ()
    assert hashlib.sha256(prompts()).hexdigest() == after.plan.prompts_sha256
    assert isinstance(
        after.seen["trajectory"][Tag(Arm.CANDIDATE, "trajectory", "p-0")].answer, Generation
    )
    assert judged(after.plan).plan_sha256 == after.plan.sha256
