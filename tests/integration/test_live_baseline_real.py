"""A baseline that is up beside the candidate, on two real llama.cpp servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from integration.captured import as_lines, demo_prompts, served
from integration.stand_in import CHAT, Ask, Said, StandIn

from iqaction import live_baseline, session
from iqaction.calls import Arm
from iqaction.demo_engine import LlamaServer
from iqaction.errors import ConfigError, EvidenceError
from iqaction.evidence.store import Folder
from iqaction.progress import Quiet
from iqaction.session import Outcome, RunOptions
from iqaction.verdict import Verdict

pytestmark = [pytest.mark.engine, pytest.mark.timeout(580)]

UNITS, TOKENS = 60, 4
PLAN = f"""\
suite: live
stages:
  - trajectory: {{prompts: prompts.jsonl, limit: {UNITS}, max_tokens: {TOKENS}, concurrency: 2}}
  - score: {{floor: FLOOR, legs: [reference]}}
"""


class Two:
    """Two servers that are up, each behind a proxy that counts, and runs that compare them."""

    def __init__(self, home: Path, baseline: StandIn, candidate: StandIn) -> None:
        self.home, self.baseline, self.candidate = home, baseline, candidate

    def options(self, name: str, floor: str = "single", units: int = UNITS) -> RunOptions:
        self.home.mkdir(exist_ok=True)
        (self.home / "prompts.jsonl").write_text(as_lines(demo_prompts(units)))
        plan = self.home / f"{name}.yml"
        plan.write_text(PLAN.replace("FLOOR", floor))
        return RunOptions(self.home / name, plan, self.candidate.url, baseline=self.baseline.url)

    def run(self, name: str, floor: str = "single", units: int = UNITS) -> Outcome:
        return live_baseline.run(self.options(name, floor, units), progress=Quiet())


@pytest.fixture(scope="module")
def servers(weights) -> Iterator[tuple[StandIn, StandIn, StandIn]]:
    """F16 twice, and Q4_0; what they were asked is asked again of nobody."""
    with (
        LlamaServer(served(weights("F16"))) as reference,
        LlamaServer(served(weights("Q4_0"))) as worse,
        StandIn(reference.url) as theirs,
        StandIn(reference.url) as same,
        StandIn(worse.url) as other,
    ):
        yield theirs, same, other


@pytest.fixture(scope="module")
def compared(servers, tmp_path_factory) -> dict[str, Outcome]:
    theirs, same, other = servers
    home = tmp_path_factory.mktemp("live")
    return {
        "same": Two(home, theirs, same).run("same"),
        "worse": Two(home, theirs, other).run("worse"),
    }


def test_run__verdicts(compared: dict[str, Outcome]) -> None:
    """The same model behind both PASSes; a Q4_0 of it does not, and fails on the reference leg."""
    assert compared["same"].report.verdict is Verdict.PASS, compared["same"].report.headline
    assert compared["worse"].report.verdict is Verdict.FAIL, compared["worse"].report.headline


def test_run__evidence(compared: dict[str, Outcome]) -> None:
    """The evidence is that of any comparison: whole, judged again to the same, with the baseline's
    copy in it; nothing is left beside it but the baseline."""
    folder = compared["same"].folder
    with Folder.open(folder) as opened:
        observed = opened.load()
    left = [p.name for p in folder.with_name("same.live").iterdir()]

    assert session.verify(folder).ok
    assert observed.baseline is not None
    assert observed.baseline.root == observed.plan.baseline_root
    assert observed.concurrency[Arm.CANDIDATE, 0] == (2, "baseline")
    assert left == ["baseline"]
    assert compared["same"].report.baseline_root == observed.plan.baseline_root


def test_run__without_restarts_nothing_passes(servers, tmp_path: Path) -> None:
    """Unless the plan goes without a floor: launches that are none cannot say what a restart
    changes."""
    theirs, same, _ = servers
    outcome = Two(tmp_path / "x", theirs, same).run("floor", floor="launches", units=6)

    assert outcome.report.verdict is Verdict.UNPROVEN
    assert "restart" in " ".join((*outcome.report.problems, *outcome.report.caveats))


def test_run__continued(servers, tmp_path: Path) -> None:
    """Stopped while both are asked, and run again: nothing is asked twice of either."""
    theirs, same, _ = servers
    two = Two(tmp_path / "x", theirs, same)
    before = theirs.count(CHAT), same.count(CHAT)
    with pytest.raises(KeyboardInterrupt):
        live_baseline.run(two.options("stopped", units=8), progress=StopsAfter(5))
    two.run("stopped", units=8)
    asked = theirs.count(CHAT) - before[0], same.count(CHAT) - before[1]

    assert max(asked) <= 8 + 2 * 2  # what was in flight when it stopped is asked once more
    assert min(asked) >= 8


def test_run__candidate_dies(servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that stops answering while both are asked leaves a report that says so; the same
    command goes on, and compares."""
    monkeypatch.setattr("iqaction.http.wait", lambda reply, tried: 0.0)
    theirs, same, _ = servers
    left = [10]

    def hear(ask: Ask) -> Ask | Said:
        left[0] -= ask.path == CHAT
        return ask if left[0] > 0 else Said(503, b"{}")

    with StandIn(same.url, hear=hear) as dying:
        two = Two(tmp_path / "x", theirs, dying)
        stopped = two.run("dies", units=30)
        whole = session.verify(stopped.folder).ok
        left[0] = 10_000
        went_on = two.run("dies", units=30)

    assert (stopped.complete, stopped.report.verdict) == (False, Verdict.NOT_RUN)
    assert "the endpoint stopped answering" in stopped.report.problems[0]
    assert whole
    assert went_on.complete
    assert went_on.report.problems == ()
    assert [s.coverage.observed for s in went_on.report.stages] == [30, 30]


def test_run__other_servers(servers, tmp_path: Path) -> None:
    """A run that was stopped goes on with the servers it was begun with, and no others."""
    theirs, same, other = servers
    options = Two(tmp_path / "x", theirs, same).options("stopped", units=8)
    with pytest.raises(KeyboardInterrupt):
        live_baseline.run(options, progress=StopsAfter(5))

    for change in ({"baseline": other.url}, {"endpoint": other.url}):
        with pytest.raises(EvidenceError, match="is another address"):
            live_baseline.run(replace(options, **change), progress=Quiet())


def test_run__again(servers, compared: dict[str, Outcome]) -> None:
    """A run that came to its end says the same again, and asks nobody anything."""
    theirs, same, _ = servers
    folder = compared["same"].folder
    before = theirs.count(CHAT) + same.count(CHAT)
    again = Two(folder.parent, theirs, same).run("same")

    assert (again.root, again.report.verdict) == (compared["same"].root, Verdict.PASS)
    assert before == theirs.count(CHAT) + same.count(CHAT)


def test_run__without_score(servers, tmp_path: Path) -> None:
    """A plan of texts alone needs no floor, and is compared."""
    theirs, same, _ = servers
    options = Two(tmp_path / "x", theirs, same).options("texts", units=6)
    assert options.plan is not None
    lines = options.plan.read_text().splitlines()
    options.plan.write_text("\n".join(x for x in lines if "score" not in x) + "\n")
    report = live_baseline.run(options, progress=Quiet()).report

    assert report.verdict is Verdict.UNPROVEN  # six prompts
    assert [s.stage for s in report.stages] == ["trajectory"]
    assert report.problems == ()


class StopsAfter(Quiet):
    """A Ctrl-C after so many answers."""

    def __init__(self, answers: int) -> None:
        self.left = answers

    def step(self, n: int = 1, failed: int = 0) -> None:
        self.left -= n
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"endpoint": "BASELINE"}, "is the endpoint that is to be compared"),
        ({"baseline_sha256": "0" * 64}, "baseline_sha256"),
    ],
)
def test_run__impossible(servers, tmp_path: Path, change: dict[str, str], said: str) -> None:
    """What cannot be meant with a live baseline is told before anybody is asked."""
    theirs, same, _ = servers
    options = Two(tmp_path / "x", theirs, same).options("no", units=6)
    given = {k: v.replace("BASELINE", theirs.url) for k, v in change.items()}

    with pytest.raises(ConfigError, match=said):
        live_baseline.run(RunOptions(**{**vars(options), **given}), progress=Quiet())
    assert not (tmp_path / "x" / "no.live").exists()
