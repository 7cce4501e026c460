"""A capture's own decisions: what it refuses, what it runs between two launches, where it goes on.

Real engines are captured in tests/integration/test_baseline_real.py.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.test_session import prompts, stored
from world import World as Synthetic
from world import without

from iqaction import capture, session
from iqaction.boot._base import World
from iqaction.calls import Arm
from iqaction.capture import Options
from iqaction.errors import BootError, ConfigError, EvidenceError
from iqaction.evidence.store import Folder
from iqaction.observed import Observed
from iqaction.progress import Quiet
from iqaction.session import RunOptions

SMALL = Synthetic(units=64, length=2)
PLAN = """\
stages:
  - trajectory: {prompts: prompts.jsonl, limit: 64, max_tokens: 2, top_logprobs: 20}
  - score: {legs: [reference, self]%s}
"""


@pytest.fixture
def address() -> Iterator[str]:
    """Where nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def options(home: Path, address: str, *, more: str = "", **changes: object) -> Options:
    (home / "plan.yml").write_text(PLAN % more)
    (home / "prompts.jsonl").write_bytes(prompts())
    run = RunOptions(home / "out", plan=home / "plan.yml", endpoint=address)
    return replace(Options(run, relaunch="true", timeout_s=5), **changes)  # type: ignore[arg-type]


def begun(asked: Options, observed: Observed) -> None:
    """The evidence of launches that were captured with the same plan."""
    plan = session.planned(replace(asked.run, capture=True))
    with Folder.create_or_continue(asked.folder, plan, prompts(), None) as folder:
        for (arm, launch), engine in observed.engines.items():
            folder.keep_engine(arm, launch, engine)
        for stage, kept in observed.seen.items():
            for observation in kept.values():
                folder.keep(stage, observation)


def start(asked: Options) -> capture.Captured:
    return capture.capture(asked, World(dict(os.environ)), Quiet())


def test_options__folder() -> None:
    """A packed baseline is made from a folder beside it; a folder is one."""
    run = RunOptions(Path("x/b.tar.gz"))

    assert Options(run).folder == Path("x/b.tar.gz.evidence")
    assert Options(replace(run, evidence=Path("x/b"))).folder == Path("x/b")


@pytest.mark.parametrize("launches", [0, 2])
def test_capture__too_few_launches(tmp_path: Path, address: str, launches: int) -> None:
    """Fewer than three relaunches are refused before anybody is asked, unless the plan goes
    without them."""
    with pytest.raises(ConfigError, match="noise between launches would not be known"):
        start(options(tmp_path, address, launches=launches))
    assert not (tmp_path / "out").exists()
    single = options(tmp_path, address, more=", floor: single", launches=launches)

    assert start(single).outcome.complete is False  # nobody is there to ask


def test_capture__out_is_a_folder(tmp_path: Path, address: str) -> None:
    """A packed baseline does not replace a folder."""
    (tmp_path / "b.tar.gz").mkdir()
    asked = options(tmp_path, address)
    with pytest.raises(ConfigError, match="is a folder"):
        start(replace(asked, run=replace(asked.run, evidence=tmp_path / "b.tar.gz")))


def test_capture__nobody_there(tmp_path: Path, address: str) -> None:
    """Without an engine nothing is captured and nothing packed; the same command continues."""
    asked = options(tmp_path, address)
    asked = replace(asked, run=replace(asked.run, evidence=tmp_path / "b.tar.gz"))
    found = start(asked)

    assert (found.outcome.complete, found.packed) == (False, "")
    assert not (tmp_path / "b.tar.gz").exists()


class Notes(Quiet):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize(
    ("content", "refused", "told"), [(b"my notes", True, False), (b"\x1f\x8bold", False, True)]
)
def test_capture__something_is_there(
    tmp_path: Path, address: str, content: bytes, refused: bool, told: bool
) -> None:
    """A file that is no packed baseline is never replaced; that one is will be is said before
    anybody is asked, and it stays where nothing was captured."""
    out, notes = tmp_path / "b.tar.gz", Notes()
    out.write_bytes(content)
    asked = options(tmp_path, address)
    asked = replace(asked, run=replace(asked.run, evidence=out))

    if refused:
        with pytest.raises(ConfigError, match="is no packed baseline"):
            capture.capture(asked, World(dict(os.environ)), notes)
    else:
        capture.capture(asked, World(dict(os.environ)), notes)

    assert out.read_bytes() == content
    assert any("replaces it" in line for line in notes.notes) == told


# --- the relaunch command -------------------------------------------------------------------


def after_reference(tmp_path: Path, address: str, command: str, **changes: object) -> Options:
    """A capture whose reference is complete: the first thing it does is to relaunch."""
    asked = options(tmp_path, address, relaunch=command, **changes)
    observed = SMALL.capture(launches=0)
    begun(asked, observed)
    return asked


def complete(monkeypatch: pytest.MonkeyPatch, *launches: int) -> None:
    """The synthetic world's answers carry no digests of calls: say which launches are whole."""
    monkeypatch.setattr(capture, "_is_complete", lambda kept, plan, launch: launch in launches)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo before; echo no such container >&2; exit 3", "ended with exit code 3"),
        ("no-such-program-here", "ended with exit code 127 (a program was not found)"),
        ("kill -9 $$", "was ended by SIGKILL"),
        ("echo started; sleep 60", "did not end within 0.5 s"),
    ],
)
def test_relaunch__fails(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    """A command that fails or does not end is told with what it printed, and ends in time."""
    asked = after_reference(tmp_path, address, command, timeout_s=0.5 if "sleep" in command else 30)
    complete(monkeypatch, 0)
    begun_at = time.monotonic()
    with pytest.raises(BootError) as caught:
        start(asked)

    assert said in caught.value.happened
    for word in ("no such container", "started"):
        assert (word in caught.value.happened) is (f"echo {word}" in command)
    assert "it continues where it stopped" in caught.value.next_step
    assert time.monotonic() - begun_at < 20


def test_relaunch__hides_the_key(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that the command prints is not in the error; control characters are not obeyed."""
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    asked = after_reference(tmp_path, address, "printf 'key %s \\033[2J\\n' $MY_KEY; exit 1")
    asked = replace(asked, run=replace(asked.run, api_key_env="MY_KEY"))
    complete(monkeypatch, 0)
    with pytest.raises(BootError) as caught:
        start(asked)

    assert "key ***" in caught.value.happened
    assert "sk-very" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_relaunch__hides_other_secrets(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what the environment calls a secret nor what the command itself does is in the error;
    what is none stays to be read."""
    monkeypatch.setenv("HF_TOKEN", "hf_canary_0123")
    monkeypatch.setenv("MODEL_DIR", "/models/canary")
    command = "echo $HF_TOKEN in $MODEL_DIR; PW_SECRET=canary-pw sh -c 'echo $PW_SECRET'; exit 1"
    asked = after_reference(tmp_path, address, command)
    complete(monkeypatch, 0)
    with pytest.raises(BootError) as caught:
        start(asked)

    assert "*** in /models/canary\n    ***" in caught.value.happened


def test_relaunch__does_not_come_up(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that never generates is given up at the deadline, and nothing was recorded."""
    asked = after_reference(tmp_path, address, "true", timeout_s=0.5)
    complete(monkeypatch, 0)
    with pytest.raises(BootError, match="it has generated nothing within") as caught:
        start(asked)

    assert "raise --relaunch-timeout" in caught.value.next_step
    with Folder.open(asked.folder) as folder:
        assert folder.load().launches == ()


def test_relaunch__does_not_return(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that never returns is not waited for in silence: for how long is said, and after a
    minute what it may be."""
    asked = after_reference(tmp_path, address, "echo serving; sleep 60", timeout_s=100)
    complete(monkeypatch, 0)
    told, now = Notes(), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += 5

    world = World(dict(os.environ), clock=lambda: now[0], sleep=sleep)
    with pytest.raises(BootError) as caught:
        capture.capture(asked, world, told)
    waits = [note for note in told.notes if "relaunch command to return" in note]

    assert [w.partition("return, ")[2].partition(" s")[0] for w in waits] == ["30", "60", "90"]
    assert [("in the foreground" in w, "nohup" in w) for w in waits] == [
        (False, False),
        (True, True),
        (True, True),
    ]
    assert "did not end within 100 s (--relaunch-timeout)" in caught.value.happened
    assert "nohup" in caught.value.expected


def test_relaunch__waits_for_the_server(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the server does not answer, why and for how long is said, without its own log."""
    asked = after_reference(tmp_path, address, "echo a line of the server", timeout_s=70)
    complete(monkeypatch, 0)
    told, now = Notes(), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += 5
        time.sleep(0.01)  # the probe and the command run beside us

    world = World(dict(os.environ), clock=lambda: now[0], sleep=sleep)
    with pytest.raises(BootError):
        capture.capture(asked, world, told)

    assert any(note.startswith("waiting for the endpoint, 30 s: ") for note in told.notes)
    assert not any("a line of the server" in note for note in told.notes)


def test_relaunch__server_outlives_it(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command leaves in the background neither holds it up nor is ended with it."""
    command = f"sleep 30 & echo $! > {tmp_path}/pid"
    asked = after_reference(tmp_path, address, command, timeout_s=0.5)
    complete(monkeypatch, 0)
    with pytest.raises(BootError, match="did not come up"):
        start(asked)
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, 0)  # it is there
    os.kill(pid, 9)


# --- going on -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restarted", "command", "said"),
    [(True, "", "after restarts of the server"), (False, "true", "without restarting the server")],
)
def test_capture__not_mixed(
    tmp_path: Path,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    restarted: bool,
    command: str,
    said: str,
) -> None:
    """Launches after a restart and repeats on one launch are not mixed in one capture."""
    asked = options(tmp_path, address, relaunch=command)
    observed = SMALL.capture(launches=1)
    engines = {
        (arm, n): replace(e, not_restarted=arm is Arm.REPEAT and not restarted)
        for (arm, n), e in observed.engines.items()
    }
    begun(asked, replace(observed, engines=engines))
    complete(monkeypatch, 0, 1)
    with pytest.raises(ConfigError, match=said):
        start(asked)


def test_capture__complete(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete capture asks nobody, runs no command, and packs the same bytes again."""
    asked = options(tmp_path, address, relaunch="exit 9", launches=3)
    asked = replace(asked, run=replace(asked.run, evidence=tmp_path / "b.tar.gz"))
    begun(asked, SMALL.capture(launches=3))
    complete(monkeypatch, 0, 1, 2, 3)
    first = start(asked)
    data = (tmp_path / "b.tar.gz").read_bytes()
    (tmp_path / "b.tar.gz").unlink()
    again = start(asked)

    assert (first.outcome.complete, first.refused) == (True, False)
    assert again.is_old
    assert (again.packed, again.size) == (first.packed, len(data))
    assert (tmp_path / "b.tar.gz").read_bytes() == data


def test_capture__refused(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the judge refuses is not packed."""
    asked = options(tmp_path, address, launches=3)
    asked = replace(asked, run=replace(asked.run, evidence=tmp_path / "b.tar.gz"))
    observed = SMALL.capture(launches=3)
    engines = dict(observed.engines)
    engines[Arm.REPEAT, 2] = replace(engines[Arm.REPEAT, 2], details={"quant": "q4"})
    begun(asked, replace(observed, engines=engines))
    complete(monkeypatch, 0, 1, 2, 3)
    found = start(asked)

    assert (found.refused, found.packed) == (True, "")
    assert "another engine than the reference" in found.outcome.report.problems[0]
    assert not (tmp_path / "b.tar.gz").exists()


def test_is_complete__another_plan(tmp_path: Path, address: str) -> None:
    """Evidence of another plan is not taken for this capture's: continuing it is refused."""
    asked = options(tmp_path, address)
    begun(asked, SMALL.capture(launches=0))
    (tmp_path / "plan.yml").write_text((PLAN % "").replace("limit: 64", "limit: 63"))
    with pytest.raises(EvidenceError, match="holds the evidence of another plan"):
        start(asked)


def test_is_complete__something_is_left(tmp_path: Path) -> None:
    """A launch of which one answer is missing, or which is another question's, is not complete."""
    observed = SMALL.capture(launches=1)
    folder = stored(tmp_path / "x", without(observed, "score", lambda tag: tag.launch == 1))
    with Folder.open(folder) as opened:
        kept = opened.load()

    # The synthetic answers are to no question that a stage asks: all of it is left.
    assert not capture._is_complete(kept, kept.plan, 0)
    assert not capture._is_complete(kept, kept.plan, 1)
    assert not capture._is_complete(kept, kept.plan, 2)


def test_asks_nothing__without_score() -> None:
    """Texts alone are asked of no relaunch: the server is not restarted for nothing."""
    observed = SMALL.capture(launches=0)
    texts = replace(observed, plan=replace(observed.plan, stages=observed.plan.stages[:1]))

    assert capture._asks_nothing(texts, 1)
    assert not capture._asks_nothing(observed, 1)
