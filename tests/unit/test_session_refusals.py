"""What is refused before anybody is asked, and what a folder must not mix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fake_engine import FakeEngine, captured, compared
from world import ENGINE, World

from iqaction import connecting, harness, session
from iqaction.calls import Arm
from iqaction.errors import ConfigError, EvidenceError
from iqaction.observed import Observed
from iqaction.plan import Plan, StageSpec
from iqaction.progress import Quiet
from iqaction.session import RunOptions

WORLD = World(units=4, length=4)


def capture() -> Observed:
    return captured(WORLD, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "9"}, "version was '1.0', now '9'"),
        ({"model": "other"}, "model was 'm', now 'other'"),
        ({"details": {"root": "org/m-awq"}}, "root was '', now 'org/m-awq'"),
    ],
)
def test_same_engine__continued(change: dict[str, object], said: str) -> None:
    """A folder is not continued on another engine, whatever of its identity tells them apart."""
    now = replace(ENGINE, **{"version": "1.0", **change})  # type: ignore[arg-type]

    with pytest.raises(EvidenceError, match="this folder was observed on another engine") as caught:
        connecting.same_engine(capture(), Arm.BASELINE, 0, now)

    assert said in str(caught.value)


def test_same_engine__relaunch() -> None:
    """A relaunch must be of the reference's engine, or another engine's noise is the floor."""
    now = replace(ENGINE, version="1.0", details={"root": "org/m-awq"})

    with pytest.raises(EvidenceError, match="the reference came from another engine"):
        connecting.same_engine(capture(), Arm.REPEAT, 3, now)


def test_same_engine__the_same() -> None:
    """The same engine continues, and a candidate may be any."""
    observed = compared(WORLD, FakeEngine(WORLD), capture())

    connecting.same_engine(capture(), Arm.REPEAT, 3, replace(ENGINE, version="1.0"))
    connecting.same_engine(capture(), Arm.CANDIDATE, 0, replace(ENGINE, version="2.0"))
    connecting.same_engine(observed, Arm.CANDIDATE, 0, observed.engines[(Arm.CANDIDATE, 0)])


@pytest.mark.parametrize(
    ("evidence", "baseline"), [("ref", "ref"), ("ref/sub", "ref"), ("all", "all/ref")]
)
def test_run__evidence_within_baseline(tmp_path: Path, evidence: str, baseline: str) -> None:
    """A run never writes into the baseline's folder."""
    (tmp_path / baseline).mkdir(parents=True)
    options = RunOptions(
        tmp_path / evidence, endpoint="http://127.0.0.1:9", baseline=str(tmp_path / baseline)
    )

    with pytest.raises(ConfigError, match="are in one another"):
        session.run(options, progress=Quiet())

    assert not list((tmp_path / baseline).iterdir())


def test_run__no_baseline_there(tmp_path: Path) -> None:
    """A baseline that is not there is a mistake on the command line."""
    options = RunOptions(tmp_path / "e", endpoint="http://127.0.0.1:9", baseline="no-such-folder")

    with pytest.raises(ConfigError, match="--baseline no-such-folder: no such folder"):
        session.run(options, progress=Quiet())


def test_run__nobody_to_ask(tmp_path: Path) -> None:
    """Without an endpoint nothing is made."""
    with pytest.raises(ConfigError, match="no endpoint"):
        session.run(RunOptions(tmp_path / "e"), progress=Quiet())

    assert not list(tmp_path.iterdir())


def test_run__without_the_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that needs lm-evaluation-harness is refused without it before anything is made."""
    monkeypatch.setattr(harness, "_PACKAGE", "no_such_package_as_this")
    plan = tmp_path / "plan.yml"
    plan.write_text("stages: [{gsm8k: {backend: lm-eval, required: false}}]")
    options = RunOptions(tmp_path / "e", plan, "http://127.0.0.1:9")

    with pytest.raises(ConfigError, match="is not installed in this Python"):
        session.run(options, progress=Quiet())

    assert not (tmp_path / "e").exists()


def test_run__unreachable(tmp_path: Path) -> None:
    """An endpoint that nobody answers gives a report, NOT RUN, and the reason."""
    outcome = session.run(
        RunOptions(tmp_path / "e", endpoint="http://127.0.0.1:9"), progress=Quiet()
    )

    assert outcome.report.verdict.value == "NOT RUN"
    assert not outcome.complete
    assert "127.0.0.1:9" in outcome.problem
    assert session.verify(tmp_path / "e").ok


def test_render__altered_report(tmp_path: Path) -> None:
    """A report that was edited after the seal is not rendered as if it had been judged."""
    folder = tmp_path / "e"
    session.run(RunOptions(folder, endpoint="http://127.0.0.1:9"), progress=Quiet())
    report = folder / "report.json"
    report.write_text(report.read_text().replace("NOT RUN", "PASS"))

    with pytest.raises(EvidenceError, match=r"report\.json was altered since it was sealed"):
        session.render(folder)

    assert session.judge(folder).report.verdict.value == "NOT RUN"
    assert session.render(folder).report.verdict.value == "NOT RUN"


def test_relaunch__of_a_folder_that_is_none(tmp_path: Path) -> None:
    """A relaunch needs a captured reference."""
    with pytest.raises(ConfigError, match="no such folder"):
        session.run(
            RunOptions(tmp_path / "e", endpoint="http://127.0.0.1:9", launch=1), progress=Quiet()
        )


def test_relaunch__out_of_order(tmp_path: Path) -> None:
    """Relaunches are counted from 1 without gaps, so that the next step can name the next one."""
    options = RunOptions(tmp_path / "e", endpoint="http://127.0.0.1:9")
    session.run(options, progress=Quiet())

    with pytest.raises(ConfigError, match="--launch 9: 0 relaunches were observed"):
        session.run(replace(options, launch=9), progress=Quiet())


def planned(*stages: tuple[str, object]) -> Plan:
    specs = tuple(StageSpec(n, {} if c is None else {"concurrency": c}) for n, c in stages)
    return Plan(specs, "0" * 64, (), ())


@pytest.mark.parametrize(
    ("stages", "number"),
    [
        ([("gsm8k", 8), ("trajectory", "auto"), ("score", None)], None),
        ([("gsm8k", "auto"), ("trajectory", 4)], 4),
        ([("trajectory", 4), ("niah", 2)], 4),
        ([("sampling", None), ("niah", "auto"), ("gsm8k", 3)], 3),
        ([("sampling", None)], None),
    ],
)
def test_planned__traffic_is_the_trajectory(stages: list[tuple[str, object]], number: int) -> None:
    """How many requests traffic has is what the plan says of the trajectory, wherever in the plan
    it stands; what another stage says of itself counts only where there is no trajectory."""
    assert session._planned(planned(*stages)) == number
