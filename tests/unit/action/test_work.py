"""What steps tell each other is whole, private, and nothing else than what they said."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.action.test_bootstrap import Host, Installer

from iqaction.action.work import Decision, Ending, Endpoint, Measured, Work
from iqaction.circumstances import Circumstances
from iqaction.errors import ConfigError, EvidenceError
from iqaction.report import Acceptance, ChangedLine, Difference, Run

AROUND = Circumstances(
    Run("acme/serve", "pull_request", "a" * 40, "b" * 40, "1", 2, "https://github.com", "2026"),
    {"gpu": "H200"},
    "a log\nof lines",
    "a problem",
    (Difference("plan", "plan.yml", "- a\n+ b"),),
    (Acceptance("s", "score:kl", "", "0" * 12, "2027-01-31", "why", "jane"),),
    (ChangedLine("compose.yml", 3, "x: y"),),
    1,
    4,
)
THINGS = (
    Decision("skip", "nothing", 0, "plan.yml", "base", "found", "k" * 64, 7, suite="s"),
    Decision("measure", circumstances=AROUND),
    Endpoint("http://127.0.0.1:1", "why", "lease.json", "tail", {"a": "b"}),
    Ending(70, "it broke"),
    Measured(False, "it stopped"),
)


@pytest.mark.parametrize("thing", THINGS, ids=lambda t: type(t).__name__)
def test_work__gives_back_what_was_kept(tmp_path, thing):
    """Each thing comes back as it was, to another process."""
    Work(tmp_path / "w").keep(thing)

    found = getattr(Work(tmp_path / "w"), type(thing).__name__.lower())()

    assert found == thing


def test_work__nothing_is_none(tmp_path):
    """What no step kept is not there; the inputs must be."""
    work = Work(tmp_path)

    assert (work.decision(), work.endpoint(), work.ending(), work.measured()) == (None,) * 4
    with pytest.raises(ConfigError, match="the set-up step did not end"):
        work.inputs()


def test_work__the_later_counts(tmp_path):
    """A step that has more to say replaces what was said."""
    work = Work(tmp_path)
    work.keep(Measured(False))
    work.keep(Measured(True))

    assert work.measured() == Measured(True)


def test_work__is_private(tmp_path):
    """Another user of the runner reads nothing, whatever the umask is."""
    work = Work(tmp_path / "w")
    work.keep(THINGS[0])

    assert stat.S_IMODE(work.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in work.path.iterdir()} == {0o600}
    assert [p.name for p in work.path.iterdir()] == ["decision.json"]


@given(st.binary(max_size=200))
def test_work__any_bytes(tmp_path_factory, data):
    """A damaged file is an error that names it, and never a thing."""
    path = tmp_path_factory.mktemp("work")
    (path / "ending.json").write_bytes(data)

    with pytest.raises(EvidenceError, match=r"ending\.json"):
        Work(path).ending()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ending", '{"exit_code": "0", "reason": "x"}'),
        ("ending", '{"exit_code": 1, "reason": 1}'),
        ("ending", '{"exit_code": 1}'),
        ("measured", '{"complete": "no"}'),
        ("measured", '{"complete": 1}'),
        ("decision", '{"action": ["skip"]}'),
        ("decision", '{"action": "skip", "circumstances": "none"}'),
        ("endpoint", '{"endpoint": "http://x", "machine": "x"}'),
    ],
)
def test_work__another_type(tmp_path, name, text):
    """A value of another type is damage, and no decision: `"no"` would be true."""
    (tmp_path / f"{name}.json").write_text(text)

    with pytest.raises(EvidenceError, match="is damaged"):
        getattr(Work(tmp_path), name)()


def test_work__too_large(tmp_path):
    """Nothing that fills the memory is read."""
    with (tmp_path / "decision.json").open("wb") as file:
        file.truncate(1 << 25)

    with pytest.raises(EvidenceError, match="larger than"):
        Work(tmp_path).decision()


def test_set_up__inputs_are_private(tmp_path):
    """What the inputs hold, keys for a compose file among it, lies in the job's own folder below
    RUNNER_TEMP and is nobody else's to read."""
    host = Host(tmp_path)
    secret = {"IQ_INPUT_COMPOSE_ENV": "KEY=canary", "IQ_INPUT_GITHUB_TOKEN": "ghs_canary"}
    host.environ.update(secret)

    status, _ = host.setup(Installer())

    (work,) = host.temp.glob("inferquality-*")
    assert status == 0
    assert stat.S_IMODE(work.stat().st_mode) == 0o700
    assert stat.S_IMODE((work / "inputs.json").stat().st_mode) == 0o600
    assert Work(work).inputs() == {"compose_env": "KEY=canary"}
