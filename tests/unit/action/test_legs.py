"""What other jobs measured, as one: the worst counts, what is missing is red, nothing is believed
that can be judged."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import report_factory as made_reports
from hypothesis import given
from hypothesis import strategies as st
from unit.action.desk import Desk
from unit.action.evidence import RUN, WORLD, Evidence
from world import World, noisy

from iqaction.action import legs, reports
from iqaction.circumstances import Circumstances
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence import report_json
from iqaction.report import Acceptance, Difference, Report
from iqaction.session import Outcome
from iqaction.verdict import Verdict

PASS, FAIL, UNPROVEN, NOT_RUN = Verdict
SMALL = World(units=8, length=6)
BROKEN = noisy(0.8)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """A world that is large enough for a PASS, with legs that several tests copy."""
    return Evidence(tmp_path_factory.mktemp("legs"))


@pytest.fixture(scope="module")
def shards(made: Evidence) -> list[Path]:
    return made.shards(4, made.home / "shards")


@pytest.fixture(scope="module")
def whole(made: Evidence) -> dict[str, Path]:
    """Suites that one job measured."""
    return {
        "good": made.leg("good", suite="good"),
        "fine": made.leg("fine", suite="fine"),
        "bad": made.leg("bad", BROKEN, suite="bad"),
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(tmp_path_factory.mktemp("small"), SMALL)


class Case:
    """A folder of artifacts, and the job that judges it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.artifacts = home / "artifacts"
        self.artifacts.mkdir()
        self.jobs: list[Desk] = []

    def put(self, folder: Path, name: str = "") -> Path:
        """As download-artifact puts it there."""
        place = self.artifacts / (name or folder.name)
        shutil.copytree(folder, place)
        return place

    def refused(self, name: str, said: str, **more: object) -> Path:
        """A leg that was refused: a report, and no evidence."""
        place = self.artifacts / name
        report = Report(NOT_RUN, (), said, gate=NOT_RUN, problems=(said,), run=RUN, **more)  # type: ignore[arg-type]
        reports.write(place, report)
        return place

    def desk(self, circumstances: Circumstances | None = None, **inputs: str) -> Desk:
        wanted = {"mode": "report", "artifacts_path": str(self.artifacts), "suite": "default"}
        wanted |= inputs
        desk = Desk(self.home / f"job {len(self.jobs)}", inputs=wanted)
        self.jobs.append(desk)
        return desk.decided(circumstances=circumstances or Circumstances(desk.run))

    def judged(self, circumstances: Circumstances | None = None, **inputs: str) -> Outcome:
        desk = self.desk(circumstances, **inputs)
        return legs.judged(desk.job, desk.job.settings(), desk.decision)

    def gate(self, circumstances: Circumstances | None = None, **inputs: str) -> int:
        """The exit status of the whole job."""
        desk = self.desk(circumstances, **inputs)
        desk.step("observe")
        assert "Traceback" not in desk.log
        return desk.step("gate")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


# --- shards ---------------------------------------------------------------------------------


def test_shards__as_one(case, shards):
    """All shards are judged as one machine's evidence, under the run that judges."""
    for folder in shards:
        case.put(folder)

    outcome = case.judged()

    assert outcome.report.gate is PASS
    assert (outcome.complete, outcome.problem) == (True, "")
    assert outcome.report.run.run_id == "50"
    assert set(outcome.report.stages[0].coverage.missing) == set()


@pytest.mark.parametrize(("lost", "warn"), [(0, "fail"), (3, "warn")])
def test_shards__one_is_missing(case, shards, lost, warn):
    """It is named, its prompts are missing, and nobody's leave makes it green."""
    for folder in [f for i, f in enumerate(shards) if i != lost]:
        case.put(folder)

    assert case.gate(on_unproven=warn) == 2
    report = reports.stored(case.jobs[-1].work.evidence)
    assert report.gate is UNPROVEN
    assert f"shard {lost + 1} of 4 is missing" in report.problems[0]
    assert set(WORLD.names[lost::4]) == set(report.stages[0].coverage.missing)


def test_shards__one_alone(case, shards):
    """A single artifact is unpacked without a folder of its own: still one of four."""
    shutil.rmtree(case.artifacts)
    shutil.copytree(shards[1], case.artifacts)

    outcome = case.judged()

    assert outcome.report.gate is not PASS
    assert "shard 1, 3, 4 of 4 is missing" in outcome.problem


@pytest.mark.parametrize("change", ["count", "twice"])
def test_shards__that_do_not_belong_together(case, small, change):
    """Halves and thirds, and one shard under two names, are no whole."""
    case.put(small.leg(f"a-{change}", shard=1, shards_=2), "inferquality-x-1-of-2-1")
    if change == "count":
        case.put(small.leg("b-count", shard=2, shards_=3), "inferquality-x-2-of-2-1")
    else:
        case.put(small.home / f"a-{change}", "inferquality-x-2-of-2-1")

    with pytest.raises(EvidenceError, match=r"of 2, 3 parts|was asked both in"):
        case.judged(suite="x")

    assert case.gate() == 3


def test_shards__a_damaged_one(case, small):
    """A leg whose evidence was altered makes the job red, and says which."""
    for n in (1, 2):
        folder = case.put(
            small.leg(f"d-{n}", shard=n, shards_=2), f"inferquality-default-{n}-of-2-1"
        )
    (folder / "observations/score.jsonl.gz").write_bytes(b"x")

    with pytest.raises(EvidenceError, match="inferquality-default-2-of-2-1"):
        case.judged()


def test_shards__the_newest_attempt_counts(case, shards, made):
    """Of a leg that was run again, what it found first is no longer asked."""
    for folder in shards:
        case.put(folder)
    bad = made.leg("again", BROKEN, shard=2, shards_=4)
    case.put(bad, "inferquality-default-2-of-4-2")
    case.put(bad, "inferquality-default-2-of-4-10")

    found = {leg.name: leg.attempt for leg in legs.newest(case.artifacts)}

    assert found == {f"inferquality-default-{n}-of-4": (10 if n == 2 else 1) for n in (1, 2, 3, 4)}
    assert case.judged().report.gate is not PASS


def test_shards__one_was_refused(case, small):
    """A leg that never started says why, and the others do not make up for it."""
    case.put(small.leg("r-1", shard=1, shards_=2), "inferquality-default-1-of-2-1")
    case.refused("inferquality-default-2-of-2-1", "the pull request comes from a fork")

    outcome = case.judged()

    assert outcome.report.gate is NOT_RUN
    assert "comes from a fork" in str(outcome.report.problems)
    assert case.gate(on_unproven="warn") == 3


def test_shards__a_problem_of_one_leg(case, small):
    """Where one endpoint did not start, nothing passes, and its reason is kept."""
    case.put(small.leg("p-1", shard=1, shards_=2), "inferquality-default-1-of-2-1")
    around = Circumstances(RUN, problem="the endpoint did not start: no GPU")
    leg = small.leg("p-2", shard=2, shards_=2, circumstances=around, lost=lambda tag: True)
    case.put(leg, "inferquality-default-2-of-2-1")

    outcome = case.judged()

    assert outcome.report.gate is not PASS
    assert not outcome.complete
    assert "no GPU" in outcome.report.problems[0]


def test_shards__what_one_could_not_compare(case, small):
    """A difference that one leg saw caps the whole."""
    difference = Difference("plan", "plan.yml", "-a\n+b")
    for n in (1, 2):
        around = Circumstances(RUN, differences=(difference,) if n == 2 else ())
        leg = small.leg(f"c-{n}", shard=n, shards_=2, circumstances=around)
        case.put(leg, f"inferquality-default-{n}-of-2-1")

    assert case.judged().report.differences == (difference,)


# --- of which run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"head_sha": "d" * 40}, {"tested_sha": "d" * 40}, {"repository": "a/b"}, {"head_sha": ""}],
    ids=lambda c: next(iter(c)),
)
@pytest.mark.parametrize("kind", ["shard", "whole", "refused"])
def test_legs__of_another_commit(case, small, change, kind):
    """What an earlier job left in the folder does not stand in for a leg that is missing."""
    run = replace(RUN, **change)
    name = f"o-{kind}-{'-'.join(f'{k}{v[:1]}' for k, v in change.items()).replace('/', '')}"
    if kind == "refused":
        place = case.refused("inferquality-default-1", "why")
        reports.write(place, replace(reports.stored(place), run=run))
    else:
        parts = 2 if kind == "shard" else 0
        for n in range(1, max(parts, 1) + 1):
            around = Circumstances(run if n == max(parts, 1) else RUN)
            leg = small.leg(
                f"{name}-{n}", shard=n if parts else 0, shards_=parts, circumstances=around
            )
            case.put(leg, f"inferquality-default{f'-{n}-of-2' if parts else ''}-1")

    assert case.gate(legs="" if kind == "shard" else "inferquality-default") == 3


def test_legs__of_an_earlier_attempt(case, shards):
    """A leg that is not run again counts as it was: it is of the same commit."""
    for folder in shards:
        case.put(folder)
    run = replace(RUN, attempt=2, run_id="51")

    assert case.judged(Circumstances(run)).report.gate is PASS


# --- suites ---------------------------------------------------------------------------------

NAMES = "inferquality-good fine"


def test_suites__all_good(case, whole):
    """Several suites are one report, each stage with its leg's name."""
    for name in ("good", "fine"):
        case.put(whole[name], f"inferquality-{name}-1")

    outcome = case.judged(legs=NAMES)

    assert (outcome.report.verdict, outcome.report.gate) == (PASS, PASS)
    assert outcome.complete
    assert {s.leg for s in outcome.report.stages} == {"good", "fine"}
    assert reports.stored(outcome.folder).gate is PASS
    assert case.gate(legs=NAMES) == 0


def test_suites__the_worst_counts(case, whole):
    """One FAIL is a FAIL, however many are good, and it is named."""
    for name in ("good", "fine", "bad"):
        case.put(whole[name], f"inferquality-{name}-1")

    report = case.judged(legs=f"{NAMES} bad").report

    assert (report.verdict, report.gate) == (FAIL, FAIL)
    assert "bad" in report.headline
    assert case.gate(legs=f"{NAMES} bad") == 1


@pytest.mark.parametrize("warn", ["fail", "warn"])
def test_suites__a_missing_leg(case, whole, warn):
    """A leg that is expected and not there is named and never green."""
    case.put(whole["good"], "inferquality-good-1")

    status = case.gate(legs=NAMES, on_unproven=warn)

    report = reports.stored(case.jobs[-1].work.evidence)
    assert status == 2
    assert report.gate is UNPROVEN
    assert "the leg fine is missing" in report.problems
    assert "the leg fine is missing" in report.headline


def test_suites__none_is_named(case, whole):
    """Of legs that are no shards, one that left nothing would not be missed."""
    case.put(whole["good"], "inferquality-good-1")

    assert case.gate(on_unproven="warn", suite="good") == 2


def test_suites__another_one_is_there(case, shards):
    """What lies there of another suite does not stand in for the one that is asked about."""
    for folder in shards:
        case.put(folder)

    assert case.gate(suite="lost") == 3


def test_suites__a_refused_one(case, whole):
    """A good suite does not make up for one that never ran."""
    case.put(whole["good"], "inferquality-good-1")
    case.refused("inferquality-fine-1", "fine was refused", suite="fine")

    outcome = case.judged(legs=NAMES)

    assert outcome.report.gate is not PASS
    assert any("fine: fine was refused" in p for p in outcome.report.problems)
    assert case.gate(legs=NAMES, on_unproven="warn") == 2


@pytest.mark.parametrize("warn", ["fail", "warn"])
def test_suites__nothing_at_all(case, warn):
    """No artifact is NOT RUN, whatever is expected."""
    assert case.judged().report.verdict is NOT_RUN
    assert case.gate(on_unproven=warn) == 3
    assert case.jobs[-1].outputs["verdict"] == "NOT RUN"


def test_suites__no_folder(case):
    """Without the folder nothing was downloaded: a mistake in the workflow."""
    case.artifacts.rmdir()

    with pytest.raises(ConfigError, match="is no folder"):
        case.judged()

    assert case.gate() == 4


def test_suites__shards_and_wholes(case, whole, shards):
    """A suite in shards beside one that is whole."""
    case.put(whole["good"], "inferquality-good-1")
    for folder in shards:
        case.put(folder)
    names = "good " + " ".join(f"default-{n}-of-4" for n in (1, 2, 3, 4))

    assert case.judged(legs=names).report.gate is PASS


def test_suites__a_leg_is_judged_and_not_believed(case, whole):
    """What a leg says of itself counts for nothing where there is evidence."""
    place = case.put(whole["bad"], "inferquality-good-1")
    said = replace(reports.stored(place), verdict=PASS, gate=PASS, stages=())
    (place / "report.json").write_bytes(report_json.to_bytes(said))

    assert case.judged(legs="good").report.gate is not PASS


def test_suites__an_agreement_of_its_own(case, made, whole):
    """What a maintainer agreed to is what this job has read, not what the leg says."""
    settings = reports.stored(whole["bad"]).settings_sha256
    checks = {
        f"{s.stage}:{c.metric}" for s in reports.stored(whole["bad"]).stages for c in s.checks
    }
    agreed = tuple(
        Acceptance("bad", c, "", settings, "2027-01-31", "why", "mallory") for c in sorted(checks)
    )
    forged = made.leg(
        "forged", BROKEN, suite="bad", circumstances=Circumstances(RUN, acceptances=agreed)
    )
    case.put(forged, "inferquality-bad-1")

    assert reports.stored(forged).gate is PASS
    assert case.judged(legs="bad").report.gate is FAIL
    report = case.judged(Circumstances(RUN, acceptances=agreed), legs="bad").report
    assert (report.verdict, report.gate) == (FAIL, PASS)


def test_newest__a_report_of_reports_is_no_leg(case, whole):
    """What an earlier attempt of this job uploaded is not judged with what it judged."""
    case.put(whole["bad"], "inferquality-default-report-1")

    assert legs.newest(case.artifacts) == []


# --- hostile folders ------------------------------------------------------------------------


def test_hostile__links(case, whole, tmp_path):
    """A link in an artifact is not followed: what it leads to would be uploaded."""
    secret = tmp_path / "secret"
    secret.write_text("canary")
    place = case.put(whole["good"], "inferquality-good-1")
    (place / "observations/link").symlink_to(secret)
    os.symlink(whole["good"], case.artifacts / "inferquality-fine-1")
    os.symlink(tmp_path, place / "folder")

    outcome = case.judged(legs=NAMES)

    assert outcome.report.gate is not PASS
    assert "the leg fine is missing" in outcome.report.problems
    text = [p.read_bytes() for p in outcome.folder.rglob("*") if p.is_file()]
    assert not any(b"canary" in t for t in text)


@pytest.mark.parametrize(
    "name",
    [
        "inferquality-..-1",
        "inferquality-.-1",
        "inferquality--1",
        "inferquality-a\n::error::x-1",
        "inferquality-[x](http://evil)-1",
        "inferquality-" + "x" * 200 + "-1",
        "inferquality-\x1b[2J-1",
        "..x",
    ],
)
def test_hostile__names(case, whole, name):
    """A folder's name leads nowhere and is shown nowhere as it is."""
    case.put(whole["good"], name)

    desk = case.desk()
    desk.step("observe")
    desk.step("gate")

    assert "\n::error::x" not in desk.log
    assert "\x1b" not in desk.log
    assert "](http://evil)" not in desk.summary
    evidence = desk.work.evidence
    assert {p.name for p in evidence.parent.iterdir()} == {
        "decision.json", "evidence", "inputs.json", "measured.json",
    }  # fmt: skip
    assert not (evidence / "plan.json").exists()
    assert reports.stored(evidence).gate is not PASS


BROKEN_REPORTS = {
    "empty": b"",
    "garbled": b"{",
    "green": b'{"verdict": "PASS", "gate": "PASS"}',
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("data", BROKEN_REPORTS.values(), ids=BROKEN_REPORTS)
def test_hostile__reports(case, data):
    """A leg without evidence whose report is none is red."""
    place = case.artifacts / "inferquality-good-1"
    place.mkdir()
    (place / "report.json").write_bytes(data)

    assert case.judged(legs="good").report.gate is NOT_RUN


def test_hostile__a_green_report_without_evidence(case):
    """A report that says PASS and proves nothing is a leg that did not run."""
    place = case.artifacts / "inferquality-good-1"
    reports.write(place, replace(made_reports.passed(), run=RUN, problems=()))

    assert case.judged(legs="good").report.gate is NOT_RUN


def test_hostile__a_huge_report(case):
    """What would fill the memory is not read."""
    place = case.artifacts / "inferquality-good-1"
    place.mkdir()
    with (place / "report.json").open("wb") as file:
        file.truncate(reports.MAX_REPORT + 1)

    report = case.judged(legs="good").report

    assert report.gate is NOT_RUN
    assert "larger than" in str(report.problems)


def test_hostile__a_pipe_is_no_report(case):
    """What would be waited for for ever is not opened."""
    place = case.artifacts / "inferquality-good-1"
    place.mkdir()
    os.mkfifo(place / "report.json")

    assert legs.newest(case.artifacts) == []


def test_hostile__artifacts_of_one_suite_that_are_no_shards(case, small):
    """Two wholes under one suite's name: nobody knows which is meant."""
    case.put(small.leg("t-1"), "inferquality-x-1-of-2-1")
    case.put(small.leg("t-2"), "inferquality-x-2-of-2-1")

    report = case.judged(legs="x-1-of-2 x-2-of-2").report

    assert report.gate is NOT_RUN
    assert "2 artifacts of one suite" in str(report.problems)


# --- combined -------------------------------------------------------------------------------

ANY = st.sampled_from(list(Verdict))


@given(st.lists(st.tuples(ANY, ANY), max_size=4), st.integers(0, 2))
def test_combined__green_only_where_all_are(each, missing):
    """Over all verdicts: the whole is green only where there is a leg, each is, and none lacks."""
    by_suite = {f"s{i}": Report(v, (), "h", gate=g) for i, (v, g) in enumerate(each)}
    lacking = [f"the leg {n} is missing" for n in range(missing)]

    report = legs.combined(by_suite, lacking, RUN, "default")

    green = bool(each) and not missing and all(g is PASS for _, g in each)
    assert (report.gate is PASS) == green
    assert (report.verdict is PASS) <= (bool(each) and not missing)
    assert (report.gate is FAIL) == any(g is FAIL for _, g in each)
    for said in lacking:
        assert said in report.problems


# --- another workflow's report --------------------------------------------------------------

HOSTILE = "</details><script>alert(1)</script> @everyone ![x](http://evil) `a` \x1b[2J"


def foreign(case: Case, report: Report) -> Report:
    reports.write(case.artifacts / "inferquality-x-1", report)
    return legs.foreign(case.artifacts, RUN)


def test_foreign__is_of_the_run_that_we_know(case):
    """Whose commit and which run it is, the artifact does not decide."""
    theirs = replace(RUN, repository="stranger/serve", head_sha="f" * 40, url="http://evil")
    said = replace(
        made_reports.passed(),
        run=theirs,
        baseline_run=replace(theirs, artifact_url="http://evil/zip"),
        offer="accept: everything",
    )

    report = foreign(case, said)

    assert report.run == RUN
    assert (report.baseline_run.url, report.baseline_run.artifact_url) == ("", "")
    assert report.offer == ""
    assert "its author's word" in report.caveats[0]


def test_foreign__texts_stay_data(case):
    """Hostile texts are shown as text in everything that is posted."""
    said = made_reports.failed_by_score()
    said = replace(said, headline=HOSTILE, problems=(HOSTILE,), suite="x", caveats=(HOSTILE,))
    inputs = {"mode": "publish", "artifacts_path": str(case.artifacts)}
    reports.write(case.artifacts / "inferquality-x-1", said)
    desk = Desk(case.home, inputs=inputs).decided()

    desk.step("observe")

    shown = desk.summary + (desk.work.evidence / "comment.md").read_text()
    assert "<script>" not in shown
    assert "![x](http://evil)" not in shown
    assert "\x1b" not in shown + desk.log


@pytest.mark.parametrize("count", [0, 2])
def test_foreign__one_report(case, count):
    """None and several are no result to post."""
    for n in range(count):
        reports.write(case.artifacts / f"inferquality-x{n}-1", made_reports.passed())

    with pytest.raises(EvidenceError, match=f"{count} reports"):
        legs.foreign(case.artifacts, RUN)


def test_foreign__a_report_that_is_none(case):
    """It is refused as a whole."""
    place = case.artifacts / "inferquality-x-1"
    place.mkdir()
    (place / "report.json").write_text(json.dumps({"verdict": "PASS"}))

    with pytest.raises(EvidenceError):
        legs.foreign(case.artifacts, RUN)
